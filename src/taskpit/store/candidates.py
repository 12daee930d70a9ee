"""The best candidates for a claim that this process knows, in order. Names, tasks and their order; no disk.

Alone, they are tried exactly by priority, then age. When somebody else was faster, the next tries are spread
over some of equal priority for a moment, so that many workers do not all try for the first.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right

from taskpit.rules import order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from taskpit.clock import Clock
    from taskpit.rules import Order
    from taskpit.task import Task

__all__ = ["Window"]

#: Tries are spread over so many of equal priority at most, and for so many seconds after somebody was faster.
WIDEST, CROWDED = 32, 0.25


class Window:
    """Candidates, best first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spread, self._crowded_until = 1, 0.0
        #: How often something was told of a candidate: another number, and there may be one that was not tried.
        self.news = 0
        self.clear()

    def clear(self) -> None:
        """Nothing is known."""
        self.tasks: dict[str, Task] = {}
        #: By which a file is known to be the one that was read: a name may come back with other content.
        self.signs: dict[str, tuple[int, int]] = {}
        #: Best first; what is no longer so is passed over, and what stands before `_head` is gone.
        self._order: list[tuple[Order, str]] = []
        self._keys: dict[str, Order] = {}
        self._head = 0

    def __len__(self) -> int:
        return len(self.tasks)

    def know(self, file: str, task: Task, sign: tuple[int, int]) -> None:
        """This file is a candidate."""
        key = order(task)
        self.news += 1
        self.tasks[file], self.signs[file], self._keys[file] = task, sign, key
        item = (key, file)
        at = bisect_left(self._order, item)
        self._head = min(self._head, at)  # it may have come back, or be better than all that is left
        if self._order[at : at + 1] != [item]:
            self._order.insert(at, item)

    def forget(self, file: str) -> None:
        """It is none."""
        self.tasks.pop(file, None)

    def sort(self, *, slack: int = 0) -> None:
        """What is no longer so takes no room, once there is more of it than of the rest and `slack`."""
        if len(self._order) > 2 * len(self.tasks) + slack:
            self.signs = {file: self.signs[file] for file in self.tasks}
            self._keys = {file: self._keys[file] for file in self.tasks}
            self._order, self._head = sorted((key, file) for file, key in self._keys.items()), 0

    def page(self, after: tuple[object, ...] | None, limit: int) -> list[tuple[Order, str, Task]]:
        """Orders, file names and tasks in order, after one of them."""
        found = sorted((self._keys[file], file) for file in self.tasks)
        start = 0 if after is None else bisect_right(found, (after[:4], after[4]))
        return [(key, file, self.tasks[file]) for key, file in found[start : start + limit]]

    def best(self, fits: Callable[[Task], bool], more: Callable[[], bool]) -> Iterator[tuple[str, Task]]:
        """File names and tasks, best first; `more` finds further ones when these are used up, or says that it can't."""
        while self._head < len(self._order) and not self._holds(self._head):
            self._head += 1
        position, picks, rank = self._head, list[str](), 0
        while True:
            picks = [file for file in picks if file in self.tasks]
            wanted = self._width()
            while len(picks) < wanted:
                if position >= len(self._order):
                    if more():
                        continue
                    break
                key, file = self._order[position]
                if picks and key[0] != rank:
                    break  # only among equals
                if self._holds(position) and fits(self.tasks[file]):
                    picks.append(file)
                    rank = key[0]
                position += 1
            if not picks:
                return
            file = picks.pop(os.urandom(1)[0] % len(picks) if len(picks) > 1 else 0)
            yield file, self.tasks[file]

    def _holds(self, position: int) -> bool:
        """Whether what stands there in the order is still so."""
        key, file = self._order[position]
        return file in self.tasks and self._keys[file] == key

    def _width(self) -> int:
        """Over how many the next try is spread: one, while nobody gets in our way."""
        if self._spread > 1 and self._clock.monotonic() > self._crowded_until:
            self._spread = 1
        return self._spread

    def collided(self) -> None:
        """Somebody else was faster, just now."""
        self._spread = min(2 * self._width(), WIDEST)
        self._crowded_until = self._clock.monotonic() + CROWDED
