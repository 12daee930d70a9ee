"""Workers that wait for a task, in lines by what they want. News wakes the first of each line; the others sleep on.

A worker that is woken claims by a call of its own. If it found a task, the next one in its line is woken, and two
after several in a row; if it found none, there is nothing for the others either. So a new task costs two claims,
however many workers wait, and a caller that hangs up in line has taken nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from taskpit.model import Want, worker_type
from taskpit.store.port import Store

#: Seconds after which one of each line looks again, whatever the store tells: notifications can be lost.
LOOK_AGAIN = 1.0
#: Seconds for which the store is listened to at a time.
LISTEN = 5.0
#: Claims in a row that found a task, after which two are woken by each.
STREAK = 4

Wish = tuple[Any, ...]


class Line:
    """The workers in line at one gateway."""

    def __init__(self, store: Store, *, personal: bool) -> None:
        self._store = store
        #: Whether the name of a worker decides what it may have.
        self._personal = personal
        self._lines: dict[Wish, dict[asyncio.Future[None], None]] = {}
        self._streaks: dict[Wish, int] = {}
        #: How often something may have become ready.
        self.news = 0
        self._listener: threading.Thread | None = None
        self._looker: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def _wish(self, want: Want) -> Wish:
        kind = want.kind or worker_type(want.worker)
        return (want.tags, want.big, kind, want.ids, want.verbatim, want.worker if self._personal else "")

    def tell(self, count: int = 1) -> None:
        """Wake the first of each line: so many tasks may have become ready."""
        self.news += 1
        for wish in list(self._lines):
            self._wake(wish, count)

    def claimed(self, want: Want, *, found: bool) -> None:
        """Wake the next in line if this wish found a task."""
        wish = self._wish(want)
        if wish in self._lines:
            self._streaks[wish] = self._streaks.get(wish, 0) + 1 if found else 0
            self._wake(wish, (2 if self._streaks[wish] > STREAK else 1) if found else 0)

    def _wake(self, wish: Wish, count: int) -> None:
        sleeping = (one for one in self._lines.get(wish, ()) if not one.done())
        for _, waiter in zip(range(count), sleeping, strict=False):
            waiter.set_result(None)

    async def wait(self, want: Want, news: int, seconds: float, hung_up: Callable[[], Awaitable[Any]]) -> bool:
        """Stand in line; whether there may be something. `news` is the count when the wish found nothing."""
        wish = self._wish(want)
        if self._is_closed or (news != self.news and wish not in self._lines):
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(wish, {})[waiter] = None
        self._watch()
        gone: asyncio.Future[Any] = asyncio.ensure_future(hung_up())
        try:
            await asyncio.wait((waiter, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and waiter.done():
                self._wake(wish, 1)  # it was woken and is gone: the next one is
            return waiter.done()
        finally:
            gone.cancel()
            del self._lines[wish][waiter]
            if not self._lines[wish]:
                del self._lines[wish]
                self._streaks.pop(wish, None)

    # -- news --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look again after a while, and listen to the store, as long as a worker waits."""
        loop = asyncio.get_running_loop()
        if self._looker is None:
            self._looker = loop.call_later(LOOK_AGAIN, self._look)
        if self._listener is None or not self._listener.is_alive():
            self._listener = threading.Thread(target=self._listen, args=(loop,), name="listener", daemon=True)
            self._listener.start()

    def _look(self) -> None:
        self._looker = None
        for wish in list(self._lines):
            self._wake(wish, 1)
        if self._lines and not self._is_closed:
            self._watch()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._lines and not self._is_closed:
            try:
                is_news = self._store.wait(LISTEN)
            except Exception:
                is_news = False
                threading.Event().wait(LOOK_AGAIN)
            if is_news:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and so is this gateway
                    loop.call_soon_threadsafe(self.tell)

    def close(self) -> None:
        """Wake everybody."""
        self._is_closed = True
        self.tell(len(self))
