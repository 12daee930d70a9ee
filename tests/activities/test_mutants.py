"""Broken variants of how activities are kept: each must be caught by a test that is there to catch it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil

import itemscenes
import pytest
import workitems
from faults import killed_at
from rotation import part

import taskpit.store.activities
from taskpit import fs
from taskpit.layouts import yamltext
from taskpit.store import flock
from taskpit.store.activities import claim, finish, items, pivot, steps, upkeep
from taskpit.store.flock import Open
from taskpit.store.locks import Grip
from taskpit.testing import FakeClock

# What is first imported while a mutant lives would keep the mutant's functions for all tests that follow.
for found in pkgutil.walk_packages(taskpit.store.activities.__path__, "taskpit.store.activities."):
    importlib.import_module(found.name)


def module(name):
    path = os.path.join(os.path.dirname(__file__), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"activities_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


paused, together, claimable = module("test_paused_holder"), module("test_together"), module("test_claimable")
locks, golden, replan, odd = (
    module("test_task_locks"),
    module("test_golden"),
    module("test_pivot"),
    module("test_odd_files"),
)


class Scratch:
    """What a test's fixtures would give it."""

    def __init__(self, tmp_path, patch):
        self.tmp_path = tmp_path
        self.patch = patch
        self.clock = FakeClock()
        self.queue = workitems.make(tmp_path / "queue", self.clock)

    def items(self, document):
        workitems.by_hand(self.queue, document)
        return self.queue.store.items

    def crash(self, name):
        """The crash suite's own loop, over one scene."""
        scene = next(one for one in itemscenes.SCENES if one.name == name)
        stages = itemscenes.Stages(scene, self.tmp_path / "stages")
        for number in stages.numbers():
            queue, given = stages.stage()
            with killed_at(number):
                scene.act(queue, given)
            stages.judge(queue, f"killed before call {number}")


# -- the mutants: each takes pytest's monkeypatch and breaks one thing -----------------------------------


def finish_without_mine(patch):
    """Whoever says it is the holder is."""
    real = Grip.mine

    def mine(self, lock):
        seen = self.look()
        return real(self, seen.lock) if seen else None

    patch.setattr(Grip, "mine", mine)


def edit_without_the_turn(patch):
    patch.setattr(items, "BoundedLock", lambda _path: Open())


def verbs_without_the_turn(patch):
    """Nobody waits for anybody on a lock."""

    def enter(self):
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT)
        return self

    patch.setattr(Grip, "__enter__", enter)


def let_go_before_the_edit(patch):
    real = finish._edited

    def edited(where, item, end, mine):
        fs.remove(where.folder.at(where.path(item, "locks", f"{end.claim.task.id}.lock")))
        return real(where, item, end, mine)

    patch.setattr(finish, "_edited", edited)
    patch.setattr(Grip, "let_go", lambda self: None)


def publish_after_the_edit(patch):
    """The file names a deliverable that is not there yet."""
    real, waiting = finish._publish, []

    def publish(*args):
        if args[3] is None or not args[3].output:
            return ""
        waiting.append(args)
        return f"deliverables/{args[2]}.md"

    def let_go(self, _real=Grip.let_go):
        _real(self)
        for args in [one for one in waiting if one[0].folder is self._folder]:
            real(*args)

    patch.setattr(finish, "_publish", publish)
    patch.setattr(Grip, "let_go", let_go)


def claim_without_a_last_look(patch):
    patch.setattr(claim, "_still", lambda found, task_id: found.entry(task_id))


def claim_that_keeps_its_lock(patch):
    """What could not be written down is held all the same."""
    real = claim._have

    def have(*args):
        try:
            return real(*args)
        except Exception:
            patch.setattr(Grip, "let_go", lambda self: None)
            raise

    patch.setattr(claim, "_have", have)


def give_back_what_was_taken(patch):
    """The worker's copy of the entry replaces what people made of it."""
    real = finish._go_back

    def go_back(found, fields, before, after, fence, now):
        real(found, fields, found.activity(before.id, fields).task, after, fence, now)

    patch.setattr(finish, "_go_back", go_back)


def end_what_has_ended(patch):
    patch.setattr(finish, "ENDED", {})


def a_person_is_not_looked_for(patch):
    """The file is replaced without looking whether somebody saved it."""
    patch.setattr(items, "_sign", lambda status: ())


def an_item_made_in_place(patch):
    """The folder is there before what is in it."""

    def create(self, item, name, document):
        fs.make_dir(self.folder.at(f"{name}/locks"))
        fs.create(self.folder.at(f"{name}/progress.yaml"), yamltext.dump(document), sync=False)
        return True

    patch.setattr(items.Items, "create", create)


