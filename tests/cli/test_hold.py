"""`claim`, `renew`, `done`, `fail`, `release`, `split`."""

from __future__ import annotations

import json
import threading
from shlex import quote

import pytest
from waits import PATIENCE

from taskpit import access
from taskpit.model import Done


def test_claim_takes_the_best_task(pit, place):
    pit("add", "low")
    pit("add", "high", "--priority", "5", "--check", "make test", "--body", "the whole story")
    answer = pit("claim", "--as", "snake-1", "--lease", "1h")

    assert answer.code == 0
    assert "0002  high" in answer.out
    assert "claimed by snake-1 for 1h, attempt 1 of 3" in answer.out
    assert "the whole story" in answer.out
    assert "pit done 0002 --as snake-1" in answer.out
    assert (place / "pit/claimed/snake-1.food-0002-high.md").exists()


def test_claim_as_json(pit):
    pit("add", "x")
    data = pit("claim", "--lease", "30m", "--json").data

    assert data["worker"] == "me"
    assert data["lease_seconds"] == 1800
    assert data["attempt"] == 1
    assert (data["task"]["id"], data["task"]["state"], data["task"]["worker"]) == ("0001", "claimed", "me")


@pytest.mark.parametrize("verb", ["claim", "next", "pick"])
def test_claim_has_other_names(pit, verb):
    pit("add", "x")

    assert pit(verb, "--json").data["task"]["id"] == "0001"


def test_claim_by_name_and_twice(pit):
    pit("add", "one")
    pit("add", "two")

    assert pit("claim", "2", "--json").data["task"]["id"] == "0002"
    assert pit("claim", "2", "--json").data["task"]["id"] == "0002"


def test_claim_of_what_somebody_else_has_says_who(pit):
    pit("add", "x")
    pit("claim", "--as", "snake-1")
    answer = pit("claim", "1", "--as", "snake-2", "--json")

    assert (answer.code, answer.error["code"]) == (4, "lost")
    assert answer.error["details"]["holder"] == "snake-1"
    assert "lease ends in" in answer.error["message"]
    assert answer.error["hint"]


def test_claim_with_nothing_to_take(pit):
    empty = pit("claim", "--json")
    pit("add", "x", "--needs", "y", "--tag", "web")
    held = pit("claim")
    named = pit("claim", "1", "--json")

    assert (empty.code, empty.error["code"]) == (3, "nothing_to_claim")
    assert held.code == 3
    assert held.out == ""
    assert held.err.splitlines() == [
        "pit: there is nothing to claim",
        "  hint: 1 may not be taken yet; `pit list` says why.",
    ]
    assert (named.code, named.error["code"]) == (3, "held")
    assert "needs y" in named.error["message"]


def test_claim_only_with_a_tag(pit):
    pit("add", "one")
    pit("add", "two", "--tag", "web")

    assert pit("claim", "--tag", "gpu").code == 3
    assert pit("claim", "--tag", "web", "--json").data["task"]["id"] == "0002"


def test_a_named_task_without_the_tag_is_not_said_to_be_another_workers(pit):
    pit("add", "one", "--tag", "web")
    refused = pit("claim", "0001", "--tag", "gpu")
    assert (refused.code, "another worker" in refused.err) == (3, False)
    assert "0001 is ready, but not of the sort that was asked for" in refused.err
    assert pit("claim", "0001", "--tag", "web").code == 0


def test_claim_of_what_is_not_there_or_done(pit):
    pit("add", "x")
    pit("claim")
    pit("done", "1")

    assert pit("claim", "nosuch").code == 5
    assert pit("claim", "1", "--json").error["code"] == "conflict"


@pytest.mark.parametrize(
    "words", [["--wait", "0007"], ["--wait", "soon"], ["--lease", "0s"], ["--lease", "x"], ["a", "b"]]
)
def test_claim_that_was_not_understood(pit, words):
    answer = pit("claim", *words, "--json")

    assert (answer.code, answer.error["code"]) == (2, "usage")


@pytest.mark.parametrize("name", ["a.b", "a/b", "", "..", "-x", "a b", "x" * 100])
def test_claim_refuses_worker_names_that_cannot_be_file_names(pit, name, monkeypatch):
    pit("add", "x")
    monkeypatch.delenv("TASKPIT_AS")
    answer = pit("claim", f"--as={name}", "--json")

    if name:
        assert answer.code == 6
    else:
        assert "@" in answer.data["worker"]  # nobody named: whoever runs it


