"""Work items with activities: their ids and names, and how one activity is spelled. Pure; touches no disk.

WI-001-fix-the-login/     a work item; the readable part may be missing
  progress.yaml           what there is to do and how far it is
  locks/WI-001-A1.lock    who works on an activity, and until when
  changelog.log           what happened
  deliverables/           what came of it
  notes.md                what people wrote beside it

An activity is the queue's task. Inside it are steps, which the documents call tasks (WI-001-A1-T1).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from taskpit import decode
from taskpit.clock import LAST, instant, iso
from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.layouts.layout import Layout, Spot, slugify
from taskpit.model import Evidence, Result, Task, Try, Value, Verdict

# -- one activity ----------------------------------------------------------------------------------
# One activity, work item or step in `progress.yaml` as a Task, and back. Pure: mappings in, values out.
# Only what has changed is written: what people and other tools put there stays as they wrote it.

#: Words an entry has for fields of a task; the other fields stand under their own names.
CALLED = {
    "body": "description",
    "needs": "depends_on",
    "check": "done_when",
    "by": "created_by",
    "created": "created_at",
    "updated": "updated_at",
}
#: A task's fields by their words, and what kind each is.
WORDS = {CALLED.get(name, name): name for name in Task.kinds() if name not in ("id", "extra", "source")}
KINDS = {word: Task.kinds()[name] for word, name in WORDS.items()}
#: What the queue itself keeps in an entry, and what no person asked for.
MANAGED = frozenset(
    (
        "id",
        "status",
        "started_at",
        "completed_by",
        "completed_at",
        "notes",
        "deliverables",
        "result",
        "tries",
        "superseded",
        "added_at",
        "added_reason",
    )
)
#: What is read back of a result as it stands.
KEPT = ("reason", "worker", "log", "attempt", "seconds", "cost")
#: How many values an entry may have inside before it is no entry: aliases can make a few lines endless.
MOST = 20_000


def load(task_id: str, fields: Mapping[Any, Any], hold: str = "") -> Task:
    """The task of an entry; `hold` is what blocks it by other words than its own. Invalid says what is wrong."""
    known: dict[str, Any] = {}
    for word, name in WORDS.items():
        value = fields.get(word)
        if value is not None:
            known[name] = _read(word, value, task_id)
    extra = {
        str(key): plain(value)
        for key, value in fields.items()
        if key not in WORDS and key not in MANAGED and value is not None
    }
    known["title"] = known.get("title") or task_id
    known["hold"] = known.get("hold") or hold
    return decode.convert({"id": task_id, "extra": extra, **known}, Task, lenient=True)


def _read(word: str, value: object, task_id: str) -> object:
    kind = KINDS[word]
    if kind is float:
        at = moment(value)
        if word == "not_before" and ((not at and value not in ("", 0)) or str(value).startswith("+")):
            raise Invalid(f"{task_id}: {word} is {value!r:.80}, not a time", id=task_id, field=word)
        return at
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Invalid(f"{task_id}: {word} is {value!r:.80}, not a whole number", id=task_id, field=word)
        return int(value)
    if kind == tuple[str, ...]:
        items = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(item, dict | list | tuple | set) for item in items):
            raise Invalid(f"{task_id}: {word} has lists or mappings where words should stand", id=task_id, field=word)
        return tuple(str(item) for item in items)
    return bool(value) if kind is bool else str(value)


def moment(value: object) -> float:
    """Seconds since 1970 of a time as YAML or people write it; 0 if it cannot be told."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if 0 < value <= LAST else 0.0
    tell = getattr(value, "isoformat", None)
    try:
        return instant(str(tell() if tell else value), 0.0)
    except (ValueError, OverflowError):
        return 0.0


