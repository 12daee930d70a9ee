"""Who is told what, and when: nothing is missed between listening and looking, nothing old is news."""

from __future__ import annotations

import asyncio
import threading

from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from waits import PATIENCE

from taskpit.errors import Unavailable
from taskpit.mcp import server
from taskpit.mcp.server import Changes, notices
from taskpit.model import Event, Task
from taskpit.queue import Queue

OLD = "2020-01-01T00:00:00Z"


def event(action, task_id="0001", timestamp=OLD):
    return Event(timestamp=timestamp, worker="w", worker_type="agent", action=action, task_id=task_id)


class Watched(Changes):
    """Says when it has looked once after its beginning."""

    def __init__(self, open_queue):
        super().__init__(open_queue)
        self.looked, self._begun = threading.Event(), False

    def _pass_on(self, *args):
        super()._pass_on(*args)
        if self._begun:
            self.looked.set()
        self._begun = True


def hear(changes, count, then=lambda: None):
    """The first events a listener hears, and whether the watching ended with it."""

    async def run():
        heard, enough = [], asyncio.Event()

        def listener(news):
            heard.append(news)
            if len(heard) >= count:
                enough.set()

        before = set(threading.enumerate())
        leave = changes.subscribe(listener)
        (watching,) = set(threading.enumerate()) - before
        await asyncio.to_thread(then)
        await asyncio.wait_for(enough.wait(), PATIENCE)
        leave()
        leave()
        await asyncio.to_thread(watching.join, 60)
        assert not watching.is_alive()
        return heard

    return asyncio.run(run())


def test_what_happens_before_the_first_look_is_told_and_what_was_before_is_not(root, queue):
    queue.store.record([event("added_task", "0099")])

    def late():
        queue.put([Task(id="", title="new")])  # somebody is faster than our first look
        return Queue.open(root)

    assert hear(Changes(late), 3) == [
        ResourceUpdated(uri="pit://task/0001"),
        ResourceUpdated(uri="pit://board"),
        ResourcesListChanged(),
    ]


def test_a_clock_that_is_behind_is_no_matter_later(root, queue):
    """Once we have looked, whatever comes is new, however old it says it is."""
    watched = Watched(lambda: Queue.open(root))

    def then():
        assert watched.looked.wait(PATIENCE)
        queue.store.record([event("claimed_task")])

    assert hear(watched, 2, then)[0] == ResourceUpdated(uri="pit://task/0001")


def test_a_new_changelog_is_followed(root, queue):
    """Somebody took the changelog away: we go on with the next one."""
    queue.store.record([event("added_task", f"{number:04d}") for number in range(50)])
    watched = Watched(lambda: Queue.open(root))

    def then():
        assert watched.looked.wait(PATIENCE)
        with open(f"{root}/.taskpit/changelog.log", "w", encoding="utf-8"):
            pass
        queue.store.record([event("claimed_task", "0007")])

    assert ResourceUpdated(uri="pit://task/0007") in hear(watched, 2, then)


def test_an_outage_is_outlived(root, queue, monkeypatch):
    """The gateway restarts: what happened meanwhile is told once it is back, and what was before is not told again."""
    monkeypatch.setattr(server, "LOOK_AGAIN", 0.01)
    queue.store.record([event("added_task", "0099")])
    opened = []

    def away(*_):
        queue.store.record([event("claimed_task", "0007")])
        raise Unavailable("the gateway restarts")

    def open_queue():
        opened.append(None)
        if len(opened) == 2:
            raise Unavailable("it is not back yet")
        one = Queue.open(root)
        if len(opened) == 1:
            one.store.wait = away
        return one

    assert hear(Changes(open_queue), 2) == [ResourceUpdated(uri="pit://task/0007"), ResourceUpdated(uri="pit://board")]
    assert len(opened) == 3


def test_each_thing_is_told_once():
    news = notices([event("claimed_task"), event("noted"), event("claimed_task", "0002")])

    assert [one.uri for one in news] == ["pit://task/0001", "pit://task/0002", "pit://board"]
    assert notices([event("completed_task")])[-1] == ResourcesListChanged()
