"""Every queue of this user on one page, and the pages of each below an address of its own: /q/KEY/. Changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from taskpit.errors import NotFound
from taskpit.web.app import board_app, followed, static, told_by
from taskpit.web.html import Paper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TypeVar

    from starlette.requests import Request

    from taskpit.asgi_guard import Receive, Scope, Send
    from taskpit.board import Slip
    from taskpit.web.shared import Desk
    from taskpit.worker.user_queues import Glance, Queues

    T = TypeVar("T")

__all__ = ["Overview"]

#: So many running tasks of a queue are shown, and so many that need a person.
SHOWN = 8


class Overview:
    """All queues, looked at by one thread; each gets its own pages when somebody opens it."""

    largest_task = 0  # the usual

    def __init__(self, queues: Queues, open_desk: Callable[[str, Paper], Desk], *, read_only: bool) -> None:
        self._queues, self._open_desk, self._read_only = queues, open_desk, read_only
        self.paper = Paper(title="All queues", read_only=read_only)
        self._papers: dict[str, Paper] = {}
        self._desks: dict[str, Desk] = {}
        self._apps: dict[str, Starlette] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._thread = ThreadPoolExecutor(1, "queues")

    def app(self) -> Starlette:
        """The page of all queues, and below it those of each."""
        routes = [
            Route("/", self.page),
            Route("/queues", self.part),
            Route("/healthz", _healthz),
            Route("/static/{name:path}", static),
            Mount("/q/{key}", app=self._queue),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=told_by(self))

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self._stack:
            yield
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._queues.close()

    async def dismiss(self) -> None:
        """Everybody who listens to one of them goes home."""
        for desk in self._desks.values():
            await desk.hub.dismiss()

    # -- the page ----------------------------------------------------------------------------------

    def write(self, request: Request, template: str, **values: object) -> str:
        """This page for whoever asked."""
        return self.paper.write(template, **{"now": time.time(), "csrf": request.scope["csrf"], **values})

    async def page(self, request: Request) -> HTMLResponse:
        """All of them."""
        return HTMLResponse(self.write(request, "queues.html", page="queues", **await self._look()))

    async def part(self, request: Request) -> Response:
        """The part of it that changes; nothing if the browser has it."""
        values = await self._look()
        if request.query_params.get("seen") == values["seen"]:
            return Response(status_code=204)
        return HTMLResponse(self.write(request, "queues_part.html", **values))

    async def _look(self) -> dict[str, object]:
        found = await self._run(self._queues.look)
        word = hashlib.sha256(repr([one.as_dict() for one in found]).encode("utf-8", "replace")).hexdigest()
        counts = {name: sum(one.counts[name] for one in found) for name in ("needs_you", "running")}
        return {
            "queues": found,
            "seen": word[:16],
            "needs_you": counts["needs_you"],
            "running": counts["running"],
            "usd": sum(one.usd for one in found),
            "card": self._card,
            "most": SHOWN,
        }

    def _card(self, glance: Glance, slip: Slip) -> str:
        return self._paper(glance).card(slip, time.time(), still=True)

    def _paper(self, glance: Glance) -> Paper:
        if glance.key not in self._papers:
            self._papers[glance.key] = Paper(title=glance.name, read_only=self._read_only, root=f"/q/{glance.key}")
        return self._papers[glance.key]

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- each of them ------------------------------------------------------------------------------

    async def _queue(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The pages of one queue; it is opened when it is first asked for."""
        key = scope["path_params"]["key"]
        async with self._opening:
            if key not in self._apps:
                await self._open(key)
        await self._apps[key](scope, receive, send)

    async def _open(self, key: str) -> None:
        glance = next((one for one in await self._run(self._queues.look) if one.key == key), None)
        if glance is None:
            raise NotFound("there is no such queue", hint="The page of all queues shows which there are.")
        paper = self._paper(glance)
        desk = await self._run(lambda: self._open_desk(glance.path, paper))
        await self._stack.enter_async_context(followed(desk))
        self._desks[key], self._apps[key] = desk, board_app(desk)


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")