def test_claim_waits_for_work(pit, place):
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(_claim_elsewhere(place)))
    waiter.start()
    pit("add", "late")
    waiter.join(PATIENCE)

    assert answers == ["0001"]


def _claim_elsewhere(place):
    from taskpit.queue import Queue

    queue = Queue.open(str(place / "pit"))
    try:
        return queue.claim("other", wait=PATIENCE, verbatim=True)[0].task.id
    finally:
        queue.close()


def test_claim_gives_up_waiting(pit):
    assert pit("claim", "--wait", "0.05s").code == 3


def test_renew(pit):
    pit("add", "x")
    pit("claim")

    assert pit("renew", "1", "--lease", "2h").out == "0001 is yours for another 2h\n"
    assert pit("heartbeat", "1", "--json").data == {"id": "0001", "lease_seconds": 900, "stop": False}
    assert pit("renew", "1", "--as", "somebody").code == 4


def test_renew_tells_that_somebody_asks_to_stop(pit):
    pit("add", "x")
    pit("claim")
    cancelled = pit("cancel", "1", "--as", "boss", "--json")
    answer = pit("renew", "1", "--json")

    assert cancelled.data == {"id": "0001", "cancelled": False, "asked_to_stop": True}
    assert answer.data["stop"] is True
    assert "stop" in answer.err


# -- done ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["done", "complete", "close", "finish"])
def test_done_publishes_the_result(pit, place, verb):
    pit("add", "Fix it")
    pit("claim")
    answer = pit(verb, "1", "--result", "-", stdin="it works\n")
    task = pit("show", "1", "--json").data

    assert (answer.code, answer.out) == (0, "0001 is done\n")
    assert task["state"] == "done"
    assert task["result"]["verdict"] == "done"
    assert task["result"]["output"].strip() == "it works"
    assert task["result"]["worker"] == "me"
    assert (place / "pit/done/food-0001-fix-it.result.md").exists()


def test_done_twice_is_fine_for_the_same_worker_only(pit):
    pit("add", "x")
    pit("claim")
    pit("done", "1")

    assert pit("done", "1", "--json").data == {"id": "0001", "state": "done", "already": True, "check": None}
    assert pit("done", "1", "--as", "other").code == 4


def test_done_runs_the_check_and_keeps_the_evidence(pit):
    pit("add", "x", "--check", "echo all is well")
    pit("claim")
    data = pit("done", "1", "--json").data

    assert data["check"]["exit_code"] == 0
    assert data["check"]["tail"] == "all is well"
    assert pit("show", "1", "--json").data["result"]["evidence"]["command"] == "echo all is well"
    assert "check: echo all is well exited 0" in pit("show", "1").out


def test_done_with_a_red_check_leaves_the_claim(pit):
    pit("add", "x", "--check", "echo what went wrong; exit 3")
    pit("claim")
    text = pit("done", "1")
    data = pit("done", "1", "--json")

    assert text.code == 7
    assert text.err.splitlines()[0] == "what went wrong"
    assert "exited 3" in text.err
    assert (data.code, data.error["code"]) == (7, "check_failed")
    assert data.error["details"]["exit_code"] == 3
    assert data.error["details"]["tail"] == "what went wrong"
    assert pit("show", "1", "--json").data["worker"] == "me"
    assert pit("done", "1", "--no-check").code == 0


def test_done_of_what_is_not_ours(pit):
    pit("add", "x")
    ready = pit("done", "1", "--json")
    pit("claim", "--as", "other")
    taken = pit("done", "1", "--json")

    assert (ready.code, ready.error["code"]) == (4, "lost")
    assert "pit claim 0001" in ready.error["hint"]
    assert (taken.code, taken.error["details"]["holder"]) == (4, "other")
    assert pit("done", "nosuch").code == 5


