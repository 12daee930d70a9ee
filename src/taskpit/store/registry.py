"""Whose file a ready file is, and what becomes of one that may not run as it is. Decides nothing about who gets it.

Ids are registered when first seen. A file that is not the registered one was edited while it was ready, came back after
an attempt, or is a copy of a task that has moved on: an editor that saves a task again makes one, under the same
name, and nobody wants it to run twice; it is set aside. A file with the same number and another name is another task,
whose writer could not know that the number was taken: it goes on under the next free one. What failed and was put
there again is tried again. What was dropped in under no task's name gets one.
"""

from __future__ import annotations

import stat

from taskpit import fs
from taskpit.errors import Conflict
from taskpit.layouts import Spot
from taskpit.layouts.layout import NEVER, slugify
from taskpit.model import State, Task, Verdict
from taskpit.store import changelog
from taskpit.store.folder import CHANGELOG, HALF, IDS, SEALED, Folder
from taskpit.store.ids import allot
from taskpit.store.network_stat import has_twin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from taskpit.layouts.layout import Named

#: Ends after which a task may be wanted again.
FAILURES = (Verdict.FAILED, Verdict.CANCELLED)


def register(folder: Folder, spot: Spot, names: Collection[str] | None = None) -> fs.Stat | None:
    """Its id is known from now on; the file as it was looked at, or None if it is gone or not whole yet.

    Conflict if the id belongs to a task that is not this ready file; `again` in its details: to one that failed, and
    may be wanted again. `names` are those of this id's ready files, if
    they were just listed.
    """
    path, entry = f"{folder.root}/{spot.path}", folder.of(IDS, spot.id)
    known, here = fs.status(entry), fs.status(path)
    if here is None:
        return None
    if known is not None and known.st_ino == here.st_ino:
        refuse_finished(folder, spot, here)
        return None if has_twin(here, known) and not _refuse_copy(folder, spot, here, known, names) else here
    if not stat.S_ISREG(here.st_mode):
        raise Conflict("it is not a regular file", judged=here)
    if (known is None and not here.st_size) or not (folder.layout.rewritten or folder.writing.is_whole(path)):
        return None  # nobody may touch it, not even its times, while its writer is at it
    if known is None:
        if not changelog.mentions(folder.at(CHANGELOG), "added_task", spot.id):
            folder.tell("added_task", spot.id, details="found in the folder")
        try:
            if _enter_registry(folder, path, entry, spot):
                return None if _is_saved_again(folder, path) else here
        except (FileNotFoundError, PermissionError):
            return None  # another worker was faster, or it is shut
    return here if _refuse_copy(folder, spot, here, known, names) else None


def make_known(folder: Folder, task: Named) -> bool:
    """Whether its id is known: a whole ready file of its name that another program made is registered for that."""
    entry, path = folder.of(IDS, task.id), folder.layout.ready_path(task)
    if fs.exists(entry):
        return True
    try:
        register(folder, Spot(state=State.READY, id=task.id, slug=task.slug, path=path))
    except Conflict:
        return False
    return fs.exists(entry)


def _is_saved_again(folder: Folder, path: str) -> bool:
    """Whether an editor has begun to save it between our look and its registration, which makes it look older."""
    again = not folder.layout.rewritten and folder.writing.has_writer(path)
    if again:
        mark_half(folder, path)
    return again


def mark_half(folder: Folder, target: str) -> None:
    """It says by its time that it was found half written, until its writer goes on."""
    try:
        fs.set_times(target, int(folder.clock.now()) + HALF / 1e9)
    except PermissionError:
        return  # another user's: then it is as whole as it looks


def refuse_finished(folder: Folder, spot: Spot, here: fs.Stat) -> None:
    """Conflict if its own file is here although it is finished: put back, or a power loss undid its moves."""
    if folder.is_over(spot, folder.hold(folder.of_claim)):
        raise _finished(folder, spot, here, folder.outcome(spot.id))


def _finished(folder: Folder, spot: Spot, here: fs.Stat, verdict: Verdict | None) -> Conflict:
    """What a power loss brings back was not touched since the machine started; what people put there was."""
    again = verdict in FAILURES and here.st_size > 0 and here.st_ctime > folder.clock.offset()
    return Conflict(f"{spot.id} is finished ({verdict or 'done'})", judged=here, again=again)


def _refuse_copy(
    folder: Folder, spot: Spot, here: fs.Stat, known: fs.Stat | None, names: Collection[str] | None
) -> bool:
    """Conflict if this ready file is a copy that an editor saved of a task that has moved on.

    Not every file that is not the registered one is such a copy: it may have been edited while it was
    ready, or gone back after an attempt. And a token that moves while we look is seen in two places:
    it is the same inode then, with no more names than ever, and no copy. One that has more was put back
    from a copy made of hard links.

    False if it is the task and still has the name of its seal, too: whoever carries that out takes away that name, and
    nobody this one, or the task would have neither.
    """
    verdict = folder.outcome(spot.id) or folder.ended_as(spot)
    if verdict is not None:
        raise _finished(folder, spot, here, verdict)
    why = _elsewhere(folder, spot, here, known, names)
    if why:
        raise Conflict(f"{spot.id} {why}", judged=here)
    return why is not None


