"""What an importer is, and what all of them need: reading records, keeping what we have no word for. Pure.

An importer is given a file's name and text and gives back, one by one, what it found or why not. Ids, needs
and parents are the source's own; the import maps them to ids of the queue.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from taskpit.clock import FIRST, LAST, instant
from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.model import NOTHING, Task, Value
from taskpit.rules import find_cycle, tangled

__all__ = [
    "PRIORITIES",
    "Bad",
    "Found",
    "Importer",
    "Record",
    "objects",
    "read_object",
    "read_value",
    "relate",
    "unused",
    "without_twins",
]

#: How others say how soon, in our numbers: higher first.
PRIORITIES = {
    **dict.fromkeys(("p0", "critical", "urgent", "highest"), 40),
    **dict.fromkeys(("p1", "high"), 30),
    **dict.fromkeys(("p2", "medium", "normal"), 20),
    **dict.fromkeys(("p3", "low"), 10),
    **dict.fromkeys(("p4", "lowest", "backlog", "none"), 0),
}


class Found(Value, frozen=True, kw_only=True):
    """One task of another tracker. Its id, needs and parent are as they are called there."""

    task: Task
    #: The file, and the line or record in it.
    where: str
    #: Ids that wait for this one, where the source says it so.
    blocks: tuple[str, ...] = ()
    #: `done` or `cancelled` if there is nothing left to do; empty if there is.
    over: str = ""
    #: What is said about its end, and when that was (unix seconds; 0 is unknown).
    ending: str = ""
    ended: float = 0.0


class Bad(Value, frozen=True, kw_only=True):
    """A record that cannot be read, and why."""

    where: str
    why: str


class Importer(ABC):
    """Reads what one kind of tracker writes."""

    name = ""
    #: Where its files lie in a folder: groups of glob patterns, of which the first that finds something is used.
    places: tuple[tuple[str, ...], ...] = ()

    def recognises(self, name: str, text: str) -> bool:  # noqa: ARG002 - some never do
        """Whether this can be no other tracker's file."""
        return False

    def earlier(self, task_id: str) -> str:  # noqa: ARG002 - most names have never changed
        """What the task of this id was called when earlier versions brought it in; empty if that is the same."""
        return ""

    @abstractmethod
    def read(self, name: str, text: str) -> Iterator[Found | Bad]:
        """Everything in this file, each task with its place."""


