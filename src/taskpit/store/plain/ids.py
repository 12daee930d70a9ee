"""Ids of new tasks, and which task a few letters mean.

`.taskpit/next` has the next number: a hint, read and written under the lock, that never falls. The link to open/<id>
decides, so a number that another program has used in the meantime is only passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskpit.ids import is_word
from taskpit.model import State
from taskpit.store.plain import paths

if TYPE_CHECKING:
    from taskpit.store.plain.folder import Folder

#: Numbers from here on are no count of ours: ids after them would be too long.
BEYOND = 10**15
#: A folder that has more bytes is vast: some thousand names.
VAST = 1 << 18
#: Letters of a random id; a first one that is no digit keeps it apart from numbers.
LETTERS, FIRST = 6, "abcdefghjkmnpqrstvwxyz"


def allot(folder: Folder, count: int) -> list[str]:
    """Give out ids that no task has, under the lock; a number is never given twice, even if its task is never put."""
    if folder.config.ids == "random":
        return _random(folder, count)
    number = max(_next(folder), folder.layout.first_number(folder.clock.now()))
    taken, ids = by_hand(folder), list[str]()
    while len(ids) < count:
        task_id = folder.layout.new_id(number)
        if task_id not in taken and not folder.is_known(task_id):
            ids.append(task_id)
        number += 1
    folder.files.write_at(paths.NEXT, 0, str(number).encode(), cut=True)
    return ids


def unused(folder: Folder, ids: list[str]) -> list[str]:
    """Return those of some reserved ids that no other program has used in the meantime."""
    taken = by_hand(folder)
    return [task_id for task_id in ids if task_id not in taken and not folder.is_known(task_id)]


def by_hand(folder: Folder) -> set[str]:
    """Return the ids in the names of all visible files, also of those that are not registered yet.

    A vast folder of ready files or results is not listed: there the rest of the name distinguishes the tasks.
    """
    layout, found = folder.layout, set[str]()
    for place in dict.fromkeys((layout.claimed, layout.ready, *layout.results)):
        status = folder.files.stat(place)
        if place == layout.claimed or (status is not None and status.st_size <= VAST):
            found |= {spot.id for spot in folder.spots(place)}
    return found


def give_back(folder: Folder, ids: list[str]) -> None:
    """Take back ids that were reserved and not used, unless later ones were given out: then they stay gaps."""
    numbers = sorted(map(folder.layout.number, ids))
    if folder.config.ids != "random" and numbers and _next(folder) == numbers[-1] + 1:
        folder.files.write_at(paths.NEXT, 0, str(numbers[0]).encode(), cut=True)


def _next(folder: Folder) -> int:
    text = folder.files.piece(paths.NEXT, 0, 32)[0].strip()
    if text.isdigit() and int(text) < BEYOND:
        return int(text)
    numbers = map(folder.layout.number, every(folder))
    return max((number for number in numbers if number < BEYOND), default=0) + 1


def _random(folder: Folder, count: int) -> list[str]:
    ids: list[str] = []
    while len(ids) < count:
        word = folder.clock.chance(LETTERS)
        if word[0] in FIRST and not folder.is_known(word):
            ids.append(word)
    return ids


def every(folder: Folder) -> set[str]:
    """Return the ids of all tasks, also of those that only other programs have seen."""
    known = {name.partition("~")[0] for place in (paths.OPEN, paths.ENDED) for name in folder.files.names(place)}
    layout = folder.layout
    places = dict.fromkeys((layout.ready, layout.claimed, *layout.results))
    return known | {spot.id for place in places for spot in folder.spots(place)}


def resolve(folder: Folder, text: str) -> list[str]:
    """Find the ids that a text may mean: itself, the number it is short for, or all that begin with it."""
    if not text:
        return []
    number = folder.layout.number(text)
    wanted = folder.layout.new_id(number) if number else text
    for exact in (text, wanted):
        if is_word(exact) and folder.is_known(exact):
            return [exact]
    here = every(folder)
    for exact in (text, wanted):
        if exact in here:
            return [exact]
    return sorted(task_id for task_id in here if task_id.startswith(text) and is_word(task_id))


def waiting(folder: Folder) -> set[str]:
    """Return the ids of all ready files."""
    return {spot.id for spot in folder.spots(folder.layout.ready, State.READY)}
