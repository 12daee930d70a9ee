"""Killed or refused before each call of each verb: the lock of before or the lock of after, and others can go on."""

from __future__ import annotations

import errno
import json
import os
import shutil

import pytest
from faults import fail_at, killed_at, record
from lockers import FAST, LEASE, LONG, NAME, Shifted, gripped, make, path_of, read, store

from taskpit.errors import Lost, Storage
from taskpit.model import Said

POWER = FAST.replace(durability="power")


def take(found, lock):
    """Of an expired lock."""
    return found.lock(NAME, "ann", LEASE)


def take_free(found, lock):
    return found.lock(NAME, "ann", LEASE)


def renew(found, lock):
    return found.relock(lock, LEASE * 2)


def free(found, lock):
    return found.unlock(lock)


VERBS = [take, take_free, renew, free]


def stage(root, verb):
    """A store, and the lock the verb is about, with number 1."""
    found = make(root, config=POWER)
    before = store(root, Shifted(-LONG), POWER) if verb is take else found
    lock = before.lock(NAME, "gone" if verb in (take, take_free) else "ann", LEASE)
    if verb is take_free:
        found.unlock(lock)
    return found, lock


def told(found):
    """What the file says, without when; None if there is none."""
    path = path_of(found)
    fields = json.loads(read(path)) if os.path.exists(path) else {}
    return {key: value for key, value in fields.items() if key not in ("acquired", "expires")} or None


def outcomes(where, verb):
    """What is told before and after, and the calls in between."""
    found, lock = stage(f"{where}/whole", verb)
    before = told(found)
    with record() as calls:
        verb(found, lock)
    assert calls, "it made no call to fail at: nothing is shown"
    return (before, told(found)), len(calls)


def others_go_on(found, where):
    """Now if the name is free, otherwise when its time is over; with a number that nobody can have had."""
    try:
        last = found.lock(NAME, "other", LEASE)
    except Lost:
        last = store(found.folder.root, Shifted(LONG), POWER).lock(NAME, "other", LEASE)
    held = [(lock.holder, lock.number) for lock in found.locks()]
    assert held == [("other", last.number)], where
    return last.number


@pytest.mark.parametrize("verb", VERBS)
def test_killed(verb, tmp_path):
    ends, calls = outcomes(tmp_path, verb)
    seen = set()
    for number in range(1, calls + 1):
        found, lock = stage(f"{tmp_path}/{number}", verb)
        with killed_at(number):
            verb(found, lock)
        where = f"killed before call {number}"
        left = told(found)
        assert left in ends, where
        seen.add(ends.index(left))
        given = 2 if verb in (take, take_free) and left == ends[1] else 1
        assert given < others_go_on(found, where) <= 3, f"{where}: {given} was given"
        shutil.rmtree(found.folder.root)
    assert seen == ({0} if ends[0] == ends[1] else {0, 1})


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("verb", VERBS)
def test_refused(verb, code, tmp_path):
    """It says so or has happened; the same verb again works."""
    ends, calls = outcomes(tmp_path, verb)
    for number in range(1, calls + 1):
        found, lock = stage(f"{tmp_path}/{number}", verb)
        where = f"{errno.errorcode[code]} at call {number}"
        try:
            with fail_at(number, code):
                verb(found, lock)
        except Storage:
            assert told(found) in ends, where
        else:
            assert told(found) == ends[1], where
        if told(found) == ends[0]:
            verb(found, lock)
            assert told(found) == ends[1], where
        assert others_go_on(found, where) >= (3 if verb in (take, take_free) else 2), where
        shutil.rmtree(found.folder.root)


@pytest.mark.parametrize("damage", [b"\0" * 512, b'{"number": 7', b"[]", b'{"number": "7"}'])
def test_a_damaged_count_goes_on_above_all_that_was(damage, tmp_path):
    """No number is ever given twice, whatever became of the file that keeps it."""
    found = make(tmp_path / "pit")
    for worker in ("ann", "bob"):
        assert found.unlock(found.lock(NAME, worker, LEASE)) is Said.OK
    with open(gripped(found).path, "wb") as file:
        file.write(damage)
    third = found.lock(NAME, "cid", LEASE)
    assert third.number > 1_700_000_000
    assert found.unlock(third) is Said.OK
    assert found.lock(NAME, "dan", LEASE).number == third.number + 1
