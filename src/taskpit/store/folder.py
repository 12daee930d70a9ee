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

import errno
import os
import stat
from time import monotonic

from taskpit import fs, held_directories, kernel
from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.errors import Invalid, TooLarge
from taskpit.held_directories import COMPARED, Dir, Holding, at, directory, is_elsewhere
from taskpit.ids import is_word, name_of, path_of
from taskpit.layouts import Layout, Spot
from taskpit.layouts.layout import NEVER, is_worker
from taskpit.model import State, Task, Verdict
from taskpit.store import changelog
from taskpit.store.flock import BoundedLock, Open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from taskpit.layouts.layout import Named
    from taskpit.logfile import Log
    from taskpit.model import Claim
    from taskpit.store.writers import Writing

    Entry = tuple[str, Spot | Invalid]

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
DOOR = ".taskpit/door.lock"
NOTES = ".taskpit/notes"
CHANGELOG = ".taskpit/changelog.log"
#: Directories of our own that `init` makes.
OURS = (IDS, SEALED, OUTCOMES, TRIES, LATE, WORKERS, QUARANTINE, STOPS, NOTES, BESIDE, GUARDS, FENCES, LOCKS, LOGS)

#: How a task may have ended, each with its name in OUTCOMES.
VERDICTS = tuple(Verdict)
#: How a claim may have ended, as its sealed name says it.
ENDS = frozenset(("ready", *VERDICTS))
#: Attempts, holds and errors that we write into a task may make it this much larger than it may be put.
SLACK = 64 * 1024
#: Results may be larger than tasks; this is where reading one stops being sane.
LARGEST_RESULT = 64 * 1024 * 1024
#: After so many seconds without a sign of life other programs clean up a claim.
CLEANED = 900.0
#: The nanoseconds of a time that says of a file that it was found half written when it was claimed.
HALF = 250_000_000
#: From so many files on, one sync of the filesystem is cheaper than one of each.
MANY = 8
#: So many files that were set aside are looked at when they are counted.
MOST_REASONS = 10_000
#: From so many times on that a process writes to the changelog it keeps it open.
SEVERAL = 2
#: Quarantined names keep this many bytes of the old one.
LONGEST_ASIDE = 120


class Unreadable(Invalid):
    """Its permissions keep us out: for whoever looks at it, not to be set aside."""


