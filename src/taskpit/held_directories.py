"""The directories of a queue, held open: whatever lies beneath a queue's root is reached from these, never by its path.

A path is walked component by component without following a link, once; then every call goes through the directory
that was opened. So a link, or another user's directory, in the place of one of the queue's leads nowhere: it is
refused. That a directory was replaced or taken away (git switches branches, somebody restores a copy) is noticed
when it is compared with its path: at most each second, and whenever a name could not be made in it.

Directories stay open between calls only while a store is open there (`Holding`): a disk whose queues are all closed
can be unmounted.

Paths outside every root are left to the kernel as they are. Belongs to the fs room; knows no tasks.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from itertools import count
from sys import is_finalizing
from time import monotonic, sleep

#: How old a comparison of a directory with its path may be, in seconds; and before one is made because a call failed.
COMPARED, COMPARED_AGAIN = 1.0, 0.05
#: How long another machine may take to give a file back that it had as its own, in seconds.
RECALL = 10.0
#: So many directories are held; of more, those that were opened first are let go.
MOST = 128
OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
DOTS = frozenset(("", ".", ".."))


class NotADirectory(OSError):
    """A link, a file or something else stands where a directory of the queue should be."""


class NotAFile(OSError):
    """A symlink, FIFO, device or directory stands where a file should."""


class Foreign(OSError):
    """A directory of the queue belongs to a user who has no business there."""


class Dir:
    """An open directory. Whoever has one in hand keeps it open: it is closed when nobody has."""

    __slots__ = ("fd", "path", "seen", "shut", "status")

    def __init__(self, fd: int | None, path: str, seen: float) -> None:
        self.fd = fd
        self.path = path
        #: When it was last known to be what its path leads to.
        self.seen = seen
        self.status: os.stat_result | None = None
        #: Whether nobody but us can make names in it; None: nobody has asked.
        self.shut: bool | None = None

    def __del__(self, close: Callable[[int], None] = os.close, ending: Callable[[], bool] = is_finalizing) -> None:
        if self.fd is not None and not ending():  # at the end of the process the kernel closes all of them at once
            close(self.fd)

    def looked_at(self) -> os.stat_result:
        """Its status, as it was when somebody first asked."""
        if self.status is None:
            self.status = os.fstat(self.fd or 0)
        return self.status


#: What is reached by its path, as the kernel finds it.
ANYWHERE = Dir(None, "", 0.0)

#: Each root, and the numbers of those who hold its directories open.
_roots: dict[str, set[int]] = {}
#: Every open directory by its path.
_held: dict[str, Dir] = {}
#: Another number once one of them was let go or opened.
turn = 0
_numbers = count()
_last: list[Dir] = []


class Holding:
    """While one of these is open, the directories beneath its root stay open from one call to the next.

    There is no lock to wait for, nor to inherit locked: whoever keeps a directory looks afterwards whether it is still
    held for anybody, and whoever closes the last holding drops what was kept before.
    """

    __slots__ = ("_number", "_root")

    def __init__(self, root: str) -> None:
        self._root = root
        self._number = next(_numbers)
        wall(root, keep=True)
        _roots[root].add(self._number)

    def close(self) -> None:
        """Let go. Calls after this still go through the wall, each from the root on."""
        holders = _roots[self._root]
        holders.discard(self._number)
        if not holders:
            _drop(self._root)

    def __del__(self, ending: Callable[[], bool] = is_finalizing) -> None:
        if not ending():
            self.close()


def wall(root: str, *, keep: bool = False) -> None:
    """Everything beneath this directory is reached from it from now on. What was held of it is opened anew, or kept."""
    if root not in _roots:
        _roots.setdefault(root, set())
    elif not keep:
        _drop(root)


def is_held(root: str) -> bool:
    """Whether somebody holds the directories beneath this one open."""
    return bool(_roots.get(root))


def leave_open() -> None:
    """This process ends now: what it holds open is left to the kernel, which closes all of it at once."""
    _last.extend(_held.values())


def _drop(root: str) -> None:
    for path in list(_held):
        if path == root or path.startswith(f"{root}/"):
            forget(path)


def at(path: str) -> tuple[Dir, str]:
    """The directory in which this path's last name stands, and that name."""
    folder, _, name = path.rpartition("/")
    there = _held.get(folder)
    if there is None or monotonic() - there.seen > COMPARED:
        there = _reach(folder)
        if there is ANYWHERE:
            return there, path
    if name in DOTS:
        raise OSError(errno.EINVAL, "this is no name in a directory of the queue", path)
    return there, name


def directory(path: str) -> Dir:
    """The directory of this path."""
    there = _held.get(path)
    return there if there is not None and monotonic() - there.seen <= COMPARED else _reach(path)


def forget(path: str) -> None:
    """This directory may be gone, or another one: it is opened anew."""
    global turn  # noqa: PLW0603
    _held.pop(path, None)
    turn += 1


