"""Which address means what, and what is said when something goes wrong. Behind the guard; knows no socket."""

from __future__ import annotations

import asyncio
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from taskpit import errors
from taskpit.asgi_guard import Guard
from taskpit.errors import NotFound
from taskpit.web.actions import Actions
from taskpit.web.crew import CrewPages
from taskpit.web.html import STATIC, Paper
from taskpit.web.pages import Pages
from taskpit.web.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any, Protocol, TypeVar

    from starlette.requests import Request

    from taskpit.asgi_guard import App, GuardRules, Receive, Scope, Send
    from taskpit.board import Slip
    from taskpit.web.shared import BoardThreads
    from taskpit.worker.user_queues import Glance, Queues

    class Writer(Protocol):
        """Whoever writes pages."""

        paper: Paper

        def write(self, request: Request, template: str, **values: object) -> str:
            """This page for whoever asked."""
            ...

    T = TypeVar("T")

__all__ = ["QueuesPages", "board_app", "followed", "guarded", "static", "told_by"]

#: What an error is in HTTP, the nearest first.
STATUS = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.TooLarge, 413),
    (errors.Invalid, 400),
    (errors.Untrusted, 403),
    (errors.Nothing, 409),
    (errors.Lost, 409),
    (errors.Storage, 503),
)
#: What a browser gets before it has shown that it may see more; see static/door.js.
DOOR = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>taskpit</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml"><script src="/static/door.js" defer></script></head>
<body><p id="told" hidden>{told}</p><noscript>The board needs JavaScript.</noscript></body></html>
"""
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}


def guarded(app: App, rules: GuardRules) -> App:
    """The whole application, guarded. What anybody may read who calls us by our name: our own files, how it is."""
    return Guard(app, rules.replace(public=("/healthz", "/static/"), door=DOOR))


def board_app(desk: BoardThreads) -> Starlette:
    """The pages of one queue, unguarded."""
    pages, crew, actions, streams = Pages(desk), CrewPages(desk), Actions(desk), Streams(desk)

    async def healthz(_: Request) -> Response:
        well = not desk.hub.trouble
        return PlainTextResponse("ok\n" if well else "the queue cannot be read\n", 200 if well else 503)

    routes = [
        Route("/", pages.board),
        Route("/columns", pages.columns),
        Route("/column/{name}", pages.column),
        Route("/events", streams.board),
        Route("/search", pages.search),
        Route("/task/{id}", pages.task),
        Route("/task/{id}/part", pages.task_part),
        Route("/task/{id}/events", streams.task),
        Route("/task/{id}/{verb}", actions.act, methods=["POST"]),
        Route("/tasks", actions.add, methods=["POST"]),
        Route("/files", actions.file, methods=["POST"]),
        Route("/undo", actions.undo, methods=["POST"]),
        Route("/template/{name}", pages.template),
        Route("/template/{name}", actions.add_from, methods=["POST"]),
        Route("/agents", crew.agents),
        Route("/agents/part", crew.agents_part),
        Route("/agent/{name}", crew.log),
        Route("/agent/{name}/events", streams.agent),
        Route("/report", pages.report),
        Route("/plots", crew.plots),
        Route("/metrics", crew.metrics),
        Route("/healthz", healthz),
        Route("/static/{name:path}", static),
    ]

    return Starlette(routes=routes, lifespan=lambda _: followed(desk), exception_handlers=told_by(desk))


@asynccontextmanager
async def followed(desk: BoardThreads) -> AsyncIterator[None]:
    """The queue's board is read and followed meanwhile; then everything of it is closed."""
    following = asyncio.create_task(desk.hub.follow())
    yield
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    await desk.close()


def told_by(desk: Writer) -> dict[Any, Any]:
    """What is said when something goes wrong, on pages that this desk writes."""
    return dict.fromkeys((errors.TaskpitError, OSError, HTTPException), _told(desk))


def _told(desk: Writer) -> Callable[[Request, Exception], Response]:
    """What went wrong, as whoever asked can use it: a page, a part of one, or JSON."""

    def answer(request: Request, error: Exception) -> Response:
        status, code, told, hint = _describe(error)
        values = {"told": told, "hint": hint, "good": False, "link": "", "undoable": False}
        if "hx-request" in request.headers:
            return HTMLResponse(desk.paper.write("toast.html", **values), status)
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(desk.write(request, "error.html", page="", **values), status)
        return JSONResponse({"schema": 1, "ok": False, "error": {"code": code, "message": told, "hint": hint}}, status)

    return answer


def _describe(error: Exception) -> tuple[int, str, str, str]:
    if isinstance(error, HTTPException):
        return error.status_code, "http", f"{error.detail}.", ""
    if isinstance(error, errors.TaskpitError):
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
        return status, error.code, error.message, error.hint
    return 503, "storage", f"The queue cannot be used: {error}", "Look at the disk, then load the page again."


async def static(request: Request) -> Response:
    """A file of ours."""
    found = STATIC.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such file")
    data, kind, word = found
    lasting = request.query_params.get("v") == word
    return Response(data, headers={"content-type": kind, **(FOR_EVER if lasting else {})})


# -- every queue of this user on one page ----------------------------------------------------------


#: So many running tasks of a queue are shown, and so many that need a person.
SHOWN = 8


class QueuesPages:
    """All queues, looked at by one thread; each gets its own pages when somebody opens it."""

    largest_task = 0  # the usual

    def __init__(self, queues: Queues, open_desk: Callable[[str, Paper], BoardThreads], *, read_only: bool) -> None:
        self._queues, self._open_desk, self._read_only = queues, open_desk, read_only
        self.paper = Paper(title="All queues", read_only=read_only)
        self._papers: dict[str, Paper] = {}
        self._desks: dict[str, BoardThreads] = {}
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
