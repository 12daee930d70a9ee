"""The doctor's eyes: every invariant of the tree, looked at and not touched."""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.layouts import Spot
from taskpit.store.folder import IDS, LATE, OURS, QUARANTINE, Folder
from taskpit.store.mend import mend
from taskpit.store.port import Mend
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["examine"]


def examine(folder: Folder) -> list[Mend]:
    """What is out of order, most urgent first."""
    found = [*_folders(folder)]
    if not found:
        found += [*_twice(folder), *_vanished(folder), *_strangers(folder)]
        found += [Mend(kind="sweep will do", what=m.what, details=f"{m.kind}: {m.details}") for m in _due(folder)]
        found += [*_quarantined(folder), *_late(folder)]
    return found


def _due(folder: Folder) -> list[Mend]:
    return mend(folder, dry_run=True)


def _folders(folder: Folder) -> Iterator[Mend]:
    for name in (*folder.layout.folders, folder.layout.tmp, *OURS):
        path = folder.at(name)
        if not os.path.isdir(path):
            yield Mend(kind="missing", what=name, details="`pit init` on the same folder makes it again")
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            yield Mend(kind="not writable", what=name, details="check its owner and permissions")


def _twice(folder: Folder) -> Iterator[Mend]:
    """Tasks in two places. Looked at twice: a task that just moved is not in two places."""
    first = _places(folder)
    suspects = {task_id for task_id, places in first.items() if len(places) > 1}
    again = _places(folder) if suspects else {}
    for task_id in sorted(suspects):
        places = again.get(task_id, set()) & first[task_id]
        if len(places) > 1:
            yield Mend(kind="in two places", what=task_id, details=", ".join(sorted(places)))


def _places(folder: Folder) -> dict[str, set[str]]:
    places: dict[str, set[str]] = {}
    for name in dict.fromkeys((folder.layout.ready, folder.layout.claimed, *folder.layout.results)):
        for _, spot in folder.entries(name):
            if isinstance(spot, Spot):
                places.setdefault(spot.id, set()).add(spot.path)
    return places


def _vanished(folder: Folder) -> Iterator[Mend]:
    """Tasks whose id is known and that are nowhere: somebody removed the file by hand."""
    missing = [task_id for task_id in fs.names(folder.at(IDS)) if not _is_somewhere(folder, task_id, {})]
    if not missing:
        return
    known = _places(folder)  # they may have moved while we looked: look once more, at everything
    waiting = {name.split("~", 1)[0] for name in fs.names(folder.at(folder.layout.tmp))}
    for task_id in sorted(missing):
        if task_id not in waiting and not _is_somewhere(folder, task_id, known):
            details = f"its file is gone; what was asked for is in {IDS}/{task_id}"
            yield Mend(kind="vanished", what=task_id, details=details)


def _is_somewhere(folder: Folder, task_id: str, places: dict[str, set[str]]) -> bool:
    if folder.outcome(task_id) is not None or task_id in places:
        return True
    for name, state in ((folder.layout.ready, State.READY), (folder.layout.claimed, State.CLAIMED)):
        if not places and folder.find(name, state, task_id):
            return True
    return folder.is_sealed(task_id) or folder.published(task_id) is not None


def _strangers(folder: Folder) -> Iterator[Mend]:
    """Files where tasks should be that are called like none."""
    known = {file for file, _ in folder.entries(folder.layout.ready)}
    for name in sorted(fs.names(folder.at(folder.layout.ready))):
        if name not in known and not name.startswith((".", "README", "readme")) and not name.endswith("~"):
            details = "it is not called like a task, so nobody will take it"
            yield Mend(kind="stranger", what=f"{folder.layout.ready}/{name!r}", details=details)


def _quarantined(folder: Folder) -> Iterator[Mend]:
    for name in sorted(fs.names(folder.at(QUARANTINE))):
        if name.endswith(".reason"):
            continue
        try:
            reason = fs.read(folder.at(f"{QUARANTINE}/{name}.reason"), 65536)[0].decode("utf-8", "replace").strip()
        except OSError:
            reason = "no reason was written"
        yield Mend(kind="quarantined", what=f"{QUARANTINE}/{name}", details=reason)


def _late(folder: Folder) -> Iterator[Mend]:
    for name in sorted(fs.names(folder.at(LATE))):
        details = "what a superseded claim brought, kept aside"
        yield Mend(kind="late result", what=f"{LATE}/{name}", details=details)
