"""Every field of the original's schema can be set from the shell, and is kept and typed."""

from __future__ import annotations

import json

import pytest
from boxes import load, make_fast, pit, write

from taskpit.layouts.mailbox import SCHEMA

SETTABLE = {
    "description": "at length",
    "epic_id": "epic_abc123",
    "parent_id": "task_1",
    "sequence_number": "4",
    "type": "feature",
    "priority": "7",
    "attempts": "1",
    "max_attempts": "9",
    "last_error": "timeout",
    "operator": "ann",
    "verdict": "fail",
    "verdict_reason": "because",
    "test_mode": "lenient",
    "test_scope": "full",
    "test_command": "make test",
}


@pytest.fixture
def box(tmp_path):
    return make_fast(tmp_path / "box", "mailbox")


def add(box, *words):
    answer = pit("-C", box, "add", "a task", *words)
    assert answer.code == 0, answer.err
    return answer.out.strip()


def fields_of(box, task_id):
    return load(f"{box}/inbox/{task_id}.json")


def test_the_list_is_complete():
    ours = {"id", "title", "status", "claimed_by", "claimed_at", "created_at", "updated_at", "metadata"}
    assert set(SETTABLE) | ours == set(SCHEMA)


@pytest.mark.parametrize("key", SETTABLE)
def test_each_field_is_set_and_typed(box, key):
    text = SETTABLE[key]
    fields = fields_of(box, add(box, "--set", f"{key}={text}"))
    assert fields[key] == (int(text) if isinstance(SCHEMA[key], int) else text)
    assert list(fields)[: len(SCHEMA)] == list(SCHEMA)


def test_all_of_them_survive_a_claim_and_a_release(box):
    words = [word for key, text in SETTABLE.items() for word in ("--set", f"{key}={text}")]
    words += ["--set", "metadata.worktree=/w", "--set", "metadata.team=blue", "--set", "x_new=1", "--tag", "web"]
    task_id = add(box, *words)
    before = fields_of(box, task_id)
    assert before["metadata"] == {"worktree": "/w", "team": "blue", "dependencies": []}
    assert (before["x_new"], before["tags"]) == ("1", ["web"])

    assert pit("-C", box, "claim").code == 0
    claimed = load(f"{box}/processing/{task_id}.json")
    assert (claimed["status"], claimed["claimed_by"], type(claimed["claimed_at"])) == ("claimed", "me", int)
    assert pit("-C", box, "release", task_id).code == 0
    after = fields_of(box, task_id)
    assert {**after, "updated_at": 0} == {**before, "updated_at": 0}
    assert list(after) == list(before)


@pytest.mark.parametrize("key", ["id", "status", "claimed_by", "claimed_at", "created_at", "updated_at"])
def test_what_the_queue_writes_itself_is_refused(box, key):
    answer = pit("-C", box, "add", "x", "--set", f"{key}=1", "--json")
    assert (answer.code, answer.error["code"]) == (6, "invalid")


@pytest.mark.parametrize("key", ["priority", "sequence_number", "max_attempts", "attempts"])
def test_words_are_no_numbers(box, key):
    answer = pit("-C", box, "add", "x", "--set", f"{key}=many", "--json")
    assert answer.code == 6
    assert key in answer.error["message"]


def test_needs_are_metadata_dependencies(box):
    first = add(box)
    second = add(box, "--needs", first)
    assert fields_of(box, second)["metadata"]["dependencies"] == [first]
    third = add(box, "--set", f"metadata.dependencies={first},{second}")
    assert fields_of(box, third)["metadata"]["dependencies"] == [first, second]
    assert pit("-C", box, "claim", "--json").data["task"]["id"] == first
    assert pit("-C", box, "claim").code == 3


def test_an_edit_takes_away_what_is_kept_beside(box):
    """A hold that was lifted must not come back from the copy beside the file."""
    task_id = "by_hand"
    write(f"{box}/inbox/by_hand.json", '{"id": "by_hand", "title": "by hand"}')
    assert pit("-C", box, "edit", task_id, "--not-before", "+1h").code == 0
    assert pit("-C", box, "block", task_id, "not now").code == 0
    assert pit("-C", box, "claim").code == 3
    assert pit("-C", box, "unblock", task_id).code == 0
    fields = fields_of(box, task_id)
    assert "hold" not in fields
    assert "not_before" not in fields
    assert pit("-C", box, "claim", "--json").data["task"]["id"] == task_id


def test_the_same_again_exists_and_other_content_conflicts(box):
    assert add(box, "--id", "one", "--set", "type=bug") == "one"
    assert add(box, "--id", "one", "--set", "type=bug") == "one"
    assert pit("-C", box, "add", "another", "--id", "one").code == 6


def test_ids_are_numbered_by_the_second(box):
    first, second = add(box), add(box)
    assert first.startswith("task_1")
    assert int(second[5:]) > int(first[5:]) > 1_700_000_000


def test_order_is_priority_then_age(box):
    for task_id, priority, created in (("b", 1, 200), ("a", 1, 300), ("c", 5, 400), ("d", 1, 200)):
        text = json.dumps({"id": task_id, "title": task_id, "priority": priority, "created_at": created})
        write(f"{box}/inbox/{task_id}.json", text)
    taken = [pit("-C", box, "claim", "--json").data["task"]["id"] for _ in range(4)]
    assert taken == ["c", "b", "d", "a"]
