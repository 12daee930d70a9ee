"""Sleeping until a task may have become ready: LISTEN, NOTIFY and their limits.

A sleeping process says so in a table first. A verb that makes tasks ready reads that table and notifies after its
commit, and only if a process sleeps. A notification is a hint. Transactions under way while a process begins to sleep
may have missed it, so its first sleep is none and its second a short one. A pooler passes on no notifications: behind
one, a process polls.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

import psycopg

from taskpit.errors import TaskpitError
from taskpit.store.postgres.database import DEADLINE, Database, Session, statement

#: The longest sleeps, in seconds: where no notification can come, and where one may be lost.
POLL, FALLBACK = 0.5, 5.0
#: A sleeper is noted for so long, and again after half of that.
NOTED = 60.0
#: Transactions that were under way when a sleeper was noted have ended after this long, as a rule.
UNDER_WAY = 0.1


class Listener:
    """One connection that listens, opened for the first sleep."""

    def __init__(self, database: Database, space: str) -> None:
        self.channel = f"taskpit_{space}"
        self._database = database
        self._sleeper = os.urandom(8).hex()
        self._session: Session | None = None
        self._noted = 0.0
        self._fresh = 0
        self._turn = threading.Lock()

    @property
    def bound(self) -> float:
        """The longest time until a sleeper looks again."""
        return POLL if self._database.pooled else FALLBACK

    def wait(self, timeout: float) -> bool:
        """Return True once a task may be ready, and False after that many seconds."""
        if not self._database.pooled:
            with self._turn:
                try:
                    return self._listen(timeout)
                except (psycopg.Error, TaskpitError):
                    self._hang_up()  # the next verb reports that the server is away
        time.sleep(max(min(timeout, POLL), 0.0))
        return True

    def _listen(self, timeout: float) -> bool:
        now = time.monotonic()
        if self._session is None:
            self._session = self._database.connect()
            self._session.execute(f"LISTEN {self.channel}".encode())
            self._noted = 0.0
        if now - self._noted > NOTED / 2:
            if now - self._noted > NOTED:
                self._fresh = 2
            self._say("sleep", seconds=NOTED)
            self._noted = now
        self._fresh -= 1
        if self._fresh == 1:
            return True
        longest = max(min(timeout, UNDER_WAY if self._fresh == 0 else FALLBACK), 0.0)
        return bool(list(self._session.notifies(timeout=longest, stop_after=1))) or longest < timeout

    def _say(self, name: str, **values: object) -> None:
        if self._session is not None:
            self._session.ends = time.monotonic() + DEADLINE
            self._session.execute(self._database.text(statement(name)), {"sleeper": self._sleeper, **values})

    def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def close(self) -> None:
        """Sleep no more."""
        with self._turn:
            with suppress(psycopg.Error):
                self._say("wake")
            self._hang_up()
