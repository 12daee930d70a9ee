"""Batches that die, are refused or lose their power half way: each task by itself is as before or as after.

What was acknowledged is there. Every fsync of a batch, the one that settles all its files included, is left out once,
and some model must show what is lost.
"""

from __future__ import annotations

import errno

import pytest
from crashes import Stages
from faults import Stopped, fail_at, killed_at, record
from outages import LAYOUTS, Outage, kind_of
from pits import POWER, make, misplaced, reopened, root_of, take, task
from powerloss import MODELS, recorded
from rotation import LONG, part
from scenes import BATCHES, THREE, three_claimed, three_ready
from waits import numbers

from taskpit import fs, kernel
from taskpit.errors import Conflict, Storage
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Want
from taskpit.store import folder
from taskpit.testing import FakeClock

#: How many states of one batch in one layout and model are tried, and searched for the fault of a missing fsync.
STATES, SEARCHED = 24 if LONG else 5, 120
NAMED = {scene.name: scene for scene in BATCHES}
WAYS = ["together", "each"] if LONG else ["together"]
CASES = [(layout, scene) for layout in LAYOUTS for scene in BATCHES] if LONG else [("pit", one) for one in BATCHES[::2]]
CODES = {"killed": None, "EIO": errno.EIO, **({"ENOSPC": errno.ENOSPC} if LONG else {})}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Whoever stands still with the log's lock is not waited for."""
    monkeypatch.setattr(fs, "TURN", 0.005)


@pytest.fixture(params=WAYS)
def synced(request, monkeypatch):
    """Files are synced one by one, or the whole filesystem once; what a real disk does of it is not the question."""
    monkeypatch.setattr(kernel, "syncs_filesystems", lambda _: request.param == "together")
    monkeypatch.setattr(kernel, "sync_filesystem", lambda _: None)
    monkeypatch.setattr(folder, "MANY", 2)
    return request.param


@pytest.fixture
def together(monkeypatch):
    monkeypatch.setattr(kernel, "keeps_order", lambda _: False)  # as in memory: on ext4 directories need no fsync
    monkeypatch.setattr(kernel, "syncs_filesystems", lambda _: True)
    monkeypatch.setattr(kernel, "sync_filesystem", lambda _: None)
    monkeypatch.setattr(folder, "MANY", 2)


