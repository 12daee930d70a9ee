"""A crash before every call that changes something leaves the state before the verb or the state after it."""

from __future__ import annotations

import errno

import pytest
from faults import fail_at, killed_at
from itemscenes import SCENES, Stages
from rotation import LONG as EVERY
from rotation import part
from workitems import FAST

from taskpit.errors import Storage

POWER = FAST.replace(durability="power")
#: What changes the file: where the disk may refuse it.
WRITES = ("put an activity", "claim", "done", "failed, again later", "task done", "pivot finish", "split")


def numbers(stages):
    """Calls to try: of those that change something the first, the last and in turn a sixth.

    In the long run all of them, also those that only look: a crash before one leaves what the last change left.
    """
    if EVERY:
        return stages.numbers(every=True)
    changes = stages.numbers()
    return sorted({changes[0], *part(changes, 10), changes[-1]})


@pytest.mark.parametrize("scene", part(SCENES, 5), ids=repr)
def test_killed_before_every_call(scene, tmp_path):
    stages = Stages(scene, tmp_path, POWER if EVERY else FAST)
    seen = []
    for number in numbers(stages):
        queue, given = stages.stage()
        with killed_at(number):
            scene.act(queue, given)
        seen.append(stages.judge(queue, f"killed before call {number}, {stages.calls[number - 1]}"))
    assert len(seen) > 0
    assert seen[0] == stages.before or scene.name == "sweep"


@pytest.mark.parametrize("scene", part([scene for scene in SCENES if scene.name in WRITES], 2), ids=repr)
def test_refused_at_every_change(scene, tmp_path):
    """The disk says no once: the verb raises Storage or copes, and others notice nothing."""
    stages = Stages(scene, tmp_path)
    refused = 0
    for number in numbers(stages):
        queue, given = stages.stage()
        where = f"refused call {number}, {stages.calls[number - 1]}"
        try:
            with fail_at(number, errno.ENOSPC):
                scene.act(queue, given)
        except Storage as error:
            refused += error.details["errno"] == errno.ENOSPC
        stages.judge(queue, where)
    assert refused > 0
