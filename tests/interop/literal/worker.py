"""A worker as each layout's document describes it, with the standard library alone: `worker.py LAYOUT ROOT NAME`."""

import contextlib
import datetime as dt
import glob
import json
import os
import re
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


LEASE = 3
OPEN = re.compile(r"^  - id: (WI-\d+-A1)\n(?:    .*\n)*?    (status: (?:pending|in_progress))\n", re.MULTILINE)


def moment(seconds=0):
    """The time then, as lock files and progress say it."""
    then = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def act(path):
    """One activity of a work item."""
    text = read(path)
    found = OPEN.search(text)
    if found is None or "\ntitle: task" not in text:
        return
    folder = os.path.dirname(path)
    lock = f"{folder}/locks/{found[1]}.lock"
    try:
        expires = json.loads(read(lock))["expires"]
    except FileNotFoundError:
        expires = ""
    except ValueError:
        return  # another worker has not written it yet
    if expires >= moment():
        return
    if expires:
        os.unlink(lock)
    os.makedirs(f"{folder}/locks", exist_ok=True)
    with contextlib.suppress(FileExistsError), open(lock, "x", encoding="utf-8") as file:
        json.dump({"holder": ME, "holder_type": "agent", "acquired": moment(), "expires": moment(LEASE)}, file)
        file.close()
        complete(folder, path)
        os.unlink(lock)


def complete(folder, path):
    """The activity is completed, unless it has ended meanwhile."""
    text = read(path)
    found = OPEN.search(text)
    if found is None:
        return
    said = f"status: completed\n    completed_by: {ME}\n    completed_at: '{moment()}'"
    with open(f"{folder}/.{ME}.tmp", "w", encoding="utf-8") as file:
        file.write(text[: found.start(2)] + said + text[found.end(2) :])
    os.rename(f"{folder}/.{ME}.tmp", path)
    event = {"timestamp": moment(), "worker": ME, "worker_type": "agent", "action": "completed_activity"}
    with open(f"{folder}/changelog.log", "a", encoding="utf-8") as log:
        log.write(json.dumps({**event, "activity_id": found[1]}) + "\n")


def read(path):
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


PLACES = {"pit": ("food/food-task*.md", eat), "workspace": ("tasks/task*_pending.md", take)}
PLACES |= {"mailbox": ("inbox/task*.json", fetch), "activities": ("WI-*/progress.yaml", act)}
pattern, work = PLACES[LAYOUT]
while True:
    for found in glob.glob(f"{ROOT}/{pattern}"):
        with contextlib.suppress(FileNotFoundError):  # another worker was faster
            work(found)
            time.sleep(0.05)
    time.sleep(0.02)
