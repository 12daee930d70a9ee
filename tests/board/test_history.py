"""The past as numbers, from the lines of the changelog alone."""

from __future__ import annotations

from taskpit.clock import iso
from taskpit.history import History, who
from taskpit.model import Done, Event, Split, Task
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore
from taskpit.testing import FakeClock


def line(at, action, about="1", worker="snake-1~k3f9", details=""):
    fields = {"worker": worker, "worker_type": "agent", "action": action, "task_id": about, "details": details}
    return Event(timestamp=iso(1000.0 + at), **fields)


def test_a_life_is_a_span_and_a_wait():
    history = History()
    history.feed([line(0, "added_task"), line(10, "claimed_task"), line(40, "completed_task")])
    (span,) = history.spans
    assert (span.worker, span.id, span.start, span.end, span.how) == ("snake-1", "1", 1010.0, 1040.0, "done")
    first, second = history.flow(1000.0, 1060.0, 2)
    assert (first.added, first.done, first.running, first.waited) == (1, 0, 1, 10.0)
    assert (second.added, second.done, second.running, second.waited) == (0, 1, 0, None)


def test_a_claim_without_an_end_goes_on():
    history = History()
    history.feed([line(0, "claimed_task")])
    assert history.recent(1000.0)[0].end == 0.0
    assert history.flow(1000.0, 1010.0, 1)[0].running == 1


def test_a_claim_of_the_same_task_ends_the_one_before():
    history = History()
    history.feed([line(0, "claimed_task"), line(50, "claimed_task", worker="snake-2~a")])
    assert [(span.worker, span.how) for span in history.recent(0)] == [("snake-1", "lost"), ("snake-2", "")]


def test_every_way_of_ending_is_told():
    ways = {"completed_task": "done", "failed_task": "failed", "recovered_task": "lost", "asked": "asked"}
    history = History()
    for number, action in enumerate(ways):
        history.feed([line(number, "claimed_task", str(number)), line(number + 1, action, str(number))])
    assert [span.how for span in history.spans] == list(ways.values())


def test_a_task_that_was_split_is_done_once():
    """At once, or when it comes back after its parts, or its racers."""
    queue = Queue(MemoryStore(FakeClock(1005.0)))
    for title, wait in (("at once", False), ("later", True)):
        queue.put([Task(id="", title=title)])
        (claim,) = queue.claim("snake")
        queue.finish(claim, Split(children=(Task(id=f"{claim.task.id}-1", title="part"),), wait=wait))
        queue.finish(queue.claim("snake")[0], Done())
    queue.finish(queue.claim("snake")[0], Done())
    history = History()
    history.feed([*queue.store.events()[0], line(6, "split_task", details="racers 0009-r1, 0009-r2")])
    assert [span.how for span in history.spans] == ["split", "done", "split", "done", "done"]
    assert history.flow(1000.0, 1010.0, 1)[0].done == 4


def test_an_activity_is_a_task_too():
    history = History()
    history.feed([line(0, "claimed_activity"), line(5, "completed_activity")])
    assert history.flow(1000.0, 1010.0, 1)[0].done == 1


def test_lines_without_a_time_spoil_nothing():
    history = History()
    history.feed([Event(timestamp="yesterday", worker="a", worker_type="agent", action="added_task", task_id="1")])
    assert history.flow(1000.0, 1010.0, 1)[0].added == 0


def test_the_past_is_bounded():
    history = History(most=10)
    for number in range(100):
        history.feed([line(number, "claimed_task", str(number)), line(number, "completed_task", str(number))])
    assert len(history.spans) <= 20
    assert history.spans[-1].id == "99"


def test_a_worker_is_called_by_its_name():
    assert who("snake-2~k3f9") == "snake-2"
    assert who("me@host") == "me@host"
