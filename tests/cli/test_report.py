"""`report`: what a person finds in the morning."""

from __future__ import annotations

import pytest

from taskpit.board import Board
from taskpit.model import Ask, Done, Failed, Split, Task
from taskpit.queue import Queue
from taskpit.report import make_report, newest
from taskpit.run.budget import Ledger
from taskpit.store.memory import MemoryStore
from taskpit.testing.clock import FakeClock

LANDED = "All is well.\n\nLanded on main as 0123456789ab, the work of snake-2~abc."


@pytest.fixture
def night():
    """A queue after a night: one of each kind, and one from the day before."""
    clock = FakeClock(1_800_000_000.0)
    queue = Queue(MemoryStore(clock), clock=clock)

    def ends(title, outcome, worker="snake-1"):
        queue.put([Task(id="", title=title)])
        queue.finish(queue.claim(worker)[0], outcome)

    ends("old", Done())
    clock.advance(2 * 86400)
    ends(
        "landed one",
        Done(reason="claude won: landed on main as 0123456789ab", output=LANDED, cost={"usd": 1.5, "model": "big"}),
    )
    ends("plain one", Done(output="x", seconds=60.0))
    ends("broken", Failed(error="line one\nno such file", final=True))
    ends("not wanted", Failed(error="cancelled", cancelled=True))
    ends("asking", Ask(question="which database?"))
    queue.put([Task(id="", title="free"), Task(id="", title="tied", needs=("0005",))])
    return queue


@pytest.mark.parametrize("wait", [False, True])
def test_what_was_split_is_done_unless_it_waits(night, wait):
    night.put([Task(id="large", title="large")])
    (claim,) = night.claim("snake-1", ids=["large"])
    night.finish(claim, Split(children=(Task(id="part", title="part"),), wait=wait))
    report = make_report(night, night.clock.now() - 86400)
    assert [row.title for row in report.done] == (["plain one"] if wait else ["plain one", "large"])


def test_each_task_is_in_one_part(night):
    report = make_report(night, night.clock.now() - 86400)
    titles = {name: [row.title for row in getattr(report, name)] for name in ("landed", "done", "failed", "cancelled")}
    assert titles == {
        "landed": ["landed one"],
        "done": ["plain one"],
        "failed": ["broken"],
        "cancelled": ["not wanted"],
    }
    assert [row.title for row in report.needs_you] == ["asking"]
    assert (report.ready, report.waiting) == (1, 1)
    assert report.costs == (("big", 1, 0.0, 1.5), ("snake-1", 3, 60.0, 0.0))
    assert report.landed[0].worker == "snake-2"
    assert Board(night).load().slips[report.landed[0].id].worker == "snake-2"  # who did it, not who landed it
    assert report.headline().startswith("1 needs you, 1 landed, 1 done, 1 failed")


def test_what_was_paid_for_in_vain_is_part_of_the_cost(night, tmp_path):
    ledger, since = Ledger(str(tmp_path)), night.clock.now() - 86400
    (tmp_path / ".taskpit").mkdir()
    landed = make_report(night, since).landed[0].id
    for task_id, model, usd, at in (
        (landed, "big", 1.0, 0),
        (landed, "big", 0.5, 10),
        ("0007", "small", 2.0, 20),
        ("0007", "", 0.25, 20),
        ("0007", "big", 64.0, -9),
    ):
        ledger.enter(task_id, "snake-1", {"agent": "claude", "model": model, "usd": usd}, 30.0, since + at)
    report = make_report(night, since, ledger.since(since))
    assert report.costs == (
        ("small", 1, 30.0, 2.0),
        ("big", 1, 60.0, 1.5),
        ("claude", 1, 30.0, 0.25),
        ("snake-1", 3, 60.0, 0.0),
    )
    assert report.headline().endswith("$3.75")


def test_a_race_is_one_task_and_is_paid_for_once(night):
    night.clock.advance(60)
    since = night.clock.now()
    task = night.put([Task(id="", title="raced", priority=9, extra={"race": 2})])[0][0]
    one, two = night.claim("snake-1")[0], night.claim("snake-2")[0]
    night.finish(two, Done(reason="landed on main as 0123456789ab", cost={"usd": 2.0, "model": "big"}))
    night.finish(one, Failed(error="cancelled", cancelled=True, cost={"usd": 1.0, "model": "big"}))
    report = make_report(night, since)
    assert [(row.id, row.what) for row in report.landed] == [(task, f"{task}.r2 won: landed on main as 0123456789ab")]
    assert report.headline() == "1 needs you, 1 landed, 1 ready, 1 waiting, $3.00"
    assert report.costs == (("big", 2, 0.0, 3.0),)


def test_a_run_that_was_cut_short_has_landed_too(night):
    night.clock.advance(60)
    since = night.clock.now()
    night.finish(night.claim("snake-1")[0], Done(reason="its check is green nevertheless; landed on main as 01234567"))
    assert [row.title for row in make_report(night, since).landed] == ["free"]


def test_what_is_older_is_left_out(night):
    assert not make_report(night, night.clock.now() + 1).done
    assert [row.title for row in make_report(night, 0.0).done] == ["old", "plain one"]
    assert 0 < len(newest(night.store, "2027-01-16")[0]) < len(newest(night.store)[0])


def test_it_says_what_to_do_next(night):
    report = make_report(night, 0.0)
    asking = report.needs_you[0].id
    assert f"pit answer {asking} TEXT" in report.next_steps()
    assert f"pit why {report.failed[0].id}" in report.next_steps()
    page = report.markdown()
    assert "## Needs you" in page
    assert "no such file" in page
    assert "| big | 1 |" in page


def test_the_command(pit):
    pit("add", "one")
    pit("claim")
    pit("done", "1")
    assert pit("report", "--json").data["done"][0]["title"] == "one"
    assert "1 done" in pit("report").out
    assert "- **0001** one" in pit("report", "--markdown").out
    assert "nothing happened" in pit("report", "--since", "2030-01-01T00:00:00Z").out
    assert pit("report", "--since", "soon").code == 2
