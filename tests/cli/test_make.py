"""`init` and `add`."""

from __future__ import annotations

import shutil
import subprocess

import pytest

# -- init ------------------------------------------------------------------------------------------


def test_init_makes_a_folder_called_pit(run, place):
    answer = run("init")

    assert answer.code == 0
    assert f"{place}/pit is a queue now" in answer.out
    assert "pit add" in answer.out
    assert sorted(path.name for path in (place / "pit").iterdir()) == [
        ".taskpit",
        "claimed",
        "done",
        "food",
        "scraps",
        "waste",
    ]


def test_init_twice_changes_nothing_and_says_so(run, place):
    run("init", "queue", "--layout", "pit")
    answer = run("init", "queue", "--layout", "pit")

    assert answer.code == 0
    assert "already" in answer.out
    assert run("init", "queue", "--json").data == {"path": f"{place}/queue", "made": [], "gitignore": None}


def test_init_inside_a_queue_is_about_that_queue(run, place, monkeypatch):
    run("init", "queue")
    monkeypatch.chdir(place / "queue")

    assert run("init", "--json").data["path"] == f"{place}/queue"
    assert not (place / "queue" / "pit").exists()


def test_init_mends_a_missing_directory(run, place):
    run("init")
    (place / "pit" / "waste").rmdir()

    assert run("init", "pit", "--json").data["made"] == ["waste"]


def test_init_below_another_folder(run, place):
    assert run("-C", place, "init", "there").code == 0
    assert (place / "there" / "food").is_dir()


def test_init_refuses_an_unknown_layout(run, place):
    answer = run("init", "x", "--layout", "sandwich", "--json")

    assert answer.code == 6
    assert "pit" in answer.error["hint"]
    assert not (place / "x").exists()


def test_init_refuses_another_layout_before_it_makes_anything(run, place):
    run("init", "x", "--layout", "pit")
    answer = run("init", "x", "--layout", "mailbox")

    assert answer.code == 6
    assert not (place / "x" / "inbox").exists()


@pytest.mark.needs("git")
def test_init_in_a_git_checkout_says_how_to_ignore_it_and_touches_nothing_outside(run, place):
    subprocess.run(["git", "init", "-q", "."], check=True)
    (place / ".gitignore").write_text("old\n")
    answer = run("init", "deep/queue")

    assert answer.code == 0
    assert "/deep/queue/" in answer.err
    assert "git clean -fd" in answer.err
    assert (place / ".gitignore").read_text() == "old\n"
    assert run("init", "deep/queue", "--json").data["gitignore"] == "/deep/queue/"


def test_init_where_a_file_is_in_the_way(run, place):
    (place / "x").write_text("a file")

    assert run("init", "x", "--json").error["code"] == "storage"
    assert run("init", "x").code == 8


# -- add -------------------------------------------------------------------------------------------


def test_add_prints_the_id_and_nothing_else(pit, place):
    answer = pit("add", "Fix the login")

    assert (answer.code, answer.out, answer.err) == (0, "0001\n", "")
    assert (place / "pit/food/food-0001-fix-the-login.md").read_text().startswith("# food-0001-fix-the-login\n")
    assert pit("create", "Second", "--json").data == {"id": "0002", "created": True, "missing_needs": []}


def test_add_carries_everything_that_was_said(pit):
    pit("add", "parent")
    words = ["--priority", "5", "--needs", "1", "--tag", "a", "--tag", "b,c", "--touches", "src/**", "--parent", "1"]
    words += ["--attempts", "7", "--big", "--by", "boss"]
    pit("add", "All of it", "--id", "mine", "--body", "line one\nline two", "--check", "make test", *words)
    task = pit("show", "mine", "--json").data

    assert task["title"] == "All of it"
    assert task["body"] == "line one\nline two"
    assert task["check"] == "make test"
    assert task["priority"] == 5
    assert task["needs"] == ["0001"]
    assert task["tags"] == ["a", "b", "c"]
    assert task["touches"] == ["src/**"]
    assert task["parent"] == "0001"
    assert task["max_attempts"] == 7
    assert task["big"] is True
    assert task["by"] == "boss"
    assert task["state"] == "ready"
    assert "source" not in task


