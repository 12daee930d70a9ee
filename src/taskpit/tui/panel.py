"""Below the columns: the task that is picked, its log, the changelog, the crew. Shows values, asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Log, Markdown, Static

from taskpit.clock import say_duration
from taskpit.crew.status import MemberRow
from taskpit.explain import ending, facts, tries
from taskpit.history import who
from taskpit.model import Card, Event, State
from taskpit.status import status_of
from taskpit.text import one_line, plain, revealed
from taskpit.tui.drawing import HEAD, cut

#: Longer texts are shown up to here; `pit show` has all of it.
LONGEST = 40_000
#: Texts up to here are rendered as Markdown.
MARKDOWN, MARKDOWN_LINES = 10_000, 250
#: Names of facts stand before them, so wide.
LABEL = 11


def _colour(name: str, card: Card) -> str:
    """What stands out among the facts."""
    if name == "state":
        return HEAD[status_of(card)]
    dead = name == "worker" and card.alive == "no" and card.state is State.CLAIMED
    return "$error" if dead or name == "last error" else ""


def _head(card: Card, now: float, room: int) -> Content:
    """The title and the facts; what takes more than a line goes on below its beginning, not below its name."""
    shown = [Content.styled(f"{card.task.id}  {one_line(card.task.title)}", "bold")]
    for name, value in facts(card, now):
        lines = wrap(one_line(value), max(room - LABEL, 20)) or [""]
        label = (f"{cut(name, LABEL - 1):<{LABEL}}", "$muted")
        shown.append(Content.assemble(label, (f"\n{' ' * LABEL}".join(lines), _colour(name, card))))
    return Content("\n").join(shown)


def _rest(card: Card) -> Iterator[tuple[str, list[str]]]:
    """What comes after text and result, by heading."""
    proof = card.result.evidence if card.result else None
    if proof is None and card.tries:
        proof = card.tries[-1].evidence
    if proof is not None:
        ran = f"{revealed(proof.command)} exited {proof.exit_code} after {say_duration(proof.seconds)}"
        yield "Check", [ran, *proof.tail.splitlines()]
    yield "Tries", tries(card.tries)
    yield "Notes", card.notes.splitlines()
    yield "Results that came late or were taken back", list(card.late)


def _sections(sections: Iterator[tuple[str, list[str]]]) -> Content:
    blocks = []
    for title, lines in sections:
        if lines:
            text = plain("\n".join(lines))[:LONGEST]
            blocks.append(Content.assemble((f"{title}\n", "bold $muted"), text))
    return Content("\n\n").join(blocks)


def _cut(text: str) -> str:
    text = plain(text).expandtabs(4).strip("\n")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n\n… (`pit show` has the rest)"


class Detail(VerticalScroll, can_focus=True):
    """The task that is picked, to be read."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._shown: tuple[Card, float] | None = None
        #: What the parts show that are Markdown, and those that are not.
        self._texts: dict[str, str] = {}
        self._puts: dict[str, object] = {}

    def compose(self) -> ComposeResult:
        """Plain parts, and those that are Markdown. No link opens anything."""
        yield Static(markup=False, id="head")
        yield Markdown(open_links=False, id="body")
        yield Static(markup=False, id="body-plain")
        yield Static(markup=False, id="ended")
        yield Markdown(open_links=False, id="output")
        yield Static(markup=False, id="output-plain")
        yield Static(markup=False, id="rest")

    def say(self, text: str) -> None:
        """Words instead of a task."""
        self._shown = None
        self._put("head", Content.styled(text, "$muted"))
        for part in self.children[1:]:
            part.display = False

    async def show(self, card: Card, now: float) -> None:
        """This task."""
        result, self._shown = card.result, (card, now)
        self.on_resize()
        about = [("Result", ending(result))] if result else []
        self._put("ended", _sections(iter(about)))
        self._put("rest", _sections(_rest(card)))
        await self._markdown("body", card.task.body)
        await self._markdown("output", result.output if result else "")

    def on_resize(self) -> None:
        """Facts are broken into lines for the room there is."""
        if self._shown is not None:
            self._put("head", _head(*self._shown, self.size.width - 2))

    def _put(self, name: str, content: Content) -> None:
        static = self.query_one(f"#{name}", Static)
        static.display = bool(content)
        if self._puts.get(name) != (content.plain, content.spans):  # what is there already costs nothing
            self._puts[name] = (content.plain, content.spans)
            static.update(content)

    async def _markdown(self, name: str, text: str) -> None:
        """The text as Markdown; a long one as it is, since each of its blocks would be a widget."""
        text = _cut(text)
        is_long = len(text) > MARKDOWN or text.count("\n") > MARKDOWN_LINES
        self._put(f"{name}-plain", Content(text) if is_long else Content(""))
        text = "" if is_long else text
        widget = self.query_one(f"#{name}", Markdown)
        widget.display = bool(text.strip())
        if self._texts.get(name) != text:
            self._texts.pop(name, None)  # who is overtaken in the middle of it has shown nothing
            await widget.update(text)
            self._texts[name] = text