class Folder:
    """Root, layout, settings and clock of one queue, with the steps that are not verbs by themselves."""

    def __init__(self, root: str, layout: Layout, config: Config, clock: Clock, grace: float = 2.0) -> None:
        self._holding = Holding(root)
        self.root = root
        self.layout = layout
        self.config = config
        self.clock = clock
        #: What was touched less than this many seconds ago is left to whoever is at it.
        self.grace = grace
        self.durable = config.durability == "power"
        #: So long after a claim's mtime other programs take it for abandoned: our stamps are earlier by that.
        self.cleaned_after = min(config.lease, config.abandoned, CLEANED)
        #: Wall clock minus monotonic when this process last looked; None: it has not.
        self.even: float | None = None
        #: Whether one call can put all that was written on the disk, and whether the disk keeps the order of names;
        #: None: nobody has asked.
        self._together: bool | None = None
        self._ordered: bool | None = None
        #: The changelog, once a process has written to it, and how often.
        self._log: Log | None = None
        self._logs = 0
        #: Directories that verbs need together, as of that time and turn.
        self._held: dict[tuple[str, ...], tuple[float, int, list[Dir]]] = {}
        self._writing: Writing | None = None
        #: What each verb holds.
        self.of_put = (layout.tmp, IDS, layout.ready)
        self.of_claim = (layout.ready, layout.claimed, IDS, OUTCOMES, *layout.results)
        self.of_end = (layout.claimed, layout.tmp, SEALED, OUTCOMES, *layout.results)

    def at(self, relative: str) -> str:
        """The path of something in the queue."""
        return f"{self.root}/{relative}"

    def dir(self, relative: str) -> Dir:
        """One of the queue's directories, open."""
        return directory(f"{self.root}/{relative}")

    def of(self, folder: str, task_id: str, rest: str = "") -> str:
        """The path of what is called after a task in one of the queue's folders; Invalid if its id cannot be one."""
        return path_of(f"{self.root}/{folder}", task_id, rest)

    def worker_path(self, fence: str) -> str:
        """Where the record of the worker behind this fence lies; where none does, if nobody can be called so."""
        name = fence.partition("~")[0]
        return f"{self.root}/{WORKERS}/{name if is_worker(name) else '-'}"

    def hold(self, folders: tuple[str, ...]) -> list[Dir]:
        """These directories, open: refused at once, before anything is done, if one is a link or foreign.

        What was looked at less than a second ago is still open, and nothing but that is used.
        """
        now, held = monotonic(), self._held.get(folders)
        if held is not None and now - held[0] < COMPARED and held[1] == held_directories.turn:
            return held[2]
        turn = held_directories.turn  # as of before: another thread may let one go meanwhile
        found = [self._hold(name) for name in folders]
        self._held[folders] = now, turn, found
        return found

    def need(self) -> None:
        """FileNotFoundError if the queue itself is gone; any other directory that is missing is an empty one."""
        if not fs.exists(self.root):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.root)

    def _hold(self, name: str) -> Dir:
        """This one; of the layout's own and tmp, made again: git removes those that are empty."""
        try:
            return self.dir(name)
        except FileNotFoundError:
            if name not in (*self.layout.folders, self.layout.tmp):
                raise
            directory(self.at(name).rpartition("/")[0])  # if the queue itself is gone, it is not made again
            fs.make_dir(self.at(name))
            return self.dir(name)

    def hold_all(self) -> None:
        """None of the directories is a link or foreign. One that is missing is told by whoever needs it."""
        for name in (*self.layout.folders, *OURS, self.layout.tmp):
            try:
                self.dir(name)
            except FileNotFoundError:
                continue

    def make_place(self, path: str) -> bool:
        """Whether the directory of this path was gone, and is there again: git removes those that are empty."""
        place = path.rpartition("/")[0]
        known = place.removeprefix(f"{self.root}/") in (*self.layout.folders, *OURS, self.layout.tmp)
        if not known or fs.exists(place):
            return False
        fs.make_dir(place)
        return True

    def write(self, name: str, data: bytes, *, sync: bool, tmp: Dir | None = None) -> None:
        """A new temporary file of this name with these bytes, on the disk if `sync`; in `tmp`, if that is held."""
        try:
            fs.create_at(tmp or self.dir(self.layout.tmp), name, data, sync=sync)
        except FileNotFoundError:
            if not self.make_place(f"{self.root}/{self.layout.tmp}/{name}") and tmp is None:
                raise  # what is held may be another one by now
            fs.create_at(self.dir(self.layout.tmp), name, data, sync=sync)

    def sync(self, *folders: str) -> None:
        """The entries of these directories are on the disk, where power loss must not take them."""
        if self.durable:
            for folder in folders:
                fs.sync_dir(self.at(folder))

    def syncs_together(self, count: int) -> bool:
        """Whether so many files are best put on the disk by one call for all of them."""
        if not self.durable or count < MANY:
            return False
        if self._together is None:
            self._together = kernel.syncs_filesystems(self.root)
        return self._together

    @property
    def syncs_once(self) -> bool:
        """Whether one fsync, after the call that decides and before anything is visible, is all that a verb needs.

        The names that follow need none: a power loss that takes one takes all after it, and what was decided is
        carried out again. Elsewhere the bytes are on the disk before the decision, and every name before the answer.
        """
        if self._ordered is None:
            self._ordered = self.durable and kernel.keeps_order(self.root)
        return self._ordered

    def settle(self, folder: str, *, together: bool) -> None:
        """What was written to this directory is on the disk: `together` with its bytes, else they are already."""
        if together:
            fs.sync_all(self.at(folder))
        else:
            self.sync(folder)

    def tmp(self, task_id: str, nonce: str, part: str) -> str:
        """Where a part of a verb lies before its commit."""
        return f"{self.root}/{self.layout.tmp}/{part_name(task_id, nonce, part)}"

    def create_like(self, before: fs.Stat | None, path: str, data: bytes, *, sync: bool) -> None:
        """A new file that is going to replace one, with its mode: whoever may read or write that one still may."""
        plain = before if before is not None and stat.S_ISREG(before.st_mode) else None
        mode = stat.S_IMODE(plain.st_mode) & 0o777 if plain else 0o666
        fs.create(path, data, sync=sync, mode=mode)
        made = fs.status(path) if plain else None
        if made is not None and stat.S_IMODE(made.st_mode) & 0o777 != mode:  # the umask took a part of it
            fs.set_mode(path, mode)

    def entries(self, folder: str, about: str = "", among: Iterable[str] | None = None) -> Iterator[Entry]:
        """What wants to be a task or a result in a directory: its name, and what it is or what is wrong.

        Only names that mention `about` are looked at more closely; `among` saves a listing made just now.
        """
        for file in fs.names(self.at(folder)) if among is None else among:
            if about not in file or file.startswith(NEVER) or file.endswith("~"):
                continue
            try:
                spot = self.layout.spot(folder, file)
            except Invalid as error:
                yield file, error
            else:
                if spot is not None:
                    yield file, spot

    def spots(self, folder: str, state: State, about: str = "", among: Iterable[str] | None = None) -> Iterator[Spot]:
        """The readable entries of a directory that are in this state."""
        for _, spot in self.entries(folder, about, among):
            if isinstance(spot, Spot) and spot.state is state:
                yield spot

    def claims(self, about: str = "", among: Iterable[str] | None = None) -> Iterator[Spot]:
        """Claimed files, each with its holder: by its name, or by what stands inside."""
        for spot in self.spots(self.layout.claimed, State.CLAIMED, about, among):
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
            sealed = self.sealed_spot(file)
            if sealed is not None:
                files.append((sealed, f"{SEALED}/{file}"))
        for spot, path in files:
            try:
                yield self.load(spot, self.at(path))
            except (FileNotFoundError, Invalid):
                continue

    def claims_of(self, task_id: str, among: Iterable[str] | None = None) -> list[Spot]:
        """Claimed files of this task. Where their name is fixed, one look says that there is none."""
        fixed = self.layout.guarded and among is None and is_word(task_id)
        if fixed and not fs.exists(self.at(self.layout.claimed_path(Spot(state=State.CLAIMED, id=task_id), ""))):
            return []
        return [spot for spot in self.claims(task_id, among) if spot.id == task_id]

    def where_put(self, task_id: str) -> Spot | None:
        """Its ready file, if it is where it was put: most are, and nothing need be listed to find it."""
        original = self.original(task_id) if is_word(task_id) else None
        if original is None:
            return None
        named = self.layout.named(original)
        path = self.layout.ready_path(named)
        if not fs.exists(self.at(path)):
            return None
        return Spot(state=State.READY, id=task_id, slug=named.slug, path=path)

    def find(self, folder: str, state: State, task_id: str, among: Iterable[str] | None = None) -> list[Spot]:
        """Entries of this task in a directory; more than one is a fault that `mend` mends."""
        return [spot for spot in self.spots(folder, state, task_id, among) if spot.id == task_id]

    def sealed(self) -> Iterator[tuple[Spot, str, str]]:
        """Ended claims on their way: whose, the nonce, and how it ends."""
        for file in fs.names(self.at(SEALED)):
            spot = self.sealed_spot(file)
            _, _, tail = file.partition("~")
            nonce, _, end = tail.partition("~")
            if spot is not None and end.partition(".")[0] in ENDS:  # else it is nothing of ours: see the doctor
                yield spot, nonce, end

    def sealed_spot(self, file: str) -> Spot | None:
        """Whose sealed file this is, by its name."""
        try:
            return self.layout.spot(self.layout.ready, file.partition("~")[0])
        except Invalid:
            return None

    def outcome(self, task_id: str) -> Verdict | None:
        """How the task ended, if it has."""
        path = self.of(OUTCOMES, task_id, "~")
        for verdict in VERDICTS:
            if fs.exists(path + verdict):
                return verdict
        return None

    def outcome_path(self, task_id: str, verdict: Verdict) -> str:
        """Where the other name of its result lies."""
        return self.of(OUTCOMES, task_id, f"~{verdict}")

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

    def ended_as(self, spot: Spot) -> Verdict | None:
        """What the layout's own places say of how it ended, without searching; None if nothing does."""
        for path in self.layout.finished_paths(spot):
            where, _, file = path.rpartition("/")
            said = self.layout.spot(where, file) if fs.exists(f"{self.root}/{path}") else None
            if said is not None and said.verdict is not None:
                return said.verdict
        return None

    def is_over(self, task: Named, held: list[Dir]) -> bool:
        """Whether it has ended: as far as we know, or as the layout's own places say, whoever wrote there; looked for
        in the directories that a claim holds.
        """
        outcomes, known = held[3], name_of(task.id, "~")
        for verdict in VERDICTS:
            if fs.status_at(outcomes, known + verdict) is not None:
                return True
        for path in self.layout.finished_paths(task):
            try:
                if fs.status_at(*self.shown(path, held)) is not None:
                    return True
            except FileNotFoundError:
                continue  # there is no such directory yet
        return False

    def shown(self, path: str, held: list[Dir]) -> tuple[Dir, str]:
        """Where a result lies: one of the directories that a claim and its end hold, after the first four, or another;
        and its name there.
        """
        results, (where, _, file) = self.layout.results, path.rpartition("/")
        return held[4 + results.index(where)] if where in results else self.dir(where), file

    def guard(self, task_id: str) -> BoundedLock | Open:
        """Where claimed files have a fixed name, one at a time may decide about a task."""
        if not self.layout.guarded:
            return Open()
        return BoundedLock(self.at(f"{GUARDS}/{sum(task_id.encode()) % 64:02d}"))

    def holds(self, claim: Claim, path: str) -> bool:
        """Whether a file with a fixed name is this claim's."""
        if not self.layout.guarded:
            return True
        try:
            data, _ = fs.read(self.at(path), self.config.largest_task)
        except FileNotFoundError:
            return is_elsewhere(self.at(path)) and self.holds(claim, path)
        except (fs.NotAFile, fs.TooBig):
            return False  # what merely can't be read just now is for whoever asks: nobody has lost anything yet
        return self.layout.holder(data) == claim.fence

    def load(self, spot: Spot, path: str, known: Task | None = None) -> Task:
        """The task in a file; Invalid if it can't be one, FileNotFoundError if it is gone.

        If it is what was read before, that is `known`, it is not read a second time.
        """
        return self.parse(spot, self.read(path)[0], known)

    def read(self, path: str) -> tuple[bytes, fs.Stat]:
        """The bytes of a task's file and its status; Invalid if it can't be one, FileNotFoundError if it is gone."""
        try:
            return fs.read_at(*at(path), self.config.largest_task + SLACK)
        except PermissionError:
            raise Unreadable("its permissions keep us out") from None
        except fs.NotAFile:
            raise Invalid("it is not a regular file") from None
        except fs.TooBig as error:
            raise Invalid(f"it is too large: {error.strerror}") from None

    def parse(self, spot: Spot, data: bytes, known: Task | None = None) -> Task:
        """The task in these bytes, and in what is kept beside them."""
        layout, same = self.layout, known is not None and known.was_read and known.source == data
        if known is not None and same and (known.slug == spot.slug or not layout.slugged):
            return known
        return layout.load(spot, data, self._beside(spot.id, data) if layout.rewritten else b"")

    def _beside(self, task_id: str, data: bytes) -> bytes:
        """What is kept beside a task: as it was last put back, else as it was put.

        Nothing, where these bytes are those that were put: nobody has dropped anything from them.
        """
        try:
            return fs.read(self.of(BESIDE, task_id), self.config.largest_task)[0]
        except OSError:
            pass
        try:
            put, _ = fs.read(self.of(IDS, task_id), self.config.largest_task)
            spot = Spot(state=State.READY, id=task_id)
            return b"" if put == data else self.layout.beside(self.layout.load(spot, put))
        except (OSError, Invalid):
            return b""

    def spell(self, task: Task, slack: int = 0) -> bytes:
        """The task's bytes, once it is sure that it can be read back from where it will lie. Invalid, TooLarge."""
        self.layout.check_id(task.id)
        data = self.layout.dump_sure(task) or self._spell_with_care(task)
        if len(data) > self.config.largest_task + slack:
            raise TooLarge(
                f"the task is {len(data)} bytes; {self.config.largest_task} is the most",
                hint="Put the long part into a file and name it in the task.",
                id=task.id,
            )
        return data

    def _spell_with_care(self, task: Task) -> bytes:
        """The same for what may read differently from what is meant: try it."""
        layout = self.layout
        spot = layout.spot(layout.ready, layout.ready_path(task).removeprefix(f"{layout.ready}/"))
        if spot is None or (spot.id, spot.slug) != (task.id, task.slug if layout.slugged else spot.slug):
            raise Invalid(f"a file cannot be called after {task.id!r} and {task.slug!r}", id=task.id)
        try:
            data = layout.dump(task)
        except UnicodeError:
            raise Invalid("it has letters that cannot be written", id=task.id) from None
        layout.load(spot, data)
        return data

    def original(self, task_id: str) -> Task | None:
        """The task as it was put."""
        spot = Spot(state=State.READY, id=task_id)
        try:
            return self.load(spot, self.of(IDS, task_id))
        except (FileNotFoundError, Invalid):
            return None

    @property
    def writing(self) -> Writing:
        """What is known of files that others write."""
        if self._writing is None:
            from taskpit.store.writers import Writing  # what we put ourselves does without

            self._writing = Writing(self)
        return self._writing

    def is_young(self, status: fs.Stat) -> bool:
        """Whether this was written a moment ago."""
        return 0 <= self.clock.now() - status.st_mtime < self.grace

    def being_written(self, path: str, status: fs.Stat) -> bool:
        """Whether a program may still be writing this file: what can't be read yet is left alone for a moment."""
        return self.is_young(status) or not self.writing.is_whole(path)

    def unfinished(self, path: str, here: fs.Stat, *, whole: bool = False) -> str:
        """Why a ready file is no task yet although it can be read; empty if it is one, or something else is wrong.

        What `put` let in has a second name in the registry: it is whole, unless it was written to last, just now, and
        the kernel has not said that its writer is done; or unless it was found half written.
        """
        if not stat.S_ISREG(here.st_mode):
            return ""
        if not here.st_size:
            return "it is empty: its writer has yet to fill it"
        if self.layout.rewritten:
            return ""  # half a JSON object cannot be read
        young = 0 <= self.clock.now() - here.st_ctime < self.grace
        saved = not whole and young and here.st_mtime_ns == here.st_ctime_ns
        doubtful = saved or here.st_mtime_ns % 10**9 == HALF
        known = here.st_nlink > 1
        written = doubtful and self.writing.has_writer(path) if known else not self.writing.is_whole(path)
        return "it is still being written" if written else ""

    def set_aside(
        self, relative: str, reason: str, judged: fs.Stat | None = None, step: Callable[[str, str], bool] = fs.move
    ) -> str | None:
        """Move something out of the queue's way, with the reason beside it; where, or None if it was gone.

        With `judged`, only that very file: another one may have come to its place since it was looked at.
        """
        name = os.path.basename(relative)
        if len(os.fsencode(name)) > LONGEST_ASIDE:
            name = name.encode("ascii", "replace").decode()[:LONGEST_ASIDE]
        aside = f"{QUARANTINE}/{name.replace(chr(10), '?')}~{fs.fresh_name()}"
        moved = step(self.at(relative), self.at(aside)) if judged is None else self.move_judged(relative, aside, judged)
        if not moved and not fs.exists(self.at(aside)):
            return None
        fs.create(self.at(f"{aside}.reason"), f"{relative!r}: {reason}\n".encode("utf-8", "replace"), sync=False)
        self.tell("quarantined", details=f"{relative!r}: {reason}")
        return aside

    def move_judged(self, relative: str, place: str, judged: fs.Stat) -> bool:
        """This very file is at that place now. False if it was gone, if another one had come, or if the place is taken.

        Also if the other one came between the look and the move: then that one is put back.
        """
        try:
            if not untouched(self.at(relative), judged) or not fs.move_new(self.at(relative), self.at(place)):
                return False
            moved = fs.status(self.at(place))
            if moved is None or moved.st_ino == judged.st_ino:
                return True
            fs.move_new(self.at(place), self.at(relative))
        except FileExistsError:
            return False  # if a third one has come meanwhile, the other one stays there to be looked at
        return False

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

    def tell(self, action: str, task_id: str = "", worker: str = "keeper", details: str = "") -> None:
        """One line in the changelog."""
        self.log(self.line(action, task_id, worker, details))

    def line(
        self, action: str, task_id: str = "", worker: str = "keeper", details: str = "", digest: str = ""
    ) -> bytes:
        """A line of now for the changelog; of a result with the digest of its bytes."""
        return changelog.line(self.clock.now(), action, task_id, worker, details, digest)

    def log(self, data: bytes) -> None:
        """These lines are in the changelog, in one go.

        A command that tells once takes its turn under a lock, and so does everybody on a network filesystem.
        """
        if self._log is not None:
            self._log.append(data)
            return
        self._logs += 1
        if self._logs == SEVERAL and kernel.is_local(self.root):
            from taskpit.logfile import Log

            self._log = Log(self.at(CHANGELOG))
            self._log.append(data)
        else:
            fs.append(self.at(CHANGELOG), data)

    def close(self) -> None:
        """Let go of what is kept open."""
        if self._log is not None:
            self._log.close()
        self._held.clear()
        self._holding.close()


