"""Values as rows and back: tasks, results and tries as JSON, the order of tasks as bytes. Pure."""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress

from taskpit import jsontext, schema
from taskpit.errors import Invalid
from taskpit.model import SPLIT_FROM, UNREAD, Claim, End, Event, Result, Task, Try, Verdict, worker_type
from taskpit.rules import order
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


#: What is said of a row that cannot be what it should, and how much of it is kept for a person to look at.
UNREADABLE, LONGEST_KEPT = "its row cannot be read", 65536
#: A zero byte in JSON, and what stands in its place.
ZERO, MARK = "\\u0000", "\ufffd"
#: Half of what eight bytes can count to: in the middle lies priority 0.
MIDDLE = 1 << 63


class Lapsed(Claim, frozen=True, kw_only=True):
    """A claim as a judge saw it: its end counts only if nobody has renewed it since."""

    #: When its lease ended, as the judge saw it.
    ended: float


def as_json(value: object) -> str:
    """The JSON of plain values, always the same for the same. No zero byte is in them: the server reads none."""
    text = jsontext.dumps(value, ordered=True)
    return _without_zeros(text) if ZERO in text else text


def _without_zeros(text: str) -> str:
    """The JSON text with a mark for each zero byte. What only reads like one, behind a backslash of its own, stays."""
    import re

    return re.sub(r"\\(?:u0000|.)", lambda found: MARK if found[0] == ZERO else found[0], text)


def doc_of(task: Task) -> str:
    """The task as it is stored. Its bytes of another place are not: every field has its own."""
    fields = {key: field for key, field in task.as_dict().items() if field}  # what a task says by itself is nothing
    fields.pop("source", None)
    return as_json(fields)


def task_of(doc: str) -> Task:
    """The task in these."""
    return schema.load(Task, read_json(doc))


def read_task(doc: str, task_id: str) -> Task:
    """The task of this row; of one that no worker of ours can have written, one that waits for a person and says why.

    What stood there is its text: nothing of it is acted on, and nothing is lost.
    """
    try:
        task = task_of(doc)
        if task.id == task_id:
            return task
        why = f"it is of another task, {task.id[:80]!r}"
    except (Invalid, ValueError, TypeError) as error:
        why = str(error)
    return Task(id=task_id, title=UNREADABLE, hold=f"{UNREADABLE}: {why[:300]}", body=doc[:LONGEST_KEPT])


def read_result(doc: str, task_id: str, verdict: str) -> Result:
    """The result of this row; of one that is none, one that says so."""
    try:
        return result_of(doc)
    except (Invalid, ValueError, TypeError) as error:
        return Result(id=task_id, verdict=Verdict(verdict), reason=f"{UNREAD}: {str(error)[:300]}")


def read_tries(docs: Iterable[str]) -> tuple[Try, ...]:
    """The attempts among these; what is none is left out."""
    found = []
    for doc in docs:
        with suppress(Invalid, ValueError, TypeError):
            found.append(try_of(doc))
    return tuple(found)


def _with_evidence(value: Result | Try) -> str:
    fields = value.changed_fields()
    if value.evidence is not None:
        fields["evidence"] = value.evidence.as_dict()
    return as_json(fields)


def result_of(doc: str) -> Result:
    """The result in these."""
    return schema.load_result(read_json(doc))


def try_of(doc: str) -> Try:
    """The try in these."""
    return schema.load_try(read_json(doc))


def key_of(task: Task) -> bytes:
    """Bytes that sort as tasks are taken: by priority, age, number, name. No two tasks have the same."""
    rank, age, number, name = order(task)
    bits: int = struct.unpack(">Q", struct.pack(">d", age))[0]
    bits = bits ^ (2**64 - 1) if bits >> 63 else bits | MIDDLE
    digits = str(number).encode() if number else b""
    text = name if name == task.id else f"{name}\0{task.id}"  # a-1 and a-01 sort alike, and are two
    return (rank + MIDDLE).to_bytes(8, "big") + bits.to_bytes(8, "big") + bytes((len(digits),)) + digits + text.encode()


def _digest(value: object) -> bytes:
    return hashlib.sha256(as_json(value).encode("utf-8", "replace")).digest()


def is_plain(task: Task) -> bool:
    """Whether nothing keeps it from being ready at once, or must be looked up for it."""
    return not (task.needs or task.tags or task.touches or task.limits or task.hold or task.not_before)


def as_row(task: Task) -> tuple[str, bool, bytes, bytes, str, str, str]:
    """What the server is told of any task: its id, size, place, digest and text, and who put it, with which title."""
    return task.id, task.big, key_of(task), _digest(task.wish())[:16], doc_of(task), task.by or "keeper", task.title


def as_item(task: Task, number: int = 0, *, mark: str | None = None, doc: bool = True) -> dict[str, Any]:
    """The same and all the rest, of one that becomes ready or waits; without its text where that is unchanged."""
    task_id, big, key, wish, text, worker, details = as_row(task)
    return {
        "n": number,
        "id": task_id,
        "key": key.hex(),
        "wish": wish.hex(),
        "doc": text if doc else None,
        "big": big,
        "tags": list(task.tags) or None,
        "touches": list(task.touches) or None,
        "limits": list(task.limits) or None,
        "held": bool(task.hold),
        "due": task.not_before,
        "needs": list(task.needs) or None,
        "worker": worker,
        "details": details,
        "mark": mark,
    }


def as_ending(end: End, number: int, now: float) -> dict[str, Any]:
    """What the server is told of the end of a claim."""
    claim, result, attempt, part = end.claim, end.result, end.attempt, f"{SPLIT_FROM}{end.claim.task.id}"
    told: dict[str, Any] = {
        "n": number,
        "id": claim.task.id,
        "fence": claim.fence,
        "seen": claim.ended if isinstance(claim, Lapsed) else None,
        "verdict": str(result.verdict) if result else None,
        "result": _with_evidence(result) if result else None,
        "attempt": _with_evidence(attempt) if attempt else None,
        "children": [{**as_item(child, place), "details": part} for place, child in enumerate(end.children)] or None,
        "action": end.action or "released_task",
        "details": end.details.replace("\0", MARK),
    }
    digest = _digest([told["result"], told["attempt"], end.action, end.task and doc_of(end.task)])
    told["mark"] = f"{claim.fence}/{digest[:8].hex()}"
    if end.note is not None:
        told["note_kind"], told["note"] = end.note
    if result is None or end.task is not None:
        task = end.task or claim.task
        if result is None and end.delay:
            task = task.replace(not_before=float(int(now + end.delay)))
        told["back"] = as_item(task, mark=told["mark"], doc=result is not None or task is not claim.task)
    return told


def event_of(at: str, worker: str, action: str, task_id: str, details: str) -> Event:
    """A line of the changelog that the store itself wrote."""
    return Event(
        timestamp=at, worker=worker, worker_type=worker_type(worker), action=action, task_id=task_id, details=details
    )
