"""A stranger's hand between any two of our calls: `mv`, `rm`, `cp`, an editor's save, `chmod`, a result of its own.

Whatever it does to a task while we look, register, claim, sweep or start, the verb goes on: it answers that the task
is gone, or that another was faster. Nothing else is lost, and the next sweep finds nothing to be sorry for.
"""

from __future__ import annotations

import os
import shutil

import pytest
from crashes import copy_tree
from faults import instants, record, stranger_at
from pits import CONFIG, LEASE, make, put, reopened, root_of, take, task
from rotation import LONG as EVERY
from rotation import TURN, part

from taskpit import fs
from taskpit.clock import Clock
from taskpit.errors import Conflict, Held, Lost, NotFound
from taskpit.keeper import sweep
from taskpit.model import Done, State, Want
from taskpit.testing import FakeClock
from taskpit.watch import Watch

JSON = '{"id": "%s", "title": "by hand", "description": "", "status": "ready", "priority": 9, "test_command": "true"}'


class Place:
    """Where things lie in one layout."""

    def __init__(self, ready, claimed, copy, result, text, ended=""):
        self._names, self._text = (ready, claimed, copy, result, ended), text

    def at(self, root, which, task_id):
        return f"{root}/{self._names[which].format(task_id)}".rstrip("/")

    def text(self, task_id):
        return self._text % task_id if "%s" in self._text else self._text


PLACES = {
    "pit": Place(
        "food/food-{}-hand.md",
        "claimed/sh.food-{}-hand.md",
        "food/food-{}-other.md",
        "done/food-{}-hand.result.md",
        "- **task:** by hand\n- **priority:** 9\n- **done-when:** `true`\n",
    ),
    "mailbox": Place("inbox/{}.json", "processing/{}.json", "processing/{}.json", "outbox/{}_result.json", JSON),
    "workspace": Place(
        "tasks/{}_pending.md",
        "tasks/{}_inprogress_sh.md",
        "tasks/{}_inprogress_sh.md",
        "outputs/{}_result.md",
        "# by hand\n- **priority:** 9\n- **done-when:** `true`\n",
        "tasks/{}_done.md",
    ),
}
#: A file that nobody has seen yet, and a task that we put.
HAND, OURS = "a7", "a8"


class Stranger:
    """One act of another program, on one task."""

    def __init__(self, layout, root, task_id):
        self._place, self._root, self._id = PLACES[layout], root, task_id
        self._open = None

    def _at(self, which):
        return self._place.at(self._root, which, self._id)

    def mv(self):
        """It claims the task."""
        _quietly(os.rename, self._at(0), self._at(1))

    def rm(self):
        _quietly(os.unlink, self._at(0))

    def cp(self):
        """A second file of the same id."""
        _quietly(shutil.copyfile, self._at(0), self._at(2))

    def save(self):
        """An editor that replaces the file."""
        if os.path.exists(self._at(0)):
            scratch = f"{self._root}/.save"
            with open(scratch, "w", encoding="utf-8") as file:
                file.write(self._place.text(self._id) + "\n")
            os.rename(scratch, self._at(0))

    def write(self):
        """An editor that writes into the file."""
        if os.path.exists(self._at(0)):
            with open(self._at(0), "w", encoding="utf-8") as file:
                file.write(self._place.text(self._id) + "\n\n")

    def half(self):
        """An editor that has begun to write into the file: the check is still to come."""
        if os.path.exists(self._at(0)):
            self._open = open(self._at(0), "w", encoding="utf-8")  # noqa: SIM115 - it stays open meanwhile
            self._open.write(self._place.text(self._id)[:40])
            self._open.flush()

    def close(self):
        """It writes the rest."""
        if self._open is not None:
            self._open.write(self._place.text(self._id)[40:])
            self._open.close()

    def chmod(self):
        """Nobody may read it any more; said by the test, since root may."""
        return self._at(0)

    def finish(self):
        """It claims the task, publishes a result and removes the task, in no time."""
        self.mv()
        with open(self._at(3), "w", encoding="utf-8") as file:
            file.write(f'{{"task_id": "{self._id}", "status": "completed"}}')
        if self._at(4) == self._root:
            _quietly(os.unlink, self._at(1))
        else:
            _quietly(os.rename, self._at(1), self._at(4))


def _quietly(step, *args):
    try:
        step(*args)
    except FileNotFoundError:
        return


