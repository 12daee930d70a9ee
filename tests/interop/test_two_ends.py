"""One task that ends twice, by us and by another program: after a sweep it has one outcome; what is done stays done."""

from __future__ import annotations

import os
import shutil

import pytest
from boxes import make, write
from pits import misplaced

from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Task
from taskpit.testing import FakeClock

#: What another program writes to say that the task is done, the last of it last.
DONE = {
    "pit": [("done/food-a1-x.result.md", "theirs\n")],
    "workspace": [("outputs/a1_result.md", "theirs\n"), ("tasks/a1_done.md", "# x\n")],
    "mailbox": [("outbox/a1_result.json", '{"task_id": "a1", "status": "completed", "output": "theirs"}')],
}


@pytest.fixture
def queue(layout, tmp_path):
    queue = make(tmp_path / "queue", layout, FakeClock())
    queue.store.put([Task(id="a1", title="x", slug="x"), Task(id="a2", title="y", slug="y", needs=("a1",))])
    yield queue
    queue.close()


@pytest.fixture
def root(queue):
    return queue.store.folder.root


@pytest.mark.parametrize("layout", DONE)
def test_what_another_program_has_done_is_not_taken_back_by_our_failure(queue, root, layout):
    """Its claim was given to us when it stood still; it comes back and is done before we fail."""
    (claim,) = queue.claim("w")
    for path, text in DONE[layout]:
        write(f"{root}/{path}", text)
    assert queue.finish(claim, Failed(error="no", final=True))[0] is Said.LOST
    for _ in range(2):
        card = queue.card("a1")
        assert (card.state, card.result.output.strip()) == (State.DONE, "theirs")
        assert len(card.late) == 1
        sweep(queue)
    assert all(os.path.exists(f"{root}/{path}") for path, _ in DONE[layout])
    assert (misplaced(queue), sweep(queue)) == ({}, [])
    assert [claim.task.id for claim in queue.claim("w")] == ["a2"]


@pytest.mark.parametrize("ours", [Done(), Failed(error="no", final=True)], ids=["done", "failed"])
@pytest.mark.parametrize("layout", ["workspace"])
def test_of_two_names_that_say_how_it_ended_one_goes(queue, root, ours):
    (claim,) = queue.claim("w")
    queue.finish(claim, ours)
    names = [f"{root}/tasks/a1_{end}.md" for end in ("done", "failed")]
    right, wrong = names if os.path.exists(names[0]) else names[::-1]
    shutil.copyfile(right, wrong)
    assert [mend.kind for mend in sweep(queue)] == ["set aside"]
    assert (os.path.exists(right), os.path.exists(wrong)) == (True, False)
    assert (misplaced(queue), sweep(queue)) == ({}, [])


@pytest.mark.parametrize("layout", ["workspace"])
def test_one_name_that_a_person_changed_is_left_alone(queue, root):
    (claim,) = queue.claim("w")
    queue.finish(claim, Failed(error="no", final=True))
    os.rename(f"{root}/tasks/a1_failed.md", f"{root}/tasks/a1_done.md")
    sweep(queue)
    assert os.path.exists(f"{root}/tasks/a1_done.md")
