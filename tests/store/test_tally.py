"""`stats` counts a long changelog once: totals are kept, never trusted over another changelog, and exact."""

from __future__ import annotations

import os

import pytest
from pits import make, put, root_of, task

from taskpit.clock import iso
from taskpit.store import stats_cache as module
from taskpit.store.changelog import CARRIED_OUT, decode
from taskpit.store.folder import CHANGELOG, INDEX
from taskpit.store.stats_cache import Tally, tally
from taskpit.testing import FakeClock

pytestmark = pytest.mark.mechanism

HOUR = 3600.0


@pytest.fixture
def queue(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WORTH", 5)
    monkeypatch.setattr(module, "AT_ONCE", 3)
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, *(task(number) for number in range(1, 11)))
    yield queue
    queue.close()


def kept(queue):
    return f"{root_of(queue)}/{INDEX}/tally"


def told(queue, action, about):
    return decode(queue.store.folder.line(action, about, "snake"))


def said(queue, *actions, about="0001"):
    queue.store.record([told(queue, action, about) for action in actions])


def counted(queue):
    """The totals, in one value."""
    now = queue.clock.now()
    found = tally(queue.store, now)
    return found.happened, found.since(iso(now - HOUR)), sorted(found.twice)


def anew(queue):
    """The same, with nothing kept."""
    if os.path.exists(kept(queue)):
        os.remove(kept(queue))
    return counted(queue)


def test_totals_go_on_from_where_they_were(queue, monkeypatch):
    said(queue, "claimed_task", "recovered_task")
    counted(queue)
    assert os.path.exists(kept(queue))
    read = []
    events = queue.store.events
    monkeypatch.setattr(queue.store, "events", lambda after, limit: read.append(after) or events(after, limit))
    said(queue, "claimed_task", "late_result")
    totals = counted(queue)

    assert "" not in read
    assert totals[0] == {"added_task": 10, "claimed_task": 2, "recovered_task": 1, "late_result": 1}
    assert totals[2] == ["0001"]
    assert totals == anew(queue)


def test_the_last_hour_ends(queue):
    counted(queue)
    queue.clock.advance(HOUR - 10)
    said(queue, *["completed_task"] * 5, "failed_task")
    assert counted(queue)[1] == {"added_task": 10, "completed_task": 5, "failed_task": 1}
    queue.clock.advance(20)
    assert counted(queue)[1] == {"added_task": 0, "completed_task": 5, "failed_task": 1} == anew(queue)[1]
    queue.clock.advance(HOUR)
    assert counted(queue)[1] == dict.fromkeys(("added_task", "completed_task", "failed_task"), 0)


def test_what_is_old_is_not_kept_by_the_second(queue):
    found = Tally()
    found.feed([told(queue, action, "1") for action in ("added_task", "x")], "c", "")
    assert found.dump("9") != found.dump("0")
    assert Tally.load(found.dump("9")).since("") == dict.fromkeys(("added_task", "completed_task", "failed_task"), 0)
    assert Tally.load(found.dump("0")).happened == {"added_task": 1, "x": 1}


def test_another_changelog_is_counted_anew(queue):
    counted(queue)
    os.remove(f"{root_of(queue)}/{CHANGELOG}")
    said(queue, "claimed_task")
    assert counted(queue)[0] == {"claimed_task": 1}


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'[1,"0:0",{"a":"b"},[],[],[]]', b"[0,1,{},[],[],[]]", b"\xff"])
def test_what_cannot_be_read_is_counted_anew(queue, data):
    expected = counted(queue)
    with open(kept(queue), "wb") as file:
        file.write(data)
    assert counted(queue) == expected


def test_totals_that_cannot_be_kept_are_told_all_the_same(queue):
    os.makedirs(f"{kept(queue)}/in the way")
    assert counted(queue)[0] == {"added_task": 10}


def test_a_short_changelog_leaves_nothing_behind(queue, monkeypatch):
    monkeypatch.setattr(module, "WORTH", 11)
    assert counted(queue)[0] == {"added_task": 10}
    assert not os.path.exists(kept(queue))


def test_an_end_that_a_keeper_told_beside_its_worker_is_given_back_by_nobody(queue):
    """A keeper that comes by in the middle of a retry tells of it, too, and knows no better word."""
    (claim,) = queue.claim("snake")
    sealed = queue.store.folder.line("released_task", claim.task.id, "keeper", CARRIED_OUT)
    queue.store.record([decode(sealed), told(queue, "retried_task", claim.task.id)])
    found = tally(queue.store, queue.clock.now()).happened
    assert (found["retried_task"], found.get("released_task", 0)) == (1, 0)
