"""What may be taken, by whom, and why not: each condition fails with its own words and its own exit code."""

from __future__ import annotations

import json
import re

import pytest
from boxes import pit
from workitems import FIRST, ITEM, SECOND, by_hand, entry, file_of, lock_of, put, save, take

from taskpit.clock import iso
from taskpit.errors import Conflict, Held, Invalid, NotFound
from taskpit.model import Done, Failed, State, Task, Want
from taskpit.store.activities import pivot

ONE = "activities:\n  - id: A1\n    title: one\n"


def on_disk(queue, *words):
    """`pit WORDS` on the same folder, by the real clock."""
    return pit("-C", queue.store.folder.root, *words, "--json")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("    status: completed\n", None),
        ("    status: wondering\n", "its status is 'wondering', which means nothing here"),
        ("    depends_on: [A2]\n  - id: A2\n", f"needs {SECOND}, which is not done yet"),
        ("    depends_on: [A7]\n", "needs WI-001-A7, which does not exist"),
        ("    depends_on: [A1-T9]\n", "needs WI-001-A1-T9, which does not exist"),
        ("    depends_on: [A2-T1]\n  - id: A2\n    tasks: [{id: T1}]\n", "needs WI-001-A2-T1, which is not done yet"),
        ("    status: blocked\n", "its status is blocked"),
        ("blockers:\n  - {activity_id: A1, description: no access}\n", "no access"),
        ("blockers:\n  - {id: B1, blocking: WI-001-A1}\n", "B1"),
        ("blockers:\n  - {id: B1, blocking: [A1-T3]}\n", "B1"),
        ("blockers:\n  - {description: the office burnt down}\n", "the office burnt down"),
        ("blockers:\n  x: {description: by its key, task_id: A1-T1}\n", "by its key"),
        ("    actor: human\n", "only a person may do it"),
        ("    actor: designer\n", "only 'designer', which is neither human nor agent, may do it"),
        ("    tasks:\n      - {id: T1, actor: human}\n", "only a person may do it"),
        (
            "    tasks:\n      - {id: T1, actor: human}\n      - {id: T2, depends_on: [T1]}\n",
            "its next task WI-001-A1-T1 is for a person",
        ),
        ("pivots:\n  - {reason: GraphQL}\n", "WI-001 is being replanned: GraphQL"),
        ("status: cancelled\n", "WI-001 is cancelled"),
        ("depends_on: WI-009\n", "WI-001: needs WI-009, which does not exist"),
        ("hold: wait for the budget\n", "WI-001: wait for the budget"),
        ("    priority: high\n", "it cannot be read: WI-001-A1: priority is 'high', not a whole number"),
    ],
)
def test_each_condition_has_its_own_words(more, why, queue):
    by_hand(queue, ONE + more)
    if why is None:
        with pytest.raises(Conflict, match="is done already"):
            queue.claim("agent-1", ids=[FIRST])
        return
    assert queue.card(FIRST).held == why
    said = (f"{FIRST} {why}", *(f"{FIRST} {how}: {why}" for how in ("waits", "is blocked", "needs a person")))
    assert queue.why(FIRST)[0].startswith(said)
    with pytest.raises(Held, match=re.escape(f" {why}")):
        queue.claim("agent-1", ids=[FIRST])
    assert FIRST not in [claim.task.id for claim in queue.claim("agent-1", count=9)]
    assert not lock_of(queue).exists()


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("", "agent"),
        ("", "human"),
        ("    actor: human\n", "human"),
        ("    actor: agent\n", "agent"),
        ("blockers:\n  - {activity_id: A1, resolved_at: '2026-01-01'}\n", "agent"),
        ("blockers:\n  - {activity_id: A1, status: resolved}\n", "agent"),
        ("blockers:\n  - {activity_id: A2}\n", "agent"),
        ("pivots:\n  - {reason: x, finished_at: '2026-01-01'}\n", "agent"),
        ("    depends_on: [A2-T1]\n  - id: A2\n    tasks: [{id: T1, status: done}]\n", "agent"),
        ("    tasks:\n      - {id: T1, status: awaiting_human, actor: human}\n      - {id: T2}\n", "agent"),
    ],
)
def test_what_may_be_taken(more, kind, queue):
    by_hand(queue, ONE + more)
    assert take(queue, kind=kind).task.id == FIRST
    assert json.loads(lock_of(queue).read_text())["holder_type"] == kind


def test_a_person_may_not_do_an_agents_part(queue):
    by_hand(queue, f"{ONE}    actor: agent\n")
    with pytest.raises(Held, match="only an agent may do it"):
        queue.claim("ann", ids=[FIRST], kind="human")


@pytest.mark.parametrize("actor", ["human", "agent"])
def test_a_work_item_that_stands_for_itself_has_its_own_actor(actor, queue):
    queue.put([Task(id="", title="alone", extra={"actor": actor})])
    other = {"human": "agent", "agent": "human"}[actor]
    assert queue.claim("x", kind=other) == []
    assert "activities: []" in file_of(queue).read_text(), "and nothing was begun"
    assert queue.claim("x", kind=actor)[0].task.id == FIRST


