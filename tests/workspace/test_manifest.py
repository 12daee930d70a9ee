"""`manifest.json`: derived from the names, never torn, never in the way; what others wrote into it stays."""

from __future__ import annotations

import errno
import json
import os
import random

import pytest
from boxes import ended, load, make, make_fast, pit, python, read, reopened, write
from faults import Stopped, killed_at, record
from waits import numbers

from taskpit import fs
from taskpit.clock import instant, iso
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Task
from taskpit.queue import Queue
from taskpit.store import manifest as manifest_module
from taskpit.testing import FakeClock


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(manifest_module, "SHARE", 1e9)  # nothing is put off, however busy the machine is


def manifest(space):
    return load(f"{space}/manifest.json")


def entry(space, task_id="task_001"):
    (found,) = [entry for entry in manifest(space)["tasks"] if entry["id"] == task_id]
    return found


def put(queue, *ids, **fields):
    queue.store.put([Task(id=task_id, title=task_id, **fields) for task_id in ids])


# -- the original's example ------------------------------------------------------------------------


def test_an_entry_has_the_originals_keys_in_its_order(queue, space, clock):
    """`{"id", "status", "owner", "created_at", "completed_at", "output"}`, times as the original writes them."""
    created = instant("2025-03-13T10:00:00Z", 0.0)
    put(queue, "task_001", created=created)
    (claim,) = queue.claim("agent_a")
    clock.set_wall(created + 42)
    queue.finish(claim, Done(output="all of it"))
    assert manifest(space) == {
        "tasks": [
            {
                "id": "task_001",
                "status": "done",
                "owner": "agent_a",
                "created_at": "2025-03-13T10:00:00Z",
                "completed_at": "2025-03-13T10:00:42Z",
                "output": "outputs/task_001_result.md",
            }
        ]
    }
    assert list(entry(space)) == ["id", "status", "owner", "created_at", "completed_at", "output"]


def test_it_follows_every_step(queue, space):
    def told():
        return (entry(space)["status"], entry(space)["owner"], entry(space)["output"])

    put(queue, "task_001", created=1.0)
    assert told() == ("pending", None, None)
    (claim,) = queue.claim("agent_a")
    assert told() == ("inprogress", "agent_a", None)
    queue.finish(claim, Failed(error="no", final=True))
    assert told() == ("failed", "agent_a", "outputs/task_001_result.md")
    assert entry(space)["completed_at"] is not None
    queue.retry("task_001", "ann")
    assert told() == ("pending", None, None)
    assert entry(space)["completed_at"] is None
    (claim,) = queue.claim("agent_b")
    queue.finish(claim, Done(output="yes"))
    assert told() == ("done", "agent_b", "outputs/task_001_result.md")


def test_it_is_in_the_order_of_the_numbers(queue, space):
    put(queue, "task_010", "task_002", "zeta", "task_1000")
    assert [entry["id"] for entry in manifest(space)["tasks"]] == ["zeta", "task_002", "task_010", "task_1000"]


# -- foreign hands ---------------------------------------------------------------------------------


def test_unknown_fields_are_kept_through_the_whole_life(queue, space):
    put(queue, "task_001")
    foreign = manifest(space)
    foreign["project"] = {"name": "apollo"}
    foreign["tasks"][0]["reviewer"] = "ann"
    write(f"{space}/manifest.json", json.dumps(foreign))
    (claim,) = queue.claim("agent_a")
    put(queue, "task_002")
    queue.finish(claim, Done(output="yes"))
    assert manifest(space)["project"] == {"name": "apollo"}
    assert (entry(space)["reviewer"], entry(space)["status"]) == ("ann", "done")
    assert "reviewer" not in entry(space, "task_002")


def test_entries_that_are_no_task_here_are_left_as_they_stand(queue, space):
    """What a coordinator plans and has no file yet, and notes it makes for itself."""
    planned = {"id": "task_900", "status": "planned", "owner": "ann", "estimate": {"days": 3}}
    odd = ["a line", {"note": "no id"}, {"id": 7, "status": "old"}, {"id": "a b/..", "status": "old"}]
    write(f"{space}/manifest.json", json.dumps({"project": "x", "tasks": [planned, *odd]}))
    ((task_id, _),) = queue.put([Task(id="", title="one")])
    found = manifest(space)
    assert (found["project"], found["tasks"][0]["id"]) == ("x", task_id)
    assert found["tasks"][1:] == [planned, *odd]
    (claim,) = queue.claim("bob", count=1)
    queue.finish(claim, Done())
    assert manifest(space)["tasks"][1:] == [planned, *odd]
    write(f"{space}/tasks/task_900_pending.md", "# planned\n")
    os.unlink(f"{space}/tasks/{task_id}_done.md")
    queue.clock.advance(60)
    sweep(queue)
    first, *rest = manifest(space)["tasks"]
    assert (first["id"], first["status"], first["estimate"]) == ("task_900", "pending", {"days": 3})
    assert rest == odd


