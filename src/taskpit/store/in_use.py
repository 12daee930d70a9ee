"""What the tasks of a folder use that others may want: paths they change, keys that are limited.

At once is told by what is claimed; by the minute by a file of recent starts, which is written before the claim, in the
turn of all who claim such tasks. A crash in between counts a start that never was, for a minute.
"""

from __future__ import annotations

from taskpit import fs, rules
from taskpit.rules import MINUTE, Use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.model import Task
    from taskpit.store.folder import Folder

STARTS = ".taskpit/starts"
#: Bytes of that file that are read: more starts in a minute than any limit allows.
LARGEST = 1 << 26


def in_use(folder: Folder) -> Use:
    """What is in use now."""
    running, settings = tuple(folder.running()), folder.config.limits
    return Use(running=running, starts=starts(folder), settings=settings, now=folder.clock.now())


def excluded(task: Task, use: Use) -> tuple[str, float]:
    """Why it may not run beside those, and until when if that is known."""
    reason = rules.in_the_way(task, use.running)
    return (reason, 0.0) if reason else rules.over_limit(task, use)


def starts(folder: Folder) -> dict[str, tuple[float, ...]]:
    """When keys that are limited by the minute were last used."""
    found: dict[str, tuple[float, ...]] = {}
    try:
        data, _ = fs.read(folder.at(STARTS), LARGEST)
    except OSError:
        return found
    for line in data.decode("ascii", "replace").splitlines():
        at, _, key = line.partition(" ")
        try:
            found[key] = (*found.get(key, ()), float(at))
        except ValueError:
            continue  # not ours
    return found


def note_starts(folder: Folder, task: Task, use: Use) -> None:
    """It is about to be claimed, in the turn of all who claim such tasks."""
    keys = rules.rated(task, use.settings)
    if not keys:
        return
    lines = [f"{at:.3f} {key}\n" for key, times in use.starts.items() for at in times if abs(use.now - at) < MINUTE]
    lines += [f"{use.now:.3f} {key}\n" for key in keys]
    scratch = folder.tmp(task.id, fs.fresh_name(), "starts")
    fs.replace(folder.at(STARTS), "".join(lines).encode(), scratch, sync=False)
