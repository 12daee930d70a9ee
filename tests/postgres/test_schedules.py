"""Schedules in a database: each due run enters exactly once, however many pools fire at the same time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from waits import PATIENCE

from taskpit.model import SCHEDULES as TAG
from taskpit.model import End, State, Task, Want
from taskpit.queue import Queue, cards

SCHEDULES, POOLS, MINUTES = 6, 8, 30


@pytest.fixture
def address(server):
    return server.new()


def test_eight_pools_fire_at_once_and_each_run_comes_once(address):
    start = (time.time() // 60 - MINUTES) * 60
    extra = {"every": "every 1m", "catch-up": "all", "zone": "UTC"}
    with closing(Queue.open(address)) as queue:
        for number in range(SCHEDULES):
            task = Task(id=f"s{number}", title="again", not_before=start, tags=(TAG,), extra=extra)
            queue.store.put([task])  # as it stood when the last pool ended, half an hour ago
        (lost,) = queue.store.claim(Want(worker="dead", lease=3600.0, ids=("s0",)))  # its pool dies with the claim
    together = threading.Barrier(POOLS)

    def fire(_):
        with closing(Queue.open(address)) as mine:
            together.wait(PATIENCE)
            return mine.fire_schedules("keeper")

    with ThreadPoolExecutor(POOLS) as pools:
        fired = [name for names in pools.map(fire, range(POOLS)) for name in names]
    assert sorted(fired) == [f"s{number}" for number in range(1, SCHEDULES)]
    with closing(Queue.open(address)) as queue:
        queue.store.finish([End(claim=lost)])  # as a keeper gives it back
        assert queue.fire_schedules("keeper") == ["s0"]
        assert queue.fire_schedules("keeper") == []
        runs = [card for card in cards(queue.store) if "schedule" in card.task.extra]
        each = Counter(card.task.extra["schedule"] for card in runs)
        assert len(each) == SCHEDULES
        assert min(each.values()) >= MINUTES  # and one more where a minute has begun meanwhile
        assert len({(card.task.extra["schedule"], card.task.created) for card in runs}) == len(runs)
        assert {int(start) + 60 * n for n in range(MINUTES)} <= {int(card.task.created) for card in runs}
        assert {card.state for card in runs} == {State.READY}
        entered = Counter(event.about for event in queue.store.events("", 10_000)[0] if event.did == "added_task")
        assert {entered[card.task.id] for card in runs} == {1}
