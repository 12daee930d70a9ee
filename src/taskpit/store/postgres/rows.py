"""Values as rows and back: tasks, results and attempts as JSON, the order of tasks as bytes. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from taskpit.decode import convert, read_json
from taskpit.errors import Invalid
from taskpit.model import SPLIT_FROM, UNREAD, Claim, End, Result, Task, Try, Verdict
from taskpit.rules import order

#: The title of a task whose row cannot be read, and how much of the row is kept for a person to look at.
UNREADABLE, LONGEST_KEPT = "its row cannot be read", 65536
#: A zero byte in JSON, and its replacement.
ZERO, MARK = "\\u0000", "\ufffd"
#: Half of the numbers that eight bytes can count: priority 0.
MIDDLE = 1 << 63

_encoder = msgspec.json.Encoder(order="deterministic")


class Lapsed(Claim, frozen=True, kw_only=True):
    """A claim as a judge saw it: the judge's end counts only if the lease was not renewed since."""

    #: The end of the lease that the judge saw.
    ended: float


def as_json(value: object) -> str:
    """Return the JSON of a value, the same for equal values. The server stores no zero byte: each is replaced."""
    try:
        text = _encoder.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):  # half a surrogate pair, or a huge number
        plain = msgspec.to_builtins(value)
        text = json.dumps(plain, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace").decode()
    return _without_zeros(text) if ZERO in text else text


def _without_zeros(text: str) -> str:
    """Replace zero bytes. An escaped backslash before `u0000` means that it is none."""
    return re.sub(r"\\(?:u0000|.)", lambda found: MARK if found[0] == ZERO else found[0], text)


# -- tasks, results, attempts ----------------------------------------------------------------------


def doc_of(task: Task) -> str:
    """Return the task as it is stored. Bytes of another layout are left out: every field is there."""
    fields = {name: value for name, value in task.as_dict().items() if value and name != "source"}
    return as_json(fields)


def read_task(doc: str, task_id: str) -> Task:
    """Return the task of this row. A row that no worker of ours wrote becomes a held task that says why.

    The row is the body of that task: nothing of it is acted on, and nothing is lost.
    """
    try:
        task = convert(read_json(doc), Task)
        if task.id == task_id:
            return task
        reason = f"it is of another task, {task.id[:80]!r}"
    except (Invalid, ValueError, TypeError) as error:
        reason = str(error)
    return Task(id=task_id, title=UNREADABLE, hold=f"{UNREADABLE}: {reason[:300]}", body=doc[:LONGEST_KEPT])


def read_result(doc: str, task_id: str, verdict: str) -> Result:
    """Return the result of this row, or one that says why it cannot be read."""
    try:
        return convert(read_json(doc), Result)
    except (Invalid, ValueError, TypeError) as error:
        return Result(id=task_id, verdict=Verdict(verdict), reason=f"{UNREAD}: {str(error)[:300]}")


def read_tries(docs: Iterable[str]) -> tuple[Try, ...]:
    """Return the attempts among these rows; any other row is left out."""
    tries = []
    for doc in docs:
        with suppress(Invalid, ValueError, TypeError):
            tries.append(convert(read_json(doc), Try))
    return tuple(tries)


def _end_doc(value: Result | Try | None) -> str | None:
    return None if value is None else as_json(value)


# -- parameters of verbs ---------------------------------------------------------------------------


def key_of(task: Task) -> bytes:
    """Return bytes that sort in the order of claims: priority, age, number, name. No two tasks have the same."""
    rank, age, number, name = order(task)
    bits: int = struct.unpack(">Q", struct.pack(">d", age))[0]
    bits = bits ^ (2**64 - 1) if bits >> 63 else bits | MIDDLE
    digits = str(number).encode() if number else b""
    text = name if name == task.id else f"{name}\0{task.id}"  # a-1 and a-01 sort alike, and are two tasks
    return (rank + MIDDLE).to_bytes(8, "big") + bits.to_bytes(8, "big") + bytes((len(digits),)) + digits + text.encode()


def _digest(value: object) -> bytes:
    return hashlib.sha256(as_json(value).encode()).digest()


def is_plain(task: Task) -> bool:
    """Whether nothing keeps the task from being ready at once, or must be looked up for it."""
    return not (task.needs or task.tags or task.touches or task.limits or task.hold or task.not_before)


#: The columns of a plain task.
PLAIN = ("id", "big", "key", "wish", "doc", "worker", "details")


def plain_row(task: Task) -> tuple[str, bool, bytes, bytes, str, str, str]:
    """Return the columns of any task."""
    return task.id, task.big, key_of(task), _digest(task.wish())[:16], doc_of(task), task.by or "keeper", task.title


def task_item(task: Task, number: int = 0, *, mark: str | None = None, doc: bool = True) -> dict[str, Any]:
    """Return all columns of a task that is put or goes back; without its text if that is unchanged."""
    task_id, big, key, wish, text, worker, details = plain_row(task)
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


def end_item(end: End, number: int, now: float) -> dict[str, Any]:
    """Return the columns of the end of a claim."""
    claim, result = end.claim, end.result
    part = f"{SPLIT_FROM}{claim.task.id}"
    item: dict[str, Any] = {
        "n": number,
        "id": claim.task.id,
        "fence": claim.fence,
        "seen": claim.ended if isinstance(claim, Lapsed) else None,
        "verdict": str(result.verdict) if result else None,
        "result": _end_doc(result),
        "attempt": _end_doc(end.attempt),
        "children": [{**task_item(child, place), "details": part} for place, child in enumerate(end.children)] or None,
        "action": end.action or "released_task",
        "details": end.details.replace("\0", MARK),
    }
    digest = _digest([item["result"], item["attempt"], end.action, end.task and doc_of(end.task)])
    item["mark"] = f"{claim.fence}/{digest[:8].hex()}"
    if end.note is not None:
        item["note_kind"], item["note"] = end.note
    if result is None or end.task is not None:
        task = end.task or claim.task
        if result is None and end.delay:
            task = task.replace(not_before=float(int(now + end.delay)))
        item["back"] = task_item(task, mark=item["mark"], doc=result is not None or task is not claim.task)
    return item
