"""Telling clients what has changed, as the changelog tells it. Looks only while somebody listens.

A thread of its own sleeps until the store wakes it (or for a second at most), reads the lines that came, and
hands them to the loop that serves. A notification says only "look again": one too many is harmless.
"""

from __future__ import annotations

import asyncio
import threading

from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated

from taskpit.clock import Clock, iso
from taskpit.errors import CursorLost, TaskpitError
from taskpit.mcp.texts import BOARD, task_uri

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp.server.subscriptions import ServerEvent

    from taskpit.queue import Queue
    from taskpit.task import Event

__all__ = ["Changes"]

#: The longest sleep, in seconds: what the store does not wake us for is told after it.
LOOK_AGAIN = 1.0
#: Of so many lines, those that came while the first listener did are told.
SOME = 1000
#: What makes the list of open tasks another one.
LISTED = ("added_task", "completed_task", "failed_task", "cancelled_task", "split_task", "reopened_task")


class Changes:
    """The SDK's fan-out, fed by the queue's changelog."""

    def __init__(self, open_queue: Callable[[], Queue], clock: Clock | None = None) -> None:
        self._open = open_queue
        self._clock = clock or Clock()
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._over = threading.Event()

    async def publish(self, event: ServerEvent) -> None:
        """Tell every listener."""
        self._deliver([event])

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a listener; the first one starts the watching, the last one to leave ends it."""
        if not self._listeners:
            self._over = threading.Event()
            begun = iso(self._clock.now())
            args = (self._over, asyncio.get_running_loop(), begun)
            threading.Thread(target=self._watch, args=args, daemon=True).start()
        key = object()
        self._listeners[key] = listener

        def leave() -> None:
            self._listeners.pop(key, None)
            if not self._listeners:
                self._over.set()

        return leave

    def _watch(self, over: threading.Event, loop: asyncio.AbstractEventLoop, begun: str) -> None:
        try:
            queue = self._open()
        except TaskpitError:
            return  # the queue is gone; calls say so
        try:
            cursor = self._begin(queue, loop, begun)
            while not over.is_set():
                queue.store.wait(LOOK_AGAIN)
                cursor = self._tell(queue, cursor, loop)
        except (TaskpitError, OSError, RuntimeError):
            return  # the queue is gone, or the loop has ended
        finally:
            queue.close()

    def _begin(self, queue: Queue, loop: asyncio.AbstractEventLoop, begun: str) -> str:
        """Pass on what came since then; what was before anybody listened is nobody's news."""
        events, cursor = queue.store.latest(SOME)
        self._pass_on([event for event in events if event.timestamp >= begun], loop)
        return cursor

    def _pass_on(self, events: Sequence[Event], loop: asyncio.AbstractEventLoop) -> None:
        if events:
            loop.call_soon_threadsafe(self._deliver, told(events))

    def _tell(self, queue: Queue, cursor: str, loop: asyncio.AbstractEventLoop) -> str:
        """Pass on what came after the cursor; the next cursor."""
        while True:
            try:
                events, cursor = queue.store.events(cursor)
            except CursorLost:
                cursor = ""  # somebody began a new changelog: so do we
                continue
            self._pass_on(events, loop)
            if not events:
                return cursor

    def _deliver(self, news: Iterable[ServerEvent]) -> None:
        for event in news:
            for listener in list(self._listeners.values()):
                listener(event)


def told(events: Iterable[Event]) -> list[ServerEvent]:
    """What clients are told of these lines: each thing once."""
    events = list(events)
    tasks = dict.fromkeys(event.about for event in events if event.about)
    news: list[ServerEvent] = [ResourceUpdated(uri=task_uri(task_id)) for task_id in tasks]
    news.append(ResourceUpdated(uri=BOARD))
    if any(event.did in LISTED for event in events):
        news.append(ResourcesListChanged())
    return news
