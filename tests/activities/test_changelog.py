"""What the changelog says, line by line: the words of the original, by whom, and what others wrote there."""

from __future__ import annotations

import json

import pytest
from boxes import pit
from workitems import FIRST, ITEM, LEASE, SECOND, actions, by_hand, home_of, make, put, take

from taskpit.keeper import sweep
from taskpit.model import Done, Event, Failed, Release, Split, Task
from taskpit.store.activities import pivot
from taskpit.store.activities import steps as moves
from taskpit.testing import FakeClock

T1, T2 = f"{FIRST}-T1", f"{FIRST}-T2"
CLAIMED = (
    '{"timestamp":"2026-01-24T10:00:00Z","worker":"agent-abc123","worker_type":"agent","action":"claimed_activity",'
    '"activity_id":"WI-001-A1","details":"Starting work"}'
)
COMPLETED = (
    '{"timestamp":"2026-01-24T10:30:00Z","worker":"agent-abc123","worker_type":"agent","action":"completed_task",'
    '"activity_id":"WI-001-A1","task_id":"WI-001-A1-T1","details":"Implemented feature X"}'
)
DOCUMENT = "activities:\n  - id: A1\n    tasks:\n      - {id: T1}\n      - {id: T2, actor: human}\n  - {id: A2}\n"


def lines(queue):
    return (home_of(queue) / "changelog.log").read_text().splitlines()


def test_the_originals_lines_are_ours(tmp_path):
    """The same keys in the same order, without spaces; what is empty is left out."""
    clock = FakeClock(1769248800.0)  # 2026-01-24T10:00:00Z
    queue = make(tmp_path / "then", clock)
    by_hand(queue, DOCUMENT)
    take(queue, worker="agent-abc123")
    clock.advance(1800)
    moves.finish(queue.store.items, T1, "agent-abc123", "agent", "Implemented feature X")
    assert lines(queue) == [CLAIMED.replace(',"details":"Starting work"', ""), COMPLETED]
    queue.close()


def test_the_originals_lines_are_read(queue):
    by_hand(queue, DOCUMENT)
    (home_of(queue) / "changelog.log").write_text(f"{CLAIMED}\n{COMPLETED}\n")
    claimed, completed = queue.store.events()[0]
    assert (claimed.activity_id, claimed.task_id, claimed.about) == (FIRST, "", FIRST)
    assert (completed.activity_id, completed.task_id, completed.details) == (FIRST, T1, "Implemented feature X")


def whole_life(queue, clock):
    """Everything that can happen to a work item, once."""
    items = queue.store.items
    queue.put([Task(id=ITEM, title="Ship the login", by="ann@home")])
    put(queue, "Backend", "Frontend", by="ann@home")
    put(queue, "Design", "Review", parent=FIRST, by="ann@home")
    take(queue)
    moves.start(items, T1, "agent-1")
    moves.finish(items, T1, "agent-1", "agent")
    moves.await_human(items, T2, "agent-1", "agent")
    clock.advance(LEASE + 1)
    sweep(queue)
    claim = take(queue, kind="human", worker="ann@home")
    queue.finish(claim, Release())
    moves.finish(items, T2, "ann@home", "human")
    queue.block(SECOND, "ann@home", "no access")
    queue.unblock(SECOND, "ann@home")
    pivot.start(items, ITEM, "ann@home", "GraphQL")
    pivot.finish(items, ITEM, "ann@home")
    queue.finish(take(queue, SECOND), Failed(error="no"))
    clock.advance(100)
    queue.note(SECOND, "mind the gap", "ann@home")
    queue.finish(take(queue, SECOND), Split(children=(Task(id="", title="half"),)))
    queue.cancel("WI-001-A3", "ann@home", "not any more")
    queue.retry("WI-001-A3", "ann@home")
    queue.finish(take(queue, "WI-001-A3"), Failed(error="no", final=True))


