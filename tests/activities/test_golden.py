"""Documents as people write them, changed by every verb: only the lines that must change do."""

from __future__ import annotations

from itertools import product

import pytest
from rotation import part
from workitems import FIRST, FORMS, ITEM, SECOND, by_hand, changed, comments, entry, load, put, steps, take

from taskpit.clock import iso
from taskpit.layouts import yamltext
from taskpit.layouts.progress import SCHEMA, Progress
from taskpit.model import Ask, Done, Failed, Release, Split, State, Task
from taskpit.store.activities import pivot
from taskpit.store.activities import steps as moves


def claimed(queue):
    return take(queue)


def started(queue):
    take(queue)
    moves.start(queue.store.items, f"{FIRST}-T1", "agent-1")


def blocked(queue):
    queue.block(FIRST, "ann", "no access")


def pivoting(queue):
    pivot.start(queue.store.items, ITEM, "ann", "GraphQL")


def failed(queue):
    queue.finish(take(queue), Failed(error="no", final=True))


def end(outcome):
    return lambda queue, claim: queue.finish(claim, outcome)


TRY = ["at", "counted", "error", "kind", "mark", "tries", "worker"]
BLOCKER = ["activity_id", "description", "id", "raised_at", "raised_by", "resolution", "resolved_at", "task_id"]
RESULT = ["attempt", "finished", "result", "verdict", "worker"]
#: The line of what was empty changes with its first entry; in mappings ids have lines of their own.
NAMES = ("blockers", "pivots", "WI-001-B2", "WI-001-A3", "WI-001-A1-T3")
#: Each verb: what comes before it, what is done, the keys on lines that go, and on lines that come.
VERBS = {
    "claim": (None, lambda queue, _: take(queue), ["status"], ["started_at", "status"]),
    "task start": (
        claimed,
        lambda queue, _: moves.start(queue.store.items, f"{FIRST}-T1", "agent-1"),
        ["status"],
        ["status"],
    ),
    "task done": (
        started,
        lambda queue, _: moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent"),
        ["status"],
        ["completed_at", "completed_by", "status"],
    ),
    "task wait": (
        started,
        lambda queue, _: moves.await_human(queue.store.items, f"{FIRST}-T1", "agent-1", "agent"),
        ["status"],
        ["actor", "status"],
    ),
    "done": (
        claimed,
        end(Done()),
        ["status"] * 3,
        sorted([*RESULT, *(["completed_at", "completed_by"] * 3), *(["status"] * 3)]),
    ),
    "failed for good": (
        claimed,
        end(Failed(error="no", final=True)),
        ["status"],
        sorted([*RESULT, *TRY, "reason", "status"]),
    ),
    "failed, again later": (
        claimed,
        end(Failed(error="no")),
        ["status"],
        sorted([*TRY, "attempts", "last_error", "max_attempts", "not_before", "status"]),
    ),
    "release": (claimed, end(Release()), ["status"], ["status"]),
    "ask": (claimed, end(Ask(question="which?")), ["status"], None),
    "split": (claimed, end(Split(children=(Task(id="", title="Part"),))), None, None),
    "add activity": (None, lambda queue, _: put(queue, "More"), [], None),
    "add task": (None, lambda queue, _: put(queue, "More", parent=FIRST), [], ["actor", "id", "status", "title"]),
    "edit": (None, lambda queue, _: queue.edit(FIRST, "ann", lambda t: t.replace(priority=3)), [], ["priority"]),
    "block": (None, lambda queue, _: blocked(queue), ["status"], sorted([*BLOCKER, "status"])),
    "unblock": (blocked, lambda queue, _: queue.unblock(FIRST, "ann"), None, None),
    "cancel": (None, lambda queue, _: queue.cancel(FIRST, "ann"), ["status"], None),
    "retry": (failed, lambda queue, _: queue.retry(FIRST, "ann"), None, None),
    "pivot start": (None, lambda queue, _: pivoting(queue), [], None),
    "pivot finish": (pivoting, lambda queue, _: pivot.finish(queue.store.items, ITEM, "ann"), None, None),
    "note": (None, lambda queue, _: queue.note(FIRST, "mind the gap", "ann"), [], []),
}


@pytest.mark.parametrize(("verb", "form"), part(product(VERBS, FORMS), 3))
def test_only_the_lines_that_must_change_do(form, verb, queue):
    path = by_hand(queue, FORMS[form])
    prepare, act, gone, come = VERBS[verb]
    given = prepare(queue) if prepare else None
    before = path.read_bytes()
    act(queue, given)
    after = path.read_bytes()
    told = changed(before.decode(), after.decode())
    told = [[key for key in keys if key not in NAMES] for keys in told]
    assert gone is None or told[0] == gone, told
    assert come is None or told[1] == come, told
    assert comments(after.decode()) == comments(FORMS[form]), "every comment is there, in its order"
    assert (b"\r\n" in after) == (b"\r\n" in before)
    assert after.count(b"\r") in (0, after.count(b"\n"))
    assert after.startswith("\ufeff".encode()) == before.startswith("\ufeff".encode())


