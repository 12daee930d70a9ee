"""Beside agents that know only the original: glob, rename, write, rename."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from boxes import LEASE, ended, load, make_fast, pit, python, read, reopened, write

from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Task
from taskpit.queue import Queue

#: The original's claim loop; it ends instead of sleeping when nothing is pending.
LOOP = """
import os, sys
from glob import glob
os.chdir(sys.argv[1])
agent = sys.argv[2]

def claim_task(task_file):
    claimed = task_file.replace("_pending.md", f"_inprogress_{agent}.md")
    try:
        os.rename(task_file, claimed)
    except FileNotFoundError:
        return None
    return claimed

while True:
    pending = glob("tasks/*_pending.md")
    if not pending:
        break
    task_file = pending[0]
    claimed = claim_task(task_file)
    if not claimed:
        continue
    task_id = os.path.basename(task_file).removesuffix("_pending.md")
    task_content = open(claimed).read()
    result = f"{task_id} by {agent}"
    with open(f"outputs/{task_id}_result.md", "w") as file:
        file.write(result)
    os.rename(claimed, f"tasks/{task_id}_done.md")
    print(task_id, flush=True)
"""

OURS = """
import sys
from taskpit.queue import Queue
from taskpit.model import Done, Said
queue = Queue.open(sys.argv[1])
while claims := queue.claim(sys.argv[2]):
    for claim in claims:
        if queue.finish(claim, Done(output=f"{claim.task.id} by {sys.argv[2]}"))[0] is Said.OK:
            print(claim.task.id, flush=True)
queue.close()
"""


def names(space, folder="tasks"):
    return sorted(os.listdir(f"{space}/{folder}"))


@pytest.mark.races
def test_the_originals_loop_and_two_of_ours_over_five_hundred_tasks(tmp_path):
    space = make_fast(tmp_path / "space", "workspace")
    queue = Queue.open(space)
    wanted = [f"task_{number:03d}" for number in range(1, 501)]
    queue.store.put([Task(id=task_id, title=task_id) for task_id in wanted])
    crew = [python(LOOP, space, "agent_a"), python(OURS, space, "agent_b"), python(OURS, space, "agent_c_done")]
    done = Counter(task_id for worker in crew for task_id in ended(worker).split())
    assert set(done) == set(wanted)
    assert set(done.values()) == {1}
    assert names(space) == [f"{task_id}_done.md" for task_id in wanted]
    assert names(space, "outputs") == [f"{task_id}_result.md" for task_id in wanted]
    for task_id in wanted:
        assert f"{task_id} by agent_" in read(f"{space}/outputs/{task_id}_result.md")
    queue.close()
    queue = reopened(space, "workspace")
    sweep(queue)
    assert sweep(queue) == []
    assert queue.store.counts() == {State.READY: 0, State.CLAIMED: 0, State.DONE: 500, State.FAILED: 0}
    assert queue.store.check() == []
    assert {entry["status"] for entry in load(f"{space}/manifest.json")["tasks"]} == {"done"}
    queue.close()


def test_task_001_inprogress_agent_a_through_our_hands(queue, space):
    """Claimed as in the original's tree, given back, and claimed again: the names are the original's."""
    queue.store.put([Task(id="task_001", title="one")])
    queue.claim("agent_a", verbatim=True)
    assert names(space) == ["task_001_inprogress_agent_a.md"]
    card = queue.card("task_001")
    assert (card.state, card.worker) == (State.CLAIMED, "agent_a")
    assert queue.finish(queue.holding("task_001", "agent_a"), Done(output="yes"))[0] is Said.OK
    assert names(space) == ["task_001_done.md"]
    assert names(space, "outputs") == ["task_001_result.md"]


@pytest.mark.parametrize("agent", ["agent_a", "_done_", "x_inprogress_y", "a_pending", "a__b"])
def test_agents_full_of_underscores(queue, space, agent):
    agent = f"a{agent}"
    queue.store.put([Task(id="task_001_x", title="one")])
    (claim,) = queue.claim(agent, verbatim=True)
    assert queue.card("task_001_x").worker == agent
    assert queue.finish(claim, Failed(error="no", final=True))[0] is Said.OK
    assert names(space) == ["task_001_x_failed.md"]


def test_what_waited_an_hour_is_not_taken_back(queue, space, clock):
    """From us, from an agent nobody knows, and from one that also uses our commands."""
    queue.store.put([Task(id="earlier", title="earlier")])
    (claim,) = queue.claim("both_ways", verbatim=True)
    queue.finish(claim, Done())
    for agent in ("ours", "stranger", "both_ways"):
        path = f"{space}/tasks/{agent}_task_pending.md"
        write(path, "waits\n")
        os.utime(path, (clock.now() - 3600, clock.now() - 3600))
        if agent == "ours":
            queue.claim("ours", ids=("ours_task",))
        else:
            os.rename(path, f"{space}/tasks/{agent}_task_inprogress_{agent}.md")
    clock.advance(5)
    sweep(queue)
    assert queue.store.counts()[State.CLAIMED] == 3
    clock.advance(LEASE + 10)
    sweep(queue)
    assert queue.store.counts()[State.CLAIMED] == 0


def test_killed_between_output_and_done(queue, space, clock):
    """The output alone says nothing; the task is done again, and the half-written output is kept aside."""
    queue.store.put([Task(id="task_001", title="one")])
    os.rename(f"{space}/tasks/task_001_pending.md", f"{space}/tasks/task_001_inprogress_agent_a.md")
    write(f"{space}/outputs/task_001_result.md", "half of what I fou")
    sweep(queue)
    clock.advance(queue.config.abandoned + 10)
    sweep(queue)
    assert queue.card("task_001").state is State.READY
    (claim,) = queue.claim("agent_b")
    assert queue.finish(claim, Done(output="the whole"))[0] is Said.OK
    assert "the whole" in read(f"{space}/outputs/task_001_result.md")
    card = queue.card("task_001")
    assert card.result.output == "the whole"
    assert [read(queue.store.folder.at(late)) for late in card.late] == ["half of what I fou"]
    assert load(f"{space}/manifest.json")["tasks"][0]["owner"] == "agent_b"
    assert sweep(queue) == []


def test_a_slow_agent_whose_task_was_taken_back(queue, space, clock):
    """It writes its output over ours; its rename fails; ours is put back and its own kept."""
    queue.store.put([Task(id="task_001", title="one")])
    os.rename(f"{space}/tasks/task_001_pending.md", f"{space}/tasks/task_001_inprogress_agent_a.md")
    sweep(queue)
    clock.advance(queue.config.abandoned + 10)
    sweep(queue)
    (claim,) = queue.claim("agent_b")
    queue.finish(claim, Done(output="ours"))
    write(f"{space}/.new", "theirs")
    os.rename(f"{space}/.new", f"{space}/outputs/task_001_result.md")
    with pytest.raises(FileNotFoundError):
        os.rename(f"{space}/tasks/task_001_inprogress_agent_a.md", f"{space}/tasks/task_001_done.md")
    sweep(queue)
    assert "ours" in read(f"{space}/outputs/task_001_result.md")
    assert [read(queue.store.folder.at(late)) for late in queue.card("task_001").late] == ["theirs"]


def test_an_agent_that_fails_by_name(queue, space):
    """`_failed.md`, as the original says, can be retried."""
    queue.store.put([Task(id="task_001", title="one", priority=3)])
    os.rename(f"{space}/tasks/task_001_pending.md", f"{space}/tasks/task_001_failed.md")
    assert queue.card("task_001").state is State.FAILED
    queue.retry("task_001", "ann")
    assert names(space) == ["task_001_pending.md"]
    assert queue.card("task_001").task.priority == 3
    (claim,) = queue.claim("agent_a")
    assert queue.finish(claim, Done(output="yes"))[0] is Said.OK
    assert sweep(queue) == []
    assert queue.card("task_001").state is State.DONE


def test_files_by_hand_become_tasks(queue, space):
    write(f"{space}/tasks/task_007_pending.md", "look at the logs\n")
    write(f"{space}/tasks/notes.md", "not a task\n")
    write(f"{space}/tasks/bad_inprogress_.md", "nobody's\n")
    (claim,) = queue.claim("agent_a")
    assert (claim.task.id, claim.task.title) == ("task_007", "look at the logs")
    sweep(queue)
    assert "notes.md" in names(space)
    assert queue.store.allot([""]) == ["task_008"]


def test_prompts_of_agents_are_left_alone(queue, space):
    write(f"{space}/agents/agent_a.md", "You are agent_a.\n")
    sweep(queue)
    assert pit("-C", space, "doctor").code == 0
    assert read(f"{space}/agents/agent_a.md") == "You are agent_a.\n"
