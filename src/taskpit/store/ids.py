"""Ids of new tasks, and which task a few letters mean.

New ones come from a counter under a lock, what it has lost made up from what there is; or they are random words.
"""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.errors import Unavailable
from taskpit.ids import is_word, name_of
from taskpit.layouts import Spot
from taskpit.model import State
from taskpit.store.flock import BoundedLock
from taskpit.store.folder import HIDDEN, IDS, Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from taskpit.layouts import Layout
    from taskpit.layouts.layout import Named

#: Numbers from here on are nobody's count: ids after them would be too long.
BEYOND = 10**15
#: A directory that has more bytes is vast: some thousand names.
LISTED = 1 << 18
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
            beyond = number + count - len(ids)
            ids += unused(folder, [folder.layout.new_id(one) for one in range(number, beyond)])
            number = beyond
        fs.overwrite(lock.fd, str(number).encode(), lock.path)
    return ids


def unused(folder: Folder, ids: Sequence[str]) -> list[str]:
    """Those of these that nobody has, under whatever name."""
    return free(folder, [Spot(state=State.READY, id=one) for one in ids], _listed(folder))


def free(folder: Folder, tasks: Sequence[Named], listed: Sequence[str]) -> list[str]:
    """The ids of those of these that nobody has: not registered, and no other program gave one to a task by hand.

    Such a task may have gone straight to the claimed ones, where no sweep registers it. In directories that are
    `listed` it may have any name, elsewhere the one that ours would have.
    """
    layout, found = folder.layout, list[str]()
    names = {place: fs.names(folder.at(place)) for place in listed}
    here = _ids_in(layout, names)
    claimed = "/".join(names.get(layout.claimed, ()))
    registry, unlisted = folder.dir(IDS), {layout.ready, *layout.results} - names.keys()
    for task in tasks:
        task_id = task.id
        taken = task_id in here or fs.status_at(registry, name_of(task_id)) is not None
        if not taken and unlisted:
            paths = (layout.ready_path(task), *layout.finished_paths(task))
            taken = any(fs.exists(folder.at(path)) for path in paths if path.rpartition("/")[0] not in names)
        if not taken and task_id in claimed:
            some = folder.entries(layout.claimed, task_id, names[layout.claimed])
            taken = any(isinstance(spot, Spot) and spot.id == task_id for _, spot in some)
        if not taken:
            found.append(task_id)
    return found


def _ids_in(layout: Layout, names: Mapping[str, Sequence[str]]) -> set[str | None]:
    """The ids in the names of ready tasks and of results, where these have directories of their own."""
    here: set[str | None] = set()
    for place in names.keys() - {layout.claimed}:
        if place == layout.ready:
            here.update(map(layout.ready_id, names[place]))
        else:
            here.update(layout.ended_id(place, name) for name in names[place])
    return here


def _listed(folder: Folder) -> list[str]:
    """Directories where files of an id may have names that nobody can tell beforehand.

    A vast one of a pit's is not listed for a number: there what follows it tells another's task from ours.
    """
    layout = folder.layout
    others = (layout.ready, *layout.results) if layout.slugged else ()
    sizes = {place: fs.status(folder.at(place)) for place in others}
    return [layout.claimed, *(place for place, status in sizes.items() if status and status.st_size <= LISTED)]


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
    if not text:
        return []
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
