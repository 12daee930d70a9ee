"""Many callers' items in one call of the store: what comes while one call is under way goes together into the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

#: Items of one call of the store.
MOST = 500


class Batch:
    """One verb of the store, called with everybody's items. `again` is called for each alone when that was refused."""

    def __init__(
        self,
        threads: Executor,
        act: Callable[[list[Any]], Sequence[Any]],
        again: Callable[[list[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self._threads = threads
        self._act = act
        self._again = again or act
        self._waiting: list[tuple[list[Any], asyncio.Future[list[Any]]]] = []
        self._runs: asyncio.Task[None] | None = None
        #: Calls of the store, and items in them: how well it works.
        self.calls = self.items = 0

    async def ask(self, items: list[Any]) -> list[Any]:
        """One answer for each."""
        if not items:
            return []
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, answer))
        if self._runs is None or self._runs.done():
            self._runs = asyncio.ensure_future(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            some, count = [self._waiting.pop(0)], 0
            count = len(some[0][0])
            while self._waiting and count + len(self._waiting[0][0]) <= MOST:
                some.append(self._waiting.pop(0))
                count += len(some[-1][0])
            await self._together(some)

    async def _together(self, some: list[tuple[list[Any], asyncio.Future[list[Any]]]]) -> None:
        loop = asyncio.get_running_loop()
        whole = [item for items, _ in some for item in items]
        self.calls, self.items = self.calls + 1, self.items + len(whole)
        try:
            said = list(await loop.run_in_executor(self._threads, self._act, whole))
        except Exception as error:
            if len(some) == 1:
                _refuse(some[0][1], error)
                return
            for items, answer in some:  # one spoils no other's
                try:
                    _tell(answer, list(await loop.run_in_executor(self._threads, self._again, items)))
                except Exception as alone:
                    _refuse(answer, alone)
            return
        for items, answer in some:
            _tell(answer, said[: len(items)])
            del said[: len(items)]


def _tell(answer: asyncio.Future[list[Any]], said: list[Any]) -> None:
    if not answer.done():
        answer.set_result(said)


def _refuse(answer: asyncio.Future[list[Any]], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
