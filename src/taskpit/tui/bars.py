"""What is said in single lines at the edges: where we are, what is new, how many are in a column. Pure."""

from __future__ import annotations

import os

from textual.content import Content

from taskpit.status import LABELS
from taskpit.tui.slips import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.tui.queue_access import View

__all__ = ["EMPTY", "HEAD", "head", "news", "place"]

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
    home = os.path.expanduser("~")
    short = where.replace(home, "~", 1) if where.startswith(f"{home}/") else where
    return Content.assemble(("pit ", "bold"), (cut(short, 60), "$muted"), "  read-only" if read_only else "")


def news(view: View | None, trouble: str, told: str) -> Content:
    """What a person should know: trouble, a pause, how many tasks ask them something."""
    asks = sum(1 for slip in view.columns["needs_you"] if slip.question) if view else 0
    said = [(trouble, "bold $error"), (told, "$muted"), (view.paused if view else "", "$warning")]
    said += [(f"{asks} task{'s ask' if asks > 1 else ' asks'} you", "bold $warning")] if asks else []
    return Content("  ").join([Content.styled(cut(text, 70), style) for text, style in said if text])


def head(column: str, count: int, shown: int | None) -> Content:
    """The name of a column and how many it has; with a filter, how many of them are shown."""
    number = f"{count:,}" if shown is None else f"{shown:,}/{count:,}"
    return Content.assemble((LABELS[column], HEAD[column]), f" {number}")
