"""What follows from the end of a claim, row by row of the table in docs/design.md. Values in, values out: no store."""

from __future__ import annotations

import pytest

from taskpit.config import Config
from taskpit.errors import Invalid
from taskpit.model import Ask, Claim, Done, Failed, Release, Retry, Split, Task, Try, Verdict
from taskpit.policy import answered, pause, settle, signature

NOW = 1_800_000_000.0
CONFIG = Config(backoff=10.0, backoff_longest=3600.0, max_attempts=9, choke=3, losses=5)
TASK = Task(id="0007", title="count the mice", body="All of them.", needs=("0001",), attempts=1)


def claim(**fields):
    return Claim(task=TASK.replace(**fields), worker="snake-1", fence="snake-1~x", attempt=2)


def failed(error="no such column", *, kind="task", counted=True):
    """An earlier try that ended so."""
    return Try(at=NOW - 60, worker="snake-0", kind=kind, error=error, mark=signature(error), counted=counted)


FORGIVEN = Try(at=NOW - 30, worker="ann", kind="reset", counted=False)


def test_done_is_published():
    end = settle(claim(), Done(output="42", reason="counted", cost={"usd": 0.5}), [], CONFIG, NOW)

    assert (end.result.verdict, end.result.output, end.result.reason) == (Verdict.DONE, "42", "counted")
    assert (end.result.worker, end.result.attempt, end.result.finished) == ("snake-1~x", 2, NOW)
    assert end.result.cost == {"usd": 0.5}
    assert (end.task, end.attempt, end.action) == (None, None, "completed_task")


def test_what_went_wrong_is_one_line_of_a_length_that_can_be_read():
    for length, said in ((200, "x" * 200), (201, "x" * 199 + "…")):
        assert settle(claim(), Failed(error="x" * length), [], CONFIG, NOW).task.last_error == said


@pytest.mark.parametrize("kind", ["task", "check", "crash", "timeout"])
def test_a_failure_spends_an_attempt_and_comes_back_after_a_pause(kind):
    end = settle(claim(), Failed(error="step 1\nno such column", kind=kind), [], CONFIG, NOW)

    assert end.result is None
    assert (end.task.attempts, end.task.last_error, end.task.hold) == (2, "no such column", "")
    assert 10 <= end.delay <= 20
    assert (end.attempt.kind, end.attempt.counted, end.action) == (kind, True, "retried_task")
    assert end.details.startswith("attempt 2 of 9: no such column; again in ")


@pytest.mark.parametrize("kind", ["infra", "quota"])
def test_what_is_not_its_fault_spends_none(kind):
    end = settle(claim(), Failed(error="no network", kind=kind), [failed("no network")] * 8, CONFIG, NOW)

    assert (end.result, end.task, end.attempt.counted) == (None, None, False)
    assert 5 <= end.delay <= 10


@pytest.mark.parametrize(
    ("tries", "longest"),
    [
        ([], 10),
        ([failed(kind="infra", counted=False)] * 2, 40),
        ([failed(kind="infra", counted=False)] * 99, 320),
        ([failed(kind="infra", counted=False)] * 2 + [FORGIVEN], 10),
        ([failed(kind="infra", counted=False)] * 2 + [failed(kind="check")], 10),
    ],
)
def test_a_machine_in_trouble_is_tried_more_and_more_seldom_and_soon_enough(tries, longest):
    end = settle(claim(), Failed(error="no space left", kind="infra"), tries, CONFIG, NOW)

    assert longest / 2 <= end.delay <= longest


def test_a_pause_doubles_has_an_end_and_is_spread():
    assert [pause(CONFIG, attempt, 1.0) for attempt in (1, 2, 3, 4)] == [10, 20, 40, 80]
    assert pause(CONFIG, 100, 1.0) == 3600
    assert pause(CONFIG, 3, 0.0) == 20
    assert len({pause(CONFIG, 3) for _ in range(200)}) > 20


