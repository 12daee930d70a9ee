"""How much a check counts: strict, lenient, disabled, and a scope that skips it."""

from __future__ import annotations

import pytest

from taskpit.model import Done, State, Task
from taskpit.rules import check_mode


@pytest.mark.parametrize(
    ("extra", "word", "exit_code"),
    [
        ({}, "retry", 1),
        ({"test_mode": "strict"}, "retry", 1),
        ({"test_mode": "lenient"}, "done", 1),
        ({"test_mode": "disabled"}, "done", None),
        ({"test_scope": "skip"}, "done", None),
        ({"test_scope": "all"}, "retry", 1),
    ],
)
def test_a_red_check(pit, extra, word, exit_code):
    (task,) = pit.put("prove it", check="exit 1", extra=extra)
    assert pit.work_once(lambda _claim, _run: Done(output="did it")).word == word
    card = pit.card(task)
    evidence = card.result.evidence if card.result else card.tries[0].evidence
    assert (evidence.exit_code if evidence else None) == exit_code
    assert card.state is (State.DONE if word == "done" else State.READY)
    told = "the check is red; ignored (lenient)"
    assert (card.result is not None and card.result.reason == told) is (extra.get("test_mode") == "lenient")


def test_without_a_check_there_is_nothing_to_count():
    assert check_mode(Task(id="1", title="x")) == "disabled"
    assert check_mode(Task(id="1", title="x", check="true", extra={"test_mode": "odd"})) == "strict"
