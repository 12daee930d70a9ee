"""The layouts by name. Pure: names and spellings, no disk."""

from __future__ import annotations

import sys

from taskpit import plugins
from taskpit.errors import Invalid
from taskpit.layouts.layout import Layout, Spot, slugify

__all__ = ["NAMES", "Layout", "Spot", "get", "is_known", "slugify"]

#: Layouts that ship with taskpit, and where each is; `table` is that of queues in a database.
NAMES = ("pit", "mailbox", "workspace", "activities")
CLASSES = {**{name: (name, name.capitalize()) for name in NAMES}, "table": ("pit", "Table")}


def get(name: str) -> Layout:
    """The layout of that name; loads only that one."""
    made: Layout
    if name in CLASSES:
        module, kind = CLASSES[name]
        __import__(f"taskpit.layouts.{module}")  # importlib would bring warnings, and both their time
        made = getattr(sys.modules[f"taskpit.layouts.{module}"], kind)()
        return made

    made = plugins.make("layouts", name, Layout, NAMES)
    if made.name != name:  # a folder remembers its layout by this name
        raise Invalid(f"{made!r} is no layout called {name!r}", hint="Its package must make a Layout of that name.")
    return made


def is_known(name: str) -> bool:
    """Whether there is such a layout, here or in an installed package."""
    if name in NAMES:
        return True

    return name in plugins.names("layouts")
