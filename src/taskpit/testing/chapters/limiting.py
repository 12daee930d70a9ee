"""What is scarce: so many at once, so many a minute."""

from __future__ import annotations

from taskpit.model import End, Said
from taskpit.testing.chapters.steps import LEASE, Steps


class Limiting(Steps):
    """Tasks that say what they use are not given out beyond it, to any worker."""

    def test_one_at_once(self) -> None:
        """The next waits for the first to end, and its card says for which; what uses nothing goes on."""
        self.put(self.task(1, limits=("staging=1",)), self.task(2, limits=("staging=1",)), self.task(3))
        first = self.take()
        assert first.task.id == self.id(1)
        assert self.take().task.id == self.id(3)
        assert self.claim() == []
        assert self.claim(ids=(self.id(2),)) == []
        held = f"limit staging=1, held by {self.id(1)}"
        assert self.card(self.id(2)).held == held
        assert held in {card.held for card in self.store.page().cards}
        self.finish(self.done(first))
        assert self.take().task.id == self.id(2)

    def test_as_many_as_it_says_in_one_go(self) -> None:
        """Also when one worker asks for more, and none is left out although they are many."""
        self.put(*(self.task(n, limits=("model:opus=3",)) for n in range(1, 9)))
        first = self.claim(count=8)
        assert [claim.task.id for claim in first] == [self.id(n) for n in (1, 2, 3)]
        assert self.claim(count=8) == []
        for claim in first[:2]:
            self.finish(self.done(claim))
        assert [claim.task.id for claim in self.claim(count=8)] == [self.id(4), self.id(5)]

    def test_a_key_alone_is_one_at_once(self) -> None:
        """Where the queue says nothing of it."""
        self.put(self.task(1, limits=("printer",)), self.task(2, limits=("printer",)))
        self.take()
        assert self.claim() == []

    def test_each_keeps_to_its_own_number(self) -> None:
        """One that may run beside two others, and one that may run beside none."""
        self.put(
            self.task(1, limits=("db=2",)),
            self.task(2, limits=("db=1",), priority=-1),
            self.task(3, limits=("db=2",), priority=-2),
        )
        first = self.take()
        second = self.take()
        assert (first.task.id, second.task.id) == (self.id(1), self.id(3))
        self.finish(self.done(first))
        assert self.claim() == []
        self.finish(self.done(second))
        assert self.take().task.id == self.id(2)

    def test_every_key_counts(self) -> None:
        """A task that uses two things waits for both."""
        self.put(
            self.task(1, limits=("a=1",)),
            self.task(2, limits=("b=1",)),
            self.task(3, limits=("a=1", "b=1")),
        )
        both = self.claim(count=3)
        assert len(both) == 2
        self.finish(self.done(both[0]))
        assert self.claim() == []
        self.finish(self.done(both[1]))
        assert self.take().task.id == self.id(3)

    def test_what_is_given_back_is_free(self) -> None:
        """Released, or lost with its worker."""
        self.put(self.task(1, limits=("staging=1",)), self.task(2, limits=("staging=1",)))
        assert self.finish(End(claim=self.take(ids=(self.id(1),)))) is Said.OK
        self.take(ids=(self.id(2),))
        assert self.claim() == []
        self.clock.advance(LEASE * 2)
        for lapse in self.store.lapsed():
            self.finish(End(claim=lapse.claim))
        assert self.take().task.id == self.id(1)

    def test_so_many_a_minute(self) -> None:
        """Whether they have ended or not; a minute after the first there is room again."""
        self.put(*(self.task(n, limits=("api=2/min",)) for n in range(1, 5)))
        self.finish(self.done(self.take()))
        self.clock.advance(20)
        self.finish(self.done(self.take()))
        assert self.claim() == []
        assert "limit api=2/min" in self.card(self.id(3)).held
        self.clock.advance(39)
        assert self.claim() == []
        self.clock.advance(2)
        assert self.take().task.id == self.id(3)
        assert self.claim() == []
        self.clock.advance(20)
        assert self.take().task.id == self.id(4)

    def test_a_person_changes_what_waits_for_a_limit(self) -> None:
        """A change is no work: it waits for nothing."""
        self.put(self.task(1, limits=("staging=1",)), self.task(2, limits=("staging=1",)))
        first = self.take()
        change = self.take(ids=(self.id(2),), even_held=True)
        assert self.finish(End(claim=change, task=change.task.replace(limits=()))) is Said.OK
        assert self.take().task.id == self.id(2)
        assert self.finish(self.done(first)) is Said.OK

    def test_limits_are_kept_with_the_task(self) -> None:
        """As they were asked for."""
        self.put(self.task(1, limits=("staging=1", "api=10/min", "printer")))
        assert self.card(self.id(1)).task.limits == ("staging=1", "api=10/min", "printer")
        assert self.take().task.limits == ("staging=1", "api=10/min", "printer")
