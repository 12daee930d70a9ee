"""Logs that many write to. Belongs to the fs room; knows lines, nothing about what they tell."""

from __future__ import annotations

import errno
import os
import time
from _thread import allocate_lock

from taskpit import fs

__all__ = ["Log"]


class Log:
    """A file that many add lines to, kept open: each time one write of an empty line and the lines.

    So nobody waits for anybody, and a line that a killed writer left torn spoils no other. Whether the file still has
    its name (it may be rotated, or saved by an editor) is looked at each second. A `derived` one is never made, only
    added to where it is, and whoever does asks first whether it is there.
    """

    def __init__(self, path: str, *, derived: bool = False) -> None:
        self.path = path
        self._flags = (fs.APPEND & ~os.O_CREAT if derived else fs.APPEND) | os.O_NONBLOCK
        self._every = 0.0 if derived else 1.0
        self._turn = allocate_lock()
        self._fd = -1
        self._looked = 0.0

    def is_there(self) -> bool:
        """Whether there is something to add to, now."""
        with self._turn:
            try:
                self._hold()
            except FileNotFoundError:
                return False
        return True

    def append(self, lines: bytes) -> None:
        """These are at the end; where the file was just taken away, or refused them, by a second try."""
        with self._turn:
            try:
                self._write(b"\n" + lines)
            except OSError:
                self._close()
                self._write(b"\n" + lines)

    def _write(self, data: bytes) -> None:
        if self._fd < 0 or self._every:  # else it was held just now
            self._hold()
        for _ in range(3):
            if fs.write_once(self._fd, data, self.path):
                return  # else the whole of it once more: the rest alone would be no line
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def _hold(self) -> None:
        """The file that has this name is open."""
        if self._fd >= 0 and not self._is_current():
            self._close()
        if self._fd < 0:
            (self._fd, _), self._looked = fs.open_regular(self.path, self._flags), time.monotonic()

    def _is_current(self) -> bool:
        now = time.monotonic()
        if now - self._looked < self._every:
            return True
        self._looked, mine = now, os.fstat(self._fd)
        if not self._every:
            return mine.st_nlink > 0
        there = fs.status(self.path)
        return there is not None and (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Let go of it; the next append opens it again."""
        with self._turn:
            self._close()

    def __del__(self) -> None:
        self._close()
