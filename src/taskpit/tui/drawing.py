"""What slips, single lines and columns look like: words and the names of their styles, cut to a width; our colours."""

from __future__ import annotations

from typing import TypeVar

from rich.cells import cell_len, set_cell_size
from textual.app import App
from textual.content import Content
from textual.theme import Theme

from taskpit.board import COLUMNS, Slip
from taskpit.clock import say_age
from taskpit.history import who
from taskpit.status import LABELS, counted
from taskpit.text import one_line
from taskpit.trust import from_home
from taskpit.tui.queue_access import BoardView

T = TypeVar("T")
#: Text and the name of its style, in order.
Parts = list[tuple[str, str]]
#: Names of the styles that are used here.
STYLES = frozenset(("title", "meta", "id", "age", "ask", *COLUMNS))
#: Whether a holder lives, as a sign that needs no colour.
LIFE = {"yes": "●", "no": "✗", "unknown": "○"}
#: Every age fits into this.
AGE = 4
#: In a table, what is said beside the title has this share of the line.
BESIDE = 0.42


def cut(text: str, room: int) -> str:
    """The text on one line of at most this many cells; what is cut off ends in a mark."""
    text = one_line(text[: 8 * max(room, 0) + 200]).lstrip("\u200d")  # else it would join with what stands before it
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, room - 1).rstrip() + "…" if room > 0 else ""


def _fill(text: str, room: int) -> tuple[str, str]:
    """What fills the rest of the room; a part of its own, since letters may join with what follows them."""
    return (" " * max(room - cell_len(text), 0), "meta")


def slip_age(slip: Slip, now: float) -> str:
    """How long it has been where it is, as far as that is known."""
    began = slip.finished or slip.since or slip.created
    return say_age(now - began) if began else ""


def _standing(slip: Slip, now: float) -> Parts:
    """What is to be said of it besides its title: what matters where it is."""
    if slip.held:
        return [(f" ? {slip.question}", "ask")] if slip.question else [(f" {slip.held}", slip.column)]
    if slip.column == "running":
        return _holder(slip, now)
    if slip.column in ("failed", "cancelled"):
        return [(f" {slip.reason or slip.verdict}", slip.column)]
    if slip.column == "done":
        parts = [who(slip.worker), say_age(slip.seconds) if slip.seconds else ""]
        parts += [f"${slip.usd:.2f}" if slip.usd else "", f"split into {len(slip.children)}" if slip.children else ""]
        return [(f" {' · '.join(filter(None, parts))}", "meta")]
    parts = [f"try {slip.attempts + 1}" if slip.attempts else "", "big" if slip.big else "", " ".join(slip.tags)]
    return [(f" {' · '.join(filter(None, parts))}", "meta")]


def _holder(slip: Slip, now: float) -> Parts:
    late = bool(slip.until) and slip.until < now
    style = "failed" if slip.alive == "no" or late else "ready" if slip.alive == "yes" else "needs_you"
    word = "dead" if slip.alive == "no" else "lease is over" if late else ""
    name = who(slip.worker)
    return [(f" {LIFE.get(slip.alive, '○')}", style), (f" {name}", "running"), *([(f" {word}", style)] if word else [])]


def _priority(slip: Slip) -> Parts:
    return [(f" {'▲' if slip.priority > 0 else '▼'}{abs(slip.priority)}", "needs_you")] if slip.priority else []


def _fit(parts: Parts, room: int) -> tuple[Parts, int]:
    """As much of the parts as there is room for, and what room is left."""
    shown: Parts = []
    for text, style in parts:
        lead = " " if text.startswith(" ") else ""
        fitted = lead + cut(text[len(lead) :], room - len(lead))
        if room > 0 and fitted.strip():
            shown.append((fitted, style))
            room -= cell_len(fitted)
    return shown, max(room, 0)