def plain(value: object) -> object:
    """A value without what the YAML library knows of its spelling; Invalid if it is endless."""
    count = 0

    def strip(value: object, depth: int) -> object:
        nonlocal count
        count += 1
        if count > MOST or depth > 50:
            raise Invalid(f"it has more than {MOST} values inside, or is nested too deeply")
        if isinstance(value, dict):
            return {str(key): strip(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set):
            return [strip(item, depth + 1) for item in value]
        if isinstance(value, bool) or value is None:
            return value
        for kind in (int, float, str):
            if isinstance(value, kind):
                return kind(value)
        tell = getattr(value, "isoformat", None)
        return str(tell() if tell else value)

    return strip(value, 0)


def _write(word: str, value: Any) -> object:
    if KINDS[word] is float:
        return iso(value)
    return list(value) if isinstance(value, tuple) else value


def new(task: Task, status: str = "pending") -> dict[str, Any]:
    """A new entry, its words in a readable order."""
    fields: dict[str, Any] = {"id": task.id, "title": task.title, "status": status}
    if "actor" in task.extra:
        fields["actor"] = task.extra["actor"]
    blank = Task(id="", title="")
    for word, name in WORDS.items():
        value = getattr(task, name)
        if word != "title" and value != getattr(blank, name):
            fields[word] = _write(word, value)
    fields.setdefault("depends_on", [])
    return {**fields, **{key: value for key, value in task.extra.items() if key not in fields}}


def change(fields: MutableMapping[Any, Any], before: Task, after: Task) -> None:
    """The entry says what `after` says; what is the same in both is not touched."""
    blank = Task(id="", title="")
    for word, name in WORDS.items():
        value = getattr(after, name)
        if value == getattr(before, name):
            continue
        if value == getattr(blank, name):
            fields.pop(word, None)
        else:
            fields[word] = _write(word, value)
    for key in before.extra.keys() - after.extra.keys():
        fields.pop(key, None)
    for key, value in after.extra.items():
        if before.extra.get(key) != value:
            fields[key] = value


# -- results and tries -----------------------------------------------------------------------------


def spell_result(result: Result, output: str) -> dict[str, Any]:
    """What is kept of a result inside the entry; `output` is the file with what the worker said."""
    fields: dict[str, Any] = {"verdict": str(result.verdict), "worker": result.worker, "attempt": result.attempt}
    if result.finished:
        fields["finished"] = round(result.finished, 3)
    for name in ("reason", "log"):
        if getattr(result, name):
            fields[name] = getattr(result, name)
    if result.seconds:
        fields["seconds"] = round(result.seconds, 3)
    if output:
        fields["output"] = output
    if result.evidence:
        fields["evidence"] = result.evidence.as_dict()
    if result.cost:
        fields["cost"] = dict(result.cost)
    if result.children:
        fields["children"] = list(result.children)
    return fields


def load_result(task_id: str, fields: Mapping[Any, Any], verdict: Verdict) -> Result:
    """The result in an entry that has ended, ours or written by hand: then who and when."""
    kept = _within(fields.get("result"))
    result = kept if isinstance(kept, dict) else {}
    known = {key: result[key] for key in KEPT if key in result and decode.fits(Result, key, result[key])}
    children = result.get("children")
    return Result(
        id=task_id,
        verdict=verdict,
        finished=moment(result.get("finished") or fields.get("completed_at")),
        evidence=_evidence(result.get("evidence")),
        children=tuple(map(str, children)) if isinstance(children, list) else (),
        **{"worker": str(fields.get("completed_by") or ""), **known},
    )


def _within(value: object) -> object:
    """A value that something else than a task may have written."""
    try:
        return plain(value)
    except Invalid:
        return None


def _evidence(value: object) -> Evidence | None:
    try:
        return decode.convert(value, Evidence, lenient=True) if isinstance(value, dict) else None
    except Invalid:
        return None  # not one of ours


def load_tries(fields: Mapping[Any, Any]) -> tuple[Try, ...]:
    """Attempts that did not finish it, oldest first."""
    kept = _within(fields.get("tries")) or []
    found = []
    for one in kept if isinstance(kept, list) else []:
        try:
            found.append(decode.convert(one, Try, lenient=True))
        except Invalid:
            continue  # not one of ours
    return tuple(found)


# -- work items with activities --------------------------------------------------------------------


PROGRESS = "progress.yaml"
LOCKS = "locks"
CHANGELOG = "changelog.log"
DELIVERABLES = "deliverables"
NOTES = "notes.md"

ID = re.compile(r"(WI-[0-9]{1,9})(?:-A([0-9]{1,9})(?:-T([0-9]{1,9}))?)?\Z")
FOLDER = re.compile(r"(WI-[0-9]{1,9})(?:-(.+))?\Z")
#: Where a blocker stands among the others of its work item.
BLOCKERS = re.compile(r"(?:WI-[0-9]+-)?B([0-9]{1,9})\Z")


class ActivityId(Value, frozen=True, kw_only=True):
    """What an id means: a work item, one of its activities, or a step of that. Empty is not so deep."""

    item: str
    activity: str = ""
    step: str = ""

    @property
    def parent(self) -> str:
        """The id of what it belongs to."""
        return self.activity if self.step else self.item if self.activity else ""


def place(text: str) -> ActivityId | None:
    """The place of an id; None if it is no id of ours."""
    match = ID.match(text)
    if match is None:
        return None
    item, activity, step = match.groups()
    return ActivityId(
        item=item,
        activity=f"{item}-A{activity}" if activity else "",
        step=text if step else "",
    )


def item_of(folder: str) -> str:
    """The work item whose folder is called this; empty if it is none."""
    match = FOLDER.match(folder)
    return match[1] if match else ""


def folder_name(item: str, title: str) -> str:
    """What the folder of a work item is called."""
    return f"{item}-{slugify(title)}"


class Activities(Layout):
    """Names and spellings of work items."""

    name = "activities"
    defaults: Mapping[str, object] = {"lease": 3600.0, "human_lease": 28800.0}

    def check_id(self, text: str) -> str:
        """The id of a work item, an activity or a step."""
        if place(text) is None:
            raise Invalid(
                f"id {text!r} is not allowed here",
                hint="A work item is called WI-001, an activity WI-001-A1, a task of it WI-001-A1-T1.",
                text=text,
            )
        return text

    def new_id(self, number: int) -> str:
        """Three digits at least."""
        return f"WI-{number:03d}"

    def number(self, text: str) -> int:
        """The number of a work item, also without its letters; 0 for anything else."""
        digits = text.removeprefix("WI-")
        return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else 0

    def like(self, old: str) -> Iterator[str]:
        """The activity it was before another layout respelled it; else the one of a work item with its number."""
        spot = place(re.sub(r"[^A-Za-z0-9]+", "-", old).upper())
        digits = re.sub(r"[^0-9]", "", old)[-9:]
        if spot is not None:
            yield spot.activity or f"{spot.item}-A1"
        elif digits:
            yield f"{self.new_id(int(digits))}-A1"
        yield from (f"{self.new_id(number)}-A1" for number in itertools.count(1))

    def load(self, spot: Spot, data: bytes, beside: bytes = b"") -> Task:  # noqa: ARG002 - nothing is kept beside
        """The task of an entry on its own."""
        try:
            fields = read_json(data)
        except ValueError:
            raise Invalid("it is not JSON", id=spot.id) from None
        if not isinstance(fields, dict):
            raise Invalid("it is not a JSON object", id=spot.id)
        return load(spot.id, fields)

    def dump(self, task: Task) -> bytes:
        """The task as an entry on its own: JSON, which is YAML too."""
        return json.dumps(new(task), ensure_ascii=False).encode() + b"\n"

    def with_field(self, task: Task, key: str, text: str) -> Task:
        """Any field an activity may have: `actor` says who may do it."""
        if key in MANAGED or key in WORDS or key == "tasks":
            raise Invalid(f"the field {key!r} is not set by hand", hint="`pit add --help` names the option for it.")
        if key == "actor" and text not in ("agent", "human", "any"):
            raise Invalid(f"actor is agent, human or any, not {text!r}", field=key)
        return super().with_field(task, key, text)
