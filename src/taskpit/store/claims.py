"""Taking and keeping a claim on the disk: who has a task is decided here, by one rename."""

from __future__ import annotations

from taskpit import fs, owner
from taskpit.errors import Conflict, Invalid, Unavailable
from taskpit.layouts import Spot
from taskpit.store.folder import STOPS, Folder, Unreadable
from taskpit.store.registry import register
from taskpit.store.signs import freshen, stamp
from taskpit.task import Claim, Said, Task, Want

__all__ = ["holds", "renew", "take"]

#: Two clock offsets closer than this, in seconds, are the same: nobody has set the clock in between.
JUMP = 1.0


def take(
    folder: Folder, ready: Spot, want: Want, known: Task | None = None, sign: tuple[int, int] | None = None
) -> Claim | None:
    """Row *claim*: try to take one ready file; None if somebody else was faster or it may not run.

    What was read of it before is `known`: if its bytes are the same, so is the task. It looked like `sign` then (inode
    and mtime): one that was written to since may not be whole.
    """
    try:
        here = register(folder, ready)
    except Conflict as error:
        from taskpit.store.strays import put_away

        if put_away(folder, ready, error) != ready.path:
            return None
        here = fs.status(folder.at(ready.path))
    if here is None:
        return None
    changed = sign is not None and sign != (here.st_ino, here.st_mtime_ns)
    if (changed or not here.st_size) and folder.unfinished(folder.at(ready.path), here):
        return None
    fence = want.worker if want.verbatim else f"{want.worker}{owner.MARK}{fs.fresh_name()}"
    try:
        with folder.guard(ready.id):
            return _take(folder, ready, fence, want, known)
    except Unavailable:
        return None  # somebody was stopped while deciding about it; there are others


def _take(folder: Folder, ready: Spot, fence: str, want: Want, known: Task | None) -> Claim | None:
    path = folder.layout.claimed_path(ready, fence)
    source, target = f"{folder.root}/{ready.path}", f"{folder.root}/{path}"
    # A foreign cleaner judges by mtime, which a rename leaves alone: make it fresh before, not after.
    if not freshen(source) or not fs.move(source, target):
        return None
    now = folder.clock.now()
    if not stamp(target, now + want.lease, _record(folder, fence)):
        return None
    _mind_the_clock(folder, fence)
    try:
        task = folder.load(ready, target, known)
    except FileNotFoundError:
        return None
    except Unreadable:
        _give_back(folder, ready, target)
        return None
    except Invalid as error:
        folder.set_aside(path, error.message)
        return None
    if folder.layout.guarded:
        _write_holder(folder, task, fence, target, now + want.lease)
    return Claim(task=task, worker=want.worker, fence=fence, lease=want.lease, attempt=task.attempts + 1, since=now)


def _give_back(folder: Folder, ready: Spot, target: str) -> None:
    """What we may not read is nothing for us: where it was it is somebody's to look at."""
    try:
        fs.move_new(target, folder.at(ready.path))
    except FileExistsError:
        return  # another file has come there: the lease of this one will end


def _write_holder(folder: Folder, task: Task, fence: str, target: str, until: float) -> None:
    """A fixed name says nothing of its holder: write it inside, unless the file was taken from us already."""
    before = fs.status(target)
    scratch = folder.tmp(task.id, fs.fresh_name(), "claim")
    # It takes the task's place, so it must not be torn where the task was whole.
    fs.create(scratch, folder.layout.claimed_bytes(task, fence, folder.clock.now()), sync=folder.durable)
    fs.set_times(scratch, until)
    after = fs.status(target)
    if before is not None and after is not None and before.st_ino == after.st_ino:
        fs.move(scratch, target)
    else:
        fs.remove(scratch)


def holds(folder: Folder, claim: Claim, path: str) -> bool:
    """Whether a file with a fixed name is this claim's."""
    if not folder.layout.guarded:
        return True
    try:
        data, _ = fs.read(folder.at(path), folder.config.largest_task)
    except (FileNotFoundError, fs.NotAFile, fs.TooBig):
        return False  # what merely can't be read just now is for whoever asks: nobody has lost anything yet
    return folder.layout.holder(data) == claim.fence


def renew(folder: Folder, claim: Claim, lease: float) -> Said:
    """Row *renew*: stamp by path; a name that is gone is a claim that is over."""
    path = folder.layout.claimed_path(claim.task, claim.fence)
    with folder.guard(claim.task.id):
        until = folder.clock.now() + lease
        if not holds(folder, claim, path) or not stamp(folder.at(path), until, _record(folder, claim.fence)):
            return Said.LOST
    _mind_the_clock(folder, claim.fence)
    return Said.CANCEL if fs.exists(folder.of(STOPS, claim.task.id)) else Said.OK


def _record(folder: Folder, fence: str) -> str:
    """Where its worker's record lies."""
    return folder.worker_path(fence)


def _mind_the_clock(folder: Folder, fence: str) -> None:
    """A stamp made by a clock that was set since the worker's record is told: set back, it would seem old."""
    offset = folder.clock.offset()
    if folder.even is None:
        record = owner.load(_record(folder, fence))
        folder.even = record.offset if record else offset
    if abs(folder.even - offset) >= JUMP:
        from taskpit.store.judge import note_jump

        if note_jump(folder):
            folder.even = offset
