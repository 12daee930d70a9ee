"""Sleeping until a directory changes: inotify where there is one, looking now and then elsewhere.

Belongs to the fs room. A wake-up is a hint: it may come early, for nothing, or (network filesystems,
overflow) not at all, so every sleeper also has a longest time to sleep.
"""

from __future__ import annotations

import os
import select
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Watch"]

#: Entries move out or in, are made or unmade, or a writer closes its file.
MASK = 0x40 | 0x80 | 0x100 | 0x200 | 0x8
#: The kernel dropped events; the watched directory itself is gone.
OVERFLOW, GONE = 0x4000, 0x8000
#: Watch, mask, cookie, length of the name that follows.
_HEAD = struct.Struct("iIII")
#: How often directories are looked at where the kernel tells nothing, and how long a watcher sleeps at most.
POLL_SECONDS = 0.25


class Watch:
    """Waits for changes in some directories."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [path for path in paths if os.path.isdir(path)]
        self._watches: dict[int, str] = {}
        self._fd = self._open()
        self._seen = self._look()

    def _open(self) -> int | None:
        try:
            import ctypes

            library = ctypes.CDLL(None, use_errno=True)
            fd: int = library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
            if fd < 0:
                return None
            for path in self._paths:
                watch = library.inotify_add_watch(fd, os.fsencode(path), MASK)
                if watch < 0:
                    os.close(fd)
                    return None
                self._watches[watch] = path
        except (OSError, AttributeError):
            return None
        return fd

    @property
    def told_by_kernel(self) -> bool:
        """Whether the kernel tells of changes; else they are found by looking now and then."""
        return self._fd is not None

    def _look(self) -> list[int]:
        return [os.stat(path).st_mtime_ns for path in self._paths if os.path.isdir(path)]

    def wait(self, timeout: float) -> bool:
        """True once something may have changed since the last call, False after `timeout` seconds."""
        if self._fd is not None:
            return bool(select.select([self._fd], [], [], max(timeout, 0))[0])
        deadline = time.monotonic() + timeout
        while True:
            if self._look() != self._seen:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(POLL_SECONDS, left))

    def changes(self) -> list[tuple[str, str]] | None:
        """Directory and name of each entry that came, went or was written since the last call.

        None if that can't be told: look for yourself.
        """
        if self._fd is None:
            seen, self._seen = self._seen, self._look()
            return [] if seen == self._seen else None
        found: list[tuple[str, str]] = []
        try:
            while data := os.read(self._fd, 65536):
                if not self._decode(data, found):
                    self._drain()
                    return None
        except BlockingIOError:
            pass
        return found

    def _decode(self, data: bytes, found: list[tuple[str, str]]) -> bool:
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            if mask & (OVERFLOW | GONE):
                return False
            found.append((self._watches[watch], os.fsdecode(data[at : at + length].rstrip(b"\0"))))
            at += length
        return True

    def _drain(self) -> None:
        if self._fd is not None:
            try:
                while os.read(self._fd, 65536):
                    pass
            except BlockingIOError:
                pass

    def close(self) -> None:
        """Stop watching."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
