"""Agents that pace themselves are left alone until then; those that hang are not."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
from waits import until
from workshop import alive, read_pid

from taskpit.clock import instant, iso
from taskpit.crew.state import CrewFiles, MemberPlan, MemberState, Post, waiting_until
from taskpit.crew.supervisor import SupervisedMember
from taskpit.model import State

PACED = """\
    [[service]]
    name = "paced"
    command = ["sh", "-c", "echo ran >> runs; cat until"]

    [[service]]
    name = "bell"
    command = ["sleep", "1000"]
"""


def test_one_that_waits_is_left_alone(zoo):
    zoo.crew(PACED)
    (zoo.path / "until").write_text("some words\nWAITING-UNTIL: +1h\n\n")
    began = time.time()
    zoo.pit("up")
    until(lambda: zoo.seen("paced").state == "waiting")
    row = zoo.row("paced")
    assert (row["state"], row["restarts"]) == ("waiting", 0)
    assert began - 1 <= instant(row["until"], 0.0) - 3600 <= time.time() + 1

    assert zoo.pit("up").data["started"] == []  # neither asking again,
    zoo.kill("supervisor")
    zoo.pit("up")  # nor another supervisor wakes it,
    old = zoo.kill("bell")
    until(lambda: zoo.files.living("bell") not in (0, old))  # which has looked at all of them by now
    assert zoo.row("paced")["state"] == "waiting"
    assert zoo.text("runs") == "ran\n"

    assert zoo.pit("restart", "paced").data["started"] == ["paced"]  # a person may
    until(lambda: zoo.text("runs") == "ran\nran\n")


@pytest.mark.races
def test_then_it_is_started_again_and_that_is_no_restart(zoo):
    zoo.crew(PACED)
    (zoo.path / "until").write_text("WAITING-UNTIL: +1s\n")
    zoo.pit("up")
    began = time.monotonic()
    until(lambda: zoo.text("runs").count("ran") >= 3)
    assert time.monotonic() - began > 1.0
    assert (zoo.seen("paced").restarts, zoo.seen("paced").failures) == (0, 0)


def test_a_session_says_itself_when_the_next_one_is(zoo):
    (zoo.path / "role.md").write_text("You are the keeper.\n")
    zoo.crew("""\
        [backend.sh]
        command = ["sh", "-c", "cat '{prompt_file}' > seen; echo hello; echo WAITING-UNTIL: +2h > '{result_file}'"]

        [[agent]]
        name = "zoe"
        role = "keeper"
        backend = "sh"
        prompt = "role.md"
    """)
    began = time.time()
    zoo.pit("up")
    until(lambda: zoo.seen("zoe").state == "waiting")
    assert began - 1 <= instant(zoo.row("zoe")["until"], 0.0) - 7200 <= time.time() + 1
    assert zoo.text("seen").startswith("You are the keeper.\n")
    assert "hello" in zoo.log("zoe")


def test_when_they_say():
    assert waiting_until(["WAITING-UNTIL: 2026-01-24T10:00:00Z"], 0.0) == 1769248800.0
    assert waiting_until(["a", "WAITING-UNTIL: +15m", "  "], 100.0) == 1000.0
    assert waiting_until(["WAITING-UNTIL: +15m", "and more"], 100.0) == 0.0
    assert waiting_until(["WAITING-UNTIL: tea"], 100.0) == 0.0
    assert waiting_until([], 100.0) == 0.0


@pytest.mark.races
def test_one_that_hangs_is_killed_and_its_task_finds_another(zoo):
    zoo.crew(
        """\
        [backend.sh]
        command = ["sh", "-c", "test -e go && exit; touch go; echo $$ > pid; exec sleep 1000"]

        [[agent]]
        name = "snake"
        backend = "sh"
        watch = "heal+stall"
        stall = "1h"
    """
    )
    zoo.pit("up")
    (task,) = zoo.put("hang")
    hung = read_pid(zoo.path / "pid")
    zoo.pids.add(hung)
    doing = until(lambda: os.path.exists(zoo.files.now("snake").log) and zoo.files.now("snake"))
    zoo.files.say_now("snake", doing.replace(since=1.0, log=""))  # as if it had begun long ago and printed nothing
    until(lambda: zoo.card(task).state is State.DONE)
    assert [one.kind for one in zoo.card(task).tries] == ["lost"]
    assert zoo.seen("snake").restarts == 1
    assert "silent for" in zoo.log("supervisor")
    until(lambda: not alive(hung))


@pytest.mark.races
def test_one_that_stands_still_is_killed_though_it_has_no_task(zoo):
    zoo.crew('[[agent]]\nname = "cleanup"\nrole = "cleanup"\nwatch = "heal+stall"\nstall = "2s"\n')
    zoo.pit("up")
    stopped = zoo.pid("cleanup")
    with contextlib.suppress(ProcessLookupError):  # so busy a machine that it was killed before
        os.kill(stopped, signal.SIGSTOP)
    until(lambda: zoo.files.living("cleanup") not in (0, stopped))
    assert zoo.seen("cleanup").restarts >= 1


def test_a_stall_is_shown_where_it_is_not_healed(zoo):
    zoo.crew("""\
        [backend.sh]
        command = ["sleep", "1000"]

        [[agent]]
        name = "snake"
        backend = "sh"
        stall = "1s"
    """)
    zoo.pit("up")
    zoo.put("hang")
    until(lambda: zoo.row("snake")["state"] == "stalled")
    assert zoo.seen("snake").restarts == 0


def a_charge(tmp_path, monkeypatch, **fields):
    """One of the crew whose process is never really started."""
    files = CrewFiles(str(tmp_path))
    (tmp_path / ".taskpit" / "crew").mkdir(parents=True)
    charge = SupervisedMember("bell", files)
    started = []
    monkeypatch.setattr(charge.files, "start", lambda name, *_, **__: started.append(name) or _Ended())
    return charge, MemberPlan(post=Post(name="bell", kind="service", **fields)), started


class _Ended:
    """A process that has ended at once."""

    pid = 0

    def poll(self):
        return 1


def test_pauses_grow_up_to_five_minutes_and_calm_forgets(tmp_path, monkeypatch):
    charge, wish, started = a_charge(tmp_path, monkeypatch)
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    pauses = []
    for _ in range(14):
        charge.look(wish)  # starts
        charge.look(wish)  # sees the end
        pauses.append(charge.seen.until - now)
        charge.look(wish)
        assert len(started) == len(pauses)  # not before its time
        now = charge.seen.until
    assert pauses[:5] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == 300.0
    charge.look(wish)
    now += 61
    charge.look(wish)
    assert charge.seen.until - now == 0.5
    assert charge.seen.restarts == 14


def test_what_an_earlier_one_said_last_is_not_what_a_silent_one_says(tmp_path, monkeypatch):
    """It ended with an error twice a second for ever, and was said to wait as it had asked."""
    charge, wish, _ = a_charge(tmp_path, monkeypatch)
    log = tmp_path / ".taskpit/crew/bell.log"
    log.write_text("WAITING-UNTIL: 1h\n")
    now = log.stat().st_mtime + 5.0
    monkeypatch.setattr(time, "time", lambda: now)
    charge.look(wish)  # starts
    charge.look(wish)  # sees the end
    assert (charge.seen.state, charge.seen.failures, charge.seen.until) == ("down", 1, now + 0.5)


def test_what_a_killed_supervisor_knew_is_known_to_the_next(tmp_path, monkeypatch):
    charge, wish, started = a_charge(tmp_path, monkeypatch)
    charge.files.note("bell", MemberState(state="waiting", until=time.time() + 100, turn=1, restarts=4))
    charge = SupervisedMember("bell", charge.files)
    monkeypatch.setattr(charge.files, "start", lambda name, *_, **__: started.append(name) or _Ended())
    charge.look(wish)
    assert not started
    charge.look(wish.replace(turn=2))
    assert started
    assert charge.files.seen("bell").turn == 2


def test_iso_is_what_we_print():
    assert waiting_until([f"WAITING-UNTIL: {iso(1769248800.0)}"], 0.0) == 1769248800.0
