"""The screen of `pit board`, where one looks for something: filter, full text, and the way to what was found."""

from __future__ import annotations

import asyncio

from textual.binding import Binding
from textual.widgets import Input

from taskpit.board import COLUMNS
from taskpit.errors import TaskpitError
from taskpit.tui.board_screen import Looking
from taskpit.tui.dialogs import Find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.search import Hit

__all__ = ["Seeking"]

#: So many hits are shown.
HITS = 100


class Seeking(Looking):
    """The board of one queue, to look and to look for."""

    BINDINGS = [
        Binding("slash", "filter", show=False),
        Binding("f", "find", show=False),
        Binding("y", "copy", show=False),
    ]

    def action_copy(self) -> None:
        """The id is in the clipboard, where the terminal allows it."""
        if self.slip is not None:
            self.copy_to_clipboard(self.slip.id)
            self.notify(f"{self.slip.id} is copied", markup=False, timeout=2)

    def action_filter(self) -> None:
        """Show only what has these words."""
        self.action_column(self._current)
        self._base.query_one("#filter").add_class("-shown")
        self._base.query_one("#words", Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """While it is written."""
        if event.input.id == "words":
            self.show_only(tuple(event.value.casefold().split()))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The filter stays, keys act on tasks again."""
        if event.input.id == "words":
            self._base.query_one("#filter").set_class(bool(self._words), "-shown")
            self.action_column(self._current)

    def action_find(self) -> None:
        """Look for words in everything, and go to what was chosen."""

        def go(task_id: str | None) -> None:
            if task_id:
                self.go_to(task_id)

        self.push_screen(Find(self._find), go)

    async def _find(self, text: str) -> list[Hit]:
        try:
            return await asyncio.to_thread(self.desk.find, text, HITS)
        except (TaskpitError, OSError) as error:
            self.complain(error)
            return []

    def go_to(self, task_id: str) -> None:
        """This task is picked, wherever it is."""
        self.clear_filter()
        for name in COLUMNS:
            if self.column(name).pick(task_id):
                self.action_column(name)
                return
        self.notify(f"{task_id} is not on the board: `pit show` has it", markup=False)
