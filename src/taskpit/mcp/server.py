"""The protocol: the desk's answers, resources and prompts as the official SDK serves them, to old and new clients.

Calls run in threads, since a queue's verbs touch the disk and a check may run for minutes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it comes with the SDK, without stubs
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler, ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from taskpit import __version__, errors
from taskpit.clock import Clock, iso, say_duration
from taskpit.errors import TaskpitError
from taskpit.events import new_events
from taskpit.mcp import tools
from taskpit.mcp.tools import ToolCalls, say_error
from taskpit.model import Card, Event, State
from taskpit.queue import Queue, cards, tally
from taskpit.status import summary
from taskpit.store.disk_errors import storage_error
from taskpit.store.http.guard import Guard, GuardRules, PageGuard
from taskpit.store.http.listening import LOOPBACK, listen
from taskpit.store.http.server import Server as HttpServer

Asked = ServerRequestContext[Any, Any]

#: The longest sleep, in seconds: what the store does not wake us for is sent after it.
LOOK_AGAIN = 1.0
#: Of so many lines, those that came while the first listener did are sent.
SOME = 1000
#: What makes the list of open tasks another one.
LISTED = ("added_task", "completed_task", "failed_task", "cancelled_task", "split_task", "reopened_task")


class Changes:
    """The SDK's fan-out, fed by the queue's changelog."""

    def __init__(self, open_queue: Callable[[], Queue], clock: Clock | None = None) -> None:
        self._open = open_queue
        self._clock = clock or Clock()
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._over = threading.Event()

    async def publish(self, event: ServerEvent) -> None:
        """Tell every listener."""
        self._deliver([event])

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a listener; the first one starts the watching, the last one to leave ends it."""
        if not self._listeners:
            self._over = threading.Event()
            begun = iso(self._clock.now())
            args = (self._over, asyncio.get_running_loop(), begun)
            threading.Thread(target=self._watch, args=args, daemon=True).start()
        key = object()
        self._listeners[key] = listener

        def leave() -> None:
            self._listeners.pop(key, None)
            if not self._listeners:
                self._over.set()

        return leave

    def _watch(self, over: threading.Event, loop: asyncio.AbstractEventLoop, begun: str) -> None:
        cursor: str | None = None
        while not over.is_set():
            try:
                queue = self._open()
                try:
                    if cursor is None:  # what was before anybody listened is nobody's news
                        events, cursor = queue.store.latest(SOME)
                        self._pass_on([event for event in events if event.timestamp >= begun], loop)
                    while not over.is_set():
                        events, cursor = new_events(queue.store, cursor)
                        self._pass_on(events, loop)
                        queue.store.wait(LOOK_AGAIN)
                finally:
                    queue.close()
            except RuntimeError:
                return  # the loop has ended
            except (TaskpitError, OSError):  # the queue is away, and calls say so: it goes on from where we were
                over.wait(LOOK_AGAIN)

    def _pass_on(self, events: Sequence[Event], loop: asyncio.AbstractEventLoop) -> None:
        if events:
            loop.call_soon_threadsafe(self._deliver, notices(events))

    def _deliver(self, news: Iterable[ServerEvent]) -> None:
        for event in news:
            for listener in list(self._listeners.values()):
                listener(event)


def notices(events: Iterable[Event]) -> list[ServerEvent]:
    """What clients are sent for these lines: each thing once."""
    events = list(events)
    tasks = dict.fromkeys(event.about for event in events if event.about)
    news: list[ServerEvent] = [ResourceUpdated(uri=task_uri(task_id)) for task_id in tasks]
    news.append(ResourceUpdated(uri=BOARD))
    if any(event.did in LISTED for event in events):
        news.append(ResourcesListChanged())
    return news


# -- the protocol ----------------------------------------------------------------------------------


#: At most so many open tasks are listed as resources; any other can be read by its id.
MOST_LISTED = 100
#: At most so many calls wait at once, each in a thread; more wait for those.
WAITERS = 200
MARKDOWN = "text/markdown"
PROMPTS = {
    "work": ("Work the next task", "Claim the next task, do it, prove it, finish it.", ()),
    "split": ("Split this task", "Replace a task by parts that can each be done in one sitting.", ("id",)),
}


