"""What is scarce is not given out twice: a claimer stands still or dies at each of its calls, and another comes."""

from __future__ import annotations

import shutil

import pytest
from faults import Killed, Stopped, kill_at, record
from pits import CONFIG, make, put, reopened, task

from taskpit.errors import Unavailable
from taskpit.model import Done, Said, State, Want
from taskpit.store import flock
from taskpit.testing import FakeClock

WANT = Want(worker="slow", lease=60.0)
OTHER = Want(worker="fast", lease=60.0)


def queue_with(path, *limits, config=CONFIG):
    queue = make(str(path), FakeClock(), config)
    put(queue, *(task(number, limits=(limit,)) for number, limit in enumerate(limits, 1)))
    return queue


def another(queue):
    return reopened(queue.store.folder.root, queue.clock)


def calls_of(path, *limits):
    queue = queue_with(path, *limits)
    with record() as calls:
        assert len(queue.store.claim(WANT)) == 1
    queue.store.close()
    shutil.rmtree(path)
    return len(calls)


def running(queue):
    return queue.store.counts()[State.CLAIMED]


def test_one_who_stands_still_while_another_claims(tmp_path, monkeypatch):
    """Stopped before any of its calls: never do both have one."""
    monkeypatch.setattr(flock, "TURN", 0.05)
    waited = 0
    for number in range(1, calls_of(tmp_path / "count", "staging=1", "staging=1") + 1):
        path = tmp_path / f"q{number}"
        mine = queue_with(path, "staging=1", "staging=1")
        other = another(mine)
        stopped = Stopped(lambda mine=mine: mine.store.claim(WANT), number)
        try:
            theirs = other.store.claim(OTHER)
        except Unavailable:
            theirs, waited = [], waited + 1
        ours = stopped.go_on()
        assert len(ours) + len(theirs) == running(other) == 1, stopped.call
        mine.store.close()
        other.store.close()
    assert waited


@pytest.mark.parametrize("limit", ["staging=1", "api=1/min"])
def test_one_who_dies_leaves_no_more_than_one_running(tmp_path, limit):
    """Killed before any of its calls: the next has the task, or the first has it; never both."""
    outcomes = set()
    for number in range(1, calls_of(tmp_path / "count", limit, limit) + 1):
        path = tmp_path / f"q{number}"
        mine = queue_with(path, limit, limit)
        other = another(mine)
        with pytest.raises(Killed), kill_at(number):
            mine.store.claim(WANT)
        theirs = other.store.claim(OTHER)
        assert running(other) <= 1
        outcomes.add(len(theirs))
        if theirs:
            assert other.finish(theirs[0], Done())[0] is Said.OK
            assert len(other.store.claim(OTHER)) == (0 if "/" in limit else 1)
        mine.store.close()
        other.store.close()
    assert outcomes == {0, 1}


def test_a_setting_of_the_queue_counts_too(tmp_path):
    """The smaller of the two numbers; and of a key alone the setting's."""
    config = CONFIG.replace(limits={"model:opus": "2"})
    again = queue_with(tmp_path / "q", "model:opus=5", "model:opus", "model:opus", "model:opus", config=config)
    assert len(again.store.claim(Want(worker="w", lease=60.0, count=9))) == 2
    assert "limit model:opus=2, held by" in again.card("0003").held


@pytest.mark.parametrize("start", [b"\xff\xfe garbage\n", b"NaN api\n", b"1e999 api\n", b""])
def test_a_file_of_starts_that_is_none(tmp_path, start):
    """A hand in it spoils nothing."""
    queue = queue_with(tmp_path / "q", "api=1/min", "api=1/min")
    with open(queue.store.folder.at(".taskpit/starts"), "wb") as file:
        file.write(start)
    assert len(queue.store.claim(Want(worker="w", lease=60.0, count=2))) == 1
