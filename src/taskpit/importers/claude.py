"""Claude Code: `~/.claude/tasks/<list>/<n>.json`, one task a file; or a list of todos as TodoWrite keeps it.

    subject, content  the title            blockedBy  needs; `blocks` says the same from the other side
    status            completed: done; deleted: cancelled; others are ready
    priority          high, medium, low, where todos have one

Tasks are numbered from 1 in every list, so the list's name (its folder) belongs to a task's id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from taskpit.errors import Invalid
from taskpit.importers.importer import Bad, Found, Importer, Record, read_value
from taskpit.model import Task

_OVER = {"completed": "done", "deleted": "cancelled"}


class Claude(Importer):
    """Tasks of Claude Code."""

    name = "claude"
    places = (("[0-9]*.json",), ("*/[0-9]*.json",), ("tasks.json",), ("*.json",))

    def recognises(self, name: str, text: str) -> bool:
        """Tasks have a subject and a status, todos content and a status."""
        try:
            values = _listed(read_value(text)) if name.endswith(".json") else []
        except Invalid:
            return False
        first = values[0] if values else None
        if not isinstance(first, dict) or "status" not in first:
            return False
        todo = "activeForm" in first or "priority" in first or first.keys() <= {"id", "content", "status"}
        return "subject" in first or ("content" in first and todo)

    def read(self, name: str, text: str) -> Iterator[Found | Bad]:
        """The task in this file, or each in its list."""
        try:
            values = _listed(read_value(text))
        except Invalid as error:
            yield Bad(where=name, why=error.message)
            return
        for number, value in enumerate(values, 1):
            where = name if len(values) == 1 else f"{name}, record {number}"
            try:
                yield _task(value, _list_of(name), number, where)
            except Invalid as error:
                yield Bad(where=where, why=error.message)


def _listed(value: object) -> list[object]:
    if isinstance(value, dict):
        inside = value.get("tasks", value.get("todos"))
        return inside if isinstance(inside, list) else [value]
    return value if isinstance(value, list) else [value]


def _list_of(name: str) -> str:
    """A task file's list is its folder; a list in one file is called as the file is."""
    folder, file = os.path.split(name)
    stem = os.path.splitext(file)[0]
    return os.path.basename(folder) if stem.isdecimal() or stem == "tasks" else stem


def _task(value: object, of: str, number: int, where: str) -> Found:
    if not isinstance(value, dict):
        raise Invalid("it is no object")
    record = Record(value)
    given = record.line("id") or str(number)
    status = record.status("pending")
    if status not in ("pending", *_OVER):
        record.rest["claude-status"] = status
    title = record.title("subject", "content", "title")
    body = record.text("description")
    blocks = tuple(f"{of}/{one}" for one in record.words("blocks"))
    task = Task(
        id=f"{of}/{given}",
        title=title,
        body=record.body(body),
        priority=record.priority("priority"),
        needs=tuple(f"{of}/{need}" for need in record.words("blockedBy", "dependencies")),
        extra=record.extra(),
    )
    return Found(task=task, where=where, blocks=blocks, over=_OVER.get(status, ""))


IMPORTER = Claude()
