"""Calls by name: what is asked twice is done once, and both times answered the same. Knows no verbs."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

#: How long an answer is remembered, in seconds, and how many are.
KEPT, MOST = 120.0, 20_000


class Call:
    """One call: under way, or answered."""

    def __init__(self, work: asyncio.Task[Any]) -> None:
        self.work = work
        self.at = time.monotonic()
        #: How often it was asked for: whoever gave up hears by it that the caller came back.
        self.asked = 1


class Calls:
    """What was asked for lately, by who asked and the name of the call."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Call] = OrderedDict()

    def ask(self, who: str, name: str, begin: Callable[[], Awaitable[Any]]) -> Call:
        """The call of this name: the one that was begun before, or a new one."""
        known = self._known.get((who, name))
        if known is not None:
            known.asked += 1
            return known
        self._forget()
        call = Call(asyncio.ensure_future(begin()))
        self._known[who, name] = call
        return call

    def has(self, who: str, name: str) -> bool:
        """Whether it was asked for."""
        return (who, name) in self._known

    def drop(self, who: str, name: str) -> Call | None:
        """It is forgotten; what it was."""
        return self._known.pop((who, name), None)

    def _forget(self) -> None:
        """The oldest go: those that are too old, and those that are too many. What is under way stays."""
        late = time.monotonic() - KEPT
        while self._known:
            key, oldest = next(iter(self._known.items()))
            if oldest.at > late and len(self._known) < MOST:
                return
            if not oldest.work.done():
                self._known.move_to_end(key)
                return
            del self._known[key]
