"""Which address means what: pages, forms, streams, and what is said when something goes wrong. Behind the guard; knows
no socket.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from taskpit import errors
from taskpit.actions import ACTIONS, a_priority, edit, undo
from taskpit.board import Slip
from taskpit.crew.log_tail import StoredLog, Tail, log_of_agent, log_of_task
from taskpit.errors import Conflict, Invalid, NotFound, TaskpitError
from taskpit.model import Task
from taskpit.run.user_queues import Glance, Queues
from taskpit.store.http.guard import Guard, GuardRules, PageGuard
from taskpit.task_templates import put_filled
from taskpit.text import words_in
from taskpit.web.crew import CrewPages
from taskpit.web.html import STATIC, Paper, mark_of
from taskpit.web.pages import Pages
from taskpit.web.shared import BoardThreads

T = TypeVar("T")


class Writer(Protocol):
    """A thing that writes pages."""

    paper: Paper

    def write(self, request: Request, template: str, **values: object) -> str:
        """This page for the browser that asked."""
        ...


#: What an error is in HTTP, the nearest first.
STATUS = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.TooLarge, 413),
    (errors.Invalid, 400),
    (errors.Untrusted, 403),
    (errors.Denied, 403),
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


def guarded(app: ASGIApp, rules: GuardRules) -> Guard:
    """The whole application, guarded. What anybody may read who calls us by our name: our own files, how it is."""
    return PageGuard(app, rules.replace(public=("/healthz", "/static/"), door=DOOR))


def board_app(desk: BoardThreads) -> Starlette:
    """The pages of one queue, unguarded."""
    pages, crew, actions, streams = Pages(desk), CrewPages(desk), Actions(desk), Streams(desk)

    async def healthz(_: Request) -> Response:
        well = not await desk.hub.health()
        return PlainTextResponse("ok\n" if well else "the queue cannot be read\n", 200 if well else 503)

    routes = [
        Route("/", pages.board),
        Route("/columns", partial(pages.board, template="columns.html")),
        Route("/column/{name}", pages.column),
        Route("/events", streams.board),
        Route("/search", pages.search),
        Route("/task/{id}", pages.task),
        Route("/task/{id}/part", partial(pages.task, template="task_part.html")),
        Route("/task/{id}/events", streams.task),
        Route("/task/{id}/{verb}", actions.act, methods=["POST"]),
        Route("/tasks", actions.add, methods=["POST"]),
        Route("/files", actions.file, methods=["POST"]),
        Route("/undo", actions.undo, methods=["POST"]),
        Route("/template/{name}", pages.template),
        Route("/template/{name}", actions.add_from, methods=["POST"]),
        Route("/agents", crew.agents),
        Route("/agents/part", partial(crew.agents, template="agents_part.html")),
        Route("/agent/{name}", crew.log),
        Route("/agent/{name}/events", streams.agent),
        Route("/report", pages.report),
        Route("/plots", crew.plots),
        Route("/metrics", crew.metrics),
        Route("/healthz", healthz),
        Route("/static/{name:path}", static),
    ]

    return Starlette(routes=routes, lifespan=lambda _: followed(desk), exception_handlers=error_handlers(desk))


@asynccontextmanager
async def followed(desk: BoardThreads) -> AsyncIterator[None]:
    """The queue's board is read and followed meanwhile; then everything of it is closed."""
    following = asyncio.create_task(desk.hub.follow())
    yield
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    await desk.close()


def error_handlers(desk: Writer) -> dict[Any, Any]:
    """What went wrong, as the caller can use it: a page that this desk writes, a part of one, or JSON."""

    def answer(request: Request, error: Exception) -> Response:
        status, code, text, hint = _describe(error)
        values = {"told": text, "hint": hint, "good": False, "link": "", "undoable": False}
        if "hx-request" in request.headers:
            return HTMLResponse(desk.paper.write("toast.html", **values), status)
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(desk.write(request, "error.html", page="", **values), status)
        return JSONResponse({"schema": 1, "ok": False, "error": {"code": code, "message": text, "hint": hint}}, status)

    return dict.fromkeys((errors.TaskpitError, OSError, HTTPException), answer)


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
    """All queues, looked at by one thread; each gets its own pages when it is opened."""

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

        async def healthz(_: Request) -> Response:
            return PlainTextResponse("ok\n")

        routes = [
            Route("/", self.page),
            Route("/queues", self.part),
            Route("/healthz", healthz),
            Route("/static/{name:path}", static),
            Mount("/q/{key}", app=self._queue),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=error_handlers(self))

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
        """This page for the browser that asked."""
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


# -- what people do --------------------------------------------------------------------------------

Form = dict[str, str]

#: What can be done to a task here, by the word in the address, and what that is called in `actions`.
VERBS = {
    **{name: name for name in ("answer", "unblock", "retry", "block", "priority", "cancel", "note", "tell")},
    **{name: name for name in ("approve", "send_back", "take_over")},
    "release": "take_back",
}
#: The field of a form that says more, where that is not `text`.
FIELD = {"priority": "priority", "approve": "commit"}
#: A form of ours has few fields.
FIELDS = 50


