#!/bin/sh
# The cleanup snake: what lies in claimed/ longer than 15 minutes goes back to food/. Run as: cleanup.sh PIT
find "$1/claimed" -name '*.food-*.md' -mmin +15 | while read -r claimed; do
  name=${claimed##*/}
  mv "$claimed" "$1/food/${name#*.}"
  echo "$name"
done
