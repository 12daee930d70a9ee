#!/bin/sh
# A snake as the document describes it: mv, cat, rm, and nothing of ours. Run as: snake.sh PIT NAME START
pit=$1 me=$2 start=$3
echo here
while [ ! -e "$start" ]; do sleep 0.01; done
idle=0
while [ $idle -lt 5 ]; do
  idle=$((idle + 1))
  for food in "$pit"/food/food-*.md; do
    name=${food##*/}
    [ -e "$food" ] || continue
    mv "$food" "$pit/claimed/$me.$name" 2>/dev/null || continue
    idle=0
    cat "$pit/claimed/$me.$name" > "$pit/scraps/.$me.$name" 2>/dev/null || continue
    mv "$pit/scraps/.$me.$name" "$pit/done/${name%.md}.result.md"
    rm -f "$pit/claimed/$me.$name"
    echo "${name%.md}"
  done
done
