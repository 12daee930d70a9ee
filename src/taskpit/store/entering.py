"""How a task enters on the disk: the row *put* of the commit table, and its last step by itself."""

from __future__ import annotations

from taskpit import fs
from taskpit.store import changelog
from taskpit.store.folder import CHANGELOG, IDS, Folder
from taskpit.store.rows import announce
from taskpit.task import Event, Said, Task

__all__ = ["admit", "enter"]


def admit(folder: Folder, task: Task, data: bytes, event: Event) -> Said:
    """The row *put* of the commit table, for one task. CREATED, or EXISTS: the id is known."""
    ready = folder.layout.ready_path(task)
    # The name it will have stands in the temporary one, so that anybody can carry on after the commit.
    nonce = fs.fresh_name()
    tmp = folder.tmp(task.id, nonce, f"put~{ready.rpartition('/')[2]}")
    original = tmp
    if folder.layout.rewritten:  # others write into the ready file: what was asked for gets a file of its own
        original = folder.tmp(task.id, nonce, "id")  # first: without it the other may be cleared up
        fs.create(original, data, sync=folder.durable)
    fs.create(tmp, data, sync=folder.durable)
    folder.sync(folder.layout.tmp)  # an id that is known must not belong to a file that is not there
    said = Said.EXISTS
    if fs.link(original, folder.at(f"{IDS}/{task.id}")):
        said = Said.CREATED
        folder.sync(IDS)
        changelog.append(folder.at(CHANGELOG), [event])
        enter(folder, tmp, ready)
        folder.sync(folder.layout.ready)
        announce(folder, [(task, ready.rpartition("/")[2])])
    else:
        fs.remove(tmp)
    if original != tmp:
        fs.remove(original)
    return said


def enter(folder: Folder, source: str, ready: str) -> bool:
    """The file is ready under this name; what stood there without right is set aside. False if it was gone.

    A rename of a name only this verb knows, never a second link: a stalled putter whose task somebody
    rolled forward and finished must not bring it back to life.
    """
    target = folder.at(ready)
    while True:
        try:
            return fs.move_new(source, target)
        except FileExistsError:
            if _is_there_already(source, target):
                fs.remove(source)
                return False
            folder.set_aside(ready, "the task of this id was put back at this place")


def _is_there_already(source: str, target: str) -> bool:
    """Whether what stands there is our own: another carried the verb on, or a power loss left both names.

    A network filesystem may still show us a name that another machine has moved; a listing is up to date.
    """
    from taskpit.store.fresh import fresh_status

    place, _, name = source.rpartition("/")
    if name not in fs.names(place):
        return True
    ours, there = fresh_status(source), fresh_status(target)
    return ours is None or (there is not None and ours.st_ino == there.st_ino)
