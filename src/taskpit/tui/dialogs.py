"""What is asked before something is done, and the help. Each answers with a value, or None if the person left."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from shlex import split
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, ScrollableContainer, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from taskpit.clock import say_duration
from taskpit.history import who
from taskpit.landing.diff import FilePatch
from taskpit.landing.values import HandIn
from taskpit.model import Task
from taskpit.search import Hit
from taskpit.status import LABELS
from taskpit.text import one_line, plain, revealed, words_in
from taskpit.tui.keys import VERDICTS, find

LEAVE = Binding("escape", "dismiss(None)", "leave", show=False)


class AskDialog(ModalScreen[str]):
    """One line of text."""

    BINDINGS = [LEAVE]

    def __init__(self, about: str, question: str, *, silent: bool = False) -> None:
        super().__init__()
        self._about = about
        self._question = question
        self._silent = silent

    def compose(self) -> ComposeResult:
        """What it is about, what is asked, where to write."""
        with Vertical(classes="dialog"):
            yield Label(one_line(self._about), classes="about", markup=False)
            yield Label(one_line(self._question), classes="question", markup=False)
            yield Input(compact=True)
            yield Label("enter confirms · esc cancels", classes="keys", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """It is answered, if there is anything or need not be."""
        if event.value.strip() or self._silent:
            self.dismiss(event.value)


class AddForm(ModalScreen["Task | list[str]"]):
    """A new task; or the name of a template and its fields."""

    BINDINGS = [LEAVE, Binding("ctrl+s", "submit", "add it", show=False)]
    #: Name, what it is called, what to write.
    LINES = (
        ("title", "title", "one line: what is to be done"),
        ("check", "check", "a command that proves it done"),
        ("priority", "priority", "0; higher first"),
        ("tags", "tags", "web urgent"),
        ("needs", "needs", "ids that must be done before"),
    )

    def __init__(self, templates: Sequence[str] = ()) -> None:
        super().__init__()
        self._templates = templates

    def compose(self) -> ComposeResult:
        """A line for each field, and room for the text."""
        with Vertical(classes="dialog"):
            yield Label("A new task", classes="about", markup=False)
            for name, word, hint in self.LINES:
                with Horizontal(classes="field"):
                    yield Label(word, markup=False)
                    yield Input(placeholder=hint, id=name, compact=True)
            if self._templates:
                with Horizontal(classes="field"):
                    yield Label("template", markup=False)
                    hint = f"instead: {', '.join(self._templates)}, with fields, area=api"
                    yield Input(placeholder=hint, id="template", compact=True)
            yield TextArea(id="body", compact=True, placeholder="What else there is to know, as Markdown")
            yield Label("enter or ctrl+s adds it · tab next field · esc cancels", classes="keys", markup=False)

    def on_input_submitted(self) -> None:
        """Enter in any line."""
        self.action_submit()

    def action_submit(self) -> None:
        """The task as it was written; its title and its priority must be what they are called."""
        line = {name: self.query_one(f"#{name}", Input).value.strip() for name, _, _ in self.LINES}
        if self._templates and (text := self.query_one("#template", Input).value.strip()):
            try:
                self.dismiss(split(text))
            except ValueError as error:
                self.notify(f"the template's fields: {error}", severity="warning", markup=False)
            return
        if not line["title"]:
            self.query_one("#title").focus()
            self.notify("a task needs a title", severity="warning", markup=False)
            return
        try:
            priority = int(line["priority"] or 0)
        except ValueError:
            self.query_one("#priority").focus()
            self.notify("a priority is a whole number; higher first", severity="warning", markup=False)
            return
        self.dismiss(
            Task(
                id="",
                title=line["title"],
                check=line["check"],
                priority=priority,
                tags=words_in(line["tags"]),
                needs=words_in(line["needs"]),
                body=self.query_one("#body", TextArea).text,
            )
        )


class Find(ModalScreen[str]):
    """Words to look for in everything; the id of the task that was chosen."""

    BINDINGS = [LEAVE, Binding("down", "to_hits", show=False)]

    def __init__(self, search: Callable[[str], Coroutine[Any, Any, list[Hit]]]) -> None:
        super().__init__()
        self._search = search

    def compose(self) -> ComposeResult:
        """Where to write, and what was found."""
        with Vertical(classes="dialog wide"):
            yield Label("Find in titles, texts, results, reasons and notes", classes="about", markup=False)
            yield Input(placeholder='words, or "a phrase"', compact=True)
            yield OptionList(id="hits", compact=True, markup=False)
            yield Label("enter searches, then opens · esc cancels", classes="keys", markup=False)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Look for it."""
        if not event.value.strip():
            return
        found = await self._search(event.value)
        hits = self.query_one(OptionList)
        hits.clear_options()
        if not found:
            hits.add_option(Option("No matching tasks.", disabled=True))
            return
        hits.add_options([Option(self._line(hit), id=hit.id) for hit in found])
        hits.highlighted = 0
        hits.focus()

    @staticmethod
    def _line(hit: Hit) -> Content:
        where = f"\n  {hit.field}: {hit.snippet}" if hit.field not in ("id", "title") else ""
        return Content.assemble((hit.id, "bold"), f"  {hit.title}", (f"  {LABELS[hit.column]}", "$muted"), where)

    def action_to_hits(self) -> None:
        """From the words to what was found."""
        self.query_one(OptionList).focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """This one."""
        self.dismiss(event.option.id)


