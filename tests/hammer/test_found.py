"""What the hammer found, each case alone and forced."""

from __future__ import annotations

import os

import pytest
from boxes import make, reopened, write
from faults import Stopped, killed_at, record

from taskpit.errors import Lost
from taskpit.keeper import sweep
from taskpit.model import Done, Said, State, Task
from taskpit.testing import FakeClock

RESULTS = {"pit": "done/food-0001-x.result.md", "mailbox": "outbox/0001_result.json"}
FOREIGN = '{"task_id": "0001", "status": "completed", "output": "theirs"}'


@pytest.fixture(params=RESULTS)
def queue(request, tmp_path):
    queue = make(tmp_path / "queue", request.param)
    queue.store.put([Task(id="0001", title="x", slug="x")])
    yield queue
    queue.close()


def result_of(queue):
    return queue.store.folder.at(RESULTS[queue.store.folder.layout.name])


def number_of_publishing(queue):
    """Which call of a finish gives the result its name."""
    other = make(f"{queue.store.folder.root}-twin", queue.store.folder.layout.name)
    other.store.put([Task(id="0001", title="x", slug="x")])
    (twin,) = other.claim("snake")
    with record() as calls:
        other.finish(twin, Done(output="ours"))
    other.close()
    return calls.index(("link", result_of(other))) + 1


def test_a_worker_whose_result_was_kept_aside_is_told_so(queue):
    """A stranger published first, a keeper carried our end out and kept ours aside: nobody may hear a yes."""
    (claim,) = queue.claim("snake")
    stopped = Stopped(lambda: queue.finish(claim, Done(output="ours"))[0], number_of_publishing(queue))
    assert stopped.call == ("link", result_of(queue))
    write(result_of(queue), FOREIGN)
    keeper = reopened(queue.store.folder.root, queue.store.folder.layout.name)
    sweep(keeper)
    sweep(keeper)
    keeper.close()
    assert stopped.go_on() is Said.LOST
    card = queue.card("0001")
    assert "theirs" in card.result.output
    assert len(card.late) == 1


def test_a_result_of_a_stranger_is_known_although_a_dead_worker_left_half_an_end(queue):
    """What somebody wrote who died before the seal stands in nobody's way."""
    folder = queue.store.folder
    write(folder.tmp("0001", "aaaaaabbbbbbbb", "result"), "half")
    os.remove(folder.at(next(folder.spots(folder.layout.ready, State.READY)).path))
    write(result_of(queue), FOREIGN)
    sweep(queue)
    assert os.path.exists(folder.at(".taskpit/outcomes/0001~done"))
    assert queue.card("0001").state is State.DONE


def test_who_asks_about_an_end_that_is_decided_hears_what_to_do(queue):
    """Repeated after a crash or on a full disk, a done finds its claim over and its end not carried out."""
    (claim,) = queue.claim("snake")
    with killed_at(number_of_publishing(queue)):
        queue.finish(claim, Done(output="ours"))
    with pytest.raises(Lost, match="the end of 0001 is decided") as told:
        queue.holding("0001", "snake")
    assert "pit sweep" in told.value.hint
    sweep(queue)
    assert queue.card("0001").result.output.strip() == "ours"


class Elsewhere(FakeClock):
    """The clock of an observer who can't compare it with anybody's."""

    def boot(self):
        return "elsewhere"


@pytest.mark.parametrize("there", [FakeClock, Elsewhere])
def test_a_judge_that_stalls_holds_no_old_sign_against_who_renews(there, tmp_path):
    """Stopped before any of its calls for longer than a lease, in which the worker renewed: it has given its sign."""
    for number in range(1, 60):
        clock = there()
        root = tmp_path / str(number)
        queue = make(root, "pit", clock)
        queue.store.put([Task(id="0001", title="x", slug="x")])
        workers = reopened(root, "pit", FakeClock() if there is Elsewhere else clock)
        (claim,) = workers.claim("snake", lease=100.0)
        assert queue.store.lapsed() == []
        stopped = Stopped(queue.store.lapsed, number)
        for _ in range(3):
            for one in {clock, workers.clock}:
                one.advance(60.0)
            assert workers.renew(claim, 100.0) is Said.OK
        assert stopped.go_on() == [], stopped.call
        workers.close()
        queue.close()
        if not stopped.there:
            break
    assert number > 5
