"""The queue that is a folder: the Store port by the protocol in `pending`. Verbs are in modules of their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.errors import Invalid, TaskpitError
from taskpit.layouts import Layout
from taskpit.layouts.layout import check_word
from taskpit.model import Card, Claim, End, Event, Lock, Page, Said, State, Task, Want
from taskpit.store.disk_errors import storage_error
from taskpit.store.plain import attachments, ids, locks, paths, put, retention, sweep, upkeep_files
from taskpit.store.plain.claim import Claimer
from taskpit.store.plain.files import Files
from taskpit.store.plain.finish import Finisher
from taskpit.store.plain.folder import Unreadable
from taskpit.store.plain.leases import Judge, Member, introduce, join
from taskpit.store.plain.manifest import Manifest
from taskpit.store.plain.paths import stub
from taskpit.store.plain.pending import open_folder
from taskpit.store.plain.read import Reader, state_of
from taskpit.store.plain.ready_cache import ReadyCache
from taskpit.store.plain.watch import Waiter
from taskpit.store.port import Artifact, Info, Lapse, Mend
from taskpit.store.run_files import check_held, none_of
from taskpit.workers import MARK, base

P = ParamSpec("P")
R = TypeVar("R")

#: A process that puts one task after the other reserves up to so many ids at a time.
LARGEST_BLOCK = 64
#: So many seconds reserved ids are believed to be unused by other programs.
FRESH = 1.0


def verb(method: Callable[P, R]) -> Callable[P, R]:
    """Turn errors of the disk into a Storage error that says what to do."""

    @wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except OSError as error:
            raise storage_error(error) from error.with_traceback(None)

    return wrapped


class FolderStore:
    """A Store over one folder. Threads may share it; only one of them may `wait`."""

    def __init__(
        self,
        root: str,
        layout: Layout,
        config: Config,
        clock: Clock | None = None,
        files: Files | None = None,
        *,
        young: float = paths.YOUNG,
    ) -> None:
        self.config = config
        self.clock = clock or Clock()
        self.folder = open_folder(files or Files(root), layout, config, self.clock, young)
        self._cache = ReadyCache(self.folder)
        self._claimer = Claimer(self.folder, self._cache)
        self._finisher = Finisher(self.folder)
        self._judge = Judge(self.folder)
        self._reader = Reader(self.folder, ReadyCache(self.folder), self._judge)
        self._manifest = Manifest(self.folder) if layout.manifest else None
        self._waiter = Waiter(self.folder, self._cache)
        #: One thread at a time looks at what is ready: looking also learns.
        self._claiming, self._reading = self.clock.mutex(), self.clock.mutex()
        self._introduced: set[tuple[str, float]] = set()
        self._members: set[str] = set()
        #: Ids that are reserved for this process, and those that it gave out last.
        self._ids: list[str] = []
        self._given: frozenset[str] = frozenset()
        #: When the reserved ones were last known to be unused.
        self._ids_at = 0.0
        #: Tasks that were vetted and not put yet, by identity, with their names and bytes.
        self._spelt: dict[int, tuple[Task, Task, bytes]] = {}
        self._block = 1

    # -- tasks -------------------------------------------------------------------------------------------------------

    @verb
    def allot(self, parents: Sequence[str]) -> list[str]:
        """Give out ids that no task has. A process that asks again and again reserves some."""
        if not parents:
            return []
        with self._reading:
            if self._ids and self.clock.monotonic() - self._ids_at > FRESH:
                self._ids, self._ids_at = ids.unused(self.folder, self._ids), self.clock.monotonic()
            if len(self._ids) < len(parents):
                self._ids_at = self._ids_at if self._ids else self.clock.monotonic()
                block = max(self._block, len(parents) - len(self._ids))
                with self.folder.lock.hold("allot"):
                    self._ids += ids.allot(self.folder, block)
                self._block = min(2 * self._block, LARGEST_BLOCK)
            given, self._ids = self._ids[: len(parents)], self._ids[len(parents) :]
            self._given = frozenset(given)
            return given

    @verb
    def vet(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks that cannot be carried here, and ids under whose name another program has begun a file."""
        for task in tasks:
            for need in task.needs:
                check_word(need, "need")
        spelt = put.vet(self.folder, tasks)
        for task, _ in spelt:
            if task.id not in self._given:
                put.make_known(self.folder, task)
        self._spelt = {id(task): (task, *one) for task, one in zip(tasks, spelt, strict=True)}

    @verb
    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Put tasks."""
        spelt, self._spelt = self._spelt, {}
        kept = (spelt.get(id(task)) for task in tasks)  # as they were vetted, if that was just now
        named = [one[1:] if one else put.vet(self.folder, [task])[0] for task, one in zip(tasks, kept, strict=True)]
        try:
            return put.put(self.folder, named)
        finally:
            self._changed()

    def _changed(self, *, now: bool = False) -> None:
        """Update the index that coordinators of this layout read."""
        if self._manifest is not None:
            self._manifest.refresh(now=now)

    @verb
    def claim(self, want: Want) -> list[Claim]:
        """Claim up to `want.count` tasks."""
        self._introduce(want.worker, want.lease)
        with self._claiming:
            claims = self._claimer.claim(want)
        if claims:
            self._changed()
        return claims

    @verb
    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """Stamp claimed files by path, without the lock; a name that is gone is a claim that is over."""
        said = [self._renew(claim, lease) for claim in held]
        if self._manifest is not None:
            self._manifest.catch_up()
        return said

    def _renew(self, claim: Claim, lease: float) -> Said:
        folder = self.folder
        path = folder.layout.claimed_path(claim.task, claim.fence)
        until = self.clock.now() + lease - folder.cleaned_after
        if folder.layout.guarded:
            stamped = self._renew_inside(path, claim.fence, until)
        else:
            stamped = folder.stamp(path, until, claim.fence)
        if not stamped:
            return Said.LOST
        stop = folder.files.stat(paths.open_path(claim.task.id, "~stop"))
        return Said.CANCEL if stop is not None else Said.OK

    def _renew_inside(self, path: str, fence: str, until: float) -> bool:
        """Mailbox: the holder is in the file, and the time is set on the file that was read."""
        try:
            with self.folder.files.open(path) as file:
                if self.folder.layout.holder(file.read(paths.LARGEST_RESULT)) != fence:
                    return False
                file.set_times(until)
        except FileNotFoundError:
            return False
        except PermissionError:
            return self.folder.stamp(path, until, fence)
        return True

    @verb
    def finish(self, ends: Sequence[End]) -> list[Said]:
        """End claims."""
        try:
            return self._finisher.finish(ends)
        finally:
            self._changed()

    @verb
    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Make failed tasks ready again."""
        said = [self._finisher.reopen(task) for task in tasks]
        self._changed()
        return said

    @verb
    def stop(self, ids: Sequence[str]) -> None:
        """Ask the holders of tasks to stop: a mark that renewing workers see."""
        for task_id in ids:
            path = paths.open_path(self.folder.layout.check_id(task_id), "~stop")
            if self.folder.files.stat(path) is None:
                self.folder.files.create(path, b"")

    @verb
    def wait(self, timeout: float) -> bool:
        """Sleep until something may have become ready, or for so many seconds."""
        self.folder.lock.check_process()
        if self._manifest is not None:
            self._manifest.catch_up()
        with self._claiming:
            watch, begins = self._cache.watch()
        return begins or self._waiter.wait(watch, timeout)

    # -- looking -----------------------------------------------------------------------------------------------------

    @verb
    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Return each task as it is."""
        with self._reading:
            return self._reader.read(ids)

    @verb
    def resolve(self, text: str) -> list[str]:
        """Find the ids that a text may mean."""
        return ids.resolve(self.folder, text)

    @verb
    def page(self, state: State | None = None, after: str = "", limit: int = 1000, *, tied: bool = False) -> Page:
        """Return a page of tasks, ready ones in the order in which they are taken."""
        del tied  # all of them
        with self._reading:
            return self._reader.page(state, after, limit)

    @verb
    def counts(self) -> dict[State, int]:
        """Count the tasks of each state."""
        return self._reader.counts()

    def state_of(self, task_id: str) -> State | None:
        """Tell where a task is."""
        return state_of(self.folder, task_id)

    @verb
    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """Read lines of the changelog after a cursor."""
        return self.folder.log.read(after, limit)

    @verb
    def latest(self, limit: int) -> tuple[list[Event], str]:
        """Read the last lines of the changelog."""
        return self.folder.log.latest(limit)

    # -- named locks -------------------------------------------------------------------------------------------------

    @verb
    def lock(self, name: str, worker: str, seconds: float, kind: str = "") -> Lock:
        """Take a name for so long. Lost says who has it."""
        return locks.lock(self.folder, name, worker, seconds, kind)

    @verb
    def relock(self, lock: Lock, seconds: float) -> Said:
        """Keep a name longer."""
        return locks.relock(self.folder, lock, seconds)

    @verb
    def unlock(self, lock: Lock) -> Said:
        """Free a name."""
        return locks.unlock(self.folder, lock)

    @verb
    def locks(self) -> list[Lock]:
        """List the names that are held."""
        return locks.every(self.folder)

    # -- upkeep ------------------------------------------------------------------------------------------------------

    @verb
    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """Return claims that may be given to another worker."""
        found = []
        for spot, reason, status in self._judge.lapsed():
            why = reason
            try:
                task = self.folder.load(spot)
            except (FileNotFoundError, Unreadable):
                continue
            except Invalid as error:
                kept = None if dry_run else sweep.spoilt(self.folder, spot, error.message)
                if kept is None and not dry_run:
                    continue
                task = kept or stub(spot)
                why = f"{reason}; its file would be set aside: {error.message}" if dry_run else reason
            self._finisher.judged[spot.id, spot.worker] = status.st_mtime
            claim = Claim(task=task, worker=base(spot.worker), fence=spot.worker, attempt=task.attempts + 1)
            stop = self.folder.files.stat(paths.open_path(task.id, "~stop")) is not None
            found.append(Lapse(claim=claim, reason=why, called_off=stop))
        return found

    @verb
    def mend(self, *, dry_run: bool = False) -> list[Mend]:
        """Repair what a crash or another program left undone."""
        found = sweep.sweep(self.folder, dry_run=dry_run)
        if not dry_run:
            self._changed(now=True)
        return found

    @verb
    def fix(self, *, dry_run: bool = False) -> list[Mend]:
        """Repair that, and what needs a person's word."""
        found = sweep.fix(self.folder, dry_run=dry_run)
        if not dry_run:
            self._changed(now=True)
        return found

    @verb
    def check(self) -> list[Mend]:
        """Return what is out of order; nothing is changed."""
        return sweep.check(self.folder)

    @verb
    def compost(self, *, dry_run: bool = False) -> list[Mend]:
        """Prune old logs and results as the settings say."""
        return retention.compost(self.folder, dry_run=dry_run)

    @verb
    def archive(self, older: float, *, dry_run: bool = False) -> list[Mend]:
        """Move old results to the folder of their month; everything still finds them."""
        return retention.archive(self.folder, older, dry_run=dry_run)

    @verb
    def record(self, events: Sequence[Event]) -> None:
        """Append lines that came from elsewhere."""
        self.folder.log.record(events)

    @verb
    def note(self, task_id: str, text: str, worker: str) -> None:
        """Append a note for people to a task."""
        attachments.note(self.folder, task_id, text, worker)

    @verb
    def pause(self, reason: str, seconds: float, worker: str) -> None:
        """Give nothing out for so long."""
        upkeep_files.pause(self.folder, reason, seconds, worker)

    @verb
    def resume(self, worker: str) -> bool:
        """Give tasks out again."""
        return upkeep_files.resume(self.folder, worker)

    def paused(self) -> str:
        """Say who paused the queue, why and until when."""
        return upkeep_files.paused(self.folder)

    # -- files of runs -----------------------------------------------------------------------------------------------

    @verb
    def keep_log(self, worker: str, data: bytes) -> str:
        """Keep a working log; where it is."""
        return attachments.keep_log(self.folder, worker, data)

    @verb
    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """Add a piece of what a run prints."""
        return attachments.add_log(self.folder, self._held(claim), start, data)

    @verb
    def end_log(self, claim: Claim) -> str:
        """Make the log that was added to a working log like any other."""
        return attachments.end_log(self.folder, self._held(claim))

    @verb
    def read_log(self, task_id: str, start: int, size: int) -> tuple[bytes, int]:
        """Read what the task's run prints."""
        card = self.read([task_id])[0]
        if card is None:
            raise none_of(task_id)
        return attachments.read_log(self.folder, card, start, size)

    @verb
    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """Keep bytes with the task under this name."""
        attachments.keep_artifact(self.folder, self._held(claim).task.id, name, data, sha256)

    @verb
    def artifacts(self, task_id: str) -> list[Artifact]:
        """List the files that are kept with a task."""
        return attachments.artifacts(self.folder, self.folder.layout.check_id(task_id))

    @verb
    def read_artifact(self, task_id: str, name: str) -> bytes:
        """Read one of them."""
        return attachments.read_artifact(self.folder, self.folder.layout.check_id(task_id), name)

    def _held(self, claim: Claim) -> Card:
        return check_held(claim, self.read([claim.task.id])[0])

    # -- workers and the store itself --------------------------------------------------------------------------------

    def _introduce(self, worker: str, lease: float) -> None:
        """Leave a record before the first claim: by it our claims are distinguished from foreign ones."""
        key = (worker, lease)
        if key not in self._introduced and worker not in self._members:
            introduce(self.folder, worker, lease)
            self._introduced.add(key)

    @verb
    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> Member:
        """Begin to work under a name; what its last owner had claimed lapses."""
        member = join(self.folder, worker, lease, patience, self._members)
        for spot in self.folder.claims():
            if MARK in spot.worker and base(spot.worker) == worker:
                self._judge.orphans.add(spot.worker)
        return member

    def recover(self) -> None:
        """Complete what a process left that died in the middle; where that cannot be done a sweep says so."""
        with suppress(OSError, TaskpitError):
            if self.folder.files.names(paths.PENDING):
                with self.folder.lock.hold("open"):
                    self.folder.pending.recover()

    def info(self) -> Info:
        """Say what this store is and what it promises."""
        folder = self.folder
        local = folder.files.disk().local
        warnings = () if local else ("This is not a local filesystem; `pit serve` is safer for a second machine.",)
        return Info(
            kind="files",
            layout=folder.layout.name,
            where=folder.files.root,
            durability=self.config.durability,
            largest_task=self.config.largest_task,
            wake_bound=1.0 if local else 5.0,
            papers=folder.files.root,
            warnings=warnings,
        )

    def close(self) -> None:
        """Close what is open, and give back ids that were not used."""
        if self._ids and self.folder.files.stat(paths.NEXT) is not None:
            with self.folder.lock.hold("allot"):
                ids.give_back(self.folder, self._ids)
            self._ids = []
        if self._manifest is not None:
            self._manifest.catch_up()
        self._cache.close()
        self._reader.close()
        self.folder.lock.close()
        self.folder.files.close()
