"""Which keys there are, and which of them the bottom line shows for what is picked. Pure."""

from __future__ import annotations

from textual.content import Content

from taskpit.actions import OPEN
from taskpit.tui.slips import width
from taskpit.tui.task_keys import ACTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.board import Slip

__all__ = ["HELP", "bottom"]

#: How keys are written.
SPELT = {"plus": "+/-"}
ALWAYS = [("/", "filter"), ("?", "help"), ("q", "quit")]

HELP: list[tuple[str, list[tuple[str, str]]]] = [
    (
        "Look",
        [
            ("← → ↑ ↓", "columns and tasks"),
            ("1-7 j k", "the same"),
            ("enter", "read it on the whole screen"),
            ("esc", "back"),
            ("d l c w", "detail, log, changelog, crew"),
            ("/", "filter what is shown"),
            ("f", "find in everything"),
            ("t", "light or dark"),
        ],
    ),
    (
        "The queue",
        [("n", "a new task"), ("z", "undo what you did last"), ("p", "pause, resume"), ("q", "quit")],
    ),
    (
        "This task",
        [
            ("e", "open in your editor"),
            ("a", "answer what it asks"),
            ("v", "review its change"),
            ("b", "block it, with a reason"),
            ("u", "release, reset attempts"),
            ("r", "retry it from scratch"),
            ("g", "give your claim back"),
            ("+ -", "raise, lower its priority"),
            ("x", "cancel: it will not be done"),
            ("m", "leave a note"),
            ("y", "copy its id"),
        ],
    ),
]


def _offered(slip: Slip | None, worker: str, *, reading: bool) -> list[tuple[str, str]]:
    """What can be done now, what matters most first."""
    keys = [("esc", "back")] if reading else []
    keys += [("v", "review")] if slip is not None and slip.asks == "review" else []
    if worker:
        fitting = [act for act in ACTS if act.fits(slip, worker) and act.word]
        keys += [(SPELT.get(act.key, act.key), act.word) for act in fitting if act.name != "note"]
        keys += [("e", "edit")] if slip is not None and slip.column in OPEN else []
        keys += [] if reading else [("n", "new")]
        keys += [("m", "note")] if slip is not None else []
    if slip is not None and not reading:
        keys.append(("enter", "read"))
    return keys


def bottom(slip: Slip | None, room: int, worker: str, *, reading: bool) -> Content:
    """The bottom line for this worker (nobody: it only looks): as many keys as fit, always help and the way out."""
    last = ALWAYS[1:] if reading else ALWAYS
    left = room - sum(width(f" {key} {word} ") for key, word in last)
    shown = []
    for key, word in _offered(slip, worker, reading=reading):
        left -= width(f" {key} {word} ")
        if left < 0:
            break
        shown.append((key, word))
    parts: list[tuple[str, str]] = []
    for key, word in (*shown, *last):
        parts += [(f" {key}", "bold $primary"), (f" {word} ", "$muted")]
    return Content.assemble(*parts)
