"""Numbers for new tasks: a counter under a lock; what it has lost is made up from what there is."""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.errors import Unavailable
from taskpit.layouts import Spot
from taskpit.store.folder import HIDDEN, IDS, Folder
from taskpit.store.turns import Turn

__all__ = ["allot", "give_back"]


#: Numbers from here on are nobody's count: ids after them would be too long.
BEYOND = 10**15


def allot(folder: Folder, count: int) -> list[str]:
    """Ids nobody has; numbers are never given twice, even if their tasks are never put."""
    if not count:
        return []
    with Turn(folder.at(f"{HIDDEN}/next")) as lock:
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
    numbers = sorted(map(folder.layout.number, ids))
    try:
        with Turn(folder.at(f"{HIDDEN}/next")) as lock:
            if os.pread(lock.fd, 32, 0).strip() == str(numbers[-1] + 1).encode():
                fs.overwrite(lock.fd, str(numbers[0]).encode(), lock.path)
    except (OSError, Unavailable):
        return


def _highest(folder: Folder) -> int:
    layout = folder.layout
    places = {layout.ready, layout.claimed, *layout.results}
    spots = (spot for place in places for _, spot in folder.entries(place) if isinstance(spot, Spot))
    ids = [*fs.names(folder.at(IDS)), *(spot.id for spot in spots)]
    return max((number for number in map(layout.number, ids) if number < BEYOND), default=0)