def two_lines(slip: Slip, room: int, now: float) -> tuple[Parts, Parts]:
    """For a narrow column: the title; below, its id, what is to be said, and how old it is where there is room."""
    title = cut(slip.title, room)
    below, left = _fit([(cut(slip.id, max(room // 3, 4)), "id"), *_priority(slip), *_standing(slip, now)], room)
    if left > AGE:
        below += [(" " * (left - AGE), "meta"), (slip_age(slip, now).rjust(AGE), "age")]
    return [(title, "title"), _fill(title, room)], below


def table_line(slip: Slip, room: int, id_width: int, now: float) -> Parts:
    """For a wide list: id, title, what is to be said, age, each in its own place."""
    beside = int((room - id_width - AGE) * BESIDE)
    left, _ = _fit([(cut(slip.id, id_width), "id")], id_width)
    middle = room - id_width - beside - AGE - 1
    title, free = _fit([*_priority(slip), (f" {slip.title}", "title")], middle - 2)
    message, rest = _fit(_standing(slip, now), beside)
    return [
        *left,
        _fill("".join(text for text, _ in left), id_width + 1),
        *title,
        _fill("", free + 1),
        *message,
        _fill("", rest + 1),
        (slip_age(slip, now).rjust(AGE), "age"),
    ]


# -- single lines at the edges ---------------------------------------------------------------------


#: What a column says that has nothing to show: what to do about it.
EMPTY = {
    "ready": "Nothing is ready. Press n to add a task, or: pit add 'a first task'",
    "needs_you": "Nothing needs you.",
    "waiting": "Nothing waits for another task or a time.",
    "running": "No worker runs. `pit work -- CMD` or `pit crew up` starts some.",
    "done": "Nothing is done yet.",
    "failed": "Nothing has failed.",
    "cancelled": "Nothing was cancelled.",
}
HEAD = {
    "needs_you": "$warning",
    "ready": "$success",
    "waiting": "$foreground",
    "running": "$primary",
    "done": "$muted",
    "failed": "$error",
    "cancelled": "$muted",
}


def place(where: str, *, read_only: bool) -> Content:
    """Which queue this is."""
    return Content.assemble(("pit ", "bold"), (cut(from_home(where), 60), "$muted"), "  read-only" if read_only else "")


def news(view: BoardView | None, trouble: str, text: str) -> Content:
    """What a person should know: trouble, a pause, how many tasks need them."""
    needs = view.counts["needs_you"] if view else 0
    said = [(trouble, "bold $error"), (text, "$muted"), (view.paused if view else "", "$warning")]
    said += [(counted("needs_you", needs), "bold $warning")] if needs else []
    return Content("  ").join([Content.styled(cut(text, 70), style) for text, style in said if text])


def head(column: str, count: int, shown: int | None) -> Content:
    """The name of a column and how many it has; with a filter, how many of them are shown."""
    number = f"{count:,}" if shown is None else f"{shown:,}/{count:,}"
    return Content.assemble((LABELS[column], HEAD[column]), f" {number}")


# -- colours -----------------------------------------------------------------------------------------


THEMES = (
    Theme(
        name="pit-dark",
        primary="#7aa2f7",
        secondary="#5d7fc4",
        accent="#7aa2f7",
        success="#86c991",
        warning="#e3b566",
        error="#ec7f79",
        foreground="#d5dae3",
        background="#15181e",
        surface="#1b1f27",
        panel="#262c37",
        variables={"muted": "#8a93a3"},
        dark=True,
    ),
    Theme(
        name="pit-light",
        primary="#2458b8",
        secondary="#4a73bf",
        accent="#2458b8",
        success="#23733b",
        warning="#8a5a00",
        error="#b02a24",
        foreground="#24282e",
        background="#fcfcfa",
        surface="#f2f2ee",
        panel="#e4e6ea",
        variables={"muted": "#646b76"},
        dark=False,
    ),
    # For terminals of sixteen colours: each of these is one of them, so that a state still has its own.
    Theme(
        name="pit-sixteen",
        primary="#00ffff",
        secondary="#00ffff",
        accent="#00ffff",
        success="#00ff00",
        warning="#ffff00",
        error="#ff0000",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#7f7f7f",
        variables={"muted": "#e5e5e5"},
        dark=True,
    ),
)


class ThemedApp(App[T]):
    """A screen in our colours."""

    CSS_PATH = "board.tcss"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, *, light: bool) -> None:
        super().__init__()
        self._light = light

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colour, for as long as no theme of ours is chosen."""
        return dict(THEMES[0].variables)

    def on_load(self) -> None:
        """Colours, early: everything that is there when they change is styled once more."""
        for theme in THEMES:
            self.register_theme(theme)
        few = self.console.color_system == "standard"  # as over a plain ssh
        self.theme = "pit-sixteen" if few else "pit-light" if self._light else "pit-dark"

    def action_theme(self) -> None:
        """Light instead of dark, or the other way round."""
        self.theme = "pit-dark" if self.theme == "pit-light" else "pit-light"
