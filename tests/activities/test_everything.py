"""What works on every queue works on work items: the pool, every command, moving to and from other layouts."""

from __future__ import annotations

import json
import time

import pytest
from boxes import LAYOUTS, make_fast, pit, read
from boxes import make as make_other
from waits import PATIENCE
from workitems import FIRST, ITEM, SECOND, actions, by_hand, entry, file_of, make, put, status, steps, take

from taskpit import layouts, transfer
from taskpit.clock import Clock
from taskpit.layouts.progress import Progress
from taskpit.model import Ask, Done, Evidence, Failed, State, Task
from taskpit.queue import Queue
from taskpit.store.activities import steps as moves
from taskpit.testing import FakeClock

TWO = """\
title: Ship the login
activities:
  - {id: A1, title: Backend}
  - {id: A2, title: Frontend, depends_on: [A1]}
"""


@pytest.fixture
def folder(tmp_path):
    """A queue for commands, with one work item and two activities; where it is."""
    root = make_fast(tmp_path / "q", "activities")
    with open(f"{root}/.taskpit/config.toml", "a", encoding="utf-8") as file:
        file.write('backoff = "0.01s"\nbackoff_longest = "0.01s"\nmax_attempts = 2\n')
    queue = Queue.open(root)
    by_hand(queue, TWO)
    queue.close()
    return root


def run(folder, *words, code=0):
    answer = pit("-C", folder, *words, "--json")
    assert answer.code == code, answer.out + answer.err
    return answer.data if code == 0 else answer.error


def work(folder, script):
    """`pit work` until nothing is left that could come, with workers that run this script; its exit code."""
    return pit("-C", folder, "work", "-n", "2", "--until", "empty", "--", "sh", "-c", script).code


def state(folder, task_id):
    return run(folder, "show", task_id)["state"]


# -- the pool --------------------------------------------------------------------------------------


def test_a_pool_does_all_of_it(folder):
    run(folder, "add", "Alone")
    assert work(folder, "echo it works") == 0
    assert [state(folder, one) for one in (FIRST, SECOND, ITEM, "WI-002", "WI-002-A1")] == ["done"] * 5
    assert "it works" in read(f"{folder}/WI-001-by-hand/deliverables/{FIRST}.md")
    assert not [lock for lock in run(folder, "locks") if lock["name"].startswith("WI-")]
    assert run(folder, "doctor")["findings"] == []


def test_what_fails_is_tried_again_and_then_failed(folder):
    assert work(folder, "echo broken >&2; exit 1") in (0, 1)
    shown = run(folder, "show", FIRST)
    assert (shown["state"], len(shown["tries"])) == ("failed", 2)
    assert state(folder, SECOND) == "ready"
    assert "which failed" in run(folder, "why", SECOND)["why"][0]
    run(folder, "retry", FIRST)
    assert state(folder, FIRST) == "ready"
    assert work(folder, "true") == 0
    assert state(folder, SECOND) == "done"


def test_a_check_decides(folder):
    run(folder, "edit", FIRST, "--check", f"test -f '{folder}/proof'")
    assert work(folder, "true") in (0, 1)
    assert state(folder, FIRST) == "failed"
    run(folder, "retry", FIRST)
    assert work(folder, f"touch '{folder}/proof'") == 0
    shown = run(folder, "show", FIRST)
    assert (shown["state"], shown["result"]["evidence"]["exit_code"]) == ("done", 0)


# -- every command ---------------------------------------------------------------------------------


def test_asked_and_answered(folder):
    run(folder, "claim", FIRST, "--as", "bot")
    run(folder, "ask", FIRST, "which database?", "--as", "bot")
    assert "which database?" in run(folder, "why", FIRST)["why"][0]
    assert run(folder, "claim", "--as", "bot", code=3)["code"] == "nothing_to_claim"
    run(folder, "answer", FIRST, "SQLite")
    assert "SQLite" in run(folder, "show", FIRST)["body"]
    assert run(folder, "claim", "--as", "bot")["task"]["id"] == FIRST


def test_split_into_more_activities(folder, tmp_path):
    run(folder, "claim", FIRST, "--as", "bot")
    (tmp_path / "parts.jsonl").write_text('{"title": "one half"}\n{"title": "the other"}\n')
    data = run(folder, "split", FIRST, "-F", tmp_path / "parts.jsonl", "--wait", "--as", "bot")
    assert data["children"] == ["WI-001-A3", "WI-001-A4"]
    assert "needs WI-001-A3" in run(folder, "why", FIRST)["why"][0]
    assert work(folder, "true") == 0
    assert [state(folder, one) for one in (FIRST, SECOND, "WI-001-A3", "WI-001-A4")] == ["done"] * 4


