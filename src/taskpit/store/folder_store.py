"""What every queue in a folder does the same way, whatever stands for a task: pauses, wishes to stop, workers,
logs and named locks. Knows the folder; nothing of how a task is put, taken or ended.
"""

from __future__ import annotations

import json

from taskpit import fs, workers
from taskpit.clock import LAST, Clock, iso
from taskpit.decode import read_json
from taskpit.errors import Lost
from taskpit.model import Lock, Said
from taskpit.store import flock
from taskpit.store.disk_errors import verb
from taskpit.store.folder import HIDDEN, STOPS, Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.config import Config
    from taskpit.layouts import Layout
    from taskpit.model import Card, Claim
    from taskpit.store.port import Artifact, Info
    from taskpit.workers import LocalMember


class House:
    """The verbs of a Store that need only a folder."""

    def __init__(self, root: str, layout: Layout, config: Config, clock: Clock | None, grace: float) -> None:
        self.folder = Folder(root, layout, config, clock or Clock(), grace)
        self.config = config
        self.clock = self.folder.clock
        self._introduced: set[tuple[str, float]] = set()
        self._members: set[str] = set()

    if TYPE_CHECKING:

        def read(self, ids: Sequence[str]) -> list[Card | None]:
            """What every queue in a folder has."""
            raise NotImplementedError

    @verb
    def stop(self, ids: Sequence[str]) -> None:
        """Leave a mark that renewing workers see."""
        for task_id in ids:
            try:
                fs.create(self.folder.of(STOPS, self.folder.layout.check_id(task_id)), b"", sync=False)
            except FileExistsError:
                continue

    @verb
    def pause(self, reason: str, seconds: float, worker: str) -> None:
        """A file that every claim looks for."""
        pause(self.folder, reason, seconds, worker)

    @verb
    def resume(self, worker: str) -> bool:
        """The file is gone."""
        return resume(self.folder, worker)

    def paused(self) -> str:
        """What the file says."""
        return paused(self.folder)

    def _introduce(self, worker: str, lease: float) -> None:
        """Leave a record before the first claim: by it our claims are told from foreign ones."""
        key = (worker, lease)
        if key not in self._introduced and worker not in self._members:
            self.folder.layout.check_worker(worker)
            record = workers.describe(worker, lease, self.folder.clock, stays=False)
            workers.introduce(self.folder.worker_path(worker), record)
            self._introduced.add(key)

    @verb
    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> FileMember:
        """Hold the lock on the worker's record."""
        self.folder.layout.check_worker(worker)
        member = workers.LocalMember(self.folder.worker_path(worker))
        record = workers.describe(worker, lease, self.folder.clock, stays=True)
        if not member.join(record, self.folder.clock, patience=patience):
            raise Lost(f"a living process already works here as {worker}", worker=worker)
        self._members.add(worker)
        return FileMember(worker, member, self._members)

    @verb
    def keep_log(self, worker: str, data: bytes) -> str:
        """A file where the layout keeps logs, named by its worker and the first second from now on that is free."""
        second = self.folder.clock.now()
        self.folder.layout.check_worker(worker)
        self.folder.make_place(self.folder.at(self.folder.layout.log_path(worker, second)))
        while True:
            path = self.folder.layout.log_path(worker, second)
            try:
                fs.create(self.folder.at(path), data, sync=False)
            except FileExistsError:
                second += 1.0
            else:
                return path

    @verb
    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """As a run of this machine would write it."""
        from taskpit.store import run_files

        return run_files.add_log(self.folder, self._held(claim), start, data)

    @verb
    def end_log(self, claim: Claim) -> str:
        """Where the layout keeps logs."""
        from taskpit.store import run_files

        return run_files.end_log(self.folder, self._held(claim))

    @verb
    def read_log(self, task_id: str, start: int, size: int) -> tuple[bytes, int]:
        """Of the run that has it, or of the last one."""
        from taskpit.store import run_files

        card = self.read([task_id])[0]
        if card is None:
            raise run_files.none_of(task_id)
        return run_files.read_log(self.folder, card, start, size)

    @verb
    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """In a directory of the task's own."""
        from taskpit.store import run_files

        run_files.keep_artifact(self.folder, self._held(claim).task.id, name, data, sha256)

    @verb
    def artifacts(self, task_id: str) -> list[Artifact]:
        """What lies there."""
        from taskpit.store import run_files

        return run_files.artifacts(self.folder, self.folder.layout.check_id(task_id))

    @verb
    def read_artifact(self, task_id: str, name: str) -> bytes:
        """One of them, if its bytes are whole."""
        from taskpit.store import run_files

        return run_files.read_artifact(self.folder, self.folder.layout.check_id(task_id), name)

    def _held(self, claim: Claim) -> Card:
        from taskpit.store import run_files

        return run_files.check_held(claim, self.read([claim.task.id])[0])

    @verb
    def lock(self, name: str, worker: str, seconds: float, kind: str = "") -> Lock:
        """Row *lock takeover*."""
        from taskpit.store.locks import lock

        return lock(self.folder, name, worker, seconds, kind)

    @verb
    def relock(self, lock: Lock, seconds: float) -> Said:
        """In one's turn, if it is still ours."""
        from taskpit.store.locks import relock

        return relock(self.folder, lock, seconds)

    @verb
    def unlock(self, lock: Lock) -> Said:
        """In one's turn, if it is still ours."""
        from taskpit.store.locks import unlock

        return unlock(self.folder, lock)

    def info(self) -> Info:
        """What this store is."""
        from taskpit.store.port import Info

        return Info(
            kind="files",
            layout=self.folder.layout.name,
            where=self.folder.root,
            durability=self.folder.config.durability,
            largest_task=self.folder.config.largest_task,
            wake_bound=5.0,
            papers=self.folder.root,
        )


PAUSED = f"{HIDDEN}/paused"


def pause(folder: Folder, reason: str, seconds: float, worker: str) -> None:
    """Nobody is given anything for so long; 0 is until `resume`."""
    until = folder.clock.now() + seconds if seconds else 0.0
    data = json.dumps({"reason": reason, "until": until, "by": worker}, ensure_ascii=False).encode("utf-8", "replace")
    fs.replace(folder.at(PAUSED), data, folder.tmp("paused", fs.fresh_name(), "new"), sync=False)
    folder.tell("paused", worker=worker, details=reason)


def resume(folder: Folder, worker: str) -> bool:
    """Tasks are given out again; False if they were all the time."""
    if not fs.remove(folder.at(PAUSED)):
        return False
    folder.tell("resumed", worker=worker)
    return True


def paused(folder: Folder) -> str:
    """Who paused it, why and until when; empty if nobody did or the time has passed."""
    try:
        said = read_json(fs.read(folder.at(PAUSED), 65536)[0])
        until = float(said["until"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "paused, and the reason cannot be read"
    if until and until <= folder.clock.now():
        return ""
    told = f"paused by {said.get('by')}: {said.get('reason')}"
    return f"{told}, until {iso(until)}" if until and abs(until) <= LAST else told


class FileMember:
    """A worker that stays."""

    def __init__(self, worker: str, member: LocalMember, present: set[str]) -> None:
        self.worker = worker
        self._member = member
        self._present = present
        flock.own[id(self)] = self.leave  # what it forks is no sign that it lives

    def leave(self) -> None:
        """Let go of the record."""
        flock.own.pop(id(self), None)
        self._member.leave()
        self._present.discard(self.worker)
