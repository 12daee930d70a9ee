"""Below the columns: the task that is picked, its log, the changelog, the crew. Shows values, asks nobody."""

from __future__ import annotations

from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Log, Static

from taskpit.clock import say_duration
from taskpit.history import who
from taskpit.text import one_line
from taskpit.tui.detail import Detail
from taskpit.tui.slips import cut, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.widget import Widget

    from taskpit.crew.status import Row
    from taskpit.task import Event

__all__ = ["TABS", "Panel"]

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

    def begin_log(self, told: str) -> None:
        """A log of another task begins."""
        log = self.query_one("#log", Log)
        log.clear()
        if told:
            log.write_line(told)

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

    def show_crew(self, rows: Sequence[Row]) -> None:
        """The crew stands like this."""
        self.query_one("#rows", Static).update(_crew(rows, max(self.size.width - 4, 40)))


def _line(event: Event) -> str:
    """When, which task, what, who, and whatever else is told."""
    did = event.did.removesuffix("_task")
    words = [
        one_line(word) for word in (event.timestamp[11:19], event.about or "-", did, who(event.worker), event.details)
    ]
    return "  ".join(word.ljust(room) for word, room in zip(words, (8, 6, 10, 10, 0), strict=True))


def _crew(rows: Sequence[Row], room: int) -> Content:
    """A line for each: name, state, how long, its task, its last words."""
    if not rows:
        told = "There is no crew. `pit crew up` starts the one in agents.toml, `pit work` a pool of workers."
        return Content.styled(told, "$muted")
    name = max(width(row.name) for row in rows)
    lines = []
    for row in rows:
        old = say_duration(int(row.age)) if row.pid or row.wanted else ""
        doing = f"{row.task}  {row.title}" if row.task else row.why
        head = f"{row.name:<{name}}  "
        tail = f"{old:>7}  {doing}" + (f"  {row.last}" if row.last else "")
        lines.append(
            Content.assemble(
                (head, "bold"), (f"{row.state:<8}", COLOURS.get(row.state, "")), cut(tail, room - width(head) - 8)
            )
        )
    return Content("\n").join(lines)
