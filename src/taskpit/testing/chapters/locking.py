"""Names that one worker has until a time."""

from __future__ import annotations

from taskpit.errors import Invalid, Lost
from taskpit.model import Lock, Said
from taskpit.testing.chapters.steps import LEASE, Steps

#: A store that writes its times in whole seconds may let a lock last up to this much longer.
ROUNDING = 1.0


class Locking(Steps):
    """Names that one worker has until a time."""

    def refused(self, name: str, worker: str) -> Lost:
        """This worker does not get the name; what it is told."""
        try:
            self.store.lock(name, worker, LEASE)
        except Lost as refusal:
            return refusal
        raise AssertionError(f"{worker} got {name}, which another has")

    def cannot_be(self, name: str, seconds: float) -> None:
        """There is no such lock, and nothing has become of it."""
        try:
            self.store.lock(name, "ann", seconds)
        except Invalid:
            assert self.store.locks() == []
        else:
            raise AssertionError(f"{name!r} was locked for {seconds}")

    def outlast(self) -> None:
        """The time of every lock is over."""
        self.clock.advance(LEASE + ROUNDING + 0.001)

    def test_a_lock_is_its_holders_alone(self) -> None:
        """It says so, and the second learns who has it."""
        lock = self.store.lock("deploy", "ann", LEASE)
        assert (lock.name, lock.holder, lock.kind, lock.number) == ("deploy", "ann", "agent", 1)
        assert 0 <= lock.expires - (self.clock.now() + LEASE) <= ROUNDING
        refusal = self.refused("deploy", "bob")
        assert refusal.details["holder"] == "ann"
        assert "ann" in refusal.message

    def test_names_are_apart(self) -> None:
        """One name says nothing of another, not even of one that begins with it."""
        self.store.lock("deploy", "ann", LEASE)
        assert self.store.lock("deploy.eu", "bob", LEASE).number == 1

    def test_kinds_of_holders(self) -> None:
        """People are known by their names unless it is said otherwise."""
        assert self.store.lock("one", "ann@home", LEASE).kind == "human"
        assert self.store.lock("two", "ann", LEASE, "human").kind == "human"

    def test_a_freed_name_can_be_had(self) -> None:
        """At once, with the next number."""
        assert self.store.unlock(self.store.lock("deploy", "ann", LEASE)) is Said.OK
        assert self.store.locks() == []
        assert self.store.lock("deploy", "bob", LEASE).number == 2

    def test_a_lock_ends_by_the_stores_clock(self) -> None:
        """Not before its time, and not much after it."""
        self.store.lock("deploy", "ann", LEASE)
        self.clock.advance(LEASE - 0.001)
        self.refused("deploy", "bob")
        self.clock.advance(ROUNDING + 0.002)
        assert self.store.lock("deploy", "bob", LEASE).number == 2

    def test_numbers_only_grow(self) -> None:
        """Across release and takeover alike."""
        numbers = []
        for turn in range(6):
            lock = self.store.lock("deploy", f"worker-{turn}", LEASE)
            numbers.append(lock.number)
            if turn % 2:
                self.outlast()
            else:
                assert self.store.unlock(lock) is Said.OK
        assert numbers == [1, 2, 3, 4, 5, 6]

    def test_a_renewed_lock_lasts(self) -> None:
        """From the renewal on, under the same number."""
        lock = self.store.lock("deploy", "ann", LEASE)
        for _ in range(3):
            self.clock.advance(LEASE * 0.8)
            assert self.store.relock(lock, LEASE) is Said.OK
        self.clock.advance(LEASE * 0.8)
        self.refused("deploy", "bob")
        (held,) = self.store.locks()
        assert (held.holder, held.number) == ("ann", lock.number)
        self.outlast()
        assert self.store.lock("deploy", "bob", LEASE).number == 2

    def test_a_late_holder_keeps_what_nobody_took(self) -> None:
        """A lock is its holder's until another has it, not until its time passes."""
        lock = self.store.lock("deploy", "ann", LEASE)
        self.outlast()
        assert self.store.relock(lock, LEASE) is Said.OK
        self.refused("deploy", "bob")

    def test_a_late_holder_changes_nothing(self) -> None:
        """What was taken over can be neither renewed nor freed by the one who had it."""
        late = self.store.lock("deploy", "ann", LEASE)
        self.outlast()
        self.store.lock("deploy", "bob", LEASE)
        before = self.store.locks()
        assert self.store.relock(late, LEASE) is Said.LOST
        assert self.store.unlock(late) is Said.LOST
        assert self.store.locks() == before
        self.refused("deploy", "cid")

    def test_a_late_holder_of_the_same_name_changes_nothing(self) -> None:
        """The number tells them apart where the name does not."""
        late = self.store.lock("deploy", "ann", LEASE)
        self.outlast()
        assert self.store.unlock(self.store.lock("deploy", "bob", LEASE)) is Said.OK
        again = self.store.lock("deploy", "ann", LEASE)
        assert self.store.relock(late, LEASE) is Said.LOST
        assert self.store.unlock(late) is Said.LOST
        assert self.store.relock(again, LEASE) is Said.OK

    def test_anothers_lock_is_never_freed(self) -> None:
        """Nor a lock that is not there."""
        self.store.lock("deploy", "ann", LEASE)
        assert self.store.unlock(Lock(name="deploy", holder="bob")) is Said.LOST
        assert self.store.unlock(Lock(name="other", holder="bob")) is Said.LOST
        self.refused("deploy", "bob")

    def test_a_holder_without_its_number_is_told_by_its_name(self) -> None:
        """So that a person can free what an earlier command locked."""
        self.store.lock("deploy", "ann", LEASE)
        assert self.store.relock(Lock(name="deploy", holder="ann"), LEASE) is Said.OK
        assert self.store.unlock(Lock(name="deploy", holder="ann")) is Said.OK
        assert self.store.locks() == []

    def test_the_same_worker_again_keeps_its_number(self) -> None:
        """Locking what one has renews it."""
        first = self.store.lock("deploy", "ann", LEASE)
        self.clock.advance(LEASE * 0.8)
        assert self.store.lock("deploy", "ann", LEASE).number == first.number
        self.clock.advance(LEASE * 0.8)
        self.refused("deploy", "bob")

    def test_bad_names_are_refused(self) -> None:
        """What no file could be called is no name of a lock."""
        for name in ("", "a/b", "..", ".hidden", "-x", "a b", "a..b", "x" * 65, "a\nb"):
            self.cannot_be(name, LEASE)

    def test_a_lock_lasts_some_time(self) -> None:
        """Or it is none."""
        for seconds in (0.0, -1.0):
            self.cannot_be("deploy", seconds)

    def test_all_locks_are_told(self) -> None:
        """By name, with whose they are and until when; also what is over and was not taken yet."""
        self.store.lock("two", "bob@home", LEASE * 10)
        self.store.lock("one", "ann", LEASE)
        self.outlast()
        one, two = self.store.locks()
        assert (one.name, one.holder, one.kind, one.number) == ("one", "ann", "agent", 1)
        assert (two.name, two.holder, two.kind, two.number) == ("two", "bob@home", "human", 1)
        assert one.expires < self.clock.now() < two.expires

    def test_locks_and_tasks_are_apart(self) -> None:
        """A lock with the id of a task locks no task."""
        self.put(self.task(1))
        self.store.lock(self.id(1), "ann", LEASE)
        assert self.take("bob").task.id == self.id(1)
