# A night's work: fill the queue, let two workers at it until a time, say in the morning how it went.
set -e
test -d pit || pit init > log
pit import backlog.jsonl
# With a real agent: pit work -n 2 --agent claude --until 07:00 --budget '$20/day' --land merge
pit work -n 2 --until empty --limit 10m -- sh agent.sh >> log
echo "Done:"
pit list --state done
echo "Failed:"
pit list --state failed
pit why licence