def open_again(error: OSError, there: Dir, name: str, flags: int, mode: int = 0o666) -> int:
    """The open file of a name after a first try was refused: the directory may be another one by now, or the file lent.

    NotAFile if it is a link or nobody can read or write it.
    """
    try:
        if isinstance(error, BlockingIOError):
            return open_lent(path_in(there, name), name, there.fd, flags, mode)
        if isinstance(error, FileNotFoundError) and flags & os.O_CREAT and (again := renewed(there)):
            return os.open(name, flags, mode, dir_fd=again[0].fd)
        error.filename = path_in(there, name)
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise NotAFile(errno.ELOOP, "not a regular file", error.filename) from None
        raise error
    finally:
        del error  # which would hold on to this frame, and so to the directory


def open_lent(path: str, name: str, folder: int | None, flags: int, mode: int) -> int:
    """A machine that has the file over the network may keep it as its own for a while; it is asked to give it back by
    our asking, and we ask again until it has.
    """
    deadline = monotonic() + RECALL
    while True:
        try:
            return os.open(name, flags, mode, dir_fd=folder)
        except BlockingIOError as error:
            if monotonic() >= deadline:
                error.filename = path
                raise
        sleep(0.01)


def path_in(there: Dir, name: str) -> str:
    """The path of a name in this directory, for messages and hooks."""
    return name if there is ANYWHERE else f"{there.path}/{name}"


def renewed(*dirs: Dir) -> list[Dir]:
    """A name could not be made or found there: what the paths of these lead to now, if one of them leads elsewhere.

    FileNotFoundError if one is gone. Nothing if all are what they were.
    """
    now, again, found = monotonic(), list[Dir](), False
    for one in dirs:
        if one is ANYWHERE or now - one.seen < COMPARED_AGAIN:
            again.append(one)
            continue
        path = one.path
        while path in _held and path not in _roots:  # all on the way to it are compared anew
            _held[path].seen = -COMPARED
            path = path.rpartition("/")[0]
        if path in _held:
            _held[path].seen = -COMPARED
        again.append(_reach(one.path))
        found = found or again[-1] is not one
    return again if found else []


def is_elsewhere(path: str) -> bool:
    """Whether this name, which was not found, stood in a directory that is another one by now."""
    try:
        return bool(renewed(at(path)[0]))
    except FileNotFoundError:
        return False


def _reach(folder: str) -> Dir:
    """The directory of this path, opened or compared with it; ANYWHERE if it lies beneath no root."""
    root = folder = folder.rstrip("/")
    while root not in _roots:
        if "/" not in root:
            return ANYWHERE
        root = root.rpartition("/")[0]
    now = monotonic()
    there, path = _open_root(root, now), root
    for part in folder[len(root) + 1 :].split("/") if len(folder) > len(root) else ():
        if part in DOTS:
            raise OSError(errno.EINVAL, "this leads out of the queue", folder)
        path = f"{path}/{part}"
        there = _open(there, part, path, now, root)
    return there


def _open_root(root: str, now: float) -> Dir:
    """The root is what a person named: links on the way to it are theirs."""
    held = _held.get(root)
    if held is not None:
        if now - held.seen <= COMPARED:
            return held
        if _same(held, root, None):
            held.seen = now
            return held
    return _keep(Dir(os.open(root, OPEN_ROOT), root, now), root)


def _open(parent: Dir, part: str, path: str, now: float, root: str) -> Dir:
    held = _held.get(path)
    if held is not None:
        if now - held.seen <= COMPARED:
            return held
        if _same(held, part, parent.fd):
            held.seen = now
            return held
    try:
        found = Dir(os.open(part, OPEN, dir_fd=parent.fd), path, now)
    except OSError as error:
        error.filename = path
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
            told = "a link or a file stands where a directory of the queue should be"
            raise NotADirectory(errno.ENOTDIR, told, path) from None
        raise
    _refuse_foreign(parent, found)
    return _keep(found, root)


def _same(held: Dir, name: str, fd: int | None) -> bool:
    """Whether this name still leads to the directory that is held."""
    try:
        there = os.stat(name, dir_fd=fd, follow_symlinks=fd is None)
    except OSError:
        return False
    here = held.looked_at()
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _keep(found: Dir, root: str) -> Dir:
    global turn  # noqa: PLW0603
    _held[found.path] = found
    turn += 1
    if not _roots[root]:  # nobody has a store open there, or no longer
        forget(found.path)
    while len(_held) > MOST:
        forget(list(_held)[0])  # noqa: RUF015 - other threads may be at it
    return found


def _refuse_foreign(parent: Dir, found: Dir) -> None:
    """Where others can make names, a directory must be ours, the queue's owner's, or its group's if it has one.

    Where nobody but us can, nobody but us has made it: it is not even looked at.
    """
    above = parent.looked_at()
    if parent.shut is None:
        parent.shut = above.st_uid in (os.geteuid(), 0) and not above.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if parent.shut:
        return
    here = found.looked_at()
    if here.st_uid in (os.geteuid(), 0, above.st_uid):
        return
    shared = above.st_mode & stat.S_IWGRP and above.st_mode & stat.S_ISGID and here.st_gid == above.st_gid
    if not shared:
        told = f"this directory of the queue belongs to another user (uid {here.st_uid})"
        raise Foreign(errno.EPERM, told, found.path)