def test_cancelled_and_stopped(folder):
    run(folder, "cancel", SECOND, "--reason", "not any more")
    assert state(folder, SECOND) == "failed"
    run(folder, "claim", FIRST, "--as", "bot")
    run(folder, "cancel", FIRST)
    assert run(folder, "renew", FIRST, "--as", "bot")["stop"] is True


def test_looking_and_changing(folder):
    assert [task["id"] for task in run(folder, "list")] == [FIRST, SECOND]
    assert [task["id"] for task in run(folder, "ready")] == [FIRST]
    assert run(folder, "edit", FIRST, "--priority", "7", "--tag", "web")["priority"] == 7
    run(folder, "note", FIRST, "mind the gap")
    assert "mind the gap" in run(folder, "show", FIRST)["notes"]
    assert "mind the gap" in read(f"{folder}/WI-001-by-hand/notes.md")
    assert [task["id"] for task in run(folder, "list", "--state", "ready")] == [FIRST]
    assert run(folder, "claim", "--tag", "web", "--as", "bot")["task"]["id"] == FIRST
    assert run(folder, "renew", FIRST, "--as", "bot", "--lease", "10m")["lease_seconds"] == 600
    assert run(folder, "release", FIRST, "--as", "bot")
    assert run(folder, "stats")["ready"] == 2
    assert {event["action"] for event in run(folder, "log")} >= {"edited_activity", "noted", "released_activity"}
    assert run(folder, "sweep") == {"did": [], "dry_run": False}
    for word in ("001", "wi-001", "WI-001"):
        assert run(folder, "show", word)["id"] == ITEM, word


def test_the_tree(folder):
    run(folder, "add", "Design", "--parent", FIRST)
    run(folder, "add", "Approve", "--parent", FIRST, "--set", "actor=human")
    run(folder, "claim", FIRST, "--as", "ann", "--human")
    run(folder, "task", "start", f"{FIRST}-T1", "--as", "ann")
    (item,) = run(folder, "status")["work_items"]
    first, second = item["activities"]
    assert (first["holder"], first["holder_type"], first["task"]) == ("ann", "human", f"{FIRST}-T1")
    assert 8 * 3600 - 60 < first["seconds_left"] <= 8 * 3600 + 1
    assert second["held"] == f"needs {FIRST}, which is running"
    text = pit("-C", folder, "status").out
    assert "WI-001  Ship the login  0/2 activities, in progress" in text
    assert f"→ {FIRST}  Backend  ann (human)" in text
    assert f"→ {FIRST}-T1  Design  being worked on" in text
    assert f"○ {FIRST}-T2  Approve  for a person" in text


def test_a_slow_machine_is_told_of_the_time_that_was_given(folder, monkeypatch):
    """It is the same in each line of a page: `30m`, not what is left of it when the line is printed."""
    run(folder, "add", "Design", "--parent", FIRST)
    run(folder, "claim", FIRST, "--as", "bot", "--lease", "1h")
    start = moves.start

    def slowly(*words):
        lock = start(*words)
        monkeypatch.setattr(Clock, "now", lambda _: time.time() + 5)
        return lock

    monkeypatch.setattr(moves, "start", slowly)
    assert pit("-C", folder, "task", "start", f"{FIRST}-T1", "--as", "bot").out == f"{FIRST}-T1 is yours for 30m\n"


def test_the_tree_shows_no_escape_sequences(folder):
    queue = Queue.open(folder)
    path = file_of(queue)
    queue.close()
    path.write_text(path.read_text().replace("Backend", '"\\e[31mred\\e]0;title\\a"'))
    assert "\x1b" not in pit("-C", folder, "status").out
    assert "\x1b" not in pit("-C", folder, "list").out


# -- to and from other layouts ---------------------------------------------------------------------


def furnished(tmp_path, clock):
    """Work items with something of everything."""
    queue = make(tmp_path / "source", clock)
    by_hand(queue, TWO)
    put(queue, "Design", "Approve", parent=SECOND)
    put(queue, "Docs", "Broken", by="ann", tags=("web",), priority=4)
    queue.finish(take(queue), Done(output="it works", evidence=Evidence(command="make", exit_code=0)))
    queue.finish(take(queue, SECOND), Failed(error="once", kind="infra"))
    queue.finish(take(queue, "WI-001-A4"), Failed(error="never", final=True))
    queue.finish(take(queue, "WI-001-A3"), Ask(question="which?"))
    queue.note("WI-001-A3", "mind the gap", "ann")
    queue.put([Task(id="", title="Alone", by="ann")])
    clock.advance(10_000)
    return queue


