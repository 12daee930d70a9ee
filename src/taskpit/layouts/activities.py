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

from taskpit.errors import Invalid
from taskpit.layouts import activity_entry
from taskpit.layouts.layout import Layout, Spot, slugify
from taskpit.records import Value
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from taskpit.task import Task

__all__ = ["BLOCKERS", "DELIVERABLES", "LOCKS", "PROGRESS", "Activities", "Place", "folder_name", "item_of", "place"]

PROGRESS = "progress.yaml"
LOCKS = "locks"
CHANGELOG = "changelog.log"
DELIVERABLES = "deliverables"
NOTES = "notes.md"

ID = re.compile(r"(WI-[0-9]{1,9})(?:-A([0-9]{1,9})(?:-T([0-9]{1,9}))?)?\Z")
FOLDER = re.compile(r"(WI-[0-9]{1,9})(?:-(.+))?\Z")
#: Where a blocker stands among the others of its work item.
BLOCKERS = re.compile(r"(?:WI-[0-9]+-)?B([0-9]{1,9})\Z")


class Place(Value):
    """What an id means: a work item, one of its activities, or a step of that. Empty is not so deep."""

    item: str
    activity: str = ""
    step: str = ""

    @property
    def parent(self) -> str:
        """The id of what it belongs to."""
        return self.activity if self.step else self.item if self.activity else ""


def place(text: str) -> Place | None:
    """The place of an id; None if it is no id of ours."""
    match = ID.match(text)
    if match is None:
        return None
    item, activity, step = match.groups()
    return Place(
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
        return activity_entry.load(spot.id, fields)

    def dump(self, task: Task) -> bytes:
        """The task as an entry on its own: JSON, which is YAML too."""
        return json.dumps(activity_entry.new(task), ensure_ascii=False).encode() + b"\n"

    def with_field(self, task: Task, key: str, text: str) -> Task:
        """Any field an activity may have: `actor` says who may do it."""
        if key in activity_entry.MANAGED or key in activity_entry.WORDS or key == "tasks":
            raise Invalid(f"the field {key!r} is not set by hand", hint="`pit add --help` names the option for it.")
        if key == "actor" and text not in ("agent", "human", "any"):
            raise Invalid(f"actor is agent, human or any, not {text!r}", field=key)
        return super().with_field(task, key, text)
