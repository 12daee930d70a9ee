"""`log` and `stats`."""

from __future__ import annotations

import json

import pytest
from schemata import judge_command

from taskpit.clock import Clock
from taskpit.queue import Queue


def test_log(pit):
    assert pit("log").out == "Nothing has happened yet.\n"
    pit("add", "one")
    pit("add", "two")
    pit("claim", "1")
    text, data = pit("log"), pit("log", "--task", "1", "--json").data

    assert len(text.out.splitlines()) == 3
    assert "0001   claimed_task    me" in text.out
    assert [event["action"] for event in data] == ["added_task", "claimed_task"]
    assert len(pit("log", "--limit", "1", "--json").data) == 1
    assert pit("log", "--task", "nosuch").code == 5


def test_a_name_makes_no_line_of_its_own(pit, place):
    pit("add", "one")
    queue = Queue.open(str(place / "pit"))
    queue.note("0001", "x", "me\n2026-01-01T00:00:00Z  0001   completed_task  ann")
    queue.close()

    assert len(pit("log").out.splitlines()) == 2


def test_log_since(pit):
    pit("add", "x")

    assert len(pit("log", "--since", "1h", "--json").data) == 1
    assert pit("log", "--since", "2999-01-01T00:00:00Z", "--json").data == []
    assert pit("log", "--since", "yesterday").code == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_log_follows_until_interrupted(pit, place, monkeypatch, as_json):
    pit("add", "one")
    naps = iter(("add", "stop"))

    def nap(_clock, _seconds):
        if next(naps) == "stop":
            raise KeyboardInterrupt
        from taskpit.model import Task
        from taskpit.queue import Queue

        Queue.open(str(place / "pit")).put([Task(id="", title="two", by="other")])

    monkeypatch.setattr(Clock, "sleep", nap)
    answer = pit("log", "-f", *(["--json"] if as_json else []))

    assert answer.code == 130
    assert answer.err == ""
    rows = answer.out.splitlines()
    assert len(rows) == 2
    if as_json:
        told = [json.loads(row)["data"] for row in rows]
        assert [data["details"] for data in told] == ["one", "two"]
        for data in told:
            judge_command(["log"], data)


def test_stats(pit):
    pit("add", "one", "--needs", "y")
    pit("add", "two")
    pit("add", "three")
    pit("claim", "2")
    pit("done", "2")
    data = pit("stats", "--json").data

    assert {key: data[key] for key in ("ready", "held", "claimed", "done", "failed")} == {
        "ready": 2,
        "held": 1,
        "claimed": 0,
        "done": 1,
        "failed": 0,
    }
    assert data["last_hour"] == {"added": 3, "completed": 1, "failed": 0}
    assert 0 <= data["oldest_ready_seconds"] < 3600
    assert (data["claims"], data["run_twice"], data["late_results"]) == (1, 0, 0)
    text = pit("stats").out
    assert "Ready         1\nWaiting       1\n" in text
    assert "last hour     3 added, 1 completed, 0 failed" in text


@pytest.mark.parametrize(("more", "ended"), [((), 0), (("--no-wait",), 1)])
def test_what_was_split_is_completed_unless_it_waits(pit, more, ended):
    pit("add", "large")
    pit("claim", "1")
    pit("split", "1", "one", "two", *more)
    assert pit("stats", "--json").data["last_hour"] == {"added": 3, "completed": ended, "failed": 0}


def test_stats_of_an_empty_queue(pit):
    assert "oldest ready  -" in pit("stats").out
    assert pit("stats", "--json").data["oldest_ready_seconds"] is None
