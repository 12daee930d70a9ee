"""Beside the tool that these folders come from: its statuses, its changelog, and no way around the gates of a claim."""

from __future__ import annotations

import json
import os

import pytest
from workitems import FIRST, SECOND, by_hand, entry, file_of, home_of, load, put, status, steps, take

from taskpit.errors import Held
from taskpit.layouts.progress import status_of
from taskpit.model import Done, Failed, State
from taskpit.store.activities import steps as moves

#: What its validator knows.
ACTIVITY = {"pending", "in_progress", "completed", "blocked", "awaiting_human", "abandoned"}
STEP = "  - id: A1\n    tasks: [{id: T1}]\n"
HELD = {
    "its needs are not done": f"activities:\n{STEP}    depends_on: [A2]\n  - id: A2\n",
    "it is blocked": f"activities:\n{STEP}blockers:\n  - {{id: B1, activity_id: A1, description: no access}}\n",
    "it is for a person": f"activities:\n{STEP}    actor: human\n",
    "its status says so": f"activities:\n{STEP}    status: blocked\n",
    "a person must look first": f"activities:\n{STEP}    hold: look first\n",
    "it is being replanned": f"activities:\n{STEP}pivots:\n  - {{reason: GraphQL}}\n",
}


@pytest.mark.parametrize("why", HELD)
def test_a_task_of_an_activity_that_may_not_be_claimed_cannot_be_done_either(why, queue):
    by_hand(queue, HELD[why])
    before = file_of(queue).read_bytes()
    with pytest.raises(Held):
        moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent")
    assert file_of(queue).read_bytes() == before
    assert os.listdir(home_of(queue) / "locks") == []


def test_nor_while_the_queue_is_paused(queue):
    by_hand(queue, f"activities:\n{STEP}")
    queue.store.pause("lunch", 0.0, "ann")
    with pytest.raises(Held, match="lunch"):
        moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent")
    queue.store.resume("ann")
    assert moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent") is State.DONE


def test_the_last_task_completes_no_activity_that_has_a_check(queue):
    by_hand(queue, f"activities:\n{STEP}    done_when: 'false'\n")
    assert moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent") is State.READY
    assert (status(queue), steps(queue)) == ("pending", {f"{FIRST}-T1": "completed"})
    claim = take(queue)
    assert claim.task.check == "false"


def test_its_words_for_what_has_ended(queue):
    by_hand(queue, "activities:\n  - id: A1\n    status: abandoned\n  - id: A2\n    depends_on: [A1]\n")
    assert queue.card(FIRST).state is State.FAILED
    assert "WI-001-A1" in queue.card(SECOND).held


def test_we_write_statuses_that_it_knows(queue):
    by_hand(queue, "schema_version: 2\nactivities:\n  - {id: A1}\n  - {id: A2}\n  - {id: A3}\n")
    queue.finish(take(queue), Failed(error="no", final=True))
    queue.cancel(SECOND, "ann", "no longer")
    document = load(file_of(queue))
    assert document["schema_version"] == 2
    assert {status_of({"status": one["status"]}) and one["status"] for one in document["activities"][:2]} <= ACTIVITY
    assert [str(queue.card(one).result.verdict) for one in (FIRST, SECOND)] == ["failed", "cancelled"]
    queue.retry(FIRST, "ann")
    queue.finish(take(queue), Done())
    assert status(queue) == "completed"


def test_a_work_item_whose_activities_are_completed_is_done(queue):
    by_hand(queue, "title: x\nstatus: in_progress\nactivities:\n  - {id: A1}\n")
    queue.finish(take(queue), Done())
    assert load(file_of(queue))["status"] == "done"
    assert queue.store.items.get("WI-001").status == "completed"
    put(queue, "more")
    assert load(file_of(queue))["status"] == "in_progress"
    assert entry(queue)["status"] == "completed"


def test_its_lines_of_the_changelog_are_told(queue):
    by_hand(queue, f"activities:\n{STEP}")
    line = {
        "timestamp": "2026-01-24T10:00:00.123Z",
        "worker": "agent-abc123",
        "workerType": "agent",
        "action": "claimed_activity",
        "activityId": FIRST,
        "details": "Starting work",
    }
    (home_of(queue) / "changelog.log").write_text(f"{json.dumps(line)}\n", encoding="utf-8")
    (event,) = [event for event in queue.store.events()[0] if event.worker == "agent-abc123"]
    assert (event.worker_type, event.about, dict(event.extra)) == ("agent", FIRST, {})
