"""A clock that is set and set back: what was stamped in between looks old, and its worker lives all the same."""

from __future__ import annotations

import pytest
from pits import LEASE, make, put, reopened, root_of, take, task

from taskpit import fs
from taskpit.model import Said
from taskpit.store import leases
from taskpit.store.folder import CLEANED
from taskpit.testing import FakeClock

DAY = 86400.0
ID = "0001"


@pytest.fixture
def queue(tmp_path, monkeypatch):
    clock = FakeClock()
    found = make(str(tmp_path / "pit"), clock)
    put(found, task(1))
    real = fs.status

    def status(path):
        """Change times by the clock under test, which the kernel does not know: that of the last stamp."""
        seen = real(path)
        if seen is None or "/claimed/" not in path:
            return seen
        fields = list(seen.__reduce__()[1][0]), dict(seen.__reduce__()[1][1])
        stamped = min(seen.st_ctime, seen.st_mtime + CLEANED - LEASE)
        fields[1].update(st_ctime=stamped, st_ctime_ns=int(stamped * 1e9))
        return type(seen)(*fields)

    monkeypatch.setattr(leases, "fresh_status", status)
    yield found
    found.close()


@pytest.mark.parametrize("one_shot", [False, True], ids=["stays", "command by command"])
def test_a_renewal_by_a_clock_that_was_set_back_since_is_no_old_one(queue, one_shot):
    claim = take(queue, ID)
    true = queue.clock.now()
    queue.clock.set_wall(true - 2 * DAY)
    renewer = reopened(root_of(queue), queue.clock) if one_shot else queue
    assert renewer.renew(claim) is Said.OK
    queue.clock.set_wall(true)
    keeper = reopened(root_of(queue), queue.clock)
    assert keeper.store.lapsed() == []
    queue.clock.advance(LEASE / 2)
    assert keeper.store.lapsed() == []
    queue.clock.advance(LEASE)
    assert [lapse.claim.task.id for lapse in keeper.store.lapsed()] == [ID]  # nobody has renewed since


def test_a_claim_by_a_clock_that_was_set_back_since_is_no_old_one(queue):
    take(queue, ID, lease=LEASE)
    queue.store.put([task(2)])
    true = queue.clock.now()
    queue.clock.set_wall(true - 2 * DAY)
    take(queue, "0002")
    queue.clock.set_wall(true)
    assert reopened(root_of(queue), queue.clock).store.lapsed() == []


@pytest.mark.parametrize("before", [0, 2], ids=["right before", "wrong before"])
def test_a_clock_that_is_set_back_while_a_judge_looks_ends_no_lease(queue, monkeypatch, before):
    claim, look = take(queue, ID), leases.fresh_status
    judge, other = (reopened(root_of(queue), queue.clock) for _ in range(2))
    queue.clock.set_wall(queue.clock.now() + before * DAY)

    def stall(path):
        monkeypatch.setattr(leases, "fresh_status", look)
        queue.clock.set_wall(queue.clock.now() - 2 * DAY)
        assert other.store.lapsed() == []
        queue.clock.advance(1.0)
        assert queue.renew(claim) is Said.OK
        return look(path)

    monkeypatch.setattr(leases, "fresh_status", stall)
    assert judge.store.lapsed() == []
    assert leases.fresh_status is look


def test_jumps_that_are_told_again_and_again_do_not_hide_the_dead(queue):
    claim, keeper = take(queue, ID), reopened(root_of(queue), queue.clock)
    queue.clock.set_wall(queue.clock.now() + 2 * DAY)
    queue.store.put([task(2)])
    take(queue, "0002", "dead")
    assert keeper.store.lapsed() == []
    for _ in range(4):
        queue.clock.advance(LEASE / 3)
        assert reopened(root_of(queue), queue.clock).renew(claim) is Said.OK
        lapsed = keeper.store.lapsed()
    assert [lapse.claim.task.id for lapse in lapsed] == ["0002"]


def test_without_the_note_it_would_be_taken_for_old(queue, monkeypatch):
    """The control: this is what the note is for."""
    monkeypatch.setattr(leases, "_set_since", lambda *_: False)
    claim, true = take(queue, ID), queue.clock.now()
    queue.clock.set_wall(true - 2 * DAY)
    assert queue.renew(claim) is Said.OK
    queue.clock.set_wall(true)
    assert [lapse.claim.task.id for lapse in reopened(root_of(queue), queue.clock).store.lapsed()] == [ID]
