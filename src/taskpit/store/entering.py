"""How tasks enter on the disk: the row *put* of the commit table for one or many, and its last step by itself."""

from __future__ import annotations

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.store.folder import IDS, SEALED, Folder
from taskpit.store.rows import announce
from taskpit.task import Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.task import Event, Task

    #: A task with its bytes, and the line that tells of it.
    Entrant = tuple[Task, bytes, Event]
    #: Where its bytes lie, where what was asked for lies (the same file in most layouts), where it shall go.
    Draft = tuple[str, str, str]

__all__ = ["admit", "enter"]


def admit(folder: Folder, entrants: Sequence[Entrant]) -> list[Said]:
    """The row *put* of the commit table. For each: CREATED, or EXISTS: the id is known.

    Many share what they wait for: all bytes are on the disk before the first id is taken, all ids before the
    first file enters, and all entries before anybody is told. Where the disk refuses one, those before it are in.
    """
    drafts, trouble = _write(folder, entrants)
    said: list[Said] = []
    try:
        for (task, _, _), (_, original, _) in zip(entrants, drafts, strict=False):
            new = fs.link(original, folder.of(IDS, task.id))
            said.append(Said.CREATED if new else Said.EXISTS)
    except OSError as error:
        trouble = error.with_traceback(None)  # which would keep the directory open that refused
    found = zip(entrants, drafts, said, strict=False)
    _bring_in(folder, [(entrant, draft) for entrant, draft, one in found if one is Said.CREATED])
    for number, (tmp, original, _) in enumerate(drafts):
        if number == len(said):
            continue  # its link was refused, and nobody knows whether it was made: left for the keeper
        if number > len(said) or said[number] is not Said.CREATED:
            fs.remove(tmp)
        if original != tmp:
            fs.remove(original)
    if trouble is not None:
        raise trouble
    return said


def _write(folder: Folder, entrants: Sequence[Entrant]) -> tuple[list[Draft], OSError | None]:
    """The bytes of these lie in the temporary directory, for good; of those before the one the disk refuses.

    The name a file will have stands in the temporary one, so that anybody can carry on after the commit.
    """
    layout, together = folder.layout, folder.syncs_together(len(entrants))
    drafts: list[Draft] = []
    trouble, sync = None, folder.durable and not together
    try:
        for task, data, _ in entrants:
            ready, nonce = layout.ready_path(task), fs.fresh_name()
            tmp = original = folder.tmp(task.id, nonce, f"put~{ready.rpartition('/')[2]}")
            if layout.rewritten:  # others write into the ready file: what was asked for gets a file of its own
                original = folder.tmp(task.id, nonce, "id")  # first: without it the other may be cleared up
                fs.create(original, data, sync=sync)
            fs.create(tmp, data, sync=sync)
            drafts.append((tmp, original, ready))
    except OSError as error:
        trouble = error.with_traceback(None)  # which would keep the directory open that refused
    if drafts:  # an id that is known must not belong to a file that is not there
        folder.settle(layout.tmp, together=together)
    return drafts, trouble


def _bring_in(folder: Folder, known: Sequence[tuple[Entrant, Draft]]) -> None:
    """The ids of these are known: their files enter."""
    if known:
        folder.tell_of([event for (_, _, event), _ in known])
        for (task, _, _), (tmp, _, ready) in known:
            enter(folder, task.id, tmp, ready)
        folder.sync(IDS, folder.layout.ready)  # together: one journal settles both at once
        announce(folder, [(task, ready.rpartition("/")[2]) for (task, _, _), (_, _, ready) in known])


def enter(folder: Folder, task_id: str, source: str, ready: str) -> bool:
    """The file is ready under this name; what stood there without right is set aside. False if it was gone.

    A rename of a name only this verb knows, never a second link: a stalled putter whose task somebody
    rolled forward and finished must not bring it back to life.
    """
    target = f"{folder.root}/{ready}"
    while True:
        try:
            return fs.move_new(source, target)
        except FileExistsError:
            if not _make_way(folder, task_id, source, ready):
                return False


def _make_way(folder: Folder, task_id: str, source: str, ready: str) -> bool:
    """What stands at the ready name without right is set aside; False if the task has left `source`."""
    from taskpit.store.fresh import fresh_status, has_twin

    target = f"{folder.root}/{ready}"
    ours = fresh_status(source) if _is_listed(source) else None
    if ours is None:
        return False  # another carried the verb on
    fs.look_anew(target.rpartition("/")[0])
    there = fresh_status(target)
    if there is None:
        return True
    if ours.st_ino == there.st_ino:
        if has_twin(ours, fs.status(folder.of(IDS, task_id))):
            fs.remove(source)  # a power loss left both names
        return False  # else we are still shown where it was: the next sweep takes it further
    if _is_ghost(folder, source, ready):
        folder.set_aside(source[len(folder.root) + 1 :], "its end was carried out; a power loss brought its name back")
        return False

    folder.set_aside(
        ready,
        "the task of this id was put back at this place",
        step=lambda path, aside: _moved_rightly(folder, task_id, (source, ours), path, aside),
    )
    return True


def _moved_rightly(folder: Folder, task_id: str, token: tuple[str, fs.Stat], path: str, aside: str) -> bool:
    """Away with it. If the task has left its place meanwhile, it may be the task itself: back with it, and False."""
    source, ours = token
    if not fs.move(path, aside):
        return False
    if _is_listed(source):
        return True
    moved = fs.status(aside)
    if moved is not None and moved.st_ino == ours.st_ino:
        return not enter(folder, task_id, aside, path[len(folder.root) + 1 :])
    try:
        return not fs.move_new(aside, path)
    except FileExistsError:
        return True


def _is_listed(path: str) -> bool:
    """Whether the name is there: a listing also knows on a network what has left."""
    place, _, name = path.rpartition("/")
    return name in fs.names(place)


def _is_ghost(folder: Folder, sealed: str, ready: str) -> bool:
    """Whether a sealed file has the bytes of before its end, and what came of it is ready: after a power loss."""
    spot = folder.sealed_spot(sealed.rpartition("/")[2]) if f"/{SEALED}/" in sealed else None
    if spot is None or folder.layout.rewritten:  # there the bytes do not tell
        return False
    try:
        return folder.load(spot, folder.at(ready)).attempts > folder.load(spot, sealed).attempts
    except (OSError, Invalid):
        return False
