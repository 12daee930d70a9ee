"""What all pages of one server share: one board that one thread follows, the changelog, the paper. Knows no address."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from starlette.requests import Request

from taskpit.board import Board, Slip
from taskpit.errors import CursorLost, NotFound, Unavailable
from taskpit.fs import fresh_name
from taskpit.history import History
from taskpit.model import Event
from taskpit.queue import Queue
from taskpit.task_templates import templates
from taskpit.web.html import Paper, place_of

T = TypeVar("T")
#: Brings in the tasks of a file, given its name and its bytes; the ids of those that are in now.
Bring = Callable[[Queue, str, bytes], list[str]]

#: The board is looked at this often while a browser looks at it, in seconds.
STEP = 0.25
#: So many changes are sent one by one; with more, each browser reads its columns again.
MOST = 250
#: So many messages are kept for who was away.
RING = 400
#: So long a page waits for the board to be read for the first time; then it is shown empty and filled later.
FIRST = 0.7
#: How often it is looked whether the queue can be read, while no browser looks at it.
SECOND = 1.0
#: A word for nobody, so that a connection that is gone is noticed, after so many seconds.
PULSE = 15.0


class Hub:
    """A followed board and those who listen to it. Everything that touches the board runs in one thread."""

    def __init__(self, queue: Queue, paper: Paper) -> None:
        self.queue = queue
        self.paper = paper
        self.listeners = 0
        #: Why the queue cannot be read at the moment.
        self.trouble = ""
        self._board = Board(queue)
        self._thread = ThreadPoolExecutor(1, "board")
        self._epoch = fresh_name()
        #: How many messages have been sent.
        self.sent = 0
        self._ring: deque[tuple[int, bytes, frozenset[str]]] = deque(maxlen=RING)
        self._news = asyncio.Condition()
        self._wanted = asyncio.Event()
        #: The board has been looked at: it is read, or there is trouble.
        self._looked = asyncio.Event()
        #: When somebody last asked how it is, and was not told what a browser had seen.
        self._asked = -SECOND
        #: No more is sent: the streams end.
        self.stopping = False

    # -- for pages ---------------------------------------------------------------------------------

    async def is_read(self) -> bool:
        """Whether the board has been read; waits a moment for the first look at it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._looked.wait(), FIRST)
        return bool(self._board.version)

    async def look(self, read: Callable[[Board], T]) -> T:
        """What this function finds on the board as it stands now."""
        if not self._wanted.is_set():
            await self.step()  # nobody follows it: what happened meanwhile is read first
        while not await self.is_read():
            if self.trouble or self.stopping:
                raise Unavailable(self.trouble or "the board is closing", hint="Look at the queue with `pit doctor`.")
        return await self._run(lambda: read(self._board))

    async def health(self) -> str:
        """Why the queue cannot be read, if so; looked at anew where nobody follows it, once a second at most."""
        now = asyncio.get_running_loop().time()
        if not self._wanted.is_set() and self._looked.is_set() and now - self._asked >= SECOND:
            self._asked = now
            await self.step()
        return self.trouble

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def needs_you(self) -> int:
        """How many tasks need a person, as far as the board has been read."""
        return self._board.counts["needs_you"]

    @property
    def place(self) -> str:
        """Where in the ring a page that is made now stands; take it before the board is read."""
        return f"{self._epoch}-{self.sent}"

    # -- following ---------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Read the board, then tell what happens as long as a browser listens; for ever."""
        await self.step()
        while True:
            await self._wanted.wait()
            await self.step()
            await asyncio.sleep(STEP)

    async def step(self) -> None:
        """Look once; tell what is new."""
        news = await self._run(self._read)
        self._looked.set()
        if news is None:
            return
        ids, message = news
        self.sent += 1
        data = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        self._ring.append((self.sent, f"id: {self.place}\nevent: board\ndata: {data}\n\n".encode(), ids))
        async with self._news:
            self._news.notify_all()

    def _read(self) -> tuple[frozenset[str], dict[str, object]] | None:
        """What is to be sent, or None; runs in the board's thread."""
        board, before, paused = self._board, self._board.slips, self._board.paused
        try:
            if not board.version:
                board.load()
                return None
            change = board.follow()
        except Exception as error:  # whatever it is, every browser shows it, and it is tried again
            text, self.trouble = self.trouble, str(error) or type(error).__name__
            return None if text == self.trouble else (frozenset(), self._message(()))
        well, self.trouble = not self.trouble, ""
        ids = change.ids
        if change.anew:  # mostly nothing is different: nobody need look at everything for that
            ids = frozenset(
                one for one in before.keys() | board.slips.keys() if before.get(one) != board.slips.get(one)
            )
        if not ids and board.paused == paused and well:
            return None
        return ids, self._message(ids)

    def _message(self, ids: Iterable[str]) -> dict[str, object]:
        board, now = self._board, self.queue.clock.now()
        changed = sorted(ids)
        message: dict[str, object] = {"counts": board.counts, "paused": board.paused, "trouble": self.trouble}
        if len(changed) > MOST:
            return {**message, "anew": True}
        slips = [board.slips[one] for one in changed if one in board.slips]
        gone = [one for one in changed if one not in board.slips]
        return {**message, "set": [self._card(slip, now) for slip in slips], "gone": gone}

    def _card(self, slip: Slip, now: float) -> dict[str, str]:
        return {
            "id": slip.id,
            "column": slip.column,
            "place": place_of(slip),
            "text": slip.text(),
            "html": self.paper.card(slip, now),
        }

    # -- for those who listen ----------------------------------------------------------------------

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A browser looks: the board is followed."""
        self.listeners += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.listeners -= 1
            if not self.listeners:
                self._wanted.clear()

    async def messages(self, after: str) -> AsyncGenerator[bytes]:
        """What has been sent after this place, and what will be; a word now and then if nothing is."""
        with self.listening():
            yield b"retry: 1000\n\n"
            while not (self.stopping or await self.is_read()):
                yield b": reading\n\n"
                await asyncio.sleep(STEP)
            at = self._number(after)
            while not self.stopping:
                if at is None or self._is_gone(at):
                    at = self.sent
                    yield f"event: anew\nid: {self.place}\ndata: {{}}\n\n".encode()
                for number, message, _ in [one for one in self._ring if one[0] > at]:
                    at = number
                    yield message
                if at == self.sent and not await self._anything(at):
                    yield b": still here\n\n"

    def touched(self, task_id: str, at: int) -> tuple[bool, int]:
        """Whether this task has changed since the ring was there, and where it is now."""
        changed = self._is_gone(at) or any(not ids or task_id in ids for number, _, ids in self._ring if number > at)
        return changed, self.sent

    def _is_gone(self, at: int) -> bool:
        """Whether something after this place is no longer in the ring."""
        return bool(self._ring) and at < self._ring[0][0] - 1

    def _number(self, after: str) -> int | None:
        epoch, _, number = after.rpartition("-")
        known = epoch == self._epoch and number.isascii() and number.isdecimal() and len(number) < 16
        return min(int(number), self.sent) if known else None

    async def _anything(self, at: int) -> bool:
        """Whether something is sent before it is time for a sign of life."""
        async with self._news:
            try:
                await asyncio.wait_for(self._news.wait_for(lambda: self.sent > at or self.stopping), PULSE)
            except TimeoutError:
                return False
        return True

    async def dismiss(self) -> None:
        """Everybody who listens goes home."""
        self.stopping = True
        async with self._news:
            self._news.notify_all()

    async def close(self) -> None:
        """Nothing more is followed."""
        await self.dismiss()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self.queue.close()


# -- what has happened -----------------------------------------------------------------------------


#: So many lines are kept of each task, and of so many tasks; of others the newest is what counts.
LINES, TASKS = 200, 50_000


class Past:
    """The changelog of one queue as far as it has been read."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._begin()

    def _begin(self) -> None:
        self.history = History()
        #: How often each thing has happened.
        self.tally: Counter[str] = Counter()
        self._cursor = ""
        self._trails: dict[str, deque[Event]] = {}

    def read(self) -> Past:
        """All lines there are by now."""
        while True:
            try:
                events, self._cursor = self.queue.store.events(self._cursor)
            except CursorLost:
                self._begin()
                continue
            if not events:
                return self
            self.history.feed(events)
            for event in events:
                self.tally[event.did] += 1
                self._remember(event)

    def _remember(self, event: Event) -> None:
        trail = self._trails.pop(event.about, None) or deque(maxlen=LINES)
        trail.append(event)
        self._trails[event.about] = trail
        if len(self._trails) > TASKS:
            del self._trails[next(iter(self._trails))]

    def trail(self, task_id: str) -> list[Event]:
        """What happened to this task, oldest first."""
        return list(self._trails.get(task_id, ()))


