"""`undo`: the last own verb is taken back, or it is said why not."""

from __future__ import annotations

import os

import pytest

from taskpit.cli import board
from taskpit.cli.context import Context


@pytest.fixture
def task(pit):
    pit("add", "one", "--tag", "web", "--priority", "3", "--body", "text")
    return lambda: {
        key: pit("show", "1", "--json").data[key] for key in ("title", "body", "tags", "priority", "status")
    }


@pytest.mark.parametrize(
    "words",
    [
        ("edit", "1", "--title", "other", "--body", "", "--add-tag", "x", "--remove-tag", "web"),
        ("edit", "1", "--priority", "9"),
        ("block", "1", "not yet"),
        ("cancel", "1", "no longer needed"),
    ],
)
def test_what_was_done_is_taken_back(pit, task, words):
    before = task()
    assert pit(*words).code == 0
    assert task() != before
    assert pit("undo").code == 0
    assert task() == before


def test_an_answer_is_taken_back(pit, task):
    pit("claim", "1")
    pit("ask", "1", "which?")
    before = task()
    pit("answer", "1", "this one")
    assert pit("undo").out == "0001 is as it was before\n"
    assert task() == before
    assert task()["status"] == "needs_you"


def test_a_claim_and_an_addition_are_taken_back(pit, task):
    pit("claim", "1")
    assert pit("undo").out == "0001 is given back\n"
    pit("add", "a mistake")
    assert pit("undo").code == 0
    assert pit("show", "2", "--json").data["status"] == "cancelled"


def test_what_cannot_be_taken_back_is_said(pit, task):
    assert pit("undo", "--as", "somebody-new").code == 3
    pit("claim", "1")
    pit("done", "1")
    answer = pit("undo")
    assert answer.code == 6
    assert "cannot be taken back: 0001 was completed" in answer.err
    assert "add a new task" in answer.err
    pit("add", "two")
    pit("cancel", "2")
    pit("undo")
    assert "`pit cancel 0002` calls it off again" in pit("undo").err


def test_what_another_has_changed_since_is_left_alone(pit, task):
    pit("block", "1", "mine", "--as", "ann")
    pit("edit", "1", "--title", "theirs", "--as", "bob")
    answer = pit("undo", "--as", "ann")
    assert (answer.code, task()["title"]) == (6, "theirs")


def test_an_edit_from_the_terminal_board_is_taken_back(pit, tmp_path):
    pit("add", "first title")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/first title/second title/" "$1"\n')
    editor.chmod(0o755)
    context = Context({**os.environ, "VISUAL": f"'{editor}'"})
    try:
        assert board._edit(context, "ann", "0001") == "0001 is changed"
    finally:
        context.close()
    assert pit("show", "1", "--json").data["title"] == "second title"
    pit("undo", "--as", "ann")
    assert pit("show", "1", "--json").data["title"] == "first title"


def test_a_request_to_stop_is_what_was_done_last(pit, task):
    """The task before it is left alone; what was asked to stop is taken back once it has stopped."""
    pit("claim", "1", "--as", "bob")
    pit("add", "two")
    assert pit("cancel", "1", "not needed").out == "0001: its worker was asked to stop\n"
    early = pit("undo")
    assert early.code == 6
    assert "0001 was asked to stop" in early.err
    assert "`pit retry 0001`" in early.err
    assert pit("show", "2", "--json").data["status"] == "ready"
    pit("cancel", "1", "--as", "bob")  # its worker stops
    assert pit("undo").out == "0001 is ready again\n"


def test_a_claim_that_is_another_s_by_now_is_not_given_back(pit, task, place):
    pit("claim", "1", "--as", "ada")
    (place / "pit/claimed/ada.food-0001-one.md").rename(place / "pit/food/food-0001-one.md")
    assert pit("claim", "1", "--as", "bob").code == 0
    refused = pit("undo", "--as", "ada")
    assert refused.code == 6
    assert "your claim of 0001 is over: bob has it now" in refused.err
    assert pit("show", "1", "--json").data["status"] == "running"


def test_a_race_that_was_cancelled_is_taken_back_as_a_whole(pit):
    pit("add", "t", "--race", "2")
    pit("claim", "--as", "bob")
    pit("release", "0001.r1", "--as", "bob")
    assert pit("cancel", "1").out == "0001 is cancelled\n"
    assert pit("undo").out == "0001 is ready again\n"
    assert pit("show", "1", "--json").data["status"] == "ready"
    assert pit("claim", "--as", "bob").out.startswith("0001.r3")


def test_what_enters_in_one_s_name_is_not_what_one_did(pit):
    """Runs of a schedule, racers and parts are in the name of who asked for the whole; another's claim made them."""
    pit("add", "split from mail")  # a title
    assert pit("undo").out.startswith("0001 is cancelled")
    pit("every", "every 15m", "recurring")
    pit("edit", "2", "--not-before", "2026-01-01T00:00:00Z")  # it is overdue
    pit("add", "raced", "--race", "2", "--priority", "1")
    pit("add", "other")
    pit("cancel", "4")
    pit("claim", "--as", "bob")
    pit("sweep")
    parts = [one["id"] for one in pit("list", "--json").data if "." in one["id"]]
    assert len(parts) == 3
    assert pit("undo").out == "0004 is ready again\n"


def test_what_was_put_in_for_another_is_what_one_did(pit):
    pit("add", "keep me")
    pit("add", "for the boss", "--by", "boss")
    early = pit("undo", "--as", "boss")
    assert early.code == 6
    assert "it was me who brought it in" in early.err
    assert pit("undo").out.startswith("0002 is cancelled")
    assert pit("show", "1", "--json").data["status"] == "ready"
    pit("every", "every 1h", "for the boss", "--by", "boss")
    assert pit("undo").out.startswith("0003 is cancelled")


@pytest.mark.parametrize("count", [1, 3])
def test_what_was_imported_is_what_one_did(pit, place, count):
    pit("add", "keep me")
    (place / "tasks.jsonl").write_text("".join(f'{{"title": "t{n}", "by": "boss"}}\n' for n in range(count)))
    pit("import", "tasks.jsonl")
    assert pit("undo", "--as", "boss").code == 6
    answer = pit("undo")
    assert pit("show", "1", "--json").data["status"] == "ready"
    if count == 1:
        assert answer.out.startswith("0002 is cancelled")
    else:
        assert answer.code == 6
        assert "3 tasks were brought in at once" in answer.err


def test_an_export_is_not_taken_back_in_part(pit, run, place):
    pit("add", "theirs", "--by", "boss")
    pit("add", "mine")
    pit("export", "-o", "all.jsonl")
    run("init", "other")
    assert run("-C", "other", "import", "all.jsonl").code == 0
    assert "2 tasks were brought in at once" in run("-C", "other", "undo").err
