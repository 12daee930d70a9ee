"""`ask`, `answer`, `pause`, `resume`: between people and agents."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def asking(pit):
    """Three tasks that ask: two with one key, one with none."""
    for title in ("one", "two", "three"):
        pit("add", title, "--body", f"Do {title}.")
    for number, words in (("1", ("--key", "db")), ("2", ("--key", "db", "--wanted", "a name")), ("3", ())):
        pit("claim", number)
        assert pit("ask", number, f"Which database for {number}?", *words, "--json").data["id"] == f"000{number}"
    return pit


def held(pit):
    return [task["id"] for task in pit("list", "--state", "held", "--json").data]


def test_a_task_that_asks_is_put_back_and_costs_nothing(asking):
    task = asking("show", "2", "--json").data
    assert (task["state"], task["attempts"], task["held"]) == ("ready", 0, "waits for an answer: Which database for 2?")
    assert asking("claim").code == 3
    (note,) = Path("pit/scraps").glob("*0002*")
    assert "What would answer it: a name" in note.read_text(encoding="utf-8")


@pytest.mark.parametrize("word", ["db", "1", "2"])
def test_tasks_with_one_key_are_answered_together(asking, word):
    """By the key, or by any of them."""
    assert asking("answer", word, "PostgreSQL", "--as", "ann", "--json").data == {"ids": ["0001", "0002"]}
    assert held(asking) == ["0003"]
    for number in ("1", "2"):
        body = asking("show", number, "--json").data["body"]
        assert f"**Question:** Which database for {number}?\n\n**Answer** (ann): PostgreSQL" in body


def test_without_a_key_each_is_answered_alone(asking):
    assert asking("answer", "3", "-", stdin="none\n").out == "0003 goes on\n"
    assert held(asking) == ["0001", "0002"]
    assert asking("answer", "3", "again").code == 6
    assert asking("answer", "1", " ").code == 6


def test_pause_gives_out_nothing_and_what_runs_goes_on(pit):
    pit("add", "one")
    pit("add", "two")
    pit("claim", "1")
    assert pit("pause", "the demo", "is on").code == 2
    assert "the demo is on" in pit("pause", "the  demo is on", "--for", "1h", "--json").data["paused"]
    refused = pit("claim", "--json")
    assert (refused.code, "the demo is on" in refused.error["message"]) == (3, True)
    assert pit("renew", "1").code == 0
    assert pit("done", "1").code == 0
    assert pit("resume", "--json").data == {"resumed": True}
    assert pit("resume", "--json").data == {"resumed": False}
    assert pit("claim", "2").code == 0


def test_a_new_queue_is_on_the_disk_before_it_answers(pit):
    assert pit("doctor", "--json").data["queue"]["durability"] == "power"
