"""What becomes what: the words of other trackers and ours, as the tables in docs/importing.md have them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from taskpit import importers

PAGE = (Path(__file__).parents[2] / "docs" / "importing.md").read_text(encoding="utf-8")


def beads(**fields):
    return "issues.jsonl", json.dumps({"id": "bd-1", "title": "x", "issue_type": "task", **fields})


def claude(**fields):
    return "1.json", json.dumps({"id": "1", "subject": "x", **fields})


def taskmaster(**fields):
    return "tasks.json", json.dumps({"master": {"tasks": [{"id": 1, "title": "x", **fields}]}})


def github(**fields):
    return "issues.json", json.dumps([{"number": 1, "title": "x", "url": "https://github.com/a/b/issues/1", **fields}])


WRITERS = {"beads": beads, "claude": claude, "taskmaster": taskmaster, "github": github}


def found(name, **fields):
    (one,) = importers.get(name).read(*WRITERS[name](**fields))
    return one


@pytest.mark.parametrize(
    ("name", "fields", "over"),
    [
        *(("beads", {"status": "Closed"}, "done"), ("beads", {"status": " TOMBSTONE "}, "cancelled")),
        *(("claude", {"status": "Completed"}, "done"), ("claude", {"status": "DELETED"}, "cancelled")),
        *(("taskmaster", {"status": "Done"}, "done"), ("taskmaster", {"status": "Cancelled"}, "cancelled")),
        *(("github", {"state": "CLOSED"}, "done"), ("github", {"state": "Closed "}, "done")),
    ],
)
def test_what_is_over_is_known_in_letters_of_any_size(name, fields, over):
    assert found(name, **fields).over == over


@pytest.mark.parametrize("name", ["beads", "claude", "taskmaster"])
def test_no_field_is_lost_to_another_of_nearly_the_same_name(name):
    fields = {"customer1": "a", "customer2": "b", "cost_": "c", "cost-": "d", "1st": "e", "2st": "f"}
    kept = found(name, **fields).task.extra
    assert {key: kept[key] for key in ("customer1", "customer2", "cost", "cost-2", "st", "st-2")} == dict(
        zip(("customer1", "customer2", "cost", "cost-2", "st", "st-2"), "abcdef", strict=True)
    )


def test_what_is_held_is_known_in_letters_of_any_size():
    assert found("beads", status="Deferred").task.hold == "it is deferred in beads"
    assert found("taskmaster", status="BLOCKED").task.hold == "it is blocked in Task Master"


def test_priorities_are_those_of_the_page():
    table = re.findall(r"^\| ([^|]+) \| (\d+) \|$", PAGE.partition("## Priorities")[2], re.MULTILINE)
    words = [(word, int(ours)) for theirs, ours in table for word in theirs.split(", ")]
    assert len(words) > 15
    for word, ours in words:
        assert found("beads", priority=word).task.priority == ours, word
        assert found("taskmaster", priority=word).task.priority == ours, word
        if not word.isdecimal():
            for label in (word, f"priority: {word}", f"priority/{word}"):
                assert found("github", labels=[{"name": label}]).task.priority == ours, label
    assert (found("beads").task.priority, found("taskmaster").task.priority) == (20, 0)


@pytest.mark.parametrize(
    ("name", "fields", "over", "held"),
    [
        ("beads", {"status": "open"}, "", False),
        ("beads", {"status": "in_progress"}, "", False),
        ("beads", {"status": "closed"}, "done", False),
        ("beads", {"status": "tombstone"}, "cancelled", False),
        *(("beads", {"status": status}, "", True) for status in ("deferred", "pinned", "hooked", "blocked")),
        ("claude", {"status": "pending"}, "", False),
        ("claude", {"status": "completed"}, "done", False),
        ("claude", {"status": "deleted"}, "cancelled", False),
        ("taskmaster", {"status": "pending"}, "", False),
        *(("taskmaster", {"status": status}, "done", False) for status in ("done", "completed")),
        ("taskmaster", {"status": "cancelled"}, "cancelled", False),
        *(("taskmaster", {"status": status}, "", True) for status in ("deferred", "blocked", "review")),
        ("github", {"state": "OPEN"}, "", False),
        ("github", {"state": "CLOSED"}, "done", False),
        ("github", {"state": "CLOSED", "stateReason": "COMPLETED"}, "done", False),
        *(
            ("github", {"state": "CLOSED", "stateReason": why}, "cancelled", False)
            for why in ("NOT_PLANNED", "DUPLICATE")
        ),
    ],
)
def test_what_is_over_and_what_is_held(name, fields, over, held):
    one = found(name, **fields)
    assert (one.over, bool(one.task.hold)) == (over, held)


def test_who_is_blocked_by_a_need_waits_for_that_alone():
    needs = [{"issue_id": "bd-1", "depends_on_id": "bd-2", "type": "blocks"}]
    one = found("beads", status="blocked", dependencies=needs)
    assert (one.task.needs, one.task.hold) == (("bd-2",), "")
