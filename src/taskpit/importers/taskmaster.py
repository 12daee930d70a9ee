"""Task Master: `.taskmaster/tasks/tasks.json`, all tasks of all tags in one file, subtasks inside their tasks.

{"master": {"tasks": [...]}, "other-tag": {"tasks": [...]}}, or {"tasks": [...]} as it once was

status     done, completed: done; cancelled: cancelled; blocked, deferred, review: held; others are ready
priority   critical, high, medium, low are 40, 30, 20, 10
subtasks   tasks of their own, `3.1`; their dependencies are numbers of their siblings, or whole ids
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taskpit.errors import Invalid
from taskpit.importers.importer import Bad, Found, Importer, Record, read_object
from taskpit.model import Task

_OVER = {"done": "done", "completed": "done", "cancelled": "cancelled"}
_HELD = ("blocked", "deferred", "review")
#: The tag of a file without tags.
_MASTER = "master"


class TaskMaster(Importer):
    """Tasks of Task Master."""

    name = "taskmaster"
    places = (("tasks.json",), ("tasks/tasks.json",), (".taskmaster/tasks/tasks.json",))

    def recognises(self, name: str, text: str) -> bool:
        """Lists of tasks under tags; or one list with words only Task Master has."""
        try:
            value = read_object(text) if name.endswith(".json") else {}
        except Invalid:
            return False
        if isinstance(value.get("tasks"), list):
            first = next((one for one in value["tasks"] if isinstance(one, dict)), {})
            return "title" in first and not {"testStrategy", "subtasks", "details"}.isdisjoint(first)
        return bool(value) and all(
            isinstance(one, dict) and isinstance(one.get("tasks"), list) for one in value.values()
        )

    def read(self, name: str, text: str) -> Iterator[Found | Bad]:
        """Every task and subtask of every tag."""
        try:
            value = read_object(text)
        except Invalid as error:
            yield Bad(where=name, why=error.message)
            return
        lists = {_MASTER: value} if isinstance(value.get("tasks"), list) else value
        for tag, inside in lists.items():
            tasks = inside.get("tasks") if isinstance(inside, dict) else None
            if not isinstance(tasks, list):
                yield Bad(where=f"{name}, {tag}", why="it has no list of tasks")
                continue
            for number, one in enumerate(tasks, 1):
                yield from _family(one, tag, f"{name}, {tag}, record {number}")


def _family(value: object, tag: str, where: str, above: str = "") -> Iterator[Found | Bad]:
    """A task and its subtasks; what is wrong with one of them keeps no other out."""
    try:
        if not isinstance(value, dict):
            raise Invalid("it is no object")  # noqa: TRY301 - named with its place below
        record = Record(value)
        given = f"{above}.{record.title('id')}" if above else record.title("id")
        subtasks = record.listed("subtasks")
        yield _task(record, given, tag, where, above)
    except Invalid as error:
        yield Bad(where=where, why=error.message)
        return
    for number, one in enumerate(subtasks, 1):
        yield from _family(one, tag, f"{where}, subtask {number}", given)


def _task(record: Record, given: str, tag: str, where: str, above: str) -> Found:
    title, status = record.title("title"), record.status("pending")
    if status not in ("pending", *_OVER):
        record.rest["taskmaster-status"] = status
    needs = record.words("dependencies")
    if above:
        needs = tuple(need if "." in need else f"{above}.{need}" for need in needs)
    record.section("Details", "details")
    record.section("Test strategy", "testStrategy")
    record.drop("updatedAt", "parentId", "parentTaskId")
    _lift_metadata(record)
    description = record.text("description")
    task = Task(
        id=f"{tag}/{given}",
        title=title,
        body=record.body(description),
        priority=record.priority("priority"),
        needs=tuple(f"{tag}/{need}" for need in needs),
        parent=f"{tag}/{above}" if above else "",
        tags=(*record.tags("tags"), *((tag,) if tag != _MASTER else ())),
        hold=f"it is {status} in Task Master" if status in _HELD else "",
        extra=record.extra(),
    )
    return Found(task=task, where=where, over=_OVER.get(status, ""))


def _lift_metadata(record: Record) -> None:
    """What people said of a task in their own words, as fields beside the others."""
    metadata: Any = record.rest.get("metadata")
    if isinstance(metadata, dict) and record.rest.keys().isdisjoint(metadata):
        del record.rest["metadata"]
        record.rest |= metadata


IMPORTER = TaskMaster()
