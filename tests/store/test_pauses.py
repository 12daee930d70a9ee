"""A pause by anybody else holds at once for a worker that stays, and who waits goes on as soon as it is over."""

from __future__ import annotations

import pytest
from faults import record
from pits import make, put, reopened, root_of, task

from taskpit import kernel
from taskpit.store import index
from taskpit.testing import FakeClock

PAUSED = "/.taskpit/paused"


@pytest.fixture(params=[2, 100], ids=["listed", "catalogue"])
def pair(request, tmp_path):
    """A worker that has claimed before, and somebody else."""
    worker = make(str(tmp_path / "pit"), FakeClock())
    other = reopened(root_of(worker), worker.clock)
    other.store.put([task(number) for number in range(1, request.param + 11)])
    for _ in range(3):
        assert worker.claim("w")
    yield worker, other
    worker.close()
    other.close()


def test_it_holds_for_who_claims_on(pair):
    worker, other = pair
    other.store.pause("lunch", 0.0, "ann")
    assert worker.claim("w") == []
    assert worker.claim("w") == []
    other.store.resume("ann")
    assert worker.claim("w")
    other.store.pause("lunch", 60.0, "ann")
    assert worker.claim("w") == []
    worker.clock.advance(61)
    assert worker.claim("w")


def test_nobody_looks_for_one_who_is_told(pair):
    worker, _ = pair
    assert worker.claim("w")
    with record() as calls:
        assert worker.claim("w")
    assert [call for call in calls if PAUSED in call[1]] == []


def test_over_a_network_it_is_looked_for(pair, monkeypatch):
    """What another machine does there no kernel tells."""
    worker, _ = pair
    monkeypatch.setattr(kernel, "is_local", lambda _: False)
    far = reopened(root_of(worker), worker.clock)
    for _ in range(3):
        assert far.claim("w")
    with record() as calls:
        assert far.claim("w")
    assert [call for call in calls if PAUSED in call[1]] != []
    far.close()


def test_who_waits_goes_on_when_it_is_over(tmp_path):
    worker = make(str(tmp_path / "pit"), FakeClock())
    other = reopened(root_of(worker), worker.clock)
    put(other, task(1))
    other.store.pause("lunch", 0.0, "ann")
    for _ in range(3):
        assert worker.claim("w") == []
        worker.store.wait(0.0)
    assert not worker.store.wait(0.0)
    other.store.resume("ann")
    assert worker.store.wait(index.RESCAN)
    assert worker.claim("w")
    worker.close()
    other.close()
