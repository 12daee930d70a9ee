"""The documents that the layouts were made from, field by field, on the disk: what they show is read, a whole life is
lived by the commands, and each file is compared with what the document says of it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from boxes import ORIGINAL_TASK, load, make_fast, pit, read, write

from taskpit.clock import instant

FOOD = """# food-0007-reverse-string
- **task:** Implement a `reverse(s)` function in scraps/reverse.py and a test that proves it.
- **done-when:** `python -m pytest scraps/test_reverse.py -q` is green.
- **tossed-by:** keeper        # or another snake, if this is a regurgitated sub-task
"""
TASK = json.loads(ORIGINAL_TASK)
RESULT = {"task_id": str, "status": str, "verdict": str, "verdict_reason": str, "output": str}
RESULT |= {"duration_ms": int, "completed_at": int}
ERROR = {"task_id": str, "status": str, "error": str, "attempts": int, "last_attempt_at": int, "failed_at": int}
MANIFEST = ("id", "status", "owner", "created_at", "completed_at", "output")
LOCK = ("holder", "holder_type", "acquired", "expires", "task_id", "task_acquired", "task_expires")
EVENT = ("timestamp", "worker", "worker_type", "action", "activity_id", "task_id", "details")
#: How long the document lets each kind of worker have an activity, and a task of it, in seconds.
DURATIONS = {"agent": (3600, 1800), "human": (8 * 3600, 4 * 3600)}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def box(request, tmp_path):
    """A queue of the layout that the test names."""
    return make_fast(tmp_path / "queue", request.param)


def run(box, *words, code=0):
    answer = pit("-C", box, *words)
    assert answer.code == code, answer.out + answer.err
    return answer.out


def others(fields, *changed):
    return {key: value for key, value in fields.items() if key not in changed}


def kinds(fields):
    return {key: type(value) for key, value in fields.items()}


@pytest.mark.parametrize("box", ["pit"], indirect=True)
def test_food(box):
    write(f"{box}/food/food-0007-reverse-string.md", FOOD)
    shown = json.loads(run(box, "show", "0007", "--json"))["data"]
    assert (shown["id"], shown["slug"], shown["by"]) == ("0007", "reverse-string", "keeper")
    assert shown["title"] == "Implement a `reverse(s)` function in scraps/reverse.py and a test that proves it."
    assert shown["check"] == "python -m pytest scraps/test_reverse.py -q"
    run(box, "claim", "0007", "--as", "snake-2")
    assert os.listdir(f"{box}/claimed") == ["snake-2.food-0007-reverse-string.md"]
    assert read(f"{box}/claimed/snake-2.food-0007-reverse-string.md") == FOOD
    run(box, "release", "0007", "--as", "snake-2")
    assert read(f"{box}/food/food-0007-reverse-string.md") == FOOD
    run(box, "claim", "0007", "--as", "snake-2")
    log = Path(box, "trace")
    log.write_text("what I did\n", encoding="utf-8")
    run(box, "done", "0007", "--as", "snake-2", "--no-check", "--log", str(log))
    assert (os.listdir(f"{box}/claimed"), os.listdir(f"{box}/food")) == ([], [])
    assert os.listdir(f"{box}/done") == ["food-0007-reverse-string.result.md"]
    assert FOOD in read(f"{box}/done/food-0007-reverse-string.result.md")
    (waste,) = os.listdir(f"{box}/waste")
    assert re.fullmatch(r"snake-2-[\w.-]+\.log", waste), waste


@pytest.mark.parametrize("box", ["mailbox"], indirect=True)
@pytest.mark.parametrize("end", ["done", "fail"])
def test_a_message(box, end):
    name = TASK["id"]
    write(f"{box}/inbox/{name}.json", json.dumps(TASK, indent=2))
    run(box, "claim", name, "--as", "worker-1")
    held = load(f"{box}/processing/{name}.json")
    changed = ("status", "claimed_by", "claimed_at", "updated_at")
    assert (list(held), kinds(held)) == (list(TASK), kinds(TASK))
    assert others(held, *changed) == others(TASK, *changed)
    assert (held["status"], held["claimed_by"]) == ("claimed", "worker-1")
    assert held["claimed_at"] >= TASK["created_at"]
    run(box, "release", name, "--as", "worker-1")
    back = load(f"{box}/inbox/{name}.json")
    assert (list(back), others(back, "updated_at")) == (list(TASK), others(TASK, "updated_at"))
    run(box, "claim", name, "--as", "worker-1")
    write(f"{box}/.out", "Task output here...")
    words = ("--result", f"{box}/.out") if end == "done" else ("--error", "execution failed: timeout", "--final")
    run(box, end, name, "--as", "worker-1", *words)
    assert (os.listdir(f"{box}/inbox"), os.listdir(f"{box}/processing")) == ([], [])
    shown = load(f"{box}/outbox/{name}_result.json" if end == "done" else f"{box}/failed/{name}_error.json")
    wanted = RESULT if end == "done" else ERROR
    assert {key: kinds(shown)[key] for key in wanted} == wanted
    assert shown["task_id"] == name
    if end == "done":
        assert (shown["status"], shown["verdict"], shown["output"]) == ("completed", "pass", "Task output here...")
    else:
        assert (shown["status"], shown["error"], shown["attempts"]) == ("failed", "execution failed: timeout", 1)


@pytest.mark.parametrize("box", ["mailbox"], indirect=True)
def test_a_message_that_we_write_has_all_fields_in_their_order_and_kind(box):
    run(box, "add", "Implement feature X", "--id", TASK["id"], "--body", TASK["description"], "--priority", "1")
    ours = load(f"{box}/inbox/{TASK['id']}.json")
    assert [key for key in ours if key in TASK] == [key for key in TASK if key in ours]
    assert {key: type(ours[key]) for key in ours if key in TASK} == {
        key: kinds(TASK)[key] for key in ours if key in TASK
    }
    same = ("id", "title", "description", "priority", "status", "attempts", "max_attempts", "verdict")
    assert {key: ours[key] for key in same} == {key: TASK[key] for key in same}


@pytest.mark.parametrize("box", ["workspace"], indirect=True)
def test_a_task_of_a_workspace_and_its_entry(box):
    write(f"{box}/tasks/task_001_pending.md", "# Write the report\n\nAll of it.\n")
    run(box, "claim", "task_001", "--as", "agent_a")
    assert os.listdir(f"{box}/tasks") == ["task_001_inprogress_agent_a.md"]
    assert read(f"{box}/tasks/task_001_inprogress_agent_a.md") == "# Write the report\n\nAll of it.\n"
    (entry,) = load(f"{box}/manifest.json")["tasks"]
    assert others(entry, "created_at") == {
        "id": "task_001",
        "status": "inprogress",
        "owner": "agent_a",
        "completed_at": None,
        "output": None,
    }
    run(box, "done", "task_001", "--as", "agent_a")
    assert os.listdir(f"{box}/tasks") == ["task_001_done.md"]
    (entry,) = load(f"{box}/manifest.json")["tasks"]
    assert tuple(entry) == MANIFEST
    assert (entry["id"], entry["status"], entry["owner"]) == ("task_001", "done", "agent_a")
    assert entry["output"] == "outputs/task_001_result.md"
    assert os.path.isfile(f"{box}/{entry['output']}")
    assert all(MOMENT.fullmatch(entry[key]) for key in ("created_at", "completed_at"))
    assert entry["created_at"] <= entry["completed_at"]


@pytest.mark.parametrize("box", ["activities"], indirect=True)
def test_a_lock_and_the_lines_of_an_activity(box):
    os.makedirs(f"{box}/WI-001-login/locks")
    text = "work_item_id: WI-001\ntitle: Login\nactivities:\n  - id: WI-001-A1\n    title: one\n    tasks:\n"
    text += "      - id: WI-001-A1-T1\n        title: a\n        status: pending\n"
    write(f"{box}/WI-001-login/progress.yaml", text)
    run(box, "claim", "WI-001-A1", "--as", "agent-abc123")
    path = f"{box}/WI-001-login/locks/WI-001-A1.lock"
    run(box, "task", "start", "WI-001-A1-T1", "--as", "agent-abc123")
    lock = load(path)
    assert tuple(lock) == LOCK
    assert (lock["holder"], lock["holder_type"], lock["task_id"]) == ("agent-abc123", "agent", "WI-001-A1-T1")
    times = [lock[key] for key in ("acquired", "expires", "task_acquired", "task_expires")]
    assert all(map(MOMENT.fullmatch, times))
    assert times[0] < times[1]
    assert times[2] < times[3] <= times[1]
    run(box, "task", "done", "WI-001-A1-T1", "--as", "agent-abc123")
    assert os.path.exists(path)
    run(box, "done", "WI-001-A1", "--as", "agent-abc123")
    assert not os.path.exists(path)
    lines = [json.loads(line) for line in read(f"{box}/WI-001-login/changelog.log").splitlines() if line]
    assert all(set(EVENT[:4]) <= line.keys() and list(line) == [key for key in EVENT if key in line] for line in lines)
    assert all(MOMENT.fullmatch(line["timestamp"]) and line["worker_type"] == "agent" for line in lines)
    told = [line["action"] for line in lines]
    assert [word for word in told if word in ("claimed_activity", "completed_task", "completed_activity")] == [
        "claimed_activity",
        "completed_task",
        "completed_activity",
    ]
    done = next(line for line in lines if line["action"] == "completed_task")
    assert (done["activity_id"], done["task_id"]) == ("WI-001-A1", "WI-001-A1-T1")


@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize("box", ["activities"], indirect=True)
def test_how_long_locks_last(box, kind):
    os.makedirs(f"{box}/WI-001-login")
    text = "activities:\n  - id: WI-001-A1\n    tasks: [{id: WI-001-A1-T1}]\n"
    write(f"{box}/WI-001-login/progress.yaml", text)
    words = ("--as", "ann") + (("--human",) if kind == "human" else ())
    run(box, "claim", "WI-001-A1", *words)
    run(box, "task", "start", "WI-001-A1-T1", *words)
    lock = load(f"{box}/WI-001-login/locks/WI-001-A1.lock")
    times = {key: instant(lock[key], 0.0) for key in LOCK if lock[key][:2] == "20"}
    lasts = times["expires"] - times["acquired"], times["task_expires"] - times["task_acquired"]
    assert lock["holder_type"] == kind
    assert all(wanted <= one <= wanted + 1 for one, wanted in zip(lasts, DURATIONS[kind], strict=True))