def test_files_that_are_kept_with_a_task(pit, tmp_path):
    pit("add", "x", "--id", "0001")
    pit("add", "y", "--id", "0002")
    pit("claim", "1", "--as", "me")
    (tmp_path / "a.bin").write_bytes(b"\xff\0")
    (tmp_path / "b.txt").write_bytes(b"b")
    (tmp_path / "odd name").write_bytes(b"c")
    assert pit("done", "1", "--as", "me", "--artifact", str(tmp_path / "odd name")).code == 6
    assert pit("done", "1", "--as", "me", "--artifact", str(tmp_path / "nothing")).code != 0
    assert pit("done", "1", "2", "--as", "me", "--artifact", str(tmp_path / "b.txt")).code == 2
    assert pit("done", "1", "--as", "other", "--artifact", str(tmp_path / "b.txt")).code != 0
    files = [word for name in ("a.bin", "b.txt") for word in ("--artifact", str(tmp_path / name))]
    assert pit("done", "1", "--as", "me", *files).code == 0
    shown = pit("show", "1", "--json").data
    assert [(one["name"], one["size"]) for one in shown["artifacts"]] == [("a.bin", 2), ("b.txt", 1)]
    assert "b.txt  1 bytes" in pit("show", "1").out
    assert pit("show", "1", "--artifact", "b.txt", "--json").data == {"id": "0001", "bytes": 1, "text": "b"}
    assert pit("show", "1", "--artifact", "c").code == 5
    assert pit("show", "1", "2", "--log").code == 2
    assert pit("show", "1", "--log", "--artifact", "b.txt").code == 2


def test_done_after_it_was_given_back_keeps_the_work_aside(pit, place):
    """Nobody has taken it since: the answer said so, and hours of work were gone."""
    pit("add", "x")
    pit("claim", "1")
    pit("release", "1")
    answer = pit("done", "1", "--result", "-", stdin="hours of work")
    (late,) = pit("show", "1", "--json").data["late"]

    assert answer.code == 4
    assert "0001 is ready, not claimed" in answer.err
    assert "kept aside" in answer.err
    assert "hours of work" in (place / "pit" / late).read_text()


def test_done_too_late_keeps_the_work_aside(pit):
    pit("add", "x")
    pit("claim", "--as", "other")
    answer = pit("done", "1", "--result", "-", stdin="hours of work")
    late = pit("show", "1", "--json").data["late"]

    assert answer.code == 4
    assert "kept aside" in answer.err
    assert len(late) == 1
    assert pit("stats", "--json").data["late_results"] == 1


def test_done_keeps_a_log(pit, place):
    (place / "run.log").write_text("step one\n")
    pit("add", "x")
    pit("claim")
    pit("done", "1", "--log", "run.log")
    log = pit("show", "1", "--json").data["result"]["log"]

    assert (place / "pit" / log).read_text() == "step one\n"


def test_done_of_several(pit):
    for title in ("a", "b"):
        pit("add", title)
        pit("claim")

    assert pit("done", "1", "2").out == "0001 is done\n0002 is done\n"


def test_done_reads_standard_input_once(pit):
    pit("add", "x")
    pit("claim")

    assert pit("done", "1", "--result", "-", "--log", "-").code == 6


# -- fail, release, split --------------------------------------------------------------------------


def test_fail_puts_it_back_for_another_attempt(pit):
    pit("add", "x")
    pit("claim")
    answer = pit("fail", "1", "--error", "no such column")
    task = pit("show", "1", "--json").data

    assert answer.code == 0
    assert "attempt 1 of 3" in answer.out
    assert (task["state"], task["attempts"], task["tries"][0]["error"]) == ("ready", 1, "no such column")
    assert task["held"].startswith("not before")
    assert "no such column" in pit("why", "1").out


def test_fail_for_good(pit):
    pit("add", "x")
    pit("claim")
    data = pit("fail", "1", "--error", "-", "--final", "--json", stdin="hopeless").data

    assert data["state"] == "failed"
    assert pit("show", "1", "--json").data["result"]["reason"] == "hopeless"
    assert "hopeless" in pit("why", "1").out


def test_fail_until_a_person_must_look(pit):
    pit("add", "x")
    for _ in range(3):
        pit("edit", "1", "--not-before", "")
        pit("claim", "1")
        last = pit("fail", "1", "--error", "the same again", "--json")

    assert last.data["held"].startswith("failed 3 times the same way: ")
    assert pit("list", "--state", "held", "--json").data[0]["id"] == "0001"


def test_fail_needs_words(pit):
    pit("add", "x")
    pit("claim")

    assert pit("fail", "1").code == 2
    assert pit("fail", "1", "--error", "  ").code == 6


