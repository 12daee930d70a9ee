"""What was begun and left lying goes on where it stopped, whoever finds it first."""

from __future__ import annotations

import json

import pytest
from workitems import FIRST, LEASE, actions, by_hand, entry, lock_of, reopened, status, steps, take

from taskpit.keeper import sweep
from taskpit.model import Done, Release, Said, State
from taskpit.store.activities import steps as moves

DOCUMENT = """\
activities:
  - id: A1
    tasks:
      - {id: T1, title: one}
      - {id: T2, title: two}
      - {id: T3, title: three, actor: human}
"""


@pytest.fixture
def left(queue, clock):
    """An agent did the first task, began the second, and was never seen again."""
    by_hand(queue, DOCUMENT)
    claim = take(queue)
    moves.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent")
    moves.start(queue.store.items, f"{FIRST}-T2", "agent-1")
    clock.advance(LEASE + 1)
    return claim


def lock(queue):
    return json.loads(lock_of(queue).read_text())


def details(queue, action):
    return [event.details for event in queue.store.events()[0] if event.action == action]


def test_taken_over_it_goes_on_at_the_task_in_the_lock(queue, left):
    assert status(queue) == "in_progress"
    assert queue.card(FIRST).state is State.CLAIMED
    take(queue, worker="agent-2")
    assert lock(queue)["holder"] == "agent-2"
    assert lock(queue)["task_id"] == f"{FIRST}-T2"
    assert lock(queue)["task_expires"] <= lock(queue)["expires"]
    assert details(queue, "recovered_activity")[0].startswith("the lock of agent-1 expired")
    assert details(queue, "recovered_activity")[0].endswith(f"; resuming at {FIRST}-T2")
    assert queue.finish(left, Done(output="too late"))[0] is Said.LOST


def test_swept_it_goes_on_there_too(queue, left):
    """The keeper takes the lock away; the task that was begun still tells."""
    assert [mend.what for mend in sweep(queue)] == [FIRST]
    assert not lock_of(queue).exists()
    assert status(queue) == "pending"
    assert actions(queue, FIRST)[-1] == "recovered_activity"
    assert steps(queue)[f"{FIRST}-T2"] == "in_progress"
    take(queue, worker="agent-2")
    assert lock(queue)["task_id"] == f"{FIRST}-T2"
    assert actions(queue, FIRST)[-1] == "resumed_activity"
    assert details(queue, "resumed_activity") == [f"resuming at {FIRST}-T2"]
    assert sweep(queue) == []


def test_in_progress_and_no_lock_at_all(queue, left):
    """Somebody deleted the lock, as the documents allow."""
    lock_of(queue).unlink()
    assert queue.card(FIRST).state is State.READY
    take(queue, worker="agent-2")
    assert details(queue, "recovered_activity") == [f"it was in progress and no worker held it; resuming at {FIRST}-T2"]


def test_given_back_on_purpose_it_is_resumed(queue):
    by_hand(queue, DOCUMENT)
    queue.finish(take(queue), Release())
    take(queue, worker="agent-2")
    assert actions(queue, FIRST)[-1] == "claimed_activity", "nothing had been done"
    moves.finish(queue.store.items, f"{FIRST}-T1", "agent-2", "agent")
    queue.finish(queue.holding(FIRST, "agent-2"), Release())
    take(queue, worker="agent-3")
    assert actions(queue, FIRST)[-1] == "resumed_activity"
    assert lock(queue)["task_id"] is None


def test_an_agent_does_not_resume_a_persons_task(queue, clock):
    by_hand(queue, DOCUMENT)
    take(queue, worker="ann", kind="human")
    moves.start(queue.store.items, f"{FIRST}-T3", "ann")
    clock.advance(9 * LEASE)
    take(queue, worker="agent-1")
    assert lock(queue)["task_id"] is None


def test_a_task_that_was_done_meanwhile_is_not_resumed(queue, left, clock):
    moves.finish(queue.store.items, f"{FIRST}-T2", "ann", "human")
    take(queue, worker="ben", kind="human")
    assert lock(queue)["task_id"] is None


def test_its_attempts_are_not_spent(queue, left):
    """A lost worker is nobody's failure."""
    sweep(queue)
    assert entry(queue).get("attempts") is None
    assert [one.kind for one in queue.card(FIRST).tries] == ["lost"]


def test_a_worker_that_renews_is_never_abandoned(queue, clock):
    by_hand(queue, DOCUMENT)
    claim = take(queue)
    for _ in range(20):
        clock.advance(LEASE - 1)
        assert queue.renew(claim, LEASE) is Said.OK
        assert sweep(reopened(queue.store.folder.root, clock)) == []
    assert queue.finish(claim, Done())[0] is Said.OK
