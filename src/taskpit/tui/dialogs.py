"""What is asked before something is done, and the help. Each answers with a value, or None if the person left."""

from __future__ import annotations

from shlex import split

from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from taskpit.status import LABELS
from taskpit.task import Task
from taskpit.text import one_line, words_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from textual.app import ComposeResult

    from taskpit.search import Hit

__all__ = ["AddForm", "Ask", "Find", "Help"]

LEAVE = Binding("escape", "dismiss(None)", "leave", show=False)


class Ask(ModalScreen[str]):
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
            yield Label("enter does it · esc leaves all as it is", classes="keys", markup=False)

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
            yield Label("enter or ctrl+s adds it · tab goes on · esc leaves", classes="keys", markup=False)

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
            yield Label("enter looks, then goes there · esc leaves", classes="keys", markup=False)

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
