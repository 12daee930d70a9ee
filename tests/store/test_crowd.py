"""Many workers on one queue: they hear what others take, spread out while they meet, and keep the order when alone."""

from __future__ import annotations

import pytest
from faults import record
from pits import make, reopened, root_of, task

from taskpit.clock import Clock
from taskpit.model import Task
from taskpit.store.index import CROWDED, WIDEST, Window

pytestmark = pytest.mark.mechanism

MANY = 200


def window(clock, count=100, urgent=0):
    known = Window(clock)
    for number in range(1, count + 1):
        known.know(f"f{number}", Task(id=f"{number:04d}", title="t", priority=int(number <= urgent)), (number, 0))
    return known


def best(known, count=1):
    found = []
    for file, _, _ in known.best(lambda *_: True, None, lambda: False):
        found.append(file)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("found", [True, False])
def test_what_is_forgotten_while_more_is_looked_for_is_no_candidate(clock, found):
    """The disk refused the catalogue, say: a pool ended with the name of a file."""
    known = window(clock, 1)
    known.collided()
    turns = [found]

    def more():
        known.clear()
        if turns and turns.pop():
            known.know("f2", Task(id="0002", title="t"), (2, 0))
            return True
        return False

    assert [file for file, _, _ in known.best(lambda *_: True, None, more)] == []


def test_alone_the_order_is_strict(clock):
    assert best(window(clock), 100) == [f"f{number}" for number in range(1, 101)]


def test_after_a_collision_tries_are_spread_and_then_no_more(clock):
    known = window(clock)
    for _ in range(10):
        known.collided()
    firsts = {best(known)[0] for _ in range(400)}
    assert len(firsts) > WIDEST // 2
    assert firsts <= {f"f{number}" for number in range(1, WIDEST + 1)}
    clock.advance(CROWDED + 0.01)
    assert best(known, 5) == ["f1", "f2", "f3", "f4", "f5"]


def test_a_better_priority_is_never_passed_over(clock):
    known = window(clock, urgent=3)
    for _ in range(10):
        known.collided()
    for _ in range(50):
        assert set(best(known, 3)) == {"f1", "f2", "f3"}


def test_each_is_offered_once_however_spread(clock):
    known = window(clock)
    for _ in range(10):
        known.collided()
    assert sorted(best(known, 1000)) == sorted(f"f{number}" for number in range(1, 101))


def test_what_comes_back_comes_first_again(clock):
    known = window(clock)
    for file in best(known, 10):
        known.forget(file)
    assert best(known) == ["f11"]
    known.know("f2", Task(id="0002", title="t"), (2, 1))
    assert best(known, 2) == ["f2", "f11"]


@pytest.mark.parametrize("count", [40, MANY])
def test_nobody_tries_for_what_another_has_taken(count, tmp_path):
    """With a catalogue and without: a worker that stays has heard of it."""
    queue = make(str(tmp_path / "pit"), Clock())
    queue.put([task(number, created=1000.0 + number) for number in range(1, count + 1)])
    one, two = reopened(root_of(queue), Clock()), reopened(root_of(queue), Clock())
    for worker in (one, two, one, two, one, two):  # what was taken before it watched a worker must try for
        worker.claim("snake")
    taken = []
    with record() as calls:
        for worker in [one, two, two, one] * ((count - 8) // 4):
            taken += worker.claim("snake")
    tried = [path for call, path in calls if call == "utime" and "/food/" in path]
    assert len(tried) == len(taken)
    assert [int(claim.task.id) for claim in taken] == list(range(7, 7 + len(taken)))
    for each in (one, two, queue):
        each.close()


def test_an_id_that_somebody_has_used_meanwhile_is_not_asked_for_twice(tmp_path, clock):
    """Ids are reserved in blocks, and looked at by nobody until the link decides."""
    queue = make(str(tmp_path / "pit"), clock)
    other = reopened(root_of(queue), clock)
    first = [queue.put([Task(id="", title="mine")])[0][0] for _ in range(4)]
    following = f"{int(first[-1]) + 1:04d}"
    other.put([Task(id=following, title="theirs")])
    (got, _) = queue.put([Task(id="", title="mine")])[0]
    assert got not in (*first, following)
    assert [card.task.title for card in queue.store.read([following, got])] == ["theirs", "mine"]
