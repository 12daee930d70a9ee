"""The calls of the simulated disk, carried out by the operating system."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from dataclasses import dataclass

from disk import failure

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, NOREPLACE, EXCHANGE = -100, 1, 2


@dataclass(eq=False)
class Opened:
    """An open file."""

    number: int
    writable: bool


class RealNotifications:
    """An inotify instance."""

    def __init__(self) -> None:
        self.number = LIBC.inotify_init1(os.O_NONBLOCK)
        self.queue: list[tuple[int, int, str]] = []

    def drain(self) -> list[tuple[int, int, str]]:
        found = []
        while True:
            try:
                data = os.read(self.number, 65536)
            except BlockingIOError:
                return found
            while data:
                number, mask, _, length = struct.unpack_from("iIII", data)
                found.append((number, mask, data[16 : 16 + length].rstrip(b"\0").decode()))
                data = data[16 + length :]


def set_time(file: str | int, mtime: int | None) -> None:
    """Set both times of a file, or the present one."""
    if mtime is None:
        os.utime(file)
    else:
        os.utime(file, ns=(mtime, mtime))


class RealDisk:
    """A directory of a real filesystem, with the methods of `Disk`."""

    def __init__(self, root: str) -> None:
        self.root = root

    def _rename(self, old: str, new: str, flags: int) -> None:
        one, two = os.fsencode(self.root + old), os.fsencode(self.root + new)
        if LIBC.renameat2(AT_FDCWD, one, AT_FDCWD, two, flags):
            raise failure(ctypes.get_errno(), old)

    def link(self, old: str, new: str) -> None:
        os.link(self.root + old, self.root + new)

    def rename(self, old: str, new: str, *, replace: bool = True) -> None:
        self._rename(old, new, 0 if replace else NOREPLACE)

    def exchange(self, one: str, two: str) -> None:
        self._rename(one, two, EXCHANGE)

    def unlink(self, path: str) -> None:
        os.unlink(self.root + path)

    def mkdir(self, path: str) -> None:
        os.mkdir(self.root + path)

    def rmdir(self, path: str) -> None:
        os.rmdir(self.root + path)

    def listing(self, path: str) -> list[str]:
        return os.listdir(self.root + path)

    def utime(self, path: str, mtime: int | None) -> None:
        set_time(self.root + path, mtime)

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self.root + path, mode)

    def open(self, path: str, flags: int) -> Opened:
        return Opened(os.open(self.root + path, flags), flags & os.O_ACCMODE != os.O_RDONLY)

    def close(self, opened: Opened) -> None:
        os.close(opened.number)

    def read(self, opened: Opened, size: int) -> bytes:
        return os.read(opened.number, size)

    def write(self, opened: Opened, data: bytes) -> int:
        return os.write(opened.number, data)

    def truncate(self, opened: Opened, size: int) -> None:
        os.ftruncate(opened.number, size)

    def futime(self, opened: Opened, mtime: int | None) -> None:
        set_time(opened.number, mtime)

    def lock(self, opened: Opened, *, shared: bool = False) -> bool:
        try:
            fcntl.flock(opened.number, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, opened: Opened) -> None:
        fcntl.flock(opened.number, fcntl.LOCK_UN)

    def watch(self, instance: RealNotifications, path: str, mask: int) -> int:
        number: int = LIBC.inotify_add_watch(instance.number, os.fsencode(self.root + path), mask)
        if number < 0:
            raise failure(ctypes.get_errno(), path)
        return number

    def facts(self, path: str) -> tuple[object, ...]:
        """What stat shows: a name for the inode, links, size, times."""
        found = os.lstat(self.root + path)
        return found.st_ino, found.st_nlink, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def open_facts(self, opened: Opened) -> tuple[int, int]:
        found = os.fstat(opened.number)
        return found.st_nlink, found.st_size