def test_not_before_a_time(queue, clock):
    by_hand(queue, f"{ONE}    not_before: '{iso(clock.now() + 100)}'\n")
    assert queue.claim("agent-1") == []
    assert queue.card(FIRST).held.startswith("not before")
    clock.advance(101)
    assert take(queue).task.id == FIRST


def test_a_lock_by_the_short_id_that_the_file_has_is_waited_for(queue, clock):
    """Others call a lock as the file calls the activity: it was no lock to us, and two did the work."""
    by_hand(queue, ONE)
    theirs = lock_of(queue).with_name("A1.lock")
    theirs.parent.mkdir(exist_ok=True)
    end = iso(clock.now() + 100)
    theirs.write_text(json.dumps({"holder": "x", "holder_type": "agent", "acquired": end, "expires": end}))
    assert queue.claim("agent-1") == []
    assert queue.card(FIRST).held == f"x has A1.lock until {end}"
    with pytest.raises(Held, match="x has A1"):
        queue.claim("agent-1", ids=[FIRST])
    clock.advance(101)
    claim = take(queue)
    assert claim.task.id == FIRST
    theirs.write_text("{")  # whoever has it goes on
    queue.finish(claim, Done(output="ours"))
    assert queue.card(FIRST).state is State.DONE
    assert theirs.exists()


def test_a_pause_gives_out_nothing(queue):
    by_hand(queue, ONE)
    queue.store.pause("lunch", 100.0, "ann")
    assert queue.claim("agent-1") == []
    queue.store.resume("ann")
    assert take(queue).task.id == FIRST


def test_exit_codes(queue, clock):
    """3: held or nothing, 4: somebody has it, 5: not there, 6: cannot be."""
    by_hand(queue, f"{ONE}  - id: A2\n    depends_on: [A1]\n  - id: A3\n    status: done\n")
    assert on_disk(queue, "claim", FIRST, "--as", "ann", "--human").data["lease_seconds"] == 8 * 3600
    for words, code, said in (
        (("claim", SECOND, "--as", "ben"), 3, "held"),
        (("claim", "--as", "ben"), 3, "nothing_to_claim"),
        (("claim", FIRST, "--as", "ben"), 4, "lost"),
        (("task", "start", f"{FIRST}-T1", "--as", "ben"), 4, "lost"),
        (("claim", "WI-001-A9", "--as", "ben"), 5, "not_found"),
        (("claim", "WI-009", "--as", "ben"), 5, "not_found"),
        (("task", "start", f"{FIRST}-T1", "--as", "ann"), 5, "not_found"),
        (("claim", "WI-001-A3", "--as", "ben"), 6, "conflict"),
        (("add", "x", "--id", "mine"), 6, "invalid"),
        (("add", "x", "--set", "actor=dog"), 6, "invalid"),
        (("add", "x", "--parent", f"{FIRST}-T1"), 5, "not_found"),
        (("pivot", "start", ITEM, "--reason", "x"), 4, "lost"),
        (("pivot", "finish", ITEM), 6, "conflict"),
    ):
        answer = on_disk(queue, *words)
        assert (answer.code, answer.error["code"]) == (code, said), words
    assert "ann" in on_disk(queue, "claim", FIRST, "--as", "ben").error["message"]
    assert on_disk(queue, "claim", FIRST, "--as", "ann").data["task"]["id"] == FIRST, "what is mine is mine"


def test_a_file_that_cannot_be_read_is_told_and_stops_nobody_else(queue):
    path = by_hand(queue, "activities: [\n")
    by_hand(queue, ONE, folder="WI-002-fine")
    assert queue.claim("agent-1")[0].task.id == "WI-002-A1"
    assert "cannot be read" in queue.card(ITEM).held
    assert "cannot be read" in queue.why(FIRST)[0]
    answer = on_disk(queue, "claim", FIRST, "--as", "ben")
    assert (answer.code, answer.error["code"]) == (3, "held")
    assert [mend.kind for mend in queue.store.check()] == ["unreadable"]
    save(path, ONE)
    assert take(queue).task.id == FIRST


def test_the_next_is_taken_by_priority_then_age(queue, clock):
    queue.put([Task(id="", title="first")])
    clock.advance(5)
    put(queue, "a", "b", "urgent")
    queue.edit("WI-001-A3", "ann", lambda task: task.replace(priority=9))
    taken = [queue.claim("agent-1")[0].task.id for _ in range(3)]
    assert taken == ["WI-001-A3", FIRST, SECOND]


def test_a_whole_work_item_means_its_next_activity(queue):
    by_hand(queue, f"{ONE}    status: done\n  - id: A2\n    depends_on: [A1]\n  - id: A3\n    depends_on: [A2]\n")
    assert queue.claim("agent-1", ids=[ITEM])[0].task.id == SECOND
    for change in (queue.block, queue.cancel):
        with pytest.raises(Conflict, match="has activities"):
            change(ITEM, "ann", "not this one or that")


