"""A crash before every single system call of every verb leaves the state before or the state after."""

from __future__ import annotations

import contextlib
import errno

import pytest
from crashes import Stages
from pits import POWER
from scenes import ANYWHERE, SCENES

from taskpit.errors import Storage
from taskpit.testing.faults import fail_at, killed_at


@pytest.mark.parametrize("scene", SCENES, ids=repr)
def test_killed_before_every_call(scene, tmp_path):
    stages = Stages(scene, tmp_path)
    seen = []
    for number in stages.numbers():
        queue, given = stages.stage()
        with killed_at(number):
            scene.act(queue, given)
        seen.append(stages.judge(queue, f"killed before call {number}, {stages.calls[number - 1]}"))
    assert len(seen) == len(stages.calls) > 0
    assert seen[0] == stages.before or stages.scene.act.__name__ == "sweeping"


@pytest.mark.parametrize("scene", SCENES, ids=repr)
def test_killed_before_every_change_with_fsync(scene, tmp_path):
    stages = Stages(scene, tmp_path, POWER)
    for number in stages.numbers(changes=True):
        queue, given = stages.stage()
        with killed_at(number):
            scene.act(queue, given)
        stages.judge(queue, f"killed before call {number}, {stages.calls[number - 1]}")
    assert any(call == "fsync" for call, _ in stages.calls) or not scene.words or scene.act.__name__ == "sweeping"


@pytest.mark.parametrize("layout", ["mailbox", "workspace"])
@pytest.mark.parametrize("scene", ANYWHERE, ids=repr)
def test_killed_before_every_change_in_another_layout(scene, layout, tmp_path):
    stages = Stages(scene, tmp_path, layout=layout)
    for number in stages.numbers(changes=True):
        queue, given = stages.stage()
        with killed_at(number):
            scene.act(queue, given)
        stages.judge(queue, f"killed before call {number}, {stages.calls[number - 1]}")
    assert stages.calls


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("scene", SCENES, ids=repr)
def test_refused_at_every_call(scene, code, tmp_path):
    """The disk says no once: the verb raises Storage or copes, and others notice nothing."""
    stages = Stages(scene, tmp_path)
    for number in stages.numbers():
        queue, given = stages.stage()
        where = f"refused call {number}, {stages.calls[number - 1]}"
        with coping(code, where), fail_at(number, code):
            scene.act(queue, given)
        stages.judge(queue, where)


@contextlib.contextmanager
def coping(code, where):
    """The verb copes, or raises Storage with what the disk said."""
    try:
        yield
    except Storage as error:
        if error.details["errno"] != code:
            raise AssertionError(where) from error
