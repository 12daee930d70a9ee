"""The line of those who wait for a task: a put wakes who stands first, not all. Knows places, nothing about tasks.

Whoever waits has a file here, named by when it came and locked while it waits. The first sleeps until the
queue changes; everybody else until the one before it lets go of its file, which the kernel sees to also when
that one is killed. The line only spares wake-ups: whoever stands in it looks now and then for itself, so one
that was stopped in its place keeps the others waiting no longer than that. Trouble with it: do without.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from taskpit import fs
from taskpit.watch import LET_GO, Watch, held

__all__ = ["Line"]


class Line:
    """A place in the line, taken when first asked for. One thread waits in it; any may leave it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._turn = allocate_lock()
        self._place: fs.Flock | None = None
        self._name = ""
        #: The one that stands before us, and what tells when it goes.
        self._before = ""
        self._watch: Watch | None = None

    def first(self) -> bool:
        """Whether nobody stands before us."""
        try:
            with self._turn:
                if self._place is None:
                    self._enter()
                name = self._name
            return not self._find_before(name)
        except OSError:
            self._forget_before()
            return True

    def _enter(self) -> None:
        """Locked before it has its name: what stands here unlocked belongs to the dead."""
        fs.make_dir(self._folder)
        name = f"{time.monotonic_ns():020d}-{fs.fresh_name()}"
        place = fs.Flock(f"{self._folder}/.{name}")
        place.take()
        try:
            fs.move(place.path, f"{self._folder}/{name}")
        except BaseException:
            place.drop()
            raise
        self._place, self._name = place, name

    def _find_before(self, name: str) -> bool:
        """Somebody who lives stands before us, and we shall hear of it when it goes."""
        while True:
            ahead = max((other for other in fs.names(self._folder) if other < name and other[0] != "."), default="")
            if ahead == self._before:
                return bool(ahead)
            self._forget_before()
            if not ahead:
                return False
            path = f"{self._folder}/{ahead}"
            self._watch = Watch([path], LET_GO)
            if held(path):  # only now: whoever goes from here on is heard
                self._before = ahead
                return self._watch.told
            fs.remove(path)

    def sleep(self, timeout: float) -> None:
        """Sleep until the one before us is gone."""
        if self._watch is not None and self._watch.wait(timeout):
            self._forget_before()

    def _forget_before(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch, self._before = None, ""

    def leave(self) -> None:
        """Others may go before us; whoever stood behind us wakes, and takes the file away."""
        with self._turn:
            if self._place is not None:
                self._place.drop()
                self._place = None

    def close(self) -> None:
        """Nobody waits here any more."""
        self.leave()
        self._forget_before()
        if self._name:
            try:
                fs.remove(f"{self._folder}/{self._name}")
            except OSError:
                return  # the next one in line will
