"""How the demo looks: a board of the crew that is redrawn in place, ends scrolling away above it; lines in a pipe."""

from __future__ import annotations

from taskpit.clock import say_duration
from taskpit.text import fit
from taskpit.worker.pool_display import Board, Lines, screen_size
from taskpit.workers import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from taskpit.crew.status import Row
    from taskpit.task import Event
    from taskpit.worker.remaining import Survey

__all__ = ["Stage", "choose"]

#: The changelog's words as people say them; others are not shown.
WORDS = {
    "claimed_task": "claimed",
    "completed_task": "done",
    "failed_task": "failed",
    "retried_task": "retry",
    "choked_task": "choked",
    "split_task": "split",
    "recovered_task": "recovered",
    "released_task": "released",
    "handed_in": "handed in",
    "sent_back": "sent back",
    "approved": "approved",
}


class Stage(Lines):
    """Lines, for a pipe."""

    def tell(self, events: Sequence[Event], title: Callable[[str], str]) -> None:
        """What has happened."""
        for event in events:
            word = WORDS.get(event.action, "")
            if word and not (word == "claimed" and self.period):  # a board shows who has what by itself
                details = ": ".join(filter(None, (title(event.task_id), event.details)))
                self._line(word, base(event.worker), event.task_id, details)

    def say(self, text: str) -> None:
        """As it is."""
        self._line("note", "", "", text)

    def crew(self, rows: Sequence[Row], survey: Survey) -> None:
        """How they stand."""

    def close(self) -> None:
        """The show is over."""


class Theatre(Stage, Board):
    """The same on a terminal, with a board of the crew."""

    def crew(self, rows: Sequence[Row], survey: Survey) -> None:
        """Draw the board anew."""
        width = screen_size(self._stream)[0]
        lines = [self._row(row, width) for row in rows]
        lines.append(
            fit(f"— {survey.done} done, {survey.claimed} claimed, {survey.ready} ready, {survey.held} held", width)
        )
        if lines != self._last:
            self._draw(lines)

    def _row(self, row: Row, width: int) -> str:
        age = say_duration(int(row.age)) if row.task or row.until else ""
        head = f"{row.name:<10} {row.state:<8} {row.task:<5} {age:>4}  "
        doing = fit(row.title, 30)
        words = fit(row.last if row.task or row.kind != "tasks" else "", width - len(head) - len(doing) - 3)
        return f"{head}{doing}   {self._paint('2', words)}".rstrip()

    def close(self) -> None:
        """The terminal is as it was, the board gone."""
        Board.close(self)


def choose(stream: TextIO, env: Mapping[str, str]) -> Stage:
    """A board on a terminal, lines elsewhere."""
    if stream.isatty() and env.get("TERM") != "dumb":
        return Theatre(stream, env)
    return Stage(stream)
