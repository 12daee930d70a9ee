"""Whatever a sweep sets aside, keeps as too late or puts back stands in its list, in every layout."""

from __future__ import annotations

import glob
import os

import pytest
from boxes import LAYOUTS, LEASE, make, reopened

from taskpit.keeper import fix, sweep
from taskpit.model import Done, State, Task
from taskpit.store.folder import LATE, QUARANTINE
from taskpit.testing import FakeClock


@pytest.fixture(params=LAYOUTS)
def queue(request, tmp_path):
    queue = make(tmp_path / "q", request.param, FakeClock())
    yield queue
    queue.close()


def files(queue, folder):
    return sorted(glob.glob(f"{glob.escape(queue.store.folder.root)}/{folder}/*"))


def spoil(path, data=b"\xff\x00 no task\n"):
    """Another program died half way through this file; its time as before."""
    status = os.stat(path)
    with open(path, "wb") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def told(mends, kind):
    return [mend for mend in mends if mend.kind == kind]


def lapsed_and_unreadable(queue):
    """A claim that nobody renews, in a file that nobody can read; its path."""
    ((task_id, _),) = queue.put([Task(id="", title="Backend")])
    (claim,) = queue.claim("stranger", count=1)
    assert claim.task.id == task_id
    (path,) = [one for one in files(queue, queue.store.folder.layout.claimed) if task_id in os.path.basename(one)]
    spoil(path)
    queue.clock.advance(10 * LEASE)
    return path


@pytest.mark.parametrize("how", ["sweep", "doctor"])
def test_an_unreadable_claim_that_lapsed(how, queue):
    path = lapsed_and_unreadable(queue)
    other = reopened(queue.store.folder.root, queue.store.info().layout, queue.clock)
    did = sweep(other, closely=True) if how == "sweep" else fix(other, ended=lambda _queue, _claim: True)
    (aside,) = told(did, "set aside")
    assert aside.what == os.path.relpath(path, queue.store.folder.root)
    assert aside.details != ""
    assert len([one for one in files(queue, QUARANTINE) if one.endswith(".reason")]) == 1
    assert told(sweep(other, closely=True), "set aside") == []
    other.close()


def test_a_dry_run_says_so_too_and_does_nothing(queue):
    path = lapsed_and_unreadable(queue)
    other = reopened(queue.store.folder.root, queue.store.info().layout, queue.clock)
    (would,) = told(sweep(other, closely=True, dry_run=True), "reclaimed")
    assert "would be set aside" in would.details
    assert (os.path.exists(path), files(queue, QUARANTINE)) == (True, [])
    other.close()


def replaced(queue, theirs):
    """The id of a task that is done, where its result lies, and our bytes; another file is there instead."""
    ((task_id, _),) = queue.put([Task(id="", title="Backend")])
    (claim,) = queue.claim("worker", count=1)
    queue.finish(claim, Done(output="ours"))
    layout = queue.store.folder.layout
    card = queue.card(task_id)
    path = queue.store.folder.at(layout.result_path(card.task, card.result.verdict))
    with open(path, "rb") as file:
        ours = file.read()
    os.rename(path, f"{path}.old")
    with open(path, "wb") as file:
        file.write(ours.replace(b"ours", theirs))
    os.unlink(f"{path}.old")
    queue.clock.advance(LEASE)
    return task_id, path, ours


def test_a_result_that_was_made_again_as_it_was(queue):
    """By git, when a branch comes back: nothing was replaced, and there is nothing to say."""
    task_id, path, _ = replaced(queue, b"ours")
    assert sweep(queue, closely=True) == []
    assert files(queue, LATE) == []
    assert [mend.kind for mend in queue.store.check()] == []
    os.unlink(path)  # what is kept of it is the same
    assert queue.card(task_id).result.output.strip() == "ours"


def test_a_result_that_another_program_replaced(queue):
    """Ours is back, theirs is kept, and the list says where."""
    task_id, path, ours = replaced(queue, b"theirs")
    (back,) = told(sweep(queue, closely=True), "put back")
    (kept,) = files(queue, LATE)
    assert back.what == task_id
    assert "had been replaced by another program" in back.details
    assert os.path.basename(kept) in back.details
    with open(path, "rb") as file:
        assert file.read() == ours
    assert queue.card(task_id).state is State.DONE
    assert sweep(queue, closely=True) == []
