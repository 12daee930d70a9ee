"""Ready files that may not run as they are: copies are set aside, other tasks with a taken number get a new one, and
what failed and was put there again is tried again. What was dropped in under no task's name gets one.

An editor that saves a task again after it has moved on makes a copy, under the same name: nobody wants it
to run twice. A file with the same number and another name is another task, whose writer could not know
that the number was taken: it goes on under the next free one.
"""

from __future__ import annotations

import stat

from taskpit import fs
from taskpit.layouts import Spot
from taskpit.layouts.layout import NEVER, slugify
from taskpit.store.new_ids import allot
from taskpit.store.registry import register
from taskpit.store.stamps import untouched
from taskpit.task import State, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.errors import Conflict
    from taskpit.store.folder import Folder

__all__ = ["is_dropped", "put_away", "take_in"]


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


def _is_another_task(folder: Folder, spot: Spot) -> bool:
    if not folder.layout.slugged or not spot.slug:
        return False
    known = folder.original(spot.id)
    return known is not None and bool(known.slug) and known.slug != spot.slug
