"""A power loss may keep a result and take the moves that led to it: directories reach the disk one by one."""

from __future__ import annotations

import os

import pytest
from pits import POWER, make, misplaced, put, reopened, root_of, take, task

from taskpit import fs
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Verdict
from taskpit.store import finish as finishing
from taskpit.store.folder import QUARANTINE
from taskpit.testing import FakeClock

ID = "0001"
ENDS = {State.DONE: Done(output="it works"), State.FAILED: Failed(error="never", final=True)}


@pytest.fixture(params=["pit", "workspace"])
def queue(request, tmp_path):
    queue = make(str(tmp_path / "q"), FakeClock(), POWER, request.param)
    put(queue, task(1))
    yield queue
    queue.close()


def back(queue):
    """The task's own file again where it was before it was claimed, as if it had never moved."""
    folder = queue.store.folder
    os.link(folder.at(f".taskpit/ids/{ID}"), folder.at(folder.layout.ready_path(task(1))))
    queue.clock.reboot("the next boot")


@pytest.mark.parametrize("state", ENDS)
def test_what_is_finished_stays_finished(queue, state):
    claim = take(queue, ID)
    queue.finish(claim, ENDS[state])
    back(queue)
    after = reopened(root_of(queue), queue.clock)
    sweep(after)
    assert sweep(after) == []
    assert misplaced(after) == {}
    assert after.card(ID).state is state
    after.close()


@pytest.mark.parametrize("state", ENDS)
def test_nobody_runs_it_again_before_the_sweep(queue, state):
    claim = take(queue, ID)
    queue.finish(claim, ENDS[state])
    back(queue)
    after = reopened(root_of(queue), queue.clock)
    assert after.claim("another") == []
    assert after.card(ID).state is state
    after.close()


def test_a_file_left_with_both_names_of_its_claim_has_one_again(queue):
    claim = take(queue, ID)
    back(queue)
    after = reopened(root_of(queue), queue.clock)
    sweep(after)
    assert sweep(after) == []
    assert misplaced(after) == {}
    assert after.card(ID).state is State.CLAIMED
    assert after.finish(claim, ENDS[State.DONE])[0] is Said.OK
    after.close()


@pytest.mark.parametrize("before", [0, 1])
def test_a_task_that_goes_back_takes_the_place_of_its_own_file_of_before(queue, before, monkeypatch):
    """The seal is on the disk and its next bytes are; the ready name of before the claim is there again, too."""
    folder = queue.store.folder
    for _ in range(before):
        queue.finish(take(queue, ID), Failed(error="again"))
        queue.clock.advance(1000.0)
    ready = folder.at(folder.layout.ready_path(task(1)))
    os.link(ready, f"{ready}.kept")
    with monkeypatch.context() as power:
        power.setattr(finishing, "_back_to_ready", lambda *_: Said.LOST)
        queue.finish(take(queue, ID), Failed(error="again"))
    os.rename(f"{ready}.kept", ready)
    queue.clock.reboot("the next boot")
    queue.clock.advance(1000.0)
    after = reopened(root_of(queue), queue.clock)
    sweep(after)
    assert sweep(after) == []
    assert misplaced(after) == {}
    assert (after.card(ID).state, after.card(ID).task.attempts) == (State.READY, before + 1)
    (reason,) = [name for name in os.listdir(folder.at(QUARANTINE)) if name.endswith(".reason")]
    assert b"a power loss left it in two places" in fs.read(folder.at(f"{QUARANTINE}/{reason}"), 4096)[0]
    after.close()


def test_another_name_outside_the_queue_is_nobodys_business(queue, tmp_path):
    folder = queue.store.folder
    os.link(folder.at(folder.layout.ready_path(task(1))), tmp_path / "backup")
    assert sweep(queue) == []
    assert queue.card(ID).state is State.READY


def test_a_claim_that_has_ended_does_not_come_back_with_the_bytes_of_before(queue):
    """The last attempt is on the disk and so is the task with it; the claim's own name is there again, too."""
    claim, folder = take(queue, ID), queue.store.folder
    queue.finish(claim, Failed(error="again"))
    os.link(folder.at(f".taskpit/ids/{ID}"), folder.at(folder.layout.claimed_path(claim.task, claim.fence)))
    after = reopened(root_of(queue), queue.clock)
    sweep(after)
    assert sweep(after) == []
    assert misplaced(after) == {}
    card = after.card(ID)
    assert (card.state, card.task.attempts) == (State.READY, 1)
    after.close()


def test_a_name_that_is_used_again_is_no_ghost(queue):
    queue.finish(take(queue, ID, "ann", verbatim=True), Failed(error="again"))
    queue.clock.advance(1000.0)
    take(queue, ID, "ann", verbatim=True)
    assert sweep(queue) == []
    assert queue.card(ID).state is State.CLAIMED


def test_a_result_that_is_its_outcome_already_is_not_carried_out_for_ever(tmp_path):
    """A power loss kept the new name of the last move and brought the old one back: both are one file."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))
    assert queue.finish(take(queue, "0001"), Done(output="yes"))[0] is Said.OK
    folder = queue.store.folder
    os.link(folder.outcome_path("0001", Verdict.DONE), folder.tmp("0001", "abcdef01234567", "result"))
    assert [found.what for found in sweep(queue)] == ["0001"]
    assert sweep(queue) == []
    assert os.listdir(folder.at(folder.layout.tmp)) == []
    assert queue.card("0001").result.output == "yes"
    queue.close()
