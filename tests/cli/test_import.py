"""`import`: what others wrote, all of it or nothing."""

from __future__ import annotations

import json
import os

import pytest
from monsters import patience
from waits import PATIENCE

from taskpit import queue
from taskpit.cli import import_files
from taskpit.store.files import FileStore


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def ids(pit):
    return [task["id"] for task in pit("list", "--json").data]


def test_json_lines(pit, place):
    (place / "tasks.jsonl").write_text(lines({"id": "a", "title": "one"}, {"title": "two", "needs": ["a"]}))
    answer = pit("import", "tasks.jsonl")

    assert (answer.code, answer.out) == (0, "2 added\n")
    assert ids(pit) == ["a", "0001"]


def test_json_objects_lists_and_folders(pit, place):
    folder = place / "many"
    folder.mkdir()
    (folder / "one.json").write_text('{"title": "one"}')
    (folder / "two.json").write_text('[{"title": "two"}, {"title": "three"}]')
    (folder / "four.md").write_text("# Four\n\nThe text.\n")
    (folder / "README.md").write_text("not a task")
    (folder / "other.txt").write_text("not a task")
    data = pit("import", "many", "--json").data

    assert len(data["created"]) == 4
    assert sorted(task["title"] for task in pit("list", "--json").data) == ["Four", "one", "three", "two"]


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_what_a_folder_leads_to_is_not_imported(pit, place, linked):
    """A FIFO among its files was waited for without end, and a link brought another place's file along."""
    (place / "secret").mkdir()
    (place / "secret" / "issues.jsonl").write_text(lines({"id": "s-1", "title": "not of this folder"}))
    folder = place / "unpacked"
    folder.mkdir()
    (folder / "good.jsonl").write_text(lines({"title": "good"}))
    os.mkfifo(folder / "fifo.jsonl")
    (folder / "zero.jsonl").symlink_to("/dev/zero")
    if linked == "folder":
        (folder / ".beads").symlink_to(place / "secret")
    else:
        (folder / ".beads").mkdir()
        (folder / ".beads" / "issues.jsonl").symlink_to(place / "secret" / "issues.jsonl")
        (folder / "issues.jsonl").symlink_to(place / "secret" / "issues.jsonl")
    with patience(PATIENCE):
        answer = pit("import", "unpacked")
        assert pit("import", "unpacked", "--from", "beads").code == 5
    assert (answer.code, answer.out) == (0, "1 added\n")
    assert [task["title"] for task in pit("list", "--json").data] == ["good"]


def test_standard_input(pit):
    assert pit("import", "-", stdin=lines({"title": "one"})).out == "1 added\n"


def test_words_of_others(pit):
    record = {
        "_type": "issue",
        "id": 12,
        "title": "theirs",
        "description": "the story",
        "labels": ["x", "y"],
        "depends_on": "a, b",
        "priority": "P1",
        "created_at": "2026-01-24T10:00:00Z",
        "created_by": "bob",
        "done-when": "`make test` is green",
        "issueType": "bug",
        "estimate": 3,
        "design": "first line\nsecond line",
        "status": "open",
        "empty": None,
    }
    pit("import", "-", stdin=lines(record))
    task = pit("show", "12", "--json").data

    assert (task["title"], task["priority"], task["by"], task["check"]) == ("theirs", 30, "bob", "make test")
    assert task["body"] == "the story\n\n## design\n\nfirst line\nsecond line"
    assert task["tags"] == ["x", "y"]
    assert task["needs"] == ["a", "b"]
    assert task["created"] == "2026-01-24T10:00:00Z"
    assert task["extra"] == {"type": "issue", "issuetype": "bug", "estimate": 3}


def test_ids_that_file_names_cannot_carry_are_mapped_and_remembered(pit):
    records = lines(
        {"id": "bd-1", "title": "one"},
        {"id": "bd-2", "title": "two", "dependencies": [{"depends_on_id": "bd-1", "type": "blocks"}], "parent": "bd-1"},
        {"id": "bd-3", "title": "three", "dependencies": [{"depends_on_id": "bd-1", "type": "related"}]},
    )
    first = pit("import", "-", "--json", stdin=records).data
    again = pit("import", "-", "--json", stdin=records).data
    task = pit("show", "2", "--json").data

    assert first["mapped"] == {"bd-1": "0001", "bd-2": "0002", "bd-3": "0003"}
    assert (task["needs"], task["parent"], task["extra"]) == (["0001"], "0001", {"original-id": "bd-2"})
    assert (again["created"], again["existing"]) == ([], ["0001", "0002", "0003"])
    assert pit("show", "3", "--json").data["needs"] == []


