"""Ids of new tasks, and which task a few letters mean.

New ones come from a counter under a lock, what it has lost made up from what there is; or they are random words.
"""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.errors import Unavailable
from taskpit.layouts import Spot
from taskpit.schema import is_word
from taskpit.store.flock import BoundedLock
from taskpit.store.folder import HIDDEN, IDS, Folder
from taskpit.task import State

#: Numbers from here on are nobody's count: ids after them would be too long.
BEYOND = 10**15
#: What random ids are made of, and how long they are: no letter that looks like another, and none is a number.
FIRST, REST, LETTERS = "abcdefghjkmnpqrstuvwxyz", "abcdefghjkmnpqrstuvwxyz23456789", 6


def allot(folder: Folder, count: int) -> list[str]:
    """Ids nobody has; numbers are never given twice, even if their tasks are never put."""
    if not count:
        return []
    if folder.config.ids == "random":
        return _random(folder, count)
    with BoundedLock(folder.at(f"{HIDDEN}/next")) as lock:
        text = os.pread(lock.fd, 32, 0).strip()
        number = int(text) if text.isdigit() and int(text) < BEYOND else _highest(folder) + 1
        number = max(number, folder.layout.first_number(folder.clock.now()))
        ids: list[str] = []
        while len(ids) < count:
            task_id = folder.layout.new_id(number)
            if not fs.exists(folder.of(IDS, task_id)):
                ids.append(task_id)
            number += 1
        fs.overwrite(lock.fd, str(number).encode(), lock.path)
    return ids


def give_back(folder: Folder, ids: list[str]) -> None:
    """Ids that were reserved and not used are given out again, unless later ones were: then they stay gaps."""
    if folder.config.ids == "random":
        return
    numbers = sorted(map(folder.layout.number, ids))
    try:
        with BoundedLock(folder.at(f"{HIDDEN}/next")) as lock:
            if os.pread(lock.fd, 32, 0).strip() == str(numbers[-1] + 1).encode():
                fs.overwrite(lock.fd, str(numbers[0]).encode(), lock.path)
    except (OSError, Unavailable):
        return


def _random(folder: Folder, count: int) -> list[str]:
    """Words that no other branch, clone or process comes upon: the link to the registry still decides."""
    ids: list[str] = []
    while len(ids) < count:
        drawn = os.urandom(LETTERS)
        word = FIRST[drawn[0] % len(FIRST)] + "".join(REST[byte % len(REST)] for byte in drawn[1:])
        if not fs.exists(folder.of(IDS, word)):
            ids.append(word)
    return ids


def _highest(folder: Folder) -> int:
    layout = folder.layout
    places = {layout.ready, layout.claimed, *layout.results}
    spots = (spot for place in places for _, spot in folder.entries(place) if isinstance(spot, Spot))
    ids = [*fs.names(folder.at(IDS)), *(spot.id for spot in spots)]
    return max((number for number in map(layout.number, ids) if number < BEYOND), default=0)


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
