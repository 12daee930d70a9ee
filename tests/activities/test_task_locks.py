"""Tasks inside an activity: only its holder moves them, and their locks never outlive its own."""

from __future__ import annotations

import json

import pytest
from workitems import FIRST, LEASE, actions, by_hand, entry, lock_of, status, steps, take

from taskpit.errors import Conflict, Held, Lost, NotFound
from taskpit.model import Done, Release, Said, State, Task
from taskpit.store.activities import steps as moves

T1, T2, T3 = (f"{FIRST}-T{number}" for number in (1, 2, 3))
DOCUMENT = """\
activities:
  - id: A1
    tasks:
      - {id: T1, title: one}
      - {id: T2, title: two, depends_on: [T1]}
      - {id: T3, title: three, actor: human}
"""


@pytest.fixture
def items(queue):
    by_hand(queue, DOCUMENT)
    return queue.store.items


def lock(queue):
    return json.loads(lock_of(queue).read_text())


def test_started_and_done(queue, items):
    take(queue)
    moves.start(items, T1, "agent-1")
    assert (lock(queue)["task_id"], steps(queue)[T1]) == (T1, "in_progress")
    assert queue.card(T1).state is State.CLAIMED
    moves.finish(items, T1, "agent-1", "agent", "it was easy")
    assert (lock(queue)["task_id"], lock(queue)["task_expires"], steps(queue)[T1]) == (None, None, "completed")
    assert queue.card(T1).state is State.DONE
    assert items.get("WI-001").step_entry(T1)[0]["notes"] == "it was easy"
    assert actions(queue, T1) == ["started_task", "completed_task"]


MOVES = {
    "start": moves.start,
    "done": lambda items, step, worker: moves.finish(items, step, worker, "agent"),
    "wait": lambda items, step, worker: moves.await_human(items, step, worker, "agent"),
}


@pytest.mark.parametrize("move", MOVES)
def test_nobody_but_the_holder_moves_them(queue, items, move):
    take(queue)
    before, held = entry(queue), lock_of(queue).read_bytes()
    with pytest.raises(Lost, match="held by agent-1"):
        MOVES[move](items, T1, "agent-2")
    assert entry(queue) == before
    assert lock_of(queue).read_bytes() == held


def test_none_is_started_without_the_activity(queue, items):
    with pytest.raises(Lost, match="not yours"):
        moves.start(items, T1, "agent-1")
    assert steps(queue)[T1] == "pending"


@pytest.mark.parametrize("lease", [0.0, 60.0, 100 * LEASE])
@pytest.mark.parametrize("kind", ["agent", "human"])
def test_a_task_lock_never_outlives_the_activitys(queue, items, clock, lease, kind):
    claim = take(queue, kind=kind, lease=LEASE)
    moves.start(items, T1, "agent-1", lease)
    assert lock(queue)["task_expires"] <= lock(queue)["expires"]
    for renewed in (10 * LEASE, 60.0, 30.0):  # also when a renewal is shorter than what there was
        clock.advance(5)
        assert queue.renew(claim, renewed) is Said.OK
        assert lock(queue)["task_expires"] <= lock(queue)["expires"]
        assert lock(queue)["task_id"] == T1


def test_durations_as_documented(queue, items, clock):
    """Agents one hour and thirty minutes, people eight hours and four."""
    for kind, activity, inside in (("agent", 3600, 1800), ("human", 8 * 3600, 4 * 3600)):
        (claim,) = queue.claim("w", ids=[FIRST], kind=kind, verbatim=True)
        assert claim.lease == activity
        got = moves.start(items, T1, "w")
        assert 0 <= got.expires - clock.now() - activity < 1, "times are written in whole seconds, never too early"
        assert got.task_expires - clock.now() == inside
        queue.finish(claim, Release())


def test_agents_leave_to_people_what_is_theirs(queue, items):
    take(queue)
    for move in (lambda: moves.start(items, T3, "agent-1"), lambda: moves.finish(items, T3, "agent-1", "agent")):
        with pytest.raises(Held, match="for a person"):
            move()
    assert steps(queue)[T3] == "pending"
    moves.await_human(items, T3, "agent-1", "agent", "please look")
    assert steps(queue)[T3] == "awaiting_human"
    assert actions(queue, T3) == ["awaiting_human"]


