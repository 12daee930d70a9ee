"""Races: one result for each task, whoever else is done, fails or dies at that moment; the others end."""

import random

import pytest
from rotation import part

from taskpit import keeper
from taskpit.config import Config
from taskpit.errors import Invalid
from taskpit.model import Done, End, Failed, Said, State, Task, Verdict
from taskpit.policy import RACING, settle
from taskpit.queue import Queue, cards
from taskpit.race import entrants
from taskpit.status import Status, status_of
from taskpit.store.memory import MemoryStore
from taskpit.testing.clock import FakeClock


@pytest.fixture
def queue():
    clock = FakeClock()
    return Queue(MemoryStore(clock=clock), Config(backoff=0.001, backoff_longest=0.002), clock)


def race(queue, race=3, **fields):
    return queue.put([Task(id="", title="t", extra={"race": race}, **fields)])[0][0]


def states(queue, task):
    return [str(card.state) for card in cards(queue.store) if card.task.extra.get("race-of") == task]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (3, [{}, {}, {}]),
        ("2", [{}, {}]),
        ("claude, codex", [{"agent": "claude"}, {"agent": "codex"}]),
        ("claude:opus :fast", [{"agent": "claude", "model": "opus"}, {"model": "fast"}]),
        (["claude", "codex"], [{"agent": "claude"}, {"agent": "codex"}]),
    ],
)
def test_racers_are_a_number_or_names(said, wanted):
    assert entrants(Task(id="1", title="t", extra={"race": said})) == wanted


@pytest.mark.parametrize("said", [1, 0, -2, 11, "9" * 5000, "claude", "", "a;b c", None, {"a": 1}, 2.5])
def test_what_names_no_racers_is_refused_and_changes_nothing(queue, said):
    with pytest.raises(Invalid, match="race"):
        race(queue, said)
    assert not list(cards(queue.store))


def test_a_race_that_was_written_by_hand_and_means_nothing_waits_for_a_person(queue):
    queue.store.put([Task(id="x", title="t", extra={"race": "one"})])
    assert queue.claim("w") == []
    card = queue.card("x")
    assert "'one'" in card.held
    assert status_of(card) is Status.NEEDS_YOU


def test_the_first_that_is_done_wins_and_the_others_end(queue):
    task = race(queue, "claude, codex, gemini")
    one, two = queue.claim("w", count=2)
    parent = queue.card(task)
    assert parent.task.hold.startswith(RACING)
    assert status_of(parent) is Status.WAITING
    assert (one.task.extra["agent"], two.task.extra["agent"]) == ("claude", "codex")
    assert queue.renew(one) is Said.OK
    said, _ = queue.finish(two, Done(output="two's", cost={"usd": 2.0, "agent": "codex"}))
    assert said is Said.OK
    card = queue.card(task)
    assert card.state is State.DONE
    assert card.result.output == "two's"
    assert card.result.reason == f"{two.task.id} won"
    assert card.result.cost == {"usd": 2.0, "agent": "codex"}
    assert states(queue, task) == ["claimed", "failed", "done"]  # the third never began
    assert queue.renew(one) is Said.CANCEL
    _, end = queue.finish(one, Done(output="one's"))  # it was done just then
    assert (end.result.verdict, end.result.output) == (Verdict.CANCELLED, "one's")
    assert queue.card(task).result.output == "two's"


def test_racers_that_failed_are_part_of_the_cost_and_all_failed_is_failed(queue):
    task = race(queue, 2, max_attempts=1)
    one, two = queue.claim("w", count=2)
    queue.finish(one, Failed(error="no way", cost={"usd": 1.0}))
    assert queue.card(task).state is State.READY
    queue.finish(two, Done(cost={"usd": 2.0, "agent": "codex"}))
    assert queue.card(task).result.cost == {"usd": 3.0, "agent": "codex"}
    other = race(queue, 2, max_attempts=1)
    for claim in queue.claim("w", count=2):
        queue.finish(claim, Failed(error=f"{claim.worker} cannot"))
    card = queue.card(other)
    assert card.state is State.FAILED
    assert card.result.reason.count("w cannot") == 2
    queue.retry(other, "a@b")  # a new race: names are not used twice
    assert [claim.task.id for claim in queue.claim("w", count=2)] == [f"{other}.r3", f"{other}.r4"]


def test_a_task_that_is_cancelled_stops_its_racers(queue):
    task = race(queue)
    claim = queue.claim("w")[0]
    assert queue.cancel(task, "a@b", "no longer wanted")
    assert states(queue, task) == ["claimed", "failed", "failed"]
    assert queue.renew(claim) is Said.CANCEL


