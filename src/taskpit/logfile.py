"""Logs that many write to. Belongs to the fs room; knows lines, nothing about what they tell."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from time import monotonic

from taskpit import fs
from taskpit.nonces import own

#: A longer line is no line of ours.
LONGEST_LINE = 1 << 26
#: What stands before the lines of each write: it ends a line that a killed writer left torn.
BREAK = b"\n"
#: Whether the file still has its name is looked at this often, in seconds.
EVERY = 1.0


class Log:
    """A file that many add lines to, kept open: each time one write of an empty line and the lines.

    So nobody waits for anybody, and a line that a killed writer left torn spoils no other. Whether the file still has
    its name (it may be rotated, or saved by an editor) is looked at each second.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._turn, self._of = threading.Lock(), own.first
        self._fd = -1
        self._looked = -EVERY

    def append(self, lines: bytes) -> None:
        """These are at the end; where the file was just taken away, or refused them, by a second try."""
        data = BREAK + lines
        if self._of != own.first:
            self._part()
        with self._turn:
            try:
                if monotonic() - self._looked >= EVERY:
                    self._open()
                if fs.write_once(self._fd, data, self.path):
                    return
            except OSError:
                self._close()
                self._open()
            for _ in range(2):
                if fs.write_once(self._fd, data, self.path):
                    return  # else the whole of it once more: the rest alone would be no line
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def _open(self) -> None:
        """It is open under the name that it has now."""
        if self._fd >= 0 and not self._is_current():
            self._close()
        if self._fd < 0:
            self._fd, _ = fs.open_regular(self.path, fs.APPEND | os.O_NONBLOCK)
            self._looked = monotonic()

    def _is_current(self) -> bool:
        self._looked, mine, there = monotonic(), os.fstat(self._fd), fs.status(self.path)
        return there is not None and (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._looked = -EVERY

    def _part(self) -> None:
        """After a fork, a thread that had the turn is the parent's, and comes back from nothing here."""
        self._turn, self._of = threading.Lock(), own.first

    def close(self) -> None:
        """Let go of it; the next append opens it again."""
        if self._of != own.first:
            self._part()
        with self._turn:
            self._close()

    def __del__(self) -> None:
        self._close()


def lines(path: str, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Whole lines from byte `start` on, each with the place after it."""
    try:
        fd, _ = fs.open_regular(path, fs.READ)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file:
        file.seek(start)
        while line := file.readline(LONGEST_LINE):
            start += len(line)
            if not line.endswith(b"\n"):
                if len(line) < LONGEST_LINE:
                    return  # still being written, or torn: not ours to judge yet
                continue  # longer than any of ours: a piece of it is none
            yield start, line