def _elsewhere(
    folder: Folder, spot: Spot, here: fs.Stat, known: fs.Stat | None, names: Collection[str] | None
) -> str | None:
    """Where the task itself is, if this ready file is not it; None if it is, with the name of its seal beside it."""
    for other in folder.claims_of(spot.id):
        token = fs.status(folder.at(other.path))
        if token is not None and (token.st_ino != here.st_ino or has_twin(token, known)):
            return f"is claimed by {other.worker}"
    for file in fs.names(folder.at(SEALED)):
        sealed = folder.sealed_spot(file)
        token = fs.status(folder.at(f"{SEALED}/{file}")) if sealed is not None and sealed.id == spot.id else None
        if token is not None and token.st_ino != here.st_ino:
            return "is just being put back or finished"
        if token is not None and has_twin(token, known):
            return None
    if folder.layout.slugged and not (names is None and _stands_alone(folder, spot, known)):
        for twin in folder.find(folder.layout.ready, State.READY, spot.id, names):
            if twin.path != spot.path and _is_original(folder, twin, spot, known):
                return f"is {twin.path}, which was there first"
    return ""


def _enter_registry(folder: Folder, path: str, entry: str, spot: Spot) -> bool:
    if not folder.layout.rewritten:
        return fs.link(path, entry)
    # Others write into the ready file itself; what it was must be kept in a file of its own.
    data, _ = fs.read(path, folder.config.largest_task)
    copy = folder.tmp(spot.id, fs.fresh_name(), "id")
    fs.create(copy, data, sync=folder.durable)
    known = fs.link(copy, entry)
    fs.remove(copy)
    return known


def _stands_alone(folder: Folder, spot: Spot, known: fs.Stat | None) -> bool:
    """Whether it is sure without a listing that no other ready file is this task.

    The registered file is nowhere else, and this one has the name it had: of two, that one is the task.
    """
    return known is not None and known.st_nlink == 1 and spot.path == _registered_path(folder, spot.id)


def _registered_path(folder: Folder, task_id: str) -> str:
    """Where the task was put, by what the registry has of it."""
    original = folder.original(task_id)
    return folder.layout.ready_path(folder.layout.named(original)) if original is not None else ""


def _is_original(folder: Folder, one: Spot, other: Spot, known: fs.Stat | None) -> bool:
    """Which of two ready files with one id is the task: the registered one, else that of its name, else the first."""
    inode = known.st_ino if known else 0
    here, there = fs.status(folder.at(one.path)), fs.status(folder.at(other.path))
    if here is None or there is None:
        return False
    if inode in (here.st_ino, there.st_ino):
        return here.st_ino == inode
    path = _registered_path(folder, one.id)
    return one.path == path if path in (one.path, other.path) else one.path < other.path


def put_away(folder: Folder, spot: Spot, why: Conflict) -> str | None:
    """It is out of the way: where it is now, or None if it was gone or is another file by now.

    Where it was: it is a task again, that had failed.
    """
    judged = why.details["judged"]
    assert isinstance(judged, fs.Stat)
    if why.details.get("again"):
        from taskpit.store.reopening import take_again

        if take_again(folder, spot, judged):
            return spot.path
    if not is_another_task(folder, spot):
        return folder.set_aside(spot.path, f"{why.message}; this is a copy that was saved later", judged)
    new = allot(folder, 1)[0]
    path = folder.layout.ready_path(Task(id=new, title="", slug=spot.slug))
    if not folder.move_judged(spot.path, path, judged):
        return None
    folder.tell("renumbered_task", new, details=f"it was {spot.path}, but {why.message}")
    register(folder, spot.replace(id=new, path=path))
    return path


def is_dropped(folder: Folder, name: str) -> bool:
    """Whether what is called this among the ready tasks is a whole text that only lacks a task's name."""
    layout = folder.layout
    if not layout.takes_in or not name.endswith(layout.takes_in) or name.startswith(NEVER):
        return False
    path = folder.at(f"{layout.ready}/{name}")
    here = fs.status(path)
    return here is not None and stat.S_ISREG(here.st_mode) and here.st_size > 0 and folder.writing.is_whole(path)


def take_in(folder: Folder, name: str) -> str | None:
    """It has a task's name: where it is now, or None if another was faster. Whoever looks next registers it."""
    layout = folder.layout
    new = Task(id=allot(folder, 1)[0], title="", slug=slugify(name[: -len(layout.takes_in)]))
    path = layout.ready_path(new)
    if not fs.move_new(folder.at(f"{layout.ready}/{name}"), folder.at(path)):
        return None
    register(folder, Spot(state=State.READY, id=new.id, slug=new.slug, path=path))
    return path


def is_another_task(folder: Folder, spot: Spot) -> bool:
    """Whether the task that has this number is called otherwise."""
    if not folder.layout.slugged or not spot.slug:
        return False
    known = folder.original(spot.id)
    return known is not None and bool(known.slug) and known.slug != spot.slug
