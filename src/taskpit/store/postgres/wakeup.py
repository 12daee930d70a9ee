"""Sleeping until something may have become ready. Knows LISTEN and its limits, nothing of tasks.

Whoever sleeps says so in a table first; whoever brings news looks there after committing, and rings only if
somebody sleeps. A ring is a hint. What was under way while we first said that we sleep may have missed us:
so the first two sleeps are none and a short one. Behind a pooler nobody can listen: we look now and then.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from taskpit.errors import TaskpitError
from taskpit.store.postgres.libpq import ServerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.store.postgres.connection import Wire
    from taskpit.store.postgres.libpq import Connection

#: How long one sleeps at most before looking again: where nobody can be woken, and where a ring may get lost.
POLL, FALLBACK = 0.5, 5.0
#: For how long a sleeper is noted, in seconds; noted anew after half of that.
NOTED = 60.0
#: What was under way while a sleeper was first noted is over after this long, as a rule.
UNDER_WAY = 0.1


class Listening:
    """One connection that listens, opened when somebody first sleeps."""

    def __init__(self, wire: Wire, space: str) -> None:
        self.channel = f"taskpit_{space}"
        self._wire = wire
        self._table = f"{wire.schema}.waiter"
        self._who = os.urandom(8).hex()
        self._line: Connection | None = None
        self._noted = 0.0
        self._fresh = 0
        self._turn = threading.Lock()
        self._closed = False

    @property
    def bound(self) -> float:
        """After how many seconds a sleeper looks again, whatever happens."""
        return POLL if self._wire.pooled else FALLBACK

    def wait(self, timeout: float) -> bool:
        """True once something may be ready; False after that many seconds."""
        if self._wire.pooled:
            return self._nap(timeout)
        with self._turn:
            try:
                return self._listen(timeout)
            except (ServerError, TaskpitError):
                self._hang_up()
        return self._nap(min(timeout, POLL))  # the server is gone: whoever asks it next will say so

    def _nap(self, timeout: float) -> bool:
        time.sleep(max(min(timeout, POLL), 0.0))
        return True

    def _listen(self, timeout: float) -> bool:
        now = time.monotonic()
        if self._line is None:
            self._line = self._wire.connect()
            self._line.execute(f"LISTEN {self.channel}")
            self._noted = 0.0
        if now - self._noted > NOTED / 2:
            if now - self._noted > NOTED:
                self._fresh = 2
            self._line.execute(
                f"INSERT INTO {self._table} VALUES (%(who)s, clock_timestamp() + make_interval(secs => %(seconds)s)) "  # noqa: S608
                "ON CONFLICT (who) DO UPDATE SET until = excluded.until",
                {"who": self._who, "seconds": NOTED},
            )
            self._noted = now
        self._fresh -= 1
        if self._fresh == 1:
            return True
        longest = min(timeout, UNDER_WAY if self._fresh == 0 else FALLBACK)
        return self._line.hears(max(longest, 0.0)) or longest < timeout

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def close(self) -> None:
        """Nobody sleeps here any more."""
        with self._turn:
            if self._line is not None:
                with suppress(ServerError):
                    self._line.execute(f"DELETE FROM {self._table} WHERE who = %(who)s", {"who": self._who})  # noqa: S608
            self._hang_up()
