"""Workers written from the layouts' own documents in other languages, beside ours, in one folder."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections import Counter

import mixed as mixed_runs
import pytest
from boxes import load, make_fast, python, reopened, write
from waits import PATIENCE

from taskpit.keeper import sweep
from taskpit.model import Done, State, Task
from taskpit.queue import Queue

HERE = os.path.dirname(__file__)
COUNT = 90
OURS = """
import sys
from taskpit.queue import Queue
from taskpit.model import Done, Release, Said
queue = Queue.open(sys.argv[1])
back = 0
while claims := queue.claim(sys.argv[2], count=3):
    for claim in claims:
        back += 1
        if back % 5 == 0:
            queue.finish(claim, Release())
        elif queue.finish(claim, Done(output=f"{claim.task.id} by {sys.argv[2]}"))[0] is Said.OK:
            print(claim.task.id, flush=True)
queue.close()
"""


def in_go(tmp_path):
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: scripts/system-packages foreign")
    built = str(tmp_path / "worker")
    subprocess.run(["go", "build", "-o", built, f"{HERE}/literal/mailbox.go"], check=True, timeout=PATIENCE)
    return [built]


def in_node(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: scripts/system-packages foreign")
    return ["node", f"{HERE}/literal/mailbox.js"]


@pytest.mark.races
@pytest.mark.parametrize("language", [in_go, in_node], ids=["go", "node"])
def test_a_literal_worker_and_two_of_ours(language, tmp_path):
    """Each task is done once and has one result; what ours claim and give back, the other reads."""
    command, box = language(tmp_path), make_fast(tmp_path / "box", "mailbox")
    queue = Queue.open(box)
    wanted = {f"task_{number}" for number in range(COUNT)}
    queue.store.put([Task(id=task_id, title=task_id, priority=3, tags=("x",)) for task_id in sorted(wanted)])
    queue.close()
    theirs = subprocess.Popen([*command, box], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    crew = [theirs, *(python(OURS, box, name) for name in ("one", "two"))]
    done: Counter[str] = Counter()
    for worker in crew:
        out, err = worker.communicate(timeout=PATIENCE)
        assert (worker.returncode, err) == (0, "")
        done.update(out.split())
    queue = reopened(box, "mailbox")
    for claim in queue.claim("last", count=COUNT):  # what was given back when nobody looked any more
        queue.finish(claim, Done(output=f"{claim.task.id} by last"))
        done.update([claim.task.id])
    sweep(queue)
    assert sweep(queue) == []
    assert (set(done), set(done.values())) == (wanted, {1})
    assert queue.store.counts() == {State.READY: 0, State.CLAIMED: 0, State.DONE: COUNT, State.FAILED: 0}
    for task_id in wanted:
        assert load(f"{box}/outbox/{task_id}_result.json")["output"].startswith(f"{task_id} by ")
    assert os.listdir(f"{box}/.taskpit/quarantine") == []
    queue.close()


@pytest.mark.races
@pytest.mark.parametrize("layout", mixed_runs.LAYOUTS)
def test_literal_workers_and_pools_of_ours_killed_at_random(layout, tmp_path):
    """Nothing is lost, has two outcomes after a sweep or is done unchecked; no pool ends by itself. `make faults`
    does it for ten minutes.
    """
    mixed = mixed_runs.Mixed(str(tmp_path / "queue"), layout, random.Random(layout))
    mixed.run(1.0)
    assert mixed.judge() == []
    assert len(mixed.put) > 10
    assert mixed.counts["kills"] > 0


def test_the_judge_of_the_mixed_run_sees_what_is_wrong(tmp_path, monkeypatch):
    """Or its silence would mean nothing. A sweep would leave one of two outcomes."""
    monkeypatch.setattr(mixed_runs, "sweep", lambda _queue: [])
    mixed = mixed_runs.Mixed(str(tmp_path / "queue"), "mailbox", random.Random(1))
    for name in ("task1", "task2", "red3"):
        mixed.put.append(name)
        mixed._move_in(name, "false")
    for name in ("task2", "red3"):
        os.unlink(f"{mixed.root}/inbox/{name}.json")
        result = {"task_id": name, "status": "completed", "verdict": "pass", "output": name}
        write(f"{mixed.root}/outbox/{name}_result.json", json.dumps(result))
    write(f"{mixed.root}/failed/task2_error.json", json.dumps({"task_id": "task2", "error": "no"}))
    mixed.put.append("task4")
    mixed.exits.append("exit 8")
    said = " ".join(mixed.judge())
    for word in ("ended by itself", "task4 is lost", "task2 has two outcomes", "red3 was done without its check"):
        assert word in said
