"""Pools that are killed again and again, and tasks that must not run together."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest
from waits import PATIENCE, until
from workshop import CONFIG

from taskpit.keeper import sweep
from taskpit.model import State

pytestmark = pytest.mark.races

TASKS = 200 if os.environ.get("TASKPIT_LONG") else 40
#: After so many kills the rest is left in peace: a busy machine would never end a task between two of them.
MOST_KILLS = TASKS // 3


def children(pid):
    """The commands a pool runs just now, each begun by a thread of its own."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(FileNotFoundError, ProcessLookupError),
                open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file,
            ):
                found += map(int, file.read().split())
    return found


def hit(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def test_every_task_ends_once_whoever_is_killed(pit):
    pit.configure(CONFIG + "choke = 1000\n")  # the same command may well be hit three times in a row
    pit.put(*(f"task {number}" for number in range(TASKS)), max_attempts=1000)
    script = 'echo "$TASKPIT_TASK" >> ran; sleep 0.03'
    choose = random.Random(7)
    kills = {"pools": 0, "commands": 0}
    pool = pit.start("-n", "8", "--until", "empty", "--", "sh", "-c", script)
    deadline = time.monotonic() + 2 * PATIENCE
    while pit.queue.store.counts()[State.DONE] < TASKS:
        assert time.monotonic() < deadline, pit.queue.store.counts()
        until(lambda pool=pool: pool.poll() is not None or children(pool.pid))
        if sum(kills.values()) >= MOST_KILLS:
            pass
        elif not kills["pools"] or choose.random() < 0.2:
            kills["pools"] += hit(pool.pid)
        elif children(pool.pid):
            kills["commands"] += hit(choose.choice(children(pool.pid) or [pool.pid]))
        if pool.poll() is not None:
            pool = pit.start("-n", "8", "--until", "empty", "--", "sh", "-c", script)
        time.sleep(choose.random() * 0.2)  # how long it is left in peace: part of the test, not a wait
    pool.terminate()
    pool.wait()
    pit.queue.store.folder.grace = 0.0  # a pool that was killed just now may have left the last step of an end
    sweep(pit.queue)

    assert pit.queue.store.counts() == {State.READY: 0, State.CLAIMED: 0, State.DONE: TASKS, State.FAILED: 0}
    assert len(os.listdir(f"{pit.root}/done")) == TASKS
    with open(f"{pit.root}/ran", encoding="ascii") as file:
        ran = file.read().split()
    assert set(ran) == {f"{number:04d}" for number in range(1, TASKS + 1)}
    assert kills["pools"] > 0
    assert kills["commands"] > 0
    print(f"{kills} kills, {len(ran) - TASKS} double executions, {TASKS} results")


def test_tasks_that_touch_the_same_never_overlap_in_time(pit):
    globs = ("src/api/*.py", "src/api/login.py", "src/**", "docs/*.md", "docs/index.md", "tests/")
    for number in range(TASKS):
        pit.put(f"task {number}", touches=(globs[number % len(globs)],))
    pool = pit.start("-n", "8", "--until", "empty", "--", "true")
    until(lambda: pool.poll() is not None)
    assert pit.queue.store.counts()[State.DONE] == TASKS

    group = {f"{number + 1:04d}": globs[number % len(globs)].partition("/")[0] for number in range(TASKS)}
    running: dict[str, str] = {}
    together = 0
    for event in pit.queue.store.events(limit=100_000)[0]:
        if event.action == "claimed_task":
            assert group[event.task_id] not in {group[other] for other in running}, (event, running)
            running[event.task_id] = event.worker
            together = max(together, len(running))
        elif event.action == "completed_task":
            del running[event.task_id]
    assert together > 1  # others did run beside them
