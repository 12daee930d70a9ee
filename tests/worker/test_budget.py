"""What work may cost: a task that cost too much asks, a day that cost too much pauses the queue."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from waits import PATIENCE

from taskpit.cli.main import main
from taskpit.clock import iso
from taskpit.errors import Denied, Invalid
from taskpit.explain import resuming
from taskpit.model import Ask, Done, Failed, Release, State
from taskpit.run import pool_display
from taskpit.run.budget import BudgetLimit, Ledger, Spent, allow, first_reached, parse
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions


@pytest.mark.parametrize(
    ("text", "amount", "unit", "scope"),
    [
        ("$5/day", 5.0, "usd", "day"),
        ("0.50/task", 0.5, "usd", "task"),
        ("200k tokens/task", 200_000.0, "tokens", "task"),
        ("2m tok/day", 2_000_000.0, "tokens", "day"),
        ("1h30m/day", 5400.0, "seconds", "day"),
    ],
)
def test_how_a_budget_is_written(text, amount, unit, scope):
    assert parse(text) == BudgetLimit(amount=amount, unit=unit, scope=scope)


@pytest.mark.parametrize("text", ["5", "$5/week", "much/day", "/day", "$/task"])
def test_how_it_is_not(text):
    with pytest.raises(Invalid):
        parse(text)


def test_the_ledger_adds_up_and_forgives(pit):
    ledger = Ledger(pit.root)
    ledger.enter("0001", "a", {"usd": 1.5, "tokens": 100}, 2.0, 86400.0 * 10 + 5)
    ledger.enter("0002", "a", {"total_cost_usd": 1.0}, 1.0, 86400.0 * 11 + 5)
    ledger.enter("0001", "b", {"usd": 0.25}, 1.0, 86400.0 * 11 + 6)
    assert ledger.of_task("0001") == Spent(usd=1.75, tokens=100.0, seconds=3.0)
    assert ledger.of_day(86400.0 * 11 + 7).usd == 1.25
    ledger.allow("day", 86400.0 * 11 + 8)
    ledger.allow("task", 86400.0 * 11 + 8, "0001")
    assert (ledger.of_day(86400.0 * 11 + 9).usd, ledger.of_task("0001").usd) == (0.0, 0.0)
    assert ledger.total().usd == 2.75
    assert ledger.today(86400.0 * 11 + 9).usd == 1.25, "it was spent, whatever was said of it"


def test_who_says_go_on_elsewhere_is_heard_where_the_money_is_spent(pit, tmp_path):
    """Each machine has a ledger of its own; the word stands in the queue, and forgives what was spent before it."""
    (tmp_path / "other" / ".taskpit").mkdir(parents=True)
    other, limits = Ledger(str(tmp_path / "other")), [parse("$1/day")]
    now = pit.queue.clock.now()
    other.enter("0001", "a", {"usd": 1.5}, 2.0, now)
    assert first_reached(pit.queue, other, limits)
    assert main(["-C", pit.root, "answer", "budget", "yes"]) == 0
    assert first_reached(pit.queue, other, limits) is None
    other.enter("0002", "a", {"usd": 1.5}, 2.0, now + 5.0)
    assert first_reached(pit.queue, other, limits), "it is said once, and counts once"


def test_what_was_spent_after_the_word_counts_however_late_it_is_heard(pit):
    ledger, limits, now = Ledger(pit.root), [parse("$1/day")], pit.queue.clock.now()
    allow(pit.queue, "ada")
    ledger.enter("0001", "a", {"usd": 1.5}, 2.0, now + 5.0)
    assert first_reached(pit.queue, ledger, limits)


def work(pit, runner, *budget, **orders):
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        told = PoolOptions(until_empty=True, budget=tuple(map(parse, budget)), **orders)
        show = pool_display.Lines(nowhere)
        show.say = lambda _text: signal.raise_signal(signal.SIGTERM)  # a pause is waited out: don't
        return Pool(pit.queue, runner, told, show).run()


def test_a_task_that_cost_too_much_asks_and_goes_on_when_answered(pit, capsys):
    (task,) = pit.put("dear")

    def costly(_claim, run):
        run.cost = {"usd": 0.6}
        return Failed(error="not yet")

    report = work(pit, costly, "$1/task")
    assert report.tally == {"retry": 1, "asked": 1}
    card = pit.card(task)
    assert card.state is State.READY
    assert "it has cost $1.20 of $1.00 for this task" in card.held
    assert main(["-C", pit.root, "answer", task, "yes, go on"]) == 0
    assert work(pit, lambda _claim, _run: Done(output="at last", cost={"usd": 0.1})).tally == {"done": 1}
    assert pit.card(task).result.cost == {"usd": 0.1}


def test_only_what_was_brought_counts_as_done(pit, capsys):
    ends = {"done": Done(), "asked": Ask(question="which?"), "taken away": Done(), "stopped": Release(reason="stop")}

    def spends(claim, run):
        run.cost = {"agent": "claude", "usd": 1.0}
        if claim.task.title == "taken away":
            run.stop("lost")
        return ends[claim.task.title]

    for name in ends:
        pit.put(name)
        pit.work_once(spends)
    assert Ledger(pit.root).by_model() == {"claude": {"runs": 4, "done": 1, "usd": 4.0, "tokens": 0.0}}
    assert main(["-C", pit.root, "stats"]) == 0
    assert "4, 0 retried, 1 given back" in capsys.readouterr().out


def test_who_lets_a_day_cost_more_does_not_lift_a_pause_of_somebody_else(pit, capsys):
    pit.put("one", "two", "three")

    def cheap(_claim, _run):
        return Done(cost={"usd": 0.6})

    work(pit, cheap, "$1/day")
    pit.queue.store.pause("the demo is on", 0.0, "ada")
    assert main(["-C", pit.root, "answer", "budget", "yes"]) == 0
    assert "the queue stays paused by ada: the demo is on. `pit resume` gives" in capsys.readouterr().out
    assert pit.queue.store.paused() == "paused by ada: the demo is on"
    pit.queue.store.resume("ada")
    assert work(pit, cheap, "$1/day").tally == {"done": 1}


def test_a_day_that_cost_too_much_pauses_until_somebody_says_go_on(pit, capsys):
    pit.put("one", "two", "three")

    def cheap(_claim, _run):
        return Done(cost={"usd": 0.6})

    report = work(pit, cheap, "$1/day")
    assert report.tally == {"done": 2}
    assert "the budget is spent: $1.20 of $1.00 for this day" in pit.queue.store.paused()
    midnight = (pit.queue.clock.now() // 86400 + 1) * 86400
    assert pit.queue.store.paused().endswith(f", until {iso(midnight)}")
    assert pit.queue.claim("somebody") == []
    for verb in (["claim"], ["why", "3"]):
        main(["-C", pit.root, *verb])
        said = "".join(capsys.readouterr())
        assert "`pit answer budget yes` goes on" in said
        assert "pit resume" not in said, "it would be paused again"
    assert resuming(pit.queue.store.paused()) == ""
    assert main(["-C", pit.root, "answer", "budget", "no"]) == 6
    assert "pit answer budget yes" in capsys.readouterr().err
    assert pit.queue.store.paused()
    assert main(["-C", pit.root, "answer", "budget", "yes"]) == 0
    main(["-C", pit.root, "stats"])
    assert "today $1.20" in capsys.readouterr().out
    assert work(pit, cheap, "$1/day").tally == {"done": 1}


def test_a_pool_that_may_not_pause_the_queue_rests_itself_and_ends_no_work(pit, monkeypatch):
    """With a worker's token it ended at once, and what its other slots were at with it."""

    def denied(*_):
        raise Denied("the token ann is not for this (pause)")

    monkeypatch.setattr(pit.queue.store, "pause", denied)
    pit.put("slow", "quick", "next")
    spent, stopped = threading.Event(), []

    def paid(claim, run):
        if claim.task.title == "slow":
            assert spent.wait(PATIENCE)
            stopped.append(run.stopping)
            allow(pit.queue, "ada")  # on another machine
        return Done(cost={"usd": 1.2 if claim.task.title == "quick" else 0.1})

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        show, told = pool_display.Lines(nowhere), []
        show.say = lambda text: (told.append(text), spent.set())
        options = PoolOptions(until_empty=True, slots=2, budget=(parse("$1/day"),))
        report = Pool(pit.queue, paid, options, show).run()
    assert (report.tally, stopped) == ({"done": 3}, [""])
    assert told == ["the budget is spent: $1.20 of $1.00 for this day; `pit answer budget yes` goes on"]
