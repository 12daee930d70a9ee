"""Several at one work item: no change is lost, the file can be read at every moment, and people may save it too."""

from __future__ import annotations

import os
import shutil

import pytest
from boxes import ended, python
from faults import Stopped
from waits import PATIENCE
from workitems import (
    FIRST,
    ITEM,
    LEASE,
    SECOND,
    by_hand,
    comments,
    file_of,
    load,
    make,
    put,
    reopened,
    save,
    steps,
    take,
)

from taskpit.errors import Unavailable
from taskpit.layouts import yamltext
from taskpit.model import Done, Release, Said
from taskpit.store import flock
from taskpit.store.activities import steps as moves
from taskpit.testing import FakeClock

#: How often each of two workers changes one of its tasks.
TIMES = 200 if os.environ.get("TASKPIT_LONG") else 12
MOST = 200
DOCUMENT = """\
# two at once
version: 1
title: Ship the login   # soon
activities:
  - id: A1   # hers
    tasks:
      - {id: T1, title: one, owner: ann}
      - {id: T2, title: two}
  # and his
  - id: A2
    tasks:
      - {id: T1, title: one}
      - id: T2
        title: two   # the last
"""
#: Starts its two tasks in turn and leaves them again with a number; reads back each change, and the other task's.
WORKER = """
import sys
from taskpit.queue import Queue
from taskpit.store.activities import steps
root, activity, worker, times = sys.argv[1:]
queue = Queue.open(root)
items = queue.store.items
assert queue.claim(worker, ids=[activity], verbatim=True, kind="human")
print("ready", flush=True)
sys.stdin.readline()
told = {}
for number in range(int(times)):
    step = f"{activity}-T{number // 2 % 2 + 1}"
    if number % 2:
        steps.await_human(items, step, worker, "human", str(number))
        told[step] = "awaiting_human", str(number)
    else:
        steps.start(items, step, worker)
        told[step] = "in_progress", told.get(step, ("", None))[1]
    for step, (status, notes) in told.items():
        found = items.get(activity[:6]).step_entry(step)[0]
        assert (found["status"], found.get("notes")) == (status, notes), (number, dict(found))
print("done")
"""
#: Reads without pause, as any other program would.
READER = """
import sys
from taskpit.layouts import yamltext
path, last, seen = sys.argv[1], 0, 0
print("ready", flush=True)
sys.stdin.readline()
while True:
    with open(path, "rb") as file:
        data = file.read()
    document = yamltext.load(data)
    assert document["version"] >= last, "never back"
    assert data.count(b"# ") == 5, data
    last, seen = document["version"], seen + 1
    if last >= int(sys.argv[2]):
        print(seen)
        break
"""


@pytest.mark.races
@pytest.mark.timeout(300)
def test_two_processes_change_different_tasks(tmp_path):
    root = str(tmp_path / "queue")
    queue = make(root)
    path = by_hand(queue, DOCUMENT)
    (tmp_path / "queue/.taskpit/config.toml").write_text('durability = "process"\n')
    last = 1 + 2 + 2 * TIMES  # as it was, two claims, and every change
    workers = [python(WORKER, root, activity, f"w-{activity[-1]}", TIMES) for activity in (FIRST, SECOND)]
    reader = python(READER, path, last)
    everybody = [*workers, reader]
    try:
        for process in everybody:
            assert process.stdout.readline() == "ready\n", process.communicate(timeout=PATIENCE)[1]
        for process in everybody:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [ended(process) for process in workers] == ["done\n"] * 2
        assert load(path)["version"] == last, "every change counts"
        assert int(ended(reader)) > 1
    finally:
        for process in everybody:
            if process.poll() is None:
                process.kill()
                process.wait()
    found = queue.store.items.get(ITEM)
    for activity in (FIRST, SECOND):
        notes = [found.step_entry(f"{activity}-T{number}")[0]["notes"] for number in (1, 2)]
        assert notes == [str(TIMES - 3), str(TIMES - 1)]
    assert comments(path.read_text()) == comments(DOCUMENT)
    queue.close()


def stops(where, work):
    """For each call of the work: it stands still before it; the queue as another has it."""
    for number in range(1, MOST):
        clock, root = FakeClock(), f"{where}/{number}"
        queue = make(root, clock)
        by_hand(queue, DOCUMENT)
        for activity, worker in ((FIRST, "slow"), (SECOND, "fast")):
            take(queue, activity, worker)
        stopped = Stopped(lambda q=queue: work(q), number)
        if not stopped.there:
            stopped.go_on()
            return
        yield reopened(root, clock), stopped
        queue.close()
        shutil.rmtree(root)
    raise AssertionError("the work does not end")


def first_done(queue):
    moves.finish(queue.store.items, f"{FIRST}-T1", "slow", "agent")


