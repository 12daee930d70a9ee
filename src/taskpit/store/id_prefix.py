"""Which task a few letters mean. Reads names, changes nothing."""

from __future__ import annotations

from taskpit import fs
from taskpit.schema import is_word
from taskpit.store.folder import IDS, Folder
from taskpit.task import State

__all__ = ["resolve", "waiting"]


def resolve(folder: Folder, text: str) -> list[str]:
    """Itself, the number it is short for, or all ids that begin with it."""
    number = folder.layout.number(text)
    wanted = folder.layout.new_id(number) if number else text
    for exact in (text, wanted):  # without a look at all of them, where that will do
        if is_word(exact) and fs.exists(folder.of(IDS, exact)):
            return [exact]
    here = set(fs.names(folder.at(IDS)))
    for seen in (waiting, _elsewhere):
        here |= seen(folder)
        for exact in (text, wanted):
            if exact in here:
                return [exact]
    return sorted(task_id for task_id in here if task_id.startswith(text) and is_word(task_id))


def waiting(folder: Folder) -> set[str]:
    """Ready tasks, also those that somebody made by hand."""
    return {spot.id for spot in folder.spots(folder.layout.ready, State.READY)}


def _elsewhere(folder: Folder) -> set[str]:
    """Tasks whose whole life was made by hand: nobody of ours has seen them before they were claimed or finished."""
    claimed = {spot.id for spot in folder.spots(folder.layout.claimed, State.CLAIMED)}
    return claimed | {spot.id for spot in folder.finished()}