def test_no_agent_does_it_in_passing_either(queue, items):
    with pytest.raises(Held, match="for a person"):
        moves.finish(items, T3, "agent-9", "agent")
    assert steps(queue)[T3] == "pending"
    assert not lock_of(queue).exists()


def test_put_again_it_is_there_or_another(queue, items):
    assert queue.store.put([Task(id=T1, title="one"), Task(id=T1, title="another")]) == [Said.EXISTS, Said.CONFLICT]
    assert list(steps(queue)) == [T1, T2, T3]


def test_what_it_needs_comes_first(queue, items):
    take(queue)
    for move in (lambda: moves.start(items, T2, "agent-1"), lambda: moves.finish(items, T2, "agent-1", "agent")):
        with pytest.raises(Held, match=f"needs {T1}"):
            move()


def test_done_is_done(queue, items):
    take(queue)
    moves.finish(items, T1, "agent-1", "agent")
    with pytest.raises(Conflict, match="completed already"):
        moves.finish(items, T1, "agent-1", "agent")
    with pytest.raises(NotFound):
        moves.start(items, f"{FIRST}-T9", "agent-1")


def test_people_do_their_part_by_taking_it_for_a_moment(queue, items):
    assert moves.finish(items, T1, "ann", "human") is State.READY
    assert not lock_of(queue).exists()
    assert steps(queue)[T1] == "completed"
    assert moves.finish(items, T3, "ann", "human") is State.READY
    assert moves.finish(items, T2, "ben", "human") is State.DONE, "the last one completes the activity"
    card = queue.card(FIRST)
    assert (card.state, card.result.worker, card.result.reason) == (State.DONE, "ben", "All tasks complete")
    assert entry(queue)["completed_by"] == "ben"
    assert actions(queue, FIRST) == ["completed_activity"]
    assert queue.card("WI-001").state is State.DONE
    assert items.get("WI-001").status == "completed"


def test_an_agent_that_is_done_leaves_the_rest_to_people(queue, items):
    """Its own tasks are completed with it; a person's is waited for, and completes the whole."""
    claim = take(queue)
    assert queue.finish(claim, Done(output="mine is done"))[0] is Said.OK
    assert steps(queue) == {T1: "completed", T2: "completed", T3: "awaiting_human"}
    assert (status(queue), queue.card(FIRST).state) == ("awaiting_human", State.READY)
    assert "a person" in queue.card(FIRST).held
    assert queue.claim("agent-2") == []
    assert entry(queue)["deliverables"] == [f"deliverables/{FIRST}.md"]
    assert moves.finish(items, T3, "ann", "human") is State.DONE
    assert queue.card(FIRST).state is State.DONE


@pytest.mark.parametrize("actor", ["human", "Person", "designer"])
def test_what_comes_after_a_persons_task_is_not_done_before_it(actor, queue):
    by_hand(
        queue, DOCUMENT.replace("title: two", f"title: two, actor: {actor}").replace("actor: human}", "depends_on: T2}")
    )
    assert queue.finish(take(queue), Done())[0] is Said.OK
    assert steps(queue) == {T1: "completed", T2: "awaiting_human", T3: "pending"}
    assert queue.claim("agent-2") == []
    if actor == "designer":  # nobody here is one: the word has to be mended first
        return
    assert moves.finish(queue.store.items, T2, "ann", "human") is State.READY, "the approval deploys nothing"
    assert (status(queue), steps(queue)[T3]) == ("pending", "pending")
    assert queue.finish(take(queue, worker="agent-2"), Done())[0] is Said.OK
    assert (queue.card(FIRST).state, steps(queue)[T3]) == (State.DONE, "completed")


def test_a_person_that_is_done_completes_all(queue, items):
    assert queue.finish(take(queue, worker="ann", kind="human"), Done())[0] is Said.OK
    assert set(steps(queue).values()) == {"completed"}


def test_the_holder_who_does_the_last_one_still_says_done(queue, items):
    take(queue, worker="ann", kind="human")
    states = [moves.finish(items, step, "ann", "human") for step in (T1, T2, T3)]
    assert states == [State.CLAIMED] * 3
    assert status(queue) == "in_progress"


def test_a_refused_change_leaves_no_lock_behind(queue, items):
    with pytest.raises(Held):
        moves.finish(items, T2, "ann", "human")
    assert not lock_of(queue).exists()
    assert not [action for action in actions(queue) if action == "completed_task"]
