"""Whether a file that another program writes is whole.

A file that another program writes is left alone until then: `cat >`, `cp` and most programs write a file where
everybody sees it. It is whole once no program has it open for writing (the kernel gives a read lease then), or the
kernel said that it was closed or moved in; where nobody can tell (a network folder, another user's file), once it has
been as it is for the grace.
"""

from __future__ import annotations

from taskpit import fs, kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from taskpit.store.folder import Folder

    T = TypeVar("T")

#: What is remembered of so many files at most.
MOST = 4096


class Writing:
    """What one process knows of files that others write in one folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._local: bool | None = None
        #: Files of which the kernel said that their writer is done.
        self._closed: dict[str, None] = {}
        #: Files that nobody can tell of: how each looked, and since when by a clock that nobody sets.
        self._seen: dict[str, tuple[tuple[int, ...], float]] = {}

    def told(self, path: str, *, whole: bool) -> None:
        """What the kernel said of this file last."""
        self._closed.pop(path, None)
        if whole:
            _remember(self._closed, path, None)

    def has_writer(self, path: str) -> bool:
        """Whether a program of this machine is known to have it open for writing."""
        try:
            return fs.written(path)[1] is True
        except OSError:
            return False

    def is_whole(self, path: str) -> bool:
        """Whether its writer is done, as far as anybody can tell; False if it is gone."""
        try:
            status, writer = fs.written(path)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # a link, a FIFO, one that may not be read: whoever reads it says what is wrong with it
        if writer:
            return False
        if self._local is None:
            self._local = kernel.is_local(self._folder.root)
        if writer is False and self._local:
            return True
        return path in self._closed or self._has_rested(path, status)

    def _has_rested(self, path: str, status: fs.Stat) -> bool:
        """Whether it has been like this for the grace, by the filesystem's clock or under our eyes."""
        clock, grace = self._folder.clock, self._folder.grace
        sign = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        now = clock.now() if self._local else self._time_there()
        if now is not None and now - status.st_ctime >= grace:
            return True
        before, since = self._seen.get(path, ((), 0.0))
        if before != sign:
            _remember(self._seen, path, (sign, clock.monotonic()))
        return before == sign and clock.monotonic() - since >= grace

    def _time_there(self) -> float | None:
        """What time it is where the files are; None if that can't be told."""
        probe = self._folder.tmp("time", fs.fresh_name(), "probe")
        try:
            fs.create(probe, b"", sync=False)
            status = fs.status(probe)
            fs.remove(probe)
        except OSError:
            return None
        return status.st_ctime if status else None


def _remember(known: dict[str, T], path: str, value: T) -> None:
    known.pop(path, None)
    known[path] = value
    while len(known) > MOST:
        del known[next(iter(known))]
