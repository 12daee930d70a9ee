"""What every verb of one queue needs: its files, layout, settings, clock and log, and the small steps they share."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.errors import Invalid, TooLarge
from taskpit.ids import path_of
from taskpit.layouts import Layout, Spot
from taskpit.layouts.layout import NEVER
from taskpit.model import State, Task, Verdict
from taskpit.store.plain import paths
from taskpit.store.plain.changelog import DIGEST, Changelog, line
from taskpit.store.plain.files import Files, NotAFile, Stat, TooBig
from taskpit.store.plain.lock import QueueLock
from taskpit.store.plain.paths import LARGEST_RESULT, SLACK

if TYPE_CHECKING:
    from taskpit.store.plain.pending import Pending

#: After so many seconds without a sign of life other programs clean up a claim.
CLEANED = 900.0
#: Bytes that a quarantined file keeps of its name.
LONGEST_ASIDE = 120
#: Errors of a disk without room.
FULL = (errno.ENOSPC, errno.EDQUOT)


class Unreadable(Invalid):
    """Its permissions keep this user out: a person must look at it; it is not set aside."""


class Folder:
    """One queue in a folder."""

    def __init__(self, files: Files, layout: Layout, config: Config, clock: Clock, young: float) -> None:
        self.files = files
        self.layout = layout
        self.config = config
        self.clock = clock
        self.log = Changelog(files)
        #: A file that another program wrote in the last so many seconds is left alone: it may not be done yet.
        self.young = young
        self.durable = config.durability == "power"
        #: The mtime of a claim is so much earlier than the end of its lease: then programs reclaim that know only ages.
        self.cleaned_after = min(config.lease, config.abandoned, CLEANED)
        #: Whether agents overwrite visible results in place: then those are copies.
        self.in_place = bool(layout.ended_path(Task(id="1", title=""), Verdict.DONE))
        #: Changes under way; `pending.open_folder` sets it, and the lock that completes them.
        self.pending: Pending
        self.lock: QueueLock

    @property
    def ordered(self) -> bool:
        """Tell whether one fsync after a decision commits it together with all earlier names."""
        return self.files.disk().ordered

    def nonce(self) -> str:
        """Return a name that no other change has."""
        return self.clock.chance(10)

    # -- names -------------------------------------------------------------------------------------------------------

    def spot(self, folder: str, file: str) -> Spot | None:
        """Read a name in one of the layout's folders; None if it is no task or result."""
        if file.startswith(NEVER) or file.endswith("~"):
            return None
        try:
            return self.layout.spot(folder, file)
        except Invalid:
            return None

    def ready_spot(self, name: str) -> Spot | None:
        """Read the name of a ready file; None if it is no task's."""
        spot = self.spot(self.layout.ready, name)
        return spot if spot is not None and spot.state is State.READY else None

    def ready_name(self, task: Task | Spot) -> str:
        """Return the name of this task's ready file."""
        return self.layout.ready_path(task).rpartition("/")[2]

    def ready_path(self, name: str) -> str:
        """Return the path of a ready file."""
        return f"{self.layout.ready}/{name}"

    def spots(self, folder: str, state: State | None = None) -> Iterator[Spot]:
        """List the tasks and results in one of the layout's folders."""
        for file in self.files.names(folder):
            spot = self.spot(folder, file)
            if spot is not None and state in (None, spot.state):
                yield spot

    def claims(self) -> list[Spot]:
        """List the claimed files; where the name does not tell the holder, the file does."""
        found = list(self.spots(self.layout.claimed, State.CLAIMED))
        return [spot.replace(worker=self.holder(spot)) for spot in found] if self.layout.guarded else found

    def holder(self, spot: Spot) -> str:
        """Read who has a claimed file, where its name does not say."""
        try:
            return self.layout.holder(self.files.read(spot.path, LARGEST_RESULT)[0])
        except (FileNotFoundError, NotAFile, TooBig):
            return ""

    def claims_of(self, task_id: str) -> list[Spot]:
        """List the claimed files of one task."""
        return [spot for spot in self.claims() if spot.id == task_id]

    # -- states ------------------------------------------------------------------------------------------------------

    def verdict(self, task_id: str) -> Verdict | None:
        """Tell how a task ended, as far as this queue knows."""
        for verdict in Verdict:
            if self.files.stat(paths.ended_path(task_id, f"~{verdict}")) is not None:
                return verdict
        return None

    def is_known(self, task_id: str) -> bool:
        """Tell whether a task of this id was put or registered."""
        return any(self.files.stat(path) is not None for path in (paths.open_path(task_id), paths.ended_path(task_id)))

    def foreign_end(self, task: Task | Spot) -> Spot | None:
        """Find the entry by which another program says that this task has ended; None if there is none."""
        for path in self.layout.finished_paths(task):
            if self.files.stat(path) is not None:
                return self.layout.spot(*_split(path))
        return None

    # -- bytes -------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> tuple[bytes, Stat]:
        """Read a task's file. Invalid if it can be none, FileNotFoundError if it is gone."""
        try:
            return self.files.read(path, self.config.largest_task + SLACK)
        except NotAFile:
            raise Invalid("it is not a regular file") from None
        except TooBig as error:
            raise Invalid(f"it is too large: {error.strerror}") from None
        except PermissionError:
            raise Unreadable("its permissions keep us out") from None

    def load(self, spot: Spot, path: str = "") -> Task:
        """Read the task in a file. The same errors."""
        return self.parse(spot, self.read(path or spot.path)[0])

    def parse(self, spot: Spot, data: bytes) -> Task:
        """Read the task in these bytes, and in what is kept next to it for layouts whose programs drop fields."""
        if not self.layout.rewritten:
            return self.layout.load(spot, data)
        try:
            beside = self.files.read(paths.open_path(spot.id, "~beside"), self.config.largest_task + SLACK)[0]
        except (FileNotFoundError, NotAFile, TooBig):
            beside = b""
        return self.layout.load(spot, data, beside)

    def is_damaged(self, spot: Spot, data: bytes, status: Stat) -> bool:
        """Tell whether bytes are not those that were written under the file's mtime, which is one of ours.

        Another program that changes the bytes also changes the mtime. A file that is changed while it is read is none.
        """
        if paths.is_dated(status.st_mtime, data):
            return False
        for event in reversed(self.log.recent(spot.id)):
            size, _, crc = str(event.extra.get(DIGEST, "")).partition("-")
            if crc and event.did != "completed_task":
                known = int(crc, 16)
                ours = paths.is_dated_by(status.st_mtime, known)
                differs = (str(len(data)), paths.checksum(data)) != (size, known)
                now = self.files.stat(spot.path) if ours and differs else None
                return now is not None and (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
        return False

    def spell(self, task: Task, slack: int = 0) -> bytes:
        """Spell a task's bytes, once it is sure that they are read back as meant. Invalid or TooLarge."""
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
        spot = self.layout.spot(*_split(self.layout.ready_path(task)))
        if spot is None or (spot.id, spot.slug) != (task.id, task.slug if self.layout.slugged else spot.slug):
            raise Invalid(f"a file cannot be called after {task.id!r} and {task.slug!r}", id=task.id)
        try:
            data = self.layout.dump(task)
        except UnicodeError:
            raise Invalid("it has letters that cannot be written", id=task.id) from None
        self.layout.load(spot, data)
        return data

    def original(self, task_id: str, *, again: bool = False) -> Task | None:
        """Read the task as it was put, or as much of it as is left."""
        put, found = paths.ended_path(task_id, "~put"), None
        spot = Spot(state=State.READY, id=task_id)
        for place in (put, paths.open_path(task_id), paths.ended_path(task_id)):
            try:
                found = self.layout.load(spot, self.read(place)[0])
            except (FileNotFoundError, Invalid):
                continue
            break
        if (found is None or place != put) and not again and self.files.stat(put) is not None:
            return self.original(task_id, again=True)  # it was changed between the two looks
        return found

    # -- steps -------------------------------------------------------------------------------------------------------

    def move(self, source: str, target: str) -> bool:
        """Rename without replacing, into a folder of ours that is made when it is first needed."""
        try:
            return self.files.move(source, target)
        except FileNotFoundError:
            self.make_place(target)
            return self.files.move(source, target)

    def supersede(self, source: str, target: str) -> bool:
        """Rename, replacing; False if `source` is missing.

        After a power loss both can be names of one file, and then a rename does nothing: the old name goes.
        """
        moved = self.files.replace(source, target)
        if moved and self.files.stat(source) is not None:
            self.files.remove(source)
        return moved

    def make_place(self, path: str) -> None:
        """Make the folder of a path; FileNotFoundError if the queue itself is gone."""
        if self.files.stat(paths.HIDDEN) is None:
            raise FileNotFoundError(errno.ENOENT, "the queue is gone", self.files.root)
        folder = path.rpartition("/")[0]
        if self.files.stat(folder) is not None:
            return
        shared = self.files.stat(paths.HIDDEN)
        self.files.make_dir(folder, stat.S_IMODE(shared.st_mode) if shared else None)
        self.sync_dirs(folder.rpartition("/")[0])

    def show_kept(self, path: str, kept: str) -> bool:
        """Give a kept result its visible name again; False if the name is taken."""
        self.make_place(path)
        if not self.in_place:
            return self.files.link(kept, path)
        with suppress(FileExistsError):
            self.files.create(path, self.files.read(kept, LARGEST_RESULT)[0])
            return True
        return False

    def keep_late(self, source: str, task_id: str, nonce: str) -> str:
        """Keep the words of a claim that is over; return where."""
        target = path_of(paths.LATE, task_id, f"~{nonce}")
        try:
            self.move(source, target)
        except FileExistsError:  # a crash came between; both names are of one file
            self.files.remove(source)
        if self.durable:
            self.files.sync(target)
        if self.durable and not self.ordered and self.files.stat(target) is not None:
            self.files.sync_dir(paths.LATE)
        return target

    def set_aside(self, path: str, reason: str, judged: Stat | None = None) -> str | None:
        """Quarantine a file with the reason; return where, or None if it was gone.

        With `judged`, only that file: another program may have put the task itself in its place since it was looked at.
        Then it goes back and None is returned.
        """
        name = path.rpartition("/")[2].encode("ascii", "replace").decode().replace("?", "_")[:LONGEST_ASIDE]
        aside = f"{paths.QUARANTINE}/{name}~{self.nonce()}"
        if not self.move(path, aside):
            return None
        moved = self.files.stat(aside)
        if judged is not None and moved is not None and moved.st_ino != judged.st_ino:
            try:
                self.files.move(aside, path)
            except FileExistsError:
                reason = f"{reason}; it was moved while another file came to its place"
            else:
                return None
        self.files.create(f"{aside}.reason", f"{path!r}: {reason}\n".encode("utf-8", "replace"))
        self.tell("quarantined", details=f"{path!r}: {reason}")
        return aside

    def copy_aside(self, path: str, reason: str) -> None:
        """Keep one more name of a file in quarantine, with the reason; the file stays where it is."""
        aside = f"{paths.QUARANTINE}/{path.rpartition('/')[2][:LONGEST_ASIDE]}~{self.nonce()}"
        self.make_place(aside)
        if self.files.link(path, aside):
            self.files.create(f"{aside}.reason", f"{path!r}: {reason}\n".encode("utf-8", "replace"))
            self.tell("quarantined", details=f"{path!r}: {reason}")

    def tell(self, action: str, task_id: str = "", worker: str = "keeper", details: str = "", **more: str) -> None:
        """Append one line to the changelog."""
        self.log.append(self.line(action, task_id, worker, details, **more))

    def line(self, action: str, task_id: str = "", worker: str = "keeper", details: str = "", **more: str) -> bytes:
        """Spell a line of now."""
        return line(self.clock.now(), action, task_id, worker, details, **more)

    def stamp(self, path: str, until: float, fence: str) -> bool:
        """Say by its mtime until when a claim lasts. False if the file is gone.

        Another user's file may refuse any time; then the worker's own record says it.
        """
        try:
            return self.files.set_times(path, until)
        except PermissionError:
            with suppress(PermissionError):
                self.files.set_times(path, None)
            self.files.set_times(paths.worker_path(fence), until + self.cleaned_after)
            return self.files.stat(path) is not None

    def sync_dirs(self, *folders: str) -> None:
        """Flush the names of these folders, where power loss must not take them."""
        if self.durable:
            for folder in dict.fromkeys(folders):
                self.files.sync_dir(folder)

    def is_young(self, status: Stat) -> bool:
        """Tell whether another program wrote this file in the last two seconds: it may not be done yet."""
        return 0 <= self.clock.now() - status.st_mtime < self.young


def _split(path: str) -> tuple[str, str]:
    folder, _, file = path.rpartition("/")
    return folder, file
