"""What has happened, kept at hand: the changelog read once and then only its new lines. Knows no page."""

from __future__ import annotations

from collections import Counter, deque

from taskpit.errors import CursorLost
from taskpit.history import History

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.queue import Queue
    from taskpit.task import Event

__all__ = ["Past"]

#: So many lines are kept of each task, and of so many tasks; of others the newest is what counts.
LINES, TASKS = 200, 50_000


class Past:
    """The changelog of one queue as far as it has been read."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._begin()

    def _begin(self) -> None:
        self.history = History()
        #: How often each thing has happened.
        self.tally: Counter[str] = Counter()
        self._cursor = ""
        self._trails: dict[str, deque[Event]] = {}

    def read(self) -> Past:
        """All lines there are by now."""
        while True:
            try:
                events, self._cursor = self.queue.store.events(self._cursor)
            except CursorLost:
                self._begin()
                continue
            if not events:
                return self
            self.history.feed(events)
            for event in events:
                self.tally[event.did] += 1
                self._remember(event)

    def _remember(self, event: Event) -> None:
        trail = self._trails.pop(event.about, None) or deque(maxlen=LINES)
        trail.append(event)
        self._trails[event.about] = trail
        if len(self._trails) > TASKS:
            del self._trails[next(iter(self._trails))]

    def trail(self, task_id: str) -> list[Event]:
        """What happened to this task, oldest first."""
        return list(self._trails.get(task_id, ()))
