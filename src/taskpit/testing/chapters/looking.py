"""What is seen of a store from outside."""

from __future__ import annotations

from taskpit.errors import CursorLost, Invalid
from taskpit.model import End, Event, Page, State
from taskpit.testing.chapters.steps import Steps

#: Cursors that no store ever gave to anybody.
FORGED = (
    *(
        "x",
        "-1",
        "[]",
        "[0]",
        "null",
        "[9, []]",
        "[-1, []]",
        '[0, ["a", 1, 2, 3, 4]]',
        '[0, [0, 0, 0, "", 5]]',
        "[1, [1, 2]]",
    ),
    *('{"a": 5}', "[" * 5000, "9" * 5000, ":::", f"0:{'9' * 5000}:", "\x1b", "///", "1/2/3/4/5/6", "1e400", "r0", "²"),
)


class Looking(Steps):
    """What is seen from outside."""

    def test_what_is_not_there_is_none(self) -> None:
        """In its place in the list."""
        self.put(self.task(1))
        cards = self.store.read([self.id(9999), self.id(1)])
        assert cards[0] is None
        assert cards[1] is not None

    def test_what_an_id_may_mean(self) -> None:
        """Itself, its number, or a beginning."""
        self.put(self.task(1), self.task(120), self.task(121))
        assert self.store.resolve(self.id(1)) == [self.id(1)]
        assert self.store.resolve(self.id(120)[:-1]) == [self.id(120), self.id(121)]
        if self.numbers_are_ids:
            assert self.store.resolve("120") == [self.id(120)]
            assert self.store.resolve("1") == [self.id(1)]
        assert self.store.resolve("nothing") == []
        assert self.store.resolve("") == []  # else an unset variable would be the only task

    def test_what_an_id_may_mean_once_it_is_done(self) -> None:
        """Ids are for ever."""
        self.finished(7)
        assert self.store.resolve(self.id(7)) == [self.id(7)]
        assert self.store.resolve(self.id(7)[:-1]) == [self.id(7)]

    def test_counts(self) -> None:
        """Each task once."""
        self.finished(1)
        self.broken(2)
        self.put(self.task(3), self.task(4), self.task(5, hold="no"))
        self.take(ids=(self.id(4),))
        assert self.store.counts() == {State.READY: 2, State.CLAIMED: 1, State.DONE: 1, State.FAILED: 1}

    def test_pages_show_everything_once(self) -> None:
        """Whatever their size; the last one has no cursor."""
        self.finished(1)
        self.broken(2)
        self.put(*(self.task(number) for number in range(3, 9)))
        self.take(ids=(self.id(5),))
        for limit in (1, 2, 3, 7, 8, 100):
            assert self._pages(None, limit) == [
                self.id(3),
                self.id(4),
                self.id(6),
                self.id(7),
                self.id(8),
                self.id(5),
                self.id(2),
                self.id(1),
            ]

    def test_a_page_of_one_state(self) -> None:
        """Ready ones in the order they will be taken."""
        self.finished(1)
        self.put(self.task(2), self.task(3, priority=5), self.task(4, hold="no"))
        assert self._pages(State.READY, 2) == [self.id(3), self.id(2), self.id(4)]
        assert self._pages(State.DONE, 1) == [self.id(1)]
        assert self._pages(State.FAILED, 1) == []

    def _pages(self, state: State | None, limit: int) -> list[str]:
        ids: list[str] = []
        cursor = ""
        for _ in range(20):
            page = self.store.page(state, cursor, limit)
            assert len(page.cards) <= limit
            ids += [card.task.id for card in page.cards]
            cursor = page.cursor
            if not cursor:
                return ids
        raise AssertionError("the pages do not end")

    def test_notes_stand_beside_the_task(self) -> None:
        """Whatever its state, in the order they came."""
        self.put(self.task(1))
        self.store.note(self.id(1), "look at the log", "ann")
        self.finish(self.done(self.take()))
        self.store.note(self.id(1), "well done", "bob")
        notes = self.card(self.id(1)).notes
        assert notes.index("ann: look at the log") < notes.index("bob: well done")

    def test_the_changelog_tells_what_happened(self) -> None:
        """In order."""
        self.put(self.task(1))
        claim = self.take()
        self.finish(End(claim=claim, attempt=self.attempt(claim), action="retried_task", details="it broke"))
        self.finish(self.done(self.take(), action="completed_task"))
        actions = ["added_task", "claimed_task", "retried_task", "claimed_task", "completed_task"]
        assert self.actions(self.id(1)) == actions

    def test_a_cursor_skips_nothing_and_repeats_nothing(self) -> None:
        """Whatever the size of the steps, also while more is told."""
        self.put(*(self.task(number) for number in range(1, 6)))
        everything = self.store.events()[0]
        for limit in (1, 2, 3, 100):
            assert self._follow(limit) == everything
        _, cursor = self.store.events()
        assert self.store.events(cursor) == ([], cursor)
        self.put(self.task(6))
        assert [event.about for event in self.store.events(cursor)[0]] == [self.id(6)]

    def test_the_latest_are_the_last(self) -> None:
        """With the cursor after them, whatever was asked for."""
        assert self.store.latest(3)[0] == []
        self.put(*(self.task(number) for number in range(1, 6)))
        everything = self.store.events()[0]
        for limit in (0, 1, 3, 100):
            events, cursor = self.store.latest(limit)
            assert events == everything[len(everything) - min(limit, len(everything)) :]
            assert self.store.events(cursor)[0] == []
        self.put(self.task(6))
        assert [event.about for event in self.store.events(cursor)[0]] == [self.id(6)]

    def _follow(self, limit: int) -> list[Event]:
        found: list[Event] = []
        cursor = ""
        while True:
            events, cursor = self.store.events(cursor, limit)
            if not events:
                return found
            assert len(events) <= limit
            found += events

    def test_a_cursor_from_elsewhere_is_refused(self) -> None:
        """Instead of skipping silently."""
        self.put(*(self.task(number) for number in range(1, 4)))
        _, cursor = self.store.events()
        other = self.make_store(self.clock)
        try:
            other.events(cursor)
        except CursorLost:
            pass
        else:
            raise AssertionError("it was not refused")
        finally:
            other.close()

    def test_a_cursor_that_nobody_gave_out_is_refused(self) -> None:
        """It may come over a network, from anybody: no surprise, and no search in its name."""
        self.put(*(self.task(number) for number in range(1, 4)))
        for cursor in FORGED:
            for ask, refusal in ((self._page_after, Invalid), (self.store.events, CursorLost)):
                try:
                    ask(cursor)
                except refusal:
                    continue
                raise AssertionError(f"{cursor[:40]!r} was not refused")

    def _page_after(self, cursor: str) -> Page:
        return self.store.page(after=cursor)

    def test_others_may_tell_something(self) -> None:
        """Lines come back as they were recorded."""
        event = Event(
            timestamp="2026-01-24T10:00:00Z", worker="ann", worker_type="human", action="looked", details='"ü"\n'
        )
        self.store.record([event])
        assert self.store.events()[0] == [event]

    def test_what_it_is(self) -> None:
        """And what it promises."""
        info = self.store.info()
        assert info.kind
        assert info.durability in ("power", "process", "none")
        assert info.largest_task > 0
        assert info.wake_bound >= 0

    def test_nothing_is_out_of_order(self) -> None:
        """After a little of everything."""
        self.finished(1)
        self.broken(2)
        self.put(self.task(3), self.task(4, needs=(self.id(3),)))
        self.take()
        assert self.store.check() == []
        assert self.store.mend() == []
        assert self.store.compost() == []

    def test_waiting_ends(self) -> None:
        """With or without news."""
        assert self.store.wait(0.0) in (True, False)
