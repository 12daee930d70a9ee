"""A run goes down a list of steps and up again; a step that fails costs no attempt."""

from __future__ import annotations

import pytest
from waits import PATIENCE

from taskpit.errors import Storage
from taskpit.model import Done, Failed, State
from taskpit.run.attempt import Attempt, Step, perform
from taskpit.run.pool_options import PoolOptions
from taskpit.run.run_directory import RunPlaces
from taskpit.run.runner import Run


class Seen(Step):
    """Notes when it is called."""

    def __init__(self, name, calls, settles=None, breaks=None):
        self.name, self.calls, self.settles, self.breaks = name, calls, settles, breaks

    def before_run(self, attempt):
        self.calls.append(f"{self.name} before")
        if self.breaks is not None:
            raise self.breaks
        return self.settles

    def after_run(self, attempt, outcome):
        self.calls.append(f"{self.name} after")
        return outcome

    def on_end(self, attempt, word):
        self.calls.append(f"{self.name} {word}")


def performed(pit, *steps):
    claim = pit.queue.claim("snake-1", wait=PATIENCE)[0]
    run = Run(claim, RunPlaces(pit.queue.store).of(claim), pit.root)
    try:
        runner = lambda _claim, _run: Done(output="ran")  # noqa: E731 - as callers write it
        return perform(Attempt(pit.queue, run, runner, PoolOptions()), steps, lambda: None)
    finally:
        run.bell.close()


def test_down_the_list_and_up_again(pit):
    pit.put("one")
    calls = []
    assert performed(pit, Seen("a", calls), Seen("b", calls)).word == "done"
    assert calls == ["a before", "b before", "b after", "a after", "b done", "a done"]


def test_a_step_that_settles_leaves_out_the_run(pit):
    (task,) = pit.put("one", max_attempts=1)
    calls = []
    steps = Seen("a", calls), Seen("b", calls, settles=Failed(error="no")), Seen("c", calls)
    assert performed(pit, *steps).word == "failed"
    assert calls == ["a before", "b before", "b failed", "a failed"]
    assert pit.card(task).result.output == ""


@pytest.mark.parametrize("error", [Storage("the disk is full"), OSError(28, "no room")])
def test_trouble_of_the_machine_in_a_step_spends_no_attempt(pit, error):
    (task,) = pit.put("one")
    assert performed(pit, Seen("a", [], breaks=error)).word == "retry"
    assert (pit.card(task).state, pit.card(task).task.attempts) == (State.READY, 0)


def test_a_mistake_of_ours_holds_the_task_and_says_where(pit):
    (task,) = pit.put("one")
    end = performed(pit, Seen("a", [], breaks=ZeroDivisionError("division by zero")))
    card = pit.card(task)
    assert (end.word, card.task.attempts) == ("held", 0)
    assert card.held.startswith("taskpit failed on this task: ZeroDivisionError: division by zero")
    assert end.mistake.startswith("ZeroDivisionError in ")
