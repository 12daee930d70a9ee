"""Whose failure it is: the task's, the backend's or the agent's that did nothing. Through the command line."""

from __future__ import annotations

import json
import threading
import time

import pytest
from waits import until
from workshop import pit_work

from taskpit.model import State
from taskpit.queue import Queue
from taskpit.run.blame import History
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions, Show
from taskpit.store.opening import open_store
from taskpit.testing import FakeClock


def work(pit, *words):
    return pit_work(pit, "--agent", "claude", *words)


def test_a_traceback_is_the_tasks_failure_whatever_stands_in_it(pit):
    (task,) = pit.put("traceback: a task")
    work(pit, "--max-tasks", "1")
    card = pit.card(task)
    assert (card.task.attempts, [one.kind for one in card.tries]) == (1, ["crash"])
    assert "ModuleNotFoundError" in pit.log(card.tries[0].log)


def test_an_overloaded_backend_is_not_the_tasks_failure(pit):
    (task,) = pit.put("overloaded: a task")
    work(pit, "--max-tasks", "1")
    card = pit.card(task)
    assert (card.task.attempts, [one.kind for one in card.tries]) == (0, ["infra"])


@pytest.mark.parametrize("check", ["", "true"])
def test_an_agent_that_only_talks_has_not_done_its_task(pit, check):
    (task,) = pit.put("talks: a task", check=check)
    code, reply = work(pit, "--until", "empty")
    card = pit.card(task)
    assert (code, reply["data"]["ended"], card.state) == (0, {"held": 1}, State.READY)
    reason = "nothing was done: the agent used no tool, changed nothing and left no result."
    assert card.held == f"{reason} It answered: All of that is done already."
    assert (card.task.attempts, len(pit.calls())) == (0, 1)


def test_a_limit_per_minute_rests_the_backend_for_a_minute(pit):
    pit.put("per minute: a task")
    began = time.time()
    work(pit, "--max-tasks", "1")
    with open(f"{pit.root}/.taskpit/backends/claude.json", encoding="utf-8") as file:
        until = json.load(file)["paused_until"]
    assert began + 60 <= until <= time.time() + 60


def test_an_error_that_follows_one_task_is_charged_to_it(pit):
    """The account is said to be empty, but only for this task: another one is done in between."""
    clock = FakeClock(float(int(time.time())))
    store = open_store(pit.root, clock=clock)
    queue = Queue(store, store.config.replace(backoff_longest=3600.0), clock)
    (sick,) = pit.put("unpaid: a task", max_attempts=1)
    (well,) = pit.put("good: another")
    pool = Pool(queue, pit.runner("claude", clock=clock), PoolOptions(until_empty=True), Show())
    thread = threading.Thread(target=pool.run)
    thread.start()
    until(lambda: clock.advance(60) or not thread.is_alive())
    card = pit.card(sick)
    assert (card.state, pit.card(well).state) == (State.FAILED, State.DONE)
    assert "Credit balance is too low" in card.result.reason
    assert [one.counted for one in card.tries] == [False] * (len(card.tries) - 1) + [True]
    store.close()


# -- the rule, as a table of histories -------------------------------------------------------------


def history(*events):
    """The history after these: (second, task, what); a run begins a second before it ends."""
    made = History()
    for at, task, what, *flags in events:
        made = made.starting(task, at - 1.0)
        if what == "good":
            made = made.succeeded(task, at - 1.0, at)
        elif what == "own":
            made = made.ended(task)
        else:
            exact, rested = "exact" in flags, "rested" in flags
            made = made.failed(task, at - 1.0, at, exact=exact, rested=rested)
    return made


@pytest.mark.parametrize(
    ("events", "charged"),
    [
        ([(10, "a", "error")], False),
        ([(10, "a", "error"), (20, "a", "error")], False),
        ([(10, "a", "error"), (20, "b", "good"), (30, "a", "error")], True),
        ([(5, "b", "good"), (10, "a", "error"), (30, "a", "error")], False),  # it succeeded before
        ([(10, "a", "error"), (20, "b", "own"), (30, "a", "error")], False),  # another failed by itself
        ([(10, "a", "error"), (20, "a", "error"), (30, "b", "own"), (40, "a", "error")], True),
        ([(10, "a", "error"), (20, "a", "error"), (30, "b", "error"), (40, "a", "error")], False),  # an outage
        ([(10, "a", "error"), (20, "a", "error"), (30, "a", "error")], False),  # alone, after a short rest
        ([(10, "a", "error"), (20, "a", "error"), (30, "a", "error", "rested")], True),
        ([(10, "a", "error"), (15, "a", "own"), (20, "b", "good"), (30, "a", "error")], False),  # no row
        ([(10, "a", "error"), (20, "b", "good"), (30, "a", "error"), (40, "a", "own"), (50, "a", "error")], True),
        ([(10, "a", "error"), (20, "b", "good"), (30, "a", "error"), (40, "a", "good"), (50, "a", "error")], False),
        ([(10, "a", "error", "exact"), (20, "b", "good"), (30, "a", "error", "exact")], True),
        ([(10, "a", "error"), (20, "b", "good"), (30, "a", "error", "exact")], False),
        ([(n, "a", "error", "exact", "rested") for n in (10, 20, 30, 40)], False),  # windows of a quota
    ],
)
def test_whose_error_it_is(events, charged):
    assert history(*events).is_charged("a") is charged


def test_a_quota_that_is_met_late_in_a_run_is_the_backends():
    made = history((10, "a", "error", "exact"), (20, "b", "good"))
    assert not made.failed("a", 30.0, 700.0, exact=True, rested=False).is_charged("a")


def test_an_outage_of_an_hour_charges_no_healthy_task():
    made = History()
    for at in range(0, 3600, 30):
        for task in ("a", "b", "c"):
            made = made.starting(task, at)
            made = made.failed(task, at, at + 1.0, exact=False, rested=at > 600)
    assert not any(made.is_charged(task) for task in ("a", "b", "c"))


def test_after_two_errors_others_go_first():
    assert not history((10, "a", "error")).lets_others_go_first("a")
    assert history((10, "a", "error"), (20, "a", "error")).lets_others_go_first("a")
