"""The workspace's `manifest.json`: an index that others read, derived from the names, never trusted.

It is rebuilt whole and replaced in one step, so a reader always finds valid JSON. Whoever changes a task
leaves a mark and rebuilds unless somebody is at it; whoever is at it looks at the mark again before it
leaves. A crash leaves the mark, and the next change or sweep rebuilds. Fields that others added are kept.
"""

from __future__ import annotations

import contextlib
import json

from taskpit import fs, owner
from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.store.folder import HIDDEN, LARGEST_RESULT, Folder
from taskpit.task import State
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["refresh"]

MARK = f"{HIDDEN}/manifest.dirty"
LOCK = f"{HIDDEN}/manifest.lock"
#: What a manifest tells of each task.
KEYS = {"id", "status", "owner", "created_at", "completed_at", "output"}
#: A manifest's words for our states.
STATUS = {State.READY: "pending", State.CLAIMED: "inprogress", State.DONE: "done", State.FAILED: "failed"}


def refresh(folder: Folder, *, changed: bool = True) -> None:
    """The manifest tells what the names tell. `changed=False`: only if somebody died before saying so."""
    if not folder.layout.manifest:
        return
    mark = folder.at(MARK)
    if changed or not fs.exists(folder.at(folder.layout.manifest)):
        # Taken already: somebody has not come to it yet, and one rebuild will do for both.
        with contextlib.suppress(FileExistsError):
            fs.create(mark, b"", sync=False)
    while fs.exists(mark):
        lock = fs.Flock(folder.at(LOCK))
        if not lock.take(wait=False):
            return  # its holder looks at the mark again after letting go
        try:
            fs.remove(mark)
            _rebuild(folder)
        finally:
            lock.drop()


def _rebuild(folder: Folder) -> None:
    path = folder.at(folder.layout.manifest)
    before = _load(path)
    entries = before.get("tasks")
    known = {
        str(entry.get("id")): entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    }
    spots, ending = _look(folder, known)
    ordered = sorted({*spots, *ending}, key=lambda task_id: (folder.layout.number(task_id), task_id))
    tasks = [_entry(folder, spots[i], known.get(i, {})) if i in spots else known[i] for i in ordered]
    data = json.dumps({**before, "tasks": tasks}, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    fs.replace(path, data + b"\n", folder.tmp("manifest", fs.fresh_name(), "new"), sync=False)


def _look(folder: Folder, known: dict[str, dict[str, Any]]) -> tuple[dict[str, Spot], set[str]]:
    """The tasks by name, and those known ones whose claim is just ending: they are between two names."""
    spots: dict[str, Spot] = {}
    ending: set[str] = set()
    for _ in range(2):
        for _, spot in folder.entries(folder.layout.ready):
            if isinstance(spot, Spot) and _later(spot, spots.get(spot.id)):
                spots[spot.id] = spot
        if known.keys() <= spots.keys():
            return spots, set()
        ending |= {spot.id for spot, _, _ in folder.sealed()}
    return spots, ending & (known.keys() - spots.keys())


def _later(spot: Spot, other: Spot | None) -> bool:
    """A listing may show a task twice while it is renamed: the state further on is the truth."""
    order = list(STATUS)
    return other is None or order.index(spot.state) > order.index(other.state)


def _load(path: str) -> dict[str, Any]:
    try:
        manifest = read_json(fs.read(path, LARGEST_RESULT)[0])
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _entry(folder: Folder, spot: Spot, before: dict[str, Any]) -> dict[str, Any]:
    status = STATUS[spot.state]
    owner_now = owner.base(spot.worker) if spot.worker else None
    told = before.get("status") == status and (owner_now is None or before.get("owner") == owner_now)
    if told and before.keys() >= KEYS and (spot.verdict is None or before["output"]):
        return before
    entry = {
        **before,
        "id": spot.id,
        "status": status,
        "owner": owner_now,
        "created_at": before.get("created_at") or _created(folder, spot),
        "completed_at": None,
        "output": None,
    }
    if spot.verdict is not None:
        entry |= _finished(folder, spot, before)
    return entry


def _created(folder: Folder, spot: Spot) -> str | None:
    status = fs.status(folder.at(spot.path))
    try:
        created = folder.load(spot, folder.at(spot.path)).created
    except (OSError, Invalid):
        original = folder.original(spot.id)
        created = original.created if original else 0.0
    if created:
        return iso(created)
    return iso(status.st_mtime) if status else None


def _finished(folder: Folder, spot: Spot, before: dict[str, Any]) -> dict[str, Any]:
    """Who finished it, when, and where to read it."""
    output = folder.layout.result_of(spot)
    try:
        data, status = fs.read(folder.at(output), LARGEST_RESULT)
    except OSError:
        ended = fs.status(folder.at(spot.path))
        when = before.get("completed_at") or (ended and iso(ended.st_ctime))
        return {"owner": before.get("owner"), "completed_at": when, "output": None}
    result, _ = folder.layout.load_result(spot, data)
    return {
        "owner": owner.base(result.worker) or before.get("owner"),
        "completed_at": iso(result.finished or status.st_mtime),
        "output": output,
    }
