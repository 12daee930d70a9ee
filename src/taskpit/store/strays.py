"""Ready files that may not run as they are: copies are set aside, other tasks with a taken number get a new one, and
what failed and was put there again is tried again.

An editor that saves a task again after it has moved on makes a copy, under the same name: nobody wants it
to run twice. A file with the same number and another name is another task, whose writer could not know
that the number was taken: it goes on under the next free one.
"""

from __future__ import annotations

from taskpit import fs
from taskpit.store.numbers import allot
from taskpit.store.registry import register
from taskpit.store.signs import untouched
from taskpit.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.errors import Conflict
    from taskpit.layouts import Spot
    from taskpit.store.folder import Folder

__all__ = ["put_away"]


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
    if not _is_another_task(folder, spot):
        return folder.set_aside(spot.path, f"{why.message}; this is a copy that was saved later", judged)
    if not untouched(folder.at(spot.path), judged):
        return None
    new = allot(folder, 1)[0]
    path = folder.layout.ready_path(Task(id=new, title="", slug=spot.slug))
    if not fs.move_new(folder.at(spot.path), folder.at(path)):
        return None
    folder.tell("renumbered_task", new, details=f"it was {spot.path}, but {why.message}")
    register(folder, spot.replace(id=new, path=path))
    return path


def _is_another_task(folder: Folder, spot: Spot) -> bool:
    if not folder.layout.slugged or not spot.slug:
        return False
    known = folder.original(spot.id)
    return known is not None and bool(known.slug) and known.slug != spot.slug
