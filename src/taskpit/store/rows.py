"""A ready task as a row of the catalogue, and back: what a claim must know before it reads the file."""

from __future__ import annotations

from taskpit import catalog, fs, jsontext
from taskpit.errors import Invalid
from taskpit.rules import order
from taskpit.store.folder import INDEX, Folder
from taskpit.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from taskpit.catalog import Row
    from taskpit.layouts import Spot

__all__ = ["announce", "announce_file", "row_of", "task_of"]


def announce(folder: Folder, tasks: Iterable[tuple[Task, str]]) -> None:
    """These tasks are ready under these file names: tell the catalogue, where one is kept."""
    if catalog.kept(folder.at(INDEX)):
        rows = []
        for task, file in tasks:
            status = fs.status(folder.at(f"{folder.layout.ready}/{file}"))
            if status is not None:
                rows.append(row_of(task, file, status))
        catalog.append(folder.at(INDEX), rows)


def row_of(task: Task, file: str, status: fs.Stat) -> Row:
    """The row of a ready task: its order, its file, and what decides whether it may be taken."""
    brief = [
        status.st_mtime_ns,
        task.id,
        task.slug,
        task.hold,
        task.not_before,
        task.needs,
        task.tags,
        task.touches,
        task.big,
    ]
    tied = bool(task.hold or task.not_before or task.needs or task.touches or task.big)
    return (*order(task), file, status.st_ino, int(tied), jsontext.dumps(brief, tight=True))


def announce_file(folder: Folder, spot: Spot, ready: str) -> None:
    """Tell a catalogue, if one is kept, how the task in this file stands now."""
    if catalog.kept(folder.at(INDEX)):
        try:
            announce(folder, [(folder.load(spot, folder.at(ready)), ready.rpartition("/")[2])])
        except (OSError, Invalid):
            return  # somebody has it already


def task_of(row: Row) -> tuple[Task, tuple[int, int]] | None:
    """As much of the task as the row tells, and by what its file is known; None if it is no row of ours."""
    rank, age, _, _, _, inode, _, brief = row
    try:
        modified, task_id, slug, hold, not_before, needs, tags, touches, big = jsontext.loads(brief)
    except (ValueError, TypeError):
        return None
    task = Task(
        id=task_id,
        title="",
        slug=slug,
        priority=-rank,
        created=age,
        hold=hold,
        not_before=not_before,
        needs=tuple(needs),
        tags=tuple(tags),
        touches=tuple(touches),
        big=big,
    )
    return task, (inode, modified)
