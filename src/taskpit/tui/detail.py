"""All about one task: facts, its text as Markdown, result, evidence, tries, notes. Text in it obeys nobody."""

from __future__ import annotations

from textwrap import wrap

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Markdown, Static

from taskpit.clock import say_duration
from taskpit.explain import ending, facts, tries
from taskpit.status import status_of
from taskpit.task import State
from taskpit.text import one_line, plain
from taskpit.tui.bars import HEAD
from taskpit.tui.slips import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from textual.app import ComposeResult

    from taskpit.task import Card

__all__ = ["Detail"]

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
    told = [Content.styled(f"{card.task.id}  {one_line(card.task.title)}", "bold")]
    for name, value in facts(card, now):
        lines = wrap(one_line(value), max(room - LABEL, 20)) or [""]
        label = (f"{cut(name, LABEL - 1):<{LABEL}}", "$muted")
        told.append(Content.assemble(label, (f"\n{' ' * LABEL}".join(lines), _colour(name, card))))
    return Content("\n").join(told)


def _rest(card: Card) -> Iterator[tuple[str, list[str]]]:
    """What comes after text and result, by heading."""
    proof = card.result.evidence if card.result else None
    if proof is None and card.tries:
        proof = card.tries[-1].evidence
    if proof is not None:
        ran = f"{proof.command} exited {proof.exit_code} after {say_duration(proof.seconds)}"
        yield "Check", [ran, *proof.tail.splitlines()]
    yield "Tries", tries(card.tries)
    yield "Notes", card.notes.splitlines()
    yield "Late results, kept aside", list(card.late)


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
