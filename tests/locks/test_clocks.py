"""Clocks that are wrong, or set, or begin anew: no live lock ends early, and no dead one lasts for ever."""

from __future__ import annotations

import time

import pytest
from lockers import LEASE, NAME, make, path_of, spelled, store, write

from taskpit.errors import Lost
from taskpit.model import Said
from taskpit.testing import FakeClock

DAY = 86400.0


def refused(found):
    with pytest.raises(Lost):
        found.lock(NAME, "bob", LEASE)


@pytest.mark.parametrize("days", [1, -1])
@pytest.mark.parametrize("whose", ["ours", "a stranger's"])
def test_an_observer_a_day_off_ends_no_live_lock(days, whose, tmp_path):
    """However often it looks, and as long as the holder gives a sign within its lease."""
    right = FakeClock()
    holder = make(tmp_path / "pit", right)
    wrong = FakeClock(right.now() + days * DAY)
    observer = store(tmp_path / "pit", wrong)
    lock = None
    for turn in range(6):
        if whose == "ours":
            lock = holder.lock(NAME, "ann", LEASE)
        else:
            write(path_of(holder), spelled("stranger", right.now(), right.now() + LEASE, turn=turn))
        for _ in range(3):
            refused(observer)
            right.advance(LEASE * 0.3)
            wrong.advance(LEASE * 0.3)
    if lock is not None:
        assert holder.relock(lock, LEASE) is Said.OK


@pytest.mark.parametrize("days", [1, -1])
@pytest.mark.parametrize("whose", ["ours", "a stranger's"])
def test_an_observer_a_day_off_ends_a_dead_one_after_a_lease(days, whose, tmp_path):
    right = FakeClock()
    holder = make(tmp_path / "pit", right)
    if whose == "ours":
        holder.lock(NAME, "ann", LEASE)
    else:
        write(path_of(holder), spelled("stranger", right.now(), right.now() + LEASE))
    wrong = FakeClock(right.now() + days * DAY)
    observer = store(tmp_path / "pit", wrong)
    refused(observer)
    wrong.advance(LEASE * 0.9)
    refused(store(tmp_path / "pit", wrong))
    wrong.advance(LEASE * 0.1 + 2)
    assert observer.lock(NAME, "bob", LEASE).holder == "bob"


@pytest.mark.parametrize("days", [2, -2])
def test_a_clock_that_is_set_ends_nothing_early(days, tmp_path):
    """The holder goes on renewing by the new time."""
    clock = FakeClock()
    found = make(tmp_path / "pit", clock)
    lock = found.lock(NAME, "ann", LEASE)
    clock.set_wall(clock.now() + days * DAY)
    for _ in range(4):
        refused(found)
        clock.advance(LEASE * 0.9)
        refused(found)
        assert found.relock(lock, LEASE) is Said.OK
    clock.advance(LEASE * 0.9)
    refused(found)


@pytest.mark.parametrize("days", [2, -2])
@pytest.mark.parametrize("renewals", [0, 20])
def test_after_a_jump_one_lease_is_enough(days, renewals, tmp_path):
    """However long it was held before."""
    clock = FakeClock()
    found = make(tmp_path / "pit", clock)
    lock = found.lock(NAME, "ann", LEASE)
    for _ in range(renewals):
        clock.advance(LEASE * 0.8)
        assert found.relock(lock, LEASE) is Said.OK
    clock.set_wall(clock.now() + days * DAY)
    refused(found)
    clock.advance(LEASE * 0.9)
    refused(found)
    clock.advance(LEASE * 0.1 + 2)
    assert found.lock(NAME, "bob", LEASE).number == 2


@pytest.mark.parametrize("days", [0, 2, -2])
def test_a_reboot(days, tmp_path):
    """Counts of two boots don't compare: the lock is watched for a lease of the new one."""
    clock = FakeClock()
    found = make(tmp_path / "pit", clock)
    found.lock(NAME, "ann", LEASE)
    refused(found)
    clock.reboot("the second boot")
    clock.set_wall(clock.now() + LEASE + 100 + days * DAY)
    for _ in range(3):
        refused(found)
        clock.advance(LEASE * 0.3)
    clock.advance(LEASE * 0.1 + 2)
    assert found.lock(NAME, "bob", LEASE).number == 2


def test_a_strangers_lock_that_was_watched_across_a_jump_is_watched_on(tmp_path):
    """Also across a reboot: who has seen the clock being set does not believe it the second time either."""
    clock = FakeClock(time.time() - DAY)  # the filesystem's clock is past whatever this one says
    found = make(tmp_path / "pit", clock)
    write(path_of(found), spelled("stranger", clock.now(), clock.now() + LEASE))
    refused(found)
    clock.set_wall(clock.now() + LEASE * 2)
    for boot in ("the first boot", "the second boot"):
        if boot != clock.boot():
            clock.reboot(boot)
        for _ in range(3):
            refused(found)
            clock.advance(LEASE * 0.2)
    clock.advance(LEASE * 0.4 + 2)
    assert found.lock(NAME, "bob", LEASE).number == 1


def test_a_worker_that_stays_and_dies_leaves_its_lock_at_once(tmp_path):
    clock = FakeClock()
    found = make(tmp_path / "pit", clock)
    member = found.join("snake-1", LEASE)
    found.lock(NAME, "snake-1~k3f9ab", LEASE)
    refused(found)
    member.leave()
    assert found.lock(NAME, "bob", LEASE).number == 2


def test_whoever_locks_under_the_name_of_a_dead_worker_is_not_dead(tmp_path):
    clock = FakeClock()
    found = make(tmp_path / "pit", clock)
    found.join("ann", LEASE).leave()
    found.lock(NAME, "ann", LEASE)
    refused(found)
    found.lock("other", "ann~k3f9ab", LEASE)
    with pytest.raises(Lost):
        found.lock("other", "bob", LEASE)
