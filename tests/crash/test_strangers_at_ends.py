"""A stranger's hand between any two of our calls while a claim of ours is kept, ends or comes back.

What it does to the claimed file or beside it: `mv` back, `rm`, `cp`, `touch`, an editor's save, a result of its own.
The verb answers that it happened or that the claim was over. Afterwards the task stands in one place, has one outcome
at most, what we were told is done is done, and what came too late is kept.
"""

from __future__ import annotations

import os
import shutil

import pytest
from crashes import copy_tree
from faults import instants, record, stranger_at
from pits import CONFIG, LEASE, make, misplaced, put, reopened, root_of, take, task
from rotation import LONG as EVERY
from rotation import TURN, part

from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Release, Said, State
from taskpit.testing import FakeClock

OURS = "a8"
#: Where each layout has the task while it is ready, a result of another program, and the name that says done.
READY = {"pit": "food/food-a8-hand.md", "mailbox": "inbox/a8.json", "workspace": "tasks/a8_pending.md"}
RESULTS = {
    "pit": "done/food-a8-hand.result.md",
    "mailbox": "outbox/a8_result.json",
    "workspace": "outputs/a8_result.md",
}
ENDED = {"workspace": "tasks/a8_done.md"}
THEIRS = '{"task_id": "a8", "status": "completed", "verdict": "pass", "output": "theirs"}'


def claimed_at(root, layout):
    """Where the task is claimed; a name that is not there if it has moved on."""
    place = {"pit": "claimed", "mailbox": "processing", "workspace": "tasks"}[layout]
    for name in os.listdir(f"{root}/{place}"):
        if "a8" in name and not name.endswith(("_pending.md", "_done.md", "_failed.md")):
            return f"{root}/{place}/{name}"
    return f"{root}/nowhere"


def quietly(step, *args):
    try:
        step(*args)
    except (FileNotFoundError, FileExistsError):
        return


def back(root, layout):
    """A cleaner gives it back."""
    quietly(os.rename, claimed_at(root, layout), f"{root}/{READY[layout]}")


def rm(root, layout):
    quietly(os.unlink, claimed_at(root, layout))


def cp(root, layout):
    quietly(shutil.copyfile, claimed_at(root, layout), f"{root}/{READY[layout]}")


def touch(root, layout):
    quietly(os.utime, claimed_at(root, layout))


def save(root, layout):
    """An editor that replaces the file."""
    path = claimed_at(root, layout)
    if os.path.exists(path):
        shutil.copyfile(path, f"{root}/.save")
        quietly(os.rename, f"{root}/.save", path)


def publish(root, layout):
    """A result of its own, beside our claim."""
    with open(f"{root}/.theirs", "w", encoding="utf-8") as file:
        file.write(THEIRS)
    os.rename(f"{root}/.theirs", f"{root}/{RESULTS[layout]}")


def finish(root, layout):
    """A result of its own, and the claim ended as the seeds say."""
    publish(root, layout)
    if layout in ENDED:
        quietly(os.rename, claimed_at(root, layout), f"{root}/{ENDED[layout]}")
    else:
        rm(root, layout)


ACTS = (back, rm, cp, touch, save, publish, finish)


def done(queue, claim):
    return queue.finish(claim, Done(output="ours"))[0]


def retry(queue, claim):
    return queue.finish(claim, Failed(error="no"))[0]


def fail(queue, claim):
    return queue.finish(claim, Failed(error="no", final=True))[0]


def release(queue, claim):
    return queue.finish(claim, Release(reason="not now"))[0]


def renew(queue, claim):
    return queue.renew(claim)


def lapse(queue, claim):
    """Its worker says nothing more, and a keeper gives it back."""
    queue.clock.advance(LEASE * 3)
    sweep(queue)


VERBS = (done, retry, fail, release, renew, lapse)


@pytest.fixture(scope="module", params=READY)
def template(request, tmp_path_factory):
    layout, root = request.param, str(tmp_path_factory.mktemp(request.param) / "queue")
    queue = make(root, FakeClock(), CONFIG, layout)
    put(queue, task(1), task(2), task(5, id=OURS, slug="hand", priority=8))
    queue.close()
    return layout, root, queue.clock.now()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_stranger_at_every_call_of_an_end(verb, template, tmp_path):
    layout, source, began = template
    runs = 0

    def stage():
        nonlocal runs
        runs += 1
        root = str(tmp_path / f"{runs}")
        copy_tree(source, root)
        queue = reopened(root, FakeClock(began))  # as it was then: nobody has set the clock since
        return queue, take(queue, OURS, "w")

    queue, claim = stage()
    with record() as calls:
        verb(queue, claim)
    folders = {queue.store.folder.at(name) for name in queue.store.folder.layout.folders}
    queue.close()
    for number in part(instants(calls, lambda path: OURS in os.path.basename(path) or path in folders), 5):
        for act in ACTS if EVERY else [ACTS[(number + TURN) % len(ACTS)]]:
            queue, claim = stage()
            root = root_of(queue)
            try:
                with stranger_at(number, lambda act=act, root=root: act(root, layout)):
                    said = verb(queue, claim)
                judge(queue, layout, act, verb, said)
            except Exception as error:
                told = f"{act.__name__} before call {number} of {verb.__name__}, {calls[number - 1]}"
                raise AssertionError(told) from error
            queue.close()
            shutil.rmtree(root)


def judge(queue, layout, act, verb, said):
    """The others are there, and a keeper is content; the task is in one place, and we were told the truth about it."""
    keeper = reopened(root_of(queue), queue.clock)
    for _ in range(3):
        sweep(keeper)
        keeper.clock.advance(1.0)
    assert sweep(keeper) == []
    cards = [card.task.id for card in keeper.store.page().cards]
    assert sorted(cards) == sorted({"0001", "0002", *cards})
    astray = misplaced(keeper)
    if OURS in cards:
        assert astray == {}
        (card,) = keeper.store.read([OURS])
        if verb is done and said is Said.OK:
            assert (card.state, card.result.output.strip()) == (State.DONE, "ours")
        if verb is done and said is Said.LOST:
            assert card.late
        if act in (publish, finish) and layout != "workspace" and not (verb in (done, fail) and said is Said.OK):
            assert card.state is State.DONE  # in a workspace it is the task's own name that says so
    else:
        assert (act, list(astray)) == (rm, [OURS])
    keeper.close()
