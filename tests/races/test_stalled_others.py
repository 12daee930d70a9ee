"""Putters, keepers, editors and foreign hands that stand still or come in between."""

from __future__ import annotations

import os

from faults import Stopped, record
from pits import LEASE, make, misplaced, put, reopened, root_of, take, task, wrong
from stalls import ID, stalls

from taskpit import fs
from taskpit.keeper import sweep
from taskpit.model import Done, Said, State
from taskpit.store.folder import IDS, QUARANTINE, WORKERS
from taskpit.testing import FakeClock

MINE = Done(output="mine")


def claimed(queue):
    return take(queue, ID)


def expired(queue, **want):
    claim = take(queue, ID, **want)
    queue.clock.advance(LEASE + 1)
    return claim


def quarantine(queue):
    folder = f"{root_of(queue)}/{QUARANTINE}"
    return [name for name in sorted(os.listdir(folder)) if not name.endswith(".reason")]


def reasons(queue):
    folder = f"{root_of(queue)}/{QUARANTINE}"
    found = ""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".reason"):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                found += file.read()
    return found


def ready_file(queue, number=1):
    return f"{root_of(queue)}/food/food-{number:04d}-task-{number}.md"


def save(path, text="# food-0001-task-1\n- **task:** saved again\n"):
    """As editors do: a new file takes the old one's place."""
    with open(f"{path}.swp", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(f"{path}.swp", path)


def test_a_stalled_putter_brings_nothing_back_to_life(tmp_path):
    """A keeper rolls its task forward, somebody does it; the putter goes on as if nothing had happened."""
    outcomes = set()
    for stall in stalls(tmp_path, lambda queue, _: queue.store.put([task(2)])):
        sweep(stall.other)
        done = (
            [stall.other.finish(claim, Done())[0] for claim in stall.other.claim("fast", count=5, ids=("0002",))]
            if (stall.other.store.read(["0002"])[0] is not None)
            else []
        )
        assert stall.go_on() == [Said.CREATED], stall.where
        sweep(stall.other)
        card = stall.other.card("0002")
        assert card.state is (State.DONE if done else State.READY), stall.where
        assert misplaced(stall.other) == {}, stall.where
        assert wrong(stall.other) == [], stall.where
        assert quarantine(stall.other) == [], stall.where
        outcomes.add(bool(done))
    assert outcomes == {True, False}


def test_two_putters_of_one_id(tmp_path):
    """One stands still anywhere, the other puts something else under the same id: one of them wins."""
    said = set()
    for stall in stalls(tmp_path, lambda queue, _: queue.store.put([task(2)])):
        other = stall.other.store.put([task(2, title="other")])[0]
        mine = stall.go_on()[0]
        assert {mine, other} == {Said.CREATED, Said.CONFLICT}, stall.where
        sweep(stall.other)
        assert stall.other.card("0002").task.title == ("task 2" if mine is Said.CREATED else "other"), stall.where
        assert misplaced(stall.other) == {}, stall.where
        said.add(mine)
    assert said == {Said.CREATED, Said.CONFLICT}


def test_two_keepers(tmp_path):
    """One stands still anywhere in a reclaim, another sweeps, somebody works: the first one undoes nothing."""
    for stall in stalls(tmp_path, lambda queue, _: sweep(queue), expired):
        sweep(stall.other)
        assert stall.other.card(ID).state is State.READY, stall.where
        (claim,) = stall.other.claim("fast", ids=(ID,))
        stall.go_on()
        assert stall.other.renew(claim) is Said.OK, stall.where
        assert stall.other.finish(claim, MINE)[0] is Said.OK, stall.where
        card = stall.all_is_well(late=len(stall.other.card(ID).late))
        assert card.result.output == "mine", stall.where
        assert [one.kind for one in card.tries] == ["lost"], stall.where


def test_a_stalled_keeper_and_the_same_worker_again(tmp_path):
    """The worker it was about to give up on has claimed the task anew: that claim has another fence."""
    for stall in stalls(tmp_path, lambda queue, _: sweep(queue), expired):
        sweep(stall.other)
        (claim,) = stall.other.claim("snake", ids=(ID,))
        stall.go_on()
        assert stall.other.renew(claim) is Said.OK, stall.where


def test_under_a_plain_name_the_stalled_keeper_robs_it(tmp_path):
    """Why pools add a mark to their name: the new claim has the old one's name and inode. No look before the rename
    tells them apart.
    """
    robbed = set()
    for stall in stalls(tmp_path, lambda queue, _: sweep(queue), lambda queue: expired(queue, verbatim=True)):
        sweep(stall.other)
        (claim,) = stall.other.claim("snake", ids=(ID,), verbatim=True)
        folder = stall.other.store.folder
        held = os.stat(folder.at(folder.layout.claimed_path(claim.task, claim.fence)))
        same = os.path.samestat(held, os.stat(folder.at(f"{IDS}/{ID}")))
        stall.go_on()
        if stall.other.renew(claim) is Said.LOST:
            robbed.add((stall.stopped.call[0], same))
    assert ("rename", True) in robbed


def test_a_keeper_that_carries_out_a_stalled_end(tmp_path):
    """Both at once, both anywhere: the keeper stands still in the middle of it, the worker goes on first."""
    calls = _calls_of_a_done(tmp_path / "calls")
    for number in range(1, calls + 1):
        queue = make(str(tmp_path / str(number)), FakeClock())
        put(queue, task(1))
        claim = take(queue, ID)
        worker = Stopped(lambda q=queue, c=claim: q.finish(c, MINE)[0], number)
        for place in range(1, 60, 3):
            other = reopened(root_of(queue), queue.clock)
            keeper = Stopped(lambda q=other: sweep(q), place)
            if place == 1 + 3 * (number % 19):
                said = worker.go_on()
                assert said in (Said.OK, Said.ALREADY), (number, place)
            keeper.go_on()
            other.close()
        sweep(queue)
        assert queue.card(ID).result.output == "mine", number
        assert misplaced(queue) == {}, number
        assert queue.card(ID).late == (), number
        queue.close()


def _calls_of_a_done(where):
    queue = make(str(where), FakeClock())
    put(queue, task(1))
    claim = take(queue, ID)
    with record() as calls:
        queue.finish(claim, MINE)
    queue.close()
    assert len(calls) > 5
    return len(calls)


def test_a_foreign_cleanup_while_finishing(tmp_path):
    """Somebody's `mv claimed/... food/...` at any moment: a legal reclaim, or nothing there to move."""
    seen = set()
    for stall in stalls(tmp_path, lambda queue, claim: queue.finish(claim, MINE)[0], claimed):
        root = root_of(stall.queue)
        for name in os.listdir(f"{root}/claimed"):
            os.rename(f"{root}/claimed/{name}", f"{root}/food/{name.partition('.')[2]}")
        taken = stall.somebody_does_it()
        said = stall.go_on()
        card = stall.all_is_well(late=1 if taken else 0)
        assert card.result.output == ("theirs" if taken else "mine"), stall.where
        assert said in ((Said.LOST,) if taken else (Said.OK, Said.ALREADY)), stall.where
        seen.add(taken)
    assert seen == {True, False}


def test_a_foreign_result_while_finishing(tmp_path):
    """Somebody writes the result's own place at any moment: one result stands, the other is kept."""
    for stall in stalls(tmp_path, lambda queue, claim: queue.finish(claim, MINE)[0], claimed):
        place = f"{root_of(stall.queue)}/done/food-0001-task-1.result.md"
        published = os.path.exists(place)
        save(place, "theirs\n")
        stall.go_on()
        sweep(stall.other)
        assert sweep(stall.other) == [], stall.where
        card = stall.other.card(ID)
        assert card.state is State.DONE, stall.where
        assert card.result.output == ("mine" if published else "theirs\n"), stall.where
        assert len(card.late) == 1, stall.where
        assert misplaced(stall.other) == {}, stall.where
        with open(place, encoding="utf-8") as file:
            assert ("mine" if published else "theirs") in file.read(), stall.where


def test_an_editor_saves_a_claimed_task(tmp_path):
    """The copy does not run: the claim sets it aside, with the reason."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))
    claim = take(queue, ID)
    save(ready_file(queue))
    assert queue.claim("other") == []
    assert len(quarantine(queue)) == 1
    assert "is claimed by snake~" in reasons(queue)
    assert queue.finish(claim, MINE)[0] is Said.OK
    queue.close()


def test_an_editor_saves_a_claimed_task_and_a_keeper_comes(tmp_path):
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))
    claim = take(queue, ID)
    save(ready_file(queue))
    assert [mend.kind for mend in sweep(queue)] == ["set aside"]
    assert "is claimed by snake~" in reasons(queue)
    assert queue.renew(claim) is Said.OK
    queue.close()


def test_an_editor_saves_a_finished_task(tmp_path):
    for act in (lambda q: q.claim("other"), sweep):
        queue = make(str(tmp_path / act.__name__), FakeClock())
        put(queue, task(1))
        queue.finish(take(queue, ID), MINE)
        save(ready_file(queue))
        assert act(queue) is not None
        assert len(quarantine(queue)) == 1
        assert "is finished (done)" in reasons(queue)
        assert queue.claim("other") == []
        assert misplaced(queue) == {}
        queue.close()


def test_an_editor_saves_while_the_task_ends(tmp_path):
    """Stopped anywhere between claim and result: the copy never runs."""
    for stall in stalls(tmp_path, lambda queue, claim: queue.finish(claim, MINE)[0], claimed):
        save(ready_file(stall.queue))
        ran = stall.other.claim("other", count=5)
        assert ran == [], stall.where
        assert stall.go_on() in (Said.OK, Said.ALREADY), stall.where
        sweep(stall.other)
        assert misplaced(stall.other) == {}, stall.where
        assert len(quarantine(stall.other)) == 1, stall.where


def test_an_edit_of_a_ready_task_counts(tmp_path):
    """It is the task; nobody has moved on."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))
    save(ready_file(queue))
    assert sweep(queue) == []
    (claim,) = queue.claim("snake")
    assert claim.task.title == "saved again"
    queue.close()


def test_two_files_of_one_number_by_hand(tmp_path):
    """They are two tasks: the first by name keeps the number, the other gets the next, and both run once."""
    for act in (lambda q: q.claim("snake"), sweep):
        queue = make(str(tmp_path / act.__name__), FakeClock())
        for slug in ("a", "b"):
            save(f"{root_of(queue)}/food/food-0001-{slug}.md", f"# food-0001-{slug}\n- **task:** {slug}\n")
        act(queue)
        sweep(queue)
        cards = {card.task.title: card.task.id for card in queue.store.page().cards}
        assert cards == {"a": ID, "b": "0002"}
        assert quarantine(queue) == []
        assert [event.task_id for event in queue.store.events()[0] if event.action == "renumbered_task"] == ["0002"]
        assert len(queue.claim("snake", count=5)) + (act is not sweep) == 2
        assert misplaced(queue) == {}
        queue.close()


def test_a_number_that_was_given_meanwhile(tmp_path):
    """Somebody writes a file by hand, somebody else adds a task: whoever is first, both are done."""
    queue = make(str(tmp_path), FakeClock())
    save(f"{root_of(queue)}/food/food-0001-by-hand.md", "# food-0001-by-hand\n- **task:** by hand\n")
    queue.put([task(1).replace(title="added")])
    for claim in queue.claim("snake", count=5) + queue.claim("snake", count=5):
        queue.finish(claim, Done(output=claim.task.title))
    sweep(queue)
    for claim in queue.claim("snake", count=5):
        queue.finish(claim, Done(output=claim.task.title))
    cards = queue.store.page(State.DONE).cards
    assert sorted(card.task.title for card in cards) == ["added", "by hand"]
    assert quarantine(queue) == []
    queue.close()


def test_a_finished_original_moved_back_by_a_foreign_cleanup(tmp_path):
    """A foreign worker wrote its result and was slow to remove its claim; the cleanup moved that back to food."""
    for act in (lambda q: q.claim("other"), sweep):
        queue = make(str(tmp_path / act.__name__), FakeClock())
        put(queue, task(1))
        save(f"{root_of(queue)}/done/food-0001-task-1.result.md", "theirs\n")
        act(queue)
        assert queue.claim("other") == []
        sweep(queue)
        card = queue.card(ID)
        assert (card.state, card.result.output) == (State.DONE, "theirs\n")
        assert misplaced(queue) == {}
        queue.close()


def test_a_name_taken_again_while_somebody_looks_whether_it_lives(tmp_path):
    """A judge holds a dead worker's record for an instant; whoever introduces itself just then is not dead."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))
    queue.store.join("snake", LEASE).leave()
    judge = fs.Flock(f"{root_of(queue)}/{WORKERS}/snake")
    assert judge.take(wait=False)
    newcomer = Stopped(lambda: queue.claim("snake"), 2)
    judge.drop()
    (claim,) = newcomer.go_on()
    other = reopened(root_of(queue), queue.clock)
    assert other.store.lapsed() == []
    assert queue.renew(claim) is Said.OK
    other.close()
    queue.close()


def test_nobody_waits_for_ever_for_a_writer_that_stopped(tmp_path):
    """One stands still with the changelog's lock; all verbs go on, and no line is lost."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1), task(2))
    with record() as calls:
        queue.store.note(ID, "first", "ann")
    place = next(n for n, (call, path) in enumerate(calls, 1) if call == "write" and path.endswith("changelog.log"))
    stopped = Stopped(lambda: queue.store.note(ID, "second", "ann"), place)
    other = reopened(root_of(queue), queue.clock)
    (claim,) = other.claim("snake")
    assert other.finish(claim, MINE)[0] is Said.OK
    assert sweep(other) == []
    stopped.go_on()
    details = [event.details for event in other.store.events()[0] if event.action == "noted"]
    assert details == ["first", "second"]
    other.close()
    queue.close()
