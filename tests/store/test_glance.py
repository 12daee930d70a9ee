"""Large queues are swept and examined by their listings: a file that is as it should be is never looked at."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from pits import make, put, root_of, take, task

from taskpit import fs, layouts
from taskpit.errors import Invalid
from taskpit.keeper import sweep
from taskpit.layouts.layout import NEVER
from taskpit.model import Done, State
from taskpit.policy import settle
from taskpit.store import quick_check
from taskpit.store.folder import IDS, QUARANTINE
from taskpit.testing import FakeClock

pytestmark = pytest.mark.mechanism

#: Names that are tasks, look like it, or must never be taken for one.
NAMES = [
    *(
        "food-0001-a.md",
        "food-0001.md",
        "food-1-a-b.md",
        "food-a.b-c.md",
        "food-a_b-c.md",
        "food-ä-c.md",
        "food-1-ä.md",
    ),
    *("food-1-.md", "food-.md", "food--x.md", "food-1-a~.md", "food-1-a.md~", "food-1-a\nb.md", "food-1-a\x7f.md"),
    *("food-..-x.md", f"food-1-{'x' * 150}.md", f"food-1-{'x' * 230}.md", f"food-{'1' * 65}-x.md", "food-1-a b.md"),
    *("food-0001-a.result.md", "food-1-a.txt", "README.md", ".food-1-a.md", "food-1-\udcff.md", "notes"),
    *("task_1.json", "task_1.json~", "..json", "README.json", "a b.json", f"{'1' * 80}.json"),
    *("task_1_pending.md", "task_1_done.md", "task_1_failed.md", "task_1_inprogress_ann.md", "a b_pending.md"),
]


@pytest.fixture
def queue(tmp_path):
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, *(task(number) for number in range(1, 31)))
    yield queue
    queue.close()


@pytest.fixture
def calls():
    """Every call on a queue's folder from now on: how often each was made, and on which path."""
    seen = Counter()
    fs.set_hook(lambda call, path: seen.update([(call, path)]))
    yield seen
    fs.set_hook(None)


def write(path, text="- **task:** more\n"):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def rewritten(queue, number):
    """As editors save: another file under the same name."""
    path = f"{root_of(queue)}/food/food-{number:04d}-task-{number}.md"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    write(f"{path}.new", f"{text}\nand more\n")
    os.rename(f"{path}.new", path)


def looked_at(calls, folder):
    return {path.rpartition("/")[2] for call, path in calls if call in ("stat", "open") and f"/{folder}/" in path}


def listings(calls, folder):
    """How often this folder was listed."""
    return sum(count for (call, path), count in calls.items() if call == "list" and path.endswith(f"/{folder}"))


def finish(queue, number):
    claim = take(queue, f"{number:04d}")
    queue.store.finish([settle(claim, Done(output="ok"), (), queue.config, 0.0)])


@pytest.mark.parametrize("name", ["pit", "mailbox", "workspace"])
def test_a_glance_at_a_name_tells_what_a_close_look_does(name):
    layout = layouts.get(name)
    for file in NAMES:
        try:
            spot = None if file.startswith(NEVER) or file.endswith("~") else layout.spot(layout.ready, file)
            expected = spot.id if spot is not None and spot.state is State.READY else ""
        except Invalid:
            expected = None
        assert layout.ready_id(file) == expected, ascii(file)


def test_a_repair_looks_at_no_file_that_is_in_order(queue, calls):
    """A sweep also asks what is scheduled, which is told by the tasks that wait."""
    finish(queue, 7)
    calls.clear()
    assert queue.store.mend() == []
    assert looked_at(calls, "food") == looked_at(calls, "ids") == looked_at(calls, "done") == set()


