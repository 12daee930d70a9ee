"""Calls of the kernel that Python's `os` has no word for. Part of the fs room: only `fs` changes anything by them.

Where the kernel, the C library or the filesystem does not have one, its function says so, and the caller does
without.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

#: renameat2: paths are from the working directory, and a taken name is refused.
AT_FDCWD, RENAME_NOREPLACE = -100, 1
#: How names are spelt for the kernel.
FS_CODEC = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
#: Filesystems whose syncfs is known to settle bytes and names alike: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs.
TRUSTED = frozenset((0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994))
#: Filesystems of this machine alone, whose kernel knows who has a file open: those, OverlayFS, ZFS, bcachefs.
LOCAL = TRUSTED | {0x794C7630, 0x2FC12FC1, 0xCA451A4E}
#: Of these, names reach the disk in the order in which they were made, an fsync brings all before it: ext4, XFS.
EXT4, XFS = 0xEF53, 0x58465342
#: What a lease's end is told by: a signal that nobody listens to and that ends nothing.
SIGURG = 23
#: Since this kernel, syncfs tells when something could not be written.
TELLS_ERRORS = (5, 8)


@cache
def call(name: str) -> Callable[..., int] | None:
    """Return a function of the C library that takes numbers and texts and returns a number; None if there is none."""
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)  # type: ignore[no-any-return]
    except (AttributeError, OSError):
        return None


def rename_new(source: str, target: str, here: int | None = None, there: int | None = None) -> int:
    """Rename without replacing, from one open directory to another: 0, or the error's number; ENOSYS if it can't be."""
    rename = call("renameat2")
    if rename is None:
        return errno.ENOSYS
    old, new = AT_FDCWD if here is None else here, AT_FDCWD if there is None else there
    if rename(old, source.encode(*FS_CODEC), new, target.encode(*FS_CODEC), RENAME_NOREPLACE) == 0:
        return 0
    return ctypes.get_errno()


def is_local(path: str) -> bool:
    """Whether all who write to this directory's filesystem are programs of this machine, as far as is known."""
    return sys.platform.startswith("linux") and _kind(path) in LOCAL


def keeps_order(path: str) -> bool:
    """Whether after a power loss no later name is there without every earlier one: a journal, and known to be so.

    Not Btrfs, which settles the names of each file and directory by itself, and not ext4 without a journal.
    """
    if not sys.platform.startswith("linux"):
        return False
    kind = _kind(path)
    if kind != EXT4:
        return kind == XFS
    device = os.stat(path).st_dev
    name = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").rpartition("/")[2]
    return os.path.exists(f"/sys/fs/ext4/{name}/journal_task")


def has_writer(fd: int) -> bool | None:
    """Whether a program has this file open for writing; None if the kernel does not tell.

    It gives no read lease on such a file. One that it gives is given back at once; whoever opens the file for writing
    meanwhile waits until then.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None  # another user's file, or a filesystem without leases
    return False


def syncs_filesystems(path: str) -> bool:
    """Whether `sync_filesystem` can be relied on here."""
    if not sys.platform.startswith("linux") or call("syncfs") is None:
        return False
    release = os.uname().release.split("-")[0].split(".")[:2]
    if not all(map(str.isdecimal, release)) or tuple(map(int, release)) < TELLS_ERRORS:
        return False
    return _kind(path) in TRUSTED


def _kind(path: str) -> int:
    """The number by which the filesystem of this path is known; 0 if it cannot be told."""
    ask = call("statfs")
    if ask is None:
        return 0
    answer = (ctypes.c_long * 64)()
    return int(answer[0]) & 0xFFFFFFFF if ask(os.fsencode(path), answer) == 0 else 0


def sync_filesystem(fd: int) -> None:
    """All that was written to the filesystem of this open file is on the disk, bytes and names; OSError if not."""
    sync: Any = call("syncfs")
    if sync(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
