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

act() { # one activity of a work item
  folder=${1%/progress.yaml}
  grep -q '^title: task' "$1" && grep -qE '^    status: (pending|in_progress)$' "$1" || return
  id=$(sed -n 's/^  - id: \(WI-[0-9]*-A1\)$/\1/p' "$1") now=$(date -u +%FT%TZ)
  lock=$folder/locks/$id.lock
  [ "$id" ] || return
  if [ -e "$lock" ]; then
    until=$(sed -n 's/.*"expires": "\([^"]*\)".*/\1/p' "$lock" 2>/dev/null)
    [ "$until" ] && expr "$until" \< "$now" > /dev/null || return
    rm -f "$lock"
  fi
  mkdir -p "$folder/locks"
  until=$(date -u -d '+3 seconds' +%FT%TZ)
  (set -C; printf '{"holder": "%s", "holder_type": "agent", "acquired": "%s", "expires": "%s"}\n' "$me" "$now" "$until" > "$lock") \
    2>/dev/null || return
  said="status: completed\n    completed_by: $me\n    completed_at: '$now'"
  sed -E "s/^    status: (pending|in_progress)$/    $said/" "$1" > "$folder/.$me.tmp" && mv "$folder/.$me.tmp" "$1"
  printf '{"timestamp": "%s", "worker": "%s", "worker_type": "agent", "action": "completed_activity", "activity_id": "%s"}\n' \
    "$now" "$me" "$id" >> "$folder/changelog.log"
  rm -f "$lock"
}

while :; do
  case $layout in
    pit) for one in "$root"/food/food-task*.md; do [ -e "$one" ] && eat "$one" && sleep 0.05; done ;;
    workspace) for one in "$root"/tasks/task*_pending.md; do [ -e "$one" ] && take "$one" && sleep 0.05; done ;;
    activities) for one in "$root"/WI-*/progress.yaml; do [ -e "$one" ] && act "$one" && sleep 0.05; done ;;
    mailbox) for one in "$root"/inbox/task*.json; do [ -e "$one" ] && fetch "$one" && sleep 0.05; done ;;
  esac
  sleep 0.02
done