class Help(ModalScreen[None]):
    """Every key."""

    BINDINGS = [LEAVE, Binding("question_mark,q,enter", "dismiss(None)", show=False)]

    def __init__(self, keys: list[tuple[str, list[tuple[str, str]]]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """By what one wants to do."""
        blocks = []
        for title, rows in self._keys:
            lines = [Content.styled(title, "bold")]
            lines += [Content.assemble((f"  {key:<12}", "$primary"), word) for key, word in rows]
            blocks.append(Content("\n").join(lines))
        half = (len(blocks) + 1) // 2
        with VerticalScroll(classes="dialog wide"):
            with Horizontal(classes="help"):
                yield Static(Content("\n\n").join(blocks[:half]), markup=False)
                yield Static(Content("\n\n").join(blocks[half:]), markup=False)
            yield Label("esc goes back", classes="keys", markup=False)


# -- a change that waits for review ---------------------------------------------------------------


#: So many rows are shown; `pit diff` has all of them.
MOST = 2000
COLOURS = {"+": "$success", "-": "$error", "@": "$primary"}
#: As much of what the agent said.
SAID = 12


class VerdictDialog(ModalScreen[tuple[str, str]]):
    """One candidate; the name of what is to be done with it and the words for that, or None."""

    BINDINGS = [
        LEAVE,
        Binding("q", "dismiss(None)", show=False),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        *(Binding(act.key, f"judge('{act.name}')", show=False) for act in VERDICTS),
    ]

    def __init__(self, handed: HandIn, parts: Sequence[FilePatch], *, read_only: bool) -> None:
        super().__init__()
        self._handed = handed
        self._parts = parts
        self._read_only = read_only

    def compose(self) -> ComposeResult:
        """What it is, the diff, the keys."""
        yield Static(_head(self._handed, self._parts), id="verdict-head", markup=False)
        with ScrollableContainer(id="verdict-diff"):
            yield Static(Content("\n").join(_lines(self._handed, self._parts)), markup=False)
        words = [] if self._read_only else [(act.key, act.word) for act in VERDICTS]
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
        act = find(name)

        def go_on(text: str | None) -> None:
            if text is not None:
                self.dismiss((name, self._handed.commit if act.silent else text))

        if self._read_only or not act.asks:  # refused at once, not after an answer was written
            go_on("")
            return
        self.app.push_screen(
            AskDialog(f"{self._handed.task}  {self._handed.title}", act.asks, silent=act.silent), go_on
        )


def _head(handed: HandIn, parts: Sequence[FilePatch]) -> Content:
    """The title, who made it for which branch, how much, and what its check showed."""
    added, removed = sum(part.added for part in parts), sum(part.removed for part in parts)
    proof = handed.evidence
    check = ("no check was run", "$warning")
    if proof is not None:
        word = "green" if proof.green else "red"
        text = f"check {word} after {say_duration(proof.seconds)}: {one_line(revealed(proof.command))}"
        check = (text, "$success" if proof.green else "$error")
    return Content.assemble(
        (f"{handed.task}  {one_line(handed.title)}\n", "bold"),
        (f"by {who(handed.worker)}, attempt {handed.attempt}, for {one_line(handed.target)}   ", "$muted"),
        f"{len(parts)} {'file' if len(parts) == 1 else 'files'} ",
        (f"+{added} ", "$success"),
        (f"-{removed}\n", "$error"),
        check,
    )


def _lines(handed: HandIn, parts: Sequence[FilePatch]) -> Iterator[Content]:
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
            *(() if "binary" in part.notes else ((f"  +{part.added}", "$success"), (f" -{part.removed}", "$error"))),
        )
        for row in part.rows:
            number = f"{row.new or '':>5} " if row.kind != "@" else ""
            sign = row.kind if row.kind != "@" else ""
            yield Content.assemble((number, "$muted"), (f"{sign}{row.text.expandtabs(4)}", COLOURS.get(row.kind, "")))
        if part.left:
            yield Content.styled(f"… {part.left} more: `pit diff {handed.task}` shows all", "$muted")
