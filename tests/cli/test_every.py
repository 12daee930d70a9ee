"""`every`: schedules, in every layout that has room for them."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace"])
def test_a_due_schedule_puts_in_one_task_however_many_look(run, layout):
    assert run("init", "pit", "--layout", layout).code == 0
    made = run("every", "every 1h", "Look at the mail", "--id", "mail", "--tag", "chores", "--json").data
    assert made["created"] is True
    assert run("every", "--json").data[0]["next"] == made["next"]
    assert "a schedule, every 1h: next" in run("why", "mail").out
    assert run("claim").code == 3
    run("edit", "mail", "--not-before", "2026-01-05T10:00:00Z")
    assert "mail" in run("sweep").out
    assert run("sweep", "--json").data["did"] == []
    claimed = run("claim", "--json").data["task"]
    assert claimed["id"].startswith("mail.2")
    assert (claimed["title"], claimed["tags"], claimed["extra"]["schedule"]) == ("Look at the mail", ["chores"], "mail")
    assert run("every", "--json").data[0]["last_run"] == claimed["id"]
    assert run("doctor").code == 0


def test_activities_have_no_room_for_one(run):
    run("init", "pit", "--layout", "activities")
    refused = run("every", "7:00", "x")
    assert refused.code == 6
    assert "another layout" in refused.err


def test_what_cannot_be_understood_makes_nothing(pit):
    for words in (["mon-fry 7:00", "x"], ["7:00", "x", "--zone", "Berlin"], ["7:00", "x", "--jitter", "soon"]):
        refused = pit("every", *words)
        assert refused.code == 6
        assert "hint" in refused.err or "jitter" in refused.err
    assert pit("every", "7:00").code == 2
    assert pit("list", "--json").data == []


def test_without_schedules_it_shows_how(pit):
    assert "pit every 'mon-fri 07:00'" in pit("every").out


def test_a_schedule_that_is_edited_is_due_at_its_new_times(pit):
    pit("every", "every 1h", "x", "--zone", "UTC")
    pit("edit", "1", "--set", "every=1st 03:00")
    assert pit("every", "--json").data[0]["next"].endswith("-01T03:00:00Z")
    pit("edit", "1", "--set", "zone=Asia/Tokyo")
    assert pit("every", "--json").data[0]["next"].endswith("T18:00:00Z")
    pit("edit", "1", "--not-before", "2026-01-05T10:00:00Z")
    assert "due now" in pit("status").out
    assert "2026-01-05" not in pit("status").out