def objects(name: str, text: str) -> Iterator[tuple[dict[str, Any], str] | Bad]:
    """The objects in JSON lines, each with its place; lines that are none are bad."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield read_object(line), f"{name}:{number}"
            except Invalid as error:
                yield Bad(where=f"{name}:{number}", why=error.message)


def read_object(text: str) -> dict[str, Any]:
    """The object in this text; Invalid says why there is none."""
    value = read_value(text)
    if not isinstance(value, dict):
        raise Invalid("it is no object")
    return value


def read_value(text: str) -> object:
    """What this JSON says; Invalid says why it says nothing."""
    try:
        return read_json(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise Invalid(f"it is not JSON: {error.msg} (line {error.lineno})") from None
    except ValueError as error:
        raise Invalid(f"it cannot be read: {error}") from None


class Record:
    """A record that is taken apart: what has a word of ours is taken out, and what is left is kept."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.rest = {key: value for key, value in fields.items() if value not in (None, "", [], {})}
        self._sections: list[str] = []

    def text(self, *names: str) -> str:
        """A text by the first of these names; Invalid if it is no text."""
        value = self._first(names, "")
        if isinstance(value, bool | dict | list):
            raise Invalid(f"{names[0]} is no text")
        return str(value).replace("\r\n", "\n")

    def line(self, *names: str) -> str:
        """The same in one line."""
        return " ".join(self.text(*names).split())

    def status(self, default: str) -> str:
        """How far it is, in small letters: trackers and people write `Done` and `CLOSED`."""
        return self.line("status").lower() or default

    def title(self, *names: str) -> str:
        """The same, and it must be there."""
        title = self.line(*names)
        if not title:
            raise Invalid(f"it has no {names[0]}")
        return title

    def time(self, *names: str) -> float:
        """A time in unix seconds, 0 if there is none; one that cannot be read is kept as it is."""
        for name in names:
            value = self.rest.get(name)
            try:
                seconds = float(value) if isinstance(value, int | float) else instant(str(value).replace(" ", "T"), 0.0)
            except (ValueError, OverflowError):
                continue
            if value is not None and FIRST <= seconds <= LAST:
                del self.rest[name]
                return seconds
        return 0.0

    def words(self, *names: str, of: Callable[[Any], str] = str) -> tuple[str, ...]:
        """A list of words, each once; a single word is a list of one."""
        value = self._first(names, [])
        found = value if isinstance(value, list) else [part.strip() for part in str(value).split(",")]
        return tuple(dict.fromkeys(word for one in found if (word := of(one))))

    def listed(self, name: str) -> list[Any]:
        """A list as it is; Invalid if it is none."""
        value = self.rest.pop(name, [])
        if not isinstance(value, list):
            raise Invalid(f"{name} is no list")
        return value

    def tags(self, *names: str, of: Callable[[Any], str] = str) -> tuple[str, ...]:
        """Labels that can be tags; the others are kept as they are."""
        labels = self.words(*names, of=of)
        tags = tuple(dict.fromkeys(re.sub(r"[^\w.:/@+-]+", "-", label).strip("-") for label in labels))
        if tags != labels:
            self.rest["original-labels"] = list(labels)
        return tuple(tag for tag in tags if tag)

    def priority(self, name: str, default: int = 0) -> int:
        """A word or P0 to P4 in our numbers; others are kept as they are."""
        word = str(self.rest.get(name, "")).strip().lower()
        word = f"p{word}" if word.isdecimal() else word
        if word in PRIORITIES:
            del self.rest[name]
        return PRIORITIES.get(word, default)

    def section(self, heading: str, *names: str) -> None:
        """A text of its own below the body."""
        text = self.text(*names).strip()
        if text:
            self._sections.append(f"## {heading}\n\n{text}")

    def add_section(self, heading: str, text: str) -> None:
        """The same, from a text at hand."""
        self._sections.append(f"## {heading}\n\n{text.strip()}")

    def drop(self, *names: str) -> None:
        """What is derived and need not be kept."""
        for name in names:
            self.rest.pop(name, None)

    def _first(self, names: tuple[str, ...], default: object) -> Any:
        for name in names:
            if name in self.rest:
                return self.rest.pop(name)
        return default

    def body(self, text: str) -> str:
        """The body with its sections; long texts among what is left become sections too."""
        for key in [key for key, value in self.rest.items() if isinstance(value, str) and "\n" in value.strip()]:
            self.section(key, key)
        return "\n\n".join(part for part in (text.strip("\n"), *self._sections) if part.strip())

    def extra(self) -> Mapping[str, object]:
        """What is left, under names that a queue can carry."""
        kept: dict[str, object] = {}
        for key, value in self.rest.items():
            dashed = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).replace("_", "-").lower()
            name = re.sub(r"[^a-z0-9._-]", "-", dashed).lstrip("0123456789._-").rstrip("._-") or "field"
            kept[unused(f"their-{name}" if name in _TAKEN else name, kept)] = value
        return kept or NOTHING


def unused(name: str, kept: Collection[str]) -> str:
    """This name, or the first with a number behind it that nothing is kept under yet."""
    names = (name, *(f"{name}-{number}" for number in range(2, len(kept) + 2)))
    return next(one for one in names if one not in kept)


#: Words a queue or a layout has a use for.
_TAKEN = frozenset(
    (
        *(field.replace("_", "-") for field in Task.__struct_fields__),
        *("task", "done-when", "tossed-by", "attempt", "state", "carried", "origin", "original-id", "metadata", "type"),
        *("verdict", "test-mode", "test-scope", "test-command", "operator", "epic-id", "sequence-number"),
    )
)


