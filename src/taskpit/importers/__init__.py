"""The importers by name: what other trackers wrote, in our words. Pure: text in, tasks out, no disk."""

from __future__ import annotations

from taskpit import plugins
from taskpit.importers.importer import Bad, Found, Importer

__all__ = ["NAMES", "Bad", "Found", "Importer", "detect", "get"]

#: Importers that ship with taskpit.
NAMES = ("beads", "claude", "backlog", "taskmaster", "github", "checklist")


def get(name: str) -> Importer:
    """The importer of that name, ours or an installed package's; loads only that one."""
    made: Importer
    if name in NAMES:
        from importlib import import_module

        made = import_module(f"taskpit.importers.{name}").IMPORTER
    else:
        made = plugins.make("importers", name, Importer, NAMES)
    return made


def detect(name: str, text: str) -> str:
    """The one importer that recognises this file; empty if none does, or several. Asks only those that ship."""
    found = [one for one in NAMES if get(one).recognises(name, text)]
    return found[0] if len(found) == 1 else ""