class Actions:
    """The things that change something. Each answers with a word for the person who did it."""

    def __init__(self, desk: BoardThreads) -> None:
        self.desk = desk

    async def act(self, request: Request) -> Response:
        """One of these verbs on one task."""
        desk, verb, form = self.desk, request.path_params["verb"], await _form(request)

        def work() -> tuple[str, str, bool]:
            task_id = desk.task_id(request.path_params["id"])
            if verb == "edit":
                return task_id, self._edit(task_id, form), True
            if verb not in VERBS:
                raise NotFound("there is no such action")
            action = ACTIONS[VERBS[verb]]
            text = action.do(desk.queue, task_id, desk.worker, form.get(FIELD.get(verb, "text"), ""))
            action.begin_rest(desk.queue, task_id, desk.worker)
            return task_id, text, action.undoable

        task_id, text, undoable = await self.desk.do(work)
        return self._said(request, text, self.desk.paper.link(task_id), undoable=undoable)

    async def undo(self, request: Request) -> Response:
        """The last thing that was done on this board is taken back."""
        task_id, text = await self.desk.do(lambda: undo(self.desk.queue, self.desk.worker))
        return self._said(request, text, self.desk.paper.link(task_id))

    async def add(self, request: Request) -> Response:
        """A task from the form."""
        desk, form = self.desk, await _form(request)
        task_id = await desk.do(lambda: desk.queue.put([Task(id="", by=desk.worker, **self._fields(form))])[0][0])
        return self._said(request, f"{task_id} is added", self.desk.paper.link(task_id), undoable=True)

    async def add_from(self, request: Request) -> Response:
        """The tasks of a template, with the fields of the form."""
        name, form = request.path_params["name"], await _form(request)
        given = [f"{key}={value}" for key, value in form.items() if key != "csrf" and value.strip()]
        desk = self.desk
        tasks, _ = await desk.do(lambda: put_filled(desk.queue, name, given, lambda task: task.replace(by=desk.worker)))
        ids = ", ".join(task.id for task in tasks)
        return self._said(request, f"{ids} {'are' if len(tasks) > 1 else 'is'} added", desk.paper.link(tasks[0].id))

    async def file(self, request: Request) -> Response:
        """The tasks of one file that was dropped on the page; it is all of them or none."""
        name, data = request.query_params.get("name", "")[:255], await request.body()
        name = name.replace("\\", "/").rpartition("/")[2]
        ids = await self.desk.do(lambda: self.desk.bring(self.desk.queue, name, data))
        shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        return self._said(
            request, f"{name}: {shown} {'are' if len(ids) > 1 else 'is'} added" if ids else f"{name}: nothing new", ""
        )

    def _said(self, request: Request, text: str, then: str, *, undoable: bool = False) -> Response:
        if "hx-request" in request.headers:
            values = {"told": text, "hint": "", "good": True, "link": then, "undoable": undoable}
            return HTMLResponse(self.desk.paper.write("toast.html", **values))
        return RedirectResponse(then or f"{self.desk.paper.root}/", status_code=303)

    # -- the verbs, in the desk's thread -----------------------------------------------------------

    def _edit(self, task_id: str, form: Form) -> str:
        """What the form says instead of what was there; refused if the task was changed since the form was shown."""
        fields = self._fields(form)

        def change(task: Task) -> Task:
            if form.get("was") and form["was"] != mark_of(task):
                hint = "Your text is still in the form: copy it, load the page again, then edit."
                raise Conflict(f"{task_id} was changed meanwhile", hint=hint)
            return task.replace(**fields)

        return edit(self.desk.queue, task_id, self.desk.worker, change)

    def _fields(self, form: Form) -> dict[str, Any]:
        """What a form says of a task."""
        title = " ".join(form.get("title", "").split())
        if not title:
            raise Invalid("a task needs a title")
        return {
            "title": title,
            "body": form.get("body", ""),
            "check": form.get("check", "").strip(),
            "priority": a_priority(form.get("priority", "")),
            "tags": words_in(form.get("tags", "")),
            "needs": tuple(self.desk.task_id(word) for word in words_in(form.get("needs", ""))),
        }


async def _form(request: Request) -> Form:
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError:
        raise Invalid("the form was not understood: load the page again") from None
    return {key: value.replace("\r\n", "\n") for key, value in pairs}


# -- streams ---------------------------------------------------------------------------------------

#: How often a log is looked at while it is read, in seconds; and after how many looks without news a sign
#: of life is given.
LOOK_AGAIN, QUIET = 0.5, 30
HEAD = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


class Stream:
    """An answer that goes on until its source ends or the caller is gone; the source is closed at once then."""

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

    async def _log(self, find: Callable[[], str | StoredLog], task_id: str = "") -> AsyncGenerator[bytes]:
        """A log as it grows, another one if there is another by now; and when this task changes."""
        hub, reader, quiet = self.desk.hub, _Reader(find), 0
        at = hub.sent
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

    def __init__(self, find: Callable[[], str | StoredLog]) -> None:
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
