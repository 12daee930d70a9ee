"""Sleeping until a directory changes: inotify where there is one, looking now and then elsewhere.

Belongs to the fs room. A wake-up is a hint: it may come early, for nothing, or (network filesystems,
overflow) not at all, so every sleeper also has a longest time to sleep.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import time
from collections.abc import Callable, Sequence
from sys import is_finalizing

from taskpit.held_directories import forget
from taskpit.kernel import FS_CODEC, call

#: An entry is moved out or unmade; moved in, made, or its writer has closed it.
GOES, COMES = 0x40 | 0x200, 0x80 | 0x100 | 0x8
#: An entry is moved in, made or unmade.
CALM = 0x80 | 0x100 | 0x200
#: Of these, the ones after which nobody is writing it: moved in, closed.
WHOLE = 0x80 | 0x8
#: A watched file that somebody had open for writing is closed (whoever it was lets go, or is dead), or is moved.
LET_GO = 0x8 | 0x800
#: The kernel dropped events; the watched directory itself is gone.
OVERFLOW, GONE = 0x4000, 0x8000
#: Watch, mask, cookie, length of the name that follows.
_HEAD = struct.Struct("iIII")
#: Bytes read at once, and of the longest event.
MOST, LONGEST = 8192, 512
#: How often directories are looked at where the kernel tells nothing, and how long a watcher sleeps at most.
POLL_SECONDS = 0.25


class Watch:
    """Waits for changes in some directories."""

    def __init__(self, paths: Sequence[str], mask: int = GOES | COMES, *, calm: Sequence[str] = ()) -> None:
        self._fd: int | None = None
        self._paths = [path for path in paths if os.path.exists(path)]
        self._mask = mask
        #: Of these only what comes or is unmade is told, not what is written there.
        self._calm = calm
        self._watches: dict[int, str] = {}
        #: Which files have these names, and whether others were found there since: the kernel tells nothing of them.
        self._known, self._replaced = self._inodes(), False
        self._fd = self._open()
        #: Whether the kernel tells of changes; otherwise somebody has to look.
        self.told = self._fd is not None
        self._seen = self._look()

    def _open(self) -> int | None:
        begin, add = call("inotify_init1"), call("inotify_add_watch")
        fd = begin(os.O_CLOEXEC | os.O_NONBLOCK) if begin is not None and add is not None else -1
        if fd < 0 or add is None:
            return None
        for path in self._paths:
            watch = add(fd, os.fsencode(path), CALM if path in self._calm else self._mask)
            if watch < 0:
                os.close(fd)
                return None
            self._watches[watch] = path
        return fd

    def turn_to(self, path: str) -> None:
        """Watch this instead of all else; what was not read yet of the others is forgotten.

        To close a watch and open another takes milliseconds: the kernel waits until nobody can be in it.
        """
        self._paths = [path]
        self._known, self._replaced = self._inodes(), False
        if self._fd is not None:
            drop, add = call("inotify_rm_watch"), call("inotify_add_watch")
            assert drop is not None  # as this watch was opened
            assert add is not None
            for watch in self._watches:
                drop(self._fd, watch)
            self._drain()
            watch = add(self._fd, os.fsencode(path), self._mask)
            self._watches = {watch: path} if watch >= 0 else {}
        self._seen = self._look()

    def _look(self) -> list[tuple[int, int]]:
        """What has these names now, and when it last changed; nothing is 0."""
        return [_sign(path) for path in self._paths]

    def _inodes(self) -> list[int]:
        return [inode for inode, _ in self._look()]

    def _begin_again(self) -> None:
        """A directory was made in the place of another, or is gone: watch what is there now. As long as one is missing,
        somebody has to look.
        """
        self.close()
        self._watches.clear()
        for path in self._paths:
            forget(path)
        self._known, self._replaced = self._inodes(), False
        self._fd = self._open() if all(self._known) else None
        self.told = self._fd is not None
        self._seen = self._look()

    def wait(self, timeout: float) -> bool:
        """True once something may have changed since the last call, False after `timeout` seconds."""
        if self._inodes() != self._known:
            self._replaced = True
            return True
        if self._fd is not None:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(max(timeout, 0) * 1000))
        deadline = time.monotonic() + timeout
        while True:
            if self._look() != self._seen:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(POLL_SECONDS, left))

    def changes(self) -> list[tuple[str, str, int]] | None:
        """Directory and name of each entry that came, went or was written since the last call, and what the kernel
        said of it (COMES, WHOLE, GOES).

        None if that can't be told: look for yourself.
        """
        if self._replaced:
            self._begin_again()
            return None
        if self._fd is None:
            seen, self._seen = self._seen, self._look()
            return [] if seen == self._seen else None
        found: list[tuple[str, str, int]] = []
        try:
            size = MOST
            while size > MOST - LONGEST:  # less than that, and there was no more
                data = os.read(self._fd, MOST)
                size = len(data)
                if not self._decode(data, found):
                    self._drain()
                    return None
        except BlockingIOError:
            pass
        return found

    def _decode(self, data: bytes, found: list[tuple[str, str, int]]) -> bool:
        at, end = 0, len(data)
        while at < end:
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += 16
            if mask & (OVERFLOW | GONE):
                self._replaced = bool(mask & GONE)
                return False
            name = data[at : at + length].rstrip(b"\0").decode(*FS_CODEC)
            found.append((self._watches[watch], name, mask))
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
        fd, self._fd = self._fd, None  # in this order: whatever interrupts it, none is closed twice
        self.told = False
        if fd is not None:
            os.close(fd)

    def __del__(self, ending: Callable[[], bool] = is_finalizing) -> None:
        if not ending():
            self.close()


def _sign(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def held(path: str) -> bool:
    """Whether somebody holds the lock on this file; not if it is gone. Where that can't be told: yes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # several may ask at once
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
