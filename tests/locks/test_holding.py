"""A lock as a `with` block: waits, renews by itself, tells when it was taken, and frees nobody else's."""

from __future__ import annotations

import threading

import pytest
from faults import Stopped
from lockers import LEASE, NAME, make, path_of, read, spelled, store, write
from waits import PATIENCE

from taskpit.errors import Denied, Lost, Storage, Unavailable
from taskpit.held_lock import NamedLock, one_of
from taskpit.model import Said
from taskpit.queue import Queue
from taskpit.store import flock
from taskpit.testing import FakeClock


class Breaks(Exception):
    """What goes wrong inside."""


@pytest.fixture
def queue(tmp_path):
    found = make(tmp_path / "pit", FakeClock())
    return Queue(found, found.config, found.clock)


def other(queue):
    """The queue as another process has it."""
    return Queue(store(queue.store.folder.root, queue.clock), queue.config, queue.clock)


def holders(queue):
    return [lock.holder for lock in queue.store.locks()]


def under(named, work):
    """The work is done under the lock."""
    with named as held:
        work(held)


def robbed(queue):
    """Its time is over, and another has taken it; the other's lock."""
    queue.clock.advance(LEASE + 2)
    other(queue).store.lock(NAME, "bob", LEASE)
    return read(path_of(queue.store))


def test_it_is_held_inside_and_free_outside(queue):
    with queue.lock(NAME, worker="ann", ttl=LEASE) as held:
        assert held.number == 1
        assert holders(queue) == ["ann"]
        with pytest.raises(Lost, match="ann"), other(queue).lock(NAME, worker="bob"):
            raise AssertionError("bob is in")
    assert holders(queue) == []
    with queue.lock(NAME, worker="bob", ttl=LEASE) as held:
        assert held.number == 2


def test_two_of_one_user_keep_each_other_out(queue):
    with queue.lock(NAME) as held:
        assert held.worker != one_of()
        with pytest.raises(Lost), queue.lock(NAME):
            raise AssertionError("both are in")


def test_it_is_free_after_an_error_too(queue):
    with pytest.raises(Breaks), queue.lock(NAME, worker="ann"):
        raise Breaks
    assert holders(queue) == []


def test_it_is_waited_for(queue):
    """Until whoever has it is done; by the queue's clock, which only passes while somebody sleeps."""
    queue.store.lock(NAME, "ann", 50.0)
    began = queue.clock.monotonic()
    with queue.lock(NAME, worker="bob", wait=200) as held:
        assert held.number == 2
        assert 50 <= queue.clock.monotonic() - began <= 53


def test_but_not_for_ever(queue):
    queue.store.lock(NAME, "ann", 500.0)
    began = queue.clock.monotonic()
    with pytest.raises(Lost, match="ann"), queue.lock(NAME, worker="bob", wait=100):
        raise AssertionError("bob is in")
    assert queue.clock.monotonic() - began == pytest.approx(100)


def test_who_stands_still_in_the_middle_is_waited_for_like_a_holder(queue, monkeypatch):
    monkeypatch.setattr(flock, "TURN", 0.005)
    stopped = Stopped(lambda: other(queue).store.lock(NAME, "slow", LEASE), 6)
    assert stopped.there
    with pytest.raises(Unavailable):
        queue.lock(NAME, worker="bob", wait=1).acquire()
    stopped.go_on()
    assert holders(queue) == ["slow"]


def test_checking_keeps_it(queue):
    """What is checked in time lasts."""
    with queue.lock(NAME, worker="ann", ttl=LEASE) as held:
        for _ in range(5):
            queue.clock.advance(LEASE * 0.9)
            held.check()
            assert held.deadline == queue.clock.monotonic() + LEASE
            with pytest.raises(Lost):
                other(queue).store.lock(NAME, "bob", LEASE)


def test_a_lock_that_was_taken_over_is_found_out(queue):
    """Inside by a check, and at the end at the latest; what the other has stays as it is."""
    theirs = []

    def work(held):
        theirs.append(robbed(queue))
        with pytest.raises(Lost, match="taken over"):
            held.check()
        assert held.lost
        assert not held.renew(), "lost once is lost"

    with pytest.raises(Lost, match="taken over"):
        under(queue.lock(NAME, worker="ann", ttl=LEASE), work)
    assert theirs == [read(path_of(queue.store))]


def test_what_went_wrong_inside_is_the_news(queue):
    def work(held):
        robbed(queue)
        raise Breaks

    with pytest.raises(Breaks):
        under(queue.lock(NAME, worker="ann", ttl=LEASE), work)
    assert holders(queue) == ["bob"]


def test_the_deadline_is_counted_from_before_the_question(queue):
    """A taker that is stopped on its way has that much less; one that comes back too late looks again."""
    clock = queue.clock
    for pause, left in ((100.0, LEASE - 100.0), (LEASE + 50.0, LEASE)):
        named = other(queue).lock(NAME, worker=f"slow-{pause:.0f}", ttl=LEASE)
        stopped = Stopped(named.acquire, 6)
        assert stopped.there
        clock.advance(pause)
        stopped.go_on()
        assert named.deadline == pytest.approx(clock.monotonic() + left)
        named.release()


class Counting:
    """A store that tells when it was asked to renew, and refuses as it is told."""

    def __init__(self, real, refusals=()):
        self.real = real
        self.refusals = list(refusals)
        self.renewed = threading.Semaphore(0)

    def lock(self, *words):
        return self.real.lock(*words)

    def relock(self, lock, seconds):
        try:
            if self.refusals:
                refusal = self.refusals.pop()
                if isinstance(refusal, Said):
                    return refusal
                raise refusal
            return self.real.relock(lock, seconds)
        finally:
            self.renewed.release()

    def unlock(self, lock):
        return self.real.unlock(lock)


def test_it_renews_by_itself(queue):
    """Again and again while the block runs, whether or not anybody asks; whatever refuses it, it is tried again."""
    counting = Counting(queue.store, [Storage("no room"), Denied("not with this token"), Storage("no room")])
    with NamedLock(counting, queue.clock, NAME, "ann", ttl=0.15) as held:
        for _ in range(5):
            assert counting.renewed.acquire(timeout=PATIENCE)
        assert not held.lost


def test_who_loses_it_is_told(queue):
    """By the thread that renews, as soon as it knows."""
    told = threading.Event()
    counting = Counting(queue.store, [Said.LOST])
    named = NamedLock(counting, queue.clock, NAME, "ann", ttl=0.15, when_lost=told.set)

    def work(held):
        assert told.wait(PATIENCE)
        assert held.lost

    with pytest.raises(Lost):
        under(named, work)


def test_a_stranger_who_writes_over_it_is_found_out(queue):
    theirs = spelled("stranger", queue.clock.now(), queue.clock.now() + LEASE)
    with pytest.raises(Lost):
        under(queue.lock(NAME, worker="ann", ttl=LEASE), lambda held: write(path_of(queue.store), theirs))
    assert read(path_of(queue.store)) == theirs


def test_a_lock_nobody_took_has_no_number(queue):
    with pytest.raises(Lost, match="not held"):
        _ = queue.lock(NAME).number
