"""A queue with very many ready tasks, made as fast as the disk allows: what puts would leave, without the puts.

What is left out is what makes a put safe (temporary files, one lock for each line), not what it leaves: each
task has its id, its file, and its line in the changelog with its row for the catalogue.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from arena.ours import mixed_tasks
from arena.race import spawn
from taskpit.queue import Queue
from taskpit.store.changelog import with_row
from taskpit.store.folder import IDS

if TYPE_CHECKING:
    from taskpit.model import Task
    from taskpit.store.folder import Folder

__all__ = ["fill"]

#: Tasks whose lines are written at once, and processes that fill.
STEP, FILLERS = 1000, 2


def fill(root: str, first: int, count: int, patience: float) -> None:
    """Tasks of mixed priorities with these numbers are ready."""
    share = -(-count // FILLERS) if count >= STEP else count
    spawn(_fill, [(root, first + at, min(share, count - at)) for at in range(0, count, share)], patience)
    _next(root, first + count)


def _fill(root: str, first: int, count: int) -> None:
    queue = Queue.open(root)
    folder: Folder = queue.store.folder  # type: ignore[attr-defined]
    for at in range(0, count, STEP):
        tasks = mixed_tasks(first + at, min(STEP, count - at))
        told = [(folder.line("added_task", task.id, task.by or "keeper", task.title), task) for task in tasks]
        folder.log(b"".join(with_row(line, task, *_write(folder, task)) for line, task in told))
    queue.close()


def _next(root: str, number: int) -> None:
    """New tasks are numbered from here on."""
    with open(f"{root}/.taskpit/next", "w", encoding="ascii") as file:
        file.write(str(number))


def _write(folder: Folder, task: Task) -> tuple[str, os.stat_result]:
    """The task's file and its id; its name and status."""
    path = folder.layout.ready_path(task)
    fd = os.open(folder.at(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    os.write(fd, folder.spell(task))
    status = os.fstat(fd)
    os.close(fd)
    os.link(folder.at(path), folder.at(f"{IDS}/{task.id}"))
    return path.rpartition("/")[2], status
