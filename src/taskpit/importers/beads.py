"""Beads: `.beads/issues.jsonl`, one issue a line. Knows its fields, nothing of queues.

dependencies  blocks, waits-for, conditional-blocks: needs; parent-child: the parent; others are kept
status        closed: done; tombstone: cancelled; blocked, deferred, pinned, hooked: held; others are ready
priority      0 to 4 are 40 to 0; none is 2, as in beads
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from taskpit.errors import Invalid
from taskpit.importers.importer import Bad, Found, Importer, Record, objects
from taskpit.model import Task

_NEEDS = ("blocks", "waits-for", "conditional-blocks", "")
_OVER = {"closed": "done", "tombstone": "cancelled"}
_HELD = ("blocked", "deferred", "pinned", "hooked")


class Beads(Importer):
    """Issues of beads."""

    name = "beads"
    places = (("issues.jsonl",), ("beads.jsonl",), (".beads/issues.jsonl",), (".beads/beads.jsonl",))

    def recognises(self, name: str, text: str) -> bool:
        """JSON lines with an issue type, which nobody else has by that name."""
        first = text.lstrip().partition("\n")[0]
        return name.endswith(".jsonl") and first.startswith("{") and '"issue_type"' in first and '"id"' in first

    def read(self, name: str, text: str) -> Iterator[Found | Bad]:
        """An issue from every line."""
        for one in objects(name, text):
            if isinstance(one, Bad):
                yield one
                continue
            fields, where = one
            if fields.get("_type", "issue") != "issue":
                continue  # memories and the like: nothing to do
            try:
                yield _issue(fields, where)
            except Invalid as error:
                yield Bad(where=where, why=error.message)


def _issue(fields: dict[str, Any], where: str) -> Found:
    record = Record(fields)
    given, title = record.title("id"), record.title("title")
    needs, parent = _dependencies(record, given)
    status, kind = record.status("open"), record.line("issue_type", "type") or "task"
    held = status in _HELD and not (needs and status == "blocked")
    if status not in ("open", *_OVER):
        record.rest["beads-status"] = status
    if kind != "task":
        record.rest["issue-type"] = kind
    for heading, field in (("Design", "design"), ("Acceptance criteria", "acceptance_criteria"), ("Notes", "notes")):
        record.section(heading, field)
    _comments(record)
    ended, ending = record.time("closed_at", "deleted_at"), record.line("close_reason", "delete_reason")
    record.drop("_type", "updated_at", "dependency_count", "dependent_count", "comment_count", "content_hash")
    description = record.text("description")
    task = Task(
        id=given,
        title=title,
        body=record.body(description),
        priority=record.priority("priority", 20),
        needs=needs,
        parent=parent,
        tags=record.tags("labels"),
        not_before=record.time("defer_until"),
        hold=f"it is {status} in beads" if held else "",
        big=kind == "epic",
        by=record.line("created_by"),
        created=record.time("created_at"),
        extra=record.extra(),
    )
    return Found(task=task, where=where, over=_OVER.get(status, ""), ending=ending, ended=ended)


def _dependencies(record: Record, given: str) -> tuple[tuple[str, ...], str]:
    """What it waits for, and what it is a part of; `bd-a3f8.1` is a part of `bd-a3f8`."""
    needs, others = [], []
    stem, dot, number = given.rpartition(".")
    parent = stem if dot and number.isdecimal() else ""
    for one in record.listed("dependencies"):
        if not isinstance(one, dict) or not isinstance(one.get("depends_on_id"), str):
            raise Invalid("a dependency has no depends_on_id")
        kind, other = str(one.get("type", "")), one["depends_on_id"]
        if kind == "parent-child":
            parent = other
        elif kind in _NEEDS:
            needs.append(other)
        else:
            others.append(f"{kind} {other}")
    if others:
        record.rest["related"] = others
    return tuple(dict.fromkeys(need for need in needs if need != given)), parent


def _comments(record: Record) -> None:
    comments = record.rest.pop("comments", [])
    if isinstance(comments, list) and all(isinstance(one, dict) for one in comments) and comments:
        lines = [
            f"{one.get('created_at', '')} {one.get('author', '')}: {one.get('text', '')}".strip() for one in comments
        ]
        record.add_section("Comments", "\n\n".join(lines))
    elif comments:
        record.add_section("Comments", json.dumps(comments, ensure_ascii=False))


IMPORTER = Beads()