def test_a_work_item_without_activities_stands_for_itself(queue):
    queue.put([Task(id="WI-003", title="alone", body="all of it", check="true", priority=4, by="ann")])
    assert [card.task.id for card in queue.store.page().cards] == ["WI-003"]
    (claim,) = queue.claim("agent-1")
    assert (claim.task.id, claim.task.title, claim.task.body) == ("WI-003-A1", "alone", "all of it")
    assert (claim.task.check, claim.task.priority) == ("true", 4)
    assert [card.task.id for card in queue.store.page().cards] == ["WI-003-A1"]
    assert queue.card("WI-003").state is State.READY
    queue.finish(claim, Failed(error="no", final=True))
    assert queue.card("WI-003").state is State.FAILED


def test_a_claim_that_cannot_be_written_is_no_claim(queue, monkeypatch):
    """The file broke between the look and the step: the lock does not stay behind for an hour."""
    path = by_hand(queue, ONE)
    real = type(queue.store.items).edit

    def edit(items, item, worker, change):
        save(path, "activities: [\n")
        return real(items, item, worker, change)

    monkeypatch.setattr(type(queue.store.items), "edit", edit)
    with pytest.raises(Invalid, match="not YAML"):
        queue.store.claim(Want(worker="agent-1", lease=60.0, ids=(FIRST,)))
    monkeypatch.undo()
    assert not lock_of(queue).exists()
    save(path, ONE)
    assert take(queue, worker="agent-2").task.id == FIRST


@pytest.mark.parametrize("meanwhile", ["pivot", "blocker", "done by hand"])
def test_what_comes_between_the_look_and_the_step_is_seen(meanwhile, queue, monkeypatch):
    path = by_hand(queue, ONE)
    items = queue.store.items
    real = type(items).edit

    def between(*args):
        monkeypatch.setattr(type(items), "edit", real)
        if meanwhile == "pivot":
            pivot.start(items, ITEM, "ann", "GraphQL")
        elif meanwhile == "blocker":
            items.edit(ITEM, "ann", lambda found: found.block(FIRST, "no access", "ann", 0.0))
        else:
            save(path, f"{ONE}    status: done\n")
        return real(*args)

    monkeypatch.setattr(type(items), "edit", between)
    assert queue.store.claim(Want(worker="agent-1", lease=60.0, ids=(FIRST,))) == []
    assert not lock_of(queue).exists()
    assert entry(queue).get("status") != "in_progress"


def test_tasks_inside_have_nothing_an_activity_has(queue):
    by_hand(queue, ONE)
    with pytest.raises(Invalid, match="has no check of its own"):
        put(queue, "x", parent=FIRST, check="make test")
    assert "tasks" not in entry(queue)


@pytest.mark.parametrize(
    ("task", "error", "why"),
    [
        ({"parent": "nowhere"}, Invalid, "nothing can be added under 'nowhere'"),
        ({"parent": f"{FIRST}-T1"}, Invalid, f"nothing can be added under '{FIRST}-T1'"),
        ({"parent": "WI-009"}, NotFound, "there is no WI-009"),
        ({"parent": f"{ITEM}-A9"}, NotFound, f"there is no activity {ITEM}-A9"),
        ({"id": f"{ITEM}-A9-T1"}, NotFound, f"there is no activity {ITEM}-A9"),
        ({"parent": SECOND}, Conflict, f"{SECOND} is completed; it takes no further task"),
    ],
)
def test_nothing_is_added_where_it_cannot_be(task, error, why, queue):
    path = by_hand(queue, f"{ONE}    tasks: [{{id: T1}}]\n  - id: A2\n    status: completed\n")
    before = path.read_bytes()
    with pytest.raises(error, match=re.escape(why)):
        queue.put([Task(title="more", **{"id": "", **task})])
    assert path.read_bytes() == before


def test_a_task_of_an_activity_is_what_was_said_of_it(queue):
    by_hand(queue, ONE)
    (first,) = put(queue, "first", parent=FIRST)
    (second,) = put(queue, "second", parent=FIRST, body="how it is done", needs=(first,))
    written = entry(queue)["tasks"][1]
    assert (written["id"], written["description"], written["depends_on"]) == (second, "how it is done", [first])


@pytest.mark.parametrize(("word", "text"), [("status", "completed"), ("tasks", "x"), ("id", "x")])
def test_a_field_that_has_a_meaning_is_not_set_as_one_that_has_none(word, text, queue):
    (task_id,) = put(queue, "one", parent="")
    assert on_disk(queue, "edit", task_id, "--set", f"{word}={text}").code == 6
    assert queue.card(task_id).state is State.READY


def test_what_is_edited_is_in_the_file_and_what_is_taken_away_is_not(queue):
    by_hand(queue, ONE + "    colour: red\n")
    for word in ("colour=blue", "size=3"):
        assert on_disk(queue, "edit", FIRST, "--set", word).code == 0
    assert (entry(queue)["colour"], str(entry(queue)["size"])) == ("blue", "3")
    queue.edit(FIRST, "ada", lambda task: task.replace(extra={"size": "4"}))
    assert str(entry(queue)["size"]) == "4"
    assert "colour" not in entry(queue)