def test_what_others_claim_about_a_task_gives_way_to_its_name(queue, space):
    """A coordinator marked it done, but the file says pending: the file is right."""
    put(queue, "task_001")
    write(f"{space}/manifest.json", '{"tasks": [{"id": "task_001", "status": "done", "note": "mine"}]}')
    sweep(queue)
    assert (entry(space)["status"], entry(space)["note"]) == ("pending", "mine")


def test_a_coordinator_that_writes_only_the_status(queue, space):
    """The original's `update_manifest(task_id, status="done")`: what it leaves out is filled in."""
    put(queue, "task_001", created=100.0)
    os.rename(f"{space}/tasks/task_001_pending.md", f"{space}/tasks/task_001_inprogress_agent_a.md")
    write(f"{space}/outputs/task_001_result.md", "theirs\n")
    os.rename(f"{space}/tasks/task_001_inprogress_agent_a.md", f"{space}/tasks/task_001_done.md")
    write(f"{space}/manifest.json", '{"tasks": [{"id": "task_001", "status": "done"}]}')
    sweep(queue)
    told = entry(space)
    assert (told["status"], told["output"]) == ("done", "outputs/task_001_result.md")
    assert told["created_at"] == iso(100)
    assert told["completed_at"] is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"tasks": 5}', '{"tasks": [1, {"id": 7}, {}]}', "\x00"])
def test_whatever_lies_there_it_is_rebuilt(queue, space, text):
    put(queue, "task_001", "task_002")
    write(f"{space}/manifest.json", text)
    sweep(queue)
    assert [entry["id"] for entry in manifest(space)["tasks"][:2]] == ["task_001", "task_002"]


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_it_keeps_its_mode(queue, space, mode):
    put(queue, "task_001")
    os.chmod(f"{space}/manifest.json", mode)
    put(queue, "task_002")
    assert os.stat(f"{space}/manifest.json").st_mode & 0o777 == mode


def test_deleted_it_is_rebuilt(queue, space):
    put(queue, "task_001")
    os.unlink(f"{space}/manifest.json")
    sweep(queue)
    assert entry(space)["status"] == "pending"


def test_what_stands_in_its_way_stops_no_task(queue, space):
    """The index is derived: its trouble is not the queue's."""
    put(queue, "task_001")
    os.unlink(f"{space}/manifest.json")
    os.mkdir(f"{space}/manifest.json")
    (claim,) = queue.claim("agent_a")
    assert queue.finish(claim, Done(output="yes"))[0] is Said.OK


def test_a_foreign_done_without_an_output(queue, space):
    put(queue, "task_001")
    os.rename(f"{space}/tasks/task_001_pending.md", f"{space}/tasks/task_001_done.md")
    sweep(queue)
    assert (entry(space)["status"], entry(space)["output"]) == ("done", None)
    card = queue.card("task_001")
    assert (card.state, card.result.output) == (State.DONE, "")
    assert "without a result" in card.result.reason
    assert queue.claim("w") == []


@pytest.mark.parametrize(("signed", "owner"), [(True, "agent_b"), (False, None)])
def test_what_failed_again_by_renames_has_not_its_first_owner(signed, owner, queue, space, clock):
    put(queue, "task_001")
    (claim,) = queue.claim("agent_a")
    queue.finish(claim, Failed(error="no", final=True))
    told, tasks = entry(space), f"{space}/tasks/task_001"
    assert (told["status"], told["owner"]) == ("failed", "agent_a")
    for before, after in (("failed", "pending"), ("pending", "inprogress_agent_b"), ("inprogress_agent_b", "failed")):
        os.rename(f"{tasks}_{before}.md", f"{tasks}_{after}.md")
    output = f"{space}/{told['output']}"
    write(output, read(output).replace("agent_a", "agent_b") if signed else "theirs\n")
    later = clock.now() + 100
    os.utime(output, (later, later))
    put(queue, "task_002")
    assert entry(space)["owner"] == owner
    assert signed or entry(space)["completed_at"] == iso(later)


def test_an_output_that_comes_after_its_done(queue, space):
    """Some rename first and write later: their output is the result, and stays where they put it."""
    test_a_foreign_done_without_an_output(queue, space)
    write(f"{space}/outputs/task_001_result.md", "late but good\n")
    assert queue.card("task_001").result.output == "late but good\n"
    sweep(queue)
    sweep(queue)
    assert queue.card("task_001").result.output == "late but good\n"
    assert os.listdir(f"{space}/outputs") == ["task_001_result.md"]
    assert entry(space)["output"] == "outputs/task_001_result.md"
    assert sweep(queue) == []


def test_a_workspace_made_by_hand_is_told_whole(tmp_path):
    """The original's tree, task by task, without a manifest."""
    space = tmp_path / "space"
    for name in ("tasks", "agents", "outputs"):
        (space / name).mkdir(parents=True)
    (space / "tasks" / "task_001_pending.md").write_text("one\n")
    (space / "tasks" / "task_002_inprogress_agent_a.md").write_text("two\n")
    (space / "tasks" / "task_003_done.md").write_text("three\n")
    (space / "outputs" / "task_003_result.md").write_text("found it\n")
    (space / "agents" / "agent_a.md").write_text("You are agent_a.\n")
    assert pit("init", space).code == 0
    assert pit("-C", space, "sweep").code == 0
    told = {entry["id"]: (entry["status"], entry["owner"], entry["output"]) for entry in manifest(space)["tasks"]}
    assert told == {
        "task_001": ("pending", None, None),
        "task_002": ("inprogress", "agent_a", None),
        "task_003": ("done", None, "outputs/task_003_result.md"),
    }


# -- crashes and crowds ----------------------------------------------------------------------------


def test_a_task_between_two_names_keeps_its_entry(queue, space, clock):
    """While one ends its claim, another rebuilds: what a coordinator noted about the task is still there."""
    for number in numbers():
        task_id = f"task_{number:03d}"
        put(queue, task_id)
        (claim,) = queue.claim("agent_a", ids=(task_id,))
        foreign = manifest(space)
        foreign["tasks"][-1]["reviewer"] = "ann"
        write(f"{space}/manifest.json", json.dumps(foreign))
        stopped = Stopped(lambda claim=claim: queue.finish(claim, Done(output="yes")), number)
        other = reopened(space, "workspace", clock)
        manifest_module.Manifest(other.store.folder).refresh()
        stopped.go_on()
        other.close()
        assert entry(space, task_id)["reviewer"] == "ann", stopped.call
        assert entry(space, task_id)["status"] == "done", stopped.call
        if not stopped.there:
            return


def verbs(queue):
    """One life: put, claim, done; put, claim, failed."""
    for task_id, outcome in (("task_001", Done(output="yes")), ("task_002", Failed(error="no", final=True))):
        queue.store.put([Task(id=task_id, title=task_id, created=1.0)])
        (claim,) = queue.claim("agent_a", ids=(task_id,))
        queue.finish(claim, outcome)


def named(space):
    """What the names tell."""
    told = {}
    for name in os.listdir(f"{space}/tasks"):
        for state in ("pending", "inprogress", "done", "failed"):
            if f"_{state}" in name:
                told[name.partition(f"_{state}")[0]] = state
    return told


def test_killed_anywhere_it_is_right_after_the_next_sweep(tmp_path):
    clock = FakeClock()
    queue = make(tmp_path / "whole", "workspace", clock)
    with record() as calls:
        verbs(queue)
    queue.close()
    assert len(calls) > 100
    for number in range(1, len(calls) + 1, 3):
        space = str(tmp_path / str(number))
        queue = make(space, "workspace", clock)
        with killed_at(number):
            verbs(queue)
        queue.close()
        queue = reopened(space, "workspace", clock)
        if os.path.exists(f"{space}/manifest.json"):
            manifest(space)  # whatever it tells, it is valid
        sweep(queue)
        assert {entry["id"]: entry["status"] for entry in manifest(space)["tasks"]} == named(space), calls[number - 1]
        queue.close()


AGENT = """
import sys
from taskpit.queue import Queue
from taskpit.model import Done
queue = Queue.open(sys.argv[1])
print("here", flush=True)
sys.stdin.readline()
while claims := queue.claim(sys.argv[2]):
    for claim in claims:
        queue.finish(claim, Done(output=sys.argv[2]))
queue.close()
"""

READER = """
import json, sys, os
path, count = sys.argv[1], 0
print("here", flush=True)
while not os.path.exists(path + ".stop"):
    with open(path, encoding="utf-8") as file:
        tasks = json.load(file)["tasks"]
    assert all(entry["status"] in ("pending", "inprogress", "done") for entry in tasks)
    assert len({entry["id"] for entry in tasks}) == len(tasks)
    count += 1
print(count)
"""


