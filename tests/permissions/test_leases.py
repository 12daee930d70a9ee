"""Leases on files of another user, whose times only their owner may set: the worker's own record is stamped instead."""

from __future__ import annotations

import os

import pytest
from boxes import FAST, LAYOUTS, make, reopened
from people import ANN, BOB, acting

from taskpit import fs
from taskpit.keeper import fix, sweep
from taskpit.model import Release, Said, State, Task
from taskpit.store import leases
from taskpit.testing import FakeClock

LEASE = 100.0
HALF = 60.0


class Elsewhere(FakeClock):
    """The clock of an observer on another machine: what boots there is not what booted here."""

    def boot(self):
        return "elsewhere"


class Two:
    """ann's queue with a task of hers that bob has claimed."""

    def __init__(self, root, layout, umask):
        self.root, self.layout, self.umask = root, layout, umask
        self.clock = FakeClock()
        with acting(ANN):
            queue = make(root, layout, self.clock)
            queue.store.put([Task(id="0002", title="y", slug="y", not_before=self.clock.now() + 10**6)])
            queue.close()
        with acting(ANN, umask):
            queue = self.queue()
            queue.store.put([Task(id="0001", title="x", slug="x")])
            queue.close()
        self.bobs = self.queue()
        with acting(BOB):
            (self.claim,) = self.bobs.claim("bob", lease=LEASE)

    def queue(self, clock=None):
        return reopened(self.root, self.layout, clock or self.clock, FAST)

    def renew(self):
        with acting(BOB):
            return self.bobs.renew(self.claim, LEASE)

    def swept(self, queue=None):
        """What ann's keeper does."""
        queue = queue or self.queue()
        with acting(ANN):
            return [mend.kind for mend in sweep(queue)]


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(params=[0o002, 0o022], ids=["group may write", "group may read"])
def two(request, shared, layout):
    two = Two(shared, layout, request.param)
    yield two
    two.bobs.close()


def test_who_renews_keeps_it_and_who_does_not_loses_it(two):
    for _ in range(3):
        two.clock.advance(HALF)
        assert two.renew() is Said.OK
        assert two.swept() == []
    two.clock.advance(LEASE + 10)
    assert two.swept() == ["reclaimed"]
    assert two.renew() is Said.LOST


def test_an_observer_elsewhere_sees_the_signs(two):
    """It trusts no clock but its own: only that something changes tells it that bob lives."""
    clock = Elsewhere()
    observer = two.queue(clock)
    assert two.swept(observer) == []
    for _ in range(3):
        clock.advance(HALF)
        two.clock.advance(HALF)
        assert two.renew() is Said.OK
        assert two.swept(observer) == []
    clock.advance(LEASE + 10)
    assert two.swept(observer) == ["reclaimed"]
    observer.close()


def test_it_can_be_given_back(two):
    with acting(BOB):
        assert two.bobs.finish(two.claim, Release())[0] is Said.OK
    queue = two.queue()
    with acting(ANN):
        assert queue.card("0001").state is State.READY
        assert [claim.task.id for claim in queue.claim("ann")] == ["0001"]
    queue.close()


def test_without_the_record_it_would_be_taken_away(shared, monkeypatch):
    """The control: a judge that looks at the claimed file alone robs who renews."""
    two = Two(shared, "pit", 0o002)
    monkeypatch.setattr(leases, "_stamped", lambda _folder, _spot, status: status.st_mtime_ns)
    two.clock.advance(HALF)
    assert two.renew() is Said.OK
    two.clock.advance(HALF)
    assert two.swept() == ["reclaimed"]
    two.bobs.close()


def test_the_claimed_file_is_still_anns(shared):
    """Otherwise nothing was tried."""
    two = Two(shared, "pit", 0o002)
    (name,) = os.listdir(f"{shared}/claimed")
    assert os.stat(f"{shared}/claimed/{name}").st_uid == ANN
    assert os.stat(f"{shared}/.taskpit/workers/bob").st_uid == BOB
    two.bobs.close()


def test_a_file_of_ones_own_that_is_shut_is_opened_again_by_the_doctor(shared):
    """Nobody but root could have read it to say so."""
    with acting(ANN):
        queue = make(f"{shared}/queue", "pit", FakeClock())
        queue.put([Task(id="0001", title="x", slug="x")])
        task = f"{shared}/queue/food/food-0001-x.md"
        os.chmod(task, 0)
        assert [mend.kind for mend in fix(queue, ended=lambda _queue, _claim: True)] == ["not readable"]
        assert os.stat(task).st_mode & 0o777 == 0o600
        assert queue.claim("snake")[0].task.id == "0001"
        os.symlink("elsewhere", f"{shared}/queue/link")
        with pytest.raises(fs.NotAFile):
            fs.set_mode(f"{shared}/queue/link", 0o777)
        queue.close()
