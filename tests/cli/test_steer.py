"""`note`, `block`, `unblock`, `retry`, `cancel`."""

from __future__ import annotations

import pytest

from taskpit import access
from taskpit.model import End, Want
from taskpit.queue import Queue
from taskpit.store.files import FileStore


def test_note(pit):
    pit("add", "x")

    assert pit("note", "1", "look in the vault").out == "noted at 0001\n"
    assert pit("note", "1", "--as", "bob", "-", "--json", stdin="more").data == {"id": "0001", "note": "more"}
    notes = pit("show", "1", "--json").data["notes"]
    assert "me: look in the vault" in notes
    assert "bob: more" in notes
    assert pit("note", "1", " ").code == 6
    assert pit("note", "nosuch", "x").code == 5


def test_block_and_unblock(pit):
    pit("add", "x")
    blocked = pit("block", "1", "waits for  the contract")

    assert blocked.out == "0001 is blocked: waits for the contract\n"
    assert pit("claim").code == 3
    assert "pit unblock 0001" in pit("why", "1").out
    assert pit("unblock", "1").out == "0001 is ready\n"
    assert pit("claim", "--json").data["task"]["hold"] == ""
    assert pit("block", "1", "x", "--as", "other").code == 4


def test_block_needs_a_reason(pit):
    pit("add", "x")

    assert pit("block", "1").code == 2
    assert pit("block", "1", "").code == 6
    assert pit("block", "1", "-", "--json", stdin="from\na pipe\n").data["held"] == "from a pipe"


def test_unblock_says_what_still_holds_it(pit):
    pit("add", "x", "--needs", "y")
    pit("block", "1", "why")

    assert pit("unblock", "1").out == "0001 still waits: needs y, which does not exist\n"


def test_retry_reopens_what_failed(pit):
    pit("add", "x")
    pit("claim")
    pit("fail", "1", "--error", "no", "--final")
    data = pit("retry", "1", "--json").data

    assert (data["state"], data["attempts"], data["held"]) == ("ready", 0, "")
    assert pit("claim", "--json").data["attempt"] == 1


def failing(pit, times, error="no"):
    """It fails so often, whatever holds it in between."""
    for _ in range(times):
        assert pit("edit", "1", "--not-before", "1970-01-02").code == 0
        assert pit("claim").code == 0
        assert pit("fail", "1", "--error", error).code == 0


def test_retry_gives_all_attempts_anew(pit):
    pit("add", "x", "--attempts", "5")
    failing(pit, 2)
    waits = pit("show", "1", "--json").data
    assert (waits["attempts"], waits["held"].startswith("not before")) == (2, True)
    data = pit("retry", "1", "--json").data

    assert (data["attempts"], data["not_before"], data["held"]) == (0, None, "")
    assert pit("claim", "--json").data["attempt"] == 1


def test_retry_beside_an_idle_pool_gives_all_attempts_anew(pit, monkeypatch):
    """A worker that waits has the task the moment it is reopened."""
    pit("add", "x", "--attempts", "2")
    failing(pit, 2)
    reopen = FileStore.reopen

    def reopened(store, tasks):
        said = reopen(store, tasks)
        assert store.claim(Want(worker="pool", lease=60.0, verbatim=True))
        return said

    monkeypatch.setattr(FileStore, "reopen", reopened)
    assert pit("retry", "1", "--as", "bob").code == 0
    assert pit("fail", "1", "--error", "no", "--as", "pool").out.startswith("0001 is back: attempt 1 of 2")
    told = [(event.action, event.worker) for event in Queue.open("pit").store.latest(100)[0]]
    assert ("reopened_task", "keeper") in told
    assert ("unblocked", "bob") in told


def test_unblock_forgives_failures_and_attempts(pit):
    pit("add", "x", "--attempts", "3")
    failing(pit, 3)
    assert pit("show", "1", "--json").data["held"].startswith("failed 3 times the same way")
    data = pit("unblock", "1", "--json").data

    assert (data["attempts"], data["held"]) == (0, "")
    failing(pit, 1)
    assert pit("show", "1", "--json").data["held"].startswith("not before"), "a first time again, not a fourth"


def test_unblock_does_not_wait_for_its_time(pit):
    pit("add", "x", "--not-before", "+8h")
    assert pit("claim").code == 3
    assert pit("unblock", "1").code == 0
    assert pit("claim").code == 0


def test_retry_leaves_what_is_done(pit):
    pit("add", "x")
    pit("claim")
    pit("done", "1")

    assert pit("retry", "1", "--json").error["code"] == "conflict"


def test_an_empty_id_is_no_task(pit):
    """As of a variable that is not set: it meant the only task there is."""
    pit("add", "x")
    for verb in ("cancel", "show", "done"):
        assert "the id is empty" in pit(verb, "").err
    assert pit("cancel", "").code == 6
    assert pit("show", "1", "--json").data["state"] == "ready"


def test_cancel_what_is_ready(pit):
    pit("add", "x")
    pit("add", "y")

    assert pit("cancel", "1", "2", "--reason", "superseded").out == "0001 is cancelled\n0002 is cancelled\n"
    task = pit("show", "1", "--json").data
    assert (task["state"], task["result"]["verdict"], task["result"]["reason"]) == ("failed", "cancelled", "superseded")
    assert "cancelled" in pit("list").out
    assert pit("cancel", "1").code == 6