def whole_files_shaped_anew(patch):
    patch.setattr(items.yamltext, "changed", yamltext.dump)


def anybody_does_a_persons_task(patch):
    patch.setattr(steps, "_fits", lambda *args: None)


def renewals_that_leave_the_task_lock(patch):
    patch.setattr(finish, "min", lambda first, _second: first, raising=False)


def swallowed_lines_stay_swallowed(patch):
    patch.setattr(upkeep, "_swallowed", lambda *args, **named: iter(()))


def abandoned_locks_outlive_a_pivot(patch):
    patch.setattr(pivot, "_free_abandoned", lambda *args: None)


def aliases_without_end(patch):
    patch.setattr(yamltext, "_refuse_endless", lambda document: None)
    patch.setattr(yamltext, "load", lambda data, _real=yamltext.load: _bounded(_real, data))


def _bounded(real, data):
    """The bomb would take the machine down: where it is not refused, say so at once."""
    document = real(data)
    if b"&i" in data:
        raise AssertionError("a bomb was let in")
    return document


# -- the victims -----------------------------------------------------------------------------------------


def stopped_holder(scratch, verb):
    scratch.patch.setattr(flock, "TURN", 0.005)
    paused.test_what_another_has_taken_is_left_alone(verb, scratch.tmp_path)


def lock_outlives_the_file(scratch):
    """Where the lock is gone, the file tells the end."""
    for other, stopped in paused.stops(scratch.tmp_path, "done"):
        gone = not workitems.lock_of(other).exists()
        ended = workitems.status(other) == "completed"
        stopped.go_on()
        assert ended or not gone, stopped.call


VICTIMS = {
    finish_without_mine: lambda s: stopped_holder(s, "done"),
    edit_without_the_turn: lambda s: together.test_two_changes_at_once_are_two_changes(s.tmp_path, s.patch),
    verbs_without_the_turn: lambda s: stopped_holder(s, "renew"),
    let_go_before_the_edit: lock_outlives_the_file,
    publish_after_the_edit: lambda s: s.crash("done"),
    claim_without_a_last_look: lambda s: claimable.test_what_comes_between_the_look_and_the_step_is_seen(
        "pivot", s.queue, s.patch
    ),
    claim_that_keeps_its_lock: lambda s: claimable.test_a_claim_that_cannot_be_written_is_no_claim(s.queue, s.patch),
    give_back_what_was_taken: lambda s: together.test_what_people_changed_while_it_was_worked_on_stays(s.queue),
    end_what_has_ended: lambda s: together.test_what_people_ended_meanwhile_has_ended(s.queue, "completed"),
    a_person_is_not_looked_for: lambda s: together.test_a_person_saves_the_file_meanwhile(s.tmp_path),
    an_item_made_in_place: lambda s: s.crash("put a work item"),
    whole_files_shaped_anew: lambda s: golden.test_only_the_lines_that_must_change_do("flat", "claim", s.queue),
    anybody_does_a_persons_task: lambda s: locks.test_no_agent_does_it_in_passing_either(
        s.queue, s.items(locks.DOCUMENT)
    ),
    renewals_that_leave_the_task_lock: lambda s: locks.test_a_task_lock_never_outlives_the_activitys(
        s.queue, s.items(locks.DOCUMENT), s.clock, 0.0, "agent"
    ),
    swallowed_lines_stay_swallowed: lambda s: s.crash("done"),
    abandoned_locks_outlive_a_pivot: lambda s: replan.test_whoever_comes_back_to_an_old_plan_finds_it_gone(
        s.queue, s.items(replan.DOCUMENT), s.clock
    ),
    aliases_without_end: lambda s: odd.test_what_cannot_be_read_is_told_and_left_alone(f"{odd.BOMB}{odd.ONE}", s.queue),
}


@pytest.mark.parametrize("mutant", part(VICTIMS, 3), ids=lambda mutant: mutant.__name__)
def test_every_mutant_is_caught(mutant, tmp_path, monkeypatch):
    scratch = Scratch(tmp_path, monkeypatch)
    mutant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        VICTIMS[mutant](scratch)
    monkeypatch.undo()
    scratch.queue.close()


def test_unbroken_the_same_tests_pass(tmp_path, monkeypatch):
    """The one victim that is a test of nothing else: it passes as things are."""
    lock_outlives_the_file(Scratch(tmp_path, monkeypatch))