def test_finished_records_are_left_out_and_nobody_waits_for_them(pit):
    answer = pit(
        "import",
        "-",
        "--json",
        stdin=lines(
            {"id": "old", "title": "old", "status": "closed"},
            {"id": "bad", "title": "bad", "status": "failed"},
            {"id": "new", "title": "new", "needs": ["old", "bad"]},
        ),
    )

    assert answer.data["skipped"] == ["old", "bad"]
    assert pit("show", "new", "--json").data["needs"] == ["bad"]
    assert answer.data["missing_needs"] == ["bad"]
    assert "bad" in answer.err


@pytest.mark.parametrize("word", ["Done", "CLOSED", " Resolved ", "Failed", "CANCELED"])
def test_a_finished_record_is_known_in_letters_of_any_size(pit, word):
    answer = pit("import", "-", "--json", stdin=lines({"id": "a", "title": "one", "status": word}))

    assert (answer.data["created"], answer.data["skipped"]) == ([], ["a"])


def test_no_field_is_lost_to_another_of_nearly_the_same_name(pit):
    pit("import", "-", stdin=lines({"title": "one", "Team": "a", "team": "b", "1st": "c", "2st": "d"}))

    assert pit("show", "1", "--json").data["extra"] == {"team": "a", "team-2": "b", "st": "c", "st-2": "d"}


def test_markdown_named_like_a_task_keeps_id_name_and_bytes(pit, place):
    text = b"# food-0042-answer\r\n- **task:** find it  # soon\n- **mood:** good\n\nThe text, \xc3\xa4s is.\n\n"
    (place / "food-0042-answer.md").write_bytes(text)
    pit("import", "food-0042-answer.md")

    assert (place / "pit/food/food-0042-answer.md").read_bytes() == text
    assert pit("show", "42", "--json").data["title"] == "find it"


def test_other_markdown_gets_an_id_and_keeps_its_text(pit, place):
    text = "# A heading\n\nSome *text*.\n\n- a list\n"
    (place / "notes.md").write_text(text)
    pit("import", "notes.md")
    task = pit("show", "1", "--json").data

    assert (task["title"], task["body"], task["by"]) == ("A heading", "Some *text*.\n\n- a list", "me")
    assert (place / "pit/food/food-0001-a-heading.md").exists()


def test_what_list_printed_can_be_brought_in_elsewhere(pit, place):
    pit("add", "one", "--tag", "web", "--priority", "3")
    pit("add", "two", "--needs", "1")
    (place / "out.json").write_text(pit("list", "--json").out)
    pit("init", "other")

    assert pit("-C", "other", "import", "out.json").code == 0
    for task_id in ("1", "2"):
        here, there = (pit("-C", where, "show", task_id, "--json").data for where in ("pit", "other"))
        assert here == there


def test_an_export_comes_back_whole(pit, place):
    pit("add", "one")
    pit("claim")
    pit("done", "1", "--result", "-", stdin="the output")
    (place / "all.jsonl").write_text(pit("export").out)
    pit("init", "other")

    assert pit("-C", "other", "import", "all.jsonl").code == 0
    assert pit("-C", "other", "show", "1", "--json").data["result"]["output"].strip() == "the output"
    assert pit("-C", "other", "import", "-", stdin=(place / "all.jsonl").read_text()).code == 0


def test_mailbox_files(pit, place):
    task = {
        "id": "task_1",
        "title": "from a mailbox",
        "description": "text",
        "parent_id": "",
        "sequence_number": 0,
        "type": "feature",
        "priority": 2,
        "status": "ready",
        "attempts": 0,
        "max_attempts": 3,
        "claimed_by": "",
        "claimed_at": 0,
        "verdict": "unknown",
        "test_mode": "strict",
        "test_scope": "diff",
        "test_command": "make test",
        "created_at": 1700000000,
        "metadata": {"dependencies": ["task_0"], "worktree": "/w"},
    }
    (place / "task_1.json").write_text(json.dumps(task))
    pit("import", "task_1.json")
    found = pit("show", "task_1", "--json").data

    assert (found["check"], found["needs"], found["priority"], found["max_attempts"]) == ("make test", ["task_0"], 2, 3)
    assert found["extra"] == {"type": "feature", "metadata": {"worktree": "/w"}}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON object"),
        ('"text"', "a JSON object"),
        ("{}", "no title"),
        ('{"title": 3}', "it should be text"),
        ('{"title": ["x"]}', "it should be text"),
        ('{"title": "x", "priority": "high"}', "it should be a whole number"),
        ('{"title": "x", "priority": true}', "it should be a whole number"),
        ('{"title": "x", "needs": 3}', "it should be a list"),
        ('{"title": "x", "needs": [{"a": 1}]}', "it should be text"),
        ('{"title": "x", "needs": ["../y"]}', "not allowed"),
        ('{"title": "x", "needs": ["a\\u0000b"]}', "not allowed"),
        ('{"title": "x", "tags": ["a#b"]}', "cannot stand in tags"),
        ('{"title": "x", "big": "yes"}', "it should be true or false"),
        ('{"title": "x", "created": "soon"}', "is not a time"),
        ('{"title": "x", "extra": 3}', "it should be a JSON object"),
        ('{"title": "two\\nlines"}', "one line"),
        ('{"title": "x", "body": "\\u0000"}', "binary"),
        ('{"title": "\\ud800"}', "UTF-8"),
        ('{"id": "a", "title": "the same id"}', "also that of"),
        ("[" * 100000, "nested"),
    ],
)
def test_a_bad_record_is_named_and_nothing_is_put(pit, place, bad, told):
    (place / "t.jsonl").write_text(lines({"id": "a", "title": "good"}) + "\n" + bad + "\n")
    answer = pit("import", "t.jsonl", "--json")

    assert (answer.code, answer.error["code"]) == (6, "invalid")
    assert "t.jsonl:3" in answer.error["message"]
    assert told in answer.error["message"]
    assert ids(pit) == []
    assert list((place / "pit/.taskpit/ids").iterdir()) == []


