"""The changelog of a store, read on from where one was. Knows no verbs."""

from __future__ import annotations

from collections.abc import Callable

from taskpit import errors
from taskpit.model import Event
from taskpit.store.port import Looking


def new_events(store: Looking, cursor: str, keep: Callable[[Event], bool] = lambda _: True) -> tuple[list[Event], str]:
    """The lines of the changelog after the cursor that are kept, and the cursor after all of them.

    Where the changelog was begun again: those among all its lines.
    """
    found: list[Event] = []
    while True:
        try:
            events, cursor = store.events(cursor)
        except errors.CursorLost:
            found, cursor = [], ""
            continue
        if not events:
            return found, cursor
        found += filter(keep, events)


def unsettled(store: Looking, cursor: str) -> list[Event]:
    """Lines after the cursor that are not shown yet: in a database, where others may still come before them."""
    look: Callable[[str], list[Event]] | None = getattr(store, "unsettled", None)
    return look(cursor) if look is not None else []
