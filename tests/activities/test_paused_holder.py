"""A holder that stands still past its lease, before each of its calls in turn, changes nothing of another's.

Before its turn and after it another takes over, and what the holder then does is refused. In the middle of
its turn nobody can take over: others are told so at once, nothing breaks, and it goes on as the holder it is.
"""

from __future__ import annotations

import shutil

import pytest
from faults import Stopped
from rotation import part
from workitems import FIRST, ITEM, LEASE, by_hand, disorder, file_of, lock_of, make, reopened, take

from taskpit.errors import Lost, TaskpitError, Unavailable
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Release, Said, State, Want
from taskpit.store import flock
from taskpit.store.activities import steps as moves
from taskpit.testing import FakeClock

#: No verb here makes more calls than this.
MOST = 400
T1, T2 = f"{FIRST}-T1", f"{FIRST}-T2"
DOCUMENT = """\
activities:
  - id: A1   # the one
    tasks:
      - {id: T1, title: one}
      - {id: T2, title: two}
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Nobody waits long for a turn that does not come."""
    monkeypatch.setattr(flock, "TURN", 0.005)


VERBS = {
    "done": lambda queue, claim: queue.finish(claim, Done(output="the slow one's"))[0],
    "failed": lambda queue, claim: queue.finish(claim, Failed(error="slow"))[0],
    "release": lambda queue, claim: queue.finish(claim, Release())[0],
    "renew": lambda queue, claim: queue.renew(claim, LEASE),
    "task start": lambda queue, _: moves.start(queue.store.items, T2, "slow"),
    "task done": lambda queue, _: moves.finish(queue.store.items, T1, "slow", "agent"),
}


def stops(where, verb):
    """For calls of the holder's verb: the queue as another has it, and the holder standing before that call."""
    for number in part(range(1, MOST), 3):
        clock, root = FakeClock(), f"{where}/{number}"
        queue = make(root, clock)
        by_hand(queue, DOCUMENT)
        claim = take(queue, worker="slow")
        moves.start(queue.store.items, T1, "slow")
        stopped = Stopped(lambda q=queue, c=claim: VERBS[verb](q, c), number)
        if not stopped.there:
            stopped.go_on()
            return
        clock.advance(LEASE + 2)
        other = reopened(root, clock)
        yield other, stopped
        other.close()
        queue.close()
        shutil.rmtree(root)
    raise AssertionError("the verb does not end")


def outcome(stopped):
    """What came of the holder's verb: LOST, or what it returned."""
    try:
        return stopped.go_on()
    except Lost:
        return Said.LOST


def taken_over(other):
    """Somebody fast has it and is at its second task; False if the slow one stands in the middle of its turn."""
    claims = other.store.claim(Want(worker="fast", lease=LEASE, ids=(FIRST,), verbatim=True))
    if not claims:
        return False
    moves.start(other.store.items, T2, "fast")
    return True


def left(queue):
    """All that the other has: the file, its lock, what is published."""
    home, lock = file_of(queue).parent, lock_of(queue)
    published = sorted(path.name for path in home.glob("deliverables/*"))
    return file_of(queue).read_bytes(), lock.read_bytes() if lock.exists() else b"", published


def refused(stopped):
    """The holder goes on, and finds that it is no longer the holder."""
    said = outcome(stopped)
    assert said is Said.LOST, (said, stopped.call)


@pytest.mark.parametrize("verb", VERBS)
def test_what_another_has_taken_is_left_alone(verb, tmp_path):
    places = {"before": 0, "in it": 0, "after": 0}
    for other, stopped in stops(tmp_path, verb):
        if other.card(FIRST).state is not State.CLAIMED:  # it has happened; the rest is telling
            places["after"] += 1
            assert outcome(stopped) is not Said.LOST, stopped.call
            continue
        if taken_over(other):
            places["before"] += 1
            theirs = left(other)
            said = outcome(stopped)
            if said is Said.LOST:
                assert left(other) == theirs, stopped.call
                late = len(other.card(FIRST).late)
                assert late == (1 if verb == "done" else 0), "a late result is kept aside"
            else:  # it had all been done before it stood still
                places["after"] += 1
                assert left(other) == theirs, stopped.call
        else:
            places["in it"] += 1
            with pytest.raises(Unavailable):
                moves.finish(other.store.items, T2, "fast", "agent")
            with pytest.raises(TaskpitError):
                other.claim("fast", ids=[FIRST])
            assert outcome(stopped) is not Said.LOST, stopped.call
        sweep(other)
        assert disorder(other) == [], stopped.call
        assert "# the one" in file_of(other).read_text()
    assert places["before"] >= 1, places
    assert places["in it"] >= 2, places


def test_what_another_has_finished_stands(tmp_path):
    """The other has taken over and is done before the slow one goes on: one result, and it is the other's."""
    seen = 0
    for other, stopped in stops(tmp_path, "done"):
        if taken_over(other):
            seen += 1
            assert other.finish(other.holding(FIRST, "fast"), Done(output="the fast one's"))[0] is Said.OK
            before = file_of(other).read_bytes()
            refused(stopped)
            assert file_of(other).read_bytes() == before
            assert other.card(FIRST).result.output == "the fast one's"
            assert len(other.card(FIRST).late) == 1
            published = list((file_of(other).parent / "deliverables").iterdir())
            assert [path.read_text() for path in published] == ["the fast one's"]
        else:
            outcome(stopped)
        assert other.card(FIRST).state is State.DONE
    assert seen >= 1


def test_a_stalled_taker_is_not_two_holders(tmp_path):
    """Whoever is stopped while it claims finds it taken, or has it alone."""
    ends = {True: 0, False: 0}
    for number in part(range(1, MOST), 3):
        clock, root = FakeClock(), f"{tmp_path}/{number}"
        queue = make(root, clock)
        by_hand(queue, DOCUMENT)
        want = Want(worker="slow", lease=LEASE, ids=(FIRST,), verbatim=True)
        stopped = Stopped(lambda q=queue, w=want: q.store.claim(w), number)
        if not stopped.there:
            assert min(ends.values()) >= 2
            return
        other = reopened(root, clock)
        taken = taken_over(other)
        got = stopped.go_on()
        ends[taken] += 1
        assert bool(got) is not taken, stopped.call
        assert other.card(FIRST).worker == ("fast" if taken else "slow"), stopped.call
        assert other.store.items.get(ITEM).entry(FIRST)["status"] == "in_progress"
        for one in (queue, other):
            one.close()
        shutil.rmtree(root)
    raise AssertionError("the verb does not end")