ACTS = ("mv", "rm", "cp", "save", "write", "half", "chmod", "finish")


def claim(queue):
    return queue.store.claim(Want(worker="w", lease=LEASE, count=2))


def claim_by_name(queue):
    try:
        return queue.claim("w", ids=(HAND,))
    except (Conflict, Held, Lost, NotFound):
        return []


def start(queue):
    """What a pool does first."""
    member = queue.store.join("w", LEASE)
    sweep(queue)
    claims = queue.claim("w")
    queue.store.wait(0.0)
    claims += queue.claim("w")
    member.leave()
    return claims


def look(queue):
    queue.store.page()
    queue.store.counts()
    queue.store.read([HAND, OURS])
    queue.resolve(OURS)


def doctor(queue):
    queue.store.check()
    queue.store.fix()


VERBS = (claim, claim_by_name, start, look, sweep, doctor)
#: Where a watch is asked, in place of a path.
HEARING = "what the kernel tells"


@pytest.fixture(autouse=True)
def hearing(monkeypatch):
    """To ask a watch is a call, too: an act before it is heard of, one after it is not."""

    def asked(real):
        return lambda *args: (fs.step("watch", HEARING), real(*args))[1]

    for name in ("_open", "turn_to", "wait", "changes"):
        monkeypatch.setattr(Watch, name, asked(getattr(Watch, name)))


@pytest.fixture(scope="module", params=PLACES)
def template(request, tmp_path_factory):
    """A folder with a task of ours, one made by hand, and others in every state."""
    layout, root = request.param, str(tmp_path_factory.mktemp(request.param) / "queue")
    queue = make(root, FakeClock(), CONFIG, layout)
    put(queue, task(1), task(2), task(3), task(4), task(5, id=OURS, slug="hand", priority=8, check="true"))
    take(queue, "0002", "other")
    queue.finish(take(queue, "0003", "other"), Done(output="x"))
    with open(PLACES[layout].at(root, 0, HAND), "w", encoding="utf-8") as file:
        file.write(PLACES[layout].text(HAND))
    queue.close()
    return layout, root, queue.clock


@pytest.mark.parametrize("whose", [HAND, OURS], ids=["made by hand", "ours"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_stranger_at_every_call(verb, whose, template, tmp_path):
    layout, source, clock = template
    if not EVERY and layout != "pit" and verb in (start, look, doctor):
        pytest.skip("the same for every layout: TASKPIT_LONG=1")
    runs = 0

    def stage():
        nonlocal runs
        runs += 1
        root = str(tmp_path / f"{runs}")
        copy_tree(source, root)
        return reopened(root, clock)

    queue = stage()
    with record() as calls:
        verb(queue)
    assert len(calls) > 10
    folders = {queue.store.folder.at(name) for name in queue.store.folder.layout.folders}
    queue.close()

    def concerns(path):
        """Whether the stranger changes what this call sees."""
        return path == HEARING or whose in os.path.basename(path) or path in folders

    for number in part(instants(calls, concerns), 6):
        for act in ACTS if EVERY else [ACTS[(number + TURN) % len(ACTS)]]:
            queue = stage()
            if act == "half":  # who looks twice at what was written in the last two seconds, by the clock of the files
                queue.close()
                queue = reopened(root_of(queue), Clock())
                queue.store.folder.grace = 2.0
            where = f"{act} before call {number} of {verb.__name__}, {calls[number - 1]}"
            stranger = Stranger(layout, root_of(queue), whose)
            try:
                with stranger_at(number, getattr(stranger, act)):
                    found = verb(queue)
                stranger.close()
                if verb in (claim, claim_by_name, start):
                    assert all(one.task.check for one in found if one.task.id in (HAND, OURS))
                judge(queue, whose, act, where)
            except Exception as error:
                raise AssertionError(where) from error
            queue.close()
            shutil.rmtree(root_of(queue))


def judge(queue, whose, act, where):
    """Others are all there, the task is where the stranger or we have it, and a keeper is content."""
    keeper = reopened(root_of(queue), queue.clock)
    assert [] in (sweep(keeper) for _ in range(3)), where
    cards = {card.task.id: card for card in keeper.store.page().cards}
    missing = {"0001", "0002", "0003", "0004", HAND, OURS} - cards.keys()
    assert missing <= ({whose} if act == "rm" else set()), where
    assert (cards["0002"].state, cards["0003"].state) == (State.CLAIMED, State.DONE), where
    keeper.close()
