"""Claims of other programs whose workers have names that ours may not have, or give none."""

from __future__ import annotations

import os

import pytest
from boxes import make_fast, pit, reopened, write
from pits import misplaced

from taskpit import workers
from taskpit.keeper import sweep
from taskpit.model import Done, State
from taskpit.testing import FakeClock

NAMES = ["gpt-4.1", "agent b", "Jürgen", "x" * 150, "two\nlines", "J\udcfcrgen", "\x1b[31m", "~bob", "a~B!", ""]
READY = {"pit": "food/food-a1-x.md", "workspace": "tasks/a1_pending.md"}
CLAIMED = {"pit": "claimed/{}.food-a1-x.md", "workspace": "tasks/a1_inprogress_{}.md"}
NAMELESS = {"pit": "claimed/food-a1-x.md", "workspace": "tasks/a1_inprogress.md"}
RESULTS = {"pit": "done/food-a1-x.result.md", "workspace": "outputs/a1_result.md"}


@pytest.fixture(params=READY)
def layout(request):
    return request.param


@pytest.fixture
def root(layout, tmp_path):
    root = make_fast(tmp_path / "queue", layout)
    write(f"{root}/{READY[layout]}", "# x\n")
    queue = reopened(root, layout)
    sweep(queue)
    queue.close()
    return root


@pytest.fixture(params=NAMES)
def claimed(request, layout, root):
    """Where another program has the task, and its name."""
    path = f"{root}/{CLAIMED[layout].format(request.param) if request.param else NAMELESS[layout]}"
    os.rename(f"{root}/{READY[layout]}", path)
    return path, request.param


def test_it_is_running_and_nobody_touches_it(claimed, layout, root):
    path, name = claimed
    queue = reopened(root, layout)
    assert (sweep(queue), queue.store.check(), queue.store.fix()) == ([], [], [])
    (card,) = queue.store.page().cards
    assert (card.state, card.worker) == (State.CLAIMED, name)
    assert queue.card("a1").worker == name
    shown = workers.base(name) or "a worker that gave no name"
    assert f"a1 is running: {shown}, which may" in " ".join(queue.why("a1"))
    assert queue.store.counts()[State.CLAIMED] == 1
    assert os.path.exists(path)
    queue.close()


@pytest.mark.usefixtures("claimed")
def test_abandoned_it_is_given_back(layout, root):
    queue = reopened(root, layout, FakeClock())
    sweep(queue)
    queue.clock.advance(queue.config.abandoned + 1)
    assert [mend.kind for mend in sweep(queue)] == ["reclaimed"]
    assert os.path.exists(f"{root}/{READY[layout]}")
    assert misplaced(queue) == {}
    queue.close()


def test_it_ends_its_claim_itself(claimed, layout, root):
    path, _ = claimed
    write(f"{root}/{RESULTS[layout]}", "theirs")
    if layout == "pit":
        os.unlink(path)
    else:
        os.rename(path, f"{root}/tasks/a1_done.md")
    queue = reopened(root, layout)
    sweep(queue)
    assert (queue.card("a1").state, queue.card("a1").result.output) == (State.DONE, "theirs")
    queue.close()


@pytest.mark.parametrize("task_id", ["task 19", "tâche_1", "x:1", "task_done", "t" * 65, "J\udcfcrgen"])
@pytest.mark.parametrize("state", ["_pending", "_inprogress_agent_a", "_inprogress", "_done", "_failed"])
def test_ids_that_only_others_serve_are_left_alone_in_a_workspace(task_id, state, tmp_path):
    left_alone(tmp_path, f"tasks/{task_id}{state}.md")


def test_so_is_a_claim_whose_worker_forgot_to_say_who_it_is(tmp_path):
    left_alone(tmp_path, "tasks/x_inprogress_.md")


def left_alone(tmp_path, name):
    """A claim of ours took such files away from under the agents that had them."""
    root = make_fast(tmp_path / "queue", "workspace")
    write(f"{root}/tasks/task_001_pending.md", "# ours\n")
    write(f"{root}/{name}", "# theirs\n")
    queue = reopened(root, "workspace")
    (claim,) = queue.claim("agent_b")
    queue.finish(claim, Done(output="ours"))
    sweep(queue)
    assert [card.task.id for card in queue.store.page().cards] == ["task_001"]
    assert [found.kind for found in queue.store.check()] == ["left alone"]
    assert queue.store.fix() == []
    queue.close()
    assert "is no task yet" not in pit("-C", root, "list").out
    assert os.listdir(f"{root}/.taskpit/quarantine") == []
    assert os.path.exists(f"{root}/{name}")


@pytest.mark.parametrize(
    "name", ["food-0007-" + "x" * 180, "food--", "food-0007-", "food-0007-a~b", "food-0007-\udcff"]
)
def test_food_of_a_name_that_is_none_is_taken_in_like_any_other_text(name, tmp_path):
    """A claim set it aside without a word, and the queue was empty."""
    root = make_fast(tmp_path / "queue", "pit")
    write(f"{root}/food/{name}.md", "- **task:** Reverse it\n")
    assert pit("-C", root, "claim", "--as", "snake-1").code == 3
    assert "1 ready" not in pit("-C", root, "list").out
    queue = reopened(root, "pit")
    sweep(queue)
    (claim,) = queue.claim("snake-1")
    assert (claim.task.id, claim.task.title) == ("0001", "Reverse it")
    queue.close()
