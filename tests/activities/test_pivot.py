"""Replanning: nothing is given out meanwhile, completed work is kept, the rest starts anew."""

from __future__ import annotations

import threading

import pytest
from boxes import pit
from workitems import FIRST, ITEM, LEASE, SECOND, actions, by_hand, entry, lock_of, reopened, status, steps, take

from taskpit.errors import Conflict, Invalid, NotFound
from taskpit.model import Done, Release, Said, State
from taskpit.store.activities import pivot
from taskpit.store.activities import steps as moves

THIRD, FOURTH = "WI-001-A3", "WI-001-A4"
DOCUMENT = """\
title: Ship the login
activities:
  - id: A1
    title: done before
    status: completed
    completed_by: ann
    result: {verdict: done, worker: ann}
    tasks:
      - {id: T1, status: completed, completed_by: ann}
  - id: A2
    title: begun
    tasks:
      - {id: T1, status: completed, completed_by: ann}
      - {id: T2}
  - {id: A3, title: not begun}
  - {id: A4, title: blocked, status: blocked}
"""


@pytest.fixture
def items(queue):
    by_hand(queue, DOCUMENT)
    return queue.store.items


def on_disk(queue, *words):
    return pit("-C", queue.store.folder.root, *words, "--json")


def test_what_is_completed_is_kept_and_the_rest_reset(queue, items):
    claim = take(queue, SECOND)
    moves.start(items, f"{SECOND}-T2", "agent-1")
    queue.finish(claim, Release())
    pivot.start(items, ITEM, "ann", "GraphQL too")
    assert queue.claim("agent-2") == []
    assert all("being replanned: GraphQL too" in queue.card(one).held for one in (SECOND, THIRD))
    reset, kept = pivot.finish(items, ITEM, "ann", summary="two more")
    assert (reset, kept) == ([SECOND, THIRD, FOURTH], [FIRST])
    assert steps(queue, SECOND) == {f"{SECOND}-T1": "completed", f"{SECOND}-T2": "pending"}
    assert [status(queue, one) for one in (FIRST, SECOND, FOURTH)] == ["completed", "pending", "pending"]
    assert "started_at" not in entry(queue, SECOND)
    assert len(queue.claim("agent-2", count=9)) == 3
    told = [(event.action, event.details) for event in queue.store.events()[0] if "pivot" in event.action]
    assert told == [("pivot_started", "WI-001: GraphQL too"), ("pivot_completed", "WI-001: two more")]
    assert {event.worker_type for event in queue.store.events()[0] if "pivot" in event.action} == {"agent"}


def test_what_is_no_longer_valid_is_done_again(queue, items):
    pivot.start(items, ITEM, "ann", "x")
    pivot.finish(items, ITEM, "ann", redo=[FIRST, f"{SECOND}-T1"], drop=[THIRD])
    assert (status(queue), steps(queue)) == ("pending", {f"{FIRST}-T1": "pending"})
    assert entry(queue)["superseded"] == [{"verdict": "done", "worker": "ann"}], "the old result is kept"
    assert "completed_by" not in entry(queue)
    assert steps(queue, SECOND)[f"{SECOND}-T1"] == "pending"
    assert queue.card(THIRD).state is State.FAILED
    assert queue.card(FIRST).state is State.READY


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"redo": ["WI-001-A9"]}, NotFound),
        ({"redo": [FIRST], "drop": [FIRST]}, Invalid),
        ({"drop": [f"{FIRST}-T7"]}, NotFound),
    ],
)
def test_what_makes_no_sense_changes_nothing(queue, items, given, error):
    pivot.start(items, ITEM, "ann", "x")
    before = entry(queue)
    with pytest.raises(error):
        pivot.finish(items, ITEM, "ann", **given)
    assert entry(queue) == before
    assert items.get(ITEM).pivot() is not None
    with pytest.raises(Conflict, match="being replanned already"):
        pivot.start(items, ITEM, "ben", "y")


def test_live_locks_are_refused(queue, items):
    take(queue, SECOND)
    answer = on_disk(queue, "pivot", "start", ITEM, "--reason", "x")
    assert (answer.code, answer.error["details"]["holders"]) == (4, {SECOND: "agent-1"})
    assert items.get(ITEM).pivot() is None


def test_live_locks_are_waited_for(queue, items):
    """The holder finishes while the pivot waits."""
    claim = take(queue, SECOND)
    other = reopened(queue.store.folder.root, queue.clock)
    waiting = threading.Event()

    def finish():
        while other.store.items.get(ITEM).pivot() is None:
            other.store.wait(0.05)
        waiting.set()
        other.finish(claim, Release())

    holder = threading.Thread(target=finish)
    holder.start()
    answer = on_disk(queue, "pivot", "start", ITEM, "--reason", "x", "--wait", "30s")
    holder.join()
    assert waiting.is_set()
    assert (answer.code, answer.data["still_held"]) == (0, [])
    other.close()


