"""Claims of other programs whose workers have names that ours may not have, or give none."""

from __future__ import annotations

import os

import pytest
from boxes import make_fast, reopened, write
from pits import misplaced

from taskpit import workers
from taskpit.keeper import sweep
from taskpit.task import State
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