def test_release(pit):
    pit("add", "x")
    pit("claim")

    assert pit("release", "1", "--reason", "lunch").out == "0001 is back\n"
    assert pit("show", "1", "--json").data["attempts"] == 0
    assert pit("release", "1").code == 4


def test_split(pit, place):
    pit("add", "big one", "--big")
    pit("claim")
    lines = [{"id": "a", "title": "design"}, {"title": "build", "needs": ["a"], "priority": "P1"}]
    (place / "children.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = pit("split", "1", "-F", "children.jsonl", "--no-wait", "--json").data
    child = pit("show", "0002", "--json").data

    assert data == {"id": "0001", "state": "done", "children": ["a", "0002"]}
    assert (child["parent"], child["needs"], child["priority"]) == ("0001", ["a"], 30)


def test_a_split_of_what_is_done_just_then_names_no_parts(pit, monkeypatch):
    """They were named, and were not there."""
    pit("add", "x")
    pit("claim")

    own = access.own_claim

    def done_first(queue, *rest):
        claim = own(queue, *rest)
        queue.finish(claim, Done())
        return claim

    monkeypatch.setattr(access, "own_claim", done_first)
    answer = pit("split", "1", "a", "b", "--no-wait")
    assert (answer.code, answer.out) == (4, "")


def test_split_waits_for_the_children_who_inherit(pit, place):
    """B2: the parent ended, its check was skipped, what needed it was released; children lost tags and priority."""
    pit("add", "big one", "--tag", "web", "--priority", "7", "--check", f"test -e {quote(f'{place}/whole')}")
    pit("add", "after it", "--needs", "1")
    answer = pit("split", "1", "design", "build")  # nobody's claim: that of a person's hand for a moment

    assert answer.out == "0001 is split into 0003, 0004 and waits for them\n"
    assert pit("show", "1", "--json").data["held"] == "needs 0003, which is not done yet"
    assert pit("show", "2", "--json").data["status"] == "waiting"
    children = pit("show", "3", "4", "--json").data
    assert [(one["title"], one["tags"], one["priority"]) for one in children] == [
        ("design", ["web"], 7),
        ("build", ["web"], 7),
    ]
    pit("claim", "3")
    pit("claim", "4")
    pit("done", "3", "4")
    assert pit("claim", "1").code == 0
    assert "split into 0003, 0004" in pit("show", "1").out
    assert pit("done", "1").code == 7  # its check runs
    (place / "whole").write_text("")
    assert pit("done", "1").code == 0
    assert pit("show", "2", "--json").data["status"] == "ready"


def test_parts_of_parts_wait_for_a_person_in_the_end(pit):
    """An agent that answers every task with a smaller one went on for as long as there was money."""
    pit("add", "thing")
    for number in range(1, 6):
        assert pit("split", str(number), f"a part of {number}").code == 0
    assert [pit("show", str(number), "--json").data["status"] for number in (5, 6)] == ["waiting", "needs_you"]
    assert "a part of a part, 5 deep" in pit("why", "6").out
    assert pit("unblock", "6").out == "0006 is ready\n"


def test_a_split_task_says_once_into_what(pit):
    pit("add", "big one")
    pit("claim")
    pit("split", "1", "a", "b", "--no-wait")
    assert pit("show", "1").out.count("split into") == 1


def test_split_with_titles_and_a_file_or_neither(pit):
    pit("add", "big one")
    assert pit("split", "1").code == pit("split", "1", "a", "-F", "-", stdin="{}").code == 2
    assert pit("show", "1", "--json").data["state"] == "ready"


@pytest.mark.parametrize(
    "child", ['{"title": "x", "id": "../../escaped"}', '{"title": ""}', "nonsense", "", '{"title": 3}']
)
def test_split_with_bad_children_changes_nothing(pit, tmp_path, child):
    pit("add", "big one")
    pit("claim")
    before = sorted(tmp_path.rglob("*"))
    answer = pit("split", "1", "-F", "-", stdin=child)

    if "escaped" in child:  # an id no file name can carry gets one of ours
        assert answer.code == 0
        assert not [path for path in tmp_path.rglob("*") if "escaped" in path.name]
    else:
        assert answer.code == 6
        assert pit("show", "1", "--json").data["state"] == "claimed"
        assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == []
