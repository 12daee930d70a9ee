"""Which keys there are, and which of them the bottom line shows for what is picked. Pure."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content

from taskpit.actions import ACTIONS, OPEN, Action
from taskpit.board import Slip
from taskpit.model import Value


class Act(Value, frozen=True, kw_only=True):
    """One key."""

    #: What it does, by its name in `actions`.
    name: str
    key: str
    #: What the bottom line calls it; empty: it stands beside another one.
    word: str
    #: What is asked before; nothing is done without an answer, which may be empty if `silent`.
    asks: str = ""
    silent: bool = False

    @property
    def action(self) -> Action:
        """What it does."""
        return ACTIONS[self.name]

    def fits(self, slip: Slip | None, worker: str) -> bool:
        """Whether this worker can do it to this one."""
        return slip is not None and self.action.fits(slip.column, slip.asks, own=slip.worker == worker)


ACTS = (
    Act(name="answer", key="a", word="answer", asks="Your answer"),
    Act(name="unblock", key="u", word="unblock"),
    Act(name="retry", key="r", word="retry"),
    Act(name="block", key="b", word="block", asks="Why is it blocked?"),
    Act(name="release", key="g", word="give back"),
    Act(name="raise", key="plus", word="priority"),
    Act(name="lower", key="minus", word=""),
    Act(
        name="cancel",
        key="x",
        word="cancel",
        asks="It will not be done. Why? (Enter cancels it, also without a reason)",
        silent=True,
    ),
    Act(name="note", key="m", word="note", asks="Your note"),
    Act(name="tell", key="s", word="tell", asks="What should its agent know?"),
)
#: The keys below a change that waits for review.
VERDICTS = (
    Act(
        name="approve",
        key="a",
        word="approve",
        asks="It is checked once more and lands. Enter approves it",
        silent=True,
    ),
    Act(name="send_back", key="s", word="send back", asks="What should be different? FILE:LINE: TEXT is about a line"),
    Act(name="take_over", key="o", word="take over"),
)


def find(name: str) -> Act:
    """The key of this name."""
    return next(act for act in (*ACTS, *VERDICTS) if act.name == name)


# -- the bottom line and the help --------------------------------------------------------------------


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
            ("s", "say something to its agent"),
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
    left = room - sum(cell_len(f" {key} {word} ") for key, word in last)
    shown = []
    for key, word in _offered(slip, worker, reading=reading):
        left -= cell_len(f" {key} {word} ")
        if left < 0:
            break
        shown.append((key, word))
    parts: list[tuple[str, str]] = []
    for key, word in (*shown, *last):
        parts += [(f" {key}", "bold $primary"), (f" {word} ", "$muted")]
    return Content.assemble(*parts)
