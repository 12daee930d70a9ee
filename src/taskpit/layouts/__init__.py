"""The layouts by name. Pure: names and spellings, no disk."""

from __future__ import annotations

from taskpit.errors import Invalid
from taskpit.layouts.layout import Layout, Spot, slugify

__all__ = ["NAMES", "Layout", "Spot", "get", "is_known", "slugify"]

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
        from taskpit.layouts.database import Table

        return Table()
    from taskpit import plugins

    made: Layout = plugins.make("layouts", name, Layout, NAMES)
    if made.name != name:  # a folder remembers its layout by this name
        raise Invalid(f"{made!r} is no layout called {name!r}", hint="Its package must make a Layout of that name.")
    return made


def is_known(name: str) -> bool:
    """Whether there is such a layout, here or in an installed package."""
    if name in NAMES:
        return True
    from taskpit import plugins

    return name in plugins.names("layouts")
