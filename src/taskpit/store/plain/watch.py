"""Waiting for work: notifications where the kernel gives them, else looking now and then.

Every pool is woken by each change; a random pause before it looks keeps a crowd from asking for the lock at once.
"""

from __future__ import annotations

from taskpit.store.plain import paths
from taskpit.store.plain.files import Watch
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.ready_cache import ReadyCache

#: How often a waiting process looks at the folders where it is not notified, and the longest pause of one that is, in
#: seconds.
POLL, JITTER = 0.25, 0.004


class Waiter:
    """Waits for one store. One thread at a time."""

    def __init__(self, folder: Folder, cache: ReadyCache) -> None:
        self._folder = folder
        self._cache = cache

    def wait(self, watch: Watch | None, timeout: float) -> bool:
        """Sleep until something may have become ready, or for so many seconds. May return for nothing."""
        if watch is None:
            return self._poll(timeout)
        woken = watch.wait(self._until_odd(timeout))
        if woken:
            self._folder.clock.sleep(self._chance() * JITTER)
        return woken

    def _until_odd(self, timeout: float) -> float:
        # A file of another program is looked at again once it is two seconds old.
        return min(timeout, self._folder.young / 2) if self._cache.odd else timeout

    def _poll(self, timeout: float) -> bool:
        clock = self._folder.clock
        deadline, before = clock.monotonic() + timeout, self._signs()
        while (left := deadline - clock.monotonic()) > 0:
            clock.sleep(min(left, POLL * (0.5 + self._chance())))
            if self._signs() != before:
                return True
        return False

    def _signs(self) -> list[int]:
        places = (self._folder.layout.ready, paths.ENDED)
        found = (self._folder.files.stat(place) for place in places)
        return [one.st_mtime_ns if one is not None else 0 for one in found]

    def _chance(self) -> float:
        return int.from_bytes(self._folder.clock.chance(2).encode(), "big") % 1000 / 1000