def test_add_reads_the_body_from_a_file_or_standard_input(pit, place):
    (place / "body.md").write_text("from a file\n")
    pit("add", "one", "-F", "body.md")
    pit("add", "two", "-F", "-", stdin="from a pipe\n")

    assert pit("show", "1", "--json").data["body"] == "from a file"
    assert pit("show", "2", "--json").data["body"] == "from a pipe"


def test_add_the_same_again_is_fine_and_other_content_is_refused(pit):
    first = pit("add", "same", "--id", "x", "--json")
    again = pit("add", "same", "--id", "x", "--json")
    other = pit("add", "other", "--id", "x", "--json")

    assert first.data["created"] is True
    assert (again.code, again.data["created"]) == (0, False)
    assert (other.code, other.error["code"]) == (6, "conflict")
    assert "pit show x" in other.error["hint"]


def test_add_warns_of_needs_that_do_not_exist(pit):
    answer = pit("add", "later", "--needs", "nobody", "--needs", "7")

    assert (answer.code, answer.out) == (0, "0001\n")
    assert "warning" in answer.err
    assert "nobody" in answer.err
    assert pit("show", "1", "--json").data["needs"] == ["nobody", "0007"]


def test_add_refuses_circles(pit):
    pit("add", "one", "--id", "one", "--needs", "two")

    assert pit("add", "two", "--id", "two", "--needs", "one").code == 6


@pytest.mark.parametrize(("given", "meant"), [("P0", 40), ("p3", 10), ("P4", 0), ("-3", -3), ("12", 12)])
def test_add_takes_numbers_and_p_priorities(pit, given, meant):
    pit("add", "x", f"--priority={given}")

    assert pit("show", "1", "--json").data["priority"] == meant


@pytest.mark.parametrize(
    "bad",
    ["..", "a/b", "../x", "a\nb", ".hidden", "", "x" * 255, "-x", "a-b", "a b", "ä", "\udcff", "a..b", "a~b", "/etc"],
)
def test_add_refuses_ids_that_cannot_be_file_names(pit, place, bad):
    answer = pit("add", "title", f"--id={bad}", "--json")

    assert (answer.code, answer.error["code"]) == (6, "invalid")
    assert list((place / "pit/food").iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["add", ""],
        ["add", "   "],
        ["add", "two\nlines"],
        ["add", "not text \udcff"],
        ["add", "x", "--body", "not text \udcff"],
        ["add", "x", "--check", "a\nb"],
        ["add", "x", "--tag", "a#b"],
        ["add", "x", "--id", "x", "--needs", "x"],
        ["add", "x", "--needs", "../y"],
        ["add", "x", "--not-before", "soon"],
        ["add", "x", "--set", "nothing"],
    ],
)
def test_add_refuses_what_cannot_be_a_task(pit, place, words):
    answer = pit(*words, "--json")

    assert answer.code == 6, answer.out
    assert answer.error["message"]
    assert list((place / "pit/food").iterdir()) == []


def test_add_refuses_a_binary_body(pit, place):
    (place / "image").write_bytes(b"\x89PNG\0\0")
    (place / "latin").write_bytes(b"caf\xe9")

    assert "binary" in pit("add", "x", "-F", "image", "--json").error["message"]
    assert "UTF-8" in pit("add", "x", "-F", "latin", "--json").error["message"]


def test_add_refuses_a_huge_body_without_reading_it_all(pit, place):
    with open(place / "huge", "wb") as file:
        file.truncate(100 * 1024 * 1024)
    answer = pit("add", "x", "-F", "huge", "--json")

    assert (answer.code, answer.error["code"]) == (6, "too_large")


def test_add_refuses_a_body_that_is_not_there(pit, place):
    (place / "folder").mkdir()

    assert pit("add", "x", "-F", "missing").code == 5
    assert pit("add", "x", "-F", "folder").code == 6


def test_add_takes_further_fields(pit):
    pit("add", "x", "--set", "type=bug", "--set", "done-when=`make test` is green")
    task = pit("show", "1", "--json").data

    assert task["extra"] == {"type": "bug"}
    assert task["check"] == "make test"


