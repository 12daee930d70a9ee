"""Many processes at once: each id is created once, each task done once, nobody falls over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from pits import misplaced, task
from rotation import LONG
from waits import PATIENCE

from taskpit.model import Done, Said, State
from taskpit.queue import Queue
from taskpit.store.opening import init

pytestmark = pytest.mark.races

HERE = os.path.dirname(__file__)
FAST = 'durability = "process"\n'

#: Tasks for the crowd.
MANY = 2000 if LONG else 250


def make(root):
    init(root, "pit")
    with open(f"{root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write(FAST)
    return Queue.open(root)


def crowd(root, actor, words):
    """One process per word, all let loose at the same moment; what each of them printed."""
    start = f"{root}/.start"
    processes = [
        subprocess.Popen(
            [sys.executable, f"{HERE}/actors/{actor}.py", root, start, word],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for word in words
    ]
    for process in processes:
        assert process.stdout.readline() == "here\n"
    with open(start, "w", encoding="utf-8"):
        pass
    said = []
    for process in processes:
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, ""), err
        said.append(out.split("\n")[:-1])
    os.unlink(start)
    return said


@pytest.mark.parametrize("state", ["unknown", "claimed", "done"])
def test_eight_processes_put_one_id(state, tmp_path):
    queue = make(str(tmp_path / "pit"))
    expected = Counter({"created": 1, "conflict": 7})
    if state != "unknown":
        queue.store.put([task(1, slug="one", title="title 0")])
        (claim,) = queue.claim("snake")
        expected = Counter({"exists": 1, "conflict": 7})
        if state == "done":
            queue.finish(claim, Done())
    said = crowd(str(tmp_path / "pit"), "putter", [f"title {number}" for number in range(8)])
    assert Counter(words[0] for words in said) == expected
    if state == "unknown":
        winner = said.index(["created"])
        assert queue.card("0001").task.title == f"title {winner}"
    assert misplaced(queue) == {}
    queue.close()


def test_eight_processes_put_the_same(tmp_path):
    queue = make(str(tmp_path / "pit"))
    said = crowd(str(tmp_path / "pit"), "putter", ["the same"] * 8)
    assert Counter(words[0] for words in said) == Counter({"created": 1, "exists": 7})
    assert queue.store.counts()[State.READY] == 1
    queue.close()


def test_sixteen_processes_over_many_tasks(tmp_path):
    """Each task is claimed and finished exactly once, and every process ends well."""
    queue = make(str(tmp_path / "pit"))
    tasks = [task(number) for number in range(1, MANY + 1)]
    assert set(queue.store.put(tasks)) == {Said.CREATED}
    said = crowd(str(tmp_path / "pit"), "worker", [f"snake-{number}" for number in range(16)])
    done = Counter(line.split()[0] for lines in said for line in lines)
    assert done == Counter(one.id for one in tasks)
    assert queue.store.counts() == {State.READY: 0, State.CLAIMED: 0, State.DONE: MANY, State.FAILED: 0}
    assert sum(1 for event in queue.store.events(limit=10**6)[0] if event.action == "claimed_task") == MANY
    assert sum(1 for lines in said if lines) > 1
    assert misplaced(queue) == {}
    queue.close()
