"""Backlog.md: `backlog/tasks/task-1 - Title.md`, a task a file, with front matter above its text.

    status    Done, or a file in completed/: done; archive/: cancelled; drafts/, or Draft: held; others are ready
    priority  high, medium, low are 30, 20, 10

Its text is kept as it is, with the acceptance criteria and their boxes. Ids are compared without regard
to capitals: `TASK-1` and `task-1` are one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from taskpit.errors import Invalid
from taskpit.importers.importer import Bad, Found, Importer, Record
from taskpit.model import Task

# -- front matter ----------------------------------------------------------------------------------
# Front matter: the few lines of YAML above a Markdown text, as trackers write them. Needs no YAML library.
# Reads `key: value`, quoted values, lists in brackets or one item a line, and texts that go on indented
# (`|` and `>`). What is more than that is refused with its line.

_KEY = re.compile(r"([A-Za-z_][\w .\t-]*):(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*-\s+(.*)$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "r": "\r", "0": "\0"}


def split(text: str) -> tuple[dict[str, str | list[str]], str]:
    """The fields and the text below; Invalid names a line that can't be read."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise Invalid("it does not begin with ---", line=1)
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if not end:
        raise Invalid("its front matter does not end", line=1)
    return _fields(lines[:end]), "\n".join(lines[end + 1 :]).strip("\n")


def _fields(lines: list[str]) -> dict[str, str | list[str]]:
    fields: dict[str, str | list[str]] = {}
    at = 1
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.lstrip().startswith("#"):
            at += 1
            continue
        found = _KEY.match(line)
        if found is None:
            raise Invalid(f"line {at + 1} is not `key: value`", line=at + 1)
        below = _below(lines, at + 1)
        fields[found[1].rstrip()] = _value(found[2] or "", below, at + 1)
        at += 1 + len(below)
    return fields


def _below(lines: list[str], at: int) -> list[str]:
    """The lines that belong to the key above them: indented ones, and items of a list."""
    end = at
    while end < len(lines) and (lines[end][:1] in (" ", "\t") or _ITEM.match(lines[end]) or not lines[end].strip()):
        end += 1
    return lines[at:end]


def _value(text: str, below: list[str], line: int) -> str | list[str]:
    text = text.strip()
    if text[:1] in ("|", ">"):
        return _block(text, below)
    inside = [one for one in below if one.strip() and not one.lstrip().startswith("#")]
    if not text and inside and _ITEM.match(inside[0]):
        return _items(inside, line)
    whole = " ".join([text, *(one.strip() for one in inside)]).strip()
    if whole.startswith("["):
        if not whole.endswith("]"):
            raise Invalid(f"the list in line {line} does not end", line=line)
        return [_scalar(part, line) for part in _parts(whole[1:-1]) if part.strip()]
    if whole.startswith("{"):
        raise Invalid(f"line {line} has a map, which no task has", line=line)
    return _scalar(whole, line)


def _items(lines: list[str], line: int) -> list[str]:
    items: list[str] = []
    for one in lines:
        found = _ITEM.match(one)
        if found:
            items.append(found[1])
        else:
            items[-1] += f" {one.strip()}"
    return [_scalar(one, line) for one in items]


def _block(mark: str, below: list[str]) -> str:
    """`|` keeps its lines, `>` makes one line of those that follow each other."""
    indent = min((len(one) - len(one.lstrip()) for one in below if one.strip()), default=0)
    lines = [one[indent:] for one in below]
    if mark[0] == "|":
        return "\n".join(lines).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(lines).strip("\n")).replace("\n\n", "\n")


def _parts(text: str) -> list[str]:
    """The parts between commas, but not those inside quotes; a quote that does not end goes on to the end."""
    parts, quote, start, escaped = list[str](), "", 0, False
    for at, letter in enumerate(text):
        if escaped:
            escaped = False
        elif quote == '"' and letter == "\\":
            escaped = True
        elif letter == quote:
            quote = ""
        elif not quote and letter in ("'", '"'):
            quote = letter
        elif not quote and letter == ",":
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _scalar(text: str, line: int) -> str:
    text = text.strip()
    if text[:1] in ('"', "'"):
        quote = text[0]
        found = re.match(r'"((?:\\.|[^"\\])*)"\s*(?:#.*)?$' if quote == '"' else r"'((?:''|[^'])*)'\s*(?:#.*)?$", text)
        if found is None:
            raise Invalid(f"the quoted text in line {line} does not end", line=line)
        if quote == "'":
            return found[1].replace("''", "'")
        return re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[0]), found[1])
    plain = re.sub(r"(?<!\s)\s+#.*$", "", text)
    return "" if plain in ("null", "~") else plain


# -- backlog.md ------------------------------------------------------------------------------------


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