def test_add_gives_a_mailbox_fields_their_types(run):
    run("init", "box", "--layout", "mailbox")
    task_id = run("-C", "box", "add", "x", "--set", "sequence_number=3", "--set", "operator=me", "--json").data["id"]

    assert run("-C", "box", "show", task_id, "--json").data["extra"] == {"sequence_number": 3, "operator": "me"}


def test_add_may_wait_for_a_time(pit):
    pit("add", "x", "--not-before", "2999-01-02T03:04:05Z")
    task = pit("show", "1", "--json").data

    assert task["not_before"] == "2999-01-02T03:04:05Z"
    assert task["held"].startswith("not before 2999")


def test_add_accepts_a_title_that_looks_like_an_option(pit):
    assert pit("add", "--", "--json").out == "0001\n"
    assert pit("show", "1", "--json").data["title"] == "--json"


def test_without_its_papers_a_folder_is_adopted_with_all_that_is_in_it(pit, place):
    for words in (["one"], ["two"], ["three", "--needs", "1"]):
        pit("add", *words)
    pit("claim", "1")
    pit("done", "1", "--result", "-", stdin="what came out")
    pit("claim", "2", "--as", "bob")
    shutil.rmtree(place / "pit/.taskpit")
    lost = pit("list")
    assert lost.code == 5
    assert "pit init" in lost.err

    assert pit("init").code == 0
    states = {task["id"]: (task["state"], task["held"]) for task in pit("list", "--json").data}
    assert states == {"0001": ("done", ""), "0002": ("claimed", ""), "0003": ("ready", "")}
    assert pit("show", "1", "--json").data["result"]["output"] == "what came out"
    assert pit("add", "four", "--json").data["id"] == "0004"


def test_the_next_step_works_from_here(run):
    """A queue that is not found by itself is named."""
    assert "next: pit add 'a first task'" in run("init", "pit").out
    assert "next: pit -C 'deep/my tasks' add 'a first task'" in run("init", "deep/my tasks").out
    assert "next: pit -C crew crew up" in run("init", "crew", "--template", "snakepit").out
    run("-C", "deep/my tasks", "add", "one")
    assert "then: pit -C 'deep/my tasks' done 0001 --as ada" in run("-C", "deep/my tasks", "claim", "--as", "ada").out


def test_init_writes_the_ignore_rule_of_the_checkout(run, tmp_path):
    """B12: it warned of `git clean -x` alone, and ignored nothing."""
    import shutil
    import subprocess

    if shutil.which("git") is None:
        pytest.skip("there is no git")
    subprocess.run(["git", "init", "-q", "."], check=True)
    warned = run("init", "--git", "leave")
    assert "git clean -fd" in warned.err
    assert "--git ignore" in warned.err
    answer = run("init", "--git", "ignore")
    assert "Git ignores it from now on: /pit/" in answer.out
    assert subprocess.run(["git", "status", "--porcelain"], check=True, capture_output=True, text=True).stdout == ""
    assert "ignores it already" in run("init", "--git", "ignore").out
    assert "git" not in run("init").err


def test_a_limit_is_said_kept_and_told(pit):
    assert pit("add", "Deploy", "--limit", "staging=1").code == 0
    pit("add", "Deploy again", "--limit", "staging=1", "--limit", "api=10/min")
    pit("claim", "--as", "w")
    assert "waits: limit staging=1, held by 0001" in pit("why", "2").out
    assert "limit staging=1, held by 0001" in pit("list").out
    assert "staging=1, api=10/min" in pit("show", "2").out
    pit("edit", "2", "--set", "limit=other")
    assert pit("show", "2", "--json").data["limits"] == ["other"]


@pytest.mark.parametrize(
    "limit", ["staging=0", "staging=x", "=1", "a b=1", "api=1/hour", "api=1/min/min", "k=" + "9" * 30]
)
def test_what_is_no_limit_makes_no_task(pit, limit):
    refused = pit("add", "Deploy", "--limit", limit)
    assert refused.code != 0
    assert "limit" in refused.err
    assert pit("list", "--json").data == []


def test_a_queue_without_a_good_table_of_limits_says_which(pit, place):
    (place / "pit/.taskpit/config.toml").write_text("[limits]\nstaging = 0\n")
    refused = pit("add", "Deploy", "--limit", "staging")
    assert refused.code != 0
    assert "limits: staging is 0" in refused.err
