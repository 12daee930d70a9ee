"""What is on the disk before a verb is acknowledged: the calls that decide, and the fsyncs around them, in order."""

from __future__ import annotations

import os
import re

import pytest
from pits import POWER, make, put, root_of, take, task

from taskpit.task import Done, Failed, Split
from taskpit.testing import FakeClock
from taskpit.testing.faults import record

SHOWN = ("create", "link", "rename", "fsync")


def traced(queue, act):
    """Creations, links, renames and fsyncs, each with a place without nonces; the changelog left out."""
    with record() as calls:
        act()
    root = root_of(queue)
    lines = []
    for call, path in calls:
        if call in SHOWN:
            lines.append(f"{call} {without_nonce(os.path.relpath(path, root)).replace('.taskpit/', '.')}")
    return lines


def without_nonce(path):
    folder = os.path.dirname(path)
    if folder == "claimed":
        return re.sub(r"~[0-9a-z]+\.", ".", path)
    if folder in (".taskpit/tmp", ".taskpit/sealed"):
        return re.sub(r"~[0-9a-z]+~", "~", path, count=1)
    return path


@pytest.fixture
def queue(tmp_path):
    queue = make(str(tmp_path / "pit"), FakeClock(), POWER)
    yield queue
    queue.close()


def test_put(queue):
    """The bytes before the id; the id and the name before we say so, both at once where one journal has both."""
    assert traced(queue, lambda: put(queue, task(1))) == [
        "create .tmp/0001~put~food-0001-task-1.md",
        "fsync .tmp/0001~put~food-0001-task-1.md",
        "fsync .tmp",
        "link .ids/0001",
        "rename .tmp/0001~put~food-0001-task-1.md",
        "fsync .ids",
        "fsync food",
    ]


def test_done(queue):
    """The result and its name in tmp before the seal, its place before we say so."""
    put(queue, task(1))
    claim = take(queue, "0001")
    assert traced(queue, lambda: queue.finish(claim, Done())) == [
        "create .tmp/0001~result",
        "fsync .tmp/0001~result",
        "fsync .tmp",
        "rename claimed/snake.food-0001-task-1.md",
        "link done/food-0001-task-1.result.md",
        "fsync done",
        "rename .tmp/0001~result",
    ]


def test_failed(queue):
    put(queue, task(1))
    claim = take(queue, "0001")
    trace = traced(queue, lambda: queue.finish(claim, Failed(error="x", final=True)))
    seal = trace.index("rename claimed/snake.food-0001-task-1.md")
    assert {"fsync .tmp/0001~result", "fsync .tmp/0001~try", "fsync .tmp"} <= set(trace[:seal])
    assert trace.index("fsync scraps") > trace.index("link scraps/food-0001-task-1-needs-keeper.md") > seal


def test_back_to_ready(queue):
    """The next bytes before the seal, the ready name before we say so."""
    put(queue, task(1))
    claim = take(queue, "0001")
    trace = traced(queue, lambda: queue.finish(claim, Failed(error="x")))
    seal = trace.index("rename claimed/snake.food-0001-task-1.md")
    assert {"fsync .tmp/0001~next", "fsync .tmp/0001~try", "fsync .tmp"} <= set(trace[:seal])
    assert trace.index("fsync claimed") > trace.index("fsync .sealed") > seal
    assert trace[-3:] == ["rename .sealed/food-0001-task-1.md~ready.nt", "fsync food", "fsync .sealed"]


def test_split(queue):
    """No child enters before the seal is on the disk: it must not outlive an end that did not happen."""
    put(queue, task(1))
    claim = take(queue, "0001")
    trace = traced(queue, lambda: queue.finish(claim, Split(children=(task(2), task(3)))))
    seal = trace.index("rename claimed/snake.food-0001-task-1.md")
    assert {"fsync .tmp/0001~result", "fsync .tmp/0001~children", "fsync .tmp"} <= set(trace[:seal])
    sealed = trace.index("fsync .sealed")
    assert seal < sealed < trace.index("link .ids/0002") < trace.index("link .ids/0003")
    assert trace.index("link .ids/0003") < trace.index("link done/food-0001-task-1.result.md")


def test_reopen(queue):
    put(queue, task(1))
    queue.finish(take(queue, "0001"), Failed(error="x", final=True))
    old = queue.card("0001").task
    trace = traced(queue, lambda: queue.store.reopen([old]))
    seal = trace.index("rename .outcomes/0001~failed")
    assert {"fsync .tmp/0001~next", "fsync .tmp"} <= set(trace[:seal])
    assert trace[-2:] == ["fsync food", "fsync .sealed"]


def test_without_power_nothing_is_synced(tmp_path):
    queue = make(str(tmp_path / "pit"), FakeClock())
    trace = traced(queue, lambda: put(queue, task(1)))
    claim = take(queue, "0001")
    trace += traced(queue, lambda: queue.finish(claim, Done()))
    assert [line for line in trace if line.startswith("fsync")] == []
    assert len(trace) == 7
    queue.close()
