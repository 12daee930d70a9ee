"""Tasks that other programs numbered by hand, before anybody of ours saw them: their numbers are not given out."""

from __future__ import annotations

import os

import pytest
from boxes import make, pit, read, reopened, write

from taskpit.errors import Conflict
from taskpit.keeper import sweep
from taskpit.model import Done, Said, State, Task
from taskpit.store import files, ids
from taskpit.testing import FakeClock

#: Where each layout has a file of an id, in every state, as others may name it.
PLACES = {
    "pit": ("food/food-{}-theirs.md", "claimed/bob.food-{}-theirs.md", "done/food-{}-theirs.result.md"),
    "workspace": ("tasks/{}_pending.md", "tasks/{}_inprogress_bob.md", "tasks/{}_done.md", "tasks/{}_failed.md"),
    "mailbox": ("inbox/{}.json", "processing/{}.json", "outbox/{}_result.json", "failed/{}_error.json"),
}
EACH = [(layout, place) for layout, places in PLACES.items() for place in places]


def theirs(task_id, layout):
    return f'{{"id": "{task_id}", "title": "theirs"}}\n' if layout == "mailbox" else "# theirs\n"


@pytest.fixture
def queue(layout, tmp_path):
    queue = make(tmp_path / "queue", layout, FakeClock())
    queue.put([Task(id="", title="first")])  # from now on the counter knows the next number
    yield queue
    queue.close()


@pytest.fixture
def root(queue):
    return queue.store.folder.root


def following(queue, by=1):
    layout = queue.store.folder.layout
    (last,) = (card.task.id for card in queue.store.page().cards)
    return layout.new_id(layout.number(last) + by)


@pytest.mark.parametrize(("layout", "place"), EACH)
def test_a_number_that_is_used_by_hand_is_not_given_out(queue, root, layout, place):
    number, path = following(queue), f"{root}/{place.format(following(queue))}"
    write(path, theirs(number, layout))
    ((ours, said),) = queue.put([Task(id="", title="ours")])
    assert (ours != number, said) == (True, Said.CREATED)
    assert read(path) == theirs(number, layout)
    assert os.listdir(f"{root}/.taskpit/quarantine") == []


@pytest.mark.parametrize(("layout", "place"), EACH)
def test_nor_is_one_that_was_reserved_before(queue, root, layout, place):
    """A process that stays reserves some; a second later others may have used one."""
    for _ in range(3):
        given = queue.put([Task(id="", title="ours")])[0][0]
    kind = queue.store.folder.layout
    number = kind.new_id(kind.number(given) + 1)
    assert number in queue.store._ids
    write(f"{root}/{place.format(number)}", theirs(number, layout))
    queue.clock.advance(files.FRESH * 2)
    more = [queue.put([Task(id="", title="ours")])[0][0] for _ in range(5)]
    assert number not in more
    assert os.listdir(f"{root}/.taskpit/quarantine") == []


@pytest.mark.parametrize(("layout", "place"), EACH)
def test_an_id_that_a_person_chooses_pushes_nothing_of_others_aside(queue, root, layout, place):
    number = following(queue, 5)
    path = f"{root}/{place.format(number)}"
    write(path, theirs(number, layout))
    with pytest.raises(Conflict, match="exists already"):
        queue.put([Task(id=number, title="ours", slug="theirs")])
    assert read(path) == theirs(number, layout)
    assert os.listdir(f"{root}/.taskpit/quarantine") == []


@pytest.mark.parametrize("layout", PLACES)
def test_a_file_that_is_still_empty_has_its_id(queue, root, layout):
    number = following(queue, 5)
    path = f"{root}/{PLACES[layout][0].format(number)}"
    write(path, "")
    with pytest.raises(Conflict, match="exists already"):
        queue.put([Task(id=number, title="ours", slug="theirs")])
    assert read(path) == ""


@pytest.mark.parametrize("layout", PLACES)
def test_the_same_task_again_is_there_already(queue, root, layout):
    number = following(queue, 5)
    task = Task(id=number, title="theirs", slug="theirs", by="keeper", created=queue.clock.now())
    queue.put([task])
    other = reopened(root, layout, queue.clock)
    assert other.put([task]) == [(number, Said.EXISTS)]
    other.close()


@pytest.mark.parametrize("layout", ["mailbox"])
def test_the_mailbox_calls_it_by_its_name(root, layout):
    write(f"{root}/inbox/theirs.json", theirs("theirs", layout))
    said = pit("-C", root, "add", "ours", "--id", "theirs")
    assert (said.code, "ErrTaskExists" in said.err) == (6, True)


@pytest.mark.parametrize("layout", ["pit"])
def test_a_vast_pit_tells_them_apart_by_what_follows_the_number(queue, root, monkeypatch):
    """Nobody lists many results for one number: what needs ours does not begin by theirs, and both are done."""
    monkeypatch.setattr(ids, "LISTED", 0)
    number = following(queue)
    write(f"{root}/done/food-{number}-theirs.result.md", "theirs\n")
    assert queue.put([Task(id="", title="ours", priority=9)])[0][0] == number
    queue.put([Task(id="", title="after", needs=(number,), priority=10)])
    (claim,) = queue.claim("w")
    assert claim.task.title == "ours"
    assert {card.task.title for card in queue.store.page(State.READY).cards if not card.held} == {"first"}
    queue.finish(claim, Done(output="ours"))
    assert queue.claim("w")[0].task.title == "after"
    sweep(queue)
    found = {card.result.output.strip() for card in queue.store.page(State.DONE).cards}
    assert found == {"ours", "theirs"}
    assert os.listdir(f"{root}/.taskpit/quarantine") == []
