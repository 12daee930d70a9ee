"""Needs that go round in a circle are refused, and looking for them costs no more than what waits."""

from __future__ import annotations

import pytest

from taskpit.errors import Invalid
from taskpit.model import Task
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore

LONG = 300


class Counting(MemoryStore):
    """Counts how often it is asked for tasks."""

    asked = 0

    def read(self, ids):
        self.asked += 1
        return super().read(ids)

    def page(self, *given, **named):
        self.asked += 1
        return super().page(*given, **named)


@pytest.fixture
def chain():
    """A queue with a long chain of tasks, each of which needs the one before."""
    queue = Queue(Counting())
    queue.put([Task(id=f"c{n}", title="x", needs=(f"c{n - 1}",) if n else ("later",)) for n in range(LONG)])
    queue.store.asked = 0
    return queue


def test_what_joins_a_long_chain_does_not_ask_for_each_of_its_tasks(chain):
    chain.put([Task(id="", title="y", needs=(f"c{LONG - 1}",)) for _ in range(20)])
    assert chain.store.asked == 2, "once for what it needs, and once for all that waits"


def test_what_needs_nothing_that_waits_asks_only_for_that(chain):
    chain.put([Task(id="free", title="y")])
    chain.put([Task(id="", title="y", needs=("free", "nobody"))])
    assert chain.store.asked == 1


def test_a_circle_through_a_long_chain_is_refused(chain):
    with pytest.raises(Invalid, match="wait for each other") as refused:
        chain.put([Task(id="other", title="y"), Task(id="later", title="y", needs=(f"c{LONG - 1}",))])
    assert len(refused.value.details["circle"]) == LONG + 2


def test_a_circle_that_others_are_in_refuses_nobody_else(chain):
    """As when somebody has made it with an editor."""
    store = chain.store
    store.put([Task(id="a", title="x", needs=("b",)), Task(id="b", title="x", needs=("a",))])
    assert chain.put([Task(id="c", title="y", needs=("a",))])[0][0] == "c"
