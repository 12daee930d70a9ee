"""Tasks go in once, and their ids are theirs for ever."""

from __future__ import annotations

from taskpit.errors import Invalid, TooLarge
from taskpit.model import End, Said, State, Task
from taskpit.testing.chapters.steps import Steps

#: Tasks larger than this are not built just to see them refused.
LARGEST_TRIED = 8 << 20


class Putting(Steps):
    """Tasks go in once, and their ids are theirs for ever."""

    def test_what_is_put_can_be_read(self) -> None:
        """Every field comes back."""
        task = self.task(1, body="a long\n\nstory", priority=3, check="make test", tags=("a", "b"), touches=("src/*",))
        self.put(task)
        card = self.card(self.id(1))
        assert card.state is State.READY
        assert card.held == ""
        assert card.task.wish() == self.kept(task).wish()

    def test_the_same_wish_again_exists(self) -> None:
        """Who asks and when makes no difference."""
        self.put(self.task(1))
        assert self.store.put([self.task(1, by="somebody else", created=12345.0)]) == [Said.EXISTS]
        assert self.store.counts()[State.READY] == 1

    def test_another_wish_under_the_same_id_conflicts(self) -> None:
        """And changes nothing."""
        self.put(self.task(1))
        assert self.store.put([self.task(1, title="other")]) == [Said.CONFLICT]
        assert self.card(self.id(1)).task.title == "task 1"

    def test_each_of_a_batch_is_answered(self) -> None:
        """In the order given."""
        self.put(self.task(1))
        batch = [self.task(1), self.task(2), self.task(1, title="other"), self.task(2)]
        assert self.store.put(batch) == [Said.EXISTS, Said.CREATED, Said.CONFLICT, Said.EXISTS]

    def test_an_id_is_known_while_its_task_is_claimed(self) -> None:
        """Same wish: exists; other: conflict."""
        self.put(self.task(1))
        self.take()
        assert self.store.put([self.task(1), self.task(1, title="other")]) == [Said.EXISTS, Said.CONFLICT]
        assert self.claim() == []

    def test_an_id_is_known_when_its_task_is_done(self) -> None:
        """For ever."""
        self.finished(1)
        assert self.store.put([self.task(1), self.task(1, title="other")]) == [Said.EXISTS, Said.CONFLICT]
        assert self.claim() == []

    def test_an_id_is_known_when_its_task_has_failed(self) -> None:
        """For ever."""
        self.broken(1)
        assert self.store.put([self.task(1), self.task(1, title="other")]) == [Said.EXISTS, Said.CONFLICT]
        assert self.claim() == []

    def test_an_id_is_known_after_its_task_went_back_changed(self) -> None:
        """What counts is what was asked for first."""
        self.put(self.task(1))
        claim = self.take()
        self.finish(End(claim=claim, task=claim.task.replace(attempts=1, priority=7)))
        assert self.store.put([self.task(1), self.task(1, title="other")]) == [Said.EXISTS, Said.CONFLICT]

    def test_allotted_ids_are_nobodys(self) -> None:
        """Also among those that people chose themselves."""
        self.put(self.task(1), self.task(2))
        ids = self.store.allot(["", "", ""])
        assert len(set(ids)) == 3
        assert self.store.read(ids) == [None, None, None]
        assert self.store.allot([]) == []
        self.put(*(Task(id=task_id, title="allotted") for task_id in ids))
        assert not set(ids) & set(self.store.allot(["", "", ""]))

    def test_a_need_that_can_be_no_id_is_refused(self) -> None:
        """Looking for it might lead anywhere."""
        for need in ("../up", "a/b", ".hidden"):
            try:
                self.store.vet([self.task(1, needs=(need,))])
            except Invalid:
                continue
            raise AssertionError(f"{need} was not refused")

    def test_what_is_too_large_is_refused(self) -> None:
        """And leaves nothing behind."""
        largest = self.store.info().largest_task
        if largest > LARGEST_TRIED:
            return
        try:
            self.store.put([self.task(1, body="x" * (largest + 1))])
        except TooLarge:
            pass
        else:
            raise AssertionError("it was not refused")
        assert self.store.read([self.id(1)]) == [None]
