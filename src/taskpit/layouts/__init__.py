"""The layouts by name. Pure: names and spellings, no disk."""

from __future__ import annotations

from taskpit.errors import Invalid
from taskpit.layouts.layout import Layout, Spot, slugify

__all__ = ["NAMES", "Layout", "Spot", "get", "slugify"]

#: Layouts that ship with taskpit.
NAMES = ("pit", "mailbox", "workspace", "activities")


def get(name: str) -> Layout:
    """The layout of that name; loads only that one."""
    if name == "pit":
        from taskpit.layouts.pit import Pit

        return Pit()
    if name == "mailbox":
        from taskpit.layouts.mailbox import Mailbox

        return Mailbox()
    if name == "workspace":
        from taskpit.layouts.workspace import Workspace

        return Workspace()
    if name == "activities":
        from taskpit.layouts.activities import Activities

        return Activities()
    if name == "table":
        from taskpit.layouts.table import Table

        return Table()
    raise Invalid(f"there is no layout {name!r}", hint=f"Choose one of: {', '.join(NAMES)}.")
