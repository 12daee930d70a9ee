"""The changelog in a database: read in the order of transactions, so that a reader skips nothing.

Lines are numbered by the cluster that the queue lived on and by the transaction that wrote them. One that
began earlier may commit later, so lines are shown only once every transaction that was under way before them
is over: late, but never out of turn.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import takewhile

from taskpit import schema
from taskpit.clock import iso
from taskpit.errors import CursorLost
from taskpit.model import Event
from taskpit.store.postgres.row_text import as_json, event_of
from taskpit.text import is_count, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from taskpit.store.postgres.connection import Wire

#: How long a reader waits for transactions under way before it shows only what is before them, in seconds.
PATIENCE = 1.0
#: Lines that are read at once where all are wanted.
MANY = 10_000

#: Lines after a place, and whether more are there that cannot be shown yet.
LINES = """
    WITH horizon AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin, m.era FROM {s}.meta m)
    SELECT {s}.epoch(), e.era < h.era OR e.xid < h.xmin,
           e.era, e.xid::text, e.seq, e.at, e.worker, e.action, e.id, e.details, e.doc
    FROM horizon h LEFT JOIN LATERAL (
        SELECT * FROM {s}.event e
        WHERE (e.era, e.xid, e.seq) > (%(era)s, %(xid)s::xid8, %(seq)s)
        ORDER BY e.era, e.xid, e.seq LIMIT %(limit)s) e ON true
"""
LAST = """
    WITH horizon AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin, m.era FROM {s}.meta m)
    SELECT {s}.epoch(), e.era < h.era OR e.xid < h.xmin,
           e.era, e.xid::text, e.seq, e.at, e.worker, e.action, e.id, e.details, e.doc
    FROM horizon h LEFT JOIN LATERAL (
        SELECT * FROM {s}.event e
        WHERE e.era < h.era OR e.xid < h.xmin OR %(all)s
        ORDER BY e.era DESC, e.xid DESC, e.seq DESC LIMIT %(limit)s) e ON true
"""
KNOWN = """
    SELECT {s}.epoch(), (
        SELECT e.at::text FROM {s}.event e WHERE e.era = %(era)s AND e.xid = %(xid)s::xid8 AND e.seq = %(seq)s)
"""


class Changelog:
    """The lines of one queue."""

    def __init__(self, wire: Wire, space: str) -> None:
        self._wire = wire
        self._space = space

    def read(self, after: str, limit: int) -> tuple[list[Event], str]:
        """Lines after a cursor, and the next cursor."""
        epoch, place = self._place(after)
        until = time.monotonic() + PATIENCE
        while True:
            rows = self._wire.ask(LINES, {**place, "limit": limit})
            now = rows[0][0]
            if after and epoch != now:
                raise CursorLost("the server has gone over to another history since", cursor=after)
            lines = [row for row in rows if row[2] is not None]
            shown = list(takewhile(lambda row: row[1], lines))
            if len(shown) == len(lines) or (shown and len(shown) >= limit) or time.monotonic() >= until:
                break
            time.sleep(0.005)
        if not shown:
            return [], after or f"{self._space}/{now}/0/0/0/"
        return [_event(*line[5:]) for line in shown], self._cursor(now, shown[-1])

    def latest(self, limit: int) -> tuple[list[Event], str]:
        """The last lines, and the cursor after them."""
        until = time.monotonic() + PATIENCE
        while True:
            patient = time.monotonic() < until
            rows = self._wire.ask(LAST, {"limit": max(limit, 1), "all": patient})
            now = rows[0][0]
            lines = [row for row in reversed(rows) if row[2] is not None]
            if not patient or not lines or lines[-1][1]:
                break
            time.sleep(0.005)
        if not lines:
            return [], f"{self._space}/{now}/0/0/0/"
        events = [_event(*line[5:]) for line in lines] if limit else []
        return events, self._cursor(now, lines[-1])

    def unsettled(self, after: str) -> list[Event]:
        """All lines after a cursor as they stand: also those that others, not committed yet, may still come before."""
        _, place = self._place(after)
        found: list[Event] = []
        while True:
            rows = [row for row in self._wire.ask(LINES, {**place, "limit": MANY}) if row[2] is not None]
            found += [_event(*row[5:]) for row in rows]
            if len(rows) < MANY:
                return found
            place = dict(zip(("era", "xid", "seq"), rows[-1][2:5], strict=True))

    def _cursor(self, epoch: int, line: Sequence[Any]) -> str:
        """The place after a line."""
        era, xid, seq, at = line[2:6]
        return f"{self._space}/{epoch}/{era}/{xid}/{seq}/{_stamp(at)}"

    def _place(self, after: str) -> tuple[int, dict[str, object]]:
        """Where a cursor points; CursorLost if it is of another queue, or of nowhere."""
        if not after:
            return 0, {"era": 0, "xid": "0", "seq": 0}
        words = after.split("/")
        if len(words) != 6 or words[0] != self._space or not all(map(is_count, words[1:5])):
            raise CursorLost(cursor=after)
        epoch, place = int(words[1]), {"era": int(words[2]), "xid": words[3], "seq": int(words[4])}
        if words[3] != "0":
            now, at = self._wire.ask(KNOWN, place)[0]
            # A crash may take the last lines and give their numbers to others: the time tells them apart.
            if at is None or _stamp(float(at)) != words[5] or epoch != now:
                raise CursorLost(cursor=after)
        return epoch, place

    def record(self, events: Sequence[Event], now: float) -> None:
        """These lines are in the changelog, as they are."""
        sql = (
            "INSERT INTO {s}.event (at, worker, action, doc) "
            "SELECT %(now)s, '', '', x.doc "
            "FROM pg_catalog.unnest(%(docs)s::text[]) WITH ORDINALITY x(doc, n) ORDER BY x.n "
            "RETURNING 1"
        )
        docs = [as_json(event.as_dict()) for event in events]
        if docs:
            self._wire.ask(sql, {"docs": docs, "now": now}, repeat=False)


def _stamp(at: float) -> str:
    return f"{at:.6f}"


def _event(at: float, worker: str, action: str, task_id: str, details: str, doc: str | None) -> Event:
    if doc is not None:
        with suppress(ValueError, TypeError, AttributeError):  # else whoever wrote it wrote no line
            return Event.of(read_json(doc))
    return event_of(iso(schema.amount(at)), worker, action, task_id, details)