def test_bad_files(pit, place):
    (place / "empty").mkdir()
    (place / "x.txt").write_text("?")
    (place / "food-a-b.md").write_bytes(b"caf\xe9")
    (place / "latin.jsonl").write_bytes(b'{"title": "caf\xe9"}')
    with open(place / "huge.json", "wb") as file:
        file.truncate(100 * 1024 * 1024)
    (place / "long.jsonl").write_text(lines({"title": "x", "body": "y" * 2_000_000}))

    assert pit("import", "missing.json").code == 5
    for name in ("empty", "x.txt", "food-a-b.md", "latin.jsonl", "huge.json", "long.jsonl"):
        assert pit("import", name).code == 6, name
    assert pit("import", "huge.json", "--json").error["code"] == "too_large"
    assert pit("import", "long.jsonl", "--json").error["code"] == "too_large"
    assert pit("import").code == 2
    assert ids(pit) == []


def test_an_id_with_other_content_is_a_conflict_that_says_where(pit):
    pit("add", "mine", "--id", "x")
    answer = pit("import", "-", "--json", stdin=lines({"id": "a", "title": "fine"}, {"id": "x", "title": "theirs"}))

    assert (answer.code, answer.error["code"]) == (6, "conflict")
    assert "-:2" in answer.error["message"]
    assert answer.error["details"]["done"] == 1


def test_circles_are_refused(pit):
    records = lines({"id": "a", "title": "a", "needs": ["b"]}, {"id": "b", "title": "b", "needs": ["a"]})

    assert pit("import", "-", stdin=records).code == 6
    assert ids(pit) == []


def test_twice_is_once_without_ids_too(pit, place):
    folder = place / "stories"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"{number}.md").write_text(
            f"- **task:** Story {number}\n- **done-when:** `true` is green.\n\nText.\n"
        )
    (folder / "three.jsonl").write_text(lines({"title": "same"}, {"title": "same"}, {"title": "x", "tags": ["b", "a"]}))

    assert pit("import", "stories").out == "5 added\n"
    pit("claim")
    assert pit("import", "stories", "--dry-run").out == "0 would be added, 5 already there; nothing was changed\n"
    assert pit("import", "stories").out == "0 added, 5 already there\n"
    assert pit("import", "stories", "--again").out == "5 added\n"


def test_what_is_finished_comes_in_anew(pit):
    """What is to be done every night reads the same every night."""
    nightly = lines({"title": "run the tests"})
    pit("import", "-", stdin=nightly)
    pit("claim")
    pit("done", "1")

    assert pit("import", "-", stdin=nightly).out == "1 added\n"


def test_so_many_are_open_that_nothing_is_compared(pit, monkeypatch):
    monkeypatch.setattr(import_files, "COMPARED", 1)
    two = lines({"title": "one"}, {"title": "two"})
    pit("import", "-", stdin=two)
    answer = pit("import", "-", stdin=two)

    assert answer.out == "2 added\n"
    assert "not compared" in answer.err


def test_an_interrupted_import_says_how_far_it_got(pit, monkeypatch):
    many = lines(*({"title": f"task {number}"} for number in range(30)))
    put, calls = FileStore.put, []

    def interrupted(store, tasks):
        calls.append(len(tasks))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return put(store, tasks)

    monkeypatch.setattr(queue, "CHUNK", 10)
    monkeypatch.setattr(FileStore, "put", interrupted)
    answer = pit("import", "-", stdin=many)

    assert answer.code == 130
    assert "10 of 30 are in" in answer.err
    assert pit("import", "-", stdin=many).out == "20 added, 10 already there\n"
