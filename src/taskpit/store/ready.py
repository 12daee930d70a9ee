"""The ready tasks as this process knows them: one look feeds many claims. Derived, never the truth.

A small queue is listed and read; a process that claims again watches the directory from then on and looks
only at what changed. A large one has a catalogue (see `taskpit.catalog`), so that neither a command nor a
worker reads more of it than it needs: everybody who lets a task in writes a line for it. What others drop
into a large queue is noticed when the directory is compared with the catalogue: at once when nothing else
is left, otherwise after `RESCAN` seconds, or twenty times as long as comparing takes. A rename decides who
has a task, so a stale entry here costs a failed rename and no more.
"""

from __future__ import annotations

import os
from bisect import bisect_left

from taskpit import catalog, fs
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.rules import order
from taskpit.store.folder import INDEX
from taskpit.store.rows import row_of, task_of
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from taskpit.catalog import Row
    from taskpit.rules import Order
    from taskpit.store.folder import Folder
    from taskpit.task import Task
    from taskpit.watch import Watch

__all__ = ["Ready"]

#: A watched directory is listed anew after this many seconds, in case a notice was lost.
RESCAN = 5.0
#: Once somebody else was faster, the next try is one of this many, so that workers spread out.
WINDOW = 16
#: A queue with more ready tasks than this gets a catalogue.
SMALL = 64
#: Up to this many, the directory is compared with the catalogue by every process that begins.
EXACT = 4096
#: So many rows of a catalogue are looked at at a time.
SOME = 256
#: And so many at first: a command needs one.
FIRST = 24
#: So many are kept in memory at most, as long as others can be read when they are needed.
MOST = 4096
#: So many taken tasks are struck off a catalogue at once.
SPENT = 64


