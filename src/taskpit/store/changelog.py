"""The changelog: JSON lines, many writers, never the source of truth.

A line that tells of a ready task carries its row of the catalogue: what a claim must know before it reads the file.
"""

from __future__ import annotations

import json
from binascii import crc32
from operator import attrgetter

from taskpit import fs
from taskpit.clock import iso
from taskpit.decode import convert, read_json
from taskpit.errors import CursorLost, Invalid
from taskpit.model import Event, Task, worker_type
from taskpit.rules import order
from taskpit.text import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from taskpit.catalog import Row

#: How far back we look for a line that may have been swallowed.
TAIL = 256 * 1024
#: How far from the end the last lines are looked for first.
SHORT = 16 * 1024
#: The JSON of a text, every letter as it is.
quote = json.JSONEncoder(ensure_ascii=False).encode
#: The keys of a line, in their order.
WORDS = tuple(key for key in Event.__struct_fields__ if key != "extra")
#: What may be told of a task at any time; none of it ends a claim.
ASIDE = frozenset(("added_task", "brought_in", "noted", "late_result", "quarantined", "restored_task", "hook_failed"))
#: What a keeper says of an end that it found half way; its worker may live, and tell of it, too.
CARRIED_OUT = "carried out after its worker had gone"
#: The field with the digest of the result that a line tells of.
DIGEST = "digest"
#: The field that is a row of the catalogue.
ROW = "ready"
#: What ends a task for good; a split may do so or not.
FINAL = frozenset(("completed_task", "failed_task", "cancelled_task", "split_task"))


def _lines(path: str, start: int) -> Iterator[tuple[int, bytes]]:
    """Each line after this place, with the place behind it; who only writes lines does without the module."""
    from taskpit.logfile import lines

    return lines(path, start)


def digest(data: bytes) -> str:
    """What a line says of the result it tells of, by which an edit is noticed. No seal: who edits may also log."""
    return f"{len(data)}-{crc32(data):08x}"


def marked(event: Event, said: str) -> Event:
    """The line with the digest of its result; with an empty one, without any."""
    extra = {key: value for key, value in event.extra.items() if key != DIGEST}
    return event.replace(extra={**extra, DIGEST: said} if said else extra)


def digests(path: str) -> dict[str, set[str]]:
    """The digests of each task's result since it was last claimed: a line that came late may be another one's."""
    known: dict[str, set[str]] = {}
    for _, line in _lines(path, 0):
        event = decode(line) if b"_task" in line or DIGEST.encode() in line else None
        if event is None:
            continue
        if said := event.extra.get(DIGEST):
            known.setdefault(event.task_id, set()).add(str(said))
        elif event.action in ("reopened_task", "claimed_task"):
            known.pop(event.task_id, None)
    return known


def line(seconds: float, action: str, task_id: str, worker: str, details: str, said: str = "") -> bytes:
    """A line of that time as it is documented, its keys in their order, what is empty left out; of a result with the
    digest that is `said` of it.
    """
    text = f'{{"timestamp":"{iso(seconds)}","worker":{quote(worker)},"worker_type":"{worker_type(worker)}"'
    text += f',"action":{quote(action)}'
    if task_id:
        text += f',"task_id":{quote(task_id)}'
    if details:
        text += f',"details":{quote(details)}'
    if said:
        text += f',"{DIGEST}":{quote(said)}'
    return f"{text}}}\n".encode("utf-8", "replace")


def with_row(told: bytes, task: Task, file: str, status: fs.Stat) -> bytes:
    """The line that tells of a task that is ready in this file, with its row: a catalogue needs no other log."""
    rank, age, number, name, _, inode, tied, brief = row_of(task, file, status)
    row = f"{rank},{age!r},{number},{quote(name)},{quote(file)},{inode},{tied},{quote(brief)}"
    return told[:-2] + f',"{ROW}":[{row}]}}\n'.encode("utf-8", "replace")


def encode(event: Event) -> bytes:
    """The line of an event that is known as one."""
    fields: dict[str, object] = {}
    for name in WORDS:
        if value := getattr(event, name):
            fields[name] = value
    fields |= {key: value for key, value in event.extra.items() if value}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def decode(line: bytes) -> Event | None:
    """The event of a line, or None: a torn or foreign line is skipped, not judged."""
    try:
        fields = read_json(line)
        fields.pop(ROW, None)  # for catalogues
        return Event.of(fields)
    except (ValueError, TypeError, AttributeError):
        return None


def append(path: str, events: Sequence[Event]) -> None:
    """These lines are at the end."""
    fs.append(path, b"".join(map(encode, events)))


