"""`list`, `ready`, `show`, `why`, and what task text may do to a terminal."""

from __future__ import annotations

import glob
import os
import time

import pytest

from taskpit.model import Failed
from taskpit.queue import Queue

EVIL = "\x1b[2J\x1b]0;owned\x07plain\x9b31m\r\x08\u202etext"


def test_an_empty_queue_says_what_to_do(pit):
    for verb in ("list", "ready"):
        answer = pit(verb)
        assert answer.code == 0
        assert "pit add" in answer.out
        assert pit(verb, "--json").data == []


def test_list_is_a_table_with_a_summary(pit):
    pit("add", "First thing", "--priority", "3", "--tag", "web")
    pit("add", "Second", "--needs", "1")
    pit("add", "Third")
    pit("claim", "1")

    assert pit("list").out.splitlines() == [
        "ID    STATE    PRI  WORKER  TAGS  TITLE        WHY",
        "0002  Waiting                     Second       needs 0001, which is running",
        "0003  Ready                       Third",
        "0001  Running  3    me      web   First thing",
        "",
        "1 ready, 1 waiting, 1 running",
    ]


def test_a_long_title_has_the_room_of_a_reason_that_is_not_there(pit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    pit("add", "A title that needs more than half of the line", "--tag", "web")
    pit("add", "Another that is as long as the first one", "--needs", "1")
    assert pit("list").out.splitlines()[:3] == [
        "ID    STATE    TITLE             WHY",
        "0001  Ready    A title that needs more than half …",
        "0002  Waiting  Another that is…  needs 0001, which i…",
    ]


def test_list_filters(pit):
    pit("add", "one", "--tag", "web")
    pit("add", "two", "--needs", "1")
    pit("add", "three", "--tag", "gpu")
    pit("claim", "3")
    pit("done", "3")

    def ids(*words):
        return [task["id"] for task in pit(*words, "--json").data]

    assert ids("ls") == ["0001", "0002", "0003"]
    assert ids("list", "--state", "ready") == ["0001"]
    assert ids("list", "--state", "waiting") == ids("list", "--state", "held") == ["0002"]
    assert ids("list", "--state", "Needs-You") == []
    assert ids("list", "--priority", "1") == []
    assert ids("list", "--worker", "me") == ["0003"]
    assert ids("list", "--since", "1h") == ["0001", "0002", "0003"]
    assert ids("list", "--since", "2037-01-01T00:00:00Z") == []
    assert ids("list", "--state", "held") == ["0002"]
    assert ids("list", "--state", "done") == ["0003"]
    assert ids("list", "--state", "failed") == []
    assert ids("list", "--tag", "web", "--tag", "gpu") == ["0001", "0003"]
    assert ids("list", "--limit", "1") == ["0001"]
    assert ids("ready") == ["0001"]
    assert pit("list", "--state", "sideways").code == 2
    assert "No matching tasks." in pit("list", "--state", "failed").out
    assert "--limit 0" in pit("list", "--limit", "1").out


def test_list_gives_programs_everything_and_people_a_screenful(pit):
    pit("import", "-", stdin="".join(f'{{"title": "t{number}"}}\n' for number in range(60)))

    assert len(pit("list", "--json").data) == 60
    assert len(pit("list").out.splitlines()) == 54
    assert len(pit("list", "--limit", "0").out.splitlines()) == 63


def test_show_reads_well(pit):
    pit("add", "Fix the login", "--body", "It is broken.", "--check", "true", "--priority", "2", "--set", "type=bug")
    pit("note", "1", "a hint")
    pit("claim")
    claimed = pit("show", "1").out
    pit("done", "1", "--result", "-", stdin="fixed")
    done = pit("show", "0001").out

    assert claimed.startswith("0001  Fix the login\n")
    for part in (
        "state       Running",
        "worker      me (",
        "check       true",
        "type        bug",
        "It is broken.",
        "a hint",
    ):
        assert part in claimed
    for part in ("state       Done", "Result\ndone by me, attempt 1", "Output\nfixed"):
        assert part in done


def test_show_as_json_has_result_tries_notes_and_late(pit):
    pit("add", "x")
    pit("add", "y")
    task = pit("show", "1", "--json").data

    assert task["result"] is None
    assert (task["tries"], task["notes"], task["late"]) == ([], "", [])
    assert [one["id"] for one in pit("show", "1", "2", "--json").data] == ["0001", "0002"]


def test_ids_may_be_shortened(pit):
    pit("add", "x", "--id", "alpha")
    pit("add", "x", "--id", "alpine")

    assert pit("show", "alpi", "--json").data["id"] == "alpine"
    assert pit("show", "al", "--json").error["code"] == "invalid"
    assert "alpha, alpine" in pit("show", "al").err


@pytest.mark.parametrize("word", ["nosuch", "..", "../config.toml", "a/b", "\udcff", "x" * 300, "a\nb", "*"])
def test_what_is_not_there_is_not_found(pit, word):
    for verb in ("show", "why", "renew", "done", "release", "unblock", "retry", "cancel"):
        answer = pit(verb, word, "--json")
        assert (answer.code, answer.error["code"]) == (5, "not_found"), verb


def test_why(pit):
    pit("add", "x", "--needs", "y")

    how = "`pit add --id y` puts that in; `pit edit 0001 --needs ...` changes what it waits for."
    assert pit("why", "1").out == f"0001 needs y, which does not exist.\n{how}\n"
    assert pit("why", "1", "--json").data == {"id": "0001", "why": ["0001 needs y, which does not exist.", how]}


def test_why_a_task_waits_for_ever_and_what_to_do(pit):
    pit("add", "one")
    pit("add", "two", "--needs", "1")
    pit("cancel", "1")
    assert "`pit retry 0001` runs that again; `pit edit 0002 --needs" in pit("why", "2").out


def test_a_list_that_is_cut_says_how_to_see_what_is_ready(pit):
    for number in range(3):
        pit("add", f"{number}", "--needs", "y", "--priority", "5")
    pit("add", "free")
    cut = "… and more; `--limit 0` shows all, --ready those that can be taken."
    assert cut in pit("list", "--limit", "2").out
    assert "what can be taken" not in pit("list", "--ready", "--limit", "1").out


def test_task_text_cannot_command_the_terminal(pit, place):
    (place / "pit/food/food-0001-evil.md").write_text(f"# food-0001-evil\n- **task:** {EVIL}\n\n{EVIL}\n")
    pit("add", EVIL.replace("\r", ""), "--body", EVIL)
    pit("note", "2", EVIL)
    pit("block", "2", EVIL)

    for words in (["list"], ["show", "1", "2"], ["why", "1", "2"], ["ready"], ["log"], ["claim", "1"], ["doctor"]):
        answer = pit(*words)
        assert not set(answer.out + answer.err) & set("\x1b\x07\x9b\r\x08\u202e"), words
        assert "owned" not in answer.out
    assert "plain" in pit("list").out
    assert "\x1b" not in pit("show", "1", "--json").out
    assert pit("show", "2", "--json").data["body"].startswith("\x1b[2J")


def test_errors_cannot_command_the_terminal_either(pit):
    answer = pit("show", "\x1b[2Jx")

    assert "\x1b" not in answer.err


def test_a_failure_is_told_by_its_error_line(pit):
    """B4: eight lines of progress came first, and the error was cut off."""
    pit("add", "one", "--attempts", "1")
    pit("claim", "1")
    steps = "\n".join(f"step {number} of the long migration, table number {number}" for number in range(1, 9))
    pit("fail", "1", "-", "--final", stdin=f"exit code 3\n{steps}\npsycopg.OperationalError: no such relation users\n")
    line = "exit code 3: psycopg.OperationalError: no such relation users"
    assert f"Reason: {line}" in pit("why", "1").out
    for told in (pit("status").out, pit("list").out):
        assert line in told
    shown = pit("show", "1").out
    assert shown.index(line) < shown.index("step 1 of")  # the rest stands below


def test_show_tells_the_cost(pit):
    """B12: it was left out."""
    from taskpit.model import Done
    from taskpit.queue import Queue

    pit("add", "one")
    queue = Queue.open("pit")
    (claim,) = queue.claim("w")
    queue.finish(claim, Done(cost={"usd": 0.42}))
    queue.close()
    assert "0.42" in pit("show", "1").out


def test_counts_are_of_the_whole_queue_not_of_what_is_shown(pit):
    """B5: only displayed rows were counted as held, cancelled ones as failed, choked ones as ready."""
    for number in range(1, 6):
        pit("add", f"task {number}")
    pit("block", "4", "no")
    pit("block", "5", "no")
    pit("cancel", "3")
    assert pit("list", "--limit", "1").out.splitlines()[-1] == "2 need you, 2 ready, 1 cancelled"


def test_what_was_set_aside_lately_is_told(pit):
    """A task with a bullet that cannot be read was in no list, and the queue was said to be empty."""
    with open("pit/food/food-0007-x.md", "w", encoding="utf-8") as file:
        file.write("# x\n- **priority:** High\n")
    os.utime("pit/food/food-0007-x.md", (0, 0))
    assert pit("claim").code == 3
    told = "1 file was set aside in the last day; `pit doctor` says why"
    assert told in pit("list").out
    assert told in pit("status").out
    assert "1 set aside" in pit("report").out
    assert "  pit doctor" in pit("report").out.splitlines()
    (reason,) = glob.glob("pit/.taskpit/quarantine/*.reason")
    os.utime(reason, (0, 0))
    assert told not in pit("list").out


def test_a_file_dropped_in_under_any_name_is_told(pit):
    """B6: it was invisible to list."""
    with open("pit/food/story.md", "w", encoding="utf-8") as file:
        file.write("# A story\n\nWrite it.\n")
    with open("pit/food/empty.md", "w", encoding="utf-8"):
        pass
    told = pit("list").out
    assert "food/story.md is no task yet: `pit sweep` takes it in" in told
    assert "food/empty.md is no task yet: it is empty" in told
    assert pit("sweep").code == 0
    found = pit("list", "--json").data
    assert [(one["id"], one["title"]) for one in found] == [("0001", "A story")]
    assert sorted(os.listdir("pit/food")) == ["empty.md", "food-0001-story.md"]


def test_a_file_that_was_moved_by_hand_is_told(pit):
    """B6: "there is no task 0001"."""
    pit("add", "A story")
    os.rename("pit/food/food-0001-a-story.md", "pit/done/food-0001-a-story.md")
    told = pit("show", "1").err
    assert "0001 was added, but its file is gone: it was moved or removed by hand" in told
    assert "`pit doctor --fix` puts it back" in told
    assert pit("doctor", "--fix").code in (0, 1)
    assert pit("show", "1").code == 0


def test_a_log_is_there_in_the_morning_and_one_that_was_pruned_is_not_said_to_be_empty(pit, place):
    pit("add", "x")
    queue = Queue.open(str(place / "pit"))
    claim = queue.claim("snake-1")[0]
    kept = queue.store.keep_log("snake-1", b"thoughts\n")
    queue.finish(claim, Failed(error="exit code 1\nwords", final=True, log=kept))
    queue.close()
    log = place / "pit" / kept
    for age in (10 * 3600, 2 * 86400):
        os.utime(log, (time.time() - age,) * 2)
        pit("sweep")
        assert log.exists() == (age < 86400)
        shown = pit("show", "1", "--log")
        assert (shown.code, "was pruned" in shown.err) == ((0, False) if log.exists() else (5, True))
    assert "words" in pit("show", "1").out
    pit("add", "y")
    pit("claim", "2")
    assert pit("show", "2", "--log").code == 0, "nothing was printed yet"
    pit("ask", "2", "Which?")
    assert "pit log --task 0002" in pit("show", "2", "--log").err
    pit("retry", "1")
    pit("claim", "1")
    assert pit("show", "1", "--log").code == 0, "nor by this run"
