"""A worker as each layout's document describes it, with the standard library alone: `worker.py LAYOUT ROOT NAME`."""

import contextlib
import glob
import json
import os
import sys
import time

LAYOUT, ROOT, ME = sys.argv[1:]


def eat(path):
    """One piece of food of a pit."""
    name = os.path.basename(path)
    claimed = f"{ROOT}/claimed/{ME}.{name}"
    os.rename(path, claimed)
    with open(claimed, encoding="utf-8") as food, open(f"{ROOT}/scraps/.{ME}.{name}", "w", encoding="utf-8") as result:
        result.write(food.read())
    os.rename(f"{ROOT}/scraps/.{ME}.{name}", f"{ROOT}/done/{name.removesuffix('.md')}.result.md")
    os.unlink(claimed)


def take(path):
    """One task of a workspace."""
    name = os.path.basename(path).removesuffix("_pending.md")
    claimed = f"{ROOT}/tasks/{name}_inprogress_{ME}.md"
    os.rename(path, claimed)
    with open(f"{ROOT}/outputs/{name}_result.md", "w", encoding="utf-8") as result:
        result.write(f"{name} by {ME}\n")
    os.rename(claimed, f"{ROOT}/tasks/{name}_done.md")


def fetch(path):
    """One message of a mailbox."""
    name = os.path.basename(path).removesuffix(".json")
    claimed, scratch = f"{ROOT}/processing/{name}.json", f"{ROOT}/.tmp/{name}-{ME}.tmp"
    os.rename(path, claimed)
    with open(scratch, "w", encoding="utf-8") as result:
        json.dump({"task_id": name, "status": "completed", "verdict": "pass", "output": f"{name} by {ME}"}, result)
    os.rename(scratch, f"{ROOT}/outbox/{name}_result.json")
    os.unlink(claimed)


PLACES = {"pit": ("food/food-task*.md", eat), "workspace": ("tasks/task*_pending.md", take)}
PLACES["mailbox"] = ("inbox/task*.json", fetch)
pattern, work = PLACES[LAYOUT]
while True:
    for found in glob.glob(f"{ROOT}/{pattern}"):
        with contextlib.suppress(FileNotFoundError):  # another worker was faster
            work(found)
            time.sleep(0.05)
    time.sleep(0.02)
