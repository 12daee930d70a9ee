"""Peers that keep files: dirq, huey's file storage, kombu's filesystem transport, Maildir, persist-queue."""

from __future__ import annotations

import mailbox
import os
from typing import Any

from arena.entrants import PAYLOAD, RESULT, Entrant, Session, needs_module

__all__ = ["FILE_QUEUES"]


class _DirqSession(Session):
    def __init__(self, root: str) -> None:
        from dirq.QueueSimple import QueueSimple

        self.queue = QueueSimple(root)
        self._name = self.queue.first()

    def put(self, items: list[bytes]) -> None:
        for item in items:
            self.queue.add(item)

    def claim(self, count: int) -> list[str]:
        taken: list[str] = []
        name = self.queue.next() or self.queue.first()
        while name:
            if self.queue.lock(name):
                self.queue.get(name)
                taken.append(name)
                if len(taken) == count:
                    break
            name = self.queue.next()
        return taken

    def done(self, tokens: list[str]) -> None:
        for name in tokens:
            self.queue.remove(name)


class Dirq(Entrant):
    """A directory queue with time-named sub-directories."""

    name = "dirq"
    note = "no lease, no result, no priority; each worker goes through its listing"

    def missing(self) -> str:
        """It is a package."""
        return needs_module("dirq.QueueSimple")

    def open(self) -> Session:
        """QueueSimple."""
        return _DirqSession(self.root)


class _HueySession(Session):
    """The storage itself, without the framework around it."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self._number = 0

    def put(self, items: list[bytes]) -> None:
        for item in items:
            self.storage.enqueue(item)

    def claim(self, count: int) -> list[bytes]:
        taken = []
        while len(taken) < count and (data := self.storage.dequeue()) is not None:
            taken.append(data)
        return taken

    def done(self, tokens: list[bytes]) -> None:
        for _ in tokens:
            self._number += 1
            self.storage.put_data(f"{os.getpid()}-{self._number}".encode(), RESULT, is_result=True)

    def close(self) -> None:
        self.storage.close()


class HueyFile(Entrant):
    """huey's FileStorage."""

    name = "huey file"
    note = "no lease: a task is gone once dequeued; the storage alone, without the framework"

    def missing(self) -> str:
        """It is a package."""
        return needs_module("huey.storage")

    def open(self) -> Session:
        """The storage."""
        from huey.storage import FileStorage

        return _HueySession(FileStorage("bench", self.root))


class HueySqlite(Entrant):
    """huey's SqliteStorage with synchronous off."""

    name = "huey SQLite"
    note = "synchronous off; no lease: a task is gone once dequeued; the storage alone, without the framework"

    def missing(self) -> str:
        """It is a package."""
        return needs_module("huey.storage")

    def open(self) -> Session:
        """The storage."""
        from huey.storage import SqliteStorage

        return _HueySession(SqliteStorage("bench", f"{self.root}/huey.db", fsync=False, timeout=60))


class _KombuSession(Session):
    def __init__(self, root: str) -> None:
        from kombu import Connection

        folders = {name: f"{root}/{name}" for name in ("data", "processed", "control")}
        for folder in folders.values():
            os.makedirs(folder, exist_ok=True)
        options = {
            "data_folder_in": folders["data"],
            "data_folder_out": folders["data"],
            "processed_folder": folders["processed"],
            "control_folder": folders["control"],
            "store_processed": True,  # else it moves files to the system's temporary folder, on whatever disk
        }
        self.connection = Connection("filesystem://", transport_options=options)
        self.queue = self.connection.SimpleQueue("bench")

    def put(self, items: list[bytes]) -> None:
        for item in items:
            self.queue.put(item)

    def claim(self, count: int) -> list[Any]:
        taken: list[Any] = []
        while len(taken) < count:
            try:
                taken.append(self.queue.get(block=False))
            except self.queue.Empty:
                break
        return taken

    def done(self, tokens: list[Any]) -> None:
        for message in tokens:
            message.ack()

    def close(self) -> None:
        self.queue.close()
        self.connection.release()


