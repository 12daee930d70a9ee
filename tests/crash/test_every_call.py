"""A fault at every single system call of every verb in every layout leaves the state before or the state after.

A pit that syncs dies before every third call that changes something. Of every second verb, every sixth call (the others
with other seeds) is killed if it finds another state than the one before, hears one of what the kernel may say instead,
and, if it writes, writes too little. With TASKPIT_LONG all calls hear all of it.
"""

from __future__ import annotations

import contextlib
import errno

import pytest
from crashes import Stages
from faults import CHANGES, fail_at, killed_at, short_at
from pits import POWER
from rotation import LONG as EVERY
from rotation import TURN, in_turn, part
from scenes import ANYWHERE, SCENES

from taskpit.errors import Storage

CASES = [("pit", scene) for scene in SCENES]
CASES += [(layout, scene) for layout in ("mailbox", "workspace") for scene in ANYWHERE]
CASES = part(in_turn(CASES), 5)
#: What any call may say, and what only one that changes something may.
ANY = (errno.EIO, errno.EINTR)
CHANGING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
#: Calls besides CHANGES that may find the disk full or read-only: a lock is a file, too.
MAKING = CHANGES | {"flock"}


def faults(calls, number):
    """The faults that this call meets: its name, how to order it, what the verb may say."""
    call = calls[number - 1][0]
    if EVERY or number == 1 or calls[number - 2][0] in MAKING:
        yield "killed before", killed_at, None
    codes = (*ANY, *(CHANGING if call in MAKING else ()))
    for code in codes if EVERY else [codes[(number + TURN) % len(codes)]]:
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
    for number in (tried := part(stages.numbers(), 8)):
        for name, fault, code in faults(stages.calls, number):
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
    assert runs >= (3 if EVERY else 1) * len(tried) >= len(stages.calls) // 8


@pytest.mark.parametrize("scene", SCENES, ids=repr)
def test_killed_before_every_change_with_fsync(scene, tmp_path):
    stages = Stages(scene, tmp_path, POWER)
    for number in part(stages.numbers(changes=True), 4):
        queue, given = stages.stage()
        with killed_at(number):
            scene.act(queue, given)
        stages.judge(queue, f"killed before call {number}, {stages.calls[number - 1]}")
    assert any(call == "fsync" for call, _ in stages.calls) or not scene.words or scene.act.__name__ == "sweeping"
