"""GitHub issues: what `gh issue list --json number,title,body,labels,state,url,...` prints.

state     closed: done, or cancelled if it was closed as not planned
labels    tags; `P0` to `P4`, `priority: high` and the like are the priority as well
body      also says what it waits for: `Depends on #12`, `Blocked by #12`
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taskpit.errors import Invalid
from taskpit.importers.importer import PRIORITIES, Bad, Found, Importer, Record, read_value
from taskpit.model import Task

_WAITS = re.compile(r"\b(?:depends on|blocked by|waits for)[ :]+((?:#\d+(?:,| and|\s)*)+)", re.IGNORECASE)
_PRIORITY = re.compile(rf"(?:prio(?:rity)?[ :/_-]*)?({'|'.join(PRIORITIES)})", re.IGNORECASE)


class GitHub(Importer):
    """Issues of a repository."""

    name = "github"
    places = (("issues.json",), ("*.json",))

    def recognises(self, name: str, text: str) -> bool:
        """A list of things with a number and a title, and a word only an issue has."""
        try:
            value = read_value(text) if name.endswith(".json") else None
        except Invalid:
            return False
        first = value[0] if isinstance(value, list) and value else None
        return isinstance(first, dict) and {"number", "title"} <= first.keys() and not _ISSUE.isdisjoint(first)

    def read(self, name: str, text: str) -> Iterator[Found | Bad]:
        """Each issue in the list."""
        try:
            value = read_value(text)
        except Invalid as error:
            yield Bad(where=name, why=error.message)
            return
        for number, one in enumerate(value if isinstance(value, list) else [value], 1):
            where = f"{name}, record {number}"
            try:
                yield _issue(one, where)
            except Invalid as error:
                yield Bad(where=where, why=error.message)


_ISSUE = frozenset(("url", "html_url", "state", "labels", "author"))


def _issue(value: object, where: str) -> Found:
    if not isinstance(value, dict):
        raise Invalid("it is no object")
    record = Record(value)
    number, title = record.line("number"), record.title("title")
    if not number.isdecimal():
        raise Invalid("it has no number")
    url = str(record.rest.get("url") or record.rest.get("html_url") or "")
    repository = "/".join(url.split("/")[-4:-2]) if "/issues/" in url or "/pull/" in url else ""
    state, why = record.line("state").lower(), record.line("stateReason", "state_reason").lower()
    body = record.text("body")
    labels = record.tags("labels", of=_name)
    waits = dict.fromkeys(one for found in _WAITS.findall(body) for one in re.findall(r"#(\d+)", found))
    priorities = [PRIORITIES[match[1].lower()] for label in labels if (match := _PRIORITY.fullmatch(label))]
    _comments(record)
    ended = record.time("closedAt", "closed_at")
    for field in ("assignees", "milestone"):
        _shorten(record, field)
    record.drop("closed", "updatedAt", "updated_at")
    if "id" in record.rest:
        record.rest["node-id"] = record.rest.pop("id")
    task = Task(
        id=f"{repository}#{number}",
        title=title,
        body=record.body(body),
        priority=max(priorities, default=0),
        needs=tuple(f"{repository}#{one}" for one in waits if one != number),
        tags=labels,
        by=_name(record.rest.pop("author", record.rest.pop("user", ""))),
        created=record.time("createdAt", "created_at"),
        extra=record.extra(),
    )
    over = {"closed": "cancelled" if why in ("not_planned", "duplicate") else "done"}.get(state, "")
    return Found(task=task, where=where, over=over, ending=why, ended=ended)


def _name(value: object) -> str:
    """Labels, people and milestones are objects, or just what they are called."""
    if isinstance(value, dict):
        return str(value.get("login") or value.get("name") or value.get("title") or "")
    return str(value)


def _shorten(record: Record, field: str) -> None:
    """What is said of people and milestones is who they are."""
    value = record.rest.get(field)
    if isinstance(value, list):
        record.rest[field] = [_name(one) for one in value]
    elif isinstance(value, dict):
        record.rest[field] = _name(value)


def _comments(record: Record) -> None:
    comments = record.rest.get("comments")
    if isinstance(comments, list):
        del record.rest["comments"]
        dicts = [one for one in comments if isinstance(one, dict)]
        lines = [f"{one.get('createdAt', '')} {_name(one.get('author'))}: {one.get('body', '')}" for one in dicts]
        record.add_section("Comments", "\n\n".join(lines))


IMPORTER = GitHub()
