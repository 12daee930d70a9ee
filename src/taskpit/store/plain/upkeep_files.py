"""Small files in workers/ that several verbs share: the pause, and recent starts of tasks with limits by the minute."""

from __future__ import annotations

import json

from taskpit import rules
from taskpit.clock import LAST, iso
from taskpit.decode import read_json
from taskpit.model import Task
from taskpit.rules import MINUTE, Use
from taskpit.store.plain import paths
from taskpit.store.plain.folder import Folder

#: Bytes that are read of one of them.
LARGEST = 1 << 26


def replace(folder: Folder, path: str, data: bytes, *, sync: bool = False) -> None:
    """Replace a small file, in one step for readers."""
    scratch = f"{path}~{folder.nonce()}"
    folder.make_place(path)
    folder.files.create(scratch, data, sync=sync)
    folder.files.replace(scratch, path)
    if sync:
        folder.files.sync(path)
        folder.sync_dirs(path.rpartition("/")[0])


def paused(folder: Folder) -> str:
    """Say who paused the queue, why and until when; empty if it is not paused or its time has passed."""
    if folder.files.stat(paths.PAUSED) is None:
        return ""
    try:
        fields = read_json(folder.files.read(paths.PAUSED, 1 << 16)[0])
        reason, until = str(fields["reason"]), float(fields["until"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""  # torn by a power loss: it was never acknowledged
    if until and until <= folder.clock.now():
        return ""
    return f"{reason}, until {iso(until)}" if until else reason


def pause(folder: Folder, reason: str, seconds: float, worker: str) -> None:
    """Give nothing out for so long; 0 is until `resume`."""
    until = min(folder.clock.now() + seconds, LAST) if seconds else 0.0
    fields = {"reason": f"paused by {worker}: {' '.join(reason.split())}", "until": until}
    replace(
        folder, paths.PAUSED, json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace"), sync=folder.durable
    )
    folder.tell("paused", worker=worker, details=reason)


def resume(folder: Folder, worker: str) -> bool:
    """Give tasks out again; False if they were all the time."""
    was = paused(folder)
    folder.files.remove(paths.PAUSED)
    if was:
        folder.tell("resumed", worker=worker)
    return bool(was)


def starts(folder: Folder) -> dict[str, tuple[float, ...]]:
    """Read when keys that are limited by the minute were last used."""
    found: dict[str, tuple[float, ...]] = {}
    for line in folder.files.piece(paths.STARTS, 0, LARGEST)[0].decode("ascii", "replace").splitlines():
        at, _, key = line.partition(" ")
        try:
            found[key] = (*found.get(key, ()), float(at))
        except ValueError:
            continue  # not ours
    return found


def note_starts(folder: Folder, task: Task, use: Use) -> None:
    """Note that a task is about to be claimed: a crash before the claim counts a start that never was, for a minute."""
    keys = rules.rated(task, use.settings)
    if not keys:
        return
    lines = [f"{at:.3f} {key}\n" for key, times in use.starts.items() for at in times if abs(use.now - at) < MINUTE]
    lines += [f"{use.now:.3f} {key}\n" for key in keys]
    replace(folder, paths.STARTS, "".join(lines).encode())
