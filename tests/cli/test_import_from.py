"""`import --from`: twice is once, ids are mapped, dry runs change nothing, one bad record keeps no other out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[1] / "importers/samples"
#: Open and closed tasks in each sample.
COUNTS = {"beads": (4, 2), "claude": (2, 1), "todos": (2, 1), "backlog": (3, 1), "taskmaster": (5, 2), "github": (2, 2)}
SOURCES = {"todos": "claude"}


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tasks(run, where="pit"):
    return {task["extra"]["origin"]: task for task in run("-C", where, "list", "--json", "--limit", "0").data}


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace", "activities"])
@pytest.mark.parametrize("sample", COUNTS)
def test_twice_is_once(run, layout, sample):
    run("init", "q", "--layout", layout)
    opened, closed = COUNTS[sample]
    words = ("-C", "q", "import", str(SAMPLES / sample), "--json")
    first, again, more, last = (run(*words), run(*words), run(*words, "--closed"), run(*words, "--closed"))

    assert [len(answer.data["created"]) for answer in (first, again, more, last)] == [opened, 0, closed, 0]
    assert [len(answer.data["existing"]) for answer in (again, more, last)] == [opened, opened, opened + closed]
    assert [answer.data["changed"] for answer in (first, again, more, last)] == [[]] * 4
    assert (len(first.data["skipped"]), first.data["source"]) == (closed, SOURCES.get(sample, sample))
    assert [answer.code for answer in (first, again, more, last)] == [0] * 4


def test_needs_and_parents_point_to_the_new_ids(pit):
    pit("import", SAMPLES / "beads", "--from", "beads")
    found = tasks(pit)
    epic, form, test = (found[f"beads:{name}"] for name in ("bd-a3f8", "bd-a3f8.2", "bd-77"))

    assert (epic["needs"], form["parent"], test["needs"]) == ([form["id"]], epic["id"], [form["id"]])
    assert form["needs"] == []
    assert form["extra"]["needs-met"] == ["bd-a3f8.1"]


def test_ids_are_kept_where_names_can_carry_them(run):
    run("init", "box", "--layout", "mailbox")
    mapped = run("-C", "box", "import", SAMPLES / "beads", "--json").data["mapped"]

    assert mapped == {}
    assert tasks(run, "box")["beads:bd-77"]["needs"] == ["bd-a3f8.2"]


def test_numbers_of_others_are_no_ids_of_ours(run):
    run("init", "box", "--layout", "mailbox")
    mapped = run("-C", "box", "import", SAMPLES / "github", "--json").data["mapped"]

    assert set(mapped) == {"octo/shop#12", "octo/shop#8"}


def test_an_id_somebody_has_already_is_not_taken_from_them(run):
    run("init", "box", "--layout", "mailbox")
    run("-C", "box", "add", "mine", "--id", "bd-77")
    mapped = run("-C", "box", "import", SAMPLES / "beads", "--json").data["mapped"]

    assert set(mapped) == {"bd-77"}
    assert run("-C", "box", "show", "bd-77", "--json").data["title"] == "mine"


def test_what_came_in_by_parts_fits_together(pit, place):
    lines = (SAMPLES / "beads/.beads/issues.jsonl").read_text().splitlines()
    (place / "one.jsonl").write_text("\n".join(lines[:3]))
    (place / "two.jsonl").write_text(lines[3])
    pit("import", "one.jsonl")
    pit("import", "two.jsonl")
    found = tasks(pit)

    assert found["beads:bd-77"]["needs"] == [found["beads:bd-a3f8.2"]["id"]]
    assert found["beads:bd-77"]["held"] == f"needs {found['beads:bd-a3f8.2']['id']}, which is not done yet"


def test_closed_ones_are_done_and_say_where_they_were(pit):
    pit("import", SAMPLES / "beads", "--closed")
    found = tasks(pit)
    done = pit("show", found["beads:bd-a3f8.1"]["id"], "--json").data["result"]

    assert (done["verdict"], done["reason"]) == ("done", "closed in beads on 2026-01-11T08:30:00Z: merged")
    assert "beads:bd-a3f8.1" in done["output"]
    assert pit("show", found["beads:bd-79"]["id"], "--json").data["result"]["verdict"] == "cancelled"


def test_an_interrupted_import_of_what_is_closed_is_resumed(pit, monkeypatch):
    finish = "taskpit.store.files.FileStore.finish"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(finish, killed)
        assert pit("import", SAMPLES / "todos", "--closed").code != 0
    pit("import", SAMPLES / "todos", "--closed")

    assert sorted(task["state"] for task in pit("list", "--json").data) == ["done", "ready", "ready"]


def test_a_dry_run_changes_nothing(pit, place):
    before = files(place / "pit")
    answer = pit("import", SAMPLES / "taskmaster", "--dry-run")

    assert answer.out.startswith("from taskmaster: 5 would be added, 2 left out")
    assert files(place / "pit") == before
    plain = '{"id": "with-dash", "title": "plain"}'
    assert pit("import", "-", "--dry-run", stdin=plain).out == "1 would be added; nothing was changed\n"
    assert files(place / "pit") == before
    assert pit("list", "--json").data == []


@pytest.mark.parametrize(
    ("sample", "file", "spoil", "told", "created"),
    [
        ("beads", ".beads/issues.jsonl", lambda text: text + '{"id": "bd-9", "title"\n', ":7: it is not JSON", 4),
        ("claude", "web-shop/3.json", lambda _: "{", "3.json: it is not JSON", 1),
        ("backlog", "backlog/drafts/draft-1 - Maybe.md", lambda text: text.replace("id:", "id"), ".md:2: line 2", 2),
        (
            "taskmaster",
            ".taskmaster/tasks/tasks.json",
            lambda text: text.replace('"title": "Storage", ', ""),
            "subtask 2",
            4,
        ),
        ("github", "issues.json", lambda text: text.replace('"Save faster"', "null"), "record 3: it has no title", 1),
    ],
)
def test_a_bad_record_is_told_with_its_place_and_the_rest_goes_in(pit, place, sample, file, spoil, told, created):
    shutil.copytree(SAMPLES / sample, place / "theirs")
    path = place / "theirs" / file
    path.write_text(spoil(path.read_text()))
    answer = pit("import", "theirs", "--from", SOURCES.get(sample, sample), "--json")

    assert (answer.code, len(answer.data["created"])) == (6, created)
    assert told in answer.err
    assert len(answer.data["bad"]) == 1


def test_who_needs_a_bad_record_waits_for_a_person(pit, place):
    text = (SAMPLES / "beads/.beads/issues.jsonl").read_text().replace('"title":"Build the form",', "")
    (place / "issues.jsonl").write_text(text)
    pit("import", "issues.jsonl", "--from", "beads")

    assert "bd-a3f8.2" in tasks(pit)["beads:bd-77"]["held"]


def test_a_record_too_large_for_this_queue_is_told(pit, place):
    records = [{"number": 1, "title": "x", "body": "y" * 2_000_000}, {"number": 2, "title": "z"}]
    (place / "issues.json").write_text(json.dumps(records))
    answer = pit("import", "issues.json", "--from", "github", "--json")

    assert (answer.code, len(answer.data["created"])) == (6, 1)
    assert "is the most" in answer.err


def test_what_reads_otherwise_by_now_is_left_as_it_is_here(pit, place):
    shutil.copy(SAMPLES / "github/issues.json", place / "issues.json")
    pit("import", "issues.json")
    path = place / "issues.json"
    path.write_text(path.read_text().replace("Save faster", "Save slower"))
    answer = pit("import", "issues.json", "--json")

    assert (len(answer.data["changed"]), answer.data["created"], answer.code) == (1, [], 0)
    assert "Save faster" in pit("list").out


def test_work_that_went_on_is_not_undone(pit):
    pit("import", SAMPLES / "todos")
    pit("claim", "1")
    pit("done", "1")
    pit("claim", "2")

    assert pit("import", SAMPLES / "todos", "--json").data["created"] == []
    assert sorted(task["state"] for task in pit("list", "--json").data) == ["claimed", "done"]


def test_projects_with_equal_ids_are_told_apart_by_name(pit):
    for name in ("one", "two"):
        pit("import", SAMPLES / "taskmaster", "--name", name)

    assert len(pit("list", "--json").data) == 10
    assert {origin.partition(":")[0] for origin in tasks(pit)} == {"taskmaster@one", "taskmaster@two"}


def test_standard_input(pit):
    text = (SAMPLES / "github/issues.json").read_text()

    assert pit("import", "-", "--from", "github", stdin=text).out.startswith("from github: 2 added")


def test_bad_wishes(pit, place):
    (place / "empty").mkdir()

    assert pit("import", "empty", "--from", "beads").code == 5
    assert pit("import", "missing.json", "--from", "github").code == 5
    assert pit("import", "empty", "--from", "jira").code == 6
    assert pit("import", "-", "--closed", stdin='{"title": "x"}').code == 2
    assert pit("list", "--json").data == []


def test_nothing_in_a_record_is_lost(pit, place):
    """Whatever a record says can be found in the task again, whatever it is called."""
    record = {
        "id": "bd-1",
        "title": "all of it",
        "issue_type": "task",
        "priority": 9,
        "created_at": "some day",
        "task": "a word of ours",
        "needs": ["x"],
        "metadata": {"deep": {"list": [1, 2.5, None, True]}},
        "Odd Key!": "odd",
        "camelCase": "hump",
        "long": "one\ntwo",
        "type": 7,
    }
    (place / "issues.jsonl").write_text(json.dumps(record))
    answer = pit("import", "issues.jsonl", "--json")
    task = pit("show", answer.data["created"][0], "--json").data
    told = json.dumps(task)

    for value in (
        "some day",
        "a word of ours",
        '["x"]',
        '{"deep": {"list": [1, 2.5, null, true]}}',
        "odd",
        "hump",
        "9",
    ):
        assert value in told, value
    assert "## long\n\none\ntwo" in task["body"]
