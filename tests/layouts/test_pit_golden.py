"""The pit, to the letter of its document: every name and every byte it shows."""

from __future__ import annotations

import pytest

from taskpit.clock import instant
from taskpit.errors import Invalid
from taskpit.layouts import Spot, get
from taskpit.model import Result, State, Task, Verdict

PIT = get("pit")

FOOD = b"""\
# food-0007-reverse-string
- **task:** Implement a `reverse(s)` function in scraps/reverse.py and a test that proves it.
- **done-when:** `python -m pytest scraps/test_reverse.py -q` is green.
- **tossed-by:** keeper        # or another snake, if this is a regurgitated sub-task
"""
TASK = Task(
    id="0007",
    slug="reverse-string",
    title="Implement a `reverse(s)` function in scraps/reverse.py and a test that proves it.",
    check="python -m pytest scraps/test_reverse.py -q",
    by="keeper",
)
SPOT = Spot(state=State.READY, id="0007", slug="reverse-string", path="food/food-0007-reverse-string.md")


def test_the_folders():
    assert PIT.folders == ("food", "claimed", "done", "scraps", "waste")


def test_the_names():
    assert PIT.ready_path(TASK) == "food/food-0007-reverse-string.md"
    assert PIT.claimed_path(TASK, "snake-2") == "claimed/snake-2.food-0007-reverse-string.md"
    assert PIT.result_path(TASK, Verdict.DONE) == "done/food-0007-reverse-string.result.md"
    assert PIT.log_path("snake-2", instant("2026-06-14T17:50:42Z", 0.0)) == "waste/snake-2-20260614T175042Z.log"


def test_the_names_read_back():
    assert PIT.spot("food", "food-0007-reverse-string.md") == SPOT
    claimed = PIT.spot("claimed", "snake-2.food-0007-reverse-string.md")
    assert (claimed.state, claimed.worker, claimed.id, claimed.slug) == (
        State.CLAIMED,
        "snake-2",
        "0007",
        "reverse-string",
    )
    done = PIT.spot("done", "food-0007-reverse-string.result.md")
    assert (done.state, done.verdict, done.id) == (State.DONE, Verdict.DONE, "0007")


def test_a_planners_result_is_a_plan():
    assert PIT.result_path(TASK.replace(big=True), Verdict.DONE) == "done/food-0007-reverse-string.plan.md"
    assert PIT.spot("done", "food-0007-reverse-string.plan.md").verdict is Verdict.DONE


def test_what_did_not_work_lies_in_the_scraps():
    assert PIT.result_path(TASK, Verdict.FAILED) == "scraps/food-0007-reverse-string-needs-keeper.md"
    assert PIT.note_path(TASK, "choked") == "scraps/food-0007-reverse-string-choked.md"


def test_the_food_is_read():
    task = PIT.load(SPOT, FOOD)
    assert task.replace(source=b"", extra={}) == TASK
    assert dict(task.extra) == {}


def test_the_food_is_written_back_byte_for_byte():
    assert PIT.dump(PIT.load(SPOT, FOOD)) == FOOD


def test_new_food_is_written_as_the_document_draws_it():
    assert PIT.dump(TASK) == FOOD.replace(b"        # or another snake, if this is a regurgitated sub-task", b"")


def test_a_comment_outlives_a_change_of_its_bullet():
    changed = PIT.dump(PIT.load(SPOT, FOOD).replace(by="snake-1"))
    assert changed == FOOD.replace(b"keeper  ", b"snake-1  ")


def test_what_we_do_not_know_survives_a_change():
    text = (
        FOOD
        + b"- **mood:** hungry   # who knows\n- **Colour:** green\n"
        + b"\nSome *text*.\n\n- **task:** not a bullet of the head\n"
    )
    task = PIT.load(SPOT, text)
    assert dict(task.extra) == {"mood": "hungry", "Colour": "green"}
    assert PIT.dump(task) == text
    changed = PIT.dump(task.replace(priority=5))
    assert changed == text.replace(b"green\n\nSome", b"green\n- **priority:** 5\n\nSome")


def test_carriage_returns_survive():
    text = FOOD.replace(b"\n", b"\r\n")
    task = PIT.load(SPOT, text)
    assert (task.title, task.check, task.by) == (TASK.title, TASK.check, TASK.by)
    assert PIT.dump(task) == text


