"""Taking turns: locks that are waited for, but not for ever."""

from __future__ import annotations

import os
import time

from taskpit import fs
from taskpit.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

#: How long a verb waits for another one on the same task, in seconds.
TURN = 5.0


#: How this process lets go of each lock that is its own.
own: dict[int, Callable[[], None]] = {}


def _part() -> None:
    """A fork has copies of the locks, by which they would be held for as long as it lives, whoever lets go of them."""
    for drop in list(own.values()):
        drop()
    own.clear()


os.register_at_fork(after_in_child=_part)


class BoundedLock(fs.Flock):
    """A lock that is waited for, but not for ever: whoever was stopped with it must not stop everybody."""

    def __enter__(self) -> Self:
        deadline, pause = time.monotonic() + TURN, 0.0002
        while not self.take(wait=False):
            if time.monotonic() >= deadline:
                raise Unavailable(
                    "another process holds the lock and does not go on; nothing was changed", path=self.path
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.01)
        own[id(self)] = self.drop
        return self

    def drop(self) -> None:
        """Let go; nothing happens if it was not held."""
        own.pop(id(self), None)
        super().drop()


class Open:
    """No lock: the names themselves decide."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass
