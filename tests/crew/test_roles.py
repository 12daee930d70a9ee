"""Who does what: planners take what is big, workers what is small, cleanup composts and reclaims."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest
from waits import until

from taskpit.crew.member import _tell_waiting
from taskpit.errors import Nothing
from taskpit.model import Done, State, Task
from taskpit.queue import Queue
from taskpit.run.pool_options import survey
from taskpit.store.memory import MemoryStore
from taskpit.store.opening import init


@pytest.fixture(params=["files", "memory"])
def queue(request, tmp_path):
    if request.param == "memory":
        queue = Queue(MemoryStore())
    else:
        init(str(tmp_path), "pit")
        queue = Queue.open(str(tmp_path))
    yield queue
    queue.close()


def test_big_tasks_are_claimed_by_those_who_ask_for_them(queue):
    queue.put([Task(id="0001", title="big", big=True, priority=5), Task(id="0002", title="small", tags=("x",))])
    assert queue.claim("snake-1", big=True, tags=["x"]) == []
    (small,) = queue.claim("snake-1", big=False)
    assert small.task.id == "0002"
    assert queue.claim("snake-1", big=False, count=5) == []
    with pytest.raises(Nothing, match="not of the sort"):
        queue.claim("snake-1", ids=["0001"], big=False)
    (big,) = queue.claim("planner", big=True)
    assert big.task.id == "0001"
    assert queue.claim("planner", big=True) == []
    queue.finish(big, Done(output="a plan"))
    queue.put([Task(id="0003", title="another", big=True)])
    assert queue.claim("ada@home")[0].task.id == "0003"  # people and `pit claim` take either


def test_a_pool_of_small_ones_does_not_wait_for_big_ones(queue):
    queue.put([Task(id="0001", title="big", big=True)])
    assert survey(queue, big=False).coming == 0
    assert survey(queue, big=True).coming == 1
    assert survey(queue).coming == 1


def test_big_food_goes_to_the_planner_only(zoo):
    zoo.crew("""\
        [backend.sh]
        command = ["sh", "-c", "echo eaten by $TASKPIT_AS"]

        [defaults]
        backend = "sh"

        [[agent]]
        name = "planner"
        role = "planner"

        [[agent]]
        name = "snake"
    """)
    big = zoo.put("big one", "big two", big=True, priority=9)
    small = zoo.put("small one", "small two")
    zoo.pit("up", "snake")
    until(lambda: all(zoo.card(one).state is State.DONE for one in small))
    assert all(zoo.card(one).state is State.READY for one in big)
    zoo.pit("up", "planner")
    until(lambda: all(zoo.card(one).state is State.DONE for one in big))
    eaters = {one: zoo.card(one).result.worker.partition("~")[0] for one in (*big, *small)}
    assert {eaters[one] for one in big} == {"planner"}
    assert {eaters[one] for one in small} == {"snake"}
    assert sorted(os.listdir(zoo.path / "done")) == [
        "food-0001-big-one.plan.md",
        "food-0002-big-two.plan.md",
        "food-0003-small-one.result.md",
        "food-0004-small-two.result.md",
    ]


def test_big_food_without_a_planner_is_told(zoo):
    zoo.crew('[[agent]]\nname = "keeper"\nrole = "keeper"\n')
    (big,) = zoo.put("big", big=True)
    (held,) = zoo.put("held", hold="ask ada")
    stuck = {one["id"]: one["why"] for one in zoo.pit("status").data["stuck"]}
    assert stuck == {held: "ask ada", big: "it is big, and the crew has no planner to split it"}
    assert [one["id"] for one in zoo.pit("status").data["needs_you"]] == [held]


def test_cleanup_composts_and_reclaims(zoo):
    zoo.crew('[[agent]]\nname = "cleanup"\nrole = "cleanup"\nevery = "1s"\n')
    (task,) = zoo.put("abandoned")
    member = zoo.queue.store.join("snake-9", 60.0)
    zoo.queue.claim("snake-9")
    old = zoo.path / "waste" / "snake-9-20260614T175042Z.log"
    old.write_text("some error\nlast words\n")
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    member.leave()  # as if it had died
    zoo.pit("up")
    until(lambda: zoo.card(task).state is State.READY)
    until(lambda: not old.exists())
    assert "last words" in zoo.text("waste/COMPOST.md")
    assert task in zoo.text("scraps/reclaims.md")
    until(lambda: "recovered" in zoo.log("cleanup") and "composted" in zoo.log("cleanup"))


def test_the_keeper_tells_what_waits_for_a_person(zoo):
    zoo.crew('[[agent]]\nname = "keeper"\nrole = "keeper"\nevery = "1s"\n')
    zoo.pit("up")
    (task,) = zoo.put("stuck", hold="ask ada")
    until(lambda: f"{task} waits for a person: ask ada" in zoo.log("keeper"))


@pytest.mark.parametrize(
    ("delivery", "command"),
    [
        ("file", '["sh", "-c", "cat \\"$1\\" > told", "sh", "{prompt_file}"]'),
        ("stdin", '["sh", "-c", "cat > told"]'),
        ("argument", '["sh", "-c", "printf \'%s\\\\n\' \\"$1\\" > told", "sh"]'),
    ],
)
def test_what_an_agent_is_told(zoo, delivery, command):
    (zoo.path / "agents").mkdir()
    (zoo.path / "agents" / "adder.md").write_text("You are an adder.\n")
    zoo.crew(f"""\
        [backend.sh]
        command = {command}
        prompt = "{delivery}"
        flags = []
        limit = 1
        stagger = "0.1s"

        [[agent]]
        name = "adder"
        backend = "sh"
    """)
    zoo.pit("up")
    (task,) = zoo.put("Add up 2 and 2", body="Carefully.")
    until(lambda: zoo.card(task).state is State.DONE)
    told = zoo.text("told")
    assert told.startswith("You are an adder.\n\n---\n\n# Add up 2 and 2\n\nCarefully.\n")


def test_no_task_is_to_blame_for_a_prompt_file_that_is_gone(zoo):
    """Each lost its attempts to it, and the whole queue failed."""
    (zoo.path / "agents").mkdir()
    prompt = zoo.path / "agents" / "adder.md"
    prompt.write_text("You are an adder.\n")
    zoo.crew('[backend.sh]\ncommand = ["true"]\n\n[[agent]]\nname = "adder"\nbackend = "sh"\n')
    zoo.pit("up")
    prompt.unlink()
    (task,) = zoo.put("Add up")
    until(lambda: "attempt 1" in zoo.log("adder") or "adder.md cannot be read" in zoo.log("adder"))
    assert zoo.card(task).task.attempts == 0
    prompt.write_text("You are an adder.\n")
    until(lambda: zoo.card(task).state is State.DONE)


def test_a_backend_runs_so_many_at_once(zoo):
    zoo.crew("""\
        [backend.sh]
        command = ["sh", "-c", "mkdir here || touch doubled; until test -e go; do sleep 0.02; done; rmdir here"]
        limit = 1

        [[agent]]
        name = "snake"
        count = 3
        backend = "sh"
    """)
    zoo.pit("up")
    ids = zoo.put("one", "two", "three", "four")
    until((zoo.path / "here").exists)
    (zoo.path / "go").touch()
    until(lambda: all(zoo.card(one).state is State.DONE for one in ids))
    assert not (zoo.path / "doubled").exists()


def test_a_paused_queue_shows(zoo):
    zoo.crew("""\
        [backend.sh]
        command = ["true"]
        [[agent]]
        name = "snake"
        backend = "sh"
    """)
    zoo.pit("up")
    zoo.queue.store.pause("lunch", 0.0, "ada@home")
    row = zoo.row("snake")
    assert row["state"] == "paused"
    assert "lunch" in row["why"]


def test_a_preset_is_a_backend(zoo):
    agent = zoo.path / "claude"
    agent.write_text("#!/bin/sh\nexit 9\n")
    agent.chmod(0o755)
    zoo.crew("""\
        [backend.claude]
        preset = "claude"
        bin = "./claude"
        model = "tiny"

        [[agent]]
        name = "snake"
        backend = "claude"
    """)
    (task,) = zoo.put("try", max_attempts=1)
    zoo.pit("up")
    until(lambda: zoo.card(task).tries or zoo.card(task).result)


def test_of_many_that_wait_for_a_person_none_is_left_out():
    queue, told = Queue(MemoryStore()), []
    queue.put([Task(id=f"{number:04d}", title="held", hold="ask ada") for number in range(1, 1202)])
    waiting = _tell_waiting(queue, SimpleNamespace(say=told.append), set())
    assert len(waiting) == len(told) == 1201