def test_eight_agents_finish_four_hundred_tasks_and_a_reader_never_sees_nonsense(tmp_path):
    space = make_fast(tmp_path / "space", "workspace")
    queue = Queue.open(space)
    put(queue, *(f"task_{number:03d}" for number in range(1, 401)))
    crew = [python(AGENT, space, f"agent_{letter}") for letter in "abcdefgh"]
    reader = python(READER, f"{space}/manifest.json")
    for process in (*crew, reader):
        assert process.stdout.readline() == "here\n"
    for agent in crew:
        agent.stdin.write("\n")
        agent.stdin.flush()
    for agent in crew:
        ended(agent)
    write(f"{space}/manifest.json.stop", "")
    assert int(ended(reader)) > 0
    tasks = manifest(space)["tasks"]
    assert [entry["id"] for entry in tasks] == [f"task_{number:03d}" for number in range(1, 401)]
    assert {entry["status"] for entry in tasks} == {"done"}
    assert all(entry["owner"].startswith("agent_") and entry["output"] for entry in tasks)
    assert queue.store.counts()[State.DONE] == 400
    queue.close()


def test_agents_killed_at_random_and_the_next_sweep_makes_it_right(tmp_path):
    space = make_fast(tmp_path / "space", "workspace")
    queue = Queue.open(space)
    put(queue, *(f"task_{number:03d}" for number in range(1, 121)))
    chance = random.Random(4)
    for round_number in range(6):
        crew = [python(AGENT, space, f"agent_{letter}{round_number}") for letter in "abc"]
        for agent in crew:
            assert agent.stdout.readline() == "here\n"
            agent.stdin.write("\n")
            agent.stdin.flush()
        while queue.store.counts()[State.DONE] < 15 * (round_number + 1) and any(a.poll() is None for a in crew):
            pass
        for agent in chance.sample(crew, len(crew)):
            agent.kill()
            agent.communicate()
        manifest(space)
        swept = reopened(space, "workspace")
        sweep(swept)
        assert {entry["id"]: entry["status"] for entry in manifest(space)["tasks"]} == named(space)
        swept.close()
    assert set(named(space)) == {f"task_{number:03d}" for number in range(1, 121)}
    queue.close()


@pytest.mark.parametrize(
    "manifest",
    [
        {"tasks": []},
        {"version": 1, "tasks": [{"id": "a", "owner": None, "n": 1.5}, {"id": "bé", "list": [1, {"x": []}]}, {}]},
        {"deep": {"a": [1, 2, {"b": "c"}]}, "tasks": [{"id": 'quo"te\n'}], "last": True},
    ],
)
def test_it_is_spelt_as_json_with_an_indent(manifest):
    assert manifest_module.spell(manifest) == json.dumps(manifest, indent=2, ensure_ascii=False)


def test_a_large_one_is_not_rebuilt_for_every_change(tmp_path, monkeypatch):
    """It is when the queue is closed, waits or renews, and by a sweep."""
    monkeypatch.setattr(manifest_module.time, "monotonic", lambda: 1000.0)  # no time goes by
    queue = make(tmp_path / "space", "workspace", FakeClock())

    def told():
        with open(tmp_path / "space" / "manifest.json", encoding="utf-8") as file:
            return [entry["id"] for entry in json.load(file)["tasks"]]

    monkeypatch.setattr(manifest_module.time, "thread_time", iter(range(1000)).__next__)
    ids = [queue.put([Task(id="", title="one")])[0][0] for _ in range(4)]
    assert told() == ids[:1]
    sweep(queue)
    assert told() == ids
    ids += [queue.put([Task(id="", title="more")])[0][0] for _ in range(2)]
    assert told() == ids[:4]
    queue.store.wait(0.0)
    assert told() == ids
    (claim,) = queue.claim("agent_a")
    ids += [queue.put([Task(id="", title="more")])[0][0] for _ in range(2)]
    assert told() == ids[:6]
    queue.renew(claim)
    assert told() == ids
    ids += [queue.put([Task(id="", title="more")])[0][0] for _ in range(2)]
    assert told() == ids[:8]
    queue.close()
    assert told() == ids


@pytest.mark.parametrize("call", ["open", "read"])
def test_one_that_the_disk_does_not_give_is_left_alone(queue, space, call):
    """It was taken for one that is no JSON and set aside, with what others had written into it."""
    put(queue, "task_001")
    write(f"{space}/manifest.json", json.dumps({**manifest(space), "project": "theirs"}))

    def refuse(what, path):
        if what == call and path.endswith("/manifest.json"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    fs.set_hook(refuse)
    try:
        put(queue, "task_002")
    finally:
        fs.set_hook(None)
    assert os.listdir(f"{space}/.taskpit/quarantine") == []
    assert os.path.exists(f"{space}/.taskpit/manifest.dirty"), "it is still to be done"

    queue.close()

    assert manifest(space)["project"] == "theirs"
    assert [one["id"] for one in manifest(space)["tasks"]] == ["task_001", "task_002"]
