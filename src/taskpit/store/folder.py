"""A queue's folder: where everything lies, and the small steps that every verb of the file store shares.

.taskpit/ids/<id>                     the task as it was put, for ever: id registry and last copy
.taskpit/sealed/<name>~<nonce>~<end>  a claim that has ended; what follows can be done by anybody
.taskpit/outcomes/<id>~<verdict>      another name of the result: tells the outcome without a search
.taskpit/tries/<id>/<nonce>           attempts that did not finish it
.taskpit/late/<id>~<nonce>            results of superseded claims
.taskpit/workers/<name>               who claims here
.taskpit/quarantine/                  what could not be a task, each with its reason
.taskpit/tmp/<id>~<nonce>~<part>      written before a commit, moved after it
"""

from __future__ import annotations

import os
import stat

from taskpit import fs
from taskpit.clock import Clock, iso
from taskpit.config import Config
from taskpit.errors import Conflict, Invalid, TooLarge
from taskpit.layouts import Layout, Spot
from taskpit.layouts.layout import NEVER
from taskpit.store import changelog
from taskpit.store.signs import untouched
from taskpit.store.turns import Open, Turn
from taskpit.task import Event, State, Task, Verdict, worker_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["HIDDEN", "Folder"]

HIDDEN = ".taskpit"
IDS = ".taskpit/ids"
SEALED = ".taskpit/sealed"
OUTCOMES = ".taskpit/outcomes"
TRIES = ".taskpit/tries"
LATE = ".taskpit/late"
WORKERS = ".taskpit/workers"
QUARANTINE = ".taskpit/quarantine"
BESIDE = ".taskpit/beside"
GUARDS = ".taskpit/guard"
STOPS = ".taskpit/stops"
FENCES = ".taskpit/fences"
LOCKS = ".taskpit/locks"
INDEX = ".taskpit/index"
LINE = ".taskpit/line"
LOGS = ".taskpit/logs"
TOUCHES = ".taskpit/touches.lock"
NOTES = ".taskpit/notes"
CHANGELOG = ".taskpit/changelog.log"
#: Directories of our own that `init` makes.
OURS = (IDS, SEALED, OUTCOMES, TRIES, LATE, WORKERS, QUARANTINE, STOPS, NOTES, BESIDE, GUARDS, FENCES, LOCKS, LOGS)

#: Attempts, holds and errors that we write into a task may make it this much larger than it may be put.
SLACK = 64 * 1024
#: Results may be larger than tasks; this is where reading one stops being sane.
LARGEST_RESULT = 64 * 1024 * 1024
#: Quarantined names keep this many bytes of the old one.
LONGEST_ASIDE = 120


