"""What other trackers write, in our words: each field has a place, and what has none is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

from taskpit import importers
from taskpit.importers import Bad, Found
from taskpit.importers.importer import relate, without_twins
from taskpit.model import Task

SAMPLES = Path(__file__).parent / "samples"


def read(name, *files):
    importer = importers.get(name)
    found = [one for file in files for one in importer.read(str(file), (SAMPLES / file).read_text(encoding="utf-8"))]
    assert all(isinstance(one, Found) for one in found), found
    return {one.task.id: one for one in found}


def test_beads():
    found = read("beads", "beads/.beads/issues.jsonl")
    form, tests, epic = found["bd-a3f8.2"], found["bd-77"], found["bd-a3f8"]

    assert {key: one.over for key, one in found.items() if one.over} == {"bd-a3f8.1": "done", "bd-79": "cancelled"}
    assert (found["bd-a3f8.1"].ending, found["bd-a3f8.1"].ended) == ("merged", 1768120200.0)
    assert (form.task.priority, form.task.needs, form.task.parent) == (40, ("bd-a3f8.1",), "bd-a3f8")
    assert form.task.tags == ("front-end", "web")
    assert form.task.extra == {
        "assignee": "snake-1",
        "estimated-minutes": 90,
        "external-ref": "gh-9",
        "beads-status": "in_progress",
        "issue-type": "feature",
        "original-labels": ["front end", "web"],
    }
    assert (tests.task.priority, tests.task.needs) == (20, ("bd-a3f8.2",))
    assert tests.task.extra == {"related": ["discovered-from bd-a3f8.1"]}
    assert "bob: Use a real card." in tests.task.body
    assert (epic.task.big, epic.task.by, epic.task.created, epic.task.body) == (True, "ada", 1767960000.0, "All of it.")
    assert found["bd-78"].task.hold == "it is deferred in beads"
    for text in ("Fields and errors.", "## Design\n\nOne column.\nNo modal.", "A person can pay.", "Ask Bob."):
        assert text in found["bd-a3f8.1"].task.body


def test_claude():
    found = read("claude", *(f"claude/web-shop/{number}.json" for number in (1, 2, 3)))
    login = found["web-shop/2"]

    assert found["web-shop/1"].over == "done"
    assert (login.task.title, login.task.body, login.task.needs) == (
        "Write the login",
        "With a second factor.",
        ("web-shop/1",),
    )
    assert login.blocks == ("web-shop/3",)
    assert login.task.extra == {
        "active-form": "Writing the login",
        "owner": "builder",
        "claude-status": "in_progress",
        "their-metadata": {"sprint": 3},
    }


def test_todos():
    found = read("claude", "todos/session-agent-session.json")
    titles = {key: (one.task.title, one.task.priority, one.over) for key, one in found.items()}

    assert titles == {
        "session-agent-session/1": ("Read the code", 0, "done"),
        "session-agent-session/2": ("Mend the bug", 30, ""),
        "session-agent-session/3": ("Run the tests", 0, ""),
    }


def test_backlog():
    folder = SAMPLES / "backlog/backlog"
    found = read("backlog", *sorted(path.relative_to(SAMPLES) for path in folder.rglob("*.md")))
    payments, cards = found["task-4"].task, found["task-4.1"].task

    assert (found["task-3"].over, found["draft-1"].task.hold) == ("done", "it is a draft in Backlog.md")
    assert (payments.title, payments.priority, payments.needs) == ("Add payments: cards & transfers", 30, ("task-3",))
    assert (payments.by, payments.created, payments.tags) == ("@ada", 1767960000.0, ("payments", "needs-review"))
    assert payments.extra == {
        "milestone": "v1.0",
        "ordinal": "2000",
        "original-labels": ["payments", "needs review"],
    }
    assert "- [x] #2 A refund is possible" in payments.body
    assert (cards.title, cards.parent) == ("Cards, as a subtask with a title that goes on", "task-4")
    assert cards.extra == {"assignee": ["@bob"], "backlog-status": "In Progress"}


def test_task_master():
    found = read("taskmaster", "taskmaster/.taskmaster/tasks/tasks.json")

    assert {key: one.over for key, one in found.items() if one.over} == {"master/1": "done", "master/2.1": "done"}
    assert found["master/2"].task.needs == ("master/1",)
    assert found["master/2"].task.extra == {"github-issue": 42, "taskmaster-status": "in-progress"}
    assert found["master/2.3"].task.needs == ("master/2.2", "master/2.1")
    assert (found["master/2.2"].task.parent, found["master/2.2"].task.priority) == ("master/2", 0)
    assert "## Details\n\nBegin with\nthe model.\n\n## Test strategy\n\nUnit tests." in found["master/2"].task.body
    assert found["master/3"].task.hold == "it is deferred in Task Master"
    assert (found["feature-x/1"].task.tags, found["feature-x/1"].task.priority) == (("feature-x",), 40)


def test_task_master_without_tags():
    one = {"id": 1, "title": "old", "status": "pending", "testStrategy": "look"}
    (found,) = importers.get("taskmaster").read("t.json", json.dumps({"tasks": [one], "metadata": {}}))

    assert found.task.id == "master/1"


def test_github():
    found = read("github", "github/issues.json")
    crash = found["octo/shop#12"].task

    assert {key[-2:].lstrip("p#"): one.over for key, one in found.items() if one.over} == {
        "7": "done",
        "9": "cancelled",
    }
    assert (crash.priority, crash.tags, crash.by) == (30, ("bug", "P1"), "bob")
    assert crash.needs == ("octo/shop#7", "octo/shop#8", "octo/shop#9")
    assert crash.extra == {
        "url": "https://github.com/octo/shop/issues/12",
        "assignees": ["ada"],
        "milestone": "v1.0",
    }
    assert "ada: Done in main." in found["octo/shop#7"].task.body


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("beads", "beads/.beads/issues.jsonl"),
        ("claude", "claude/web-shop/1.json"),
        ("claude", "todos/session-agent-session.json"),
        ("backlog", "backlog/backlog/tasks/task-4 - Add-payments.md"),
        ("taskmaster", "taskmaster/.taskmaster/tasks/tasks.json"),
        ("github", "github/issues.json"),
    ],
)
def test_each_is_recognised_as_itself_only(name, file):
    assert importers.detect(file, (SAMPLES / file).read_text(encoding="utf-8")) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.jsonl", '{"id": "a", "title": "ours"}\n'),
        ("t.json", '{"title": "ours"}'),
        ("t.json", '[{"title": "ours", "status": "open"}]'),
        ("t.json", "{"),
        ("t.json", "[]"),
        ("food-0001-x.md", "# food\n- **task:** x\n"),
        ("t.md", "---\ntitle: a post\n---\ntext\n"),
    ],
)
def test_our_own_files_are_nobody_elses(name, text):
    assert importers.detect(name, text) == ""


@pytest.mark.parametrize(
    ("name", "file", "text", "told"),
    [
        ("beads", "i.jsonl", '{"id": "a", "title": "x"}\n\n{', "i.jsonl:3"),
        ("beads", "i.jsonl", '{"id": "a", "title": "x"}\n[1]', "i.jsonl:2"),
        ("beads", "i.jsonl", '{"id": "a", "title": "x"}\n{"id": "b"}', "it has no title"),
        ("beads", "i.jsonl", '{"id": "a", "title": "x"}\n{"id": "b", "title": ["y"]}', "title is no text"),
        ("beads", "i.jsonl", '{"id": "a", "title": "x"}\n{"id": "b", "title": "y", "dependencies": 3}', "no list"),
        (
            "beads",
            "i.jsonl",
            '{"id": "a", "title": "x"}\n{"id": "b", "title": "y", "dependencies": [{}]}',
            "depends_on",
        ),
        ("claude", "t.json", '[{"subject": "x"}, {"status": "pending"}]', "t.json, record 2"),
        ("claude", "t.json", '[{"subject": "x"}, 3]', "it is no object"),
        ("taskmaster", "t.json", '{"a": {"tasks": [{"id": 1, "title": "x"}]}, "b": 3}', "t.json, b"),
        (
            "taskmaster",
            "t.json",
            '{"tasks": [{"id": 1, "title": "x", "subtasks": [{"id": 2}]}]}',
            "record 1, subtask 1",
        ),
        ("taskmaster", "t.json", '{"tasks": [{"id": 1, "title": "x"}, {"title": "y"}]}', "it has no id"),
        ("github", "t.json", '[{"number": 1, "title": "x"}, {"title": "y"}]', "it has no number"),
        ("github", "t.json", '[{"number": 1, "title": "x"}, {"number": 2}]', "t.json, record 2"),
    ],
)
def test_a_bad_record_keeps_no_other_out(name, file, text, told):
    found = list(importers.get(name).read(file, text))
    (bad,) = (one for one in found if isinstance(one, Bad))

    assert len(found) == 2
    assert told in f"{bad.where}: {bad.why}"


@pytest.mark.parametrize("name", importers.NAMES)
def test_nonsense_is_told_not_thrown(name):
    for text in ("", "{", "[[[[", '"text"', "3", "null", "---\nid\n---", "---\n: x\n---\n", "\0", "[]{}"):
        found = list(importers.get(name).read("file", text))
        assert found or not text, text
        assert all(isinstance(one, Bad) for one in found), text


KEYS = (
    *("id", "title", "subject", "content", "status", "description", "priority", "issue_type", "labels", "comments"),
    *("dependencies", "depends_on_id", "type", "blockedBy", "blocks", "number", "url", "state", "body", "author"),
    *("created_at", "closed_at", "defer_until", "tasks", "subtasks", "testStrategy", "metadata", "master", "milestone"),
    *("assignees", "login", "name", "extra", "task", "needs", "_type"),
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["open", "1"])
VALUES = st.recursive(
    LEAVES,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inside, max_size=6),
    max_leaves=12,
)


@pytest.mark.parametrize("name", ["beads", "claude", "taskmaster", "github"])
@given(value=VALUES)
@settings(max_examples=examples(60, 2), deadline=None)
def test_whatever_json_says_is_found_or_told(name, value):
    importer, text = importers.get(name), json.dumps(value)
    found = list(importer.read("dir/1.json", text))

    assert isinstance(importer.recognises("dir/1.json", text), bool)
    for each in relate(without_twins([one for one in found if isinstance(one, Found)])[0], (), closed=False):
        assert each.task.title.strip() == each.task.title != ""
        json.dumps(dict(each.task.extra))


@given(text=st.text(st.sampled_from("---\nid: title[]{},'\"|>#ä \t"), max_size=60))
@settings(max_examples=100, deadline=None)
def test_whatever_stands_above_a_text_is_read_or_told(text):
    (found,) = importers.get("backlog").read("t.md", f"---\nid: a\ntitle: b\n{text}\n---\nbody")

    assert isinstance(found, Found | Bad)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\nid: a\ntitle: 'x\nstatus: y\n---\n", 3),
        ("---\nid: a\nlabels: [a, b\nstatus: y\n---\n", 3),
        ("---\nid: a\njust words\n---\n", 3),
        ("---\nid: a\nmap: {a: b}\n---\n", 3),
        ("---\nid: a\n", 1),
        ("no front matter\n", 1),
    ],
)
def test_front_matter_that_cannot_be_read_names_its_line(text, line):
    (bad,) = importers.get("backlog").read("t.md", text)

    assert bad.where == f"t.md:{line}"


def test_an_unknown_importer_is_named(tmp_path):
    with pytest.raises(importers.importer.Invalid, match="no importer 'jira'"):
        importers.get("jira")


# -- relations -------------------------------------------------------------------------------------


def one(task_id, **fields):
    over, blocks = fields.pop("over", ""), fields.pop("blocks", ())
    return Found(task=Task(id=task_id, title=task_id, **fields), where=task_id, over=over, blocks=blocks)


def related(*found, known=(), closed=False):
    return {each.task.id: each.task for each in relate(found, known, closed=closed)}


def test_what_is_over_is_met_and_remembered():
    tasks = related(one("a", over="done"), one("b", needs=("a",)))

    assert (tasks["b"].needs, tasks["b"].hold, tasks["b"].extra) == ((), "", {"needs-met": ["a"]})


def test_nobody_is_let_loose_who_waits_for_something_unknown():
    tasks = related(one("b", needs=("gone", "earlier")), known=("earlier",))

    assert (tasks["b"].needs, tasks["b"].extra) == (("earlier",), {"needs-unknown": ["gone"]})
    assert "gone" in tasks["b"].hold


def test_what_has_parts_comes_after_them():
    tasks = related(one("whole", big=True), one("part", parent="whole"), one("over", parent="whole", over="done"))

    assert (tasks["whole"].needs, tasks["whole"].big, tasks["part"].parent) == (("part",), False, "whole")


def test_parts_that_wait_for_their_whole_go_last():
    tasks = related(one("whole"), one("part", parent="whole", needs=("whole",)))

    assert (tasks["whole"].needs, tasks["part"].needs) == ((), ("whole",))
    assert [task.hold for task in tasks.values()] == ["", ""]


def test_needs_told_from_the_other_side():
    tasks = related(one("a", blocks=("b", "gone")), one("b", needs=("c",)), one("c"))

    assert tasks["b"].needs == ("c", "a")


def test_a_circle_is_cut_and_waits_for_a_person():
    tasks = related(one("a", needs=("b",)), one("b", needs=("c",)), one("c", needs=("a",)), one("d", needs=("a",)))
    held = [task for task in tasks.values() if task.hold]

    assert len(held) == 1
    assert "wait for each other" in held[0].hold
    assert len(held[0].extra["needs-cut"]) == 1
    assert sum(len(task.needs) for task in tasks.values()) == 3
    assert tasks["d"].needs == ("a",)


def test_a_parent_that_is_not_there_is_remembered():
    assert related(one("a", parent="gone"))["a"].extra == {"part-of": "gone"}
    assert related(one("a", parent="b"), one("b", over="done"))["a"].parent == ""
    assert related(one("a", parent="b"), one("b", over="done"), closed=True)["a"].parent == "b"


def test_twins_are_told_of():
    found, bad = without_twins([one("a"), one("b"), one("a")])

    assert ([each.task.id for each in found], [each.why for each in bad]) == (
        ["a", "b"],
        ["the id 'a' is also that of a"],
    )
