"""Reading tasks that others wrote: Markdown, JSON and JSON lines. Knows spellings, nothing of any queue.

A record that can't be read is named with its file and line, before anything has happened.

What others call things, in our words:

    body          description, content, details        not_before  defer_until, not-before
    needs         depends_on, blocked_by, dependencies, requires
    tags          labels                               by          created_by, author, tossed-by
    check         test_command; the command in `done-when`
    priority      P0..P4 are 40, 30, 20, 10, 0; an integer is taken as it is, higher first
    max_attempts  max-attempts                         created     created_at

A record that says it is done is left out, and nobody has to wait for it; failed and cancelled ones are
left out too. Fields without a word of ours are kept as further fields, long ones as sections of the body.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from taskpit import layouts
from taskpit.cli.options import PRIORITIES, read_input
from taskpit.clock import instant
from taskpit.decode import check_plain, convert, convert_field
from taskpit.errors import Invalid, NotFound, TaskpitError, TooLarge
from taskpit.importers.importer import Found, read_value, unused
from taskpit.layouts import Layout
from taskpit.model import State, Task, Text, Texts
from taskpit.rules import natural

#: A file with many records may be larger than one task.
LARGEST_FILE = 64 * 1024 * 1024
KINDS = ("md", "json", "jsonl")

_WORDS = {
    "body": ("body", "description", "content", "details"),
    "needs": ("needs", "depends_on", "blocked_by", "dependencies", "requires"),
    "tags": ("tags", "labels"),
    "check": ("check", "test_command"),
    "by": ("by", "created_by", "author", "tossed-by"),
    "created": ("created", "created_at"),
    "not_before": ("not_before", "not-before", "defer_until"),
    "max_attempts": ("max_attempts", "max-attempts"),
    "parent": ("parent", "parent_id"),
    "state": ("state", "status"),
    "done-when": ("done-when",),
}
#: How far a task had got and what is derived from it: not carried along.
_PAST = (
    *("attempts", "last_error", "updated", "updated_at", "claimed_by", "claimed_at", "held", "worker", "since"),
    *("until", "alive", "result", "tries", "notes", "late", "source"),
)
_WORDS |= {name: (name,) for name in Task.kinds() if name not in (*_WORDS, *_PAST, "extra")}
#: What a mailbox writes when it has nothing to say.
_SILENT = {"verdict": "unknown", "test_mode": "strict", "test_scope": "diff", "sequence_number": 0}
#: States of a record that no task has to wait for, and of one that will not be done.
_DONE = ("done", "closed", "completed", "complete", "finished", "resolved")
_GONE = ("failed", "cancelled", "canceled", "tombstone", "rejected")


def collect(paths: Sequence[str], limit: int, *, layout: Layout | None = None, kind: str = "") -> list[Found]:
    """Every record in these files and folders (`-`: JSON lines on standard input)."""
    found: list[Found] = []
    for path in paths:
        if path != "-" and os.path.isdir(path):
            for name in _inside(path):
                found += _file(os.path.join(path, name), limit, layout, "")
        else:
            found += _file(path, limit, layout, kind)
    return found


def own_files(folder: str, paths: Iterable[str]) -> list[str]:
    """Those that are files of the folder itself: a link in it may lead anywhere, and a FIFO has no end."""
    root = os.path.realpath(folder)
    here = {path: os.path.join(root, os.path.relpath(path, folder)) for path in paths}
    return [path for path, real in here.items() if os.path.isfile(path) and os.path.realpath(path) == real]


def _inside(folder: str) -> list[str]:
    listed = own_files(folder, (os.path.join(folder, name) for name in os.listdir(folder)))
    names = [os.path.basename(path) for path in listed if path.endswith((".md", ".json", ".jsonl"))]
    names = sorted((name for name in names if not name.startswith((".", "README", "readme"))), key=natural)
    if not names:
        raise Invalid(f"there is nothing to import in {folder}", hint="Looked for .md, .json and .jsonl.", path=folder)
    return names


def _file(path: str, limit: int, layout: Layout | None, kind: str) -> list[Found]:
    kind = "jsonl" if path == "-" else kind or _kind_of(path)
    if kind not in KINDS and not os.path.exists(path):
        raise NotFound(f"there is no file {path}", hint="Name a .md, .json or .jsonl file, or a folder.", path=path)
    data = read_input(path, limit if kind == "md" else LARGEST_FILE) if kind in KINDS else b""
    return read_records(path, data, layout=layout, kind=kind)


def _kind_of(path: str) -> str:
    return os.path.splitext(path)[1].lstrip(".").lower()


def read_records(path: str, data: bytes, *, layout: Layout | None = None, kind: str = "") -> list[Found]:
    """Every record in the bytes of a file of this name."""
    kind = kind or _kind_of(path)
    if kind == "md":
        return [_markdown(path, data, layout or layouts.get("pit"))]
    if kind == "jsonl":
        lines = {f"{path}:{number}": line for number, line in enumerate(data.split(b"\n"), 1) if line.strip()}
        return [_record(_parse(line, where), where) for where, line in lines.items()]
    if kind == "json":
        return list(_json(path, data))
    raise Invalid(f"{path}: can't tell what it is", hint="Files end in .md, .json or .jsonl.", path=path)


def _markdown(path: str, data: bytes, layout: Layout) -> Found:
    """Named like a task it keeps id, name and bytes; any other text becomes a new task."""
    name = os.path.basename(path)
    try:
        spot = layout.spot(layout.ready, name)
        if spot is not None:
            return Found(task=layout.load(spot, data), where=path)
        fresh = layouts.get("pit").load(layouts.Spot(state=State.READY, id=""), data)
    except Invalid as error:
        raise bad_record(path, error) from None
    title = fresh.title or os.path.splitext(name)[0]
    return Found(task=fresh.replace(title=title, slug=layouts.slugify(title)), where=path)


def _json(path: str, data: bytes) -> Iterator[Found]:
    value = _parse(data, path)
    if isinstance(value, dict) and "schema" in value and "data" in value:
        value = value["data"]  # an envelope of our own
    if isinstance(value, list):
        for number, one in enumerate(value, 1):
            yield _record(one, f"{path}, record {number}")
    else:
        yield _record(value, path)


def _parse(text: bytes, where: str) -> object:
    try:
        return read_value(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise Invalid(f"{where}: it is not UTF-8", where=where) from None
    except Invalid as error:
        raise bad_record(where, error) from None


def bad_record(where: str, error: TaskpitError) -> Invalid:
    """The same complaint with its place."""
    text = f"{where}: {error.message}"
    kind = TooLarge if isinstance(error, TooLarge) else Invalid
    return kind(text, hint=error.hint or "Nothing was put in.", where=where)


def _record(value: object, where: str) -> Found:
    try:
        if not isinstance(value, dict):
            raise Invalid("a task is a JSON object, and this is none")  # noqa: TRY301 - named with its place below
        return _task(value, where)
    except Invalid as error:
        raise bad_record(where, error) from None


def _task(value: dict[str, Any], where: str) -> Found:
    past = (*_PAST, "status") if "state" in value else _PAST
    rest = {key: one for key, one in value.items() if key not in past and one not in (None, "", [], {})}
    rest = {key: one for key, one in rest.items() if _SILENT.get(key, "") != one}
    _lift_dependencies(rest)
    fields: dict[str, Any] = {}
    for field, names in _WORDS.items():
        for name in names:
            if name in rest and field not in fields:
                fields[field] = _value(field, rest.pop(name), name)
    extra = rest.pop("extra", {})
    check_plain("extra", extra)
    state, command = fields.pop("state", "").strip().lower(), fields.pop("done-when", "")
    if not fields.get("title"):
        raise Invalid("it has no title")
    _keep_done_when(fields, extra, command)
    _keep_rest(fields, {**rest, **extra})
    over = "done" if state in _DONE else "cancelled" if state in _GONE else ""
    return Found(task=Task(**{"id": "", **fields}), where=where, over=over)


def _lift_dependencies(rest: dict[str, Any]) -> None:
    """A mailbox has its needs in `metadata.dependencies`."""
    metadata = rest.get("metadata")
    if isinstance(metadata, dict) and "dependencies" in metadata:
        rest.setdefault("needs", metadata["dependencies"])
        rest["metadata"] = {key: value for key, value in metadata.items() if key != "dependencies"}
        if not rest["metadata"]:
            del rest["metadata"]


def _keep_done_when(fields: dict[str, Any], extra: dict[str, Any], text: str) -> None:
    """The command in a `done-when` is the check; a sentence for people stays one."""
    from taskpit.layouts.markdown import command_in

    command = command_in(text)
    if command and "check" not in fields:
        fields["check"] = command
    elif text:
        extra["done-when"] = text


def _keep_rest(fields: dict[str, Any], rest: dict[str, Any]) -> None:
    """Fields we have no word for: they go beside the task, long texts into its body."""
    kept: dict[str, object] = {}
    for key, value in rest.items():
        if isinstance(value, str) and "\n" in value.strip():
            fields["body"] = f"{fields.get('body', '')}\n\n## {key}\n\n{value.strip()}".strip("\n")
        else:
            name = re.sub(r"[^a-z0-9._-]", "-", key.lower()).lstrip("0123456789._-")
            kept[unused(name or "field", kept)] = value
    fields["extra"] = kept


def _value(field: str, value: object, name: str) -> object:
    """What a record says under this name, as the task's field has it; Invalid says what is wrong with it."""
    kind = Task.kinds().get(field, str)
    if field == "priority" and str(value).upper() in PRIORITIES:
        return PRIORITIES[str(value).upper()]
    if kind is float and not isinstance(value, int | float):
        try:
            return instant(str(value), 0.0)
        except (ValueError, OverflowError) as error:
            raise Invalid(f"{name}: {error}") from None
    if kind == tuple[str, ...]:
        value = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        value = [word for one in value if (word := _entry(one))] if isinstance(value, list) else value
        return tuple(dict.fromkeys(convert(value, Texts, name, lenient=True)))
    value = _entry(value) if field in ("id", "parent") else value
    return (
        convert_field(Task, field, value, lenient=True)
        if field in Task.kinds()
        else convert(value, Text, name, lenient=True)
    )


def _entry(value: object) -> object:
    """An id, which may be a number in JSON; some trackers write needs as objects, and only those that block count."""
    if isinstance(value, dict) and "depends_on_id" in value:
        value = value["depends_on_id"] if value.get("type", "blocks") == "blocks" else ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