def test_every_action_where_it_should_be(queue, clock):
    whole_life(queue, clock)
    assert actions(queue, FIRST) == [
        "added_activity",
        "claimed_activity",
        "recovered_activity",
        "resumed_activity",
        "released_activity",
        "completed_activity",
    ]
    assert actions(queue, T1) == ["added_task", "started_task", "completed_task"]
    assert actions(queue, T2) == ["added_task", "awaiting_human", "completed_task"]
    assert actions(queue, SECOND) == [
        "added_activity",
        "blocked",
        "unblocked",
        "claimed_activity",
        "retried_activity",
        "noted",
        "claimed_activity",
        "split_activity",
    ]
    assert actions(queue, "WI-001-A3")[:2] == ["added_activity", "cancelled_activity"]
    assert actions(queue, "WI-001-A3")[-2:] == ["claimed_activity", "failed_activity"]
    whole = [event for event in queue.store.events()[0] if not event.about]
    assert [event.action for event in whole] == ["work_item_created", "pivot_started", "pivot_completed"]
    assert all(event.details.startswith(ITEM) for event in whole), "a line has no field for a work item"


def test_who_did_it(queue, clock):
    whole_life(queue, clock)
    kinds = {(event.worker.partition("~")[0], event.worker_type) for event in queue.store.events()[0]}
    assert kinds - {("keeper", "agent")} == {("ann@home", "human"), ("agent-1", "agent")}


def test_the_queue_itself_is_an_agent(queue):
    """A work item's changelog knows two words."""
    by_hand(queue, DOCUMENT)
    queue.store.items.tell("noticed", FIRST)
    (event,) = queue.store.events()[0]
    assert (event.worker, event.worker_type) == ("keeper", "agent")


def test_what_others_wrote_is_kept_and_passed_on(queue):
    by_hand(queue, DOCUMENT)
    theirs = (
        '{"timestamp":"2026-01-24T11:00:00Z","worker":"ci","worker_type":"agent","action":"deployed",'
        '"activity_id":"WI-001-A1","details":"to staging","build":42,"links":["a","b"]}'
    )
    path = home_of(queue) / "changelog.log"
    path.write_text(f"{CLAIMED}\nnot a line at all\n{theirs}\n")
    take(queue)
    sweep(queue)
    assert path.read_text().startswith(f"{CLAIMED}\nnot a line at all\n{theirs}\n"), "to the letter"
    told = json.loads(pit("-C", queue.store.folder.root, "log", "--json").out)[
        "data"
    ]  # their keys are in no schema of ours
    assert [one["action"] for one in told] == ["claimed_activity", "deployed", "claimed_activity"]
    assert (told[1]["build"], told[1]["links"]) == (42, ["a", "b"])
    assert "deployed" in pit("-C", queue.store.folder.root, "log").out
    assert json.loads(theirs) == {key: value for key, value in queue.store.events()[0][1].as_dict().items() if value}
    exported = pit("-C", queue.store.folder.root, "export").out
    assert '"build": 42' in exported


def test_a_line_that_a_crash_swallowed_is_told_by_the_keeper(queue):
    by_hand(queue, DOCUMENT)
    queue.finish(take(queue, SECOND), Done())
    path = home_of(queue) / "changelog.log"
    kept = path.read_text().splitlines(keepends=True)[:-1]
    path.write_text("".join(kept) + '{"timestamp":"2026-01-2')  # torn, too
    assert [mend.kind for mend in sweep(queue)] == ["line swallowed"]
    assert actions(queue, SECOND) == ["claimed_activity", "completed_activity"]
    assert sweep(queue) == []


def test_no_changelog_yet(queue):
    by_hand(queue, DOCUMENT)
    assert queue.store.events()[0] == []
    take(queue)
    assert actions(queue) == ["claimed_activity"]


def test_a_cursor_goes_on_where_it_stopped(queue):
    by_hand(queue, DOCUMENT)
    by_hand(queue, DOCUMENT, folder="WI-002-other")
    take(queue)
    first, cursor = queue.store.events()
    take(queue, "WI-002-A1")
    second, _ = queue.store.events(cursor)
    assert [event.activity_id for event in first + second] == [FIRST, "WI-002-A1"]


@pytest.mark.parametrize("field", ["timestamp", "action"])
def test_a_line_without_what_every_line_has_is_passed_over(queue, field):
    by_hand(queue, DOCUMENT)
    fields = json.loads(CLAIMED)
    del fields[field]
    (home_of(queue) / "changelog.log").write_text(json.dumps(fields) + f"\n{COMPLETED}\n")
    assert [event.action for event in queue.store.events()[0]] == ["completed_task"]
    assert Event.of(json.loads(COMPLETED)).extra == {}
