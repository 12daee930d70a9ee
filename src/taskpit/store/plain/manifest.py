"""The workspace's `manifest.json`: an index that coordinators read, derived from the names, never trusted.

A verb that changes a task leaves a mark and rebuilds the index, unless another process is at it, which looks at the
mark again before it leaves. A process that changes one task after the other spends a twentieth of its time on it at
most, and does the rest when it waits, renews a claim or closes the queue. The new file is exchanged with the old one in
one step: if what comes back is not what was read, another program wrote in the meantime, and its version is the base of
the next try. Fields and entries that others added are kept; our last version supplies them when theirs is torn.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from taskpit.clock import instant, iso
from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.ids import is_word
from taskpit.layouts import Spot
from taskpit.model import State, Verdict
from taskpit.store.plain import paths
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.paths import LARGEST_RESULT
from taskpit.workers import base

MARK, LOCK, LAST = (f"{paths.WORKERS}/.manifest{suffix}" for suffix in (".dirty", ".lock", ".json"))
#: What share of its time a process spends on this, and how many seconds it may have saved for it.
SHARE, SAVED = 0.05, 0.05
#: Rebuilds in a row because other programs wrote in the meantime.
TRIES = 5
KEYS = {"id", "status", "owner", "created_at", "completed_at", "output"}
STATUS = {State.READY: "pending", State.CLAIMED: "inprogress", State.DONE: "done", State.FAILED: "failed"}

Entry = dict[str, Any]


class Manifest:
    """The manifest of one workspace, as one process keeps it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        #: Whether a rebuild was put off; the seconds that may be spent on it, as of this time.
        self.late = False
        self._credit, self._since = SAVED, folder.clock.monotonic()

    def refresh(self, *, now: bool = False) -> None:
        """Rebuild after a change, as soon as there is time for it unless it is wanted now. Its trouble is not ours."""
        with suppress(OSError):
            self._folder.make_place(MARK)
            with suppress(FileExistsError):
                self._folder.files.create(MARK, b"")
            self._rebuild(now=now)

    def catch_up(self) -> None:
        """Do what was put off."""
        if self.late:
            with suppress(OSError):
                self._rebuild(now=True)

    def _rebuild(self, *, now: bool) -> None:
        files, clock = self._folder.files, self._folder.clock
        self._credit = min(self._credit + SHARE * (clock.monotonic() - self._since), SAVED)
        self._since = clock.monotonic()
        self.late = not now and self._credit <= 0
        while not self.late and files.stat(MARK) is not None:
            lock = files.lock_file(LOCK)
            try:
                if not lock.take():
                    return  # its holder looks at the mark again
                files.remove(MARK)
                began = clock.monotonic()
                rebuild(self._folder)
                self._credit -= clock.monotonic() - began
            except OSError:
                with suppress(OSError):
                    files.create(MARK, b"")
                raise
            finally:
                lock.close()


def rebuild(folder: Folder) -> None:
    """Write the manifest again."""
    path, files = folder.layout.manifest, folder.files
    for _ in range(TRIES):
        before = _read(folder, path)
        manifest = _merged(folder, before)
        data = (spell(manifest) + "\n").encode("utf-8", "replace")
        if data == before:
            return
        scratch = f"{paths.WORKERS}/.manifest~{folder.nonce()}"
        files.create(scratch, data)
        status = files.stat(path)
        if status is not None:
            files.set_mode(scratch, status.st_mode & 0o777)
        if not files.exchange(scratch, path):
            files.replace(scratch, path)
            break
        replaced = _read(folder, scratch)
        files.remove(scratch)
        if replaced == before:
            break
        files.write_at(path, 0, replaced, cut=True)  # theirs is the base of the next try
    with suppress(OSError):
        files.write_at(LAST, 0, data, cut=True)


def _read(folder: Folder, path: str) -> bytes:
    try:
        return folder.files.read(path, LARGEST_RESULT)[0]
    except FileNotFoundError:
        return b""


