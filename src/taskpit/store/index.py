"""The ready tasks as this process knows them: one look feeds many claims. Derived, never the truth.

A small queue is listed and read; a process that claims again watches the directory from then on and looks
only at what changed. A large one has a catalogue (see `taskpit.catalog`), so that neither a command nor a
worker reads more of it than it needs: everybody who lets a task in writes a row for it into the log. What others drop
into a large queue is noticed when the directory is compared with the catalogue: at once when nothing else
is left, otherwise after `RESCAN` seconds, or twenty times as long as comparing takes. A rename decides who
has a task, so a stale entry here costs a failed rename and no more.

    Window    the best candidates in memory, in their order; no disk
    Ready     where they come from: the directory, the watch, the catalogue
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from time import monotonic

from taskpit import fs, held_directories, kernel, listing
from taskpit.errors import Invalid
from taskpit.layouts.layout import NEVER
from taskpit.model import State, Task
from taskpit.rules import order
from taskpit.store.changelog import is_tied, row_of, task_of
from taskpit.store.folder import CHANGELOG, HIDDEN, INDEX, OUTCOMES, Unreadable
from taskpit.store.folder_store import PAUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from taskpit.catalog import Catalog, Row
    from taskpit.clock import Clock
    from taskpit.layouts import Spot
    from taskpit.model import Want
    from taskpit.rules import Order
    from taskpit.store.folder import Folder
    from taskpit.watch import Watch

    #: By what a file was known when it was read: inode and mtime.
    Sign = tuple[int, int]
    #: A file, the task in it, and its sign; the same with the task's order.
    Candidate = tuple[str, Task, Sign]
    Placed = tuple[Order, str, Task, Sign]

#: What a watch says of a name, as in `taskpit.watch`, which only those who wait load: it came, and nobody writes it.
COMES, WHOLE = 0x80 | 0x100 | 0x8, 0x80 | 0x8
#: Tries are spread over so many of equal priority at most, and for so many seconds after somebody was faster.
WIDEST, CROWDED = 32, 0.25


class Window:
    """Candidates, best first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spread, self._crowded_until = 1, 0.0
        #: How often something was told of a candidate: another number, and there may be one that was not tried.
        self.news = 0
        self.clear()

    def clear(self) -> None:
        """Nothing is known."""
        self.tasks: dict[str, Task] = {}
        #: By which a file is known to be the one that was read: a name may come back with other content.
        self.signs: dict[str, tuple[int, int]] = {}
        #: Best first; what is no longer so is passed over, and what stands before `_head` is gone.
        self._order: list[tuple[Order, str]] = []
        self._keys: dict[str, Order] = {}
        self._head = 0

    def __len__(self) -> int:
        return len(self.tasks)

    def know(self, file: str, task: Task, sign: tuple[int, int], *, new: bool = True) -> None:
        """This file is a candidate; not `new`: it was one before, and is only in memory again."""
        key = order(task)
        self.news += new
        self.tasks[file], self.signs[file], self._keys[file] = task, sign, key
        item = (key, file)
        at = bisect_left(self._order, item)
        self._head = min(self._head, at)  # it may have come back, or be better than all that is left
        if self._order[at : at + 1] != [item]:
            self._order.insert(at, item)

    def forget(self, file: str) -> None:
        """It is none."""
        self.tasks.pop(file, None)

    def sort(self, *, slack: int = 0) -> None:
        """What is no longer so takes no room, once there is more of it than of the rest and `slack`."""
        if len(self._order) > 2 * len(self.tasks) + slack:
            self.signs = {file: self.signs[file] for file in self.tasks}
            self._keys = {file: self._keys[file] for file in self.tasks}
            self._order, self._head = sorted((key, file) for file, key in self._keys.items()), 0

    def page(self, after: tuple[object, ...] | None, limit: int, *, tied: bool) -> list[Placed]:
        """Candidates in order, after one of them; only those that something may hold, if `tied`."""
        found = sorted((self._keys[file], file) for file, task in self.tasks.items() if not tied or is_tied(task))
        start = 0 if after is None else bisect_right(found, (after[:4], after[4]))
        return [(key, file, self.tasks[file], self.signs[file]) for key, file in found[start : start + limit]]

    def best(  # noqa: C901 - one function: each claim pays for another
        self, fits: Callable[[Task, Want], bool], want: Want, more: Callable[[], bool]
    ) -> Iterator[Candidate]:
        """Candidates, best first; `more` finds further ones when these are used up, or says that it can't."""
        tasks, keys = self.tasks, self._keys
        while self._head < len(self._order):
            key, file = self._order[self._head]
            if file in tasks and keys[file] == key:
                break
            self._head += 1
        position, picks, rank = self._head, list[str](), 0
        while True:
            tasks, keys = self.tasks, self._keys  # which may be others, after `more` or a pause
            picks = [file for file in picks if file in tasks] if picks else picks
            wanted = self._spread if self._spread == 1 else self._width()
            while len(picks) < wanted:
                if position >= len(self._order):
                    if more():
                        tasks, keys = self.tasks, self._keys
                        continue
                    break
                key, file = self._order[position]
                if picks and key[0] != rank:
                    break  # only among equals
                if file in tasks and keys[file] == key and fits(tasks[file], want):  # else it is no longer so
                    picks.append(file)
                    rank = key[0]
                position += 1
            if not picks:
                return
            file = picks.pop(os.urandom(1)[0] % len(picks) if len(picks) > 1 else 0)
            if file in self.tasks:  # `more` may have begun anew
                yield file, self.tasks[file], self.signs[file]

    def _width(self) -> int:
        """Over how many the next try is spread: one, while nobody gets in our way."""
        if self._spread > 1 and self._clock.monotonic() > self._crowded_until:
            self._spread = 1
        return self._spread

    def collided(self) -> None:
        """Somebody else was faster, just now."""
        self._spread = min(2 * self._width(), WIDEST)
        self._crowded_until = self._clock.monotonic() + CROWDED