def read(path: str, after: str, limit: int) -> tuple[list[Event], str]:
    """Events after the cursor, and the next one. A cursor is an inode, a place in it and what stands before that."""
    status = fs.status(path)
    inode = status.st_ino if status else 0
    start = 0
    if after:
        told, place, mark = (*after.split(":"), "", "")[:3]
        start = int(place) if is_count(place) else -1
        if start < 0 or (start and told != str(inode)) or start > (status.st_size if status else 0):
            raise CursorLost(cursor=after)
        if mark and mark != _mark(path, start):  # a new file may be given the old one's inode
            raise CursorLost(cursor=after)
    events = []
    for place_after, line in _lines(path, start):
        event = decode(line)
        if event is not None:
            events.append(event)
        start = place_after
        if len(events) >= limit:
            break
    return events, f"{inode}:{start}:{_mark(path, start)}"


def latest(path: str, limit: int) -> tuple[list[Event], str]:
    """The last events, oldest first, and the cursor after them; read from the end, as far back as they reach."""
    status = fs.status(path)
    inode, size = (status.st_ino, status.st_size) if status else (0, 0)
    span = SHORT
    while True:
        start = max(size - span, 0)
        lines = list(_lines(path, start))
        events: list[Event] = []
        for _, line in reversed(lines[1:] if start else lines):  # the first one may be the rest of a line
            if len(events) >= limit:
                break
            event = decode(line)
            if event is not None:
                events.append(event)
        if not start or len(events) >= limit:
            break
        span = max(4 * span, 2 * span * limit // max(len(events), 1)) if events else 16 * span
    place = lines[-1][0] if lines else start
    return events[::-1], f"{inode}:{place}:{_mark(path, place)}"


def _mark(path: str, place: int) -> str:
    """A word for what stands just before this place."""
    return f"{crc32(next((line for _, line in _lines(path, max(place - 64, 0))), b'')) if place else 0:x}"


def mentions(path: str, action: str, task_id: str, *, worker: str = "") -> bool:
    """Whether a recent line tells of this, so that nobody appends what was not swallowed after all."""
    return any(event.action == action and worker in ("", event.worker) for event in _recent(path, task_id))


def tells_end(path: str, task_id: str, *, since: str, final: bool) -> bool:
    """Whether the end of the task's last claim, for good or not, is told by a line not older than `since`."""
    told = False
    for event in _recent(path, task_id):
        if event.action == "claimed_task":
            told = False
        elif event.timestamp >= since and event.action not in ASIDE:
            told = told or event.action == "split_task" or (event.action in FINAL) == final
    return told


def _recent(path: str, task_id: str) -> Iterator[Event]:
    needle = json.dumps(task_id, ensure_ascii=False).encode("utf-8", "replace")
    for line in fs.tail(path, TAIL).splitlines():
        event = decode(line) if needle in line else None
        if event is not None and event.task_id == task_id:
            yield event


#: What a row tells of a task besides its order; of a plain one, that anybody may take, only id and slug.
BRIEF = ("id", "slug", "hold", "not_before", "needs", "tags", "touches", "limits", "big")


_brief_of = attrgetter(*BRIEF)


def is_tied(task: Task) -> bool:
    """Whether something may hold it: a need, a time, a person, another task."""
    return bool(task.hold or task.not_before or task.needs or task.touches or task.limits or task.big)


def row_of(task: Task, file: str, status: fs.Stat) -> Row:
    """The row of a ready task: its order, its file, and what decides whether it may be taken."""
    tied = is_tied(task)
    if tied or task.tags:
        brief = json.dumps([status.st_mtime_ns, *_brief_of(task)], ensure_ascii=False, separators=(",", ":"))
        brief = brief.encode("utf-8", "replace").decode()  # a JSON file may have half a letter in its tags
    else:
        brief = f"[{status.st_mtime_ns},{quote(task.id)},{quote(task.slug)}]"
    return (*order(task), file, status.st_ino, int(tied), brief)


def task_of(row: Row) -> tuple[Task, tuple[int, int]] | None:
    """As much of the task as the row tells, and by what its file is known; None if it is no row of ours."""
    rank, age, _, _, _, inode, _, brief = row
    try:
        modified, task_id, slug, *rest = read_json(brief)
        if type(modified) is not int:
            return None
        if not rest and type(task_id) is type(slug) is str:
            return Task(id=task_id, slug=slug, title="", priority=-rank, created=age), (inode, modified)
        told = dict(zip(BRIEF, (task_id, slug, *rest), strict=True))
        return convert({**told, "title": "", "priority": -rank, "created": age}, Task), (inode, modified)
    except (ValueError, TypeError, Invalid):
        return None
