"""Workers in line for work. What becomes ready is dealt to who came first; nobody else is woken for it.

Those who want the same stand in one line: if there is nothing for the first of them, there is nothing for the others.
So news costs one claim for each line and one for each task that is dealt, however many wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from taskpit.errors import TaskpitError
from taskpit.model import Claim, Want, worker_type
from taskpit.store.port import Store

#: Seconds after which everybody's wish is looked at again, whatever the store tells.
LOOK_AGAIN = 1.0
#: Workers that are dealt to in one call of the store.
MOST_DEALT = 64
#: How long the store is listened to at a time.
LISTEN = 5.0


class _Waiter:
    """One wish in line."""

    def __init__(self, want: Want, number: int) -> None:
        self.want = want
        self.number = number
        self.work = asyncio.current_task()
        self.answer: asyncio.Future[list[Claim]] = asyncio.get_running_loop().create_future()
        #: Whether a claim is being made for it just now, and whether its time is over.
        self.is_dealt = self.is_late = False


class Waiting:
    """The lines of one gateway."""

    def __init__(
        self, store: Store, claim: Callable[[list[Want]], Awaitable[list[list[Claim]]]], *, personal: bool
    ) -> None:
        self._store = store
        self._claim = claim
        #: Whether what one may have depends on who it is.
        self._personal = personal
        self._lines: dict[tuple[Any, ...], dict[_Waiter, None]] = {}
        self._numbers = itertools.count()
        self._news = asyncio.Event()
        self._dealer: asyncio.Task[None] | None = None
        self._listens: threading.Thread | None = None
        self._closed = False

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def _line_of(self, want: Want) -> tuple[Any, ...]:
        kind = want.kind or worker_type(want.worker)
        return (want.tags, want.big, kind, want.ids, want.verbatim, want.worker if self._personal else "")

    def tell(self) -> None:
        """Something may have become ready."""
        self._news.set()

    async def claim(self, want: Want, seconds: float) -> list[Claim]:
        """What there is for this wish within so many seconds, in its turn. Cancelled in line, it has taken nothing."""
        key = self._line_of(want)
        waiter = _Waiter(want, next(self._numbers))
        line = self._lines.setdefault(key, {})
        line[waiter] = None
        self._begin()
        try:
            return await asyncio.wait_for(asyncio.shield(waiter.answer), seconds)
        except TimeoutError:
            waiter.is_late = True
            return await waiter.answer if waiter.is_dealt else []
        finally:
            line.pop(waiter, None)
            if not line and self._lines.get(key) is line:
                del self._lines[key]

    def is_waiting(self, want: Want) -> bool:
        """Whether this very wish stands in line, and is not just being dealt to."""
        line = self._lines.get(self._line_of(want), {})
        return any(waiter.want == want and not waiter.is_dealt for waiter in line)

    def is_in_line(self, work: asyncio.Task[Any]) -> bool:
        """Whether this call stands in line, and is not just being dealt to: cancelled, it has taken nothing."""
        return any(waiter.work is work and not waiter.is_dealt for line in self._lines.values() for waiter in line)

    # -- dealing -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._dealer is None or self._dealer.done():
            self._dealer = asyncio.ensure_future(self._deal())
        if self._listens is None or not self._listens.is_alive():
            loop = asyncio.get_running_loop()
            self._listens = threading.Thread(target=self._listen, args=(loop,), name="listener", daemon=True)
            self._listens.start()

    async def _deal(self) -> None:
        """While somebody waits: hear of news, deal, look again after a while."""
        while self._lines and not self._closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), LOOK_AGAIN)
            self._news.clear()
            with contextlib.suppress(TaskpitError):  # the store is away: those in line wait on
                await self._deal_round()

    async def _deal_round(self) -> None:
        """Until there is nothing for any line. One is dealt to, then twice as many at once, as long as all get some."""
        empty: set[tuple[Any, ...]] = set()
        many = 1
        while True:
            chosen = self._first(many, empty)
            if not chosen:
                return
            for _, waiter in chosen:
                waiter.is_dealt = True
            try:
                dealt = await self._claim([waiter.want for _, waiter in chosen])
            except Exception as error:
                for key, waiter in chosen:
                    self._lines.get(key, {}).pop(waiter, None)
                    waiter.answer.set_exception(error)
                    waiter.answer.exception()  # heard, also where nobody listens
                raise
            for (key, waiter), claims in zip(chosen, dealt, strict=True):
                waiter.is_dealt = False
                if claims or waiter.is_late or self._closed:
                    self._lines.get(key, {}).pop(waiter, None)
                    waiter.answer.set_result(claims)
                if not claims:
                    empty.add(key)
            many = min(2 * many, MOST_DEALT) if all(dealt) else 1

    def _first(self, many: int, but: set[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], _Waiter]]:
        """The first of those in line, over all lines but these."""
        heads = [
            (waiter.number, key, waiter)
            for key, line in self._lines.items()
            if key not in but
            for waiter in itertools.islice(line, many)
        ]
        return [(key, waiter) for _, key, waiter in sorted(heads, key=lambda head: head[0])[:many]]

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """The one thread that listens to the store; ends when nobody waits."""
        while self._lines and not self._closed:
            try:
                heard = self._store.wait(LISTEN)
            except Exception:
                heard = False
                threading.Event().wait(LOOK_AGAIN)
            if heard:
                try:
                    loop.call_soon_threadsafe(self._news.set)
                except RuntimeError:
                    return  # the loop is closed: so are we

    def close(self) -> None:
        """Whoever waits goes home with nothing."""
        self._closed = True
        self._news.set()
        for line in self._lines.values():
            for waiter in line:
                if not waiter.answer.done():
                    waiter.answer.set_result([])
