"""The folders of work items: finding, reading and changing their `progress.yaml`. Knows files, not what may be done.

Reading takes no turn: a file is replaced whole. Whoever changes one does so in its turn, on what it has just
read, by one rename; if a person saved the file meanwhile, it is read again. Others write it in place: half of it is
YAML, too, so nobody goes by what a program of this machine has open for writing. What other programs drop from the
file is kept beside it, written just before the file: of a later version than the file, it says nothing.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from taskpit import fs
from taskpit.clock import iso
from taskpit.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from taskpit.layouts import activities as names
from taskpit.layouts import sidecar, yamltext
from taskpit.layouts.progress import Progress
from taskpit.model import Event, worker_type
from taskpit.store import changelog
from taskpit.store.flock import BoundedLock
from taskpit.store.folder import BESIDE, CHANGELOG, GUARDS, STOPS, Folder
from taskpit.store.locks import Grip

T = TypeVar("T")

#: How often a change begins anew because a person saved the file under our hands; seconds that a writer has each time.
TRIES, PAUSE = 5, 0.1
#: A `progress.yaml` larger than this is not read.
LARGEST = 8 * 1024 * 1024


class UnreadableItem(Invalid):
    """A `progress.yaml` that cannot be read as it is now."""


class BeingWritten(UnreadableItem):
    """A `progress.yaml` that another program has not finished yet."""


class Items:
    """Every work item of a queue."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._read: dict[str, tuple[tuple[int, ...], Progress | Invalid]] = {}
        self._folders: tuple[int, dict[str, str]] = (0, {})

    # -- finding -----------------------------------------------------------------------------------

    def folders(self) -> dict[str, str]:
        """Folder names by work item; of two that claim to be the same, the first by name is it."""
        status = fs.status(self.folder.root)
        changed = status.st_mtime_ns if status else 0
        if changed == self._folders[0]:
            return self._folders[1]
        found: dict[str, str] = {}
        for name in sorted(fs.names(self.folder.root)):
            item = names.item_of(name)
            if item and item not in found and self._is_folder(name):
                found[item] = name
        self._folders = (changed, found)
        return found

    def _is_folder(self, name: str) -> bool:
        """A directory of the queue's own: a link leads out of it."""
        status = fs.status(self.folder.at(name))
        return status is not None and stat.S_ISDIR(status.st_mode)

    def twins(self) -> list[tuple[str, str]]:
        """Folders that nobody looks into, since another one of the same work item comes first."""
        known = self.folders()
        others = ((names.item_of(name), name) for name in sorted(fs.names(self.folder.root)))
        return [(item, name) for item, name in others if item and known.get(item) != name and self._is_folder(name)]

    def _folder_of(self, item: str) -> str | None:
        """The folder of a work item; what is not known is looked for again, for times have their grain."""
        known = self.folders().get(item)
        if known is None:
            self._folders = (0, {})
            known = self.folders().get(item)
        return known

    def path(self, item: str, *inside: str) -> str:
        """Where something of a work item lies, from the queue's root; NotFound if there is no such work item."""
        name = self._folder_of(item)
        if name is None:
            raise NotFound(f"there is no work item {item}", hint="`pit add TITLE` makes one.", id=item)
        return "/".join((name, *inside))

    def grip(self, activity_id: str, name: str = "") -> Grip:
        """The lock of an activity; `name` is what others may call it."""
        spot = names.place(activity_id)
        path = self.path(spot.item if spot else "", names.LOCKS, name or f"{activity_id}.lock")
        return Grip(self.folder, activity_id, path)

    def room_for_locks(self, item: str) -> None:
        """Folders made by hand may have no `locks/` yet."""
        path = self.folder.at(self.path(item, names.LOCKS))
        if not fs.exists(path):
            fs.make_dir(path)

    # -- reading -----------------------------------------------------------------------------------

    def all(self) -> Iterator[tuple[str, Progress | Invalid]]:
        """Every work item, and what is in it or why it cannot be read."""
        for item, name in self.folders().items():
            try:
                yield item, self._load(item, name)
            except FileNotFoundError:
                continue
            except Invalid as error:
                yield item, error

    def readable(self) -> Iterator[Progress]:
        """Those that can be read."""
        for _, progress in self.all():
            if isinstance(progress, Progress):
                yield progress

    def get(self, item: str) -> Progress | None:
        """One of them; None if there is none. Invalid if it cannot be read."""
        name = self._folder_of(item)
        try:
            return self._load(item, name) if name else None
        except FileNotFoundError:
            return None

    def _load(self, item: str, name: str) -> Progress:
        path = self.folder.at(f"{name}/{names.PROGRESS}")
        status = fs.status(path)
        if status is None:
            raise FileNotFoundError(path)
        key = _sign(status)
        known = self._read.get(item)
        if known is None or known[0] != key:
            try:
                progress = self._parse(item, path)[0]
                sidecar.restore(progress, self._beside(item))
                known = (key, progress)
            except BeingWritten:
                if known is None:
                    raise
                return _readable(known[1])  # what it was before is still the best that anybody knows
            except Invalid as error:
                known = (key, error)
            self._read[item] = known
        return _readable(known[1])

    def _parse(self, item: str, path: str) -> tuple[Progress, bytes, fs.Stat]:
        """A file as it is now, read while nobody had it open for writing."""
        found: tuple[Progress, bytes, fs.Stat] | UnreadableItem
        try:
            found = parse(item, path)
        except UnreadableItem as error:
            found = error
        if self.folder.writing.has_writer(path):
            told = f"{names.PROGRESS} of {item} is still being written by another program"
            raise BeingWritten(told, hint="Repeat it in a moment.", path=path)
        if isinstance(found, UnreadableItem):
            raise found
        return found

    # -- changing ----------------------------------------------------------------------------------

    def edit(self, item: str, worker: str, change: Callable[[Progress], T]) -> T:
        """What `change` returns, once what it did is in the file: all of it, one version more, or nothing.

        `change` may be called again on what a person saved meanwhile, and may raise to change nothing.
        """
        path = self.folder.at(self.path(item, names.PROGRESS))
        with BoundedLock(self.folder.at(f"{GUARDS}/{item}")):
            for _ in range(TRIES):
                try:
                    progress, data, status = self._parse(item, path)
                except BeingWritten:
                    time.sleep(PAUSE)
                    continue
                sidecar.restore(progress, self._beside(item))
                value = change(progress)
                progress.touch(worker, self.folder.clock.now())
                text = yamltext.changed(progress.document, data)
                if self._replace(progress, path, text, status):
                    return value
        raise Unavailable(
            f"{names.PROGRESS} of {item} is being saved again and again by another program; nothing was changed",
            id=item,
        )

    def _replace(self, progress: Progress, path: str, text: bytes, before: fs.Stat) -> bool:
        item = progress.item
        if len(text) > LARGEST:
            raise TooLarge(f"{names.PROGRESS} of {item} would be {len(text)} bytes; {LARGEST} is the most", id=item)
        scratch = self.folder.tmp(item, fs.fresh_name(), "progress")
        self.folder.create_like(before, scratch, text, sync=self.folder.durable)
        self._keep_beside(progress)
        written = self.folder.writing.has_writer(path)
        now = fs.status(path)  # the last look: what is saved after it is written over
        if written or now is None or _sign(now) != _sign(before):
            fs.remove(scratch)
            return False
        fs.move(scratch, path)
        if self.folder.durable:
            fs.sync_dir(os.path.dirname(path))
        return True

    def _beside(self, item: str) -> bytes:
        """What is kept beside a work item's file; nothing if it cannot be read."""
        try:
            return fs.read(self.folder.of(BESIDE, item), LARGEST)[0]
        except OSError:
            return b""

    def _keep_beside(self, progress: Progress) -> None:
        path, kept = self.folder.of(BESIDE, progress.item), sidecar.spell(progress)
        if kept:
            fs.replace(path, kept, self.folder.tmp(progress.item, fs.fresh_name(), "beside"), sync=self.folder.durable)
        else:
            fs.remove(path)

    def create(self, item: str, name: str, document: dict[str, object]) -> bool:
        """A new work item with all its files, whole or not at all; False if there is one of this id."""
        folder = self.folder
        with BoundedLock(folder.at(f"{GUARDS}/work-items")):
            there = self._folder_of(item)
            if there is None or not fs.exists(folder.at(f"{there}/{names.PROGRESS}")):
                self._keep_beside(Progress(item, document))
            if there is not None:  # somebody may have made the folder and no more
                return self._begin(item, f"{there}/{names.PROGRESS}", document)
            scratch = folder.tmp(item, fs.fresh_name(), "item")
            for inside in (names.LOCKS, names.DELIVERABLES):
                fs.make_dir(f"{scratch}/{inside}")
            text = yamltext.dump(document)
            fs.create(f"{scratch}/{names.PROGRESS}", text, sync=folder.durable)
            fs.create(f"{scratch}/{names.CHANGELOG}", b"", sync=False)
            fs.create(f"{scratch}/{names.NOTES}", b"", sync=False)
            if folder.durable:
                fs.sync_dir(scratch)
            try:
                fs.move_new(scratch, folder.at(name))
            except FileExistsError:
                raise Conflict(f"something called {name} is in the way", id=item) from None
            folder.sync("")
        return True

    def _begin(self, item: str, path: str, document: dict[str, object]) -> bool:
        scratch = self.folder.tmp(item, fs.fresh_name(), "progress")
        fs.create(scratch, yamltext.dump(document), sync=self.folder.durable)
        made = fs.link(scratch, self.folder.at(path))
        fs.remove(scratch)
        if made:
            self.folder.sync(os.path.dirname(path))
        return made

    # -- telling -----------------------------------------------------------------------------------

    def is_called_off(self, activity_id: str) -> bool:
        """Whether a person has cancelled it while somebody has it."""
        return fs.exists(self.folder.of(STOPS, activity_id))

    def plan_mark(self, activity_id: str) -> str:
        """Where its holder is asked to stop for the sake of a new plan."""
        return self.folder.of(STOPS, activity_id, "~plan")

    def changelogs(self) -> Iterator[str]:
        """Every changelog there may be: the queue's own, then those of the work items."""
        yield CHANGELOG
        for name in self.folders().values():
            yield f"{name}/{names.CHANGELOG}"

    def tell(self, action: str, task_id: str, worker: str = "keeper", details: str = "", kind: str = "") -> None:
        """One line in the work item's changelog, which knows people and agents: the queue itself is one of these."""
        spot = names.place(task_id)
        activity = spot.activity if spot else ""
        if spot is not None and not activity:  # a line has no field for a whole work item
            details = f"{spot.item}: {details}" if details else spot.item
        event = Event(
            timestamp=iso(self.folder.clock.now()),
            worker=worker,
            worker_type=kind or worker_type(worker).replace("system", "agent"),
            action=action,
            activity_id=activity,
            task_id=spot.step if spot else "",
            details=details,
        )
        self.record([event], spot.item if spot else "")

    def record(self, events: list[Event], item: str = "") -> None:
        """These lines are in the changelog of what they are about."""
        name = self._folder_of(item) if item else None
        changelog.append(self.folder.at(f"{name}/{names.CHANGELOG}" if name else CHANGELOG), events)


def _readable(found: Progress | Invalid) -> Progress:
    if isinstance(found, Invalid):
        raise found
    return found


def _sign(status: fs.Stat) -> tuple[int, ...]:
    """What changes when anybody saves the file."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def parse(item: str, path: str) -> tuple[Progress, bytes, fs.Stat]:
    """A file as it is now: what it says, its bytes, its status. Invalid, FileNotFoundError."""
    try:
        data, status = fs.read(path, LARGEST)
    except (fs.NotAFile, fs.TooBig) as error:
        raise UnreadableItem(f"{names.PROGRESS} of {item}: {error.strerror}", path=path) from None
    try:
        return Progress(item, yamltext.load(data)), data, status
    except Invalid as error:
        raise UnreadableItem(
            f"{names.PROGRESS} of {item}: {error.message}",
            hint="Mend the file by hand: no command repairs it.",
            path=path,
        ) from None
