"""The change that waits for review, to be read, and the keys by which a person judges it. Text in it obeys nobody."""

from __future__ import annotations

from textual.binding import Binding
from textual.containers import ScrollableContainer
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from taskpit.clock import say_duration
from taskpit.history import who
from taskpit.text import one_line, plain
from taskpit.tui import task_keys
from taskpit.tui.dialogs import LEAVE, Ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual.app import ComposeResult

    from taskpit.landing.diff import FilePart
    from taskpit.landing.values import HandIn

__all__ = ["MOST", "Verdict"]

#: So many rows are shown; `pit diff` has all of them.
MOST = 2000
COLOURS = {"+": "$success", "-": "$error", "@": "$primary"}
#: As much of what the agent said.
SAID = 12


class Verdict(ModalScreen[tuple[str, str]]):
    """One candidate; the name of what is to be done with it and the words for that, or None."""

    BINDINGS = [
        LEAVE,
        Binding("q", "dismiss(None)", show=False),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        *(Binding(act.key, f"judge('{act.name}')", show=False) for act in task_keys.VERDICTS),
    ]

    def __init__(self, handed: HandIn, parts: Sequence[FilePart], *, read_only: bool) -> None:
        super().__init__()
        self._handed = handed
        self._parts = parts
        self._read_only = read_only

    def compose(self) -> ComposeResult:
        """What it is, the diff, the keys."""
        yield Static(_head(self._handed, self._parts), id="verdict-head", markup=False)
        with ScrollableContainer(id="verdict-diff"):
            yield Static(Content("\n").join(_lines(self._handed, self._parts)), markup=False)
        words = [] if self._read_only else [(act.key, act.word) for act in task_keys.VERDICTS]
        keys = [("esc", "back"), *words, ("↑ ↓", "scroll")]
        line = Content.assemble(*(part for key, word in keys for part in ((f" {key}", "bold $primary"), f" {word} ")))
        yield Static(line, id="verdict-keys", markup=False)

    def on_mount(self) -> None:
        """Arrows scroll."""
        self.query_one("#verdict-diff").focus()

    def action_move(self, by: int) -> None:
        """A line further."""
        self.query_one("#verdict-diff").scroll_relative(y=by, animate=False)

    def action_judge(self, name: str) -> None:
        """This, after asking what is to be asked."""
        act = task_keys.find(name)

        def go_on(text: str | None) -> None:
            if text is not None:
                self.dismiss((name, self._handed.commit if act.silent else text))

        if self._read_only or not act.asks:  # refused at once, not after an answer was written
            go_on("")
            return
        self.app.push_screen(Ask(f"{self._handed.task}  {self._handed.title}", act.asks, silent=act.silent), go_on)


def _head(handed: HandIn, parts: Sequence[FilePart]) -> Content:
    """The title, who made it for which branch, how much, and what its check showed."""
    added, removed = sum(part.added for part in parts), sum(part.removed for part in parts)
    proof = handed.evidence
    check = ("no check was run", "$warning")
    if proof is not None:
        word = "green" if proof.green else "red"
        told = f"check {word} after {say_duration(proof.seconds)}: {one_line(proof.command)}"
        check = (told, "$success" if proof.green else "$error")
    return Content.assemble(
        (f"{handed.task}  {one_line(handed.title)}\n", "bold"),
        (f"by {who(handed.worker)}, attempt {handed.attempt}, for {one_line(handed.target)}   ", "$muted"),
        f"{len(parts)} {'file' if len(parts) == 1 else 'files'} ",
        (f"+{added} ", "$success"),
        (f"-{removed}\n", "$error"),
        check,
    )


def _lines(handed: HandIn, parts: Sequence[FilePart]) -> Iterator[Content]:
    """What is asked, what the agent said, and the rows of each file with their numbers."""
    for question in handed.questions:
        yield Content.styled(f"? {one_line(question)}", "bold $warning")
    for line in plain(handed.output).strip().splitlines()[:SAID]:
        yield Content.styled(line.expandtabs(4), "$muted")
    for part in parts:
        notes = f"  {', '.join(part.notes)}" if part.notes else ""
        yield Content("")
        yield Content.assemble(
            (one_line(part.path), "bold underline"),
            (notes, "$muted"),
            (f"  +{part.added}", "$success"),
            (f" -{part.removed}", "$error"),
        )
        for row in part.rows:
            number = f"{row.new or '':>5} " if row.kind != "@" else ""
            sign = row.kind if row.kind != "@" else ""
            yield Content.assemble((number, "$muted"), (f"{sign}{row.text.expandtabs(4)}", COLOURS.get(row.kind, "")))
        if part.left:
            yield Content.styled(f"… {part.left} more: `pit diff {handed.task}` shows all", "$muted")
