"""What is on the disk before a verb is acknowledged: the calls that decide, and the fsyncs around them, in order."""

from __future__ import annotations

import errno
import os
import re

import pytest
from faults import fail_at, record
from pits import POWER, make, put, root_of, take, task

from taskpit.errors import Storage
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, Split, State
from taskpit.testing import FakeClock

pytestmark = pytest.mark.mechanism

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
        return re.sub(r"~[0-9a-z]+(\.[0-9a-f-]+)?~", "~", path, count=1)
    return path


@pytest.fixture
def queue(tmp_path):
    """Where names reach the disk in any order."""
    queue = make(str(tmp_path / "pit"), FakeClock(), POWER)
    queue.store.folder._ordered = False
    yield queue
    queue.close()


@pytest.fixture
def journaled(queue):
    """Where a journal keeps their order."""
    queue.store.folder._ordered = True
    return queue


def test_put_with_a_journal(journaled):
    """One fsync, after the id is taken and before anybody can see the task."""
    assert traced(journaled, lambda: put(journaled, task(1))) == [
        "create .tmp/0001~put~food-0001-task-1.md",
        "link .ids/0001",
        "fsync .tmp/0001~put~food-0001-task-1.md",
        "rename .tmp/0001~put~food-0001-task-1.md",
    ]


def test_done_with_a_journal(journaled):
    """One fsync of the result, after the seal and before anybody can see it; it settles the seal, too."""
    put(journaled, task(1))
    claim = take(journaled, "0001")
    assert traced(journaled, lambda: journaled.finish(claim, Done())) == [
        "create .tmp/0001~result",
        "rename claimed/snake.food-0001-task-1.md",
        "fsync .tmp/0001~result",
        "link done/food-0001-task-1.result.md",
        "rename .tmp/0001~result",
    ]


def test_a_keeper_settles_a_result_before_anybody_sees_it(journaled):
    """Its worker may have died before it did."""
    put(journaled, task(1))
    claim = take(journaled, "0001")
    with record() as calls, pytest.MonkeyPatch.context() as patch:
        patch.setattr("taskpit.store.finish.roll", lambda *_, **__: Said.OK)
        journaled.finish(claim, Done())
    journaled.clock.advance(10)
    with record() as calls:
        sweep(journaled)
    shown = [call for call, path in calls if call in ("fsync", "link") and ("~result" in path or "/done/" in path)]
    assert shown == ["fsync", "link"]


def test_what_is_known_already_is_settled_before_we_say_so(queue):
    """Whoever was first may not have come so far yet."""
    put(queue, task(1))
    with record() as calls:
        assert queue.put([task(1)]) == [("0001", Said.EXISTS)]
    root = root_of(queue)
    assert ("fsync", f"{root}/.taskpit/ids/0001") in calls
    assert ("fsync", f"{root}/.taskpit/ids") in calls


def test_what_has_ended_already_is_settled_before_we_say_so(queue):
    put(queue, task(1))
    claim = take(queue, "0001")
    assert queue.finish(claim, Done(output="yes"))[0] is Said.OK
    with record() as calls:
        assert queue.finish(claim, Done(output="yes"))[0] is Said.ALREADY
    root = root_of(queue)
    assert ("fsync", f"{root}/.taskpit/outcomes/0001~done") in calls
    assert ("fsync", f"{root}/done") in calls


def fsyncs(calls):
    return [number for number, (call, _) in enumerate(calls, 1) if call == "fsync"]


def test_a_put_whose_fsync_fails_is_written_anew(journaled):
    """After a failed fsync the kernel says yes to the next one: the same file is never asked for again."""
    with record() as calls:
        put(journaled, task(2))
    with fail_at(fsyncs(calls)[0], errno.EIO), pytest.raises(Storage):
        put(journaled, task(1))
    folder = journaled.store.folder
    assert not os.path.exists(folder.at(".taskpit/ids/0001"))
    assert os.listdir(folder.at(".taskpit/tmp")) == []
    assert journaled.put([task(1)]) == [("0001", Said.CREATED)]


@pytest.mark.parametrize("again", [True, False])
def test_a_result_whose_fsync_fails_is_written_anew(journaled, again):
    """By the worker, who still knows it; without it the task is not done."""
    put(journaled, task(1), task(2))
    claim = take(journaled, "0002")
    with record() as calls:
        journaled.finish(claim, Done(output="yes"))
    claim = take(journaled, "0001")
    with fail_at(fsyncs(calls)[0], errno.EIO), pytest.raises(Storage):
        journaled.finish(claim, Done(output="yes"))
    if again:
        with record() as calls:
            assert journaled.finish(claim, Done(output="yes"))[0] in (Said.OK, Said.ALREADY)
        assert fsyncs(calls)
    journaled.clock.advance(10)
    sweep(journaled)
    card = journaled.card("0001")
    assert card.state is (State.DONE if again else State.READY)
    assert (card.result is not None and card.result.output == "yes") == again


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
