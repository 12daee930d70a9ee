"""Clocks that are set while workers live: nobody's lease ends early, and the dead are still found."""

from __future__ import annotations

import os

import pytest
from pits import LEASE, make, put, root_of, take, task

from taskpit.model import Said
from taskpit.testing import FakeClock

DAY = 86400.0
ID = "0001"


@pytest.fixture
def queue(tmp_path):
    found = make(str(tmp_path / "pit"), FakeClock())
    put(found, task(1))
    yield found
    found.close()


@pytest.mark.parametrize("days", [2, -2])
def test_a_clock_that_jumps_ends_no_lease_early(queue, days):
    claim = take(queue, ID)
    queue.clock.set_wall(queue.clock.now() + days * DAY)
    assert queue.store.lapsed() == []
    queue.clock.advance(LEASE * 0.9)
    assert queue.store.lapsed() == []
    assert queue.renew(claim) is Said.OK
    queue.clock.advance(LEASE * 0.9)
    assert queue.store.lapsed() == []


@pytest.mark.parametrize("days", [2, -2])
def test_who_stops_renewing_is_found_all_the_same(queue, days):
    take(queue, ID)
    queue.clock.set_wall(queue.clock.now() + days * DAY)
    assert queue.store.lapsed() == []  # seen for the first time since the jump
    queue.clock.advance(LEASE + 1)
    assert [lapse.claim.task.id for lapse in queue.store.lapsed()] == [ID]


def test_a_foreign_claim_is_watched_for_a_whole_lease_of_our_own_clock(queue):
    root = root_of(queue)
    (name,) = os.listdir(f"{root}/food")
    os.rename(f"{root}/food/{name}", f"{root}/claimed/stranger.{name}")
    assert queue.store.lapsed() == []
    queue.clock.set_wall(queue.clock.now() + 2 * DAY)
    assert queue.store.lapsed() == []
    queue.clock.advance(queue.config.abandoned + 1)
    assert [lapse.claim.fence for lapse in queue.store.lapsed()] == ["stranger"]
