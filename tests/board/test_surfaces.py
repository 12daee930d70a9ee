"""Every surface says the same of a queue: each task stands in one place, and is counted once, everywhere."""

from __future__ import annotations

import os
import random
import re

import pytest
from boards import Served, make_queue
from waits import until

from taskpit.board import COLUMNS, Board
from taskpit.cli.main import main
from taskpit.model import Ask, Card, Done, Failed, Result, Retry, State, Task, Verdict
from taskpit.queue import cards, tally
from taskpit.status import LABELS, STATUSES, Status, read_status, status_of

QUEUES = 200 if os.environ.get("TASKPIT_LONG") else 6


def fill(queue, dice):
    """Tasks that went every way a task can go."""
    count = dice.randrange(1, 25)
    for number in range(1, count + 1):
        needs = tuple(f"{dice.randrange(1, number):04d}" for _ in range(dice.randrange(2)) if number > 1)
        not_before = queue.clock.now() + 3600 if dice.random() < 0.1 else 0.0
        hold = "ask Ann" if dice.random() < 0.1 else ""
        tags = dice.sample(("web", "gpu"), dice.randrange(3))
        queue.put(
            [Task(id=f"{number:04d}", title=f"t {number}", needs=needs, hold=hold, not_before=not_before, tags=tags)]
        )
    for _ in range(dice.randrange(count + 4)):
        claims = queue.claim(f"w-{dice.randrange(3)}")
        ends = (
            Done(output="x"),
            Failed(error="step 1\nstep 2\nerror: no", final=True),
            Failed(error="same"),
            Ask(question="which?"),
            Retry(reason="later", after=60.0),
            None,
        )
        for claim, end in zip(claims, dice.choices(ends, k=len(claims)), strict=True):
            if end is not None:
                queue.finish(claim, end)
    for card in [card for card in cards(queue.store, State.READY) if dice.random() < 0.2]:
        if dice.random() < 0.5:
            queue.cancel(card.task.id, "ann", "no")
        else:
            queue.block(card.task.id, "ann", "waits for the contract")


def printed(capsys, *words):
    assert main(list(words)) == 0
    return capsys.readouterr().out


def data(capsys, *words):
    import json

    return json.loads(printed(capsys, *words, "--json"))["data"]


def told(line):
    """The counts of a line in words."""
    found = dict.fromkeys(COLUMNS, 0)
    for count, word in re.findall(r"(\d+) ([a-z ]+?)(?:,|$)", line):
        found[word.replace("need you", "needs you").replace(" ", "_")] = int(count)
    return found


@pytest.mark.parametrize("seed", range(QUEUES))
def test_all_surfaces_agree(seed, tmp_path, capsys):
    root, dice = str(tmp_path / "pit"), random.Random(seed)
    queue = make_queue(root)
    fill(queue, dice)
    stands = {card.task.id: str(status_of(card)) for card in cards(queue.store)}
    truth = {status: sum(1 for one in stands.values() if one == status) for status in COLUMNS}
    assert tally(queue.store) == truth
    board = Board(queue).load()
    assert board.counts == truth
    assert {slip.id: slip.column for slip in board.slips.values()} == stands
    queue.close()

    assert {task["id"]: task["status"] for task in data(capsys, "-C", root, "list")} == stands
    for status in COLUMNS:
        ids = {task["id"] for task in data(capsys, "-C", root, "list", "--state", status)}
        assert ids == {one for one, stand in stands.items() if stand == status}
        assert ids == {hit["id"] for hit in data(capsys, "-C", root, "search", "t", "--state", status)}
    assert told(printed(capsys, "-C", root, "list", "--limit", "1").splitlines()[-1]) == truth
    assert told(printed(capsys, "-C", root, "status").splitlines()[1]) == truth
    status = data(capsys, "-C", root, "status")
    assert status["statuses"] == truth
    assert {one["id"] for one in status["needs_you"]} == {one for one, stand in stands.items() if stand == "needs_you"}
    assert sum(status["waiting"][key] for key in ("tasks", "time", "landing", "other")) == truth["waiting"]
    stats = printed(capsys, "-C", root, "stats")
    assert {name: int(re.search(rf"^{LABELS[name]} +(\d+)$", stats, re.MULTILINE)[1]) for name in COLUMNS} == truth
    assert data(capsys, "-C", root, "stats")["statuses"] == truth
    assert data(capsys, "-C", root, "status", "-f", "--for", "0.01s")["counts"] == truth

    with Served(root) as served:
        until(lambda: "Reading the queue" not in served.get("/").text)  # a busy machine shows the page before its tasks
        page = served.get("/").text
        counts = dict(re.findall(r'<h2 id="h-(\w+)">.*?<b [^>]*>(\d+)</b>', page))
        assert {name: int(count) for name, count in counts.items()} == truth
        for name in COLUMNS:
            column = re.search(rf'<ol data-column="{name}">(.*?)</ol>', page, re.DOTALL)[1]
            assert set(re.findall(r'data-id="(\d+)"', column)) == {one for one, at in stands.items() if at == name}
        numbers = served.get("/metrics").text
        assert {name: int(re.search(rf'tasks{{state="{name}"}} (\d+)', numbers)[1]) for name in COLUMNS} == truth


def card(state=State.READY, hold="", held="", verdict=None):
    result = Result(id="1", verdict=verdict) if verdict else None
    return Card(task=Task(id="1", title="t", hold=hold), state=state, held=held or hold, result=result)


@pytest.mark.parametrize(
    ("one", "status"),
    [
        (card(), Status.READY),
        (card(hold="waits for an answer: which?"), Status.NEEDS_YOU),
        (card(hold="failed 3 times the same way: x"), Status.NEEDS_YOU),
        (card(hold="waits for the contract"), Status.NEEDS_YOU),
        (card(hold="waits for landing on main"), Status.WAITING),
        (card(hold="waits for review by a person: 2 files, +3 -1"), Status.NEEDS_YOU),
        (card(hold="waits for review by an agent: 2 files, +3 -1"), Status.WAITING),
        (card(held="needs 0002, which is not done yet"), Status.WAITING),
        (card(held="not before 2037-01-01T00:00:00Z (in 9h)"), Status.WAITING),
        (card(held="it cannot be read: not UTF-8"), Status.NEEDS_YOU),
        (card(held="its next task WI-001-A1-T2 is for a person"), Status.NEEDS_YOU),
        (card(State.CLAIMED), Status.RUNNING),
        (card(State.DONE, verdict=Verdict.DONE), Status.DONE),
        (card(State.FAILED, verdict=Verdict.FAILED), Status.FAILED),
        (card(State.FAILED), Status.FAILED),
        (card(State.FAILED, verdict=Verdict.CANCELLED), Status.CANCELLED),
    ],
)
def test_where_a_task_stands(one, status):
    assert status_of(one) is status


def test_words_for_a_status():
    assert read_status("Needs-You") == read_status("needs you") == {Status.NEEDS_YOU}
    assert read_status("held") == {Status.NEEDS_YOU, Status.WAITING}
    assert read_status("all") == set(STATUSES)
    with pytest.raises(ValueError, match="needs-you, ready"):
        read_status("sideways")
