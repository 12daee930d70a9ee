"""A stranger's hand between any two of our calls on a work item: it saves, completes, locks, unlocks, moves, removes.

Whatever it does, the verb goes on, and what it did stands.
"""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest
from crashes import copy_tree
from faults import record, stranger_at
from rotation import LONG as EVERY
from rotation import TURN, part
from workitems import FIRST, LEASE, make, reopened

from taskpit.clock import iso
from taskpit.errors import TaskpitError
from taskpit.keeper import sweep
from taskpit.model import State, Want
from taskpit.testing import FakeClock

TEXT = "version: 1\ntitle: x\nstatus: in_progress\nactivities:\n  - id: {0}-A1\n    title: one\n    status: pending\n"
OTHER = "WI-002-A1"


class Stranger:
    """One act of another program on the first work item."""

    def __init__(self, root, clock):
        self._root, self._clock = root, clock
        self._home, self._file = f"{root}/WI-001-x", f"{root}/WI-001-x/progress.yaml"
        self._lock = f"{self._home}/locks/{FIRST}.lock"
        self._open = None

    def save(self):
        """An editor that replaces the file, with a line of its own."""
        self._replace(lambda text: text + "theirs: kept\n")

    def complete(self):
        self._replace(lambda text: re.sub(r"(    status: )\w+", r"\1completed", text, count=1))

    def _replace(self, change):
        if os.path.exists(self._file):
            with open(self._file, encoding="utf-8") as file:
                text = change(file.read())
            with open(f"{self._root}/.save", "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(f"{self._root}/.save", self._file)

    def half(self):
        """An editor that writes into the file and is not done."""
        if os.path.exists(self._file):
            with open(self._file, encoding="utf-8") as file:
                self._text = file.read() + "theirs: kept\n"
            self._open = open(self._file, "w", encoding="utf-8")  # noqa: SIM115 - it stays open meanwhile
            self._open.write(self._text[:60])
            self._open.flush()

    def close(self):
        """It writes the rest."""
        if self._open is not None:
            self._open.write(self._text[60:])
            self._open.close()

    def lock(self):
        """It claims, as the protocol says: a file that is not there yet."""
        now = self._clock.now()
        fields = {"holder": "sh", "holder_type": "agent", "acquired": iso(now), "expires": iso(now + LEASE)}
        os.makedirs(os.path.dirname(self._lock), exist_ok=True)
        try:
            with open(self._lock, "x", encoding="utf-8") as file:
                json.dump(fields, file)
        except FileExistsError:
            return

    def unlock(self):
        if os.path.exists(self._lock):
            os.unlink(self._lock)

    def mv(self):
        """The folder has another readable part."""
        if os.path.exists(self._home):
            os.rename(self._home, f"{self._root}/WI-001-y")

    def rm(self):
        shutil.rmtree(self._home, ignore_errors=True)


ACTS = ("save", "complete", "half", "lock", "unlock", "mv", "rm")
#: What a program saves in the one instant between our last look at its file and our rename is lost, as documented.
INSTANT = ("save", "complete", "half")


def claim(queue):
    queue.store.claim(Want(worker="w", lease=LEASE, count=2))


def claim_by_name(queue):
    try:
        queue.claim("w", ids=(FIRST,))
    except TaskpitError as error:
        assert error.code in ("conflict", "held", "lost", "not_found", "unavailable"), error  # noqa: PT017


def start(queue):
    """What a pool does first."""
    member = queue.store.join("w", LEASE)
    sweep(queue)
    queue.claim("w")
    member.leave()


def look(queue):
    queue.store.page()
    queue.store.counts()
    queue.store.read([FIRST, OTHER])


def doctor(queue):
    queue.store.check()
    queue.store.fix()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Two work items, made by hand."""
    root, clock = str(tmp_path_factory.mktemp("items") / "queue"), FakeClock()
    make(root, clock).close()
    for item in ("WI-001", "WI-002"):
        os.mkdir(f"{root}/{item}-x")
        with open(f"{root}/{item}-x/progress.yaml", "w", encoding="utf-8") as file:
            file.write(TEXT.format(item))
    return root, clock


@pytest.mark.parametrize("verb", [claim, claim_by_name, start, look, sweep, doctor], ids=lambda verb: verb.__name__)
def test_a_stranger_at_every_call(verb, template, tmp_path):
    source, clock = template
    queue = stage(source, f"{tmp_path}/0", clock)
    with record() as calls:
        verb(queue)
    assert len(calls) > 5
    queue.close()
    for number in part(range(1, len(calls) + 1), 4):
        for act in ACTS if EVERY else [ACTS[(number // 2 + TURN) % len(ACTS)]]:
            if act in INSTANT and calls[number - 1][0] == "rename" and calls[number - 1][1].endswith("progress"):
                continue
            root = f"{tmp_path}/{number}{act}"
            queue = stage(source, root, clock)
            where = f"{act} before call {number} of {verb.__name__}, {calls[number - 1]}"
            stranger = Stranger(root, clock)
            try:
                with stranger_at(number, getattr(stranger, act)):
                    verb(queue)
                stranger.close()
                judge(root, clock, act)
            except Exception as error:
                raise AssertionError(where) from error
            queue.close()
            shutil.rmtree(root)


def stage(source, root, clock):
    copy_tree(source, root)
    return reopened(root, clock)


def judge(root, clock, act):
    """What the stranger did is there, the other work item too, and a keeper is content."""
    keeper = reopened(root, clock)
    sweep(keeper)
    assert sweep(keeper) == []
    cards = {card.task.id: card for card in keeper.store.page().cards}
    assert cards.keys() >= ({OTHER} if act == "rm" else {FIRST, OTHER})
    if act == "complete":
        assert cards[FIRST].state is State.DONE
    if act in ("save", "half"):
        with open(f"{root}/WI-001-x/progress.yaml", encoding="utf-8") as file:
            assert "theirs: kept\n" in file.read()
    keeper.close()