@pytest.mark.parametrize("form", FORMS)
def test_whatever_is_not_ours_stays_to_the_letter(form, queue):
    """A whole life of an activity: every line it does not concern is there as it was written."""
    path = by_hand(queue, FORMS[form])
    before = path.read_bytes().decode().splitlines()
    started(queue)
    moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent")
    blocked_before = queue.card(SECOND)
    assert blocked_before.held
    queue.finish(queue.holding(FIRST, "agent-1"), Done(output="it works"))
    queue.block(SECOND, "ann", "no access")
    queue.unblock(SECOND, "ann")
    queue.finish(take(queue, SECOND), Done())
    after = path.read_bytes().decode().splitlines()
    concerned = ("version:", "last_modified", "schema_version:", "status:", "blockers: []")
    kept = [line for line in before if not any(word in line for word in concerned)]
    rest = iter(after)
    assert [line for line in kept if line not in rest] == [], "in their order, each of them"


@pytest.mark.parametrize("form", FORMS)
def test_one_version_more_by_whom_and_when(form, queue, clock):
    path = by_hand(queue, FORMS[form])
    version = int(load(path)["version"])
    clock.advance(100)
    take(queue, worker="agent-7")
    document = load(path)
    assert int(document["version"]) == version + 1
    assert document["last_modified_by"] == "agent-7"
    assert str(document["last_modified"]).startswith(iso(queue.store.clock.now())[:16])
    moves.start(queue.store.items, f"{FIRST}-T1", "agent-7")
    assert int(load(path)["version"]) == version + 2


@pytest.mark.parametrize(("there", "then"), [(1, 1), (2, 2), (SCHEMA, SCHEMA), (9, 9), (None, None)])
def test_the_schema_is_what_the_file_says(there, then, queue):
    """Another program checks it by its own number."""
    head = f"schema_version: {there}\n" if there else ""
    path = by_hand(queue, f"{head}activities:\n  - id: A1\n")
    take(queue)
    assert load(path).get("schema_version") == then


def test_a_header_of_its_own_keeps_its_own_words(queue):
    path = by_hand(queue, "work_item:\n  title: x\n  version: 4\n  status: planning\nactivities:\n  - id: A1\n")
    take(queue)
    document = load(path)
    assert document["work_item"]["version"] == 5
    assert document["work_item"]["status"] == "in_progress"
    assert "version" not in document


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_say_the_same(form, queue):
    by_hand(queue, FORMS[form])
    assert queue.card(ITEM).task.title == "Ship the login"
    assert [card.task.id for card in queue.store.page().cards] == [FIRST, SECOND]
    assert steps(queue) == {f"{FIRST}-T1": "pending", f"{FIRST}-T2": "pending"}
    assert queue.card(SECOND).task.needs == (FIRST,)
    assert queue.card(SECOND).held == f"needs {FIRST}, which is not done yet"
    assert queue.card(FIRST).held == ""
    assert queue.store.check() == []


@pytest.mark.parametrize("actor", ["", "actor: any", "actor: mixed", "actor: ~", "actor: Both"])
@pytest.mark.parametrize("kind", ["agent", "human"])
def test_no_actor_is_anybody(actor, kind, queue):
    by_hand(queue, f"activities:\n  - id: A1\n    title: x\n    {actor}\n")
    assert take(queue, kind=kind).task.id == FIRST


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("todo", State.READY),
        ("Not Started", State.READY),
        ("in-progress", State.READY),
        ("WIP", State.READY),
        ("DONE", State.DONE),
        ("complete", State.DONE),
        ("canceled", State.FAILED),
        ("skipped", State.FAILED),
    ],
)
def test_statuses_in_other_words(word, state, queue):
    by_hand(queue, f"activities:\n  - id: A1\n    status: {word}\n")
    assert queue.card(FIRST).state is state


def test_a_work_item_as_we_write_it(queue, clock):
    """New files are as documented: a header, the activities, the blockers."""
    queue.put([Task(id="", title="Ship the login", by="ann")])
    put(queue, "Backend", by="ann", needs=("WI-009",))
    path = next(queue.store.folder.at(name) for name in queue.store.items.folders().values())
    now = iso(queue.store.clock.now())
    with open(f"{path}/progress.yaml", encoding="utf-8") as file:
        assert file.read() == (
            f"schema_version: 2\nversion: 2\nlast_modified: '{now}'\nlast_modified_by: ann\nwork_item_id: WI-001\n"
            f"title: Ship the login\nstatus: planning\ncreated_by: ann\ncreated_at: '{now}'\n"
            "type: development\nactivities:\n"
            f"  - id: WI-001-A1\n    title: Backend\n    status: pending\n    depends_on:\n      - WI-009\n"
            f"    created_by: ann\n    created_at: '{now}'\nblockers: []\n"
        )


def test_times_are_those_of_the_change(queue, clock):
    """Not of the change before it."""
    by_hand(queue, FORMS["nested"])
    clock.advance(5000)
    now = iso(queue.store.clock.now())
    take(queue)
    assert entry(queue)["started_at"] == now
    clock.advance(100)
    moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent")
    queue.finish(queue.holding(FIRST, "agent-1"), Release())
    clock.advance(100)
    later = iso(queue.store.clock.now())
    moves.finish(queue.store.items, f"{FIRST}-T2", "ann", "human")
    assert entry(queue)["completed_at"] == later


def test_a_document_that_is_not_changed_comes_back_to_the_letter():
    for text in FORMS.values():
        data = text.encode()
        document = yamltext.load(data)
        assert Progress(ITEM, document).item == ITEM
        assert yamltext.changed(document, data) == data