def test_only_files_in_doubt_are_looked_at(queue):
    root = root_of(queue)
    finish(queue, 2)
    write(f"{root}/food/food-0002-task-2.md")  # a copy of what is finished
    take(queue, "0003")
    write(f"{root}/food/food-0003-task-3.md")  # of what is claimed
    write(f"{root}/food/food-0004-another.md")  # another task with a number that is taken
    write(f"{root}/food/food-0500-new.md")  # made by hand
    write(f"{root}/food/food-..-x.md")  # no task's name
    rewritten(queue, 5)
    found = {name for names in quick_check.doubtful(queue.store.folder) for name in names}

    assert found == {
        "food-0002-task-2.md",
        "food-0003-task-3.md",
        *("food-0004-task-4.md", "food-0004-another.md"),
        "food-0500-new.md",
        "food-..-x.md",
        "food-0005-task-5.md",
    }
    assert sorted((mend.kind, mend.what) for mend in sweep(queue)) == [
        ("registered", "0500"),
        ("registered", "food/food-..-x.md"),
        ("set aside", "food/food-0002-task-2.md"),
        ("set aside", "food/food-0003-task-3.md"),
        ("set aside", "food/food-0004-another.md"),
    ]
    assert sweep(queue) == []


def test_a_second_name_that_a_power_loss_left_is_found(queue):
    root = root_of(queue)
    claim = take(queue, "0009")
    (held,) = os.listdir(f"{root}/claimed")
    os.link(f"{root}/claimed/{held}", f"{root}/food/food-0009-task-9.md")
    (mend,) = sweep(queue)
    assert (mend.kind, mend.what) == ("set aside", "food/food-0009-task-9.md")
    assert os.listdir(f"{root}/claimed") == [held]
    assert claim.task.id == "0009"


def test_results_in_doubt_are_those_that_are_not_the_outcome(queue):
    root, folder = root_of(queue), queue.store.folder
    finish(queue, 1)
    finish(queue, 2)
    assert quick_check.unlike_outcomes(folder) == []
    assert quick_check.out_of_sight(folder) == []
    os.remove(f"{root}/done/food-0001-task-1.result.md")
    write(f"{root}/done/food-0003-task-3.result.md")
    assert [spot.id for spot in quick_check.unlike_outcomes(folder)] == ["0003"]
    assert quick_check.out_of_sight(folder) == [("0001", "0001~done")]


def test_a_sweep_lists_no_more_where_many_were_edited(queue, calls):
    rewritten(queue, 1)
    calls.clear()
    sweep(queue)
    one = listings(calls, "food")
    for number in range(2, 21):
        rewritten(queue, number)
    calls.clear()
    sweep(queue)
    assert listings(calls, "food") == one > 0


@pytest.mark.parametrize("lost", [0, 20])
def test_the_doctor_lists_the_queue_a_few_times_and_not_for_each_task(queue, calls, lost):
    for number in range(1, lost + 1):
        os.remove(f"{root_of(queue)}/food/food-{number:04d}-task-{number}.md")
    calls.clear()
    found = queue.store.check()
    assert [(mend.kind, mend.what) for mend in found] == [("vanished", f"{n:04d}") for n in range(1, lost + 1)]
    assert 0 < listings(calls, "food") < 10
    assert 0 < listings(calls, IDS) < 10


def test_what_a_note_beside_the_results_is_called_hides_no_lost_task(queue):
    root = root_of(queue)
    os.remove(f"{root}/food/food-0003-task-3.md")
    write(f"{root}/done/food-0003-notes.txt")
    assert [(mend.kind, mend.what) for mend in queue.store.check()] == [("vanished", "0003")]


def test_an_entry_whose_inode_nobody_tells_is_looked_at(queue, calls, monkeypatch):
    class Dumb:
        def __init__(self, entry):
            self.name = entry.name

        def inode(self):
            return 0

    seen = quick_check.entries
    monkeypatch.setattr(quick_check, "entries", lambda path: map(Dumb, seen(path)))
    calls.clear()
    assert sweep(queue) == []
    assert len(looked_at(calls, "food")) == 30
    assert os.listdir(f"{root_of(queue)}/{QUARANTINE}") == []


@pytest.mark.parametrize("backwards", [False, True])
def test_two_files_of_one_id_are_found_whichever_is_listed_first(queue, monkeypatch, backwards):
    write(f"{root_of(queue)}/food/food-0004-another.md")
    seen = quick_check.entries
    monkeypatch.setattr(
        quick_check, "entries", lambda path: sorted(seen(path), key=lambda entry: entry.name, reverse=backwards)
    )
    (names,) = quick_check.doubtful(queue.store.folder)
    assert sorted(names) == ["food-0004-another.md", "food-0004-task-4.md"]
    assert [(mend.kind, mend.what) for mend in sweep(queue)] == [("set aside", "food/food-0004-another.md")]
