"""git removes empty directories when it switches branches: a verb makes a place of the layout again and goes on."""

from __future__ import annotations

import os

import pytest
from pits import make, misplaced, put, reopened, take, task

from taskpit import held_directories
from taskpit.errors import Storage
from taskpit.keeper import sweep
from taskpit.model import Ask, Done, Failed, Said, State
from taskpit.testing import FakeClock


@pytest.fixture(params=["pit", "mailbox", "workspace"])
def queue(request, tmp_path):
    queue = make(str(tmp_path / "q"), FakeClock(), layout=request.param)
    yield queue
    queue.close()


def empty_places_gone(queue):
    """As git leaves them; the directories are still open here."""
    folder = queue.store.folder
    for name in folder.layout.folders:
        if os.path.isdir(folder.at(name)) and not os.listdir(folder.at(name)):
            os.rmdir(folder.at(name))


@pytest.mark.parametrize(
    "outcome", [Done(output="yes"), Failed(error="no", final=True), Failed(error="no"), Ask(question="which?")]
)
def test_a_whole_life(queue, outcome):
    empty_places_gone(queue)
    put(queue, task(1))
    empty_places_gone(queue)
    claim = take(queue, "0001")
    empty_places_gone(queue)
    assert queue.finish(claim, outcome)[0] is Said.OK
    state = {Done: State.DONE, Failed: State.FAILED if getattr(outcome, "final", False) else State.READY}
    card = queue.card("0001")
    assert card.state is state.get(type(outcome), State.READY)
    assert card.late == ()
    assert sweep(queue) == []
    assert misplaced(queue) == {}
    empty_places_gone(queue)
    assert queue.store.keep_log("w", b"what was done")


@pytest.mark.parametrize("queue", ["pit", "mailbox"], indirect=True)  # whose claims have a directory of their own
def test_one_that_somebody_else_has_made_again(queue, monkeypatch):
    """What was claimed there was nobody's until its lease ended: it was looked for in the directory that was gone."""
    monkeypatch.setattr(held_directories, "COMPARED_AGAIN", -1.0)
    put(queue, task(1), task(2))
    queue.finish(queue.claim("w")[0], Done(output="yes"))
    claims_made_again(queue)
    (claim,) = queue.claim("w")
    assert claim.task.id == "0002"
    claims_made_again(queue)
    assert queue.store.renew([claim], 60.0) == [Said.OK]
    claims_made_again(queue)
    assert queue.finish(claim, Done(output="yes"))[0] is Said.OK
    assert sweep(queue) == []
    assert misplaced(queue) == {}


def claims_made_again(queue):
    """Another directory with the same files, of which this process has heard nothing."""
    path = queue.store.folder.at(queue.store.folder.layout.claimed)
    os.rename(path, f"{path}.gone")
    os.mkdir(path)
    for name in os.listdir(f"{path}.gone"):
        os.rename(f"{path}.gone/{name}", f"{path}/{name}")
    os.rmdir(f"{path}.gone")


def test_many_at_once(queue):
    empty_places_gone(queue)
    put(queue, task(1), task(2))
    empty_places_gone(queue)
    claims = queue.claim("w", count=2)
    assert len(claims) == 2
    empty_places_gone(queue)
    assert [said for said, _ in queue.finish_many([(claim, Done(output="yes")) for claim in claims])] == [Said.OK] * 2
    assert [queue.card(claim.task.id).state for claim in claims] == [State.DONE] * 2


def test_a_claim_whose_worker_is_gone(queue):
    put(queue, task(1))
    take(queue, "0001")
    queue.clock.advance(10_000)
    empty_places_gone(queue)
    sweep(queue)
    queue.clock.advance(10_000)
    empty_places_gone(queue)
    sweep(queue)
    assert queue.card("0001").state is State.READY


def test_a_link_in_the_place_of_results_is_refused_before_the_claim_ends(tmp_path):
    queue = make(str(tmp_path / "q"), FakeClock())
    put(queue, task(1))
    claim = take(queue, "0001")
    folder = queue.store.folder
    queue.close()  # what is held open is compared each second, no sooner
    os.rename(folder.at("done"), tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder.at("done"))
    queue = reopened(folder.root, queue.clock)
    with pytest.raises(Storage):
        queue.finish(claim, Done(output="yes"))
    assert queue.card("0001").state is State.CLAIMED
    assert os.listdir(folder.at(".taskpit/sealed")) == os.listdir(tmp_path / "elsewhere") == []
    os.unlink(folder.at("done"))
    os.rename(tmp_path / "elsewhere", folder.at("done"))
    queue.close()
    queue = reopened(folder.root, queue.clock)
    assert queue.finish(claim, Done(output="yes"))[0] is Said.OK
    queue.close()
