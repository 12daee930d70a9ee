"""Tasks that lie in a table: no file names, any word is an id; shown and edited as the pit draws them. Pure."""

from __future__ import annotations

from taskpit.layouts.layout import check_word
from taskpit.layouts.pit import Pit


class Table(Pit):
    """The layout of a queue that is no folder."""

    name = "table"

    def check_id(self, text: str) -> str:
        """Any word: no name must be told apart from it."""
        return check_word(text, "id")
