"""Which files of a large queue need a closer look: listings are compared, no file is opened or looked at.

What a listing says may be a moment old. So nothing is decided here: whoever is in doubt looks at the file
itself, and all others are as they should be: registered, of one name, and not finished.
"""

from __future__ import annotations

from taskpit.ids import is_word
from taskpit.layouts.layout import NEVER, Spot
from taskpit.listing import entries
from taskpit.model import State
from taskpit.store.folder import IDS, OUTCOMES, SEALED, Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


def doubtful(folder: Folder) -> list[list[str]]:
    """Ready files that may not be their task, can be none or are called like none: names, those of one id together.

    All others are, by name and inode, the one file that is registered under their id, and nothing tells of
    another claim or an end of it.
    """
    layout, ready = folder.layout, folder.at(folder.layout.ready)
    unsure: dict[str, int | None] = {}
    doubts: set[str] = set()
    odd: list[list[str]] = []
    for entry in entries(ready):
        task_id = layout.ready_id(entry.name)
        if task_id is None or (not task_id and layout.state_in(layout.ready, entry.name) is None):
            odd.append([entry.name])
        elif task_id in unsure:
            doubts.add(task_id)
        elif task_id:
            unsure[task_id] = entry.inode()
    for entry in entries(folder.at(IDS)):
        inode = entry.inode()
        if inode and unsure.get(entry.name) == inode:
            unsure[entry.name] = None
    doubts.update(task_id for task_id in _elsewhere(folder) if task_id in unsure)
    doubts.update(task_id for task_id, inode in unsure.items() if inode is not None)
    unsure.clear()
    return odd + (_called(folder, doubts) if doubts else [])


def _called(folder: Folder, ids: Collection[str]) -> list[list[str]]:
    """The names of these tasks' ready files."""
    found: dict[str, list[str]] = {}
    for entry in entries(folder.at(folder.layout.ready)):
        task_id = folder.layout.ready_id(entry.name)
        if task_id and task_id in ids:
            found.setdefault(task_id, []).append(entry.name)
    return list(found.values())


def _elsewhere(folder: Folder) -> Iterator[str]:
    """Ids of tasks that are claimed or finished, or look like it."""
    for spot in folder.spots(folder.layout.claimed, State.CLAIMED):
        yield spot.id
    for task_id, _, _ in outcomes(folder):
        yield task_id
    for _, _, task_id, _ in _shown(folder):
        yield task_id


def outcomes(folder: Folder) -> Iterator[tuple[str, str, int]]:
    """What we know of ends: the task's id, what the entry is called, inode."""
    for entry in entries(folder.at(OUTCOMES)):
        task_id = entry.name.partition("~")[0]
        if is_word(task_id):
            yield task_id, entry.name, entry.inode()


def _shown(folder: Folder) -> Iterator[tuple[str, str, str, int]]:
    """What may tell of an end in the layout's own places: where, what it is called, id, inode."""
    layout = folder.layout
    for place in layout.results:
        for entry in entries(folder.at(place)):
            task_id = layout.ended_id(place, entry.name)
            if task_id:
                yield place, entry.name, task_id, entry.inode()


def unlike_outcomes(folder: Folder) -> list[Spot]:
    """Entries that say of a task that it has ended, without those that are the very file we know as its outcome."""
    known = {task_id: inode for task_id, _, inode in outcomes(folder)}
    names: dict[str, list[str]] = {}
    for place, name, task_id, inode in _shown(folder):
        if not inode or known.get(task_id) != inode:
            names.setdefault(place, []).append(name)
    known.clear()
    return [spot for place, files in names.items() for spot in _ends(folder, place, files)]


def _ends(folder: Folder, place: str, names: Iterable[str]) -> Iterator[Spot]:
    """Those of these entries that say of a task that it has ended."""
    for _, spot in folder.entries(place, among=names):
        if isinstance(spot, Spot) and spot.verdict is not None:
            yield spot


def out_of_sight(folder: Folder) -> list[tuple[str, str]]:
    """Outcomes whose very file does not stand in the layout's own places: id, and what each is called."""
    shown = {task_id: inode for _, _, task_id, inode in _shown(folder)}
    return [(task_id, name) for task_id, name, inode in outcomes(folder) if not inode or shown.get(task_id) != inode]


def strangers(folder: Folder) -> list[str]:
    """Names beside the ready tasks that are no task's and that no editor or person keeps there."""
    layout = folder.layout
    odd = [entry.name for entry in entries(folder.at(layout.ready)) if layout.ready_id(entry.name) == ""]
    known = {file for file, _ in folder.entries(layout.ready, among=odd)}
    return [name for name in odd if name not in known and not name.startswith(NEVER) and not name.endswith("~")]


def standing(folder: Folder) -> Iterator[tuple[str, str, str]]:
    """Every entry that is ready, claimed, or may tell of an end: where, what it is called, id."""
    yield from _to_do(folder)
    for place, name, task_id, _ in _shown(folder):
        yield place, name, task_id


def _to_do(folder: Folder) -> Iterator[tuple[str, str, str]]:
    """Every entry that is ready or claimed."""
    layout = folder.layout
    for entry in entries(folder.at(layout.ready)):
        task_id = layout.ready_id(entry.name)
        if task_id:
            yield layout.ready, entry.name, task_id
    for spot in folder.spots(layout.claimed, State.CLAIMED):
        yield layout.claimed, spot.path.rpartition("/")[2], spot.id


def twice(folder: Folder) -> set[str]:
    """Ids that stand in more than one place, or may."""
    seen: set[str] = set()
    found: set[str] = set()
    for _, _, task_id in standing(folder):
        (found if task_id in seen else seen).add(task_id)
    return found


def nowhere(folder: Folder) -> set[str]:
    """Names in the registry of tasks that are neither ready nor claimed nor finished, nor on their way."""
    missing = {entry.name for entry in entries(folder.at(IDS)) if is_word(entry.name)}
    missing.difference_update(task_id for _, _, task_id in _to_do(folder))
    missing.difference_update(task_id for task_id, _, _ in outcomes(folder))
    for place, name, task_id, _ in _shown(folder):
        if task_id in missing and any(_ends(folder, place, (name,))):
            missing.discard(task_id)
    for entry in entries(folder.at(SEALED)):
        sealed = folder.sealed_spot(entry.name)
        if sealed is not None:
            missing.discard(sealed.id)
    return missing
