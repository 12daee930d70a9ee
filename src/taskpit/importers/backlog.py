"""Backlog.md: `backlog/tasks/task-1 - Title.md`, a task a file, with front matter above its text.

    status    Done, or a file in completed/: done; archive/: cancelled; drafts/, or Draft: held; others are ready
    priority  high, medium, low are 30, 20, 10

Its text is kept as it is, with the acceptance criteria and their boxes. Ids are told apart without regard
to capitals: `TASK-1` and `task-1` are one.
"""

from __future__ import annotations

import os

from taskpit.errors import Invalid
from taskpit.importers.frontmatter import split
from taskpit.importers.importer import Bad, Found, Importer, Record
from taskpit.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["IMPORTER"]

_INSIDE = ("tasks", "completed", "drafts", "archive/tasks", "archive/drafts")
_FOLDERS = {"completed": "done", "archive": "cancelled"}


class Backlog(Importer):
    """Tasks of Backlog.md."""

    name = "backlog"
    places = (
        *(tuple(f"{root}{folder}/*.md" for folder in _INSIDE) for root in ("backlog/", ".backlog/", "")),
        ("*.md",),
    )

    def recognises(self, name: str, text: str) -> bool:
        """Front matter with id, title and status."""
        if not name.endswith(".md") or not text.startswith("---"):
            return False
        try:
            fields, _ = split(text)
        except Invalid:
            return False
        return {"id", "title", "status"} <= fields.keys() and " - " in os.path.basename(name)

    def read(self, name: str, text: str) -> Iterator[Found | Bad]:
        """The task in this file."""
        try:
            yield _task(name, text)
        except Invalid as error:
            line = error.details.get("line")
            yield Bad(where=f"{name}:{line}" if line else name, why=error.message)


def _task(name: str, text: str) -> Found:
    fields, body = split(text)
    record = Record(fields)
    given, title = record.title("id").lower(), record.title("title")
    status = record.line("status") or "To Do"
    over, draft = _over(name, status)
    if status.lower() not in ("to do", "done", "draft"):
        record.rest["backlog-status"] = status
    record.drop("updated_date", "subtasks")
    parent = record.line("parent_task_id", "parent").lower()
    task = Task(
        id=given,
        title=title,
        priority=record.priority("priority"),
        needs=tuple(need.lower() for need in record.words("dependencies")),
        parent=parent or _above(given),
        tags=record.tags("labels"),
        hold="it is a draft in Backlog.md" if draft else "",
        by=record.line("reporter"),
        created=record.time("created_date"),
        body=record.body(body),
        extra=record.extra(),
    )
    return Found(task=task, where=name, over=over)


def _above(given: str) -> str:
    """`task-4.1` is a part of `task-4`."""
    stem, dot, number = given.rpartition(".")
    return stem if dot and number.isdecimal() else ""


def _over(name: str, status: str) -> tuple[str, bool]:
    """Whether nothing is left to do, and whether it is only a draft: by its folder, then by its status."""
    folders = os.path.dirname(name).replace(os.sep, "/").split("/")[-2:]
    for folder, word in _FOLDERS.items():
        if folder in folders:
            return word, False
    return ("done" if status.lower() == "done" else ""), "drafts" in folders or status.lower() == "draft"


IMPORTER = Backlog()
