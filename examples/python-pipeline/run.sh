# Two processes share the work; both print the one result.
set -e
test -d numbers || { pit init numbers > log; echo 'backoff = "1s"' > numbers/.taskpit/config.toml; }
python pipeline.py 1 & python pipeline.py 2
wait
pit -C numbers stats | grep -iE "^done|claims"
