"""What a claim is worth, and when it is over."""

from __future__ import annotations

from taskpit.errors import Lost
from taskpit.model import End, Said, State
from taskpit.testing.chapters.steps import LEASE, Steps


class Holding(Steps):
    """What a claim is worth, and when it is over."""

    def test_renewing_lengthens_the_lease(self) -> None:
        """The card tells how far."""
        self.put(self.task(1))
        claim = self.take()
        self.clock.advance(LEASE / 2)
        assert self.store.renew([claim], LEASE) == [Said.OK]
        assert abs(self.card(self.id(1)).until - (self.clock.now() + LEASE)) < 1

    def test_who_is_asked_to_stop_learns_it(self) -> None:
        """When renewing; so does the next holder, until the task has ended: a dead worker heeds no wish."""
        self.put(self.task(1))
        claim = self.take()
        self.store.stop([self.id(1)])
        assert self.store.renew([claim], LEASE) == [Said.CANCEL]
        assert self.finish(End(claim=claim)) is Said.OK
        again = self.take()
        assert self.store.renew([again], LEASE) == [Said.CANCEL]
        assert self.finish(self.failed(again)) is Said.OK
        assert self.store.reopen([again.task]) == [Said.OK]
        assert self.store.renew([self.take()], LEASE) == [Said.OK]

    def test_a_reopening_that_is_refused_forgets_no_request_to_stop(self) -> None:
        """Only what has failed is reopened; and a request that outlived its task is nothing out of order."""
        self.put(self.task(1))
        claim = self.take()
        self.store.stop([self.id(1)])
        assert self.store.reopen([claim.task]) == [Said.LOST]
        assert self.store.renew([claim], LEASE) == [Said.CANCEL]
        assert self.finish(self.failed(claim)) is Said.OK
        assert self.store.check() == []

    def test_a_finished_claim_cannot_be_renewed(self) -> None:
        """It is over."""
        self.put(self.task(1), self.task(2))
        one, two = self.take(), self.take()
        self.finish(self.done(one))
        assert self.store.renew([one, two], LEASE) == [Said.LOST, Said.OK]

    def test_a_worker_that_renews_never_lapses(self) -> None:
        """However long it takes."""
        self.put(self.task(1))
        claim = self.take()
        for _ in range(10):
            self.clock.advance(LEASE * 0.9)
            assert self.store.lapsed() == []
            assert self.store.renew([claim], LEASE) == [Said.OK]
        assert self.store.lapsed() == []

    def test_a_worker_that_does_not_renew_lapses(self) -> None:
        """After its lease, not before."""
        self.put(self.task(1))
        claim = self.take()
        self.clock.advance(LEASE - 1)
        assert self.store.lapsed() == []
        self.clock.advance(2)
        lapse = self.store.lapsed()[0]
        assert (lapse.claim.task.id, lapse.claim.fence) == (self.id(1), claim.fence)
        assert self.give_back(lapse) is Said.OK
        assert self.store.lapsed() == []
        assert self.state(self.id(1)) is State.READY

    def test_a_claim_is_valid_until_it_is_revoked(self) -> None:
        """Not until time passes: a late worker that nobody replaced may still finish."""
        self.put(self.task(1))
        claim = self.take()
        self.clock.advance(LEASE * 10)
        assert self.finish(self.done(claim)) is Said.OK

    def test_a_renewal_after_the_lease_saves_the_claim(self) -> None:
        """If nobody was faster."""
        self.put(self.task(1))
        claim = self.take()
        self.clock.advance(LEASE * 2)
        assert self.store.renew([claim], LEASE) == [Said.OK]
        assert self.store.lapsed() == []

    def test_a_reclaimed_task_is_lost_to_its_worker(self) -> None:
        """Renewing says so."""
        self.put(self.task(1))
        claim = self.take()
        self.clock.advance(LEASE + 1)
        for lapse in self.store.lapsed():
            self.give_back(lapse)
        assert self.store.renew([claim], LEASE) == [Said.LOST]
        self.take("other")
        assert self.store.renew([claim], LEASE) == [Said.LOST]

    def test_giving_back_twice_takes_nothing_from_the_next(self) -> None:
        """A slow keeper's reclaim of an earlier claim finds nothing."""
        self.put(self.task(1))
        self.take()
        self.clock.advance(LEASE + 1)
        lapse = self.store.lapsed()[0]
        assert self.give_back(lapse) is Said.OK
        again = self.take()
        assert self.give_back(lapse) in (Said.LOST, Said.ALREADY)
        assert self.store.renew([again], LEASE) == [Said.OK]

    def test_a_dead_member_lapses_at_once(self) -> None:
        """No lease to wait for."""
        self.put(self.task(1))
        member = self.store.join("python", LEASE)
        self.take("python")
        assert self.store.lapsed() == []
        self.die(member)
        assert [lapse.claim.task.id for lapse in self.store.lapsed()] == [self.id(1)]

    def test_a_living_members_name_is_taken(self) -> None:
        """And free again when it leaves."""
        member = self.store.join("python", LEASE)
        try:
            self.store.join("python", LEASE)
        except Lost:
            pass
        else:
            raise AssertionError("two members of one name")
        member.leave()
        self.store.join("python", LEASE).leave()
