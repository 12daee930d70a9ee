"""How a claim ends: all of it or nothing, and one result for ever."""

from __future__ import annotations

from taskpit.model import End, Said, State, Verdict
from taskpit.testing.chapters.steps import LEASE, Steps


class Finishing(Steps):
    """How a claim ends: all of it or nothing, and one result for ever."""

    def test_done(self) -> None:
        """The result stands."""
        self.put(self.task(1))
        claim = self.take()
        assert self.finish(self.done(claim, "all green\n")) is Said.OK
        card = self.card(self.id(1))
        assert card.state is State.DONE
        assert card.result is not None
        assert (card.result.verdict, card.result.output) == (Verdict.DONE, "all green\n")
        assert card.result.worker == claim.fence
        assert card.task.title == "task 1"

    def test_done_with_another_text(self) -> None:
        """What an end says of the task stays with the result."""
        self.put(self.task(1, hold="look first", priority=3))
        claim = self.take(ids=(self.id(1),), even_held=True)
        end = self.done(claim, task=claim.task.replace(hold="", priority=5))
        assert self.finish(end) is Said.OK
        assert self.finish(end) is Said.ALREADY
        card = self.card(self.id(1))
        assert (card.state, card.task.hold, card.task.priority) == (State.DONE, "", 5)
        assert self.claim() == []

    def test_failed(self) -> None:
        """With its reason."""
        self.broken(1)
        card = self.card(self.id(1))
        assert card.state is State.FAILED
        assert card.result is not None
        assert card.result.reason == "it broke"

    def test_cancelled_counts_as_failed(self) -> None:
        """For tasks that need it."""
        self.put(self.task(1))
        claim = self.take()
        assert self.finish(End(claim=claim, result=self.result(claim, Verdict.CANCELLED))) is Said.OK
        assert self.state(self.id(1)) is State.FAILED

    def test_finishing_again_changes_nothing(self) -> None:
        """The same end by the same claim has happened already."""
        self.put(self.task(1))
        end = self.done(self.take())
        assert self.finish(end) is Said.OK
        assert self.finish(end) is Said.ALREADY
        assert self.card(self.id(1)).late == ()

    def test_a_second_verdict_is_late(self) -> None:
        """The first one stands."""
        self.put(self.task(1))
        claim = self.take()
        self.finish(self.done(claim))
        assert self.finish(self.failed(claim)) is Said.LOST
        assert self.state(self.id(1)) is State.DONE

    def test_each_end_of_a_batch_is_answered(self) -> None:
        """One lost claim spoils no other."""
        self.put(self.task(1), self.task(2), self.task(3))
        one, two, three = self.claim(count=3)
        self.finish(End(claim=two))
        ends = [self.done(one), self.done(two), self.done(three)]
        assert self.store.finish(ends) == [Said.OK, Said.LOST, Said.OK]

    def test_released_it_is_as_it_was(self) -> None:
        """No attempt spent."""
        task = self.task(1, body="as it was", priority=2)
        self.put(task)
        assert self.finish(End(claim=self.take(), action="released_task")) is Said.OK
        card = self.card(self.id(1))
        assert (card.state, card.tries) == (State.READY, ())
        assert card.task.wish() == self.kept(task).wish()
        assert self.take().attempt == 1

    def test_retried_it_waits_and_counts(self) -> None:
        """Its delay is by the store's clock; its attempt is kept."""
        self.put(self.task(1))
        claim = self.take()
        spent = claim.task.replace(attempts=1, max_attempts=3)
        end = End(claim=claim, task=spent, delay=30, attempt=self.attempt(claim), action="retried_task")
        assert self.finish(end) is Said.OK
        assert self.claim() == []
        assert [one.error for one in self.card(self.id(1)).tries] == ["it broke"]
        self.clock.advance(31)
        claim = self.take()
        assert (claim.attempt, claim.task.attempts, claim.task.max_attempts) == (2, 1, 3)

    def test_saying_a_retry_again_counts_once(self) -> None:
        """Also after another worker has claimed it."""
        self.put(self.task(1))
        claim = self.take()
        end = End(claim=claim, task=claim.task.replace(attempts=1), attempt=self.attempt(claim))
        assert self.finish(end) is Said.OK
        assert self.finish(end) in (Said.ALREADY, Said.LOST)
        self.take("other")
        assert self.finish(end) in (Said.ALREADY, Said.LOST)
        card = self.card(self.id(1))
        assert (card.state, len(card.tries), card.late) == (State.CLAIMED, 1, ())

    def test_tries_are_kept_in_order(self) -> None:
        """And stay when it is done at last."""
        self.put(self.task(1))
        for error in ("first", "second", "third"):
            claim = self.take()
            assert self.finish(End(claim=claim, attempt=self.attempt(claim, error))) is Said.OK
            self.clock.advance(1)
        self.finish(self.done(self.take()))
        assert [one.error for one in self.card(self.id(1)).tries] == ["first", "second", "third"]

    def test_late_results_are_kept_aside(self) -> None:
        """The other's result stands."""
        self.put(self.task(1))
        slow = self.take("slow")
        self.clock.advance(LEASE + 1)
        for lapse in self.store.lapsed():
            self.give_back(lapse)
        fast = self.take("fast")
        assert self.finish(self.done(slow, "mine, too early")) is Said.LOST
        assert self.store.renew([fast], LEASE) == [Said.OK]
        assert self.finish(self.done(fast, "the one")) is Said.OK
        assert self.finish(self.done(slow, "mine, too late")) is Said.LOST
        card = self.card(self.id(1))
        assert card.result is not None
        assert card.result.output == "the one"
        assert len(card.late) == 2
        assert self.actions(self.id(1)).count("late_result") == 2

    def test_children_come_with_the_end(self) -> None:
        """Ready at once."""
        self.put(self.task(1))
        children = (self.task(2, parent=self.id(1)), self.task(3, parent=self.id(1), needs=(self.id(2),)))
        assert self.finish(self.done(self.take(), children=children)) is Said.OK
        assert self.state(self.id(1)) is State.DONE
        assert self.card(self.id(2)).task.parent == self.id(1)
        assert self.take().task.id == self.id(2)
        assert self.card(self.id(3)).held == f"needs {self.id(2)}, which is running"
        told = [event for event in self.store.latest(100)[0] if event.did == "added_task"]
        assert [event.details for event in told if event.about != self.id(1)] == [f"split from {self.id(1)}"] * 2

    def test_children_come_once(self) -> None:
        """However often it is said."""
        self.put(self.task(1))
        end = self.done(self.take(), children=(self.task(2), self.task(3)))
        assert self.finish(end) is Said.OK
        self.finish(self.done(self.take(ids=(self.id(2),))))
        assert self.finish(end) is Said.ALREADY
        assert self.state(self.id(2)) is State.DONE
        assert self.store.counts() == {State.READY: 1, State.CLAIMED: 0, State.DONE: 2, State.FAILED: 0}

    def test_no_children_of_a_lost_claim(self) -> None:
        """Nothing of it, or all."""
        self.put(self.task(1))
        claim = self.take()
        self.finish(End(claim=claim))
        assert self.finish(self.done(claim, children=(self.task(2),))) is Said.LOST
        assert self.store.read([self.id(2)]) == [None]

    def test_a_parent_may_wait_for_its_children(self) -> None:
        """And come back when they are done."""
        self.put(self.task(1))
        claim = self.take()
        waiting = claim.task.replace(needs=(self.id(2),))
        assert self.finish(End(claim=claim, task=waiting, children=(self.task(2),), action="split_task")) is Said.OK
        child = self.take()
        assert child.task.id == self.id(2)
        assert self.claim() == []
        self.finish(self.done(child))
        assert self.take().task.id == self.id(1)

    def test_reopened_it_starts_anew(self) -> None:
        """Its old result is kept aside; its id stays its own."""
        task = self.broken(1)
        fresh = self.card(self.id(1)).task.replace(priority=4)
        assert self.store.reopen([fresh]) == [Said.OK]
        card = self.card(self.id(1))
        assert (card.state, card.result, card.task.priority) == (State.READY, None, 4)
        assert len(card.late) == 1
        assert self.store.put([task]) == [Said.EXISTS]
        assert self.finish(self.done(self.take())) is Said.OK
        assert self.state(self.id(1)) is State.DONE

    def test_reopened_it_may_fail_again(self) -> None:
        """And be reopened again."""
        self.broken(1)
        for _ in range(2):
            assert self.store.reopen([self.card(self.id(1)).task]) == [Said.OK]
            assert self.finish(self.failed(self.take(), "again")) is Said.OK
            assert self.state(self.id(1)) is State.FAILED
        assert len(self.card(self.id(1)).late) == 2

    def test_only_what_has_failed_is_reopened(self) -> None:
        """Not what is done, ready, claimed or unknown."""
        self.finished(1)
        self.put(self.task(2), self.task(3))
        self.take(ids=(self.id(3),))
        tasks = [self.task(number) for number in (1, 2, 3, 4)]
        assert self.store.reopen(tasks) == [Said.LOST] * 4
        assert [self.state(self.id(number)) for number in (1, 2, 3)] == [State.DONE, State.READY, State.CLAIMED]
