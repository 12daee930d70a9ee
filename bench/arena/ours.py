"""Ours, and the bare system calls: what the disk would allow a program that does nothing else."""

from __future__ import annotations

import os
from time import time
from typing import TYPE_CHECKING, Any

from arena.entrants import PAYLOAD, RESULT, Entrant, Session
from taskpit.cli.bench import BareCalls, sample_task
from taskpit.config import Config
from taskpit.layouts.pit import Pit
from taskpit.model import Claim, Done
from taskpit.policy import settle
from taskpit.queue import Queue
from taskpit.rules import order
from taskpit.store import changelog
from taskpit.store.opening import init

if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.model import Task

__all__ = ["Bare", "Original", "Spelt", "Taskpit", "make_queue"]


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


class _SpeltSession(_BareSession):
    """What is written and read is what ours writes and reads."""

    def __init__(self, calls: BareCalls) -> None:
        super().__init__(calls.put, calls.claim, calls.done)
        self._calls, self._layout, self._config = calls, Pit(), Config()
        self._status = os.stat(calls.root)
        self._tasks: dict[str, tuple[Task, bytes]] = {}

    def items(self, first: int, count: int) -> list[Task]:
        return [sample_task(number) for number in range(first, first + count)]

    def put(self, items: list[Task]) -> None:
        for task in items:
            name = self._layout.ready_path(task).rpartition("/")[2]
            data = self._calls.data = self._layout.dump_sure(task) or b""
            line = changelog.line(time(), "added_task", task.id, task.by, task.title)
            self._calls.line = changelog.with_row(line, task, name, self._status)
            super().put([name])
            self._tasks[name] = task, data

    def claim(self, count: int) -> list[str]:
        self._calls.line = changelog.line(time(), "claimed_task", "0000001", "w~abc123", "")
        taken = super().claim(count)
        for name in taken:
            data, spot = self._tasks[name][1], self._layout.spot("food", name)
            assert spot is not None
            task = self._layout.load(spot, data)
            order(task)
            self._tasks[name] = task, data
        return taken

    def done(self, tokens: list[str]) -> None:
        for name in tokens:
            task, _ = self._tasks.pop(name)
            claim = Claim(task=task, worker="w", fence="w~abc123")
            end = settle(claim, Done(output=RESULT.decode()), (), self._config, time())
            assert end.result is not None
            data = self._calls.data = self._layout.dump_result(task, end.result)
            digest = changelog.digest(data)
            self._calls.line = changelog.line(time(), "completed_task", task.id, claim.fence, "", digest)
            super().done([name])


class Spelt(Bare):
    """The same calls with the texts between them: what is left is choosing, checking, holding and mending."""

    note = "the same calls; tasks, results and lines are spelt and read as ours are, and nothing is chosen or checked"

    def __init__(self) -> None:
        super().__init__("process")
        self.name = "bare calls, spelt"

    def open(self) -> Session:
        """The calls, ready to be made."""
        return _SpeltSession(BareCalls(self.root, sync=False))


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
