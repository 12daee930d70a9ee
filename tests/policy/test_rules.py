"""Which task is next, and which may not be taken yet: the rules alone, without a store."""

from __future__ import annotations

import pytest

from taskpit.errors import Invalid
from taskpit.model import State, Task, Want
from taskpit.rules import (
    check_mode,
    check_task,
    find_cycle,
    held,
    held_in_circle,
    in_the_way,
    natural,
    order,
    overlap,
    suits,
    tangled,
)

NOW = 1_800_000_000.0


def task(task_id, **fields):
    return Task(id=task_id, title=task_id, **fields)


def test_priority_then_age_then_number():
    tasks = [
        task("0010", created=5.0),
        task("0009", created=5.0),
        task("0001", created=7.0),
        task("0011", created=9.0, priority=1),
        task("0002", created=1.0, priority=-1),
    ]
    assert [one.id for one in sorted(tasks, key=order)] == ["0011", "0009", "0010", "0001", "0002"]
    assert sorted(["a-10", "a-9", "b-1", "a"], key=natural) == ["a", "a-9", "a-10", "b-1"]


@pytest.mark.parametrize(
    ("fields", "want", "fits"),
    [
        ({}, {}, True),
        ({"tags": ("web",)}, {}, True),
        ({"tags": ("web", "css")}, {"tags": ("css", "db")}, True),
        ({"tags": ("web",)}, {"tags": ("db",)}, False),
        ({}, {"tags": ("db",)}, False),
        ({"big": True}, {"big": False}, False),
        ({"big": True}, {"big": True}, True),
        ({}, {"big": True}, False),
        ({"big": True}, {"big": None}, True),
    ],
)
def test_what_a_worker_asks_for(fields, want, fits):
    assert suits(task("a", **fields), Want(worker="w", lease=1.0, **want)) is fits


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"hold": "ask ann"}, "ask ann"),
        ({"not_before": NOW + 60}, "not before 2027-01-15T08:01:00Z (in 1m)"),
        ({"not_before": NOW}, ""),
        ({"needs": ("done",)}, ""),
        ({"needs": ("done", "failed")}, "needs failed, which failed or was cancelled"),
        ({"needs": ("ready",)}, "needs ready, which is not done yet"),
        ({"needs": ("claimed",)}, "needs claimed, which is running"),
        ({"needs": ("nosuch",)}, "needs nosuch, which does not exist"),
    ],
)
def test_why_it_may_not_be_taken(fields, why):
    states = {str(state): state for state in State}
    assert held(task("a", **fields), NOW, states.get) == why


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("src/**", "src/client/*.py", True),
        ("src/api/*.py", "src/web/*.py", False),
        ("src", "src/a.py", True),
        ("src/", "src/a.py", True),
        ("src", "srcery/a.py", False),
        ("src*", "srcery/a.py", True),
        ("README.md", "README.md", True),
        ("./README.md", "README.md", True),
        ("README.md", "README.txt", False),
        ("**", "anything/at/all", True),
        ("docs/[ab]*", "docs/x.md", True),  # what stands before the wildcard decides: rather too careful than not
        ("", "a", True),
    ],
)
def test_two_globs_overlap(one, other, same):
    assert overlap(one, other) is same
    assert overlap(other, one) is same


def test_who_is_in_the_way():
    running = [task("a", touches=("docs/**",)), task("b", touches=("src/**", "x"))]

    assert in_the_way(task("c", touches=("src/api.py",)), running) == "touches src/api.py, which b is changing"
    assert in_the_way(task("c", touches=("y",)), running) == ""
    assert in_the_way(task("c"), running) == ""
    for both in (
        [task("a", touches=("y",)), task("b", touches=("y",))],
        [task("b", touches=("y",)), task("a", touches=("y",))],
    ):
        assert in_the_way(task("c", touches=("y",)), both) == "touches y, which a is changing"
    assert in_the_way(running[0], running) == "", "nobody is in its own way"


@pytest.mark.parametrize(
    ("check", "extra", "mode"),
    [
        ("", {}, "disabled"),
        ("true", {}, "strict"),
        ("true", {"test_mode": "strict"}, "strict"),
        ("true", {"test_mode": "lenient"}, "lenient"),
        ("true", {"test_mode": "disabled"}, "disabled"),
        ("true", {"test_mode": "leniant"}, "strict"),
        ("true", {"test_mode": "lenient", "test_scope": "skip"}, "disabled"),
        ("true", {"test_scope": "all"}, "strict"),
    ],
)
def test_how_much_a_check_counts(check, extra, mode):
    assert check_mode(task("a", check=check, extra=extra)) == mode


# -- circles ---------------------------------------------------------------------------------------

NEEDS = {"a": ("b",), "b": ("x", "c"), "c": ("a",), "x": (), "waits": ("a",), "free": ("x",)}


def test_a_circle_is_told_in_order():
    assert find_cycle("a", NEEDS.__getitem__) == ["a", "b", "c", "a"]
    assert find_cycle("c", NEEDS.__getitem__) == ["c", "a", "b", "c"]
    assert find_cycle("waits", NEEDS.__getitem__) == [], "it waits for a circle, and is in none"
    assert find_cycle("free", NEEDS.__getitem__) == []


def test_a_long_chain_is_no_circle_and_no_trouble():
    chain = {number: (number + 1,) for number in range(20_000)} | {20_000: ()}
    assert find_cycle(0, chain.__getitem__) == []
    assert len(find_cycle(0, (chain | {20_000: (0,)}).__getitem__)) == 20_002


def test_what_no_order_of_working_frees():
    tasks = {key: task(key, needs=needs) for key, needs in NEEDS.items()}

    assert set(tangled(tasks)) == {"a", "b", "c", "waits"}
    assert tangled({key: tasks[key] for key in ("free", "x", "waits")}) == {}, "a need elsewhere is no circle"
    assert held_in_circle(tasks["a"], tasks) == "its needs go round in a circle: a -> b -> c -> a"
    assert held_in_circle(tasks["free"], tasks) == ""


# -- what can be a task ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": " "}, "a task needs a title"),
        ({"title": "a\nb"}, "the title must be one line"),
        ({"check": "a\nb"}, "the check must be one line"),
        ({"hold": "a\rb"}, "the hold must be one line"),
        ({"by": "a\0b"}, "the by must be one line"),
        ({"body": "a\0b"}, "the body is binary"),
        ({"body": "\udcff"}, "is not UTF-8"),
        ({"tags": ("a,b",)}, "cannot stand in tags"),
        ({"touches": (" a",)}, "cannot stand in touches"),
        ({"needs": ("",)}, "cannot stand in needs"),
        ({"needs": ("a#b",)}, "cannot stand in needs"),
        ({"needs": ("a",)}, "a needs itself"),
        (
            {"priority": 5.0},
            "the priority is none that a task can have: 'priority' is 5.0: it should be a whole number",
        ),
        ({"priority": True}, "the priority is none"),
        ({"priority": -(10**20)}, "too small or too large"),
        ({"attempts": -1}, "the attempts is none"),
        ({"max_attempts": 10**5000}, "the max_attempts is none"),
    ],
)
def test_what_cannot_be_a_task(fields, message):
    with pytest.raises(Invalid, match=message):
        check_task(Task(**{"id": "a", "title": "a", **fields}))


def test_what_can():
    check_task(task("a", body="a\nb\r\n\tc", tags=("two words",), touches=("src/**",), needs=("b",)))