class Kombu(Entrant):
    """kombu's filesystem transport."""

    name = "kombu filesystem"
    note = "no result; a message is out of the queue once delivered; processed files are kept"

    def missing(self) -> str:
        """It is a package."""
        return needs_module("kombu")

    def open(self) -> Session:
        """A simple queue."""
        return _KombuSession(self.root)


class _MaildirSession(Session):
    def __init__(self, root: str) -> None:
        self.box = mailbox.Maildir(f"{root}/box")
        self.results = mailbox.Maildir(f"{root}/results")
        self._keys: list[str] = []

    def put(self, items: list[bytes]) -> None:
        for item in items:
            self.box.add(item)

    def claim(self, count: int) -> list[str]:
        if not self._keys:
            self._keys = self.box.keys()
        taken, self._keys = self._keys[:count], self._keys[count:]
        for key in taken:
            self.box.get_bytes(key)
        return taken

    def done(self, tokens: list[str]) -> None:
        for key in tokens:
            self.results.add(RESULT)
            self.box.remove(key)


class Maildir(Entrant):
    """The standard library's Maildir, its keys listed once."""

    name = "Maildir"
    note = "one consumer only: it has no claim; its keys are listed once; add() always syncs the file"
    most_workers = 1

    def open(self) -> Session:
        """The mailbox."""
        return _MaildirSession(self.root)


class _PopSession(_MaildirSession):
    def claim(self, count: int) -> list[str]:
        taken: list[str] = []
        while len(taken) < count:
            try:
                taken.append(self.box.popitem()[0])
            except KeyError:
                break
        return taken

    def done(self, tokens: list[str]) -> None:
        for _ in tokens:
            self.results.add(RESULT)


class MaildirPop(Maildir):
    """The standard library's Maildir as a queue: popitem."""

    name = "Maildir popitem"
    note = "as a queue that others add to; popitem() lists anew; add() always syncs the file"

    def open(self) -> Session:
        """The mailbox."""
        return _PopSession(self.root)


class _PersistFileSession(Session):
    def __init__(self, root: str) -> None:
        import persistqueue

        drafts = f"{root}/drafts"  # on the same disk, or its renames are copies
        os.makedirs(drafts, exist_ok=True)
        self.queue = persistqueue.Queue(f"{root}/queue", tempdir=drafts)

    def put(self, items: list[bytes]) -> None:
        for item in items:
            self.queue.put(item)

    def claim(self, count: int) -> list[bytes]:
        return [self.queue.get() for _ in range(min(count, self.queue.qsize()))]

    def done(self, tokens: list[bytes]) -> None:
        if tokens:
            self.queue.task_done()


class PersistFile(Entrant):
    """persist-queue on files."""

    name = "persist-queue file"
    note = "one process only; no lease, no result"
    most_workers = 1

    def missing(self) -> str:
        """It is a package."""
        return needs_module("persistqueue")

    def open(self) -> Session:
        """The queue."""
        return _PersistFileSession(self.root)


class _PersistAckSession(Session):
    def __init__(self, root: str) -> None:
        import persistqueue

        self.queue = persistqueue.SQLiteAckQueue(root)

    def put(self, items: list[bytes]) -> None:
        for number, item in enumerate(items):
            self.queue.put(item[:-8] + number.to_bytes(8))

    def claim(self, count: int) -> list[Any]:
        taken = []
        while len(taken) < count and self.queue.size > 0:
            taken.append(self.queue.get(block=False, raw=True))
        return taken

    def done(self, tokens: list[Any]) -> None:
        for token in tokens:
            self.queue.ack(id=token["pqid"])

    def close(self) -> None:
        self.queue.close()


class PersistAck(PersistFile):
    """persist-queue on SQLite, with acknowledgements."""

    name = "persist-queue SQLite"
    durability = "power"
    note = "one process only; WAL, FULL, as it comes; acknowledges, no result"

    def open(self) -> Session:
        """The queue."""
        return _PersistAckSession(self.root)


FILE_QUEUES = (Dirq, HueyFile, HueySqlite, Kombu, Maildir, MaildirPop, PersistFile, PersistAck)
assert len(PAYLOAD) > 8