def test_two_changes_at_once_are_two_changes(tmp_path, monkeypatch):
    """Forced at every call: one stands still in the middle of its change, the other changes something else."""
    monkeypatch.setattr(flock, "TURN", 0.005)
    told = {True: 0, False: 0}
    for other, stopped in stops(tmp_path, first_done):
        version = load(file_of(other))["version"]
        try:
            moves.finish(other.store.items, f"{SECOND}-T1", "fast", "agent")
        except Unavailable:  # it stands in its turn: nothing happened, and the same can be said again
            told[False] += 1
            stopped.go_on()
            moves.finish(other.store.items, f"{SECOND}-T1", "fast", "agent")
        else:
            told[True] += 1
            stopped.go_on()
        assert steps(other, FIRST)[f"{FIRST}-T1"] == "completed", stopped.call
        assert steps(other, SECOND)[f"{SECOND}-T1"] == "completed", stopped.call
        assert load(file_of(other))["version"] - version in (1, 2), stopped.call
        other.close()
    assert min(told.values()) >= 2, told


def test_a_person_saves_the_file_meanwhile(tmp_path):
    """As editors do, by another file in its place. What they wrote is kept and so is the change; only a save
    in the instant between the last look and the rename is lost, which is said in the docs.
    """
    blind = seen = 0
    for other, stopped in stops(tmp_path, first_done):
        path = file_of(other)
        before = path.read_text()
        if stopped.call == ("rename", stopped.call[1]) and "progress" in stopped.call[1]:
            blind += 1
            stopped.go_on()
            continue
        save(path, before.replace("# soon", "# soon, says Ann").replace("title: two   #", "title: zwei   #"))
        stopped.go_on()
        after = path.read_text()
        seen += 1
        assert "# soon, says Ann" in after, stopped.call
        assert "title: zwei   # the last" in after, stopped.call
        assert steps(other, FIRST)[f"{FIRST}-T1"] == "completed", stopped.call
    assert (blind, seen > 20) == (1, True)


def test_a_file_saved_in_place_and_read_half_written_is_not_changed(queue):
    """Nothing of a half is written over the whole that comes; whoever ends a claim is told to repeat it."""
    path = by_hand(queue, DOCUMENT)
    claim = take(queue)
    path.write_text(DOCUMENT[: DOCUMENT.index("and his")].replace("- id: A1", "- id: [A1"))
    with pytest.raises(Unavailable, match="nothing happened"):
        queue.finish(claim, Done(output="it works"))
    assert not (path.parent / "deliverables").exists() or not list((path.parent / "deliverables").iterdir())
    path.write_text(DOCUMENT)
    assert queue.finish(claim, Done(output="it works"))[0] is Said.OK
    assert queue.card(FIRST).result.output == "it works"


def test_what_people_changed_while_it_was_worked_on_stays(queue):
    """A worker that gives it back writes only what it changed itself."""
    path = by_hand(queue, DOCUMENT)
    claim = take(queue)
    save(path, path.read_text().replace("- id: A1   # hers", "- id: A1   # hers\n    title: Renamed\n    priority: 5"))
    queue.store.items.edit(ITEM, "ann", lambda found: found.block(FIRST, "no access", "ann", 0.0))
    queue.finish(claim, Release())
    card = queue.card(FIRST)
    assert (card.task.title, card.task.priority, card.held) == ("Renamed", 5, "no access")
    assert queue.store.items.get(ITEM).entry(FIRST)["status"] == "blocked"


@pytest.mark.parametrize("how", ["completed", "removed"])
def test_what_people_ended_meanwhile_has_ended(queue, how):
    """One result per activity: the worker's is kept aside, and its lock is gone."""
    path = by_hand(queue, DOCUMENT)
    claim = take(queue)
    text = path.read_text()
    if how == "completed":
        save(
            path,
            text.replace("- id: A1   # hers", "- id: A1   # hers\n    completed_by: ann").replace(
                "in_progress", "completed"
            ),
        )
    else:
        document = yamltext.load(text.encode())
        del document["activities"][0]
        save(path, yamltext.dump(document).decode())
    assert queue.finish(claim, Done(output="mine"))[0] is Said.LOST
    assert not (path.parent / "locks" / f"{FIRST}.lock").exists()
    assert len(os.listdir(queue.store.folder.at(".taskpit/late"))) == 1
    assert "mine" not in path.read_text()
    if how == "completed":
        assert queue.card(FIRST).result.worker == "ann"
        assert queue.finish(claim, Done(output="mine"))[0] is Said.LOST


def test_what_one_adds_the_other_does_not_undo(queue, clock):
    """Activities added while somebody works on another one."""
    by_hand(queue, DOCUMENT)
    claim = take(queue, lease=LEASE)
    assert put(queue, "more", "and more") == ["WI-001-A3", "WI-001-A4"]
    queue.finish(claim, Release())
    assert len(queue.store.page().cards) == 4
