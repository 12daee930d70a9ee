"""What is shown: the board and its columns, a task, what was found. Reads, changes nothing."""

from __future__ import annotations

import json
from bisect import bisect_right

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from taskpit.board import COLUMNS, Board, Slip
from taskpit.crew.log_tail import log_of_task
from taskpit.errors import Invalid, NotFound, TaskpitError
from taskpit.landing import review
from taskpit.landing.diff import FilePatch, read_hunks
from taskpit.landing.values import CANDIDATE, HandIn
from taskpit.model import Card, State, Value
from taskpit.policy import REVIEW, question_of
from taskpit.queue import Queue
from taskpit.report import LANDED, PARTS, make_report
from taskpit.run.budget import Ledger
from taskpit.search import search
from taskpit.status import status_of
from taskpit.task_templates import template
from taskpit.web import charts
from taskpit.web.html import coloured, place_of
from taskpit.web.shared import BoardThreads

#: So many rows of a diff are on a page.
MOST = 3000


class Shown(Value, frozen=True, kw_only=True):
    """A candidate on a page."""

    #: Its whole name; empty if it cannot be shown, and then why.
    commit: str = ""
    trouble: str = ""
    #: Whether it waits for a person's word here.
    waits: bool = False
    #: What was handed in with it; a change that has landed has its result instead.
    handed: HandIn | None = None
    parts: tuple[tuple[FilePatch, list[Markup]], ...] = ()

    @property
    def added(self) -> int:
        """Lines that are new."""
        return sum(part.added for part, _ in self.parts)

    @property
    def removed(self) -> int:
        """Lines that are gone."""
        return sum(part.removed for part, _ in self.parts)


def change_of(queue: Queue, card: Card) -> Shown | None:
    """What its agent changed, while that waits and once it has landed; None if there is nothing of the kind."""
    waits = CANDIDATE in card.task.extra and card.state is State.READY
    landed = card.state is State.DONE and card.result is not None and bool(LANDED.search(card.result.reason))
    if not waits and not landed:
        return None
    handed = None
    try:
        if waits:
            pipe, handed = review.find(queue, card.task.id)
            base, commit = handed.base, handed.commit
        else:
            pipe, base, commit = review.candidate(queue, card.task.id)
        parts = read_hunks(review.diff(pipe, base, commit), MOST)
    except (TaskpitError, OSError) as error:
        return Shown(trouble=str(error)) if waits else None
    asked = card.task.hold.startswith(REVIEW)
    return Shown(commit=commit, waits=asked, handed=handed, parts=tuple((part, coloured(part)) for part in parts))


# -- what is shown ---------------------------------------------------------------------------------


#: So many slips of a column are sent at once; more come as the reader scrolls.
WINDOW = 50
#: The hours that a report can be asked for with a click.
SPANS = {8: "8 hours", 24: "24 hours", 72: "3 days", 168: "7 days"}
#: So many things that were found are shown.
FOUND = 100


class Pile(Value, frozen=True, kw_only=True):
    """The part of a column that is shown."""

    name: str
    slips: tuple[Slip, ...] = ()
    #: Where to go on, empty if that was all.
    after: str = ""


def pile(board: Board, name: str, words: list[str], after: tuple[object, ...] | None = None) -> Pile:
    """The next slips of this column with all of these words."""
    slips = board.column(name)
    try:
        start = bisect_right(slips, after, key=lambda slip: slip.place) if after is not None else 0
    except TypeError:
        raise Invalid("that is no place in this column") from None
    shown: list[Slip] = []
    for slip in slips[start:]:
        if not words or slip.mentions(words):
            if len(shown) == WINDOW:
                return Pile(name=name, slips=tuple(shown), after=place_of(shown[-1]))
            shown.append(slip)
    return Pile(name=name, slips=tuple(shown))


