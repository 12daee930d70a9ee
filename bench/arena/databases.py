"""Peers that keep an SQLite database: one written by hand, litequeue, simplebroker."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any

from arena.entrants import PAYLOAD, RESULT, Entrant, Session, needs_module

__all__ = ["DATABASES", "HandSqlite"]

#: How long one waits for another's transaction.
BUSY = 60.0

SCHEMA = """
create table if not exists task (
    id integer primary key, priority integer not null default 0, state integer not null default 0,
    payload blob not null, worker text, lease real, result blob);
create index if not exists next on task (priority desc, id) where state = 0;
"""
PUT = "insert into task (payload) values (?)"
CLAIM = """
update task set state = 1, worker = ?, lease = ? where id in
    (select id from task where state = 0 order by priority desc, id limit ?) returning id, payload"""
DONE = "update task set state = 2, result = ? where id = ? and state = 1 and worker = ?"


class _SqliteSession(Session):
    def __init__(self, root: str, synchronous: str) -> None:
        self.db = sqlite3.connect(f"{root}/queue.db", timeout=BUSY, isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute(f"pragma synchronous = {synchronous}")
        self.worker = f"w{os.getpid()}"

    def _all(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        if len(rows) == 1:
            self.db.execute(statement, rows[0])
            return
        self.db.execute("begin immediate")
        self.db.executemany(statement, rows)
        self.db.execute("commit")

    def put(self, items: list[bytes]) -> None:
        self._all(PUT, [(item,) for item in items])

    def claim(self, count: int) -> list[int]:
        return [row[0] for row in self.db.execute(CLAIM, (self.worker, time.time() + 900, count)).fetchall()]

    def done(self, tokens: list[int]) -> None:
        self._all(DONE, [(RESULT, token, self.worker) for token in tokens])

    def take(self, timeout: float) -> list[int]:
        """Looks every 10 ms: SQLite tells nobody."""
        deadline = time.monotonic() + timeout
        while not (taken := self.claim(1)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return taken

    def close(self) -> None:
        self.db.close()


class HandSqlite(Entrant):
    """A queue written by hand: WAL, one statement a verb, lease and result."""

    note = "WAL; lease, priorities and result, one statement each"

    def __init__(self, durability: str) -> None:
        super().__init__()
        self.durability = durability
        self.synchronous = {"process": "normal", "power": "full"}[durability]
        self.name = f"SQLite {self.synchronous.upper()}"

    def start(self, root: str) -> None:
        """A new database."""
        super().start(root)
        session = _SqliteSession(root, self.synchronous)
        session.db.executescript(SCHEMA)
        session.close()

    def open(self) -> Session:
        """A connection."""
        return _SqliteSession(self.root, self.synchronous)


class _LiteSession(Session):
    def __init__(self, root: str) -> None:
        from litequeue import LiteQueue

        self.queue = LiteQueue(f"{root}/queue.db", timeout=BUSY)

    def items(self, first: int, count: int) -> list[str]:  # noqa: ARG002 - needs no numbers
        return [PAYLOAD.decode()] * count

    def put(self, items: list[str]) -> None:
        if len(items) == 1:
            self.queue.put(items[0])
            return
        with self.queue.transaction(mode="IMMEDIATE"):
            for item in items:
                self.queue.put(item)

    def claim(self, count: int) -> list[str]:
        taken: list[str] = []
        while len(taken) < count and (message := self.queue.pop()) is not None:
            taken.append(message.message_id)
        return taken

    def done(self, tokens: list[str]) -> None:
        if len(tokens) == 1:
            self.queue.done(tokens[0])
            return
        with self.queue.transaction(mode="IMMEDIATE"):
            for token in tokens:
                self.queue.done(token)

    def close(self) -> None:
        self.queue.conn.close()


class LiteQueue(Entrant):
    """litequeue."""

    name = "litequeue"
    note = "SQLite, WAL, NORMAL; locks and marks done, no result; claims one at a time"

    def missing(self) -> str:
        """It is a package."""
        return needs_module("litequeue")

    def start(self, root: str) -> None:
        """A new database, made before anybody competes for it."""
        super().start(root)
        _LiteSession(root).close()

    def open(self) -> Session:
        """A connection."""
        return _LiteSession(self.root)


class _BrokerSession(Session):
    def __init__(self, root: str) -> None:
        from simplebroker import Queue, resolve_config

        settings = resolve_config("BROKER", override={"BROKER_SYNC_MODE": "NORMAL"})
        self.queue = Queue("tasks", db_path=f"{root}/broker.db", persistent=True, config=settings)

    def items(self, first: int, count: int) -> list[str]:  # noqa: ARG002 - needs no numbers
        return [PAYLOAD.decode()] * count

    def put(self, items: list[str]) -> None:
        for item in items:
            self.queue.write(item)

    def claim(self, count: int) -> list[Any]:
        if count == 1:
            message = self.queue.read_one()
            return [] if message is None else [message]
        return list(self.queue.read_many(count))

    def close(self) -> None:
        self.queue.close()


class SimpleBroker(Entrant):
    """simplebroker."""

    name = "simplebroker"
    note = "SQLite, WAL, NORMAL; no lease, no result: a message is gone once read"

    def missing(self) -> str:
        """It is a package."""
        return needs_module("simplebroker")

    def start(self, root: str) -> None:
        """A new database, made before anybody competes for it."""
        super().start(root)
        session = _BrokerSession(root)
        session.put(["first"])
        session.claim(1)
        session.close()

    def open(self) -> Session:
        """A connection."""
        return _BrokerSession(self.root)


DATABASES = (LiteQueue, SimpleBroker)
