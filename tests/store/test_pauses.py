"""A pause by anybody else holds at once for a worker that stays, and who waits goes on as soon as it is over."""

from __future__ import annotations

import pytest
from faults import record
from pits import make, put, reopened, root_of, task

from taskpit import held_directories, kernel
from taskpit.store import index
from taskpit.testing import FakeClock
from taskpit.watch import Watch

pytestmark = pytest.mark.mechanism

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


@pytest.mark.parametrize("before", ["", "claim", "claim claim", "claim wait", "wait"])
def test_one_that_comes_before_the_kernel_tells_of_any_holds_too(tmp_path, before):
    """A pool that looked once before the day's budget was seen to be spent gave out the whole queue."""
    worker = make(str(tmp_path / "pit"), FakeClock())
    other = reopened(root_of(worker), worker.clock)
    for verb in before.split():
        worker.claim("w") if verb == "claim" else worker.store.wait(0.0)
    other.store.put([task(number) for number in range(3)])
    other.store.pause("lunch", 0.0, "ann")
    assert [worker.claim("w") for _ in range(4)] == [[]] * 4
    worker.close()
    other.close()


@pytest.mark.parametrize("hears", ["claim", "wait"])
def test_one_that_is_among_news_that_were_lost_holds_too(pair, hears, monkeypatch):
    worker, other = pair
    other.store.pause("lunch", 0.0, "ann")
    with monkeypatch.context() as full:
        full.setattr(Watch, "changes", lambda self: self._drain())
        worker.claim("w") if hears == "claim" else worker.store._chooser.hear()
    assert [worker.claim("w") for _ in range(3)] == [[]] * 3


def test_one_of_which_the_kernel_tells_nothing_holds_as_soon_as_a_directory_is_looked_at_again(pair, monkeypatch):
    """Somebody has put a copy in the place of the folder."""
    worker, other = pair
    assert worker.claim("w")
    monkeypatch.setattr(Watch, "changes", lambda _: [])
    other.store.pause("lunch", 0.0, "ann")
    monkeypatch.setattr(held_directories, "COMPARED", -1.0)
    assert worker.claim("w") == []


def test_one_that_is_made_by_hand_holds_at_once(pair):
    worker, _ = pair
    assert worker.claim("w")
    with open(f"{root_of(worker)}{PAUSED}", "w", encoding="utf-8") as file:
        assert worker.claim("w") == []
        file.write('{"by": "ann", "reason": "lunch"}')
    assert worker.claim("w") == []


def test_nobody_looks_for_one_who_is_told(pair, monkeypatch):
    worker, _ = pair
    monkeypatch.setattr(held_directories, "COMPARED", 1e9)
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
