"""Races whose work lands: one commit, whatever dies; losers' candidates are kept and can be compared."""

from __future__ import annotations

import contextlib
import os
from functools import partial

from faults import CHANGES, Killed, kill_at, record
from ground import Ground, git, read
from waits import until

from taskpit.keeper import sweep
from taskpit.landing import review
from taskpit.landing.lander import Lander
from taskpit.model import Done, End, Release, State, Task, Verdict
from taskpit.policy import LANDING, RACING, REVIEW
from taskpit.queue import cards


def start(ground, count=2, **fields):
    """A task whose racers have entered; its id and theirs."""
    extra = {"race": count, **fields.pop("extra", {})}
    task = ground.put("race", extra=extra, **fields)
    claim = ground.queue.claim("snake-1")[0]
    ground.queue.finish(claim, Release())
    assert ground.card(task).held.startswith(RACING)
    return task, [f"{task}.r{number}" for number in range(1, count + 1)]


def test_a_pool_lands_one_commit_and_keeps_the_others_work(ground):
    task = ground.put("race", extra={"race": 3}, check="test -s a.txt")
    after = ground.put("after", needs=(task,), check="grep -q r a.txt")
    script = 'case $TASKPIT_TASK in *.r*) echo "$TASKPIT_TASK" > a.txt;; *) cp a.txt b.txt;; esac'
    report, _ = ground.pool(script, slots=3)
    card = ground.card(task)
    assert card.state is State.DONE
    assert ground.log() == ["after", "race", "begin"]
    winner = git(ground.top, "show", "main:a.txt")
    assert card.result.reason.startswith(f"{winner} won: landed on main as ")
    assert ground.card(after).state is State.DONE
    found = {one.task.id: one for one in cards(ground.queue.store) if "race-of" in one.task.extra}
    assert [name for name, one in found.items() if one.state is State.DONE] == [winner]
    assert {one.result.verdict for name, one in found.items() if name != winner} == {Verdict.CANCELLED}
    assert report.tally["done"] >= 2


def test_the_first_that_lands_wins_and_the_other_can_still_be_compared(ground):
    task, (one, two) = start(ground)
    ground.work(one, a_dot_txt="one\n")
    ground.work(two, a_dot_txt="two\n")
    assert ground.card(two).held.startswith(LANDING)
    claim, end = ground.land(two)
    assert (claim.task.id, end.result.reason[: len(two) + 4]) == (task, f"{two} won")
    assert ground.card(task).state is State.DONE
    assert ground.card(two).state is State.DONE
    assert ground.card(one).result.verdict is Verdict.CANCELLED
    assert git(ground.top, "show", "main:a.txt") == "two"
    for name, line in ((one, "+one"), (two, "+two"), (task, "+two")):
        assert line in review.diff(*review.candidate(ground.queue, name))
    ground.lander().waiting()  # cleans up
    assert ground.pipe.clones.names() == []
    assert ground.pipe.waiting() == {}
    assert f"Task: {task}\n" in git(ground.top, "log", "-1", "--format=%B", "main") + "\n"


def test_with_review_all_finish_and_the_person_picks(ground):
    task, (one, two) = start(ground, extra={"review": "person"})
    for name in (one, two):
        ground.work(name, a_dot_txt=f"{name}\n")
    assert [card.task.id for card in review.waiting(ground.queue)] == [one, two]
    assert ground.lander().waiting() == []
    review.approve(ground.queue, two, "ada@here")
    ground.land(two)
    assert ground.card(task).result.reason.startswith(f"{two} won")
    assert review.waiting(ground.queue) == []
    assert ground.card(one).result.verdict is Verdict.CANCELLED
    assert REVIEW not in ground.card(one).held


def test_a_conflict_goes_back_to_that_racer_and_another_may_land(ground):
    task, (one, two) = start(ground)
    ground.work(one, README="one\n")
    ground.work(two, a_dot_txt="two\n")
    ground.commit("README", "the person's\n")
    claim, _ = ground.land(one)
    assert claim.task.id == one
    assert ground.card(one).tries[-1].kind == "conflict"
    assert "<<<<<<<" in read(f"{ground.pipe.workspace(one)}/README")
    assert ground.card(task).held.startswith(RACING)
    ground.land(two)
    assert ground.card(task).state is State.DONE
    assert ground.log() == ["race", "add README", "begin"]
    assert ground.card(one).result.verdict is Verdict.CANCELLED


