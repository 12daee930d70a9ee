"""The mailbox as Drover means it: what its own program drops, allows, prunes and puts again."""

from __future__ import annotations

import json
import os

import pytest
from boxes import load, make, pit, write

from taskpit.errors import NotFound
from taskpit.keeper import sweep
from taskpit.layouts import Spot
from taskpit.model import Done, Failed, Release, Said, State, Task
from taskpit.testing import FakeClock

#: What the struct of the Go program has: whatever else stands in a file is gone when it writes it.
STRUCT = (
    *("id", "title", "description", "epic_id", "parent_id", "sequence_number", "type", "priority", "status"),
    *("attempts", "max_attempts", "last_error", "claimed_by", "claimed_at", "operator", "verdict", "verdict_reason"),
    *("test_mode", "test_scope", "test_command", "created_at", "updated_at"),
)
#: Ids that its files may have and ours may not.
ITS_IDS = ["a b", "a:b", "größe", "x" * 75, "a..b"]
DAY = 86400


@pytest.fixture
def queue(tmp_path):
    queue = make(tmp_path / "box", "mailbox", FakeClock())
    yield queue
    queue.close()


@pytest.fixture
def box(queue):
    return queue.store.folder.root


def claimed_and_given_back(box, task_id, metadata):
    """The Go program claims a task and, stopped, gives it back: it writes what its struct has."""
    os.rename(f"{box}/inbox/{task_id}.json", f"{box}/processing/{task_id}.json")
    fields = {key: value for key, value in load(f"{box}/processing/{task_id}.json").items() if key in STRUCT}
    write(f"{box}/processing/{task_id}.json", json.dumps({**fields, **metadata, "claimed_at": None}))
    os.rename(f"{box}/processing/{task_id}.json", f"{box}/inbox/{task_id}.json")


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {"worktree": "", "dependencies": None}}])
def test_needs_survive_a_claim_of_the_other_program(metadata, queue, box):
    queue.store.put([Task(id="first", title="x"), Task(id="then", title="x", priority=9, needs=("first",))])
    claimed_and_given_back(box, "then", metadata)
    assert queue.card("then").task.needs == ("first",)
    (claim,) = queue.claim("w")
    assert claim.task.id == "first"
    queue.finish(claim, Done())
    (claim,) = queue.claim("w")
    queue.finish(claim, Release())
    assert load(f"{box}/inbox/then.json")["metadata"]["dependencies"] == ["first"]


def test_needs_that_were_taken_out_stay_out(queue, box):
    queue.store.put([Task(id="then", title="x", needs=("first",))])
    queue.edit("then", "ann", lambda task: task.replace(needs=()))
    claimed_and_given_back(box, "then", {})
    assert queue.card("then").task.needs == ()


@pytest.mark.parametrize("its_id", ITS_IDS)
def test_ids_that_only_it_serves_are_left_alone_by_every_verb(its_id, queue, box):
    queue.store.put([Task(id="ours", title="x")])
    for place in ("inbox", "processing"):
        write(f"{box}/{place}/{its_id}.json", json.dumps({"id": its_id, "title": "its own"}))
    write(f"{box}/outbox/{its_id}_result.json", "{}")
    before = sorted(os.listdir(f"{box}/inbox"))
    queue.store.page()
    queue.clock.advance(DAY)
    assert sweep(queue) == []
    assert [mend.kind for mend in queue.store.check()] == ["left alone"]
    queue.store.fix()
    assert sorted(os.listdir(f"{box}/inbox")) == before
    with pytest.raises(NotFound):
        queue.card(its_id)
    assert [claim.task.id for claim in queue.claim("w", count=9)] == ["ours"]
    assert os.listdir(f"{box}/.taskpit/quarantine") == []
    assert os.path.exists(f"{box}/processing/{its_id}.json")


@pytest.mark.parametrize("text", ['{"id": "bad"', '{"id": "other"}', '{"id": "bad", "priority": "high"}'])
def test_looking_sets_nothing_aside(text, queue, box):
    write(f"{box}/inbox/bad.json", text)
    os.utime(f"{box}/inbox/bad.json", (1, 1))
    assert ["cannot be read" in card.held for card in queue.store.page().cards] == [True]
    assert pit("-C", box, "list").code == pit("-C", box, "status").code == 0
    assert os.listdir(f"{box}/inbox") == ["bad.json"]
    assert queue.claim("w") == []
    assert os.listdir(f"{box}/inbox") == []


@pytest.mark.parametrize("by", ["us", "it"])
@pytest.mark.parametrize("act", ["claim", "sweep"])
def test_a_failed_id_that_is_put_again_is_a_new_run(by, act, queue, box):
    queue.store.put([Task(id="x", title="first", check="false")])
    if by == "us":
        queue.finish(queue.claim("w")[0], Failed(error="no", final=True))
    else:
        os.unlink(f"{box}/inbox/x.json")
        write(f"{box}/failed/x_error.json", json.dumps({"task_id": "x", "status": "failed", "error": "no"}))
    write(f"{box}/.tmp/x.json.tmp", json.dumps({"id": "x", "title": "again", "status": "ready"}))
    os.rename(f"{box}/.tmp/x.json.tmp", f"{box}/inbox/x.json")
    assert [card.state for card in queue.store.page().cards] == [State.READY]
    if act == "sweep":
        assert [mend.kind for mend in sweep(queue) if mend.kind != "registered"] == ["tried again"]
        assert sweep(queue) == []
    (claim,) = queue.claim("w")
    assert (claim.task.title, claim.task.check) == ("again", "")
    assert queue.finish(claim, Done())[0] is Said.OK
    card = queue.card("x")
    assert (card.state, len(card.late)) == (State.DONE, 1)
    assert os.listdir(f"{box}/failed") == os.listdir(f"{box}/.taskpit/quarantine") == []


def test_its_retention_is_no_damage(queue, box):
    queue.store.put([Task(id="old", title="x"), Task(id="new", title="x")])
    for claim in queue.claim("w", count=2):
        queue.finish(claim, Done(output="x"))
    os.unlink(f"{box}/outbox/old_result.json")
    os.unlink(f"{box}/outbox/new_result.json")
    then = queue.clock.now() - 8 * DAY
    os.utime(f"{box}/.taskpit/outcomes/old~done", (then, then))
    assert [(found.kind, found.what) for found in queue.store.check()] == [("result gone", "new")]
    queue.store.fix()
    assert os.listdir(f"{box}/outbox") == ["new_result.json"]
    assert queue.card("old").state is State.DONE


@pytest.mark.parametrize("end", [Release(), Failed(error="no")])
def test_whole_numbers_are_spelt_as_such_by_us(end, queue, box):
    write(f"{box}/inbox/x.json", '{"id": "x", "title": "x", "priority": 1.0, "attempts": 0.0, "created_at": 1.7e9}')
    (claim,) = queue.claim("w")
    with open(f"{box}/processing/x.json", encoding="utf-8") as file:
        assert '"priority": 1,' in file.read()
    queue.finish(claim, end)
    with open(f"{box}/inbox/x.json", encoding="utf-8") as file:
        text = file.read()
    assert '"priority": 1,' in text
    assert '"created_at": 1700000000' in text
    assert not any(isinstance(json.loads(text).get(key), float) for key in STRUCT)


def test_nor_does_a_task_that_nothing_changes_keep_a_spelling_it_stumbles_over(queue):
    data = b'{"id": "x", "title": "x", "priority": 1.0}'
    layout = queue.store.folder.layout
    read = layout.load(Spot(state=State.READY, id="x"), data)
    assert b'"priority": 1\n' in layout.dump(read)
