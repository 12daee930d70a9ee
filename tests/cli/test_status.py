"""`status -f`: one screen in place on a terminal, a line per change in a pipe, and a quiet end."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest
from schemata import judge_command

from taskpit.cli.context import Context
from taskpit.cli.main import main
from taskpit.cli.status import LastDay, look, screen
from taskpit.clock import Clock
from taskpit.store.files import FileStore
from taskpit.text import plain, width_of


@pytest.fixture
def meanwhile(monkeypatch):
    """What happens while it sleeps, step by step; then somebody presses Ctrl-C."""
    steps = []

    def sleep(_self, _seconds):
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(Clock, "sleep", sleep)
    return steps


def quietly(*words):
    """A command that says nothing here."""
    kept, sys.stdout = sys.stdout, io.StringIO()
    try:
        assert main(list(words)) == 0
    finally:
        sys.stdout = kept


def test_in_a_pipe_one_line_per_change(pit, meanwhile):
    pit("add", "before")
    meanwhile += [lambda: quietly("add", "one"), lambda: quietly("claim", "1"), lambda: None]
    answer = pit("status", "-f")
    assert answer.code == 0
    assert answer.err == ""
    lines = [line.split("  ", 1)[1] for line in answer.out.splitlines()]
    assert lines == [
        "0002   added_task      me  one  (2 ready)",
        "0001   claimed_task    me  (1 ready, 1 running)",
    ]


def test_one_screen_reads_each_task_once(pit, monkeypatch):
    """Of a large queue it took twice as long: what waits was read for the screen, and again to be counted."""
    pit("add", "before")
    pit("add", "after", "--needs", "1")
    real, looked = FileStore.page, []
    monkeypatch.setattr(FileStore, "page", lambda *args, **more: looked.append(args[1]) or real(*args, **more))
    assert pit("status", "--json").data["statuses"]["waiting"] == 1
    assert len(looked) == len(set(looked))


def test_programs_get_an_envelope_per_change(pit, meanwhile):
    meanwhile += [lambda: quietly("add", "one")]
    (line,) = pit("status", "-f", "--json").out.splitlines()
    data = json.loads(line)["data"]
    judge_command(["status"], data)
    assert (data["action"], data["task_id"], data["counts"]["ready"]) == ("added_task", "0001", 1)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_on_a_terminal_one_block_rewritten(pit, meanwhile, monkeypatch):
    pit("add", "First \x1b[31mthing")
    screen = Terminal()
    meanwhile += [lambda: quietly("add", "second"), lambda: None, lambda: quietly("claim", "1")]
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["status", "-f"]) == 0
    blocks = screen.getvalue().split("\x1b[J")
    ups = [block.rpartition("\x1b[")[2] for block in blocks[:-1]]
    assert len(blocks) == 3  # nothing new, nothing written
    assert [f"{block.count(chr(10))}A" for block in blocks[:-1]] == ups
    assert "\n2 ready\n" in blocks[1]
    assert "Running\n  0001  First thing" in blocks[2]
    assert re.search(r"  me  \d+s", blocks[2])
    assert "\x1b" not in blocks[2]


def test_what_is_stuck_and_an_empty_queue(pit, meanwhile, monkeypatch):
    screen = Terminal()
    meanwhile += [
        lambda: quietly("add", "one"),
        lambda: quietly("block", "1", "broken tool"),
    ]
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["status", "-f"]) == 0
    blocks = screen.getvalue().split("\x1b[J")
    assert "pit add" in blocks[0]
    assert "broken tool" in blocks[-1]


def test_it_ends_by_itself(pit, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(Clock, "monotonic", lambda _: now[0])
    monkeypatch.setattr(Clock, "sleep", lambda _, seconds: now.__setitem__(0, now[0] + seconds))
    assert pit("status", "-f", "--for", "3s").code == 0
    assert now[0] == 1003.0
    assert pit("status", "-f", "--for", "0.2s").code == 0
    assert now[0] == pytest.approx(1003.2)  # not at the next look only


def test_the_screen_is_never_taller_than_the_terminal(pit, meanwhile, monkeypatch):
    for number in range(12):
        pit("add", f"task {number} " + "w" * 300)
        pit("claim")
    screen = Terminal()
    monkeypatch.setenv("LINES", "9")
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["status", "-f"]) == 0
    assert len(screen.getvalue().splitlines()) <= 9


def test_no_line_is_wider_than_the_screen(pit):
    """A line that wraps is two on the screen, and the next one would be written over too few of them."""
    for title in ("short", "w" * 300, "漢字" * 40):
        pit("add", title)
        pit("claim", "--as", "a-worker-with-a-long-name")
    for number in range(12):
        pit("add", f"held {number} " + "w" * 100)
        pit("block", str(number + 4), "for a long reason " * 5)
    for width in (20, 40, 80):
        text = screen_of(width)
        assert max(width_of(plain(line)) for line in text.splitlines()) <= width
    assert "… and 2 more" in text


def screen_of(width):
    context = Context({}, directory="pit")
    try:
        text = screen(look(context, {}, LastDay(context.queue)), width)
    finally:
        context.close()
    return "".join(letter for letter in text if not "\ufdd0" <= letter <= "\ufdef")


def test_a_long_title_leaves_its_reason_room(pit):
    """B7: a long title swallowed the reason."""
    pit("add", "An endless title " * 20)
    pit("block", "1", "the contract is not signed yet")
    assert "the contract is not signed yet" in screen_of(80)


def test_ordinary_waits_and_cancelled_tasks_are_not_what_needs_you(pit):
    """B7: they were listed as stuck."""
    for title in ("one", "two", "three"):
        pit("add", title)
    pit("edit", "2", "--needs", "1")
    pit("cancel", "3")
    data = pit("status", "--json").data
    assert (data["needs_you"], data["stuck"], data["failed"]) == ([], [], [])
    assert data["waiting"]["tasks"] == 1
    assert data["statuses"] == {**dict.fromkeys(data["statuses"], 0), "ready": 1, "waiting": 1, "cancelled": 1}


def test_pools_are_shown_without_a_crew(pit):
    """B7: three running `pit work` showed as no crew."""
    from taskpit.queue import Queue

    pit("add", "one")
    queue = Queue.open("pit")
    members = [queue.store.join(f"builder-{number}", 60.0) for number in (1, 2)]
    queue.claim("builder-1")
    try:
        told = pit("status").out
        assert "0001  one" in told
        assert re.search(r"builder-1  \d+s", told)
        assert "1 idle: builder-2" in told
    finally:
        for member in members:
            member.leave()
        queue.close()


def test_the_last_day_is_told(pit):
    for number in (1, 2, 3):
        pit("add", f"task {number}")
        pit("claim", str(number))
    pit("done", "1", "2")
    pit("fail", "3", "broken", "--final")
    data = pit("status", "--json").data["last_day"]
    assert (data["done"], data["failed"], data["cancelled"]) == (2, 1, 0)
    assert "Last 24 hours\n  2 done, 1 failed" in pit("status").out


def test_a_race_has_landed_once(pit):
    from taskpit.model import Done
    from taskpit.queue import Queue

    pit("add", "raced", "--race", "2")
    queue = Queue.open("pit")
    claims = queue.claim("w", count=2)
    queue.finish(claims[0], Done(reason="landed on main as 0123"))
    queue.finish(claims[1], Done())
    queue.close()
    assert "Last 24 hours\n  1 landed\n" in pit("status").out


def test_what_landed_is_told_and_what_was_taken_back_is_not(pit):
    from taskpit.model import Done
    from taskpit.queue import Queue

    for number in (1, 2, 3):
        pit("add", f"task {number}")
    queue = Queue.open("pit")
    queue.finish(queue.claim("w", ids=["0001"])[0], Done(reason="landed on main as 0123"))
    queue.close()
    pit("cancel", "2")
    pit("cancel", "3")
    pit("undo")
    assert "Last 24 hours\n  1 landed, 1 cancelled" in pit("status").out


def test_tasks_are_in_columns(pit):
    for title in ("short", "a title that is longer"):
        pit("add", title)
    pit("block", "1", "one")
    pit("block", "2", "two")
    lines = screen_of(80).splitlines()
    assert lines[1] == "2 need you"
    assert lines[lines.index("Needs you") + 1 :][:2] == [
        "  0001  short                   one",
        "  0002  a title that is longer  two",
    ]


def test_every_queue_of_this_user(run, place):
    for name in ("a", "b", "gone"):
        assert run("init", name).code == 0
    run("-C", "b", "add", "one")
    run("-C", "b", "claim")
    run("-C", "b", "ask", "1", "which?")
    (place / "gone").rename(place / "moved")
    (place / "a" / ".taskpit" / "config.toml").write_text("lease = 3\nnonsense")
    found = run("status", "--all", "--json").data
    assert [one["path"].rpartition("/")[2] for one in found] == ["b", "a"]
    assert (found[0]["needs_you"], bool(found[1]["trouble"])) == (1, True)
    assert "1 needs you" in run("queues").out


def test_schedules_and_when_they_are_due(pit):
    pit("every", "mon-fri 07:00", "Update the dependencies")
    (told,) = pit("status", "--json").data["schedules"]
    assert (told["every"], told["title"]) == ("mon-fri 07:00", "Update the dependencies")
    out = pit("status").out
    assert f"0001  Update the dependencies  mon-fri 07:00; next {told['next']}" in out
    assert re.search(r"Waiting\n  1 for a time \(the first in ", out)


def test_a_split_that_ends_a_task_is_of_the_day(pit):
    pit("add", "whole")
    pit("claim", "1")
    assert pit("split", "1", "a", "b", "--no-wait").code == 0
    assert pit("status", "--json").data["last_day"]["done"] == 1
    pit("add", "waits")
    pit("claim", "4")
    assert pit("split", "4", "c", "d").code == 0
    assert pit("status", "--json").data["last_day"]["done"] == 1


def test_a_failed_activity_says_why_and_the_day_is_told(run):
    run("init", "pit", "--layout", "activities")
    run("add", "one")
    run("add", "inside", "--parent", "WI-001")
    claimed = run("claim", "--json").data["task"]["id"]
    assert run("fail", claimed, "the mail is down", "--final").code == 0
    told = run("status").out
    assert "the mail is down" in told
    assert "Last 24 hours" in told
    assert "1 failed" in told
