"""How a lock file is spelled: JSON with the holder and times as people read them. Pure; touches no disk.

Written exactly as documented. Read in every spelling met in the wild: camelCase, milliseconds since 1970,
other time zones, missing fields. What cannot be read at all is nobody's we know, and may be live.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime

from taskpit.clock import LAST, instant, iso
from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.model import Lock
from taskpit.text import one_line

#: Our fields by the spellings they are read in.
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "holder": ("holder", "holderId", "holder_id"),
    "kind": ("holder_type", "holderType"),
    "acquired": ("acquired", "acquiredAt", "acquired_at"),
    "expires": ("expires", "expiresAt", "expires_at"),
    "task_id": ("task_id", "taskId"),
    "task_acquired": ("task_acquired", "taskAcquired", "taskAcquiredAt", "task_acquired_at"),
    "task_expires": ("task_expires", "taskExpires", "taskExpiresAt", "task_expires_at"),
}
OURS = frozenset(spelling for spellings in SPELLINGS.values() for spelling in spellings)
#: Letters of a holder's name; more is none.
LONGEST_HOLDER = 200
#: Numbers above this are milliseconds: as seconds they would be after the year 5000.
MILLISECONDS = 1e11


def dump(lock: Lock) -> bytes:
    """The lock as it is documented: its fields in their order, empty ones null, unknown ones after them."""

    def time(seconds: float) -> str | None:
        return iso(seconds) if seconds else None

    def end(seconds: float) -> str | None:
        return iso(math.ceil(seconds)) if seconds else None  # times have no fractions: never too early

    fields = {
        "holder": lock.holder,
        "holder_type": lock.kind,
        "acquired": time(lock.acquired),
        "expires": end(lock.expires),
        "task_id": lock.task_id or None,
        "task_acquired": time(lock.task_acquired),
        "task_expires": end(lock.task_expires),
        **lock.extra,
    }
    return json.dumps(fields, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def load(name: str, data: bytes) -> Lock:
    """The lock in these bytes; a time that is missing or unreadable is 0. Invalid: it tells no holder."""
    try:
        fields = read_json(data, lenient=True)  # one bad time must not hide whose lock it is
    except ValueError:
        raise Invalid("it is not JSON, or not all of it is there", name=name) from None
    if not isinstance(fields, dict):
        raise Invalid("it is not a JSON object", name=name)
    found = {
        ours: next((fields[key] for key in spellings if fields.get(key) is not None), None)
        for ours, spellings in SPELLINGS.items()
    }
    if not isinstance(found["holder"], str) or not found["holder"].strip():
        raise Invalid("it names no holder", name=name)
    return Lock(
        name=name,
        holder=one_line(found["holder"])[:LONGEST_HOLDER],
        kind="human" if found["kind"] == "human" else "agent" if found["kind"] == "agent" else "",
        task_id=found["task_id"] if isinstance(found["task_id"], str) else "",
        extra={key: value for key, value in fields.items() if key not in OURS},
        acquired=_time(found["acquired"]),
        expires=_time(found["expires"]),
        task_acquired=_time(found["task_acquired"]),
        task_expires=_time(found["task_expires"]),
    )


def _time(value: object) -> float:
    """Seconds since 1970. A time that tells no zone may be UTC or our own: the later of both is meant."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if MILLISECONDS < value <= LAST * 1000 else value
        return float(seconds) if 0 < seconds <= LAST else 0.0
    if not isinstance(value, str) or value.startswith("+"):
        return 0.0
    try:
        return max(instant(value, 0.0), _local(value))
    except (ValueError, OverflowError):
        return 0.0


def _local(text: str) -> float:
    if text.endswith(("Z", "z")) or (len(text) > 6 and text[-6] in "+-" and text[-3] == ":"):
        return 0.0

    return datetime.fromisoformat(text.strip()).astimezone().timestamp()
