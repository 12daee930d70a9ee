"""What is read at a glance is read as a close look reads it; what was read is known as such, and no changed copy is."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskpit import layouts
from taskpit.layouts import Spot
from taskpit.layouts.markdown import Sheet, are_plain, is_plain, skim
from taskpit.layouts.markdown_task import KNOWN, PROSE
from taskpit.model import State, Task, Verdict

PIECES = st.sampled_from(
    [
        *(
            "# food-0001-x",
            "# a title",
            "#no",
            "- **task:** do it",
            "- **task:**",
            "- **Task:** do it",
            "- **by:** ann",
        ),
        *("- **tossed-by:** ann", "- **priority:** 5", "- **priority:**  5 ", "- **attempts:** 1 of 3", "- **own:** x"),
        *(
            "- **task:** more # not this",
            "  goes on",
            "\tgoes on",
            "",
            " ",
            "\r",
            "body",
            "- a list",
            "-",
            "<!-- body -->",
        ),
        *("- **needs:** 0002, 0003", "- **done-when:** `make` is green.", "\ufeff# x", "\xa0", "- **task:** a\xa0b"),
    ]
)
TEXTS = st.lists(PIECES, max_size=8).map("\n".join)


@given(TEXTS)
@example("# food-0001-x\n- **task:** do it\n\nbody\n")
@example("# food-0001-x\n- **task:** do it\n\n\n- **priority:** 5\n")
@example("# food-0001-x\n- **task:** do it\n")
def test_a_glance_says_what_a_close_look_says(text):
    seen = skim(text, KNOWN)
    if seen is not None:
        sheet = Sheet(text, KNOWN, PROSE)
        assert seen == (sheet.items(), sheet.heading, sheet.body)


def test_a_glance_is_enough_for_what_we_write():
    task = Task(
        id="0001", title="do it", slug="do-it", by="ann", created=1_700_000_000.0, priority=3, body="a\n\n- b\n"
    )
    page = layouts.get("pit").dump(task).decode()
    assert skim(page, KNOWN) is not None


@given(st.lists(st.text(alphabet="ab |,#`\xa0\n json", max_size=6), max_size=4))
def test_what_is_surely_plain_is_plain(texts):
    assert not are_plain(texts) or all(map(is_plain, texts))


def read(layout, data):
    return layouts.get(layout).load(Spot(state=State.READY, id="0001", slug="x", path="food/food-0001-x.md"), data)


def test_what_was_read_is_written_back_as_it_was():
    data = b"# food-0001-x\n- **own:** kept\n- **Task:**   do it  # soon\n\n\nbody"
    task = read("pit", data)
    assert task.was_read
    assert layouts.get("pit").dump(task) is task.source


@pytest.mark.parametrize("change", [copy.copy, copy.deepcopy, lambda task: pickle.loads(pickle.dumps(task))])
def test_a_copy_is_equal_and_not_known_as_read(change):
    task = read("pit", b"# food-0001-x\n- **task:** do it\n")
    assert change(task) == task
    assert not change(task).was_read
    assert layouts.get("pit").dump(change(task)) == task.source


def test_a_changed_task_is_written_anew():
    task = read("pit", b"# food-0001-x\n- **task:** do it\n").replace(priority=9)
    assert b"- **priority:** 9" in layouts.get("pit").dump(task)
    assert b"- **priority:** 9" in layouts.get("pit").dump_result(task, result_of(task))


def result_of(task):
    from taskpit.model import Result

    return Result(id=task.id, verdict=Verdict.DONE)


def test_bytes_of_one_layout_are_not_taken_for_those_of_another():
    task = read("pit", b"# food-0001-x\n- **task:** do it\n")
    assert layouts.get("workspace").dump(task.replace(slug="")) != task.source
    assert layouts.get("workspace").dump(task) != task.source
    assert (
        layouts.get("workspace").load(Spot(state=State.READY, id="0001"), layouts.get("workspace").dump(task)).title
        == "do it"
    )
