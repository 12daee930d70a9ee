"""A ready task as a row of the catalogue, and back: what a claim must know before it reads the file."""

from __future__ import annotations

from taskpit import jsontext, schema
from taskpit.catalog import ROW
from taskpit.errors import Invalid
from taskpit.rules import order
from taskpit.task import Task
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit import fs
    from taskpit.catalog import Row
    from taskpit.task import Event

__all__ = ["row_of", "task_of", "with_row"]


#: What a row tells of a task besides its order.
BRIEF = ("id", "slug", "hold", "not_before", "needs", "tags", "touches", "limits", "big")


def row_of(task: Task, file: str, status: fs.Stat) -> Row:
    """The row of a ready task: its order, its file, and what decides whether it may be taken."""
    said = task.__dict__
    tied = bool(task.hold or task.not_before or task.needs or task.touches or task.limits or task.big)
    brief = [status.st_mtime_ns, *map(said.__getitem__, BRIEF)]
    return (*order(task), file, status.st_ino, int(tied), jsontext.dumps(brief, tight=True))


def with_row(event: Event, task: Task, file: str, status: fs.Stat) -> Event:
    """The line that tells of a task that is ready in this file, with its row: a catalogue needs no other log."""
    return event.replace(extra={**event.extra, ROW: row_of(task, file, status)})


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