def test_live_locks_are_asked_to_stop(queue, items):
    claim = take(queue, SECOND)
    answer = on_disk(queue, "pivot", "start", ITEM, "--reason", "x", "--ask")
    assert answer.data["still_held"] == [SECOND]
    assert queue.renew(claim, LEASE) is Said.CANCEL
    queue.finish(claim, Release())
    pivot.finish(items, ITEM, "ann")
    assert queue.renew(take(queue, SECOND), LEASE) is Said.OK, "the next one is not asked"


def test_who_is_asked_to_stop_and_lets_go_after_the_plan_is_new_leaves_the_next_one_in_peace(queue, items):
    """The next one was asked to stop, too, and cancelled it."""
    claim = take(queue, SECOND)
    on_disk(queue, "pivot", "start", ITEM, "--reason", "x", "--ask")
    pivot.finish(items, ITEM, "ann")
    assert queue.renew(claim, LEASE) is Said.CANCEL
    assert queue.finish(claim, Release())[1].result is None, "it was not cancelled"
    assert queue.renew(take(queue, SECOND), LEASE) is Said.OK


def test_live_locks_are_blocked(queue, items):
    claim = take(queue, SECOND)
    answer = on_disk(queue, "pivot", "start", ITEM, "--reason", "GraphQL", "--block")
    assert answer.data["blockers"] == ["WI-001-B1"]
    assert actions(queue, SECOND)[-1] == "blocked"
    queue.finish(claim, Release())
    assert status(queue, SECOND) == "blocked", "and it stays so when its holder lets go"
    assert [one["id"] for one in items.get(ITEM).blockers()] == ["WI-001-B1"]
    pivot.finish(items, ITEM, "ann")
    assert queue.card(SECOND).held == "", "the new plan resolves it"


def test_what_people_have_against_it_stays(queue):
    """A new plan resolves what it blocked itself, no more, and tells so; what it drops is told, too."""
    blocker = "blockers:\n  - {id: B1, activity_id: A3, description: legal has not signed}\n"
    by_hand(queue, DOCUMENT.replace("not begun}", "not begun, status: blocked, not_before: 2999-01-01}") + blocker)
    items, claim = queue.store.items, take(queue, SECOND)
    pivot.start(items, ITEM, "ann", "GraphQL")
    pivot.mark_blocked(items, ITEM, pivot.live(items, ITEM), "ann", "GraphQL")
    queue.finish(claim, Release())
    assert pivot.finish(items, ITEM, "ann", drop=[FOURTH, f"{FIRST}-T1"])[0] == [SECOND, THIRD]
    assert [one["id"] for one in items.get(ITEM).blockers()] == ["B1"]
    assert (queue.card(SECOND).held, queue.card(THIRD).held) == ("", "legal has not signed")
    assert (status(queue, SECOND), status(queue, THIRD)) == ("pending", "blocked")
    assert "not_before" in entry(queue, THIRD)
    assert [actions(queue, one)[-1:] for one in (SECOND, THIRD)] == [["unblocked"], []]
    assert (actions(queue, FOURTH), actions(queue, f"{FIRST}-T1")) == (["cancelled_activity"], ["cancelled_task"])


def test_who_is_at_work_when_the_plan_is_new_goes_on(queue, items):
    claim = take(queue, SECOND)
    moves.start(items, f"{SECOND}-T2", "agent-1")
    pivot.start(items, ITEM, "ann", "x")
    reset, _ = pivot.finish(items, ITEM, "ann")
    assert SECOND not in reset
    assert steps(queue, SECOND)[f"{SECOND}-T2"] == "in_progress"
    assert queue.finish(claim, Done())[0] is Said.OK


def test_what_is_dropped_under_somebodys_hands_stays_dropped(queue, items):
    claim = take(queue, SECOND)
    pivot.start(items, ITEM, "ann", "x")
    pivot.finish(items, ITEM, "ann", drop=[SECOND])
    assert queue.renew(claim, LEASE) is Said.CANCEL
    assert queue.finish(claim, Done(output="too late"))[0] is Said.LOST
    assert status(queue, SECOND) == "abandoned"
    assert not lock_of(queue, SECOND).exists()
    assert len(queue.card(SECOND).late) == 1


def test_whoever_comes_back_to_an_old_plan_finds_it_gone(queue, items, clock):
    """Abandoned before the new plan: its holder must not finish what starts anew."""
    claim = take(queue, SECOND)
    clock.advance(LEASE + 1)
    pivot.start(items, ITEM, "ann", "x")
    reset, _ = pivot.finish(items, ITEM, "ann")
    assert SECOND in reset
    assert queue.finish(claim, Done(output="of the old plan"))[0] is Said.LOST
    assert status(queue, SECOND) == "pending"
