"""The power goes off at any moment of any verb: what was acknowledged is there whole, and the queue goes on.

Every state of the disk that three models of a filesystem allow is laid out, opened, swept and judged (see
`tests/support/powerloss.py`); of more than STATES for one verb, layout and model a sample, another with each seed.
Every fsync is left out once, and some model must then show what is lost.
"""

from __future__ import annotations

import os
import random
import shutil

import disks
import pytest
from outages import LAYOUTS, Outage, fsyncs, kind_of, scenes_of
from pits import CONFIG
from powerloss import MODELS, listed
from rotation import TURN, in_turn, part

from taskpit import fs, kernel

#: How many states of one verb in one layout and model are tried; 0 is all.
STATES = int(os.environ.get("TASKPIT_STATES", "2"))
#: Among so many states of one verb the fault of a missing fsync must show.
SEARCHED = 400
CASES = part(in_turn([(layout, scene) for layout in LAYOUTS for scene in scenes_of(layout)]), 8)


def sample(trace, model, most, seed=0):
    """So many states, or all if there are no more."""
    states = list(trace.states(model))
    random.Random(len(states) + seed).shuffle(states)
    return states[: most or None]


@pytest.mark.parametrize(("layout", "scene"), CASES, ids=lambda value: repr(value).strip("'"))
def test_every_state_is_recovered(layout, scene, tmp_path):
    outage, tried = Outage(scene, tmp_path, layout), {}
    for model in MODELS:
        states = sample(outage.trace, model, STATES, TURN)
        for disk, acknowledged in states:
            outage.judge(disk, acknowledged=acknowledged, model=model)
        tried[model] = len(states)
    print(f"{layout}, {scene}: {tried} states, {outage.vanished} put back by the doctor")
    assert all(tried.values())


@pytest.mark.parametrize(("layout", "scene"), CASES, ids=lambda value: repr(value).strip("'"))
def test_with_one_fsync_every_state_of_a_journal_is_recovered(layout, scene, tmp_path):
    outage = Outage(scene, tmp_path, layout, once=True)
    states = sample(outage.trace, "ordered", 3 * STATES, TURN)
    for disk, acknowledged in states:
        outage.judge(disk, acknowledged=acknowledged, model="ordered")
    assert states