def _merged(folder: Folder, data: bytes) -> Entry:
    manifest = _parsed(data) if data else {}
    last = _parsed(folder.files.piece(LAST, 0, LARGEST_RESULT)[0]) or {}
    if manifest is None:
        message = "it is no JSON object with a list of tasks; it was built again"
        folder.set_aside(folder.layout.manifest, message, folder.files.stat(folder.layout.manifest))
        manifest = last
    known = {**_by_id(last), **_by_id(manifest)}
    spots = _spots(folder, known)
    ending = {spot.id for change in folder.pending.listing()[0] if (spot := folder.ready_spot(change.token.name))}
    ending &= known.keys() - spots.keys()
    ordered = sorted({*spots, *ending}, key=lambda task_id: (folder.layout.number(task_id), task_id))
    tasks = [_entry(folder, spots[one], known.get(one, {})) if one in spots else known[one] for one in ordered]
    tasks += [entry for entry in manifest.get("tasks", []) if _is_theirs(folder, entry, {*spots, *ending})]
    return {**manifest, "tasks": tasks}


def _parsed(data: bytes) -> Entry | None:
    try:
        manifest = read_json(data)
    except ValueError:
        return None
    return manifest if isinstance(manifest, dict) and isinstance(manifest.get("tasks", []), list) else None


def _by_id(manifest: Entry) -> dict[str, Entry]:
    return {str(one["id"]): one for one in manifest.get("tasks", []) if isinstance(one, dict) and "id" in one}


def _is_theirs(folder: Folder, entry: Any, here: set[str]) -> bool:
    """Tell whether an entry is of no task of this queue, neither now nor before: it is left as it is."""
    task_id = str(entry["id"]) if isinstance(entry, dict) and "id" in entry else ""
    return not is_word(task_id) or (task_id not in here and not folder.is_known(task_id))


def _spots(folder: Folder, known: dict[str, Entry]) -> dict[str, Spot]:
    """Find the tasks by name. A listing may show a task twice while it is renamed: the later state is the truth."""
    spots: dict[str, Spot] = {}
    states = list(STATUS)
    for _ in range(2):
        for spot in folder.spots(folder.layout.ready):
            other = spots.get(spot.id)
            if other is None or states.index(spot.state) > states.index(other.state):
                spots[spot.id] = spot
        if known.keys() <= spots.keys():
            break
    return spots


def _entry(folder: Folder, spot: Spot, before: Entry) -> Entry:
    status, owner = STATUS[spot.state], base(spot.worker) if spot.worker else None
    same = before.get("status") == status and (owner is None or before.get("owner") == owner)
    again = same and _failed_again(folder, spot, before)
    if same and not again and before.keys() >= KEYS and (spot.verdict is None or before["output"]):
        return before
    created = before.get("created_at") or _created(folder, spot)
    entry = {**before, "id": spot.id, "status": status, "owner": owner, "created_at": created}
    entry |= {"completed_at": None, "output": None}
    return entry | _finished(folder, spot, {} if again else before) if spot.verdict is not None else entry


def _failed_again(folder: Folder, spot: Spot, before: Entry) -> bool:
    """Tell whether it failed once more: others rename a failed task to a pending one between two looks."""
    found = folder.files.stat(folder.layout.result_of(spot)) if spot.verdict is Verdict.FAILED else None
    try:
        return found is not None and int(found.st_ctime) > instant(str(before.get("completed_at")), 0.0) + 1
    except ValueError:
        return False


def _created(folder: Folder, spot: Spot) -> str | None:
    try:
        created = folder.load(spot).created
    except (OSError, Invalid):
        original = folder.original(spot.id)
        created = original.created if original else 0.0
    status = folder.files.stat(spot.path)
    if not created and status is not None:
        created = min(status.st_mtime, status.st_ctime)
    return iso(created) if created else None


def _finished(folder: Folder, spot: Spot, before: Entry) -> Entry:
    output = folder.layout.result_of(spot)
    try:
        data, status = folder.files.read(output, LARGEST_RESULT)
    except OSError:
        ended = folder.files.stat(spot.path)
        when = before.get("completed_at") or (iso(ended.st_ctime) if ended else None)
        return {"owner": before.get("owner"), "completed_at": when, "output": None}
    result, _ = folder.layout.load_result(spot, data)
    owner = base(result.worker) or before.get("owner")
    return {"owner": owner, "completed_at": iso(result.finished or status.st_mtime), "output": output}


def spell(manifest: Entry) -> str:
    """Spell the manifest as `json.dumps` with an indent of two does, by its faster half: lists of flat objects."""
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
