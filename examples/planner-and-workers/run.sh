# One planner, two workers, until nothing is left.
set -e
pit init > log
pit add "Write a book" --id book --big --check "test -s book.txt"
pit work --big --max-tasks 1 --as planner -- sh plan.sh >> log     # cuts it up
pit list
pit work -n 2 --until empty -- sh worker.sh >> log                # does the parts
pit work --big --until empty --as planner -- sh worker.sh >> log   # puts them together
cat book.txt
