"""Calls by name, and calls of the store that many callers share. Knows no verbs."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Any

#: Seconds for which an answer is remembered, how many are, and how many bytes.
KEPT, MOST, MOST_BYTES = 120.0, 20_000, 32 * 1024 * 1024
#: Items in one call of the store.
TOGETHER = 500


class Calls:
    """Answer a call that is asked twice once: the name of its token and its own identify it."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[float, asyncio.Task[bytes]]] = OrderedDict()
        self._bytes = 0

    def has(self, caller: str, name: str) -> bool:
        """Whether it was asked for."""
        return (caller, name) in self._known

    async def ask(self, caller: str, name: str, begin: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the answer of the call with this name, which begins now unless it did before."""
        if (caller, name) not in self._known:
            self._forget()
            work = asyncio.ensure_future(begin())
            work.add_done_callback(self._count)
            self._known[caller, name] = (time.monotonic(), work)
        return await asyncio.shield(self._known[caller, name][1])

    def _count(self, work: asyncio.Task[bytes]) -> None:
        if not work.cancelled() and work.exception() is None:
            self._bytes += len(work.result())

    def _forget(self) -> None:
        """Drop the oldest calls: those that are too old, too many or too large. Calls in flight stay."""
        late = time.monotonic() - KEPT
        while self._known:
            key, (at, work) = next(iter(self._known.items()))
            if at > late and len(self._known) < MOST and self._bytes < MOST_BYTES:
                return
            if not work.done():
                self._known.move_to_end(key)
                return
            del self._known[key]
            if not work.cancelled() and work.exception() is None:
                self._bytes -= len(work.result())


class Batch:
    """One verb of the store, called with many callers' items: those that come during one call share the next.

    `again` is called for each caller alone when the shared call was refused.
    """

    def __init__(
        self,
        threads: Executor,
        act: Callable[[list[Any]], Sequence[Any]],
        again: Callable[[list[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self._threads, self._act, self._again = threads, act, again or act
        self._waiting: list[tuple[list[Any], asyncio.Future[list[Any]]]] = []
        self._runs: asyncio.Task[None] | None = None

    async def ask(self, items: list[Any]) -> list[Any]:
        """Return one answer for each item."""
        if not items:
            return []
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, answer))
        if self._runs is None or self._runs.done():
            self._runs = asyncio.ensure_future(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            shared = [self._waiting.pop(0)]
            count = len(shared[0][0])
            while self._waiting and count + len(self._waiting[0][0]) <= TOGETHER:
                shared.append(self._waiting.pop(0))
                count += len(shared[-1][0])
            await self._call(shared)

    async def _call(self, shared: list[tuple[list[Any], asyncio.Future[list[Any]]]]) -> None:
        loop = asyncio.get_running_loop()
        try:
            answers = list(
                await loop.run_in_executor(self._threads, self._act, [item for items, _ in shared for item in items])
            )
        except Exception as error:
            if len(shared) == 1:
                _settle(shared[0][1], error)
                return
            for items, answer in shared:  # one caller's items spoil no other's
                try:
                    _settle(answer, list(await loop.run_in_executor(self._threads, self._again, items)))
                except Exception as alone:
                    _settle(answer, alone)
            return
        for items, answer in shared:
            _settle(answer, answers[: len(items)])
            del answers[: len(items)]


def _settle(answer: asyncio.Future[list[Any]], outcome: list[Any] | Exception) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