def test_the_last_attempt_fails_for_good():
    for attempts, over in ((7, False), (8, True)):
        end = settle(claim(attempts=attempts), Failed(error="x"), [], CONFIG, NOW)
        assert (end.result is not None) is over
    assert (end.result.verdict, end.result.reason, end.action) == (Verdict.FAILED, "x", "failed_task")
    own = settle(claim(attempts=1, max_attempts=2), Failed(error="x"), [], CONFIG, NOW)
    assert own.result.verdict is Verdict.FAILED


def test_final_and_cancelled_are_for_good_whatever_is_left():
    final = settle(claim(), Failed(error="x", final=True, output="half"), [], CONFIG, NOW)
    cancelled = settle(claim(), Failed(error="x", cancelled=True), [], CONFIG, NOW)

    assert (final.result.verdict, final.result.output) == (Verdict.FAILED, "half")
    assert (cancelled.result.verdict, cancelled.action) == (Verdict.CANCELLED, "cancelled_task")


# -- choking ---------------------------------------------------------------------------------------


SAME = [
    "2026-11-16T10:00:01Z row 17 of /home/ann/a/data.csv is broken at 0xdeadbeef",
    "2026-11-17T11:22:33.5+01:00 row 18 of /tmp/b/data.csv   is broken at 0x12",
]


def test_the_same_failure_is_known_by_what_stays():
    assert signature(SAME[0]) == signature(SAME[1])
    assert signature(SAME[0]) != signature(SAME[0].replace("broken", "missing"))
    assert signature("No such file") == signature("no such file ")


@pytest.mark.parametrize(
    ("tries", "chokes"),
    [
        ([], False),
        ([SAME[0]], False),
        ([SAME[0], SAME[1]], True),
        ([SAME[0], SAME[1], "something else"], False),
        ([SAME[0], "something else", SAME[1]], False),
        (["something else", SAME[0], SAME[1]], True),
    ],
)
def test_the_third_time_in_a_row_waits_for_a_person(tries, chokes):
    spent = claim(attempts=len(tries))
    end = settle(spent, Failed(error=SAME[0]), [failed(one) for one in tries], CONFIG, NOW)

    assert end.result is None
    assert end.task.hold.startswith("failed 3 times the same way: ") is chokes
    assert (end.action == "choked_task") is chokes
    assert (end.delay == 0.0) is chokes
    if chokes:
        kind, note = end.note
        assert kind == "choked"
        assert "count the mice" in note
        assert note.count("snake-0 (task)") == len(tries)
        assert "pit unblock 0007" in note


def test_a_lost_worker_in_between_does_not_break_the_row():
    tries = [failed("x"), failed("gone", kind="lost", counted=False), failed("x")]
    assert settle(claim(attempts=2), Failed(error="x"), tries, CONFIG, NOW).action == "choked_task"


def test_it_chokes_rather_than_fails_for_good():
    """A person can say more of the same failure thrice than of its last attempt."""
    end = settle(claim(attempts=8), Failed(error="x"), [failed("x"), failed("x")], CONFIG, NOW)
    assert (end.result, end.action) == (None, "choked_task")


def test_what_a_person_forgave_counts_no_more():
    tries = [failed("x"), failed("x"), FORGIVEN]
    assert settle(claim(attempts=2), Failed(error="x"), tries, CONFIG, NOW).action == "retried_task"


def test_what_came_before_a_task_was_reopened_counts_no_more():
    """It says itself how many of its attempts are spent: a further line about them could come too late."""
    tries = [failed("gone", kind="lost", counted=False)] * 4 + [failed("x")] * 2
    assert settle(claim(attempts=0), Failed(error="x"), tries, CONFIG, NOW).action == "retried_task"
    assert settle(claim(attempts=1), Failed(error="x"), tries, CONFIG, NOW).action == "retried_task"
    assert settle(claim(attempts=2), Failed(error="x"), tries, CONFIG, NOW).action == "choked_task"
    end = settle(claim(attempts=0), Failed(error="dead", kind="lost"), tries, CONFIG, NOW)
    assert end.task is None