# -- the panel ---------------------------------------------------------------------------------------


#: What the panel shows, by the key that asks for it.
TABS = {"d": "detail", "l": "log", "c": "changelog", "w": "crew"}
#: From this width on the detail stands beside the others.
SIDE_BY_SIDE = 160
#: So many lines of a log are kept.
LINES = 2000
COLOURS = {"up": "$success", "waiting": "$primary", "paused": "$warning", "stalled": "$error", "down": "$muted"}


class Panel(Vertical):
    """One of four pages, or the detail and one of the others where there is room."""

    def __init__(self) -> None:
        super().__init__(id="panel")
        self.tab = "detail"
        self._beside = "changelog"

    def compose(self) -> ComposeResult:
        """The names of the pages, and the pages."""
        yield Static(id="tabs", markup=False)
        with Horizontal(id="pages"):
            yield Detail(id="detail")
            yield Log(id="log", max_lines=LINES, highlight=False)
            yield Log(id="changelog", max_lines=LINES, highlight=False)
            with VerticalScroll(id="crew"):
                yield Static(id="rows", markup=False)

    @property
    def detail(self) -> Detail:
        """The page about one task."""
        return self.query_one(Detail)

    def turn_to(self, tab: str) -> None:
        """This page."""
        self.tab = tab
        self._beside = tab if tab != "detail" else self._beside
        self._settle()

    def on_resize(self) -> None:
        """There may be room for two pages, or for one only."""
        self._settle()

    def shows(self, tab: str) -> bool:
        """Whether this page is seen."""
        return bool(self.display) and bool(self.query_one(f"#{tab}").display)

    def _settle(self) -> None:
        """Show what is to be seen."""
        both = self.size.width >= SIDE_BY_SIDE
        for tab in TABS.values():
            page = self.query_one(f"#{tab}")
            page.display, before = tab == self.tab or (both and tab in ("detail", self._beside)), page.display
            if page.display and not before and isinstance(page, Log):
                self.call_after_refresh(page.scroll_end, animate=False)  # the newest is what one looks for
        parts: list[tuple[str, str]] = []
        for key, tab in TABS.items():
            now = tab == self.tab or (both and tab == self._beside)
            parts += [(f" {key} ", "$primary"), (f"{tab} ", "bold" if now else "$muted"), (" ", "")]
        self.query_one("#tabs", Static).update(Content.assemble(*parts))

    @property
    def page(self) -> Widget:
        """The page that is turned to."""
        return self.query_one(f"#{self.tab}")

    # -- filling -----------------------------------------------------------------------------------

    def begin_log(self, text: str) -> None:
        """A log of another task begins."""
        log = self.query_one("#log", Log)
        log.clear()
        if text:
            log.write_line(text)

    def add_log(self, text: str) -> None:
        """This was printed."""
        log = self.query_one("#log", Log)
        if text:
            log.write(text, scroll_end=log.is_vertical_scroll_end)  # who reads further up is left there

    def add_events(self, events: Sequence[Event]) -> None:
        """These happened."""
        if events:
            log = self.query_one("#changelog", Log)
            first = not log.line_count
            log.write_lines([_line(event) for event in events])
            if first:
                self.call_after_refresh(log.scroll_end, animate=False)

    def show_crew(self, rows: Sequence[MemberRow]) -> None:
        """The crew stands like this."""
        self.query_one("#rows", Static).update(_crew(rows, max(self.size.width - 4, 40)))


def _line(event: Event) -> str:
    """When, which task, what, who, and the details."""
    did = event.did.removesuffix("_task").replace("_", " ")
    words = [
        one_line(word) for word in (event.timestamp[11:19], event.about or "-", did, who(event.worker), event.details)
    ]
    return "  ".join(word.ljust(room) for word, room in zip(words, (8, 6, 10, 10, 0), strict=True))


def _crew(rows: Sequence[MemberRow], room: int) -> Content:
    """A line for each: name, state, how long, its task, its last words."""
    if not rows:
        text = "There is no crew. `pit crew up` starts the one in agents.toml, `pit work` a pool of workers."
        return Content.styled(text, "$muted")
    name = max(cell_len(row.name) for row in rows)
    lines = []
    for row in rows:
        old = say_duration(int(row.age)) if row.pid or row.wanted else ""
        doing = f"{row.task}  {row.title}" if row.task else row.why
        head = f"{row.name:<{name}}  "
        tail = f"{old:>7}  {doing}" + (f"  {row.last}" if row.last else "")
        lines.append(
            Content.assemble(
                (head, "bold"), (f"{row.state:<8}", COLOURS.get(row.state, "")), cut(tail, room - cell_len(head) - 8)
            )
        )
    return Content("\n").join(lines)
