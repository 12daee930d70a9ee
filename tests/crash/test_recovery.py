"""Recovery may crash too, and an end whose outcome is unknown may be repeated."""

from __future__ import annotations

import errno

import pytest
from crashes import Stages
from faults import CHANGES, fail_at, killed_at, record
from pits import actions, reopened, root_of
from rotation import part
from scenes import ID, SCENES

from taskpit.errors import Storage
from taskpit.keeper import sweep
from taskpit.model import Said

VERBS = [scene for scene in SCENES if scene.words and not scene.composed and scene.name != "the fifth reclaim"]
ENDS = [scene for scene in VERBS if "ending" in scene.act.__qualname__]


@pytest.mark.parametrize("scene", part(VERBS, 3), ids=repr)
def test_killed_again_while_recovering(scene, tmp_path):
    """A crash anywhere, then one anywhere in the first sweep after it; the next sweeps still make it whole."""
    stages, runs = Stages(scene, tmp_path), 0
    for number in part(stages.numbers(changes=True), 3):
        for second in part(_changes_of_first_sweep(stages, number), 2):
            queue = _crashed(stages, number)
            with killed_at(second):
                sweep(queue)
            stages.judge(queue, f"killed before call {number}, {stages.calls[number - 1]}, then {second} of the sweep")
            runs += 1
    print(f"{scene}: {runs} crashes of crashes")


def _crashed(stages, number):
    queue, given = stages.stage()
    with killed_at(number):
        stages.scene.act(queue, given)
    queue.close()
    return reopened(root_of(queue), queue.clock, stages.config)


def _changes_of_first_sweep(stages, number):
    queue = _crashed(stages, number)
    with record() as calls:
        sweep(queue)
    stages.strike(queue)
    return [place for place, (call, path) in enumerate(calls, 1) if call in CHANGES and "sightings" not in path]


@pytest.mark.parametrize("scene", ENDS, ids=repr)
def test_an_end_of_unknown_outcome_can_be_repeated(scene, tmp_path):
    """The disk said no somewhere on the way: saying the same again has the effect of having said it once."""
    stages = Stages(scene, tmp_path)
    for number in part(stages.numbers(changes=True), 2):
        queue, claim = stages.stage()
        where = f"refused call {number}, {stages.calls[number - 1]}"
        ends = []
        finish = queue.store.finish
        queue.store.finish = lambda given, finish=finish, ends=ends: (ends.extend(given), finish(given))[1]
        try:
            with fail_at(number, errno.EIO):
                scene.act(queue, claim)
        except Storage:
            if ends:
                assert finish(ends) in ([Said.OK], [Said.ALREADY]), where
            else:
                scene.act(queue, claim)
        assert "late_result" not in actions(queue, ID), where
        assert stages.judge(queue, where) == stages.after, where
