"""Cures that need a person's word: each takes one thing that is out of order and puts it right. Never deletes content.

A sweep runs by itself while people and foreign tools work in the folder, so it leaves alone what somebody may have
meant: a task's file or a result that was taken away, a file with a strange name, rights that were changed. Here
somebody has asked. Each cure looks again before it acts, and what it does is safe while workers live: a task that is
put back by mistake is a copy, which no claim takes while the task itself is anywhere else.
"""

from __future__ import annotations

import stat

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.schema import path_of
from taskpit.store import changelog
from taskpit.store.folder import CHANGELOG, IDS, LARGEST_RESULT, QUARANTINE, Folder, stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.layouts import Spot
    from taskpit.task import Task, Verdict

__all__ = [
    "accept_result",
    "aside",
    "end_line",
    "let_owner",
    "make_folder",
    "one_name",
    "put_back",
    "register",
    "show_result",
]


def make_folder(folder: Folder, name: str) -> str:
    """The directory is there; what stood in its place is set aside."""
    there = fs.status(folder.at(name))
    where = aside(folder, name, "a directory of the queue belongs here", there) if there else ""
    fs.make_dir(folder.at(name))
    return f"made again; {where}" if where else "made again"


def aside(folder: Folder, relative: str, reason: str, judged: fs.Stat) -> str:
    """It lies in quarantine with its reason."""
    there = fs.status(folder.at(QUARANTINE))
    if there is not None and not stat.S_ISDIR(there.st_mode):
        fs.move(folder.at(QUARANTINE), folder.at(f"{QUARANTINE}~{fs.fresh_name()}"))
    fs.make_dir(folder.at(QUARANTINE))
    where = folder.set_aside(relative, reason, judged)
    return f"{reason}; now {where}" if where else ""


def let_owner(folder: Folder, name: str, rights: int) -> str:
    """Its owner, who is us, may do this with it."""
    status = fs.status(folder.at(name))
    if status is None or stat.S_ISLNK(status.st_mode):
        return ""
    fs.set_mode(folder.at(name), stat.S_IMODE(status.st_mode) | rights)
    return "you may use it again"


def end_line(folder: Folder) -> str:
    """What a killed writer left torn is a line of its own; nothing is taken away."""
    fs.append(folder.at(CHANGELOG), b"")
    return "the torn line was ended; readers pass over it"


def put_back(folder: Folder, task_id: str) -> str:
    """A task that is nowhere is ready again, as it was asked for. A copy: see above."""
    entry = path_of(IDS, task_id)
    task, status = folder.original(task_id), fs.status(folder.at(entry))
    if status is None:
        return ""
    if task is None:
        return aside(folder, entry, "what was asked for cannot be read", status)
    copy = folder.tmp(task_id, fs.fresh_name(), "again")
    ready = folder.layout.ready_path(folder.layout.named(task))
    fs.create(copy, task.source, sync=folder.durable)
    try:
        fs.move_new(copy, folder.at(ready))
    except FileExistsError:
        fs.remove(copy)
        return ""
    folder.sync(folder.layout.ready)
    folder.tell("restored_task", task_id, details="its file was gone")
    return f"put back as {ready}, as it was asked for; `pit cancel {task_id}` if it was meant to be removed"


def register(folder: Folder, task_id: str, source: str) -> str:
    """Its id is known again, so that nobody puts another task under it."""
    entry = folder.of(IDS, task_id)
    try:
        if not folder.layout.rewritten:
            return f"registered again by {source}" if fs.link(folder.at(source), entry) else ""
        # Others write into the file itself: what it is now is kept in a file of its own.
        copy = folder.tmp(task_id, fs.fresh_name(), "id")
        fs.create(copy, fs.read(folder.at(source), folder.config.largest_task)[0], sync=folder.durable)
        known = fs.link(copy, entry)
        fs.remove(copy)
    except (FileNotFoundError, fs.NotAFile, fs.TooBig):
        return ""  # it has moved on, or is nothing a task can be known by
    return f"registered again by {source}" if known else ""


def accept_result(folder: Folder, task_id: str, path: str) -> str:
    """A person has looked at a result that was edited: as it stands it is the result."""
    try:
        data = fs.read(folder.at(path), LARGEST_RESULT)[0]
    except OSError:
        return ""
    event = folder.event("accepted_result", task_id, details="it was edited after it was published")
    folder.tell_of([changelog.marked(event, changelog.digest(data))])
    return "accepted as it stands"


def show_result(folder: Folder, spot: Spot, verdict: Verdict) -> str:
    """The result stands in its place again: another name of the outcome we kept."""
    task = folder.original(spot.id) or _task_in_result(folder, spot, verdict) or stub(spot)
    place = folder.layout.result_path(task, verdict)
    try:
        linked = fs.link(folder.outcome_path(spot.id, verdict), folder.at(place))
    except FileNotFoundError:
        return ""  # it was reopened
    ended = folder.layout.ended_path(task, verdict)
    if ended and not fs.exists(folder.at(ended)):
        copy = folder.tmp(spot.id, fs.fresh_name(), "again")
        fs.create(copy, task.source, sync=folder.durable)
        fs.move(copy, folder.at(ended))
    elif not linked:
        return ""
    folder.sync(place.rpartition("/")[0])
    return f"{place} stands there again"


def _task_in_result(folder: Folder, spot: Spot, verdict: Verdict) -> Task | None:
    try:
        data, _ = fs.read(folder.outcome_path(spot.id, verdict), LARGEST_RESULT)
        return folder.layout.load_result(spot, data)[1]
    except (OSError, Invalid):
        return None


def one_name(folder: Folder, name: str, other: str) -> str:
    """Of two names of one file this one goes aside, if the other is still there after that."""
    judged = fs.status(folder.at(name))
    if judged is None or not _is(folder, other, judged):
        return ""
    where = folder.set_aside(name, f"it is the same file as {other}", judged)
    if where and not _is(folder, other, judged):
        fs.move_new(folder.at(where), folder.at(name))  # it was one file on its way after all
        return ""
    return f"the same file as {other}; this name of it is now {where}" if where else ""


def _is(folder: Folder, name: str, judged: fs.Stat) -> bool:
    status = fs.status(folder.at(name))
    return status is not None and status.st_ino == judged.st_ino
