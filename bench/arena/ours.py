"""Ours, and the bare system calls: what the disk would allow a program that does nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from arena.entrants import PAYLOAD, RESULT, Entrant, Session
from taskpit.cli.bench import BareCalls, sample_task
from taskpit.policy import settle
from taskpit.queue import Queue
from taskpit.store.opening import init
from taskpit.task import Done

if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.task import Claim, Task

__all__ = ["Bare", "Original", "Taskpit", "make_queue"]


def make_queue(root: str, durability: str) -> None:
    """A pit in this folder."""
    init(root, "pit")
    with open(f"{root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write(f'durability = "{durability}"\n')


class _OurSession(Session):
    def __init__(self, root: str) -> None:
        self.queue = Queue.open(root)
        self.worker = f"w{os.getpid()}"

    def items(self, first: int, count: int) -> list[Task]:
        return [sample_task(number) for number in range(first, first + count)]

    def put(self, items: list[Task]) -> None:
        self.queue.store.put(items)

    def claim(self, count: int) -> list[Claim]:
        return self.queue.claim(self.worker, count=count)

    def take(self, timeout: float) -> list[Claim]:
        return self.queue.claim(self.worker, wait=timeout)

    def done(self, tokens: list[Claim]) -> None:
        now, outcome = self.queue.clock.now(), Done(output=RESULT.decode())
        self.queue.store.finish([settle(claim, outcome, (), self.queue.config, now) for claim in tokens])

    def close(self) -> None:
        self.queue.close()


class Taskpit(Entrant):
    """A pit."""

    note = "lease, priorities, checks, result, changelog"

    def __init__(self, durability: str) -> None:
        super().__init__()
        self.name = "taskpit" if durability == "process" else f"taskpit {durability}"
        self.durability = durability

    def start(self, root: str) -> None:
        """A new pit; before the first one a life elsewhere, so that no process of a race need load what it takes."""
        if not self.root:
            self.root = f"{root}-warm"
            make_queue(self.root, "process")
            session = self.open()
            session.put(session.items(1, 2))
            for _ in range(3):
                session.done(session.claim(1))
            session.close()
            self.stop()
        self.root = root
        make_queue(root, self.durability)

    def open(self) -> Session:
        """Queue and store."""
        return _OurSession(self.root)


class _BareSession(Session):
    """Each process knows the names of its own tasks: nothing is listed, nobody competes."""

    def __init__(self, put: Callable[[str], None], claim: Callable[[str], None], done: Callable[[str], None]) -> None:
        self._put, self._claim, self._done = put, claim, done
        self._ready: list[str] = []

    def items(self, first: int, count: int) -> list[str]:
        return [f"food-{number:07d}-task-{number}.md" for number in range(first, first + count)]

    def put(self, items: list[str]) -> None:
        for name in items:
            self._put(name)
        self._ready += items

    def claim(self, count: int) -> list[str]:
        taken, self._ready = self._ready[:count], self._ready[count:]
        for name in taken:
            self._claim(name)
        return taken

    def done(self, tokens: list[str]) -> None:
        for name in tokens:
            self._done(name)


class Bare(Entrant):
    """The calls of our own commit table."""

    note = "the system calls of our commit table, nothing else"

    def __init__(self, durability: str) -> None:
        super().__init__()
        self.name = "bare calls" if durability == "process" else "bare calls + fsync"
        self.durability = durability

    def open(self) -> Session:
        """The calls, ready to be made."""
        calls = BareCalls(self.root, sync=self.durability == "power")
        return _BareSession(calls.put, calls.claim, calls.done)


class Original(Entrant):
    """The calls of the plain protocol: create and rename; rename; result, rename, unlink."""

    note = "create, rename; rename; result file, rename, unlink: no id registry, no lease, no seal, no log"

    def __init__(self, durability: str) -> None:
        super().__init__()
        self.name = "plain protocol" if durability == "process" else "plain protocol + fsync"
        self.durability = durability

    def open(self) -> Session:
        """The calls, ready to be made."""
        for name in ("drafts", "ready", "claimed", "done"):
            os.makedirs(f"{self.root}/{name}", exist_ok=True)
        return _BareSession(self._put, self._claim, self._done)

    def _publish(self, name: str, folder: str, data: bytes) -> None:
        draft = f"{self.root}/drafts/{name}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.write(fd, data)
        if self.durability == "power":
            os.fsync(fd)
        os.close(fd)
        os.rename(draft, f"{self.root}/{folder}/{name}")
        if self.durability == "power":
            sync_folder(f"{self.root}/{folder}")

    def _put(self, name: str) -> None:
        self._publish(name, "ready", PAYLOAD)

    def _claim(self, name: str) -> None:
        os.rename(f"{self.root}/ready/{name}", f"{self.root}/claimed/{name}")

    def _done(self, name: str) -> None:
        self._publish(name, "done", PAYLOAD)
        os.unlink(f"{self.root}/claimed/{name}")


def sync_folder(path: str) -> None:
    """The folder's entries are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def worker_priority(number: int) -> int:
    """Priorities that are mixed, the same in every run."""
    return (number * 7919) % 10


def mixed_tasks(first: int, count: int) -> list[Any]:
    """Tasks of mixed priorities."""
    return [sample_task(number, worker_priority(number)) for number in range(first, first + count)]
