"""What of a `progress.yaml` must outlive a program that writes only the words it knows. Pure; touches no disk.

Such a program drops all of our words from an activity at once. A person who takes one out leaves the others, or
leaves the word with nothing behind it: that is meant, and stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.layouts import activities
from taskpit.layouts.progress import ENDED, OF_THE_FILE, Progress, append, pairs, status_of

#: Words that other programs know too, and change: what they say is in the file alone.
THEIRS = OF_THE_FILE | frozenset(
    (
        "id",
        "title",
        "name",
        "type",
        "status",
        "actor",
        "owner",
        "depends_on",
        "tasks",
        "notes",
        "claimed_by",
        "claimed_at",
        "started_at",
        "completed_by",
        "completed_at",
    )
)
#: Words that only we write: an activity that had some and has none was written by another program.
OURS = frozenset(activities.WORDS) - THEIRS - {"description", "parent", "created_at", "updated_at"}
OURS |= {"result", "tries", "superseded"}


def spell(progress: Progress) -> bytes:
    """What is kept beside this file, as JSON; empty if nothing of ours is in it."""
    kept = {key: _kept(fields) for key, fields in _entries(progress)}
    kept = {key: fields for key, fields in kept.items() if OURS & fields.keys()}
    if not kept:
        return b""
    blockers = {str(one["id"]): _plain(one) for one in progress.blockers() if one.get("id")}
    facts = {"version": _version(progress), "entries": kept, "blockers": blockers}
    return json.dumps(facts, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def restore(progress: Progress, beside: bytes) -> bool:
    """What another program dropped is in the document again; whether anything was."""
    kept = _read(beside)
    version = _version(progress)
    if not kept or (version and version < kept.get("version", 0)):  # an older file was put back: it is meant so
        return False
    rewritten = False
    for key, fields in _entries(progress):
        before = kept["entries"].get(key)
        if isinstance(before, dict) and OURS & before.keys() and not OURS & before.keys() & fields.keys():
            rewritten = True
            for word, value in before.items():
                if word not in fields and word not in THEIRS and (word != "result" or _fits(fields, value)):
                    fields[word] = value
    if rewritten:
        _restore_blockers(progress, kept["blockers"])
    return rewritten


def _restore_blockers(progress: Progress, kept: dict[str, Any]) -> None:
    there = {str(one.get("id") or key): one for key, one in pairs(progress.document.get("blockers"))}
    for key, before in kept.items():
        if not isinstance(before, dict):
            continue
        if key not in there:
            append(progress.document, "blockers", before)
        else:
            there[key].update({word: value for word, value in before.items() if word not in there[key]})


def _entries(progress: Progress) -> Iterator[tuple[str, Any]]:
    """The work item itself, and its activities."""
    yield progress.item, progress.head
    yield from progress.entries()


def _kept(fields: Any) -> dict[str, Any]:
    return _plain({word: value for word, value in fields.items() if word not in THEIRS and value is not None})


def _plain(fields: Any) -> dict[str, Any]:
    try:
        found = activities.plain(fields)
    except Invalid:
        return {}
    return found if isinstance(found, dict) else {}


def _version(progress: Progress) -> int:
    """How often the file was changed; 0 if it does not say."""
    text = str(progress.document.get("version") or progress.head.get("version") or "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def _fits(fields: Any, result: object) -> bool:
    """Whether a result is of the end that the file tells of."""
    verdict = ENDED.get(status_of({"status": fields.get("status"), "result": result}))
    return verdict is not None and isinstance(result, dict) and result.get("verdict") == str(verdict)


def _read(beside: bytes) -> dict[str, Any]:
    """What was kept; nothing if it is not as we write it."""
    try:
        kept = read_json(beside) if beside else None
    except ValueError:
        return {}
    if not isinstance(kept, dict) or type(kept.get("version")) is not int:
        return {}
    return kept if isinstance(kept.get("entries"), dict) and isinstance(kept.get("blockers"), dict) else {}
