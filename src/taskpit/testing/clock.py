"""A clock that stands still until it is told to move. Knows nothing about tasks."""

from __future__ import annotations

import time

from taskpit.clock import Clock

__all__ = ["FakeClock"]


class FakeClock(Clock):
    """Wall and monotonic clock that advance together, and only when asked.

    It starts at the real time, since a filesystem stamps files with the real time whatever we say.
    """

    def __init__(self, wall: float | None = None) -> None:
        self._wall = time.time() if wall is None else wall
        self._monotonic = 1000.0
        self._boot = "the first boot"

    def now(self) -> float:
        """The wall clock as it was set."""
        return self._wall

    def monotonic(self) -> float:
        """The seconds that were let pass."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """That much time passes, on both clocks."""
        self._wall += seconds
        self._monotonic += seconds

    def set_wall(self, wall: float) -> None:
        """The wall clock is set; no time passes."""
        self._wall = wall

    def sleep(self, seconds: float) -> None:
        """The time passes at once."""
        self.advance(seconds)

    def boot(self) -> str:
        """The boot we pretend to be in."""
        return self._boot

    def reboot(self, name: str) -> None:
        """The machine starts again: another boot, and the monotonic clock begins again."""
        self._boot = name
        self._monotonic = 0.0
        self._wall = max(self._wall, time.time()) + 1.0  # later than all that was on the disk before