# -- lost workers ----------------------------------------------------------------------------------


def lost(tries):
    return settle(claim(), Failed(error="snake-1 is dead", kind="lost"), tries, CONFIG, NOW)


def test_a_lost_worker_costs_nothing_and_no_time():
    end = lost([])

    assert (end.result, end.task, end.delay, end.note) == (None, None, 0.0, None)
    assert (end.attempt.kind, end.attempt.counted, end.action) == ("lost", False, "recovered_task")


def test_the_fifth_lost_worker_holds_it():
    gone = failed("dead", kind="lost", counted=False)

    assert lost([gone] * 3).task is None
    held = lost([gone] * 4)
    assert held.task.hold == "lost its worker 5 times, last: snake-1 is dead"
    assert held.task.attempts == TASK.attempts
    assert held.note[0] == "lost"
    assert lost([*[gone] * 4, FORGIVEN]).task is None
    assert lost([*[gone] * 3, failed("x")]).task is None


# -- what is no failure ----------------------------------------------------------------------------


def test_try_again_later_spends_nothing():
    end = settle(claim(), Retry(reason="busy", after=90.0), [failed("busy")] * 5, CONFIG, NOW)

    assert (end.result, end.task, end.delay) == (None, None, 90.0)
    assert end.attempt.counted is False


def test_released_is_as_it_was():
    end = settle(claim(), Release(reason="needs a GPU"), [failed("x")] * 2, CONFIG, NOW)
    assert (end.result, end.task, end.delay, end.attempt, end.details) == (None, None, 0.0, None, "needs a GPU")


def test_a_split_is_done_or_waits_for_every_part():
    parts = (Task(id="a", title="a"), Task(id="b", title="b"))
    over = settle(claim(), Split(children=parts), [], CONFIG, NOW)
    waits = settle(claim(big=True), Split(children=parts, wait=True), [], CONFIG, NOW)

    assert (over.result.verdict, over.result.children, over.children) == (Verdict.DONE, ("a", "b"), parts)
    assert (waits.result, waits.children) == (None, parts)
    assert waits.task.needs == ("0001", "a", "b")
    assert waits.task.big is False, "whoever puts the parts together is a worker like any other"


def test_a_task_that_is_split_each_time_its_parts_are_done_waits_for_a_person():
    """An agent that answers every look at the whole with more parts would go on for as long as there is money."""
    task, held = TASK, []
    for number in range(CONFIG.choke + 2):
        part = Task(id=f"part-{number}", title="more")
        end = settle(Claim(task=task, worker="w", fence="w"), Split(children=(part,), wait=True), [], CONFIG, NOW)
        assert end.children == (part,)
        task = end.task.replace(hold="")
        held.append(end.task.hold)
    assert [bool(hold) for hold in held] == [False] * CONFIG.choke + [True, True]
    assert held[-1].startswith(f"it was split {CONFIG.choke + 2} times")


def test_a_question_holds_it_and_the_answer_stands_in_the_task():
    end = settle(claim(), Ask(question="Which\nfont?", key="fonts", wanted="a name"), [], CONFIG, NOW)

    assert (end.task.hold, end.action) == ("waits for an answer: Which font?", "asked")
    assert end.attempt is None
    assert "What would answer it: a name" in end.note[1]
    after = answered(end.task, "The one we have.\n", "ann")
    assert (after.hold, after.extra, after.attempts) == ("", {}, TASK.attempts)
    assert after.body == "All of them.\n\n**Question:** Which font?\n\n**Answer** (ann): The one we have.\n"


def test_what_is_no_outcome_is_refused():
    with pytest.raises(Invalid, match="is not an outcome"):
        settle(claim(), "done", [], CONFIG, NOW)
