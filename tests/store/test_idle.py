"""A worker for whom nothing is there remembers it, and looks again as soon as something may be."""

from __future__ import annotations

import pytest
from faults import record
from pits import LEASE, make, put, reopened, root_of, take, task

from taskpit.model import Done, Said, Want
from taskpit.store import index
from taskpit.testing import FakeClock

pytestmark = pytest.mark.mechanism

WANT = Want(worker="idle", lease=LEASE, tags=("mine",))


@pytest.fixture(params=[10, 200, 201], ids=["listed", "catalogue", "more than is kept in memory"])
def pit(request, tmp_path, monkeypatch):
    """A queue with tasks that do not fit, and a worker that has found so."""
    if request.param > 200:
        monkeypatch.setattr(index, "MOST", 40)
        monkeypatch.setattr(index, "SOME", 16)
    queue = make(str(tmp_path / "pit"), FakeClock())
    queue.store.put([task(number, tags=("others",)) for number in range(1, request.param + 1)])
    assert queue.store.claim(WANT) == []
    assert queue.store.wait(0.0)  # from now on the kernel tells
    for _ in range(3):
        assert queue.store.claim(WANT) == []
    yield queue
    queue.close()


def test_nothing_is_looked_at_again(pit):
    with record() as calls:
        assert pit.store.claim(WANT) == []
    assert [call for call in calls if "/.taskpit/paused" not in call[1]] == []


def test_a_wish_of_another_sort_spoils_nothing(pit):
    """As a pool has two: its own tags, and schedules."""
    wishes = (WANT, WANT.replace(tags=("@schedule",)))
    for _ in range(2):
        assert [pit.store.claim(want) for want in wishes] == [[], []]
    with record() as calls:
        assert [pit.store.claim(want) for want in wishes] == [[], []]
    assert [call for call in calls if "/.taskpit/paused" not in call[1]] == []


def test_others_take_and_end_theirs_and_it_rests(pit):
    other = reopened(root_of(pit), pit.clock)
    assert other.finish(take(other, "0003"), Done())[0] is Said.OK
    with record() as calls:
        assert pit.store.claim(WANT) == []
    assert [call for call in calls if "/.taskpit/paused" not in call[1]] == []
    other.close()


def test_what_comes_is_found(pit):
    other = reopened(root_of(pit), pit.clock)
    put(other, task(999, tags=("mine",)))
    assert [claim.task.id for claim in pit.store.claim(WANT)] == ["0999"]
    other.close()


def test_what_a_look_was_told_of_is_found(pit):
    """A pool that shows what is left, a board, a program that lists and then claims."""
    other = reopened(root_of(pit), pit.clock)
    put(other, task(999, tags=("mine",)))
    assert "0999" in {card.task.id for card in pit.store.page(limit=1000).cards}
    assert [claim.task.id for claim in pit.store.claim(WANT)] == ["0999"]
    other.close()


def test_what_is_edited_in_place_is_found(pit):
    path = f"{root_of(pit)}/food/food-0004-task-4.md"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert "others" in text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("others", "mine"))
    pit.clock.advance(60)
    assert [claim.task.id for claim in pit.store.claim(WANT)] == ["0004"]


def test_another_worker_asks_for_itself(pit):
    assert len(pit.store.claim(WANT.replace(tags=("others",)))) == 1


def test_what_becomes_due_is_found(pit):
    put(pit, task(999, tags=("mine",), not_before=pit.clock.now() + 20))
    assert pit.store.claim(WANT) == []
    assert pit.store.claim(WANT) == []
    pit.clock.advance(21)
    assert [claim.task.id for claim in pit.store.claim(WANT)] == ["0999"]


def test_what_was_needed_is_done(pit):
    other = reopened(root_of(pit), pit.clock)
    put(other, task(999, tags=("mine",), needs=("0005",)))
    assert pit.store.claim(WANT) == []
    assert pit.store.claim(WANT) == []
    assert other.finish(take(other, "0005"), Done())[0] is Said.OK
    assert [claim.task.id for claim in pit.store.claim(WANT)] == ["0999"]
    other.close()


def test_what_was_in_the_way_is_gone(pit):
    other = reopened(root_of(pit), pit.clock)
    put(other, task(998, touches=("src/*",)), task(999, tags=("mine",), touches=("src/*",)))
    first = take(other, "0998")
    assert pit.store.claim(WANT) == []
    assert pit.store.claim(WANT) == []
    assert other.finish(first, Done())[0] is Said.OK
    assert [claim.task.id for claim in pit.store.claim(WANT)] == ["0999"]
    other.close()


def test_workers_of_one_sort_share_it(pit):
    with record() as calls:
        assert pit.store.claim(WANT.replace(worker="second")) == []
    assert [call for call in calls if call[0] == "list"] == []
