"""Quiet hours of a backend, and spare tasks: what would be lost otherwise. By a clock that is set."""

from __future__ import annotations

import os
import time

import pytest
from pits import make, put, task

from taskpit.model import Done, Retry, State
from taskpit.policy import SPARE
from taskpit.run import pool_display
from taskpit.run.agent_limits import Gate
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions
from taskpit.run.preset import Backend
from taskpit.status import Status, status_of
from taskpit.testing import FakeClock

HOUR = 3600.0


def at(hour, minute=0):
    """A clock that shows this time of day here."""
    return FakeClock(time.mktime((2026, 3, 4, hour, minute, 0, 0, 0, -1)))


def gate(tmp_path, clock, **backend):
    return Gate(Backend(name="claude", **backend), str(tmp_path), clock)


def test_a_window_begins_with_the_first_start_and_is_lost_at_its_end(tmp_path):
    clock = at(8)
    door = gate(tmp_path, clock, window=5 * HOUR)
    assert door.is_lost_soon() == ""  # none has begun: nothing is lost
    way = door.enter()
    way.started(clock.now())
    clock.advance(3.9 * HOUR)
    way.started(clock.now())  # inside it: it ends when it ends
    assert door.is_lost_soon() == ""
    clock.advance(0.2 * HOUR)
    assert gate(tmp_path, clock, window=5 * HOUR).is_lost_soon()  # another pool knows it, too
    clock.advance(HOUR)
    assert door.is_lost_soon() == ""


def test_a_limit_says_exactly_when_the_window_ends(tmp_path):
    clock = at(8)
    door = gate(tmp_path, clock, window=5 * HOUR)
    door.enter().started(clock.now())
    door.put_off(Retry(reason="limit", after=1800.0, kind="quota"))
    assert door.is_lost_soon() == ""  # it rests: nothing is left to lose
    assert door.window_left(clock.now()) == 1800.0
    clock.advance(1801)
    door.enter().started(clock.now())
    assert door.window_left(clock.now()) == 5 * HOUR


@pytest.mark.parametrize("text", ["", "x", "nan", "-5", "1e400"])
def test_a_file_of_a_window_that_says_nothing(tmp_path, text):
    clock = at(8)
    door = gate(tmp_path, clock, window=5 * HOUR)
    (tmp_path / ".taskpit/backends/claude.window").write_text(text)
    assert door.is_lost_soon() == ""
    door.enter().started(clock.now())
    assert door.window_left(clock.now()) == pytest.approx(5 * HOUR, abs=1)


class Runner:
    """Every task is done at once; its backend is in the last hour of a window or not."""

    def __init__(self, backend):
        self.backend = backend
        self.ran = []

    def __call__(self, claim, _run):
        self.ran.append(claim.task.id)
        return Done()

    def check(self, _env):
        pass


def ran(queue, backend, **orders):
    runner = Runner(backend)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        Pool(queue, runner, PoolOptions(name="p", until_empty=True, **orders), pool_display.Lines(nowhere)).run()
    return runner.ran


def test_spare_tasks_run_last_and_only_when_quota_would_be_lost(tmp_path):
    clock = FakeClock(time.time())
    queue = make(str(tmp_path / "q"), clock)
    put(queue, task(1, hold=SPARE, priority=9), task(2), task(3, hold=SPARE, tags=("other",)), task(4, hold="no"))
    backend = Backend(name="claude", window=5 * HOUR)
    assert status_of(queue.card("0001")) is Status.WAITING
    assert ran(queue, backend) == ["0002"]
    clock.advance(4.5 * HOUR)
    assert ran(queue, backend, tags=("nobody",)) == []
    assert ran(queue, backend) == ["0001", "0003"]
    assert queue.card("0004").state is State.READY


def test_no_window_no_spare_task(tmp_path):
    queue = make(str(tmp_path / "q"), FakeClock(time.time()))
    put(queue, task(1, hold=SPARE))
    assert ran(queue, Backend(name="claude")) == []
    assert ran(queue, None) == []