@pytest.mark.parametrize(
    "line",
    ["priority:** high", "not-before:** soon", "big:** maybe", "attempts:** few", "created:** once", "priority:** 1.5"],
)
def test_a_known_bullet_of_the_wrong_kind_is_refused(line):
    with pytest.raises(Invalid, match=line.split(":")[0]):
        PIT.load(SPOT, f"# food-0007-reverse-string\n- **{line}\n".encode())


@pytest.mark.parametrize(
    ("sentence", "check"),
    [
        ("`make test` and `make lint` are green.", "make test && make lint"),
        ("`make test`, `make lint`, and `make docs`", "make test && make lint && make docs"),
        ("`make test`; then `make lint`", "make test && make lint"),
        ("`make test # it's slow` and `make lint`", "eval 'make test # it'\\''s slow' && make lint"),
        ("`make test` is green, and `reverse('ab')` is `'ba'`.", "make test"),
        ("``echo `date` `` and `make lint`", "echo `date`  && make lint"),
        ("`make test", ""),
    ],
)
def test_commands_that_are_named_together_must_all_be_green(sentence, check):
    """Of two only the first was run, and the task was done."""
    assert PIT.load(SPOT, f"# food-0007-reverse-string\n- **done-when:** {sentence}\n".encode()).check == check


@pytest.mark.parametrize("data", [b"\x00\x01\x02", b"\xff\xfe not utf-8"])
def test_what_is_not_text_is_refused(data):
    with pytest.raises(Invalid):
        PIT.load(SPOT, data)


@pytest.mark.parametrize(
    "name",
    [
        "food-.md",
        "food--x.md",
        "food-..-x.md",
        "food-a/b-x.md",
        "food-1\n2-x.md",
        "food-0001-a\nb.md",
        "food-0001-a~b.md",
        "food-" + "1" * 65 + "-x.md",
        "food-0001-" + "x" * 240 + ".md",
        "food-0001-\udcff.md",
    ],
)
def test_names_that_are_nearly_foods(name):
    """They are taken in under another, as every other text is."""
    assert PIT.spot("food", name) is None
    assert PIT.state_in("food", name) is None


@pytest.mark.parametrize("name", ["notes.md", "food-0001-x.md.swp", "0001.md", "food.md", "FOOD-0001-x.md", "x"])
def test_names_that_are_none_of_ours(name):
    assert PIT.spot("food", name) is None


@pytest.mark.parametrize("text", ["", "a-b", "..", ".a", "a/b", "a\nb", "a b", "-a", "ä", "x" * 65])
def test_ids_a_pit_cannot_carry(text):
    with pytest.raises(Invalid):
        PIT.check_id(text)


@pytest.mark.parametrize("text", ["", "snake.2", ".snake", "a/b", "a\nb", "-a", "x" * 73, "a~b~c", "~a"])
def test_workers_a_pit_cannot_carry(text):
    with pytest.raises(Invalid):
        PIT.check_worker(text)


@pytest.mark.parametrize("layout", ["pit", "workspace"])
@pytest.mark.parametrize("bullet", ["- **done-when**: `make test`", "- **Done-When**: `make test` is green"])
def test_a_check_counts_with_its_colon_outside_too(layout, bullet):
    """It was text, and the task was done without a check. What is written back says the same."""
    kind = get(layout)
    spot = Spot(state=State.READY, id="0007", slug="x" if kind.slugged else "")
    task = kind.load(spot, f"# food-0007-x\n- **task:** x\n{bullet}\n- **Priority**: High\n\nbody\n".encode())
    assert (task.check, task.priority) == ("make test", 0)
    changed = kind.load(spot, kind.dump(task.replace(check="make lint")))
    assert (changed.check, changed.body) == ("make lint", task.body)


def test_a_strangers_result_is_all_output():
    spot = PIT.spot("done", "food-0007-reverse-string.result.md")
    result, task = PIT.load_result(spot, b"I did it.\n\xff\n")
    assert (result.verdict, result.output, task) == (Verdict.DONE, "I did it.\n\ufffd\n", None)


def test_a_result_keeps_the_tasks_text():
    result = Result(id="0007", verdict=Verdict.DONE, output="all green")
    page = PIT.dump_result(PIT.load(SPOT, FOOD), result)
    assert page.endswith(FOOD)
    assert page.startswith(b"# food-0007-reverse-string: done\n- **verdict:** done\n")
    assert PIT.load_result(PIT.spot("done", "food-0007-reverse-string.result.md"), page)[1].source == FOOD