def moved(source, target, layout):
    check = layouts.get(layout).check_id
    cargo = transfer.load(transfer.dump(source.store))
    done = transfer.copy(cargo, target.store, check)
    assert transfer.verify(cargo, target.store, check) == []
    there = transfer.events_of(target.store)
    transfer.copy(cargo, target.store, check)
    assert transfer.events_of(target.store) == there
    return done


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(layout, tmp_path):
    clock = FakeClock()
    source = furnished(tmp_path, clock)
    there = make_other(tmp_path / "there", layout, clock)
    mapped = dict(moved(source, there, layout).mapped)
    new = [mapped.get(one, one) for one in (FIRST, SECOND, "WI-001-A3", "WI-001-A4")]
    cards = there.store.read(new)
    assert [card.state for card in cards] == [State.DONE, State.READY, State.READY, State.FAILED]
    assert cards[0].result.output.strip() == "it works"
    assert cards[1].task.needs == (new[0],)
    back = make(tmp_path / "back", clock)
    again = dict(moved(there, back, "activities").mapped)
    for old, between in zip((FIRST, "WI-001-A4"), (new[0], new[3]), strict=True):
        assert again.get(between, between) == old, "and it has its name again"
        assert back.card(old).state is source.card(old).state
    assert back.store.check() == []
    for queue in (source, there, back):
        queue.close()


def test_moved_twice_is_moved_once(tmp_path):
    clock = FakeClock()
    source = furnished(tmp_path, clock)
    target = make(tmp_path / "target", clock)
    first = moved(source, target, "activities")
    before = file_of(target).read_bytes()
    second = moved(source, target, "activities")
    assert (first.tasks, second.already) == (5, 5)
    assert steps(target, SECOND) == {f"{SECOND}-T1": "pending", f"{SECOND}-T2": "pending"}
    assert file_of(target).read_bytes() == before
    for queue in (source, target):
        queue.close()


#: Work items of which no agent may take anything, each for a reason of its own.
BARRED = {
    "WI-001-cancelled": "title: Old plan\nstatus: cancelled\nactivities: [{id: A1}]\n",
    "WI-002-waits": (
        "work_item: {title: Later, description: All of it, depends_on: [WI-003]}\nactivities:\n"
        "  - {id: A1}\n  - {id: A2, actor: Person, hold: look first}\n"
    ),
    "WI-003-replanned": "title: New plan\npivots: [{reason: GraphQL, started_by: ann}]\nactivities: [{id: A1}]\n",
    "WI-004-blocked": (
        "title: Stuck\nblockers:\n  - {id: B1, description: no contract}\n"
        "  - {id: B2, activity_id: A1, resolved: true}\n"
        "activities:\n  - {id: A1}\n  - {id: A2, tries: [{error: once, counted: true}]}\n"
    ),
    "WI-005-approved": (
        "title: Release\nactivities:\n  - {id: A1, actor: human}\n"
        "  - {id: A2, tasks: [{id: T1}, {id: T2, actor: human}]}\n"
    ),
    "WI-006-odd": "depends_on: [{id: WI-010}]\nactivities: [{id: A1}]\n",
    "WI-007-alone": "title: Alone\ntype: chore\nactor: human\npivots: [{reason: anew}]\n",
    "WI-008-later": "not_before: 2999-01-01\nactivities: [{id: A1}]\n",
    "WI-009-odd": "activities: [{id: A1, status: wondering}]\n",
}


@pytest.fixture
def barred(tmp_path):
    """A queue of such work items."""
    queue = make(tmp_path / "barred")
    for name, text in BARRED.items():
        by_hand(queue, text, folder=name)
    yield queue
    queue.close()


def test_work_items_come_with_all_that_bars_them(barred, tmp_path):
    target = make(tmp_path / "target", barred.clock)
    done = moved(barred, target, "activities")
    assert (done.tasks, done.left) == (12, ())
    assert done.held == (("WI-007", "WI-007 is being replanned: anew; only a person may do it"),)
    for item, document in transfer.heads_of(barred.store).items():
        before, after = (Progress(item, one) for one in (document, transfer.heads_of(target.store)[item]))
        assert (after.title, after.status, after.pivot()) == (before.title, before.status, before.pivot())
        assert after.head.get("description") == before.head.get("description")
        assert list(after.blockers()) == list(before.blockers())
    assert "hold" not in entry(target, "WI-004-A1"), "the blocker of the whole holds it, and is resolved once"
    taken = [claim.task.id for claim in target.claim("agent-1", count=99)]
    assert taken == ["WI-005-A2"] == [claim.task.id for claim in barred.claim("agent-1", count=99)], "a part of that"
    target.close()