class QueueServer:
    """One queue as an MCP server."""

    def __init__(self, desk: ToolCalls) -> None:
        self.desk = desk
        desk.is_over = _is_over
        self.changes = Changes(desk.fresh)
        self._old = _OldSubscriptions(self.changes)
        self._lines: dict[str, anyio.CapacityLimiter] = {}
        self._checks = {row.name: Draft202012Validator(tools.input_schema(row, desk.worker)) for row in tools.TOOLS}
        self.protocol: Server[Any] = Server(
            "taskpit",
            title="taskpit",
            version=__version__,
            instructions=tools.INSTRUCTIONS,
            get_tool_input_schema=self._schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._old.subscribe,
            on_unsubscribe_resource=self._old.unsubscribe,
            on_subscriptions_listen=ListenHandler(self.changes),
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    def options(self) -> InitializationOptions:
        """The first answer to old clients."""
        return self.protocol.create_initialization_options(NotificationOptions(resources_changed=True))

    # -- tools -------------------------------------------------------------------------------------

    def _schema(self, name: str) -> dict[str, Any] | None:
        row = tools.find(name)
        return tools.input_schema(row, self.desk.worker) if row else None

    async def _list_tools(self, _: Asked, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[self._tool(row) for row in tools.TOOLS])

    def _tool(self, row: tools.ToolRow) -> types.Tool:
        return types.Tool(
            name=row.name,
            description=row.about,
            input_schema=tools.input_schema(row, self.desk.worker),
            output_schema={"type": "object", "properties": dict(row.gives), "required": list(row.gives)},
            annotations=types.ToolAnnotations(  # what is so by default goes without saying
                read_only_hint=row.reads or None,
                destructive_hint=None if row.reads else False,
                idempotent_hint=row.repeats or None,
                open_world_hint=False,
            ),
        )

    async def _call_tool(self, _: Asked, params: types.CallToolRequestParams) -> types.CallToolResult:
        row = tools.find(params.name)
        if row is None:
            known = ", ".join(row.name for row in tools.TOOLS)
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are {known}")
        try:
            given = self._checked(row, params.arguments or {})
            facts = await _in_thread(self.desk.answer, row.name, given, apart=self._apart(row.name, given))
            if row.name == "claim" and anyio.current_effective_deadline() == -math.inf:  # nobody will hear of it
                with anyio.CancelScope(shield=True):
                    await _in_thread(self.desk.take_back, facts)
        except errors.TaskpitError as error:
            return types.CallToolResult(content=[_text(say_error(error))], is_error=True)
        text = _sound(json.dumps(facts, ensure_ascii=False, default=str))  # plain JSON, whatever stands in a task
        return types.CallToolResult(content=[_text(text)], structured_content=json.loads(text))

    def _apart(self, name: str, given: dict[str, Any]) -> anyio.CapacityLimiter | None:
        """Calls that may take long (for work to come, for a check) stand in lines of their own: all others go by."""
        if name != "done" and not given.get("wait_seconds"):
            return None
        return self._lines.setdefault(name, anyio.CapacityLimiter(WAITERS))

    def _checked(self, row: tools.ToolRow, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments; a number where a text should be is what it reads like, all else must fit."""
        given = {
            key: str(value) if isinstance(value, int) and row.takes.get(key, {}).get("type") == "string" else value
            for key, value in _whole(given).items()
        }
        wrong = [
            f"{''.join(f'{part}: ' for part in one.path)}{one.message}"
            for one in self._checks[row.name].iter_errors(given)
        ]
        if wrong:
            takes = ", ".join(name if name in row.needs else f"{name}?" for name in row.takes)
            raise errors.Invalid("; ".join(sorted(wrong))[:500], hint=f"`{row.name}` takes {takes}.")
        return given

    # -- resources ---------------------------------------------------------------------------------

    async def _list_resources(self, _: Asked, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        cards = await _read(partial(_open_cards, self.desk.queue))
        board = types.Resource(uri=BOARD, name="board", description="what is where", mime_type=MARKDOWN)
        tasks = [
            types.Resource(
                uri=task_uri(card.task.id), name=card.task.id, title=_sound(card.task.title), mime_type=MARKDOWN
            )
            for card in cards
        ]
        return types.ListResourcesResult(resources=[board, *tasks])

    async def _list_templates(
        self, _: Asked, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        task = types.ResourceTemplate(uri_template=TASK, name="task", description="one task", mime_type=MARKDOWN)
        return types.ListResourceTemplatesResult(resource_templates=[task])

    async def _read_resource(self, _: Asked, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        task_id = task_of(uri)
        if uri != BOARD and not task_id:
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri}; read {BOARD} or {TASK}")
        queue = self.desk.queue
        make = partial(task_text, queue, task_id) if task_id else partial(board_text, queue)
        contents = types.TextResourceContents(uri=uri, text=_sound(await _read(make)), mime_type=MARKDOWN)
        return types.ReadResourceResult(contents=[contents])

    # -- prompts -----------------------------------------------------------------------------------

    async def _list_prompts(self, _: Asked, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        prompts = []
        for name, (title, text, needs) in PROMPTS.items():
            asked = [types.PromptArgument(name=one, description="task id", required=True) for one in needs]
            asked.append(types.PromptArgument(name="worker", description="your name in the queue", required=False))
            prompts.append(types.Prompt(name=name, title=title, description=text, arguments=asked))
        return types.ListPromptsResult(prompts=prompts)

    async def _get_prompt(self, _: Asked, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name not in PROMPTS:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}; there are {', '.join(PROMPTS)}")
        given = params.arguments or {}
        worker = given.get("worker", self.desk.worker)
        make: Callable[[], str] = partial(_WORK.format, name=_name(worker))
        if params.name == "split":
            make = partial(split_prompt, self.desk.queue, given.get("id", ""), worker)
        message = types.PromptMessage(role="user", content=_text(await _read(make)))
        return types.GetPromptResult(description=PROMPTS[params.name][1], messages=[message])


class _OldSubscriptions:
    """`resources/subscribe` as clients before 2026-07-28 ask for it: on the one connection of standard input."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._leave: dict[tuple[ServerSession, str], Callable[[], None]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def subscribe(self, asked: Asked, params: types.SubscribeRequestParams) -> types.EmptyResult:
        if asked.request is not None:
            text = "over HTTP, changes are sent to clients of protocol 2026-07-28 (subscriptions/listen)"
            raise MCPError(types.INVALID_REQUEST, text)
        session, uri = asked.session, str(params.uri)

        def listener(event: ServerEvent) -> None:
            if isinstance(event, ResourceUpdated) and event.uri == uri:
                self._start(session.send_resource_updated(uri))

        if (session, uri) not in self._leave:
            self._leave[session, uri] = self._changes.subscribe(listener)
        return types.EmptyResult()

    async def unsubscribe(self, asked: Asked, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        leave = self._leave.pop((asked.session, str(params.uri)), None)
        if leave is not None:
            leave()
        return types.EmptyResult()

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


async def _in_thread(work: Callable[..., Any], *args: Any, apart: anyio.CapacityLimiter | None = None) -> Any:
    """What this answers; whatever goes wrong is a TaskpitError, since clients are told that in words."""
    try:
        return await anyio.to_thread.run_sync(work, *args, limiter=apart)
    except errors.TaskpitError:
        raise
    except OSError as error:
        raise storage_error(error) from error
    except Exception as error:
        text = f"something unexpected happened: {type(error).__name__}: {error}"
        raise errors.TaskpitError(
            text, hint="`pit show ID` says how a task stands; nothing acknowledged is lost."
        ) from error


def _is_over() -> bool:
    """Whether the call that this thread is to answer was cancelled, or its client has gone."""
    try:
        anyio.from_thread.check_cancelled()
    except asyncio.CancelledError:
        return True
    except RuntimeError:  # no thread of ours
        return False
    return False


async def _read(make: Callable[[], Any]) -> Any:
    """What this makes, in a thread; what goes wrong is said as the protocol has it."""
    try:
        return await _in_thread(make)
    except errors.TaskpitError as error:
        code = types.INVALID_PARAMS if isinstance(error, errors.NotFound | errors.Invalid) else types.INTERNAL_ERROR
        raise MCPError(code, _sound(say_error(error))) from error


def _whole(value: Any) -> Any:
    """The same with each number that is whole as an int: to a schema 5.0 is one, to a task it is not."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _open_cards(queue: Queue) -> list[Card]:
    pages = [queue.store.page(state, "", MOST_LISTED) for state in (State.CLAIMED, State.READY)]
    return [card for page in pages for card in page.cards][:MOST_LISTED]


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=_sound(text))


def _sound(text: str) -> str:
    """The text as every client can read it: a mailbox's JSON may have half a letter, which UTF-8 has not."""
    return text.encode("utf-8", "replace").decode()


# -- how clients reach the server ------------------------------------------------------------------


PATH = "/mcp"
#: A task's text and a result must fit; nothing larger is read.
LARGEST_BODY = 4 * 1024 * 1024


def serve_stdio(server: QueueServer) -> None:
    """Speak with the one client that started us, until it closes our input.

    Who asks by the new protocol, loses patience while a busy machine starts us and then begins by the old one on the
    same pipe begins a talk of its own: the SDK holds a talk to what it was opened with, and would refuse that.
    """
    _quiet()

    async def run() -> None:
        async with stdio_server() as (reader, writer), writer, anyio.create_task_group() as talks:
            opened, feed = "", None
            async for message in reader:
                method = _request(message)
                if feed is not None and method == "initialize" and opened not in ("", "initialize"):
                    feed.close()
                    opened, feed = "", None
                if feed is None:
                    feed, talk = anyio.create_memory_object_stream[Any]()
                    talks.start_soon(server.protocol.run, talk, writer.clone(), server.options())
                opened = opened or method
                await feed.send(message)
            if feed is not None:
                feed.close()

    anyio.run(run)


def _request(message: object) -> str:
    """The method of a request; empty for anything else."""
    asked = message.message if isinstance(message, SessionMessage) else None
    return asked.method if isinstance(asked, types.JSONRPCRequest) else ""


def http_app(server: QueueServer, rules: GuardRules) -> Guard:
    """The server as an ASGI application: the guard, then the protocol, which remembers nothing between requests."""
    inner = server.protocol.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=rules.largest_body,
        # The guard has looked at Host and Origin already, by the names it was given.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return PageGuard(inner, rules)


def serve_http(
    server: QueueServer, ready: Callable[[str], None], token: str, host: str, port: int, names: Sequence[str]
) -> None:
    """Serve until interrupted; `ready` is given the address with its token once connections are accepted.

    Port 0 is any that is free; `names` are further ones that the server is reached by.
    """
    _quiet()
    shown = f"[{host}]" if ":" in host else host
    known = tuple(dict.fromkeys((*LOOPBACK, shown.lower(), *(name.lower() for name in names))))
    app = http_app(server, GuardRules(token=token, hosts=known, largest_body=LARGEST_BODY))
    listening = listen(host, [port])
    address = f"http://{shown}:{listening.getsockname()[1]}{PATH}?token={token}"
    HttpServer(app, listening).serve_until_stopped(lambda: ready(address))


def _quiet() -> None:
    """Only what needs a person's attention is written to standard error."""
    for name in ("mcp", "anyio", "uvicorn", "httpx2"):
        logger: Any = logging.getLogger(name)
        logger.setLevel(logging.WARNING)


# -- resources and prompts -------------------------------------------------------------------------

BOARD = "pit://board"
TASK = "pit://task/{id}"
_PREFIX = "pit://task/"
#: How many tasks of each kind the board shows.
ROWS = 20


def task_uri(task_id: str) -> str:
    """Where a task is read."""
    return _PREFIX + task_id


def task_of(uri: str) -> str:
    """The id in such an address; empty if it is none."""
    return uri.removeprefix(_PREFIX) if uri.startswith(_PREFIX) else ""


def board_text(queue: Queue) -> str:
    """How many tasks are where; who does what; what is next; what waits and why."""
    lines = ["# Board", "", summary(tally(queue.store))]
    paused = queue.store.paused()
    if paused:
        lines += ["", f"The queue is {paused}."]
    now = queue.clock.now()
    sections = (
        ("In work", queue.store.page(State.CLAIMED, "", ROWS + 1).cards),
        ("Next", _some(card for card in cards(queue.store, State.READY) if not card.held)),
        ("Held", _some(card for card in cards(queue.store, State.READY, tied=True) if card.held)),
        ("Failed", queue.store.page(State.FAILED, "", ROWS + 1).cards),
    )
    for title, rows in sections:
        if rows:
            lines += ["", f"## {title}", "", *(_row(card, now) for card in rows[:ROWS])]
            lines += ["- …"] if len(rows) > ROWS else []
    return "\n".join(lines) + "\n"


def _some(found: Iterable[Card]) -> tuple[Card, ...]:
    """As many as are shown, and one more."""
    return tuple(islice(found, ROWS + 1))


def _row(card: Card, now: float) -> str:
    text = f"- {card.task.id} {' '.join((card.task.title or card.task.slug).split())}"
    if card.state is State.CLAIMED:
        return f"{text} ({card.worker}, last sign {say_duration(now - card.since)} ago)"
    return f"{text} ({card.held})" if card.held else text


def task_text(queue: Queue, task_id: str) -> str:
    """The task with its result, why it is where it is, and its notes."""
    card = queue.card(queue.resolve(task_id))
    task = card.task
    facts = [("id", task.id), ("state", str(card.state)), ("check", task.check), ("needs", ", ".join(task.needs))]
    facts += [("priority", str(task.priority or "")), ("tags", ", ".join(task.tags)), ("parent", task.parent)]
    facts += [("added by", task.by), ("created", iso(task.created) if task.created else "")]
    lines = [f"# {task.title}", "", *(f"- {key}: {value}" for key, value in facts if value)]
    result = card.result
    sections = [
        ("", task.body),
        ("Why it is where it is", "\n".join(queue.why(task.id))),
        ("Result", f"{result.verdict} by {result.worker}: {result.reason}\n\n{result.output}" if result else ""),
        ("Notes", card.notes),
    ]
    for title, text in sections:
        if text.strip():
            lines += ["", *([f"## {title}", ""] if title else []), text.strip("\n")]
    return "\n".join(lines) + "\n"


_WORK = """\
Work the next task of the queue. As `worker` use {name}.

1. `claim` a task. If `task` is null, say so and stop.
2. Do exactly what its title and body ask. If it has a `last_error` it was tried before: find out why that failed
   and do it differently. `renew` well before `lease_seconds` are over. If that says the task is no longer yours,
   or `stop`, stop working on it.
3. Run its `check` yourself if it has one, then `done` with a short `result`: what you did and what you found.
   If the check is red the task is still yours: mend it and repeat.
4. Can't finish? `give_back`: fail with the reason, release, or split if it is several tasks.
   A person must decide? `note` with ask=true and one clear question.
"""
_SPLIT = """\
Split the task below into parts that one agent can each finish and prove in one sitting. As `worker` use {name}.

`claim` it by its id unless you have it, then `give_back` with how=split and `parts`: each with a title, a body
that stands alone, a `check` command where one can prove it, `touches` for the paths it changes, and `after` for
the positions of earlier parts it needs. Parts that touch different paths can run side by side. The task comes back
when all parts are done, and what needs it waits until then; with wait=false it is done at once.
"""


def split_prompt(queue: Queue, task_id: str, worker: str) -> str:
    """How to split this task."""
    if not task_id:
        raise errors.Invalid("say which task is to be split", hint="Give its `id`.")
    return f"{_SPLIT.format(name=_name(worker))}\n{task_text(queue, task_id)}"


def _name(worker: str) -> str:
    return f"`{worker}`" if worker else "a name of your own, the same in every call"
