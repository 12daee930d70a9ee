"""The line of those who wait for a task: a put wakes who stands first, not all. Knows places, nothing about tasks.

Whoever waits has a file here, named by when it came and locked while it waits. The first sleeps until the
queue changes; everybody else until the one before it lets go of its file, which the kernel sees to also when
that one is killed. The line only spares wake-ups: whoever stands in it looks now and then for itself, so one
that was stopped in its place keeps the others waiting no longer than that. Trouble with it: do without.
"""

from __future__ import annotations

import time
from _thread import allocate_lock
from sys import is_finalizing

from taskpit import fs
from taskpit.watch import LET_GO, Watch, held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Who was told that the one before it goes, and sees it still there, looks again after so many seconds.
SOON = 0.02


class Line:
    """A place in the line, taken when first asked for. One thread waits in it; any may leave it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._turn = allocate_lock()
        self._place: fs.Flock | None = None
        self._name = ""
        #: The one that stands before us, and what tells when it goes.
        self._before = ""
        self._watch = Watch([], LET_GO)
        #: Whether we were just told that it goes.
        self._stirred = False

    def first(self) -> bool:
        """Whether nobody stands before us."""
        try:
            with self._turn:
                if self._place is None:
                    self._enter()
                name = self._name
            return not self._find_before(name)
        except OSError:
            return True

    def _enter(self) -> None:
        """Stand at the end. Locked before it has its name: what stands here unlocked belongs to the dead."""
        name = f"{time.monotonic_ns():020d}-{fs.fresh_name()}"
        if not self._name:
            fs.make_dir(self._folder)
            self._name = f".{name}"
        place = fs.Flock(f"{self._folder}/{self._name}")  # the file of our last place, if it is still there
        if not place.take(wait=False):
            raise BlockingIOError(f"{place.path} is not ours")
        try:
            fs.move(place.path, f"{self._folder}/{name}")
        except BaseException:
            place.drop()
            raise
        self._place, self._name = place, name

    def _find_before(self, name: str) -> bool:
        """Somebody who lives stands before us, and we shall hear of it when it goes."""
        while self._watch.told:
            ahead = max((other for other in fs.names(self._folder) if other < name and other[0] != "."), default="")
            path = f"{self._folder}/{ahead}"
            if not ahead or (ahead == self._before and held(path)):
                return bool(ahead)
            if held(path):
                self._before = ahead
                self._watch.turn_to(path)
            if held(path):  # after we began to watch: whoever goes from here on is heard
                return True
            fs.remove(path)
        return False

    def sleep(self, timeout: float) -> None:
        """Sleep until the one before us is gone."""
        # The kernel tells of a killed one's file being closed an instant before it takes the lock away.
        self._stirred = self._watch.wait(min(timeout, SOON) if self._stirred else timeout)
        if self._stirred:
            self._before = ""

    def leave(self) -> None:
        """Others may go before us; whoever stood behind us wakes, and takes the file away."""
        with self._turn:
            if self._place is not None:
                self._place.drop()
                self._place = None

    def part(self) -> None:
        """We were forked, and this is the parent's place: it stays there."""
        if self._place is not None:
            self._place.drop()
            self._place = None
        self._watch.close()

    def __del__(self, ending: Callable[[], bool] = is_finalizing) -> None:
        if not ending():
            self.part()

    def close(self) -> None:
        """Nobody waits here any more."""
        self.leave()
        self._watch.close()
        if self._name:
            try:
                fs.remove(f"{self._folder}/{self._name}")
            except OSError:
                return  # the next one in line will
