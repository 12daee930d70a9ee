"""A task that changes no file, in a pool that lands changes. Through the command line."""

from __future__ import annotations

import pytest
from ground import read

from taskpit.model import State


def work(ground, script):
    return ground.pit("work", "--land", "merge", "--until", "empty", "--", "sh", "-c", f"echo run >> ../runs; {script}")


ANSWER = 'echo "It is slow because of the index." > "$TASKPIT_RUN_DIR/result.md"'


@pytest.mark.parametrize("check", ["", "test -e README"])
def test_an_answer_is_done_and_is_shown(ground, check):
    task = ground.put("find out why it is slow", check=check)
    assert "1 done" in work(ground, ANSWER)
    card = ground.card(task)
    assert (card.state, card.result.reason) == (State.DONE, "nothing to land")
    assert (card.result.evidence is not None) == bool(check)
    assert "It is slow because of the index." in ground.pit("show", task)
    assert ground.log() == ["begin"]


def test_an_answer_with_a_red_check_is_not_done(ground):
    task = ground.put("find out", check="test -e missing", max_attempts=1)
    work(ground, ANSWER)
    card = ground.card(task)
    assert (card.state, card.tries[0].kind) == (State.FAILED, "check")
    assert card.result.reason.startswith("nothing changed in its clone, and the check is red")


def test_an_empty_change_is_paid_for_twice_and_then_needs_a_person(ground):
    task = ground.put("do it", max_attempts=5)
    assert "needs you" in work(ground, "true")
    card = ground.card(task)
    assert card.held.startswith("two runs in a row changed nothing and left no result: nothing changed in its clone")
    assert [one.kind for one in card.tries] == ["empty"]
    ground.pit("unblock", task)
    work(ground, "echo x > x.txt")
    assert ground.card(task).state is State.DONE
    assert read(f"{ground.top}/x.txt") == "x\n"