# -- what all pages of one server share ------------------------------------------------------------


IDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class BoardThreads:
    """One thread has the board; another, with a queue of its own, does what people ask for."""

    def __init__(self, queue: Queue, hub: Hub, paper: Paper, worker: str, bring: Bring) -> None:
        self.queue = queue
        self.hub = hub
        self.paper = paper
        #: In whose name things are done here.
        self.worker = worker
        self.bring = bring
        self.past = Past(queue)
        self._thread = ThreadPoolExecutor(1, "desk")

    @property
    def largest_task(self) -> int:
        """The most bytes of one task."""
        return self.queue.config.largest_task

    async def dismiss(self) -> None:
        """Everybody who listens goes home."""
        await self.hub.dismiss()

    async def do(self, work: Callable[[], T]) -> T:
        """This, in the desk's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def write(self, request: Request, template: str, **values: object) -> str:
        """This page for the browser that asked."""
        facts = {"now": self.queue.clock.now(), "csrf": request.scope["csrf"], "needs_you": self.hub.needs_you}
        with suppress(OSError):
            facts["templates"] = templates(self.queue)
        return self.paper.write(template, **{**facts, **values})

    def task_id(self, text: str) -> str:
        """The id an address means; NotFound for what can be none."""
        if not IDS.fullmatch(text):
            raise NotFound("there is no such task", hint="The board shows what there is.")
        return self.queue.resolve(text)

    async def close(self) -> None:
        """Nothing more is done here."""
        await self.hub.close()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self.queue.close()