def test_branches_are_the_tasks_own(ground):
    ground.terms = ground.terms.replace(land="branch")
    ground.pipe = ground.new_pipe()
    task, (one, two) = start(ground)
    ground.work(one, a_dot_txt="one\n")
    ground.work(two, a_dot_txt="two\n")
    ground.land(one)
    assert git(ground.top, "branch", "--list", "pit/*", "--format=%(refname:short)") == f"pit/{task}"
    assert ground.card(two).result.verdict is Verdict.CANCELLED


def test_landed_and_not_sealed_is_sealed_as_that_racers_whoever_lands_next(ground):
    task, (one, two) = start(ground)
    ground.work(one, a_dot_txt="one\n")
    ground.work(two, b_dot_txt="two\n")
    lander = ground.lander()
    parent, claim = lander._take(task), lander._take(one)
    assert isinstance(ground.pipe.land(claim, ground.hands, lambda: True, parent), Done)
    ground.queue.store.finish([End(claim=parent), End(claim=claim)])  # killed before its seal: both go back
    ground.land(two)
    assert ground.card(task).result.reason.startswith(f"{one} won")
    assert ground.card(one).state is State.DONE
    assert ground.card(two).result.verdict is Verdict.CANCELLED
    assert ground.log() == ["race", "begin"]


def test_what_only_says_that_it_races_lands_for_nobody(ground):
    task, _ = start(ground, check="false")
    cheat = ground.queue.put([_cheat(task)])[0][0]
    ground.work(cheat, a_dot_txt="cheat\n")
    assert ground.land(cheat) is None
    assert ground.card(task).held.startswith(RACING)
    assert ground.log() == ["begin"]


def _cheat(task):
    return Task(id=f"{task}.r9", title="mine", extra={"race-of": task})


def _round(ground, worker):
    member = ground.queue.store.join(worker, 5.0)
    try:
        lander = Lander(ground.queue, ground.new_pipe(), member.worker, ground.hands)
        for handed in lander.waiting():
            lander.land(handed)
    finally:
        member.leave()


def _given_back(ground, ids):
    return not sweep(ground.queue) and not any(ground.card(one).state is State.CLAIMED for one in ids)


def test_killed_anywhere_one_lands_and_is_the_result(tmp_path):
    """Two racers have handed in; the lander dies at many a git call or change of the queue."""

    def scene(number):
        ground = Ground(tmp_path / str(number))
        task, racers = start(ground)
        for name in racers:
            ground.work(name, a_dot_txt=f"{name}\n")
        return ground, task, racers

    ground, *_ = scene(0)
    with record() as calls:
        _round(ground, "first")
    ground.close()
    places = [number for number, (call, _) in enumerate(calls, 1) if call in {*CHANGES, "git"}]
    assert len(places) > 30
    met = set()
    for number in places if os.environ.get("TASKPIT_LONG") else places[1::20]:
        ground, task, racers = scene(number)
        with contextlib.suppress(Killed), kill_at(number):
            _round(ground, "first")
        met.add(ground.card(task).state)
        until(partial(_given_back, ground, [task, *racers]))
        _round(ground, "second")
        _round(ground, "third")
        card = ground.card(task)
        assert card.state is State.DONE, number
        assert ground.log() == ["race", "begin"], number
        winner = git(ground.top, "show", "main:a.txt")
        assert card.result.reason.startswith(f"{winner} won"), number
        states = {name: ground.card(name).state for name in racers}
        assert states == {name: State.DONE if name == winner else State.FAILED for name in racers}, number
        ground.close()
    assert len(met) > 1  # each side of the seal was met


def test_racers_are_not_made_pull_requests(ground):
    task = ground.put("race", extra={"race": 2, "land": "pr"})
    ground.pool("echo a > a.txt", slots=2)
    assert "do not land by pull requests" in ground.card(f"{task}.r1").held
    assert ground.card(task).held.startswith(RACING)
