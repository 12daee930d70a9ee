"""A fault at every single system call of every verb in every layout leaves the state before or the state after.

Each call is killed that finds another state than the one before: after a call that only looked, the disk is as it
was. Of what the kernel may say instead, each call that changes something hears one, the next call another, and of
those that only look every third (outside the pit, where the verbs are the same, every second call is spared). With
TASKPIT_LONG each call is killed and hears all of it.
"""

from __future__ import annotations

import contextlib
import errno
import os

import pytest
from crashes import Stages
from faults import CHANGES, fail_at, killed_at, short_at
from pits import POWER
from rotation import TURN, in_turn
from scenes import ANYWHERE, SCENES

from taskpit.errors import Storage

CASES = [("pit", scene) for scene in SCENES]
CASES += [(layout, scene) for layout in ("mailbox", "workspace") for scene in ANYWHERE]
CASES = in_turn(CASES)
EVERY = bool(os.environ.get("TASKPIT_LONG"))
#: What any call may say, and what only one that changes something may.
ANY = (errno.EIO, errno.EINTR)
CHANGING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
#: Calls besides CHANGES that may find the disk full or read-only: a lock is a file, too.
MAKING = CHANGES | {"flock"}


def faults(calls, number, layout):
    """The faults that this call meets: its name, how to order it, what the verb may say."""
    call, seldom = calls[number - 1][0], not EVERY and layout != "pit"
    changed = number == 1 or calls[number - 2][0] in MAKING
    if EVERY or (changed and (number % 2 or not seldom)):
        yield "killed before", killed_at, None
    codes = (*ANY, *(CHANGING if call in MAKING else ()))
    spared = number % 2 if seldom else call not in MAKING and number % 3 != TURN % 3
    for code in codes if EVERY else () if spared else codes[number % len(codes) :][:1]:
        yield f"{errno.errorcode[code]} from", lambda number, code=code: fail_at(number, code), code
    if call == "write":
        yield "a few bytes from", short_at, None
        yield "a few bytes from, then a full disk after,", lambda n: short_at(n, errno.ENOSPC), errno.ENOSPC


@contextlib.contextmanager
def coping(code, where):
    """The verb copes, or raises Storage with what the disk said."""
    try:
        yield
    except Storage as error:
        if code is None or error.details["errno"] != code:
            raise AssertionError(where) from error


@pytest.mark.parametrize(("layout", "scene"), CASES, ids=lambda value: repr(value).strip("'"))
def test_every_fault_at_every_call(layout, scene, tmp_path):
    """Died, refused or cut short anywhere: others find nothing missing, nothing twice, nothing by half."""
    stages, runs = Stages(scene, tmp_path, layout=layout), 0
    for number in stages.numbers():
        for name, fault, code in faults(stages.calls, number, layout):
            queue, given = stages.stage()
            where = f"{name} call {number}, {stages.calls[number - 1]}"
            with coping(code, where), fault(number):
                scene.act(queue, given)
            seen = stages.judge(queue, where)
            if number == 1 and fault is killed_at:
                assert seen == stages.before or scene.act.__name__ == "sweeping", where
            if fault is short_at:
                assert seen == stages.after, f"{where}: what was cut short was not carried on"
            runs += 1
    print(f"{layout}, {scene}: {len(stages.calls)} calls, {runs} faults")
    assert runs >= (3 if EVERY else 0.3) * len(stages.calls) > 0


@pytest.mark.parametrize("scene", SCENES, ids=repr)
def test_killed_before_every_change_with_fsync(scene, tmp_path):
    stages = Stages(scene, tmp_path, POWER)
    for number in stages.numbers(changes=True):
        queue, given = stages.stage()
        with killed_at(number):
            scene.act(queue, given)
        stages.judge(queue, f"killed before call {number}, {stages.calls[number - 1]}")
    assert any(call == "fsync" for call, _ in stages.calls) or not scene.words or scene.act.__name__ == "sweeping"
