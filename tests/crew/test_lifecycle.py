"""Up, status, logs, restart, down: who runs, who is healed, and that nobody is ever doubled or left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import boxes
import pytest
from waits import PATIENCE, until
from workshop import alive
from zoo import Zoo

from taskpit.crew import control
from taskpit.crew.control import CrewControl
from taskpit.crew.supervisor import TAKEN
from taskpit.model import State
from taskpit.workers import host

WORKERS = """\
    [defaults]
    backend = "sh"

    [backend.sh]
    command = ["sh", "-c", "echo working on $TASKPIT_TASK; {act}"]

    [[agent]]
    name = "snake"
    count = 2

    [[agent]]
    name = "cleanup"
    role = "cleanup"
    every = "1s"

    [[service]]
    name = "bell"
    command = ["sh", "-c", "echo ding; exec sleep 1000"]
"""
NAMES = ["snake-1", "snake-2", "cleanup", "bell"]


def workers(zoo, act="true"):
    zoo.crew(WORKERS.replace("{act}", act))


def pids(zoo, names=NAMES):
    return {name: zoo.pid(name) for name in names}


def at_work(zoo, *names):
    """They take tasks by now: one that is still starting ends if the crew's file is another than was trusted."""
    until(lambda: all((zoo.path / ".taskpit" / "workers" / name).exists() for name in names))


def done(zoo, ids):
    return all(zoo.card(one).state is State.DONE for one in ids)


def test_a_crew_from_up_to_down(zoo):
    """Up again changes nothing, and a second one of a name gives way."""
    workers(zoo)
    assert zoo.pit("up").data["started"] == NAMES
    before = pids(zoo)
    again = zoo.pit("up").data
    assert (again["started"], again["running"]) == ([], NAMES)
    for module, words in (("member", ["snake-1"]), ("supervisor", [])):
        argv = [sys.executable, "-P", "-m", f"taskpit.crew.{module}", zoo.root, *words]
        ended = subprocess.run(argv, timeout=PATIENCE, check=False, capture_output=True)
        assert ended.returncode in (TAKEN, 0)  # the supervisor's starter is gone before that is known
    assert pids(zoo) == before
    assert zoo.log("supervisor").count("supervisor: ") == 1
    ids = zoo.put("one", "two", "three")
    until(lambda: done(zoo, ids))
    assert {zoo.card(one).result.worker.partition("~")[0] for one in ids} <= {"snake-1", "snake-2"}

    data = zoo.pit("status").data
    assert data["counts"] == {"ready": 0, "claimed": 0, "done": 3, "failed": 0, "held": 0}
    assert [(row["name"], row["state"], row["restarts"]) for row in data["agents"]] == [
        ("snake-1", "up", 0),
        ("snake-2", "up", 0),
        ("cleanup", "up", 0),
    ]
    assert [row["name"] for row in data["services"]] == ["bell"]
    assert until(lambda: zoo.row("bell")["last"] == "ding")
    assert data["supervisor"] == zoo.files.living("supervisor")

    said = zoo.pit("logs", "snake-1").data["lines"] + zoo.pit("logs", "snake-2").data["lines"]
    assert sum(" done " in line for line in said) == 3
    assert "started as" in "\n".join(zoo.pit("logs", "supervisor", "--limit", "0").data["lines"])
    assert zoo.pit("logs", "snale-1", code=5).error["hint"] == "Did you mean 'snake-1'?"

    assert zoo.pit("down").data["stopped"] == NAMES
    assert until(zoo.gone)
    assert zoo.pit("down").data["stopped"] == []
    assert {row["state"] for row in zoo.pit("status").data["agents"]} == {"down"}