def test_unblocking_the_task_begins_no_second_race(queue):
    task = race(queue)
    queue.claim("w")
    queue.unblock(task, "a@b")
    queue.claim("w", count=9)
    assert len(states(queue, task)) == 3
    assert queue.card(task).task.hold.startswith(RACING)


def test_a_task_that_only_says_it_races_seals_nothing(queue):
    task = race(queue, check="false")
    queue.claim("w")
    queue.put([Task(id=f"{task}.r9", title="mine", priority=9, extra={"race-of": task})])
    claim = queue.claim("w", ids=[f"{task}.r9"])[0]
    assert queue.finish(claim, Done(output="cheat"))[0] is Said.OK
    assert queue.card(task).state is State.READY


class Died(BaseException):
    """The worker's process is gone."""


class Mortal(MemoryStore):
    """A store whose caller may die at each change that matters, before or after it."""

    dice = None

    def _maybe(self):
        if self.dice is not None and self.dice.random() < 0.08:
            raise Died

    def finish(self, ends):
        self._maybe()
        said = super().finish(ends)
        self._maybe()
        return said

    def claim(self, want):
        claims = super().claim(want)
        self._maybe()
        return claims


@pytest.mark.parametrize("seed", part(range(6), 3))
def test_a_hundred_races_with_deaths_have_one_result_each(seed):
    clock, dice = FakeClock(), random.Random(seed)
    store = Mortal(clock=clock)
    queue = Queue(store, Config(losses=1000, choke=1000, max_attempts=2, lease=60.0, backoff=0.001), clock)
    tasks = [race(queue, 3) for _ in range(100)]
    sealed = {}
    deaths = 0
    store.dice = dice
    held = []
    for _ in range(20000):
        try:
            if len(held) < 8:
                held += queue.claim(f"w{dice.randrange(4)}")
            if not held:
                break
            claim = held.pop(dice.randrange(len(held)))
            if dice.random() < 0.1:
                continue  # killed in the middle of its work: its claim lapses
            if queue.renew(claim) is Said.CANCEL:
                queue.finish(claim, Failed(error="cancelled", cancelled=True))
            else:
                queue.finish(claim, Done(output=claim.fence) if dice.random() < 0.6 else Failed(error=claim.fence))
        except Died:
            deaths += 1
            held = []
        for card in store.read(tasks):
            if card.result is not None:
                assert sealed.setdefault(card.task.id, card.result) == card.result
        if dice.random() < 0.3 or not held:
            clock.advance(61.0)
            held, store.dice = [], None
            keeper.sweep(queue)
            store.dice = dice
    store.dice = None
    assert deaths > 50
    for card in store.read(tasks):
        assert card.result is not None, card
        assert sealed.get(card.task.id, card.result) == card.result
    over = [card for card in cards(store) if "race-of" in card.task.extra]
    assert len(over) >= 300
    assert not [card for card in over if card.result is None]
    winners = [card.task.extra["race-of"] for card in over if card.state is State.DONE]
    done = [card.task.id for card in store.read(tasks) if card.state is State.DONE]
    assert sorted(winners) == sorted(done)  # each that is done has the one winner, and no other racer is
    assert len(done) > 60


def test_a_worker_that_knows_of_no_race_still_ends_it(queue):
    task = race(queue, 2)
    one, two = queue.claim("w", count=2)
    for claim in (one, two):  # as a foreign program does, by moving files
        queue.store.finish([settle(claim, Done(output=claim.task.id), (), queue.config, queue.clock.now())])
    keeper.sweep(queue, closely=True)
    assert queue.card(task).result.output == one.task.id


def test_the_race_ends_with_a_racer_that_is_done_although_others_go_on(queue):
    task = race(queue, 3)
    one, two = queue.claim("w", count=2)
    queue.store.finish([settle(one, Done(output="mine"), (), queue.config, queue.clock.now())])
    keeper.sweep(queue, closely=True)
    assert queue.card(task).result.output == "mine"
    assert queue.renew(two) is Said.CANCEL
    assert sorted(states(queue, task)) == ["claimed", "done", "failed"]


def test_a_claim_that_lapsed_wins_nothing(queue):
    task = race(queue, 2)
    claim = queue.claim("w")[0]
    queue.store.finish([End(claim=claim)])
    assert queue.finish(claim, Done())[0] is Said.LOST
    assert queue.card(task).state is State.READY


def test_racers_that_cannot_enter_hold_the_task(queue, monkeypatch):
    task = race(queue)
    finish = queue.store.finish

    def refuse(ends):
        if any(end.children for end in ends):
            raise Invalid("no room")
        return finish(ends)

    monkeypatch.setattr(queue.store, "finish", refuse)
    assert queue.claim("w") == []
    assert queue.card(task).held == "its racers cannot enter: no room"
