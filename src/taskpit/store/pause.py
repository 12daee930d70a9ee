"""Pausing a whole queue: one file that every claim looks for."""

from __future__ import annotations

from taskpit import fs, jsontext
from taskpit.clock import LAST, iso
from taskpit.store.folder import HIDDEN, Folder
from taskpit.text import read_json

__all__ = ["pause", "paused", "resume"]

PAUSED = f"{HIDDEN}/paused"


def pause(folder: Folder, reason: str, seconds: float, worker: str) -> None:
    """Nobody is given anything for so long; 0 is until `resume`."""
    until = folder.clock.now() + seconds if seconds else 0.0
    data = jsontext.dumps({"reason": reason, "until": until, "by": worker}).encode("utf-8", "replace")
    fs.replace(folder.at(PAUSED), data, folder.tmp("paused", fs.fresh_name(), "new"), sync=False)
    folder.tell("paused", worker=worker, details=reason)


def resume(folder: Folder, worker: str) -> bool:
    """Tasks are given out again; False if they were all the time."""
    if not fs.remove(folder.at(PAUSED)):
        return False
    folder.tell("resumed", worker=worker)
    return True


def paused(folder: Folder) -> str:
    """Who paused it, why and until when; empty if nobody did or the time has passed."""
    if not fs.exists(f"{folder.root}/{PAUSED}"):
        return ""
    try:
        said = read_json(fs.read(folder.at(PAUSED), 65536)[0])
        until = float(said["until"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "paused, and the reason cannot be read"
    if until and until <= folder.clock.now():
        return ""
    told = f"paused by {said.get('by')}: {said.get('reason')}"
    return f"{told}, until {iso(until)}" if until and abs(until) <= LAST else told