class Ready:
    """Candidates for a claim, best first."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.at(folder.layout.ready)
        self._tasks: dict[str, Task] = {}
        #: By which a file is known to be the one that was read: a name may come back with other content.
        self._signs: dict[str, tuple[int, int]] = {}
        #: Best first; what is no longer so is passed over, and what stands before `_head` is gone.
        self._order: list[tuple[Order, str]] = []
        self._keys: dict[str, Order] = {}
        self._head = 0
        self._watch: Watch | None = None
        self._listed: float | None = None
        self._missed = False
        self._catalog: catalog.Catalog | None = None
        #: How far the catalogue's log was read, the last row that is in memory, and what comparing costs.
        self._place = ""
        self._last: Row | None = None
        self._cost = 0.0
        #: Names whose rows nobody needs any more.
        self._spent: list[str] = []

    # -- knowing what is ready ---------------------------------------------------------------------

    def refresh(self, *, closely: bool = False) -> None:
        """Know what is ready now; `closely`: also what others dropped beside a catalogue, unless there is very much."""
        if self._catalog is not None or (self._listed is None and catalog.built(self._folder.at(INDEX))):
            try:
                self._follow(closely=closely)
                return
            except OSError:
                self._forget()  # trouble with what is derived: do without
        self._watch_or_list()

    def _forget(self) -> None:
        """Begin anew."""
        if self._catalog is not None:
            self._catalog.close()
        self._catalog, self._listed, self._place, self._last = None, None, "", None
        self._clear()

    def _clear(self) -> None:
        self._tasks, self._signs, self._keys, self._order, self._head = {}, {}, {}, [], 0

    def _watch_or_list(self) -> None:
        changes: list[tuple[str, str]] | None = None
        now = self._folder.clock.monotonic()
        if self._listed is None:
            pass  # a command that claims once needs no watch
        elif self._watch is None:
            from taskpit.watch import Watch

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
        if self._begin_catalog():
            return
        entries = dict(self._folder.entries(self._folder.layout.ready))
        for file in [file for file in self._tasks if file not in entries]:
            del self._tasks[file]
        for file, found in entries.items():
            if file not in self._tasks or self._sign(file) != self._signs.get(file):
                self._tasks.pop(file, None)
                self._learn(file, found)
        self._sort()

    def _sort(self) -> None:
        self._keys = {file: order(task) for file, task in self._tasks.items()}
        self._order, self._head = sorted((key, file) for file, key in self._keys.items()), 0

    def _sign(self, file: str) -> tuple[int, int] | None:
        status = fs.status(f"{self._path}/{file}")
        return (status.st_ino, status.st_mtime_ns) if status else None

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
            self._know(file, task, sign)

    def _know(self, file: str, task: Task, sign: tuple[int, int]) -> None:
        self._tasks[file], self._signs[file], self._keys[file] = task, sign, order(task)
        item = (self._keys[file], file)
        at = bisect_left(self._order, item, self._head)
        if self._order[at : at + 1] != [item]:
            self._order.insert(at, item)

    # -- with a catalogue --------------------------------------------------------------------------

    def _begin_catalog(self) -> bool:
        """So many that nobody should have to read them all, we least: the log tells of most. False if they are few."""
        index, began = self._folder.at(INDEX), self._folder.clock.monotonic()
        told = catalog.end_of_log(index)  # before the listing: what was taken since then must not come back
        here = catalog.entries(self._path)
        if len(here) <= SMALL:
            catalog.trim(index)
            return False
        try:
            built = catalog.Catalog.build(index, lambda: self._rows(here), told)
            if built is None:
                return False
            self._clear()
            self._catalog, self._last, self._place = built, None, built.take_in()
            self._note_listing(began)
            self._load_some()
        except OSError:
            self._forget()
            return False
        return True

    def _rows(self, here: dict[str, int]) -> Iterator[Row]:
        """A row for every ready task in this listing: as the log tells it, else as its file does."""
        index = self._folder.at(INDEX)
        told = {row[4]: row for row in catalog.fresh(index, "")[0]}
        for name, inode in here.items():
            row = told.get(name)
            if row is None or row[5] != inode:
                row = self._read_row(name)
            if row is not None:
                yield row

    def _follow(self, *, closely: bool) -> None:
        """What the catalogue says, as far as it is needed; compared with the directory now and then."""
        if self._catalog is None or not self._catalog.current:
            self._forget()
            self._catalog = catalog.Catalog.open(self._folder.at(INDEX))
            if self._catalog is None:
                raise OSError("there is no catalogue")
            self._place = self._catalog.take_in()
            self._listed = float(self._catalog.fact("listed") or 0.0)
            self._cost = float(self._catalog.fact("cost") or 0.0)
            if self._catalog.count() <= EXACT or self._due():
                self._compare()
            self._load_some()
        else:
            rows, self._place = catalog.fresh(self._folder.at(INDEX), self._place)
            if len(rows) + len(self._tasks) > MOST:  # too many to have in memory: begin with the first of them
                self._clear()
                self._last = None
                self._load_some()
            for row in rows if self._last is None or len(rows) <= MOST else ():
                if self._last is None or row[:5] <= self._last[:5]:
                    self._know_row(row)
            if self._due() or (closely and len(self._tasks) <= EXACT):
                self._compare()
            if len(self._order) > 2 * len(self._tasks) + SOME:
                self._sort()

    def _due(self) -> bool:
        since = self._folder.clock.monotonic() - (self._listed or 0.0)
        return since < 0 or since > max(RESCAN, 20 * self._cost)

    def _compare(self) -> bool:
        """The catalogue knows exactly what is in the directory; True if it did not."""
        if self._catalog is None:
            return False
        began = self._folder.clock.monotonic()
        here, known = catalog.entries(self._path), self._catalog.names()
        gone = [name for name in known if name not in here]
        back = set(self._spent)  # what we know to be taken and is there all the same has come back
        new = [name for name, inode in here.items() if known.get(name) != inode or name in back]
        self._spent = []
        rows = [row for name in new if (row := self._read_row(name)) is not None]
        if gone:
            self._catalog.drop(gone)
        if rows:
            self._catalog.add(rows)
        for name in gone:
            self._tasks.pop(name, None)
        for row in rows:
            if self._last is None or row[:5] <= self._last[:5]:
                self._know_row(row)
        self._note_listing(began)
        return bool(rows)

    def _note_listing(self, began: float) -> None:
        self._listed = self._folder.clock.monotonic()
        self._cost = self._listed - began
        if self._catalog is not None:
            self._catalog.note("listed", self._listed)
            self._catalog.note("cost", self._cost)

    def _read_row(self, file: str) -> Row | None:
        """The row of a file that somebody else put there; None if it is no task."""
        self._tasks.pop(file, None)
        if file.startswith((".", "README", "readme")) or file.endswith("~"):
            return None
        self._look(file)
        task, status = self._tasks.get(file), fs.status(f"{self._path}/{file}")
        if task is None or status is None:
            return None
        return row_of(task, file, status)

    def _load_some(self) -> bool:
        """The next rows of the catalogue are in memory; False if there are no more."""
        if self._catalog is None:
            return False
        self._catalog.take_in()  # what is only in the log may stand among the next ones
        count = SOME if self._last else FIRST
        rows = self._catalog.first(count, self._last)
        for row in rows:
            self._know_row(row)
        self._last = rows[-1] if len(rows) == count else None
        return len(rows) == count

    def _know_row(self, row: Row) -> None:
        read = task_of(row)
        if read is not None:  # otherwise not one of ours: comparing will tell
            self._know(row[4], *read)

    def recheck(self) -> bool:
        """Nothing could be had: whether a closer look finds something that was put or changed by hand."""
        if self._catalog is None or self._folder.clock.monotonic() - (self._listed or 0.0) < 20 * self._cost:
            return False
        try:
            found = self._compare()
            for file in [file for file in self._tasks if self._sign(file) != self._signs.get(file)][:EXACT]:
                row = self._read_row(file)
                if row is not None:
                    self._catalog.add([row])
                    found = True
        except OSError:
            self._forget()
            return True
        return found

    # -- asking ------------------------------------------------------------------------------------

    def tasks(self) -> dict[str, Task]:
        """The ready tasks by id."""
        while self._last is not None and self._load_some():
            pass
        return {task.id: task for task in self._tasks.values()}

    def best(self, fits: Callable[[Task], bool]) -> Iterator[tuple[str, Task]]:
        """File names and tasks, best first; from a window once somebody else was faster (see `gone`)."""
        while self._head < len(self._order) and not self._holds(self._head):
            self._head += 1
        position, spread, self._missed = self._head, 1, False
        while position < len(self._order) or self._more():
            picks: list[tuple[str, Task]] = []
            while len(picks) < spread and position < len(self._order):
                file = self._order[position][1]
                if self._holds(position) and fits(self._tasks[file]):
                    picks.append((file, self._tasks[file]))
                position += 1
            while picks:
                yield picks.pop(os.urandom(1)[0] % len(picks))
                if self._missed:
                    spread = min(spread * 2, WINDOW)

    def _holds(self, position: int) -> bool:
        """Whether what stands there in the order is still so."""
        key, file = self._order[position]
        return file in self._tasks and self._keys[file] == key

    def _more(self) -> bool:
        """Whether there were further rows; what is used up is forgotten first."""
        if self._last is None:
            return False
        try:
            return self._load_some() or self._last is None
        except OSError:
            self._forget()
            return False

    def gone(self, file: str, *, missed: bool) -> None:
        """This one is taken: by us, or by somebody who was faster."""
        self._tasks.pop(file, None)
        self._missed = missed
        if self._catalog is not None:
            self._spent.append(file)
            if len(self._spent) >= SPENT:
                self._drop_spent()

    def _drop_spent(self) -> None:
        """Nobody after us need try for what is gone."""
        spent, self._spent = self._spent, []
        try:
            if self._catalog is not None and spent:
                self._catalog.drop(name for name in spent if not fs.exists(f"{self._path}/{name}"))
        except OSError:
            return  # whoever compares next will

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._catalog is not None:
            self._drop_spent()
            self._catalog.close()
            self._catalog = None
