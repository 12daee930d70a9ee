"""What is ready, in order, without reading every file again.

A row is valid for one name, inode, mtime and size. A file that another program wrote in the last two seconds is never
kept: its mtime may not change with its next write. A pool that has looked twice follows notifications; a single command
lists the folder. Above 500 files the rows are in SQLite, so that the next command need not read them. The cache only
proposes: the claim judges each file under the lock.
"""

from __future__ import annotations

import sqlite3
from bisect import insort
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from taskpit.errors import Invalid
from taskpit.model import Task
from taskpit.rules import order
from taskpit.store.plain import paths
from taskpit.store.plain.files import Stat, Watch
from taskpit.store.plain.folder import Folder

#: From so many ready files on the rows are kept in SQLite, and written when so many are new.
LARGE, NEW = 500, 50
#: What a row keeps of a task besides its order.
BRIEF = ("id", "slug", "priority", "created", "hold", "not_before", "needs", "tags", "touches", "limits", "big")
TABLE = "CREATE TABLE IF NOT EXISTS rows (name TEXT, inode INT, mtime INT, size INT, rank BLOB, brief BLOB)"

Rank = tuple[Any, ...]
Sign = tuple[int, int, int]


class Row:
    """One ready file: its place in the order, and as much of its task as decides whether it may be taken."""

    __slots__ = ("_brief", "_task", "name", "rank", "sign")

    def __init__(self, name: str, rank: Rank, sign: Sign, brief: bytes, task: Task | None = None) -> None:
        self.name = name
        #: Its place: priority, age, number, id; then its name.
        self.rank = rank
        self.sign = sign
        self._brief = brief
        self._task = task

    @property
    def task(self) -> Task:
        """Return what is known of the task: all of it, or what `BRIEF` names."""
        if self._task is None:
            fields = dict(zip(BRIEF, msgspec.json.decode(self._brief), strict=True))
            for key in ("needs", "tags", "touches", "limits"):
                fields[key] = tuple(fields[key])
            self._task = Task(title="", **fields)
        return self._task

    @property
    def brief(self) -> bytes:
        """Return what SQLite keeps of the task."""
        if not self._brief:
            self._brief = msgspec.json.encode([getattr(self.task, key) for key in BRIEF])
        return self._brief


def sign_of(status: Stat) -> Sign:
    """Return by what a file is known to be unchanged."""
    return status.st_ino, status.st_mtime_ns, status.st_size


class ReadyCache:
    """The ready tasks of one queue, as one process knows them. Used by one thread at a time."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._rows: dict[str, Row] = {}
        self._order: list[tuple[Rank, str]] = []
        #: Names that must be looked at again: young files, and what is not plainly a task.
        self.odd: set[str] = set()
        self._watch: Watch | None = None
        self._looked = False
        #: From so many ready files on the rows are kept in SQLite.
        self.large = LARGE
        self._database: sqlite3.Connection | None = None

    # -- learning ----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Learn what has changed."""
        changes = self._watch.changes() if self._watch is not None else None
        if changes is None:
            self._begin_watch()
            self._scan()
            return
        ready = self._folder.layout.ready
        names = {name for folder, name in changes if folder == ready} | self.odd
        self.odd.clear()
        for name in sorted(names):
            self.learn(name, self._folder.files.stat(self._folder.ready_path(name)))

    def _begin_watch(self) -> None:
        """Follow notifications from the second look on: a single command does without."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._looked:
            self._watch = self._folder.files.watch((self._folder.layout.ready, paths.ENDED))
        self._looked = True

    def watch(self) -> tuple[Watch | None, bool]:
        """Return what tells of changes, if anything does, and whether it began just now: something may have come."""
        begins = self._watch is None
        if begins:
            self._looked = True
            self._begin_watch()
        if begins and self._watch is not None:
            self._scan()
        return self._watch, begins and self._watch is not None

    def _scan(self) -> None:
        found = self._folder.files.scan(self._folder.layout.ready)
        self.odd.clear()
        for name in sorted(self._rows.keys() - {name for name, _ in found}):
            self.forget(name)
        if len(found) > self.large and not self._rows:
            found = self._load(found)
        new = [name for name, status in found if self.learn(name, status)]
        if len(self._rows) > self.large and len(new) >= min(NEW, self.large):
            self._save()

    def learn(self, name: str, status: Stat | None) -> bool:
        """Know one name as it is now; whether there is a new row."""
        row = self._rows.get(name)
        if row is not None and status is not None and row.sign == sign_of(status):
            return False
        if row is not None:
            self.forget(name)
        spot = self._folder.ready_spot(name) if status is not None else None
        if status is None or spot is None:
            if status is not None and name.endswith(self._folder.layout.takes_in or "\0"):
                self.odd.add(name)
            return False
        if self._folder.is_young(status) or not status.st_size:
            self.odd.add(name)
            return False
        try:
            data, read = self._folder.read(spot.path)
            task = self._folder.parse(spot, data)
            sound = paths.is_dated(read.st_mtime, data) or not self._folder.is_damaged(spot, data, read)
        except (OSError, Invalid):
            sound = False
        if not sound:
            self.odd.add(name)
            return False
        rank = (*order(task), name)
        self._rows[name] = Row(name, rank, sign_of(read), b"", task)
        insort(self._order, (rank, name))
        return True

    def forget(self, name: str) -> None:
        """Drop a row; its entry in the order is passed over."""
        self._rows.pop(name, None)
        if len(self._order) > 64 + 2 * len(self._rows):
            self._order = sorted((row.rank, row.name) for row in self._rows.values())

    # -- looking -----------------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[Row]:
        """Yield what is known to be ready, in the order in which it is taken."""
        last = None
        for rank, name in list(self._order):
            row = self._rows.get(name)
            if row is not None and row.rank == rank and row is not last:
                last = row
                yield row

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Stop watching and close the database."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._database is not None:
            self._database.close()
            self._database = None

    # -- SQLite ------------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = self._folder.files.database(paths.CACHE)
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute(TABLE)
        return self._database

    def _load(self, found: list[tuple[str, Stat]]) -> list[tuple[str, Stat]]:
        """Take rows of unchanged files from the database; return the other files."""
        try:
            kept = self._open().execute("SELECT * FROM rows ORDER BY rowid").fetchall()
        except (sqlite3.Error, OSError):
            self._drop()
            return found
        statuses, decode = dict(found), msgspec.json.decode
        for name, inode, mtime, size, rank, brief in kept:  # in order, as they were saved
            status = statuses.get(name)
            if status is not None and (inode, mtime, size) == (status.st_ino, status.st_mtime_ns, status.st_size):
                row = self._rows[name] = Row(name, tuple(decode(rank)), (inode, mtime, size), brief)
                self._order.append((row.rank, name))
        return [one for one in found if one[0] not in self._rows]

    def _save(self) -> None:
        encode = msgspec.json.encode
        rows = [(row.name, *row.sign, encode(row.rank), row.brief) for row in self.rows()]
        try:
            database = self._open()
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("DELETE FROM rows")
                database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", rows)
        except (sqlite3.Error, OSError):
            self._drop()

    def _drop(self) -> None:
        """Go on without a cache that is damaged or busy; it is made again when it is next saved."""
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None