def test_a_log_is_followed(zoo):
    zoo.crew("""\
        [[service]]
        name = "bell"
        command = ["sh", "-c", "echo ding; until test -e go; do sleep 0.02; done; echo dong; exec sleep 1000"]
    """)
    zoo.pit("up")
    argv = [sys.executable, "-P", "-m", "taskpit", "-C", zoo.root, "logs", "bell", "-f"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as follower:
        try:
            assert follower.stdout.readline() == "ding\n"
            (zoo.path / "go").touch()
            assert follower.stdout.readline() == "dong\n"
        finally:
            follower.terminate()


@pytest.mark.races
def test_many_ups_at_once_make_one_crew(zoo):
    workers(zoo)
    argv = [sys.executable, "-P", "-m", "taskpit", "-C", zoo.root, "up"]
    at_once = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [one.wait(PATIENCE) for one in at_once] == [0, 0, 0, 0]
    zoo.notice()
    assert len(zoo.pids) == len(NAMES) + 1
    assert zoo.log("supervisor").count("supervisor: ") == 1
    assert zoo.log("supervisor").count("started as") == len(NAMES)


def test_a_crew_runs_on_one_machine(zoo):
    workers(zoo)
    zoo.pit("up", "bell")
    zoo.pit("down")
    assert until(zoo.gone)  # a supervisor that is still ending would sign its record once more
    record = zoo.path / ".taskpit" / "crew" / "supervisor"
    record.write_text(record.read_text().replace(host(), "elsewhere"))
    assert "runs on elsewhere" in zoo.pit("up", code=6).error["message"]
    os.utime(record, (0, 0))  # no sign of life: that machine is gone, or has another name now
    assert zoo.pit("up", "bell").data["started"] == ["bell"]


@pytest.mark.races
def test_a_storm(zoo):
    """Whoever dies when, every task has exactly one result."""
    workers(zoo, "sleep 0.1")
    zoo.pit("up")
    ids = zoo.put(*(f"task {number}" for number in range(24)))
    dice = random.Random(4)
    kills = 0
    while not done(zoo, ids):
        victim = dice.choice([*NAMES, "supervisor"])
        if kills < 8 and zoo.files.living(victim):
            kills += 1
            zoo.kill(victim)
        zoo.pit("up", code=None)
    assert kills
    ends = [event.task_id for event in zoo.queue.store.events(limit=100000)[0] if event.action == "completed_task"]
    assert sorted(ends) == sorted(ids)
    zoo.pit("down")
    assert until(zoo.gone)


def test_some_of_them(zoo):
    workers(zoo)
    assert zoo.pit("up", "snake").data["started"] == ["snake-1", "snake-2"]
    assert not zoo.files.living("bell")
    assert zoo.pit("up", "bell").data["started"] == ["bell"]
    assert zoo.pit("down", "snake-1", "bell").data["stopped"] == ["snake-1", "bell"]
    assert zoo.files.living("snake-2")
    assert "bel" in zoo.pit("up", "bel", code=5).error["message"]


def test_one_that_is_killed_is_started_again_and_its_task_taken_up(zoo):
    workers(zoo, "test -e go || { touch began; exec sleep 1000; }")
    zoo.pit("up")
    (task,) = zoo.put("long")
    until((zoo.path / "began").exists)
    name = zoo.card(task).worker.partition("~")[0]
    (zoo.path / "go").touch()
    old = zoo.kill(name)
    until(lambda: zoo.files.living(name) not in (0, old))
    until(lambda: done(zoo, [task]))
    assert [one.kind for one in zoo.card(task).tries] == ["lost"]
    row = zoo.row(name)
    assert (row["state"], row["restarts"]) == ("up", 1)
    assert "killed by SIGKILL" in zoo.log("supervisor")


def test_the_supervisor_is_killed_and_nobody_is_doubled(zoo):
    workers(zoo)
    zoo.pit("up")
    before = pids(zoo)
    old = zoo.kill("supervisor")
    assert zoo.pit("status").data["supervisor"] == 0
    assert {row["state"] for row in zoo.pit("status").data["agents"]} == {"up"}
    dead = zoo.kill("snake-2")  # nobody heals it now
    assert until(lambda: zoo.row("snake-2")["state"] == "down")

    again = zoo.pit("up").data
    assert again["started"] == ["snake-2"]
    assert zoo.pid("supervisor") != old
    after = pids(zoo)
    assert after.pop("snake-2") != dead
    assert after == {name: pid for name, pid in before.items() if name != "snake-2"}
    zoo.kill("supervisor")  # down works without
    assert zoo.pit("down").data["stopped"] == NAMES
    assert until(zoo.gone)


def test_a_service_that_is_killed_leaves_nothing_behind(zoo):
    zoo.crew("""\
        [[service]]
        name = "bell"
        command = ["sh", "-c", "echo $$ >> pids; trap 'test -e deaf || exit 0' TERM; while :; do sleep 0.1; done"]
    """)
    (zoo.path / "deaf").touch()
    zoo.pit("up")
    until(lambda: zoo.text("pids").endswith("\n"))
    first = int(zoo.text("pids"))
    zoo.pids.add(first)
    zoo.kill("bell")
    until(lambda: zoo.text("pids").count("\n") == 2)
    assert not alive(first)  # its name was free only once the command was gone
    zoo.pids.add(int(zoo.text("pids").split()[1]))
    (zoo.path / "deaf").unlink()


def test_one_that_nobody_watches_stays_down(zoo):
    zoo.crew("""\
        [[service]]
        name = "once"
        command = ["sh", "-c", "echo ran >> runs; exit 3"]
        watch = "none"
        [[service]]
        name = "often"
        command = ["sh", "-c", "echo ran >> often; exit 3"]
    """)
    zoo.pit("up", code=None)
    until(lambda: zoo.text("often").count("ran") >= 3)
    until(lambda: zoo.row("once")["state"] == "down")
    assert zoo.text("runs") == "ran\n"
    assert zoo.row("once")["why"] == "ended with exit code 3; it is not restarted (watch = none)"
    until(lambda: zoo.seen("often").restarts >= 2 and zoo.seen("often").failures >= 3)
    pauses = [line.rpartition(" in ")[2] for line in zoo.log("supervisor").splitlines() if "started again" in line]
    assert pauses[:3] == ["0.5s", "1s", "2s"]


def test_down_lets_a_task_finish_and_now_does_not(zoo):
    workers(zoo, "until test -e go-$TASKPIT_TASK; do sleep 0.05; done")
    zoo.pit("up", "snake-1")
    first, second = zoo.put("first", "second")
    until(lambda: zoo.row("snake-1")["task"] == first)
    until(lambda: zoo.row("snake-1")["last"] == f"working on {first}")
    os.kill(zoo.pid("snake-1"), signal.SIGTERM)  # what `down` does first
    (zoo.path / f"go-{first}").touch()
    until(lambda: done(zoo, [first]))
    until(lambda: zoo.card(second).state is State.CLAIMED)  # healed, it goes on
    assert zoo.pit("down", "--now").data["stopped"] == ["snake-1"]
    assert until(zoo.gone)
    assert zoo.card(second).state is State.READY
    assert zoo.card(second).task.attempts == 0


def test_up_says_that_one_ends_its_task_first(zoo, monkeypatch):
    """It said that it was not started, and nothing of why."""
    workers(zoo, "until test -e go; do sleep 0.02; done")
    (task,) = zoo.put("long")
    zoo.pit("up", "snake-1")
    before = zoo.pid("snake-1")
    until(lambda: zoo.files.now("snake-1").task == task)
    CrewControl(zoo.files, os.environ).down(["snake-1"], now=False)  # and its caller does not wait
    monkeypatch.setattr(control, "PATIENCE", 0.0)
    said = zoo.pit("up", "snake-1", code=1)
    assert f"ends {task} first; then it is started" in said.data["failed"]["snake-1"]
    (zoo.path / "go").touch()
    until(lambda: zoo.files.living("snake-1") not in (0, before))


def test_restart_reads_the_file_again(zoo):
    workers(zoo, "echo old > made")
    zoo.pit("up", "snake-1", "bell")
    before = pids(zoo, ["snake-1", "bell"])
    at_work(zoo, "snake-1")
    workers(zoo, "echo new > made")
    for _ in range(2):  # until it is started again
        warned = zoo.pit("up", "snake-1")
        assert "older settings" in warned.err
    assert zoo.pit("restart", "snake-1").data["started"] == ["snake-1"]
    assert zoo.pid("snake-1") != before["snake-1"]
    assert zoo.pid("bell") == before["bell"]
    assert zoo.pit("up", "snake-1", "bell").err == ""
    (task,) = zoo.put("which")
    until(lambda: done(zoo, [task]))
    assert zoo.text("made") == "new\n"


@pytest.mark.parametrize("damaged", ['{"plan": 3}', '{"plan', "[1]", None])
def test_a_plan_that_is_damaged_or_lost_loses_nobody(zoo, damaged):
    """`crew down` said that none was up, and they worked on with nobody to mind them."""
    workers(zoo)
    zoo.pit("up", "snake-1", "bell")
    running = pids(zoo, ["snake-1", "bell"])
    path = zoo.path / ".taskpit/crew/plan.json"
    if damaged is None:
        path.unlink()
    else:
        path.write_text(damaged)
        until(lambda: "the crew goes on as it was" in zoo.log("supervisor"))
        assert pids(zoo, ["snake-1", "bell"]) == running
    said = boxes.pit("-C", zoo.root, "crew", "down", "--json")
    assert (said.code, sorted(said.data["stopped"])) == (0, ["bell", "snake-1"])
    until(zoo.gone)


def test_a_crew_ends_with_its_queue(tmp_path):
    """A service ran for ever, and the supervisor made half of the folder again."""
    zoo = Zoo(tmp_path / "gone")
    workers(zoo)
    zoo.pit("up")
    running = [*pids(zoo).values(), zoo.pid("supervisor")]
    zoo.queue.close()
    zoo.path.rename(tmp_path / "moved")
    until(lambda: not any(alive(pid) for pid in running))
    assert not zoo.path.exists()


def test_who_is_no_longer_in_the_file_ends(zoo):
    workers(zoo)
    zoo.pit("up")
    at_work(zoo, "snake-1", "snake-2")  # before one goes
    zoo.crew(WORKERS.replace("{act}", "true").replace("count = 2", "count = 1"))
    zoo.pit("up")
    until(lambda: not zoo.files.living("snake-2"))
    assert zoo.files.living("snake-1")
    os.kill(zoo.pid("supervisor"), signal.SIGTERM)  # it takes the crew along
    until(zoo.gone)
