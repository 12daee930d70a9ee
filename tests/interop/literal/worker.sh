#!/bin/sh
# A worker as each layout's document describes it: mv, cat, rm, and nothing of ours. What is called red* is left to
# others, since its check cannot be green. Run as: worker.sh LAYOUT ROOT NAME
layout=$1 root=$2 me=$3

eat() { # one piece of food of a pit
  name=${1##*/}
  mv "$1" "$root/claimed/$me.$name" 2>/dev/null || return
  cat "$root/claimed/$me.$name" > "$root/scraps/.$me.$name" 2>/dev/null || return
  mv "$root/scraps/.$me.$name" "$root/done/${name%.md}.result.md"
  rm -f "$root/claimed/$me.$name"
}

take() { # one task of a workspace
  id=${1##*/} id=${id%_pending.md}
  mv "$1" "$root/tasks/${id}_inprogress_$me.md" 2>/dev/null || return
  echo "$id by $me" > "$root/outputs/${id}_result.md"
  mv "$root/tasks/${id}_inprogress_$me.md" "$root/tasks/${id}_done.md" 2>/dev/null
}

fetch() { # one message of a mailbox
  id=${1##*/} id=${id%.json}
  mv "$1" "$root/processing/$id.json" 2>/dev/null || return
  printf '{"task_id": "%s", "status": "completed", "verdict": "pass", "output": "%s by %s"}\n' "$id" "$id" "$me" \
    > "$root/.tmp/$id-$me.tmp"
  mv "$root/.tmp/$id-$me.tmp" "$root/outbox/${id}_result.json"
  rm -f "$root/processing/$id.json"
}

while :; do
  case $layout in
    pit) for one in "$root"/food/food-task*.md; do [ -e "$one" ] && eat "$one" && sleep 0.05; done ;;
    workspace) for one in "$root"/tasks/task*_pending.md; do [ -e "$one" ] && take "$one" && sleep 0.05; done ;;
    mailbox) for one in "$root"/inbox/task*.json; do [ -e "$one" ] && fetch "$one" && sleep 0.05; done ;;
  esac
  sleep 0.02
done
