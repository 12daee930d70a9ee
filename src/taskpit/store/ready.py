"""The ready tasks as this process knows them: one listing feeds many claims. Derived, never the truth.

The first claim lists the directory and reads what it finds. A process that claims again watches the
directory from then on and looks only at what changed; now and then it lists anew, for filesystems that
don't tell. A rename decides who has a task, so a stale entry here costs a failed rename and no more.
"""

from __future__ import annotations

import os
from bisect import bisect_left

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.rules import order
from taskpit.task import State
from taskpit.watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from taskpit.rules import Order
    from taskpit.store.folder import Folder
    from taskpit.task import Task

__all__ = ["Ready"]

#: A watched directory is listed anew after this many seconds, in case a notice was lost.
RESCAN = 5.0
#: Once somebody else was faster, the next try is one of this many, so that workers spread out.
WINDOW = 16


class Ready:
    """Candidates for a claim, best first."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.at(folder.layout.ready)
        self._tasks: dict[str, Task] = {}
        #: By which a file is known to be the one that was read: a name may come back with other content.
        self._signs: dict[str, tuple[int, int, int]] = {}
        self._order: list[tuple[Order, str]] = []
        self._watch: Watch | None = None
        self._listed: float | None = None
        self._missed = False

    def refresh(self) -> None:
        """Know what is ready now."""
        changes: list[tuple[str, str]] | None = None
        now = self._folder.clock.monotonic()
        if self._listed is None:
            pass  # a command that claims once needs no watch
        elif self._watch is None:
            self._watch = Watch([self._path])
        elif now - self._listed < RESCAN:
            changes = self._watch.changes()
        else:
            self._watch.changes()
        if changes is None:
            self._listed = now
            self._list()
        else:
            for file in {file for _, file in changes}:
                self._look(file)

    def _list(self) -> None:
        entries = dict(self._folder.entries(self._folder.layout.ready))
        for file in [file for file in self._tasks if file not in entries]:
            del self._tasks[file]
        for file, found in entries.items():
            if file not in self._tasks or self._sign(file) != self._signs.get(file):
                self._tasks.pop(file, None)
                self._learn(file, found)
        self._order = sorted((order(task), file) for file, task in self._tasks.items())

    def _sign(self, file: str) -> tuple[int, int, int] | None:
        status = fs.status(f"{self._path}/{file}")
        return (status.st_ino, status.st_mtime_ns, status.st_size) if status else None

    def _look(self, file: str) -> None:
        """One entry changed: forget what we knew of it and look."""
        self._tasks.pop(file, None)
        if file.startswith(".") or file.endswith("~"):
            return
        try:
            found: Spot | Invalid | None = self._folder.layout.spot(self._folder.layout.ready, file)
        except Invalid as error:
            found = error
        if found is not None:
            self._learn(file, found)

    def _learn(self, file: str, found: Spot | Invalid) -> None:
        path = f"{self._folder.layout.ready}/{file}"
        if isinstance(found, Invalid):
            self._folder.set_aside(path, found.message)
        elif found.state is State.READY:
            sign = self._sign(file)
            if sign is None:
                return
            try:
                task = self._folder.load(found, self._folder.at(path))
            except FileNotFoundError:
                return
            except Invalid as error:
                status = fs.status(self._folder.at(path))
                if status is not None and not self._folder.being_written(status):
                    self._folder.set_aside(path, error.message, status)
                return
            self._tasks[file], self._signs[file] = task, sign
            item = (order(task), file)
            at = bisect_left(self._order, item)
            if self._order[at : at + 1] != [item]:
                self._order.insert(at, item)

    def tasks(self) -> dict[str, Task]:
        """The ready tasks by id."""
        return {task.id: task for task in self._tasks.values()}

    def best(self, fits: Callable[[Task], bool]) -> Iterator[tuple[str, Task]]:
        """File names and tasks, best first; from a window once somebody else was faster (see `gone`)."""
        position, spread, self._missed = 0, 1, False
        while position < len(self._order):
            picks: list[tuple[str, Task]] = []
            while len(picks) < spread and position < len(self._order):
                key, file = self._order[position]
                task = self._tasks.get(file)
                if task is not None and order(task) == key and fits(task):
                    picks.append((file, task))
                position += 1
            while picks:
                yield picks.pop(os.urandom(1)[0] % len(picks))
                if self._missed:
                    spread = min(spread * 2, WINDOW)

    def gone(self, file: str, *, missed: bool) -> None:
        """This one is taken: by us, or by somebody who was faster."""
        self._tasks.pop(file, None)
        self._missed = missed

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