class Folder:
    """Root, layout, settings and clock of one queue, with the steps that are not verbs by themselves."""

    def __init__(self, root: str, layout: Layout, config: Config, clock: Clock, grace: float = 2.0) -> None:
        self.root = root
        self.layout = layout
        self.config = config
        self.clock = clock
        #: What was touched less than this many seconds ago is left to whoever is at it.
        self.grace = grace
        self.durable = config.durability == "power"
        #: Wall clock minus monotonic when this process last looked; None: it has not.
        self.even: float | None = None

    def at(self, relative: str) -> str:
        """The path of something in the queue."""
        return f"{self.root}/{relative}"

    def sync(self, *folders: str) -> None:
        """The entries of these directories are on the disk, where power loss must not take them."""
        if self.durable:
            for folder in folders:
                fs.sync_dir(self.at(folder))

    def tmp(self, task_id: str, nonce: str, part: str) -> str:
        """Where a part of a verb lies before its commit."""
        return self.at(f"{self.layout.tmp}/{task_id}~{nonce}~{part}")

    def entries(self, folder: str) -> Iterator[tuple[str, Spot | Invalid]]:
        """What wants to be a task or a result in a directory: its name, and what it is or what is wrong."""
        for file in fs.names(self.at(folder)):
            if file.startswith(NEVER) or file.endswith("~"):
                continue
            try:
                spot = self.layout.spot(folder, file)
            except Invalid as error:
                yield file, error
            else:
                if spot is not None:
                    yield file, spot

    def spots(self, folder: str, state: State) -> Iterator[Spot]:
        """The readable entries of a directory that are in this state."""
        for _, spot in self.entries(folder):
            if isinstance(spot, Spot) and spot.state is state:
                yield spot

    def claims(self) -> Iterator[Spot]:
        """Claimed files, each with its holder: by its name, or by what stands inside."""
        for spot in self.spots(self.layout.claimed, State.CLAIMED):
            if self.layout.guarded:
                try:
                    data, _ = fs.read(self.at(spot.path), self.config.largest_task)
                except OSError:
                    data = b""
                yield spot.replace(worker=self.layout.holder(data))
            else:
                yield spot

    def running(self) -> Iterator[Task]:
        """The tasks that are being worked on, or whose end is just being carried out."""
        files = [(spot, spot.path) for spot in self.claims()]
        for file in fs.names(self.at(SEALED)):
            sealed = self._sealed_spot(file)
            if sealed is not None:
                files.append((sealed, f"{SEALED}/{file}"))
        for spot, path in files:
            try:
                yield self.load(spot, self.at(path))
            except (FileNotFoundError, Invalid):
                continue

    def claims_of(self, task_id: str) -> list[Spot]:
        """Claimed files of this task."""
        return [spot for spot in self.claims() if spot.id == task_id]

    def find(self, folder: str, state: State, task_id: str) -> list[Spot]:
        """Entries of this task in a directory; more than one is a fault that `mend` mends."""
        return [spot for spot in self.spots(folder, state) if spot.id == task_id]

    def sealed(self) -> Iterator[tuple[Spot, str, str]]:
        """Ended claims on their way: whose, the nonce, and how it ends."""
        for file in fs.names(self.at(SEALED)):
            spot = self._sealed_spot(file)
            _, _, tail = file.partition("~")
            nonce, _, end = tail.partition("~")
            if spot is not None and end:
                yield spot, nonce, end

    def _sealed_spot(self, file: str) -> Spot | None:
        try:
            return self.layout.spot(self.layout.ready, file.partition("~")[0])
        except Invalid:
            return None

    def is_sealed(self, task_id: str) -> bool:
        """Whether a claim of this task has ended and its end is still being carried out."""
        return any(spot.id == task_id for spot, _, _ in self.sealed())

    def outcome(self, task_id: str) -> Verdict | None:
        """How the task ended, if it has."""
        for verdict in Verdict:
            if fs.exists(self.outcome_path(task_id, verdict)):
                return verdict
        return None

    def outcome_path(self, task_id: str, verdict: Verdict) -> str:
        """Where the other name of its result lies."""
        return self.at(f"{OUTCOMES}/{task_id}~{verdict}")

    def unfinished_result(self, task_id: str) -> str | None:
        """A result that is published but not yet known as the outcome, since its worker stopped just there."""
        for name in fs.names(self.at(self.layout.tmp)):
            if name.startswith(f"{task_id}~") and name.endswith("~result"):
                status = fs.status(self.at(f"{self.layout.tmp}/{name}"))
                if status is not None and status.st_nlink > 1:
                    return f"{self.layout.tmp}/{name}"
        return None

    def published(self, task_id: str) -> Spot | None:
        """The result that stands in the layout's own place, ours or somebody else's."""
        return next((spot for spot in self.finished() if spot.id == task_id), None)

    def finished(self) -> Iterator[Spot]:
        """Entries in the layout's own places that say of a task that it has ended."""
        for folder in self.layout.results:
            for _, spot in self.entries(folder):
                if isinstance(spot, Spot) and spot.verdict is not None:
                    yield spot

    def is_finished(self, spot: Spot) -> bool:
        """Whether something in the layout's own places says that it has ended, without searching."""
        return any(fs.exists(self.at(path)) for path in self.layout.finished_paths(stub(spot)))

    def guard(self, task_id: str) -> Turn | Open:
        """Where claimed files have a fixed name, one at a time may decide about a task."""
        if not self.layout.guarded:
            return Open()
        return Turn(self.at(f"{GUARDS}/{sum(task_id.encode()) % 64:02d}"))

    def load(self, spot: Spot, path: str) -> Task:
        """The task in a file; Invalid if it can't be one, FileNotFoundError if it is gone."""
        try:
            data, _ = fs.read(path, self.config.largest_task + SLACK)
        except fs.NotAFile:
            raise Invalid("it is not a regular file") from None
        except fs.TooBig as error:
            raise Invalid(f"it is too large: {error.strerror}") from None
        return self.layout.load(spot, data, self._beside(spot.id) if self.layout.rewritten else b"")

    def _beside(self, task_id: str) -> bytes:
        """What is kept beside a task: as it was last put back, else as it was put."""
        try:
            return fs.read(self.at(f"{BESIDE}/{task_id}"), self.config.largest_task)[0]
        except OSError:
            pass
        try:
            data, _ = fs.read(self.at(f"{IDS}/{task_id}"), self.config.largest_task)
            return self.layout.beside(self.layout.load(Spot(state=State.READY, id=task_id), data))
        except (OSError, Invalid):
            return b""

    def spell(self, task: Task, slack: int = 0) -> bytes:
        """The task's bytes, once it is sure that it can be read back from where it will lie. Invalid, TooLarge."""
        layout = self.layout
        layout.check_id(task.id)
        spot = layout.spot(layout.ready, layout.ready_path(task).removeprefix(f"{layout.ready}/"))
        if spot is None or (spot.id, spot.slug) != (task.id, task.slug if layout.slugged else spot.slug):
            raise Invalid(f"a file cannot be called after {task.id!r} and {task.slug!r}", id=task.id)
        try:
            data = layout.dump(task)
        except UnicodeError:
            raise Invalid("it has letters that cannot be written", id=task.id) from None
        if not layout.is_sure(task):
            layout.load(spot, data)
        if len(data) > self.config.largest_task + slack:
            raise TooLarge(
                f"the task is {len(data)} bytes; {self.config.largest_task} is the most",
                hint="Put the long part into a file and name it in the task.",
                id=task.id,
            )
        return data

    def original(self, task_id: str) -> Task | None:
        """The task as it was put."""
        spot = Spot(state=State.READY, id=task_id)
        try:
            return self.load(spot, self.at(f"{IDS}/{task_id}"))
        except (FileNotFoundError, Invalid):
            return None

    def being_written(self, status: fs.Stat) -> bool:
        """Whether somebody may still be writing this file: what can't be read yet is left alone for a moment."""
        return 0 <= self.clock.now() - status.st_mtime < self.grace

    def set_aside(
        self, relative: str, reason: str, judged: fs.Stat | None = None, step: Callable[[str, str], bool] = fs.move
    ) -> str | None:
        """Move something out of the queue's way, with the reason beside it; where, or None if it was gone.

        With `judged`, only that very file: another one may have come to its place since it was looked at.
        """
        if judged is not None and not untouched(self.at(relative), judged):
            return None
        name = os.path.basename(relative)
        if len(os.fsencode(name)) > LONGEST_ASIDE:
            name = name.encode("ascii", "replace").decode()[:LONGEST_ASIDE]
        aside = f"{QUARANTINE}/{name.replace(chr(10), '?')}~{fs.fresh_name()}"
        if not step(self.at(relative), self.at(aside)):
            return None
        fs.create(self.at(f"{aside}.reason"), f"{relative!r}: {reason}\n".encode("utf-8", "replace"), sync=False)
        self.tell("quarantined", details=f"{relative!r}: {reason}")
        return aside

    def spoilt(self, spot: Spot, reason: str) -> Task | None:
        """A claimed file that can't be read is set aside; the task as it was put, if it may go on as that.

        Where others write into claimed files, one of them may have died half way, and only its copy is spoilt.
        """
        status = fs.status(self.at(spot.path))
        original = self.original(spot.id) if self.layout.rewritten else None
        if original is None or status is None or not stat.S_ISREG(status.st_mode):
            self.set_aside(spot.path, reason)
            return None
        self.set_aside(spot.path, reason, step=fs.link)  # what is there now stays the task's token
        return original

    def register(self, spot: Spot) -> None:
        """Its id is known from now on. Conflict if the id belongs to a task that is not this ready file."""
        path, entry = self.at(spot.path), self.at(f"{IDS}/{spot.id}")
        known, here = fs.status(entry), fs.status(path)
        if here is None:
            return
        if known is not None and known.st_ino == here.st_ino:
            self.refuse_finished(spot, here)
            return
        if not stat.S_ISREG(here.st_mode):
            raise Conflict("it is not a regular file", judged=here)
        if known is None:
            if not changelog.mentions(self.at(CHANGELOG), "added_task", spot.id):
                self.tell("added_task", spot.id, details="found in the folder")
            if self._enter_registry(path, entry, spot):
                return
        self._refuse_copy(spot, here, known)

    def refuse_finished(self, spot: Spot, here: fs.Stat) -> None:
        """Conflict if its own file is here although it is finished: put back, or a power loss undid its moves."""
        verdict = self.outcome(spot.id)
        if verdict is not None or self.is_finished(spot):
            raise Conflict(f"{spot.id} is finished ({verdict or 'done'})", judged=here)

    def _refuse_copy(self, spot: Spot, here: fs.Stat, known: fs.Stat | None) -> None:
        """Conflict if this ready file is a copy that an editor saved of a task that has moved on.

        Not every file that is not the registered one is such a copy: it may have been edited while it was
        ready, or gone back after an attempt. And a token that moves while we look is seen in two places:
        it is the same inode then, and no copy.
        """
        verdict = self.outcome(spot.id)
        if verdict is not None or self.is_finished(spot):
            why = f"is finished ({verdict or 'done'})"
        else:
            why = self._elsewhere(spot, here, known)
        if why:
            raise Conflict(f"{spot.id} {why}", judged=here)

    def _elsewhere(self, spot: Spot, here: fs.Stat, known: fs.Stat | None) -> str:
        """Where the task itself is, if this ready file is not it."""
        tokens = [(other.path, f"is claimed by {other.worker}") for other in self.claims_of(spot.id)]
        tokens += [
            (f"{SEALED}/{file}", "is just being put back or finished")
            for file in fs.names(self.at(SEALED))
            if (sealed := self._sealed_spot(file)) is not None and sealed.id == spot.id
        ]
        for path, why in tokens:
            token = fs.status(self.at(path))
            if token is not None and token.st_ino != here.st_ino:
                return why
        if self.layout.slugged:
            for twin in self.find(self.layout.ready, State.READY, spot.id):
                if twin.path != spot.path and self._is_original(twin, spot, known):
                    return f"is {twin.path}, which was there first"
        return ""

    def _enter_registry(self, path: str, entry: str, spot: Spot) -> bool:
        if not self.layout.rewritten:
            return fs.link(path, entry)
        # Others write into the ready file itself; what it was must be kept in a file of its own.
        data, _ = fs.read(path, self.config.largest_task)
        copy = self.tmp(spot.id, fs.fresh_name(), "id")
        fs.create(copy, data, sync=self.durable)
        known = fs.link(copy, entry)
        fs.remove(copy)
        return known

    def _is_original(self, one: Spot, other: Spot, known: fs.Stat | None) -> bool:
        """Which of two ready files with one id is the task: the registered one, else the first by name."""
        inode = known.st_ino if known else 0
        here, there = fs.status(self.at(one.path)), fs.status(self.at(other.path))
        if here is None or there is None:
            return False
        if inode in (here.st_ino, there.st_ino):
            return here.st_ino == inode
        return one.path < other.path

    def tell(self, action: str, task_id: str = "", worker: str = "keeper", details: str = "") -> None:
        """One line in the changelog."""
        changelog.append(self.at(CHANGELOG), [self.event(action, task_id, worker, details)])

    def event(self, action: str, task_id: str = "", worker: str = "keeper", details: str = "") -> Event:
        """A line of now."""
        return Event(
            timestamp=iso(self.clock.now()),
            worker=worker,
            worker_type=worker_type(worker),
            action=action,
            task_id=task_id,
            details=details,
        )


def stub(spot: Spot) -> Task:
    """As much of a task as its file's name tells."""
    return Task(id=spot.id, title="", slug=spot.slug)