def part_name(task_id: str, nonce: str, part: str) -> str:
    """What a part of a verb is called before its commit."""
    return name_of(task_id, f"~{nonce}~{part}")


def freshen(path: str) -> bool:
    """Its mtime is now; False if the name is gone. What another user's modes keep from us stays as it is."""
    try:
        return fs.set_times(path, None)
    except PermissionError:
        return fs.exists(path)


def stub(spot: Spot) -> Task:
    """As much of a task as its file's name tells."""
    return Task(id=spot.id, title="", slug=spot.slug)


def untouched(path: str, judged: fs.Stat) -> bool:
    """Whether this very file is still there, as it was when it was looked at.

    The inode's number alone does not tell: when a file goes, its number is given to the next one that is made.
    """
    status = fs.status(path)
    return status is not None and (status.st_ino, status.st_ctime_ns) == (judged.st_ino, judged.st_ctime_ns)


def lately_aside(root: str, since: float) -> int:
    """How many files were set aside in this folder since then, and are: what could not be a task is in no list."""
    place = f"{root}/{QUARANTINE}"
    reasons = [name for name in fs.names(place) if name.endswith(".reason")] if root else []
    found = (fs.status(f"{place}/{name}") for name in reasons[:MOST_REASONS])
    return sum(1 for status in found if status is not None and status.st_mtime >= since)
