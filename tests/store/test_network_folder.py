"""What a network filesystem shows late: names and times as they were, after another machine has changed them."""

from __future__ import annotations

import errno
import os

import pytest
from pits import LEASE, make, misplaced, put, reopened, root_of, take, task, wrong

from taskpit import fs
from taskpit.keeper import sweep
from taskpit.store import entering
from taskpit.task import Done, Failed, Said, State
from taskpit.testing import FakeClock
from taskpit.testing.faults import Stopped, record

ID = "0001"


@pytest.fixture
def queue(tmp_path):
    found = make(str(tmp_path / "pit"), FakeClock())
    yield found
    found.close()


def stopped_putter(queue, monkeypatch):
    """A putter on another machine stands before its last rename; a keeper here has carried the put out meanwhile."""
    with record() as calls:
        put(queue, task(2))
    number = next(at for at, (call, path) in enumerate(calls, 1) if call == "rename" and "~put~" in path)
    slow = Stopped(lambda: put(queue, task(1)), number)
    assert slow.there
    source = slow.call[1]
    shown = fs.status(source)
    keeper = reopened(root_of(queue), queue.clock)
    sweep(keeper)
    assert fs.status(source) is None
    monkeypatch.setattr(entering.fs, "status", _showing(source, shown))
    real = fs.move_new

    def move_new(one, target):
        if one == source and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        return real(one, target)

    monkeypatch.setattr(fs, "move_new", move_new)
    return slow, keeper


def _showing(name, shown, real=fs.status):
    return lambda path: shown if path == name else real(path)


def test_a_put_that_another_carried_out_is_not_set_aside(queue, monkeypatch):
    slow, keeper = stopped_putter(queue, monkeypatch)
    slow.go_on()
    monkeypatch.undo()
    sweep(keeper)
    assert misplaced(keeper) == {}
    assert wrong(keeper) == []
    assert keeper.card(ID).state is State.READY
    assert keeper.finish(take(keeper, ID), Done())[0] is Said.OK
    keeper.close()


def test_a_put_that_was_carried_out_and_tried_meanwhile_is_not_set_aside(queue, monkeypatch):
    """Another file stands there by now: the task with an attempt spent, which is the task all the same."""
    slow, keeper = stopped_putter(queue, monkeypatch)
    keeper.finish(take(keeper, ID), Failed(error="again"))
    slow.go_on()
    monkeypatch.undo()
    sweep(keeper)
    assert misplaced(keeper) == {}
    assert (keeper.card(ID).state, keeper.card(ID).task.attempts) == (State.READY, 1)
    keeper.close()


def test_a_renewal_that_status_shows_late_is_seen(queue, monkeypatch):
    put(queue, task(1))
    claim = take(queue, ID)
    path = queue.store.folder.at(queue.store.folder.layout.claimed_path(claim.task, claim.fence))
    shown = fs.status(path)
    keeper = reopened(root_of(queue), queue.clock)
    for _ in range(3):
        queue.clock.advance(LEASE * 0.7)
        assert queue.renew(claim) is Said.OK
        with monkeypatch.context() as late:
            _show_late(late, path, shown)
            assert fs.status(path) == shown
            assert keeper.store.lapsed() == []
    keeper.close()


def _show_late(patch, path, shown):
    """The status of this file is what it was until somebody opens it."""
    opened, real_read, real_status = [], fs.read, fs.status

    def read(name, limit):
        opened.append(name)
        return real_read(name, limit)

    patch.setattr(fs, "read", read)
    patch.setattr(fs, "status", lambda name: shown if name == path and path not in opened else real_status(name))