#: A watched directory is listed anew after this many seconds, in case a notice was lost.
RESCAN = 5.0
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

#: Catalogues of the process that forked us: a connection must be neither used nor closed by both.
_parents: list[Catalog] = []


class Ready:
    """Candidates for a claim, best first."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.at(folder.layout.ready)
        self._window = Window(folder.clock)
        self._watch: Watch | None = None
        self._listed: float | None = None
        self._looks = 0
        self._catalog: Catalog | None = None
        #: How far the log was read, the last row that is in memory, and what comparing costs.
        self._place = 0
        self._last: Row | None = None
        self._cost = 0.0
        #: Whether there are so many that to begin a watch takes long (the kernel looks at every name), and whether we
        #: claim again: whoever does, and is not alone, should know at once what others take.
        self._vast = self._stays = False
        #: Names whose rows nobody needs any more.
        self._spent: list[str] = []
        #: What the watch told: names that came and were not looked at yet, names that are gone, and needs met.
        self._came: dict[str, bool] = {}
        self._taken: dict[str, None] = {}
        self._outcomes = False
        self._only_looks = False
        #: Where a pause is told, whether somebody may have paused or gone on since we last looked, whether we would
        #: have heard of it, and when that was.
        self._hidden = folder.at(HIDDEN)
        self._pauses, self._heard, self._unpaused = True, False, 0.0
        self._is_local: bool | None = None
        #: Names of files that are no tasks yet, and when each is looked at again whatever the watch tells.
        self._unfinished: dict[str, float] = {}

    # -- knowing what is ready ---------------------------------------------------------------------

    def refresh(self, *, closely: bool = False) -> None:
        """Know what is ready now.

        `closely`, to look and not to claim: also what others dropped beside a catalogue, unless there is very much. Who
        only looks sets nothing aside.
        """
        self._only_looks, self._heard = closely, False
        if self._catalog is not None or (self._listed is None and listing.has_catalog(self._folder.at(INDEX))):
            try:
                self._follow(closely=closely)
                return
            except OSError:
                self._forget()  # trouble with what is derived: do without
        now = self._folder.clock.monotonic()
        known = self._listed is not None and now - self._listed < RESCAN
        self._looks += 1
        # A command that claims once needs no watch, nor does one that lists tasks and then counts them.
        if self._looks > (2 if self._only_looks else 1) and self._hear() and known:
            self._look_at_what_came()
        else:
            self._came.clear()
            self._listed = now
            self._list()

    def _forget(self) -> None:
        """Begin anew."""
        if self._catalog is not None:
            self._catalog.close()
        self._catalog, self._listed, self._place, self._last = None, None, 0, None
        self._window.clear()
        self._taken.clear()

    def watch(self) -> Watch | None:
        """What tells of changes here; None if nobody watched until now, so that something may have come before."""
        if self._watch is not None:
            return self._watch
        from taskpit.watch import Watch

        self._watch = Watch([self._path, self._folder.at(OUTCOMES), self._hidden], calm=[self._hidden])
        self._pauses = True
        self._listed = None if self._catalog is None else self._listed  # a log tells of what came before
        return None

    def hear(self) -> bool:
        """Take in what has happened since; whether something came, or may have."""
        if not self._hear():
            self._listed = None if self._catalog is None else self._listed  # look for ourselves
            return True
        return bool(self._came) or self._outcomes or self._pauses

    def may_be_paused(self) -> bool:
        """Whether somebody has to look if tasks are given out: not if the kernel told that nobody has paused since.

        That is believed for as long as that a directory is still the same: who restores a copy is not told of.
        """
        if self._pauses or not self._heard or monotonic() - self._unpaused > held_directories.COMPARED:
            return True
        if self._watch is None or not self._watch.told:
            return True
        if self._is_local is None:
            self._is_local = kernel.is_local(self._folder.root)
        return not self._is_local

    def not_paused(self) -> None:
        """Somebody has looked since we last heard."""
        self._pauses, self._unpaused = False, monotonic()

    @property
    def told(self) -> bool:
        """Whether the kernel tells of every change, also of files that are edited in place."""
        return self._watch is not None and self._watch.told

    @property
    def news(self) -> int:
        """Another number once more is known, whoever looked."""
        return self._window.news

    def stirs(self) -> bool:
        """Whether something has come or was edited that was not looked at yet, or may have."""
        if self._watch is None or self._listed is None or self._came:
            return True
        if not self._hear():
            self._listed = None if self._catalog is None else self._listed  # look for ourselves
            return True
        return bool(self._came)

    def _hear(self) -> bool:
        """What is gone is forgotten, what came is noted; False if nobody can tell."""
        watch = self._watch or self.watch()
        changes = watch.changes() if watch is not None else None
        self._outcomes, self._heard = False, changes is not None
        if changes is None:
            self._pauses = True
        elif changes:
            self._note(changes)
        if self._unfinished:
            now = self._folder.clock.monotonic()
            due = [file for file, at in self._unfinished.items() if at <= now and file not in self._came]
            self._came.update(dict.fromkeys(due, False))
        while len(self._taken) > MOST:
            del self._taken[next(iter(self._taken))]
        return changes is not None

    def _note(self, changes: list[tuple[str, str, int]]) -> None:
        """What the watch told, in its order."""
        for folder, file, said in changes:
            if folder == self._hidden:
                self._pauses = self._pauses or f"{HIDDEN}/{file}" == PAUSED
            elif folder != self._path:
                self._outcomes = True
            elif said & COMES:
                self._came[file] = bool(said & WHOLE)
                self._taken.pop(file, None)
            else:
                self._came.pop(file, None)
                self._unfinished.pop(file, None)
                self._taken[file] = None
                self._window.tasks.pop(file, None)

    def _look_at_what_came(self) -> bool:
        """What came by the watch is known; whether anything of it is a task."""
        came, self._came = self._came, {}
        found = False
        for file, whole in came.items():
            self._window.tasks.pop(file, None)
            found = self._look(file, whole=whole) or found
        return found

    def _list(self) -> None:
        if self._begin_catalog():
            return
        here, window = set(fs.names(self._path)), self._window
        for file in [file for file in window.tasks if file not in here]:
            window.forget(file)
        for file in self._unfinished.keys() - here:
            del self._unfinished[file]
        for file in here:
            if file not in window.tasks or self._sign(file) != window.signs.get(file):
                window.forget(file)
                self._look(file)
        window.sort()

    def _sign(self, file: str) -> tuple[int, int] | None:
        status = fs.status(f"{self._path}/{file}")
        return (status.st_ino, status.st_mtime_ns) if status else None

    def _look(self, file: str, *, whole: bool = False) -> bool:
        """Look at an entry that may be new, or of which the kernel said that it is `whole`; whether it is a task."""
        read = self._read(file, whole=whole)
        if read is not None:
            self._window.know(file, read[0], (read[1].st_ino, read[1].st_mtime_ns))
        return read is not None

    def _read(self, file: str, *, whole: bool = False) -> tuple[Task, fs.Stat] | None:
        """The ready task in this file, and its status before it was read; None if it is none, or none yet."""
        if file.startswith(NEVER) or file.endswith("~"):
            return None
        path = f"{self._folder.layout.ready}/{file}"
        try:
            spot = self._folder.layout.spot(self._folder.layout.ready, file)
        except Invalid as error:
            if not self._only_looks:
                self._folder.set_aside(path, error.message)
            return None
        if spot is None or spot.state is not State.READY:
            return None
        read, waits = self._read_whole(spot, whole=whole)
        if not waits:
            self._unfinished.pop(file, None)
        elif self._unfinished.get(file, 0.0) <= (now := self._folder.clock.monotonic()):
            self._unfinished[file] = now + self._folder.grace
        return read

    def _read_whole(self, spot: Spot, *, whole: bool) -> tuple[tuple[Task, fs.Stat] | None, bool]:
        """The same once its name is known to be a task's; and whether it is none yet, but may become one."""
        folder, path = self._folder, f"{self._path}/{spot.path.rpartition('/')[2]}"
        try:
            data, status = folder.read(path)
            if status.st_nlink == 1 and not folder.layout.rewritten:
                folder.writing.told(path, whole=whole)
            if len(data) != status.st_size or folder.unfinished(path, status, whole=whole):
                return None, True  # also if it was written to between the look and the read
            return (folder.parse(spot, data), status), False
        except FileNotFoundError:
            return None, False
        except Unreadable:
            return None, True
        except Invalid as error:
            judged = fs.status(path)
            if judged is not None and (self._only_looks or folder.being_written(path, judged)):
                return None, True
            if judged is not None:
                folder.set_aside(spot.path, error.message, judged)
            return None, False

    def being_written(self) -> list[str]:
        """Names of files that were no tasks yet when they were last looked at."""
        return sorted(self._unfinished)

    # -- with a catalogue --------------------------------------------------------------------------

    def _begin_catalog(self) -> bool:
        """So many that nobody should have to read them all, we least: the log tells of most. False if they are few."""
        count = len(fs.names(self._path))
        if count <= SMALL:
            return False
        from taskpit.catalog import Catalog  # most queues are small

        try:
            log = self._folder.at(CHANGELOG)
            built = Catalog.build(self._folder.at(INDEX), log, count, self._compare_with)
            if built is None:
                return False
            self._window.clear()
            self._catalog, self._last = built, None
            self._place = built.take_in()
            self._vast = built.has_more_than(EXACT)
            self._load_some()
        except OSError:
            self._forget()
            return False
        return True

    def _follow(self, *, closely: bool) -> None:
        """What the catalogue says, as far as it is needed; compared with the directory now and then."""
        if self._catalog is None or not self._catalog.is_current():
            self._forget()
            from taskpit.catalog import Catalog

            self._catalog = Catalog.open(self._folder.at(INDEX), self._folder.at(CHANGELOG))
            if self._catalog is None:
                raise OSError("there is no catalogue")
            self._place = self._catalog.take_in()
            self._listed = float(self._catalog.fact("listed") or 0.0)
            self._cost = float(self._catalog.fact("cost") or 0.0)
            self._vast = self._catalog.has_more_than(EXACT)
            if self._due() or not self._vast:
                self._compare()
            self._load_some()
        else:
            rows, known = self._follow_log()
            self._window.news += len(rows)  # also of what has its turn later
            self._stays = True
            if self._watch is not None or not self._vast:
                self._hear()  # after the log: of a row we know then whether it was taken since
            if len(rows) + len(self._window) > MOST:  # too many to have in memory: begin with the first of them
                rows, self._place = [], self._catalog.take_in()
                self._window.clear()
                self._last = None
                self._load_some()
            for row in rows:
                self._came.pop(row[4], None)
                self._know_row(row)
            if not known or self._due() or (closely and not self._catalog.has_more_than(EXACT)):
                self._compare()
            self._window.sort(slack=SOME)

    def _follow_log(self) -> tuple[list[Row], bool]:
        """What the log tells of since we last looked; False if it is another one by now."""
        assert self._catalog is not None
        log = self._catalog.log
        rows: list[Row] = []
        if not log.is_current():
            self._place = log.end()
            return rows, False
        while len(rows) < MOST:
            more, after = log.read(self._place)
            if after == self._place:
                break
            rows += more
            self._place = after
        return rows, True

    def _due(self) -> bool:
        since = self._folder.clock.monotonic() - (self._listed or 0.0)
        return since < 0 or since > max(RESCAN, 20 * self._cost)

    def _compare(self) -> bool:
        """The catalogue knows exactly what is in the directory; True if it did not."""
        return self._catalog is not None and self._compare_with(self._catalog)

    def _compare_with(self, known: Catalog) -> bool:
        """The same with one that nobody else has yet. What it lacks is read some at a time: it may be all."""
        began = self._folder.clock.monotonic()
        new = {entry.name: entry.inode() for entry in listing.entries(self._path)}
        back, gone = set(self._spent), []
        for name, inode in known.names():
            if new.get(name) == inode and name not in back:
                del new[name]  # as it should be; what we know to be taken and is there all the same has come back
            elif name not in new:
                gone.append(name)
        self._spent = []
        # What is in the catalogue as it should be may have come back since we knew it to be gone: it is looked at yet.
        self._came = {name: self._came[name] for name in self._came.keys() - new.keys() - set(gone)}
        known.drop(gone)
        for name in gone:
            self._window.forget(name)
        names, found = list(new), False
        for at in range(0, len(names), MOST):
            rows = [row for name in names[at : at + MOST] if (row := self._read_row(name)) is not None]
            known.add(rows)
            found = found or bool(rows)
            for row in rows if known is self._catalog else ():
                self._know_row(row)
        self._window.news += found
        self._listed = self._folder.clock.monotonic()
        self._cost = self._listed - began
        known.note("listed", self._listed)
        known.note("cost", self._cost)
        return found

    def _read_row(self, file: str) -> Row | None:
        """The row of a file that somebody else put there; None if it is no task."""
        self._window.forget(file)
        read = self._read(file)
        return row_of(read[0], file, read[1]) if read is not None else None

    def _load_some(self) -> bool:
        """The next rows of the catalogue are in memory; False if there are no more."""
        if self._catalog is None:
            return False
        self._catalog.take_in()  # what is only in the log may stand among the next ones
        count = SOME if self._last else FIRST
        rows = self._catalog.first(count, self._last)
        self._last = rows[-1] if len(rows) == count else None
        for row in rows:
            self._know_row(row, new=False)
        return len(rows) == count

    def _know_row(self, row: Row, *, new: bool = True) -> None:
        """It is a candidate, unless it is gone, or stands after all that are in memory: it has its turn then."""
        wanted = row[4] not in self._taken and (self._last is None or row[:5] <= self._last[:5])
        read = task_of(row) if wanted else None
        if read is not None:  # otherwise not one of ours: comparing will tell
            self._window.know(row[4], *read, new=new)

    def recheck(self) -> bool:
        """Nothing could be had: whether a closer look finds something that was put or changed by hand."""
        if self._look_at_what_came():
            return True
        if self._catalog is None or self._folder.clock.monotonic() - (self._listed or 0.0) < 20 * self._cost:
            return False
        try:
            found = self._compare()
            for file in [file for file in self._window.tasks if self._sign(file) != self._window.signs.get(file)][
                :EXACT
            ]:
                row = self._read_row(file)
                if row is not None:
                    self._catalog.add([row])
                    self._know_row(row)
                    found = True
        except OSError:
            self._forget()
            return True
        return found

    # -- asking ------------------------------------------------------------------------------------

    def page(self, after: tuple[Any, ...] | None, limit: int, *, tied: bool) -> list[Placed]:
        """Candidates after an order and name; only those that something may hold, if `tied`."""
        if self._catalog is not None:
            try:
                self._catalog.take_in()
                rows = self._catalog.first(limit, after, tied=tied)
                return [((*row[:4],), row[4], *read) for row in rows if (read := task_of(row)) is not None]
            except OSError:
                self._forget()
                self._list()
        return self._window.page(after, limit, tied=tied)

    def best(self, fits: Callable[[Task, Want], bool], want: Want) -> Iterator[Candidate]:
        """Candidates, best first; spread a little once somebody else was faster (see `gone`)."""
        return self._window.best(fits, want, self._more)

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
        self._window.tasks.pop(file, None)
        if missed and self._watch is not None:
            if not self._hear():
                self._listed = None if self._catalog is None else self._listed  # look for ourselves
            if file in self._taken or not self._watch.told:  # since we last heard: somebody is at it, too
                self._window.collided()
        elif missed and self._stays:
            self.watch()
            self._window.collided()
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

    def part(self) -> None:
        """We were forked, and this is the parent's: no news is taken from it, and nothing of it is ended."""
        if self._watch is not None:
            self._watch.close()
        if self._catalog is not None:
            _parents.append(self._catalog)

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._catalog is not None:
            self._drop_spent()
            self._catalog.close()
            self._catalog = None
