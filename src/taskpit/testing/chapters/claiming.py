"""Who gets what, and in which order."""

from __future__ import annotations

from taskpit.model import End, Said, State
from taskpit.testing.chapters.steps import LEASE, Steps


class Claiming(Steps):
    """Who gets what, and in which order."""

    def order(self) -> list[str]:
        """The ids in the order they are handed out."""
        ids = []
        while claims := self.claim():
            ids += [claim.task.id for claim in claims]
        return ids

    def test_nothing_comes_from_an_empty_store(self) -> None:
        """No error, just nothing."""
        assert self.claim() == []

    def test_a_claimed_task_is_its_workers(self) -> None:
        """It says so, and nobody else gets it."""
        self.put(self.task(1))
        claim = self.take()
        assert (claim.task.id, claim.worker, claim.attempt, claim.lease) == (self.id(1), "snake", 1, LEASE)
        assert self.state(self.id(1)) is State.CLAIMED
        assert self.card(self.id(1)).worker == claim.fence
        assert self.claim("other") == []
        assert self.claim("other", ids=(self.id(1),)) == []

    def test_higher_priority_first(self) -> None:
        """Whatever the age."""
        self.put(self.task(1, priority=-1), self.task(2), self.task(3, priority=5), self.task(4, priority=10))
        assert self.order() == [self.id(4), self.id(3), self.id(2), self.id(1)]

    def test_then_the_oldest(self) -> None:
        """Age is when it was asked for, not when it came in."""
        self.put(self.task(1, created=3000.0), self.task(2, created=1000.0), self.task(3, created=2000.0))
        assert self.order() == [self.id(2), self.id(3), self.id(1)]

    def test_then_the_lowest_number(self) -> None:
        """Of the same age; numbers are not compared as text."""
        self.put(*(self.task(number) for number in (12, 2, 100000, 1)))
        assert self.order() == [self.id(1), self.id(2), self.id(12), self.id(100000)]

    def test_order_holds_for_tasks_that_come_later(self) -> None:
        """What comes in between is taken in its turn."""
        self.put(self.task(1), self.task(2), self.task(3))
        assert self.take().task.id == self.id(1)
        self.put(self.task(4, priority=1))
        assert self.order() == [self.id(4), self.id(2), self.id(3)]

    def test_several_at_once(self) -> None:
        """The best of them, in order, and no more than there are."""
        self.put(*(self.task(number) for number in range(1, 6)))
        assert [claim.task.id for claim in self.claim(count=3)] == [self.id(1), self.id(2), self.id(3)]
        assert [claim.task.id for claim in self.claim(count=3)] == [self.id(4), self.id(5)]

    def test_only_those_with_one_of_the_tags(self) -> None:
        """Others stay where they are."""
        self.put(self.task(1), self.task(2, tags=("docs",)), self.task(3, tags=("web", "docs")), self.task(4))
        assert self.take(tags=("web", "python")).task.id == self.id(3)
        assert self.claim(tags=("python",)) == []
        assert self.take(tags=("docs",)).task.id == self.id(2)
        assert self.store.counts()[State.READY] == 2

    def test_by_id_in_the_order_asked_for(self) -> None:
        """Unknown ids are passed over."""
        self.put(self.task(1), self.task(2), self.task(3))
        claims = self.claim(ids=(self.id(3), self.id(9999), self.id(1)), count=3)
        assert [claim.task.id for claim in claims] == [self.id(3), self.id(1)]

    def test_not_before_its_time(self) -> None:
        """Then at once."""
        self.put(self.task(1, not_before=float(int(self.clock.now()) + 100)))
        assert self.claim() == []
        assert "not before" in self.card(self.id(1)).held
        self.clock.advance(101)
        assert self.card(self.id(1)).held == ""
        assert self.take().task.id == self.id(1)

    def test_not_while_a_person_must_look(self) -> None:
        """The reason is on the card."""
        self.put(self.task(1, hold="ask Ann first"))
        assert self.claim() == []
        assert self.claim(ids=(self.id(1),)) == []
        assert self.card(self.id(1)).held == "ask Ann first"

    def test_held_or_not_a_persons_change_takes_it(self) -> None:
        """That is how a hold is lifted."""
        self.put(self.task(1, hold="ask Ann first"))
        claim = self.take(ids=(self.id(1),), even_held=True)
        assert self.finish(End(claim=claim, task=claim.task.replace(hold=""), action="unblocked")) is Said.OK
        assert self.take().task.id == self.id(1)

    def test_a_held_task_holds_up_nobody(self) -> None:
        """Even at the head."""
        self.put(self.task(1, hold="no", priority=9), self.task(2, needs=(self.id(1),), priority=8), self.task(3))
        assert self.order() == [self.id(3)]

    def test_a_need_must_be_done_first(self) -> None:
        """Being claimed is not enough; being done is."""
        self.put(self.task(1), self.task(2, needs=(self.id(1),), priority=5))
        assert self.card(self.id(2)).held == f"needs {self.id(1)}, which is not done yet"
        claim = self.take()
        assert claim.task.id == self.id(1)
        assert self.claim() == []
        assert self.card(self.id(2)).held == f"needs {self.id(1)}, which is running"
        self.finish(self.done(claim))
        assert self.card(self.id(2)).held == ""
        assert self.take().task.id == self.id(2)

    def test_a_need_that_failed_holds(self) -> None:
        """Until a person decides."""
        self.broken(1)
        self.put(self.task(2, needs=(self.id(1),)))
        assert self.claim() == []
        assert self.card(self.id(2)).held == f"needs {self.id(1)}, which failed or was cancelled"

    def test_a_need_that_nobody_put_holds(self) -> None:
        """Until it is put and done."""
        self.put(self.task(2, needs=(self.id(1),)))
        assert self.claim() == []
        assert self.card(self.id(2)).held == f"needs {self.id(1)}, which does not exist"
        self.finished(1)
        assert self.take().task.id == self.id(2)

    def test_every_need_counts(self) -> None:
        """Not only the first."""
        self.finished(1)
        self.put(self.task(2), self.task(3, needs=(self.id(1), self.id(2)), priority=1))
        assert self.claim(ids=(self.id(3),)) == []
        self.finish(self.done(self.take()))
        assert self.take().task.id == self.id(3)

    def test_tasks_that_need_each_other_say_so(self) -> None:
        """Nobody gets them, and the card tells why."""
        self.put(self.task(1, needs=(self.id(2),)), self.task(2, needs=(self.id(1),)))
        assert self.claim() == []
        assert "circle" in self.card(self.id(1)).held

    def test_tasks_that_change_the_same_are_kept_apart(self) -> None:
        """One after the other; what is in nobody's way goes on."""
        self.put(
            self.task(1, touches=("src/app/*",)),
            self.task(2, touches=("src/app/main.py",)),
            self.task(3, touches=("docs/*",)),
        )
        first = self.take()
        assert self.take().task.id == self.id(3)
        assert self.claim() == []
        assert self.id(1) in self.card(self.id(2)).held
        self.finish(self.done(first))
        assert self.take().task.id == self.id(2)

    def test_nothing_comes_from_a_paused_store(self) -> None:
        """Who works goes on, and a person may still change things."""
        self.put(self.task(1), self.task(2))
        claim = self.take()
        self.store.pause("lunch", 0, "ann")
        assert "lunch" in self.store.paused()
        assert self.claim() == []
        assert self.claim(ids=(self.id(2),)) == []
        assert self.store.renew([claim], LEASE) == [Said.OK]
        assert self.finish(self.done(claim)) is Said.OK
        assert self.finish(End(claim=self.take(ids=(self.id(2),), even_held=True))) is Said.OK
        assert self.store.resume("ann")
        assert not self.store.resume("ann")
        assert self.store.paused() == ""
        assert self.take().task.id == self.id(2)

    def test_a_pause_ends_by_itself(self) -> None:
        """After its time."""
        self.put(self.task(1))
        self.store.pause("quota", 60, "ann")
        assert self.claim() == []
        self.clock.advance(61)
        assert self.store.paused() == ""
        assert self.take().task.id == self.id(1)

    def test_every_claim_has_a_fence_of_its_own(self) -> None:
        """Also the second one of the same worker on the same task."""
        self.put(self.task(1))
        first = self.take()
        self.finish(End(claim=first))
        assert self.take().fence != first.fence

    def test_a_verbatim_name_is_the_fence(self) -> None:
        """Processes that share it are one worker by declaration."""
        self.put(self.task(1))
        claim = self.take("ann", verbatim=True)
        assert claim.fence == "ann"
        assert self.card(self.id(1)).worker == "ann"