def test_cancel_asks_another_worker_and_ends_your_own_claim(pit):
    pit("add", "x")
    pit("claim", "--as", "other")
    asked = pit("cancel", "1", "--json").data
    ended = pit("cancel", "1", "--as", "other", "--json").data

    assert asked == {"id": "0001", "cancelled": False, "asked_to_stop": True}
    assert ended == {"id": "0001", "cancelled": True, "asked_to_stop": False}
    assert pit("show", "1", "--json").data["result"]["verdict"] == "cancelled"


def test_of_several_tasks_all_that_can_be_are_done_and_the_others_named(pit):
    for title in ("one", "two", "three"):
        pit("add", title)
    pit("claim", "2")
    pit("done", "2")
    refused = pit("cancel", "1", "2", "3")
    assert refused.code == 6
    assert "pit: 0002 is done already. Of the others, 0001 is cancelled, 0003 is cancelled\n" in refused.err
    again = pit("cancel", "1", "2", "3", "--json")
    assert again.error["message"] == "0001 is cancelled already; 0002 is done already; 0003 is cancelled already"
    pit("retry", "1", "3")
    pit("claim", "1")
    pit("claim", "3")
    renewed = pit("renew", "1", "2", "3", "--json")
    assert (renewed.code, [one["id"] for one in renewed.error["details"]["done"]]) == (4, ["0001", "0003"])
    pit("add", "four")
    assert "Of the others, 0001 is done, 0003 is done" in pit("done", "1", "4", "3").err


def test_a_failed_task_has_spent_its_last_attempt_too(pit):
    pit("add", "x", "--attempts", "1")
    pit("claim")
    pit("fail", "1", "no")
    shown = pit("show", "1").out
    assert "1 of 1 spent" in shown
    assert "attempt 1" in shown


def test_one_word_behind_an_id_may_have_been_meant_for_a_reason(pit):
    pit("add", "x")
    refused = pit("cancel", "1", "duplicate")
    assert (refused.code, "`--reason duplicate`" in refused.err) == (5, True)
    assert pit("show", "1", "--json").data["state"] == "ready"
    assert pit("cancel", "1", "--reason", "duplicate").code == 0


def test_who_is_asked_to_stop_is_told_how_under_the_name_it_has(pit):
    pit("add", "x")
    pit("claim", "1", "--as", "a")
    pit("cancel", "1")
    told = pit("renew", "1", "--as", "a")
    assert "`pit cancel 1 --as a`".replace("1", "0001") in told.err
    assert pit("cancel", "0001", "--as", "a").out == "0001 is cancelled\n"


@pytest.mark.parametrize("verb", [("release", "1"), ("fail", "1", "it broke")])
def test_what_is_given_back_after_it_was_cancelled_is_cancelled(pit, verb):
    """It was ready, and the next worker began with it."""
    pit("add", "x")
    pit("claim", "--as", "other")
    assert pit("cancel", "1").out == "0001: its worker was asked to stop\n"

    assert "0001 is cancelled" in pit(*verb, "--as", "other").out
    assert pit("show", "1", "--json").data["result"]["verdict"] == "cancelled"


@pytest.mark.parametrize("verb", [("ask", "1", "Which?"), ("split", "1", "a"), ("split", "1", "a", "--no-wait")])
def test_what_asks_or_is_split_after_it_was_cancelled_is_cancelled(pit, verb):
    """It waited for an answer or its parts, and whoever took it then was asked to stop."""
    pit("add", "x")
    pit("claim", "--as", "other")
    pit("cancel", "1")

    refused = pit(*verb, "--as", "other")
    assert (refused.code, "0001 was cancelled while you had it" in refused.err) == (6, True)
    assert pit("show", "1", "--json").data["result"]["verdict"] == "cancelled"
    assert pit("claim").code == 3, "no part of it is there"


def test_what_is_freed_after_it_was_cancelled_runs(pit):
    """Whoever took it next was asked to stop."""
    pit("add", "x")
    pit("claim", "--as", "other")
    pit("cancel", "1")
    pit("block", "1", "I am stuck", "--as", "other")

    assert pit("unblock", "1").out == "0001 is ready\n"
    pit("claim", "--as", "other")
    assert pit("renew", "1", "--as", "other", "--json").data["stop"] is False


def test_cancel_of_what_is_given_back_just_then_cancels_it(pit, monkeypatch):
    """The reply was that its worker was asked to stop, although it had none."""
    pit("add", "x")
    pit("add", "y")
    pit("claim", "1", "--as", "other")
    stop = FileStore.stop

    def too_late(store, ids):
        store.finish([End(claim=Queue(store).holding("0001", "other"))])
        stop(store, ids)

    monkeypatch.setattr(FileStore, "stop", too_late)
    assert pit("cancel", "1").out == "0001 is cancelled\n"

    pit("claim", "2")
    own = access.own_claim

    def given_back(queue, *rest):
        claim = own(queue, *rest)
        queue.store.finish([End(claim=claim)])
        return claim

    monkeypatch.setattr(access, "own_claim", given_back)
    assert pit("cancel", "2").out == "0002 is cancelled\n"


def test_the_reason_of_a_cancellation_is_kept_while_the_worker_stops(pit):
    pit("add", "x")
    pit("claim", "1", "--as", "other")
    assert "asked to stop" in pit("cancel", "1", "not needed any more").out
    pit("release", "1", "--as", "other")
    assert "Reason: not needed any more" in pit("why", "1").out
