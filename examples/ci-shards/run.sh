# A queue of test files. Each runner takes one after the other: no shard is longer than the others, and a
# runner that dies in the middle costs one file, not a shard.
set -e
sh make-tests.sh
pit init > log
echo 'backoff = "1s"' > pit/.taskpit/config.toml
for file in suite/*.sh; do
  pit add "Run $file" --id "$(basename "$file" .sh)" >> log
done
# In CI each job runs this line, on a disk they share. Here two runners on one machine.
pit work -n 2 --as runner --limit 10m --until empty -- sh -c 'sh "suite/$TASKPIT_TASK.sh"' >> log
for file in suite/*.sh; do
  pit show "$(basename "$file" .sh)" | grep "is fine"
done
pit stats | grep -iE "done|failed|claims"
