"""Taking and keeping a claim on the disk: who has a task is decided here, by one rename."""

from __future__ import annotations

from taskpit import fs, workers
from taskpit.errors import Conflict, Invalid, Unavailable
from taskpit.layouts import Spot
from taskpit.store.folder import IDS, STOPS, Folder, Unreadable
from taskpit.store.registry import is_over, register
from taskpit.store.stamps import freshen, stamp
from taskpit.task import Claim, Said, Task, Want

__all__ = ["holds", "renew", "take"]

#: A stamp that differs by so many seconds is not ours.
SHIFTED = 2.0
#: Two clock offsets closer than this, in seconds, are the same: nobody has set the clock in between.
JUMP = 1.0


def take(
    folder: Folder, ready: Spot, want: Want, known: Task | None = None, sign: tuple[int, int] | None = None
) -> Claim | None:
    """Row *claim*: try to take one ready file; None if somebody else was faster or it may not run.

    What was read of it before is `known`: if its bytes are the same, so is the task. It looked like `sign` then (inode
    and mtime): one that was written to since may not be whole.
    """
    fence = _fence(want)
    if known is not None and sign is not None and known.was_read and not folder.layout.guarded:
        entry = fs.status(folder.of(IDS, ready.id))
        if entry is not None and entry.st_ino == sign[0] and not is_over(folder, ready):
            return _take_known(folder, ready, fence, want, known, sign[0])
    return _take_judged(folder, ready, fence, want, known, sign)


def _fence(want: Want) -> str:
    """By which this one claim is known."""
    return want.worker if want.verbatim else f"{want.worker}{workers.MARK}{want.call or fs.fresh_name()}"


def _take_known(folder: Folder, ready: Spot, fence: str, want: Want, known: Task, inode: int) -> Claim | None:
    """The plain way: the registered file, read a moment ago and not finished. After the rename one look says whether
    it was that very file, and whose stamp it has.
    """
    target, now = folder.at(folder.layout.claimed_path(ready, fence)), folder.clock.now()
    if not _rename(folder, ready, target, now + want.lease, want):
        return None
    status = fs.status(target)
    if status is None:
        return None
    if status.st_ino != inode or (status.st_size != len(known.source) and folder.unfinished(target, status)):
        _give_back(folder, ready, target)  # another file, or one that is just being written
        return None
    since = _stamp_again(folder, target, status, now, want, fence)
    task: Task | None = known
    if status.st_size != len(known.source):
        task = _load(folder, ready, target, known)
    return None if task is None else _claim(task, fence, want, since)


def _take_judged(
    folder: Folder, ready: Spot, fence: str, want: Want, known: Task | None, sign: tuple[int, int] | None
) -> Claim | None:
    """What is not known to be the task is judged before anything touches it."""
    try:
        here = register(folder, ready)
    except Conflict as error:
        from taskpit.store.foreign_files import put_away

        if put_away(folder, ready, error) != ready.path:
            return None
        here = fs.status(folder.at(ready.path))
    if here is None:
        return None
    changed = sign is not None and sign != (here.st_ino, here.st_mtime_ns)
    if (changed or not here.st_size) and folder.unfinished(folder.at(ready.path), here):
        return None
    try:
        with folder.guard(ready.id):
            return _take(folder, ready, fence, want, known)
    except Unavailable:
        return None  # somebody was stopped while deciding about it; there are others


def _take(folder: Folder, ready: Spot, fence: str, want: Want, known: Task | None) -> Claim | None:
    target, now = folder.at(folder.layout.claimed_path(ready, fence)), folder.clock.now()
    if not _rename(folder, ready, target, now + want.lease, want):
        return None
    status = fs.status(target)
    if status is None:
        return None
    since = _stamp_again(folder, target, status, now, want, fence)
    task = _load(folder, ready, target, known)
    if task is None:
        return None
    if folder.layout.guarded:
        _write_holder(folder, task, fence, (target, status), since + want.lease)
    return _claim(task, fence, want, since)


def _rename(folder: Folder, ready: Spot, target: str, until: float, want: Want) -> bool:
    """The lease is stamped, then one rename decides. A rename leaves the times alone, so whoever judges by the mtime
    never sees a claim that has none.
    """
    source = f"{folder.root}/{ready.path}"
    try:
        if not fs.set_times(source, until):
            return False
    except PermissionError:  # another user's: it is stamped where it may be, once it is ours
        if not freshen(source):
            return False
    if want.verbatim and _is_held(target):
        return False
    return fs.move(source, target) or (folder.make_place(target) and fs.move(source, target))


def _is_held(target: str) -> bool:
    """Whether there is a claim of this name already, which must not be replaced: processes that share a name are one
    worker by declaration, so a look will do.
    """
    return fs.exists(target)


def _stamp_again(folder: Folder, target: str, status: fs.Stat, began: float, want: Want, fence: str) -> float:
    """Since when it is ours. Another who tried for it may have stamped it last, with a lease of its own or none at all;
    and one that stood still before its rename has not much of its lease left.
    """
    since = folder.clock.now()
    if abs(status.st_mtime - began - want.lease) >= SHIFTED or since - began > want.lease / 10:
        stamp(target, since + want.lease, _record(folder, fence))
    _mind_the_clock(folder, fence)
    return since


def _load(folder: Folder, ready: Spot, target: str, known: Task | None) -> Task | None:
    """The task that was claimed; None if it is none for us."""
    try:
        return folder.load(ready, target, known)
    except FileNotFoundError:
        return None
    except Unreadable:
        _give_back(folder, ready, target)
    except Invalid as error:
        folder.set_aside(target[len(folder.root) + 1 :], error.message)
    except OSError:  # too many open files, a disk that fails: nobody would know of the claim until its lease ends
        _give_back(folder, ready, target)
        raise
    return None


def _claim(task: Task, fence: str, want: Want, since: float) -> Claim:
    return Claim(task=task, worker=want.worker, fence=fence, lease=want.lease, attempt=task.attempts + 1, since=since)


def _give_back(folder: Folder, ready: Spot, target: str) -> None:
    """What we may not read is nothing for us: where it was it is somebody's to look at."""
    try:
        fs.move_new(target, folder.at(ready.path))
    except FileExistsError:
        return  # another file has come there: the lease of this one will end


def _write_holder(folder: Folder, task: Task, fence: str, taken: tuple[str, fs.Stat], until: float) -> None:
    """A fixed name says nothing of its holder: write it inside, unless the file was taken from us already."""
    target, before = taken
    scratch = folder.tmp(task.id, fs.fresh_name(), "claim")
    # It takes the task's place, so it must not be torn where the task was whole.
    folder.write(scratch, folder.layout.claimed_bytes(task, fence, folder.clock.now()), sync=folder.durable)
    fs.set_times(scratch, until)
    after = fs.status(target)
    if after is not None and before.st_ino == after.st_ino:
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
        record = workers.load(_record(folder, fence))
        folder.even = record.offset if record else offset
    if abs(folder.even - offset) >= JUMP:
        from taskpit.store.leases import note_jump

        if note_jump(folder):
            folder.even = offset