#: With one fsync: what is left of a verb that only puts or publishes.
ONCE = {
    "put": ["admit: bytes of put"],
    "put two": ["admit: bytes of put"],
    "done": ["roll: bytes of result"],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("verb", ["put", "done"])
def test_with_one_fsync_it_cannot_be_left_out(layout, verb, tmp_path):
    scene = next(scene for scene in scenes_of(layout) if scene.name == verb)
    outage = Outage(scene, tmp_path, layout, once=True)
    made = fsyncs(outage.trace)
    assert set(made) - {"admit: bytes of id"} == set(ONCE[verb])
    without = outage.trace.without(lambda op: kind_of(op) == made[0])
    fault, _ = first_fault(outage, without, "ordered")
    assert fault


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_result_must_be_touched_after_the_seal(layout, tmp_path):
    """Else its fsync may settle what came before the seal, and no more: another program's may have settled that."""
    scene = next(scene for scene in scenes_of(layout) if scene.name == "done")
    outage = Outage(scene, tmp_path, layout, once=True)
    fault, _ = first_fault(outage, outage.trace.without(lambda _: True, "touch"), "ordered")
    assert fault


def sealed_after_power_loss(kind, image, *, touch):
    """What is sealed on a copy of the disk made in the instant in which the result has been settled."""
    with disks.mounted(kind) as here:
        assert kernel.keeps_order(here)
        fs.make_dir(f"{here}/sealed")
        fs.create(f"{here}/claimed", b"the task", sync=False)
        fs.create(f"{here}/result", b"the result", sync=False)
        fs.sync_all(here)  # as another program may, between the result and the seal
        fs.move(f"{here}/claimed", f"{here}/sealed/task")
        fs.sync_path(f"{here}/result", touch=touch)
        shutil.copyfile(f"{os.path.dirname(here)}/image", image)
    with disks.mounted_image(image, kind) as after:
        return os.listdir(f"{after}/sealed")


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_real_journal_is_settled_up_to_the_last_change_of_the_file(kind, tmp_path):
    image = str(tmp_path / "image")
    try:
        assert sealed_after_power_loss(kind, image, touch=True) == ["task"]
        # The control; that somebody syncs every disk of this machine in that instant does not happen each time.
        assert any(sealed_after_power_loss(kind, image, touch=False) == [] for _ in range(9))
    except disks.Unable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("verb", ["put", "done"])
def test_one_fsync_is_too_few_where_names_have_no_order(verb, tmp_path):
    """The control: on such a filesystem the other order is taken."""
    scene = next(scene for scene in scenes_of("pit") if scene.name == verb)
    outage = Outage(scene, tmp_path, "pit", once=True)
    assert any(first_fault(outage, outage.trace, model)[0] for model in ("folders", "subset"))


#: Each fsync by who asks for it and what it settles, a verb that needs it, and a model that shows it.
NEEDED = {
    "admit: bytes of put": ("put", "ordered"),
    "admit: {tmp}": ("put", "subset"),
    "admit: .taskpit/ids": ("put", "folders"),
    "admit: {ready}": ("put", "folders"),
    "seal: bytes of result": ("done", "ordered"),
    "seal: bytes of try": ("failed for good", "ordered"),
    "seal: bytes of next": ("failed, again later", "ordered"),
    "seal: bytes of children": ("split", "ordered"),
    "seal: bytes of ask": ("ask", "ordered"),
    "seal: bytes of choked": ("choke", "ordered"),
    "seal: {tmp}": ("failed for good", "subset"),
    "roll: the seal": ("failed for good", "subset"),
    "roll: .taskpit/tries": ("failed for good", "folders"),
    "roll: .taskpit/tries/<id>": ("failed for good", "folders"),
    "_back_to_ready: {ready}": ("failed, again later", "folders"),
    "reopen: bytes of next": ("reopen", "ordered"),
    "reopen: {tmp}": ("reopen", "folders"),
    "reopen: .taskpit/sealed": ("reopen", "subset"),
    "withdraw: .taskpit/late": ("reopen", "folders"),
}
ONLY = {
    "pit": {
        "_back_to_ready: .taskpit/sealed": ("retry", "folders"),
        "_publish_result: done": ("done", "ordered"),
        "_publish_result: scraps": ("failed for good", "subset"),
        "_publish_result: .taskpit/outcomes": ("failed for good", "folders"),
    },
    "mailbox": {
        "_back_to_ready: .taskpit/sealed": ("failed, again later", "folders"),
        "_publish_result: outbox": ("done", "ordered"),
        "_publish_result: failed": ("failed for good", "folders"),
        "_withdraw_one: failed": ("reopen", "folders"),
        "_write_holder: bytes of claim": ("choke", "ordered"),
        "admit: bytes of id": ("split", "ordered"),
        "seal: bytes of beside": ("failed, again later", "ordered"),
        "reopen: bytes of beside": ("reopen", "ordered"),
        "roll: .taskpit/beside": ("edit tags", "folders"),
    },
    "workspace": {
        "_back_to_ready: .taskpit/sealed": ("retry", "folders"),
        "_publish_result: outputs": ("done", "folders"),
        "_publish_result: .taskpit/outcomes": ("done", "folders"),
        "_withdraw_one: tasks": ("reopen", "subset"),
    },
}
PLACES = {
    "pit": {"tmp": ".taskpit/tmp", "ready": "food"},
    "mailbox": {"tmp": ".tmp", "ready": "inbox"},
    "workspace": {"tmp": ".taskpit/tmp", "ready": "tasks"},
}


def needed(layout):
    return {kind.format(**PLACES[layout]): shown for kind, shown in {**NEEDED, **ONLY[layout]}.items()}


FSYNCS = [(layout, kind, *shown) for layout in LAYOUTS for kind, shown in needed(layout).items()]
#: Those that all layouts have in turn, those of one layout always.
TRIED = {
    (layout, kind.format(**PLACES[layout]))
    for layout, kind in in_turn([(layout, kind) for layout in LAYOUTS for kind in NEEDED])
} | {(layout, kind) for layout in LAYOUTS for kind in ONLY[layout]}


def first_fault(outage, trace, model):
    """What the first state that cannot be recovered says, and how many were tried."""
    for number, (disk, acknowledged) in enumerate(sample(trace, model, SEARCHED), 1):
        for backwards in (False, True):  # of two files of one task the first that is listed may win
            try:
                with listed(backwards=backwards):
                    outage.judge(disk, acknowledged=acknowledged, model=model)
            except (AssertionError, ValueError) as error:
                return f"{error}", number
    return "", 0


@pytest.mark.parametrize(("layout", "kind", "verb", "model"), part([case for case in FSYNCS if case[:2] in TRIED], 12))
def test_no_fsync_can_be_left_out(layout, kind, verb, model, tmp_path):
    scene = next(scene for scene in scenes_of(layout) if scene.name == verb)
    outage = Outage(scene, tmp_path, layout)
    without = outage.trace.without(lambda op: kind_of(op) == kind)
    assert len(without.ops) < len(outage.trace.ops)
    fault, number = first_fault(outage, without, model)
    print(f"{layout}, without {kind}: state {number}: {fault[:200]}")
    assert fault


@pytest.mark.mechanism
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_fsync_is_on_the_list(layout, tmp_path):
    """What is not on it has not been shown to be needed."""
    found = set()
    for scene in scenes_of(layout):
        trace = Outage(scene, tmp_path / scene.name, layout).trace
        found |= {kind_of(op) for op in trace.ops if op.kind == "fsync"}
    found -= {"_compared: .taskpit/ids", "_compared: bytes of .taskpit/ids"}  # of what another process put
    assert found == needed(layout).keys()


@pytest.mark.parametrize("verb", ["put", "done", "failed, again later"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_power_the_same_judge_finds_losses(layout, verb, tmp_path):
    """The control: durability `process` promises nothing here, and keeps nothing."""
    scene = next(scene for scene in scenes_of(layout) if scene.name == verb)
    outage = Outage(scene, tmp_path, layout, CONFIG)
    assert not any(op.kind == "fsync" for op in outage.trace.ops)
    assert all(first_fault(outage, outage.trace, model)[0] for model in MODELS)
