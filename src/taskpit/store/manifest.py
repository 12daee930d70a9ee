"""The workspace's `manifest.json`: an index that others read, derived from the names, never trusted.

It is rebuilt whole and replaced in one step, so a reader always finds valid JSON. Whoever changes a task
leaves a mark and rebuilds unless somebody is at it; whoever is at it looks at the mark again before it
leaves. A crash leaves the mark, and the next change or sweep rebuilds. A process that changes one task after the other
rebuilds in a twentieth of its time at most, and otherwise when it waits, renews a claim or closes the queue.
Fields that others added are kept, and so are entries of what was never a task here.
"""

from __future__ import annotations

import contextlib
import json
import time

from taskpit import fs, workers
from taskpit.clock import instant, iso
from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.ids import is_word
from taskpit.layouts import Spot
from taskpit.model import State, Verdict
from taskpit.store.folder import HIDDEN, IDS, LARGEST_RESULT, Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MARK = f"{HIDDEN}/manifest.dirty"
LOCK = f"{HIDDEN}/manifest.lock"
#: What share of its time a process spends on this, and how many seconds of the processor it may have saved for it.
SHARE, SAVED = 0.05, 0.05
#: What a manifest tells of each task.
KEYS = {"id", "status", "owner", "created_at", "completed_at", "output"}
#: A manifest's words for our states.
STATUS = {State.READY: "pending", State.CLAIMED: "inprogress", State.DONE: "done", State.FAILED: "failed"}


class Manifest:
    """The manifest of one workspace, as one process keeps it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        #: Whether it was put off, and the seconds of the processor that may be spent on it, as of this time.
        self.late = False
        self._credit, self._since = SAVED, time.monotonic()

    def refresh(self, *, changed: bool = True, now: bool = False) -> None:
        """It tells what the names tell; after a change, as soon as there is time for it unless it is wanted `now`."""
        folder = self._folder
        mark, today = folder.at(MARK), time.monotonic()
        if changed or not fs.exists(folder.at(folder.layout.manifest)):
            # Taken already: another has not come to it yet, and one rebuild will do for both.
            with contextlib.suppress(FileExistsError):
                fs.create(mark, b"", sync=False)
        self._credit = min(self._credit + SHARE * (today - self._since), SAVED)
        self._since, self.late = today, not now and self._credit <= 0
        while not self.late and fs.exists(mark):
            lock = fs.Flock(folder.at(LOCK))
            if not lock.take(wait=False):
                return  # its holder looks at the mark again after letting go
            try:
                fs.remove(mark)
                began = time.thread_time()
                _rebuild(folder)
                self._credit -= time.thread_time() - began
            except OSError:
                with contextlib.suppress(OSError):
                    fs.create(mark, b"", sync=False)
                raise
            finally:
                lock.drop()

    def refresh_at_last(self) -> None:
        """What was put off is done, if the disk lets us."""
        with contextlib.suppress(OSError):
            self.refresh(changed=False, now=True)


def _rebuild(folder: Folder) -> None:
    path = folder.at(folder.layout.manifest)
    before = _load(path)
    entries = (before or {}).get("tasks", [])
    if before is None or not isinstance(entries, list):  # whoever wrote it may want it back
        folder.set_aside(folder.layout.manifest, "it is no JSON object with a list of tasks; it was built again")
        before, entries = before or {}, []
    known = {str(entry["id"]): entry for entry in entries if isinstance(entry, dict) and "id" in entry}
    spots, ending = _look(folder, known)
    ordered = sorted({*spots, *ending}, key=lambda task_id: (folder.layout.number(task_id), task_id))
    tasks = [_entry(folder, spots[i], known.get(i, {})) if i in spots else known[i] for i in ordered]
    tasks += [entry for entry in entries if _is_theirs(folder, entry, {*spots, *ending})]
    data = spell({**before, "tasks": tasks}).encode("utf-8", "replace")
    scratch = folder.tmp("manifest", fs.fresh_name(), "new")
    folder.create_like(fs.status(path), scratch, data + b"\n", sync=False)
    if not fs.move(scratch, path):
        raise FileNotFoundError(path)


def _is_theirs(folder: Folder, entry: Any, here: set[str]) -> bool:
    """Whether an entry is of no task of this queue, neither now nor before: then it is left as it stands."""
    task_id = str(entry["id"]) if isinstance(entry, dict) and "id" in entry else ""
    return not is_word(task_id) or (task_id not in here and not fs.exists(folder.of(IDS, task_id)))


def spell(manifest: dict[str, Any]) -> str:
    """As `json.dumps` with an indent of two would, by its faster half: that one indents by nothing but separators."""
    fields = [f"  {_dumps(key)}: {_spell_field(key, value)}" for key, value in manifest.items()]
    return "{\n" + ",\n".join(fields) + "\n}"


def _spell_field(key: str, value: Any) -> str:
    if key != "tasks" or not value:
        return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
    return "[\n" + ",\n".join(map(_spell_entry, value)) + "\n  ]"


def _spell_entry(entry: Any) -> str:
    if not isinstance(entry, dict) or not entry or any(isinstance(value, dict | list) for value in entry.values()):
        return "    " + json.dumps(entry, indent=2, ensure_ascii=False).replace("\n", "\n    ")
    return "    {\n      " + _flat(entry)[1:-1] + "\n    }"


_dumps = json.JSONEncoder(ensure_ascii=False).encode
_flat = json.JSONEncoder(ensure_ascii=False, separators=(",\n      ", ": ")).encode


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


def _load(path: str) -> dict[str, Any] | None:
    """What it says now; None if it cannot be what it should be. OSError: the disk failed, which says nothing of it."""
    try:
        manifest = read_json(fs.read(path, LARGEST_RESULT)[0])
    except FileNotFoundError:
        return {}
    except (fs.NotAFile, fs.TooBig, PermissionError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) else None


def _entry(folder: Folder, spot: Spot, before: dict[str, Any]) -> dict[str, Any]:
    status = STATUS[spot.state]
    owner_now = workers.base(spot.worker) if spot.worker else None
    told = before.get("status") == status and (owner_now is None or before.get("owner") == owner_now)
    again = told and _again(folder, spot, before)
    if told and not again and before.keys() >= KEYS and (spot.verdict is None or before["output"]):
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
        entry |= _finished(folder, spot, {} if again else before)
    return entry


def _again(folder: Folder, spot: Spot, before: dict[str, Any]) -> bool:
    """Whether it failed once more since: others rename a failed task to a pending one, and nobody looked meanwhile."""
    found = fs.status(folder.at(folder.layout.result_of(spot))) if spot.verdict is Verdict.FAILED else None
    try:
        return found is not None and int(found.st_mtime) > instant(str(before.get("completed_at")), 0.0)
    except ValueError:
        return False  # others may write what they like


def _created(folder: Folder, spot: Spot) -> str | None:
    status = fs.status(folder.at(spot.path))
    try:
        created = folder.load(spot, folder.at(spot.path)).created
    except (OSError, Invalid):
        original = folder.original(spot.id)
        created = original.created if original else 0.0
    if created:
        return iso(created)
    return iso(min(status.st_mtime, status.st_ctime)) if status else None  # a claim's mtime is the end of its lease


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
        "owner": workers.base(result.worker) or before.get("owner"),
        "completed_at": iso(result.finished or status.st_mtime),
        "output": output,
    }