def test_no_work_item_is_given_out_before_its_activities_are_there(barred, tmp_path, monkeypatch):
    """Without any it would stand for itself."""
    target = make(tmp_path / "target", barred.clock)
    create, taken = target.store.items.create, []

    def contested(*words):
        made = create(*words)
        taken.extend(claim.task.id for claim in target.claim("agent-1"))
        return made

    monkeypatch.setattr(target.store.items, "create", contested)
    moved(barred, target, "activities")
    assert set(taken) <= {"WI-005-A2"}, "of which an agent may do a part"
    target.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_work_items_barred_is_held_where_there_are_none(layout, barred, tmp_path):
    target = make_other(tmp_path / "there", layout, barred.clock)
    done = moved(barred, target, layout)
    assert target.claim("agent-1", count=99) == []
    new = dict(done.mapped)
    holds = {old: target.card(new.get(old, old)).task.hold for old in ("WI-001-A1", "WI-002-A2", "WI-005-A2")}
    assert holds == {
        "WI-001-A1": "WI-001 is cancelled",
        "WI-002-A2": "look first; WI-002 needs WI-003; only a person may do it",
        "WI-005-A2": "its task WI-005-A2-T2 is for a person",
    }
    assert "WI-001, WI-002" in done.left[0]
    target.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_of_the_changelog_tell_of_what_it_is_called_there(layout, tmp_path):
    source = furnished(tmp_path, FakeClock())
    target = make_other(tmp_path / "there", layout, source.clock)
    new = dict(moved(source, target, layout).mapped)
    told = [event.activity_id for event in transfer.events_of(target.store)]
    assert new.get(FIRST, FIRST) in told
    assert not set(told) & new.keys()
    for queue in (source, target):
        queue.close()


def test_a_header_that_is_another_there_bars_what_comes(tmp_path):
    clock = FakeClock()
    source, target = make(tmp_path / "source", clock), make(tmp_path / "target", clock)
    by_hand(source, BARRED["WI-001-cancelled"])
    by_hand(target, "title: Old plan\n")
    cargo, check = transfer.cargo_of(source.store), layouts.get("activities").check_id
    assert transfer.copy(cargo, target.store, check).held == ((FIRST, "WI-001 is cancelled"),)
    assert target.claim("agent-1") == []
    assert transfer.verify(cargo, target.store, check) == ["WI-001 stands otherwise there"]
    for queue in (source, target):
        queue.close()


def test_commands_that_move(tmp_path, folder):
    run(folder, "add", "Alone")
    answer = pit("-C", folder, "convert", tmp_path / "pit", "--layout", "pit")
    assert (answer.code, "what WI-001 had beside activities was not carried" in answer.err) == (0, True)
    assert {task["title"] for task in run(tmp_path / "pit", "list")} == {"Backend", "Frontend", "Alone"}
    assert pit("-C", tmp_path / "pit", "convert", tmp_path / "again", "--layout", "activities").code == 0
    assert {task["title"] for task in run(tmp_path / "again", "list")} == {"Backend", "Frontend", "Alone"}
    exported = pit("-C", folder, "export").out
    (tmp_path / "all.jsonl").write_text(exported)
    target = make_fast(tmp_path / "imported", "activities")
    run(target, "import", tmp_path / "all.jsonl")
    assert [task["id"] for task in run(target, "list")] == [FIRST, SECOND, "WI-002"]
    (tmp_path / "tasks.jsonl").write_text(
        "\n".join(json.dumps(one) for one in ({"id": "x", "title": "X"}, {"id": "y", "title": "Y", "needs": ["x"]}))
    )
    run(target, "import", tmp_path / "tasks.jsonl")
    shown = {task["title"]: task for task in run(target, "list")}
    assert shown["Y"]["needs"] == [shown["X"]["id"]]


def test_a_queue_of_another_kind_has_no_work_items(tmp_path):
    root = make_fast(tmp_path / "pit", "pit")
    assert run(root, "task", "start", f"{FIRST}-T1", code=6)["message"].startswith("this queue is a pit")
    assert run(root, "pivot", "start", ITEM, "--reason", "x", code=6)["hint"]


def test_a_store_that_waits_wakes_for_new_work_items(tmp_path):
    """Also for what is added inside a folder that was not there when it began to wait."""
    queue = make(tmp_path / "q")
    other = make(tmp_path / "q", queue.clock)
    queue.store.wait(0.0)
    other.put([Task(id="", title="x")])
    assert queue.store.wait(PATIENCE)
    queue.store.wait(0.0)
    put(other, "inside")
    assert queue.store.wait(PATIENCE)
    assert status(queue) == "pending"
    assert actions(queue)[0] == "work_item_created"
    for one in (queue, other):
        one.close()
