"""The models make the calls that the store makes: same calls, same names, same order, for each way a task can go.

Only calls that change something in the places a model has; who is at work and what is told to people is left out.
"""

from __future__ import annotations

import re

import pytest
from faults import record
from models.broken import PublishBeforeSeal, SealByLink, SecondLink, TokenBeforeResult
from models.disk import tell
from models.explorer import run_alone
from models.mailbox import Mailbox
from models.tasks import Pit
from pits import CONFIG, LEASE, make, root_of, task

from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Release, Retry, Split, Want
from taskpit.policy import settle
from taskpit.store.finish import PARTS
from taskpit.testing import FakeClock

pytestmark = pytest.mark.mechanism

ENDS = {
    "done": Done(output="yes"),
    "failed": Failed(error="no", final=True),
    "retry": Retry(reason="quota", after=60.0),
    "release": Release(),
    "split": Split(children=(task(2), task(3))),
    "split and wait": Split(children=(task(2), task(3)), wait=True),
    "lost": None,
}
MODELS = {"pit": Pit, "mailbox": Mailbox}
IDS = {"0001": "T", "0002": "A", "0003": "B"}
LETTERS = {word: letter for letter, word in PARTS.items()}
#: What a real call is in a model; of a link the new name counts, of a rename the old one.
KINDS = {"create": "create", "link": "link", "rename": "move", "unlink": "remove", "utime": "touch"}
MODELLED = {"create_numbered": "create", "move_new": "move"}
#: Where the layouts put what the models call so.
PLACES = {
    "food": "ready",
    "inbox": "ready",
    "claimed": "claimed",
    "processing": "claimed",
    "done": "done",
    "outbox": "done",
    "scraps": "failed",
    "failed": "failed",
    ".tmp": "tmp",
    ".taskpit/tmp": "tmp",
    ".taskpit/ids": "ids",
    ".taskpit/sealed": "sealed",
}


def real_name(path):
    """A place of the model and the task, with part or end; None for what no model has."""
    folder, _, file = path.rpartition("/")
    number = re.search(r"000[123]", file)
    if folder not in PLACES or number is None:
        return None
    place, name = PLACES[folder], IDS[number[0]]
    if place == "tmp":
        part = file.split("~")[2]
        return None if part == "beside" else f"tmp/{name} {LETTERS.get(part, part)}"
    if place == "sealed":
        return f"sealed/{name} {''.join(sorted(file.rpartition('~')[2].replace('b', '').replace('.', '')))}"
    return f"{place}/{name}"


def model_name(name):
    """The same, of a model's name."""
    place, _, rest = name.partition("/")
    which, _, tail = rest.partition("~")
    if place == "tmp":
        return f"tmp/{which} {tail.rpartition('~')[2]}"
    if place == "sealed":
        return f"sealed/{which} {''.join(sorted(tail.rpartition('~')[2].replace('.', '')))}"
    return f"{place}/{which}"


def really(layout, end, root):
    """What the store does to put a task, claim it and end that claim so."""
    queue = make(root, FakeClock(), CONFIG, layout)
    with record() as calls:
        queue.store.put([task(1)])
        (claim,) = queue.store.claim(Want(worker="w0", lease=LEASE, ids=("0001",)))
        if end == "lost":
            queue.clock.advance(LEASE + 1)
            sweep(queue)
        else:
            queue.store.finish([settle(claim, ENDS[end], (), queue.config, queue.clock.now())])
    queue.close()
    start = len(root_of(queue)) + 1
    found = [(KINDS[call], real_name(path[start:])) for call, path in calls if call in KINDS]
    return [f"{kind} {name}" for kind, name in found if name is not None]


def modelled(layout, end):
    """What the model does."""
    world = MODELS[layout](ends=(end,))

    def story():
        yield from world.put("p0")
        yield from world.claim("T", "w0.1")
        yield from world.finish("k0" if end == "lost" else "w0", "T", "w0.1", "w0.1", end)
        yield tell("end")

    _, calls = run_alone((story,), {})
    named = [(MODELLED.get(call[0], call[0]), call[2] if call[0] == "link" else call[1]) for call, _ in calls]
    return [f"{kind} {model_name(name)}" for kind, name in named if kind in KINDS.values()]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("layout", MODELS)
def test_the_model_does_what_the_store_does(layout, end, tmp_path):
    assert modelled(layout, end) == really(layout, end, str(tmp_path / "queue"))


@pytest.mark.parametrize("broken", [SealByLink, PublishBeforeSeal, SecondLink, TokenBeforeResult])
def test_a_broken_protocol_makes_other_calls(broken, tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, "pit", broken)
    assert modelled("pit", "done") != really("pit", "done", str(tmp_path / "queue"))