# -- what imported tasks have to do with each other ------------------------------------------------
# What imported tasks have to do with each other: needs, parents, circles, what is over or was not in the file.
# Pure, and total: whatever the source says, every task comes out, and none can be taken too early. Ids are
# still the source's own.


def without_twins(found: Sequence[Found]) -> tuple[list[Found], list[Bad]]:
    """Each id once; those that come again are bad. What has no id is like no other."""
    first: dict[str, Found] = {}
    bad = []
    for number, one in enumerate(found):
        known = first.setdefault(one.task.id or f" {number}", one)
        if known is not one:
            bad.append(Bad(where=one.where, why=f"the id {one.task.id!r} is also that of {known.where}"))
    return list(first.values()), bad


def relate(found: Sequence[Found], known: Collection[str], *, closed: bool) -> list[Found]:
    """Every task with needs and parents that will be in the queue; what cannot be is said in its hold.

    `known` are ids that came in earlier; `closed` says that what is over comes in too.
    """
    open_ones = {one.task.id for one in found if not one.over}
    over = {one.task.id for one in found if one.over}
    here = {*open_ones, *known, *(over if closed else ())}
    needs = _all_needs(found)
    _wait_for_parts(found, open_ones, needs)
    return _without_circles([_settled(one, needs[one.task.id], here, over) for one in found])


def _all_needs(found: Sequence[Found]) -> dict[str, list[str]]:
    """What each waits for, from what either side says."""
    needs = {one.task.id: list(one.task.needs) for one in found}
    for one in found:
        for other in one.blocks:
            if one.task.id not in needs.get(other, [one.task.id]):
                needs[other].append(one.task.id)
    return needs


def _wait_for_parts(found: Sequence[Found], open_ones: Collection[str], needs: dict[str, list[str]]) -> None:
    """What has parts comes after them, unless one of them waits for it."""
    for one in found:
        whole, part = one.task.parent, one.task.id
        if part in open_ones and whole in open_ones and part not in needs[whole]:
            needs[whole].append(part)
            if find_cycle(whole, lambda task_id: needs.get(task_id, ())):
                needs[whole].remove(part)


def _settled(one: Found, needs: Sequence[str], here: Collection[str], over: Collection[str]) -> Found:
    """Needs that are over are met; for those that nobody knows a person must look."""
    task, extra = one.task, dict(one.task.extra)
    kept = tuple(dict.fromkeys(need for need in needs if need in here and need not in over))
    met = [need for need in needs if need in over]
    unknown = [need for need in needs if need not in here and need not in over]
    if met:
        extra["needs-met"] = met
    hold = task.hold
    if unknown and not one.over:
        extra["needs-unknown"] = unknown
        hold = hold or f"it waits for {', '.join(unknown)}, which was not in the import"
    parent = task.parent if task.parent in here else ""
    if task.parent and not parent:
        extra["part-of"] = task.parent
    big = task.big and not kept
    return one.replace(task=task.replace(needs=kept, parent=parent, hold=hold, big=big, extra=extra))


def _without_circles(found: Sequence[Found]) -> list[Found]:
    """Tasks that wait for each other: one of each circle waits for a person instead."""
    tasks: dict[str, Task] = {one.task.id: one.task for one in found}

    def needs_of(task_id: str) -> Sequence[str]:
        return tasks[task_id].needs if task_id in tasks else ()

    for task_id in tangled(tasks):
        while circle := find_cycle(task_id, needs_of):
            task, cut = tasks[circle[0]], circle[1]
            text = f"these wait for each other: {' -> '.join(circle)}"
            tasks[task.id] = task.replace(
                needs=tuple(need for need in task.needs if need != cut),
                hold=task.hold or text,
                extra={**task.extra, "needs-cut": [*_listed(task.extra.get("needs-cut")), cut]},
            )
    return [one.replace(task=tasks[one.task.id]) for one in found]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