def sample(trace, model, most):
    """Some states, always the same; the last ones are those after the acknowledgement."""
    states = list(trace.states(model))
    return states[:: max(1, len(states) // most)]


@pytest.mark.parametrize(("layout", "scene"), CASES, ids=lambda value: repr(value).strip("'"))
def test_every_state_is_recovered(layout, scene, synced, tmp_path):
    outage = Outage(scene, tmp_path, layout)
    whole = [op for op in outage.trace.ops[outage.trace.start :] if op.path == "*"]
    assert bool(whole) == (synced == "together" and scene.name != "claim three")
    for model in MODELS:
        for disk, acknowledged in sample(outage.trace, model, STATES):
            must = acknowledged and not scene.name.startswith("claim")
            outage.judge(disk, acknowledged=must, model=model)


#: Each fsync of a batch, a batch that needs it, and a model that shows it.
NEEDED = {
    "admit: *": ("put three", "ordered"),
    "admit: .taskpit/ids": ("put three", "folders"),
    "admit: food": ("put three", "folders"),
    "end_all: *": ("three done", "ordered"),
    "publish: done": ("three done", "ordered"),
}


@pytest.mark.parametrize("kind", NEEDED)
def test_no_fsync_can_be_left_out(kind, together, tmp_path):
    name, model = NEEDED[kind]
    outage = Outage(NAMED[name], tmp_path, "pit")
    without = outage.trace.without(lambda op: kind_of(op) == kind)
    assert len(without.ops) < len(outage.trace.ops)
    faults = []
    for disk, acknowledged in sample(without, model, SEARCHED):
        try:
            outage.judge(disk, acknowledged=acknowledged, model=model)
        except (AssertionError, ValueError) as error:
            faults.append(error)
            break
    assert faults


def test_every_fsync_is_on_the_list(together, tmp_path):
    found = set()
    for name in ("put three", "three done"):
        trace = Outage(NAMED[name], tmp_path / name, "pit").trace
        found |= {kind_of(op) for op in trace.ops[trace.start :] if op.kind == "fsync"}
    assert found == NEEDED.keys()


@pytest.mark.parametrize("fault", CODES)
@pytest.mark.parametrize(("layout", "scene"), CASES, ids=lambda value: repr(value).strip("'"))
def test_a_fault_at_every_call(layout, scene, fault, tmp_path):
    code = CODES[fault]
    stages = Stages(scene, tmp_path, layout=layout)
    for number in part(stages.numbers(changes=True), 4):
        queue, given = stages.stage()
        said = None
        where = f"{code} at call {number}, {stages.calls[number - 1]}"
        with killed_at(number) if code is None else fail_at(number, code):
            try:
                said = scene.act(queue, given)
            except Storage as error:
                if error.details["errno"] != code:
                    raise AssertionError(where) from error
        if said and scene.name == "three done":
            states = [card.state for card in queue.store.read([one.id for one in THREE])]
            assert [one for one, _ in said] == [Said.OK] * 3, where
            assert states == [State.DONE] * 3, where
        stages.judge(queue, where)
    assert len(stages.calls) > 10


def test_what_was_taken_is_given_out_although_the_disk_refuses_the_next(tmp_path):
    queue = make(str(tmp_path / "pit"), FakeClock())
    three_ready(queue)
    with record() as calls:
        assert len(queue.claim("snake", count=3)) == 3
    second = next(n for n, (call, path) in enumerate(calls, 1) if call == "rename" and "food-0002" in path)
    queue = make(str(tmp_path / "other"), FakeClock())
    three_ready(queue)
    with fail_at(second, errno.EIO):
        claims = queue.claim("snake", count=3)
    assert [claim.task.id for claim in claims] == ["0001"]
    assert [event.task_id for event in queue.store.events()[0] if event.action == "claimed_task"] == ["0001"]


def test_one_sync_for_all_files_and_one_for_each_directory(together, tmp_path):
    queue = make(str(tmp_path / "pit"), FakeClock(), POWER)
    with recorded(root_of(queue)) as trace:
        queue.put(THREE)
    assert [op.path for op in trace.ops if op.kind == "fsync"] == ["*", ".taskpit/ids", "food"]
    claims = queue.claim("snake", count=3)
    with recorded(root_of(queue)) as trace:
        queue.finish_many([(claim, Done()) for claim in claims])
    assert [op.path for op in trace.ops if op.kind == "fsync"] == ["*", "done"]
    queue.close()


@pytest.mark.parametrize("scene", ["put three", "claim three", "three done"])
def test_a_batch_appends_once(scene, tmp_path):
    queue, given = NAMED[scene].stage(str(tmp_path / "pit"), FakeClock(), POWER)
    with record() as calls:
        NAMED[scene].act(queue, given)
    assert sum(call == "write" and path.endswith("changelog.log") for call, path in calls) == 1
    queue.close()


def test_of_several_ends_each_has_its_own_answer(tmp_path):
    """One claim is over, one end is said twice: the others don't mind."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    first, second, third = three_claimed(queue)
    queue.finish(second, Failed(error="gone", kind="lost"))
    other = take(queue, second.task.id, "other")
    ends = [(first, Done(output="1")), (second, Done(output="2")), (third, Done(output="3")), (third, Done(output="3"))]
    assert [said for said, _ in queue.finish_many(ends)] == [Said.OK, Said.LOST, Said.OK, Said.ALREADY]
    assert queue.finish(other, Done(output="mine"))[0] is Said.OK
    cards = queue.store.read([first.task.id, second.task.id, third.task.id])
    assert [card.result.output for card in cards] == ["1", "mine", "3"]
    assert len(cards[1].late) == 1
    assert misplaced(queue) == {}


def stopped_everywhere(scene, tmp_path, meanwhile):
    """A batch stands still before each of its calls while somebody else works; what it says then, each time."""
    for count in numbers():
        queue, given = scene.stage(str(tmp_path / f"pit-{count}"), FakeClock(), POWER.replace(durability="process"))
        stalled = Stopped(lambda queue=queue, given=given: scene.act(queue, given), count)
        if stalled.there:
            other = reopened(root_of(queue), queue.clock)
            meanwhile(other)
            other.close()
        yield queue, stalled.call, stalled.go_on()
        queue.close()
        if not stalled.there:
            assert count > 15, "it was hardly ever stopped: nothing is shown"
            return


def test_a_stalled_batch_of_ends_beside_a_keeper(tmp_path):
    """Whatever the keeper carries out meanwhile, each is done once, and told to be ours."""
    for queue, call, said in stopped_everywhere(NAMED["three done"], tmp_path, sweep):
        assert [one for one, _ in said] == [Said.OK] * 3, call
        cards = queue.store.read([one.id for one in THREE])
        assert [(card.state, card.result.output) for card in cards] == [
            (State.DONE, "yes"),
            (State.DONE, "and"),
            (State.DONE, "amen"),
        ], call
        assert not any(card.late for card in cards), call
        sweep(queue)
        assert misplaced(queue) == {}, call


def test_a_stalled_batch_of_puts_beside_a_keeper_and_a_worker(tmp_path):
    """What the keeper lets in, somebody may finish; the putter does not bring it back to life."""

    def meanwhile(queue):
        sweep(queue)
        for one in THREE:
            for claim in queue.store.claim(Want(worker="quick", lease=60.0, ids=(one.id,))):
                assert queue.finish(claim, Done(output="quick"))[0] is Said.OK

    for queue, call, said in stopped_everywhere(NAMED["put three"], tmp_path, meanwhile):
        assert [one for _, one in said] == [Said.CREATED] * 3, call
        sweep(queue)
        assert misplaced(queue) == {}, call
        assert {card.state for card in queue.store.read([one.id for one in THREE])} <= {State.READY, State.DONE}, call


def test_two_putters_of_the_same_batch(tmp_path):
    """However they meet, each task is in once, and one of them has made it."""

    told = []

    def meanwhile(queue):
        told.append(queue.store.put(THREE))

    for queue, call, said in stopped_everywhere(NAMED["put three"], tmp_path, meanwhile):
        others = told.pop() if told else [Said.EXISTS] * 3
        pairs = {frozenset((ours, theirs)) for (_, ours), theirs in zip(said, others, strict=True)}
        assert pairs == {frozenset((Said.CREATED, Said.EXISTS))}, call
        sweep(queue)
        assert misplaced(queue) == {}, call


@pytest.mark.parametrize("call", ["create", "link"])
def test_of_a_put_those_before_the_refused_one_are_in(call, tmp_path):
    trial = make(str(tmp_path / "trial"), FakeClock())
    with record() as calls:
        trial.store.put(THREE)
    third = next(n for n, (one, path) in enumerate(calls, 1) if one == call and "0003" in path)
    queue = make(str(tmp_path / "full"), FakeClock())
    with pytest.raises(Storage), fail_at(third, errno.ENOSPC):
        queue.store.put(THREE)
    states = [card and card.state for card in queue.store.read([one.id for one in THREE])]
    assert states == [State.READY, State.READY, None]
    assert sweep(queue) == []


def test_each_is_told_of_every_task_and_of_none_after_a_conflict(tmp_path, monkeypatch):
    monkeypatch.setattr("taskpit.queue.CHUNK", 2)
    queue = make(str(tmp_path / "pit"), FakeClock())
    queue.put([THREE[2].replace(title="other")])
    told = []
    with pytest.raises(Conflict, match="0003 exists already"):
        queue.put([*THREE, task(4)], each=lambda task_id, said: told.append((task_id, said)))
    assert told == [("0001", Said.CREATED), ("0002", Said.CREATED)]
    queue.put([*THREE[:2], task(5)], each=lambda task_id, said: told.append((task_id, said)))
    assert told[2:] == [("0001", Said.EXISTS), ("0002", Said.EXISTS), ("0005", Said.CREATED)]
