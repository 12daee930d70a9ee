"""What goes on beside the work costs next to nothing while nothing happens."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest
from waits import PATIENCE, until

from taskpit import keeper
from taskpit.run import heartbeat
from taskpit.run.heartbeat import Heartbeat
from taskpit.run.pool_options import Survey


@pytest.fixture
def beat(pit):
    return Heartbeat(pit.queue, 60.0, SimpleQueue(), tags=())


@pytest.mark.mechanism
def test_a_look_at_everything_takes_less_than_a_hundredth_of_the_time(beat, monkeypatch):
    """However long it takes: what is claimed and what is due is looked at each time."""
    now, looks = [1000.0], []

    def sweep(_queue, *, whole, ended):
        looks.append(whole)
        now[0] += 2.0 if whole else 0.0
        return []

    monkeypatch.setattr(keeper, "sweep", sweep)
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    for _ in range(100):
        beat.sweep()
        now[0] += 15.0
    assert looks.count(True) > 1
    assert looks.count(True) * 2.0 < (now[0] - 1000.0) / 100


@pytest.mark.mechanism
def test_the_screen_is_told_again_only_when_something_has_happened(pit, beat, monkeypatch):
    monkeypatch.setattr(heartbeat, "SURVEY_EVERY", 0.0)
    seen = []

    def counted(*_):
        seen.append(1)
        return Survey(done=0, failed=0, claimed=0, ready=0, held=0, coming=0)

    monkeypatch.setattr(heartbeat, "survey", counted)
    monkeypatch.setattr(heartbeat, "NAP", 0.01)
    beat.listen(hungry=True)
    beat.start()
    try:
        until(lambda: seen)
        turns = []
        monkeypatch.setattr(pit.queue.store, "wait", lambda _seconds: turns.append(1) and False)
        until(lambda: len(turns) > 3)
        before = len(seen)
        until(lambda: len(turns) > 10)
        assert len(seen) == before
        beat.drop("nobody")
        until(lambda: len(seen) == before + 1)
    finally:
        beat.close()


def test_a_pool_that_has_just_run_out_of_work_ends_at_once(beat, monkeypatch):
    monkeypatch.setattr(heartbeat, "NAP", 10 * PATIENCE)
    beat.start()
    beat.listen(hungry=True)
    ending = threading.Thread(target=beat.close, daemon=True)
    ending.start()
    ending.join(PATIENCE)
    assert not ending.is_alive()
