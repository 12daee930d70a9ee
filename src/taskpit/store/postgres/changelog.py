"""The changelog: read in the order of transactions, so that a reader skips nothing.

A line is numbered by the cluster that the queue lived on and by the transaction that wrote it. A transaction that began
earlier may commit later, so a line is shown once every transaction that was under way before it has ended.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from taskpit.clock import iso
from taskpit.decode import amount, read_json
from taskpit.errors import CursorLost
from taskpit.model import Event, worker_type
from taskpit.store.postgres.base import Base
from taskpit.store.postgres.database import Row
from taskpit.store.postgres.rows import as_json
from taskpit.text import is_count

#: How long a reader waits for transactions under way before it shows only the lines before them, and its sleeps.
PATIENCE, NAP = 1.0, 0.005
#: Lines that are read at once where all are wanted.
MANY = 10_000


class Changelog(Base):
    """The part of the store that reads and writes lines."""

    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """Return lines after a cursor, and the next cursor."""
        epoch, place = self._place(after)
        until = time.monotonic() + PATIENCE
        while True:
            rows = self._ask("lines", **place, limit=limit)
            current = rows[0][0]
            if after and epoch != current:
                raise CursorLost("another server has taken over since", cursor=after)
            lines = [row for row in rows if row[2] is not None]
            shown = list(takewhile(lambda row: row[1], lines))
            if len(shown) == len(lines) or (shown and len(shown) >= limit) or time.monotonic() >= until:
                break
            time.sleep(NAP)
        if not shown:
            return [], after or f"{self._space}/{current}/0/0/0/"
        return [_event(*line[5:]) for line in shown], self._cursor(current, shown[-1])

    def latest(self, limit: int) -> tuple[list[Event], str]:
        """Return the last lines that no other can precede, and the cursor after them."""
        until = time.monotonic() + PATIENCE
        while True:
            patient = time.monotonic() < until
            rows = self._ask("last_lines", limit=max(limit, 1), all=patient)
            lines = [row for row in reversed(rows) if row[2] is not None]
            if not patient or not lines or lines[-1][1]:
                break
            time.sleep(NAP)
        if not lines:
            return [], f"{self._space}/{rows[0][0]}/0/0/0/"
        return [_event(*line[5:]) for line in lines] if limit else [], self._cursor(rows[0][0], lines[-1])

    def unsettled(self, after: str) -> list[Event]:
        """Return all lines after a cursor, also those that others may still precede."""
        _, place = self._place(after)
        events: list[Event] = []
        while True:
            rows = [row for row in self._ask("lines", **place, limit=MANY) if row[2] is not None]
            events += [_event(*row[5:]) for row in rows]
            if len(rows) < MANY:
                return events
            place = dict(zip(("era", "xid", "seq"), rows[-1][2:5], strict=True))

    def record(self, events: Sequence[Event]) -> None:
        """Write lines from elsewhere."""
        if events:
            docs = as_json([as_json(event.as_dict()) for event in events])
            self._ask("record", repeat=False, docs=docs, at=self.clock.now())

    def _cursor(self, epoch: int, line: Row) -> str:
        era, xid, seq, at = line[2:6]
        return f"{self._space}/{epoch}/{era}/{xid}/{seq}/{at:.6f}"

    def _place(self, after: str) -> tuple[int, dict[str, Any]]:
        """Return the place of a cursor; CursorLost if it is of another queue, or of nowhere."""
        if not after:
            return 0, {"era": 0, "xid": "0", "seq": 0}
        words = after.split("/")
        if len(words) != 6 or words[0] != self._space or not all(map(is_count, words[1:5])):
            raise CursorLost(cursor=after)
        epoch = int(words[1])
        place: dict[str, Any] = {"era": int(words[2]), "xid": words[3], "seq": int(words[4])}
        if words[3] != "0":
            current, at = self._ask("line_at", **place)[0]
            # A crash may lose the last lines and give their numbers to others: the time differs.
            if at is None or f"{at:.6f}" != words[5] or epoch != current:
                raise CursorLost(cursor=after)
        return epoch, place


def _event(at: float, worker: str, action: str, task_id: str, details: str, doc: str | None) -> Event:
    if doc is not None:
        with suppress(ValueError, TypeError, AttributeError):  # otherwise the row is no line
            return Event.of(read_json(doc))
    kind = worker_type(worker)
    at_text = iso(amount(at))
    return Event(timestamp=at_text, worker=worker, worker_type=kind, action=action, task_id=task_id, details=details)