class Pages:
    """The pages of one server."""

    def __init__(self, desk: BoardThreads) -> None:
        self.desk = desk

    def _page(self, request: Request, template: str, place: str = "", /, **values: object) -> HTMLResponse:
        """The answer; `place` is how far the stream was when it was read, so that what came since is not lost."""
        text = self.desk.write(request, template, place=place, **values)
        return HTMLResponse(text, headers={"x-place": place} if place else None)

    # -- the board ---------------------------------------------------------------------------------

    async def board(self, request: Request, template: str = "board.html") -> HTMLResponse:
        """All columns, with what is around them or without."""
        hub, text = self.desk.hub, request.query_params.get("q", "")[:200]
        if not await hub.is_read():  # it is shown at once, and filled when the board has been read
            piles, counts = [Pile(name=name) for name in COLUMNS], dict.fromkeys(COLUMNS, "")
            message = hub.trouble or "Reading the queue …"
            values = {"q": text, "piles": piles, "counts": counts, "paused": "", "reading": True, "first": False}
            return self._page(request, template, page="board", trouble=message, **values)
        place, words = hub.place, text.casefold().split()

        def read(board: Board) -> dict[str, object]:
            return {
                "piles": [pile(board, name, words) for name in COLUMNS],
                "counts": dict(board.counts),
                "paused": board.paused,
                "reading": False,
                "first": not any(board.counts.values()),
            }

        values = await hub.look(read)
        return self._page(request, template, place, page="board", q=text, trouble=hub.trouble, **values)

    async def column(self, request: Request) -> HTMLResponse:
        """More of one column."""
        name, text = request.path_params["name"], request.query_params.get("q", "")[:200]
        if name not in COLUMNS:
            raise NotFound("there is no such column")
        after, place = _place(request.query_params.get("after", "")), self.desk.hub.place
        found = await self.desk.hub.look(lambda board: pile(board, name, text.casefold().split(), after))
        return self._page(request, "more.html", place, pile=found, q=text)

    async def report(self, request: Request) -> HTMLResponse:
        """What happened since yesterday, or in the last so many hours."""
        hours = request.query_params.get("hours", "24")
        if not (hours.isascii() and hours.isdecimal() and 0 < int(hours[:6]) <= 9000):
            raise Invalid("hours is a number from 1 to 9000")
        queue = self.desk.queue
        since, root = queue.clock.now() - int(hours) * 3600.0, queue.store.info().papers
        ledger = Ledger(root) if root else None
        spent = (ledger.since(since), ledger.unknown(since)) if ledger else ()
        found = await self.desk.do(lambda: make_report(queue, since, *spent))
        return self._page(
            request, "report.html", page="report", report=found, parts=PARTS, hours=int(hours), spans=SPANS
        )

    # -- a task ------------------------------------------------------------------------------------

    async def task(self, request: Request, template: str = "task.html") -> HTMLResponse:
        """All about one task, or the part of it that changes."""
        desk, word = self.desk, request.path_params["id"]

        def read() -> dict[str, object]:
            task_id = desk.task_id(word)
            card = desk.queue.card(task_id)
            return {
                "card": card,
                "task": card.task,
                "why": desk.queue.why(task_id),
                "trail": desk.past.read().trail(task_id),
                "log": bool(log_of_task(desk.queue.store, card)),
                "column": str(status_of(card)),
                "question": question_of(card.task),
                "change": change_of(desk.queue, card),
            }

        values = await desk.do(read)
        task_id = values["task"].id  # type: ignore[attr-defined]

        def relatives(board: Board) -> dict[str, object]:
            found = charts.kin(task_id, board.slips)
            parts = [slip for slip in board.slips.values() if slip.parent == task_id]
            return {
                "graph": charts.draw(task_id, found, board.slips, desk.paper.link),
                "more": found.more,
                "parts": parts,
            }

        return self._page(request, template, page="task", **values, **await desk.hub.look(relatives))

    async def template(self, request: Request) -> HTMLResponse:
        """What a template makes, and a form for its fields."""
        name = request.path_params["name"]
        recipe = await self.desk.do(lambda: template(self.desk.queue, name))
        return self._page(request, "template.html", page="template", recipe=recipe)

    # -- finding -----------------------------------------------------------------------------------

    async def search(self, request: Request) -> HTMLResponse:
        """What was found, in all that tasks say."""
        text = request.query_params.get("q", "").strip()[:200]
        hits = await self.desk.do(lambda: search(self.desk.queue, text, FOUND)) if text else []
        return self._page(request, "search.html", page="search", q=text, hits=hits, most=FOUND)


def _place(text: str) -> tuple[object, ...]:
    """A place in a column, as a browser says it."""
    try:
        value = json.loads(text) if len(text) < 2000 else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise Invalid("that is no place in a column")
    return tuple(value)
