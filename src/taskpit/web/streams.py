"""What is told as it happens, as server-sent events: the board's changes, a task's, a log as it grows."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress

from taskpit.crew.log_tail import Tail, log_of_agent, log_of_task
from taskpit.errors import TaskpitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from starlette.requests import Request

    from taskpit.asgi_guard import Receive, Scope, Send
    from taskpit.web.shared import BoardThreads

__all__ = ["Streams"]

#: How often a log is looked at while somebody reads it, in seconds; and after how many looks without news a sign
#: of life is given.
LOOK_AGAIN, QUIET = 0.5, 30
HEAD = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


class Stream:
    """An answer that goes on until its source ends or whoever asked is gone; the source is closed at once then."""

    def __init__(self, source: AsyncGenerator[bytes]) -> None:
        self._source = source

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        telling, gone = asyncio.create_task(self._tell(send)), asyncio.create_task(_hang_up(receive))
        try:
            await asyncio.wait({telling, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            telling.cancel()
            gone.cancel()
            await asyncio.gather(telling, gone, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        async with aclosing(self._source) as source:
            await send({"type": "http.response.start", "status": 200, "headers": HEAD})
            async for message in source:
                await send({"type": "http.response.body", "body": message, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Streams:
    """The streams of one server."""

    def __init__(self, desk: BoardThreads) -> None:
        self.desk = desk

    async def board(self, request: Request) -> Stream:
        """Every change of the board after a place."""
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return Stream(self.desk.hub.messages(after[:100]))

    async def task(self, request: Request) -> Stream:
        """That this task has changed, and what its log says."""
        desk, word = self.desk, request.path_params["id"]
        task_id = await desk.do(lambda: desk.task_id(word))
        return Stream(self._log(lambda: log_of_task(desk.queue.store, desk.queue.card(task_id)), task_id))

    async def agent(self, request: Request) -> Stream:
        """What one of the crew prints."""
        desk, name = self.desk, request.path_params["name"]
        await desk.do(lambda: log_of_agent(desk.queue.store, name))
        return Stream(self._log(lambda: log_of_agent(desk.queue.store, name)))

    async def _log(self, find: Callable[[], str], task_id: str = "") -> AsyncGenerator[bytes]:
        """A log as it grows, another one if there is another by now; and when this task changes."""
        hub, reader, quiet = self.desk.hub, _Reader(find), 0
        at = hub.told
        with hub.listening():
            while not hub.stopping:
                changed, at = hub.touched(task_id, at) if task_id else (False, at)
                fresh, text = await self.desk.do(reader.more)
                if changed:
                    yield b"event: changed\ndata: {}\n\n"
                if fresh or text:
                    yield f"event: log\ndata: {json.dumps({'fresh': fresh, 'text': text})}\n\n".encode()
                quiet = 0 if text or changed else quiet + 1
                if quiet % QUIET == 1:
                    yield b": still here\n\n"
                await asyncio.sleep(LOOK_AGAIN)


class _Reader:
    """The log that is the right one at the moment."""

    def __init__(self, find: Callable[[], str]) -> None:
        self._find = find
        self._tail: Tail | None = None

    def more(self) -> tuple[bool, str]:
        """Whether it is another log than before, and what it says that was not read yet."""
        with suppress(TaskpitError, OSError):
            path = self._find()
            if path and (self._tail is None or self._tail.path != path):
                self._tail = Tail(path)
                return True, self._tail.more()
        return False, self._tail.more() if self._tail else ""
