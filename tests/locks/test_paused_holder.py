"""A holder that stands still past its lease, before each of its calls in turn, changes nothing of another's."""

from __future__ import annotations

import os
import shutil

import pytest
from faults import Stopped
from lockers import LEASE, NAME, make, path_of, read, spelled, store, write

from taskpit.errors import Lost, Unavailable
from taskpit.model import Said
from taskpit.store import flock
from taskpit.testing import FakeClock

#: No verb here makes more calls than this.
MOST = 100


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(flock, "TURN", 0.005)


def renew(found, lock):
    return found.relock(lock, LEASE)


def free(found, lock):
    return found.unlock(lock)


def again(found, lock):
    """The same worker asks for what it has."""
    return found.lock(NAME, "slow", LEASE)


def stops(where, verb):
    """For each call of the holder's verb: the store of another, and the holder standing before that call."""
    for number in range(1, MOST):
        clock, root = FakeClock(), f"{where}/{number}"
        found = make(root, clock)
        lock = found.lock(NAME, "slow", LEASE)
        stopped = Stopped(lambda f=found, k=lock: verb(f, k), number)
        if not stopped.there:
            stopped.go_on()
            return
        clock.advance(LEASE + 2)
        yield store(root, clock), stopped, lock
        shutil.rmtree(root)
    raise AssertionError("the verb does not end")


def outcome(stopped):
    """What came of the holder's verb."""
    try:
        return stopped.go_on()
    except Lost:
        return Said.LOST


def taken_over(found):
    """Somebody fast has the name; False if the slow one stands in the middle of its turn."""
    try:
        found.lock(NAME, "fast", LEASE)
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("verb", [renew, free, again])
def test_what_another_has_taken_is_left_alone(verb, tmp_path):
    places = {True: 0, False: 0}
    for other, stopped, lock in stops(tmp_path, verb):
        taken = taken_over(other)
        places[taken] += 1
        theirs = read(path_of(other)) if taken else b""
        said = outcome(stopped)
        if taken:
            assert said is Said.LOST, stopped.call
            assert read(path_of(other)) == theirs, stopped.call
            (held,) = other.locks()
            assert (held.holder, held.number) == ("fast", lock.number + 1), stopped.call
        else:  # it was still its own: nobody could take it from the middle of a turn
            assert said is not Said.LOST, stopped.call
            assert [one.holder for one in other.locks()] == ([] if verb is free else ["slow"]), stopped.call
    assert min(places.values()) >= 1, "it was stopped before its turn, and in it"


@pytest.mark.parametrize("verb", [renew, free])
def test_even_under_the_same_name(verb, tmp_path):
    """Another took it and let it go, and a second process of the same name has it now: the number tells."""
    seen = 0
    for other, stopped, lock in stops(tmp_path, verb):
        if taken_over(other):
            seen += 1
            other.unlock(other.lock(NAME, "fast", LEASE))
            second = other.lock(NAME, "slow", LEASE)
            theirs = read(path_of(other))
            assert second.number == lock.number + 2
            assert outcome(stopped) is Said.LOST, stopped.call
            assert read(path_of(other)) == theirs, stopped.call
        else:
            stopped.go_on()
    assert seen >= 1


@pytest.mark.parametrize("verb", [renew, free, again])
def test_what_a_stranger_has_taken_is_left_alone(verb, tmp_path):
    """Strangers take no turns: they delete what has expired and create. Only at the deciding call itself
    can nobody look again, and that is said in the docs.
    """
    blind = 0
    for other, stopped, _ in stops(tmp_path, verb):
        path = path_of(other)
        if stopped.call[0] == "rename" or stopped.call == ("unlink", path):
            blind += 1
            stopped.go_on()
            continue
        if os.path.exists(path):
            os.unlink(path)
        theirs = spelled("stranger", other.clock.now(), other.clock.now() + LEASE)
        write(path, theirs)
        said = outcome(stopped)
        assert (said is Said.LOST) == (blind == 0), stopped.call  # after the deciding call it has happened
        assert read(path) == theirs, stopped.call
    assert blind == 1


def test_a_stalled_taker_has_no_more_than_its_time(tmp_path):
    """Whoever is stopped while it takes the name finds it taken, or tells a time that is over."""
    for number in range(1, MOST):
        clock, root = FakeClock(), f"{tmp_path}/{number}"
        found = make(root, clock)
        stopped = Stopped(lambda f=found: f.lock(NAME, "slow", LEASE), number)
        if not stopped.there:
            assert number > 5
            return
        clock.advance(LEASE + 2)
        taken = taken_over(store(root, clock))
        try:
            lock = stopped.go_on()
        except Lost:
            assert taken, stopped.call
        else:
            assert not taken, stopped.call
            assert lock.expires < clock.now(), stopped.call
        shutil.rmtree(root)
    raise AssertionError("the verb does not end")
