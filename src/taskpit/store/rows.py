"""A ready task as a row of the catalogue, and back: what a claim must know before it reads the file."""

from __future__ import annotations

from taskpit import catalog, fs, jsontext, schema
from taskpit.errors import Invalid
from taskpit.rules import order
from taskpit.store.folder import Folder
from taskpit.task import Task
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from taskpit.catalog import Row
    from taskpit.layouts import Spot

__all__ = ["announce", "announce_file", "row_of", "task_of"]


#: What a row tells of a task besides its order.
BRIEF = ("id", "slug", "hold", "not_before", "needs", "tags", "touches", "big")


def announce(folder: Folder, tasks: Iterable[tuple[Task, str]]) -> None:
    """These tasks are ready under these file names: tell the catalogue, where one is kept."""
    try:
        if folder.arrivals.is_there():
            rows = []
            for task, file in tasks:
                status = fs.status(folder.at(f"{folder.layout.ready}/{file}"))
                if status is not None:
                    rows.append(row_of(task, file, status))
            folder.arrivals.append(catalog.spell(rows))
    except OSError:
        return  # it is derived: comparing will tell


def row_of(task: Task, file: str, status: fs.Stat) -> Row:
    """The row of a ready task: its order, its file, and what decides whether it may be taken."""
    brief = [status.st_mtime_ns, *(getattr(task, field) for field in BRIEF)]
    tied = bool(task.hold or task.not_before or task.needs or task.touches or task.big)
    return (*order(task), file, status.st_ino, int(tied), jsontext.dumps(brief, tight=True))


def announce_file(folder: Folder, spot: Spot, ready: str) -> None:
    """Tell a catalogue, if one is kept, how the task in this file stands now."""
    try:
        if folder.arrivals.is_there():
            announce(folder, [(folder.load(spot, folder.at(ready)), ready.rpartition("/")[2])])
    except (OSError, Invalid):
        return  # another has it already


def task_of(row: Row) -> tuple[Task, tuple[int, int]] | None:
    """As much of the task as the row tells, and by what its file is known; None if it is no row of ours."""
    rank, age, _, _, _, inode, _, brief = row
    try:
        modified, *said = read_json(brief)
        if type(modified) is not int:
            return None
        told = dict(zip(BRIEF, said, strict=True))
        return schema.load(Task, told, title="", priority=-rank, created=age), (inode, modified)
    except (ValueError, TypeError, Invalid):
        return None
