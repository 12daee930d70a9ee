"""Broken variants of the protocol: each must be caught by a test that is there to catch it.

A fault test counts only once it has killed its mutants. Each mutant is one change to the code, each
victim the test that must not survive it; unchanged, the same tests pass where they stand.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from functools import partial
from types import SimpleNamespace

import pytest
import scenes
from crashes import Stages
from pits import POWER

import taskpit.store
from taskpit import fs
from taskpit.store import changelog, claims, ending, entering, folder, judge
from taskpit.task import Said
from taskpit.testing.faults import killed_at

# What the store loads when it first needs it must be loaded before anything is broken: a module that is
# first imported while a mutant lives would keep the mutant's functions for all tests that follow.
for found in pkgutil.walk_packages(taskpit.store.__path__, "taskpit.store."):
    importlib.import_module(found.name)

TESTS = os.path.dirname(os.path.dirname(__file__))


def module(path):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), f"{TESTS}/{path}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


worker = module("races/test_stalled_worker")
others = module("races/test_stalled_others")
fsync = module("crash/test_fsync")


def crash(name, tmp_path, config=None):
    """The crash suite's own loop, over one scene."""
    scene = next(one for one in scenes.SCENES if one.name == name)
    stages = Stages(scene, tmp_path, config) if config else Stages(scene, tmp_path)
    for number in stages.numbers(changes=True):
        queue, given = stages.stage()
        with killed_at(number):
            scene.act(queue, given)
        stages.judge(queue, f"killed before call {number}")


# -- the mutants: each takes pytest's monkeypatch and breaks one thing ---------------------------------


def seal_skipped(patch):
    """Who has lost the claim publishes all the same."""
    real = ending.seal
    patch.setattr(claims, "seal", lambda *args, **named: (real(*args, **named)[0], True))


def publish_before_seal(patch):
    """The result has its name before the claim is known to be ours."""
    real = ending.seal

    def seal(where, claimed, end, still_ours):
        if end.result is not None:
            target = where.at(where.layout.result_path(end.claim.task, end.result.verdict))
            scratch = where.tmp(end.claim.task.id, fs.fresh_name(), "early")
            fs.replace(target, where.layout.dump_result(end.claim.task, end.result), scratch, sync=False)
        return real(where, claimed, end, still_ours)

    patch.setattr(claims, "seal", seal)


def publish_by_rename(patch):
    """A result takes its place whatever stands there."""

    def link_result(sealed, task):
        target = sealed.folder.at(sealed.folder.layout.result_path(task, ending.Verdict(sealed.kind)))
        scratch = sealed.folder.tmp(sealed.spot.id, fs.fresh_name(), "copy")
        try:
            fs.replace(target, fs.read(sealed.part("r"), 1 << 20)[0], scratch, sync=False)
        except FileNotFoundError:
            return Said.OK if sealed.folder.outcome(sealed.spot.id) else None
        return Said.OK

    patch.setattr(ending, "_link_result", link_result)


def seal_by_link_and_unlink(patch):
    """For a moment the token is in two places."""
    real = fs.move

    def move(source, target):
        if "/.taskpit/sealed/" not in target or "/claimed/" not in source:
            return real(source, target)
        try:
            fs.link(source, target)
        except FileNotFoundError:
            return False
        fs.remove(source)
        return True

    patch.setattr(fs, "move", move)


def second_link_in_put(patch):
    """A stalled putter's link brings back what was done meanwhile."""

    def enter(where, source, ready):
        try:
            fs.link(source, where.at(ready))
        except FileNotFoundError:
            return False
        return True

    patch.setattr(entering, "enter", enter)


def put_without_the_registry(patch):
    """The id is looked up and then taken, in two steps."""
    real = fs.link

    def link(source, target):
        if "/.taskpit/ids/" not in target:
            return real(source, target)
        if fs.exists(target):
            return False
        scratch = source + "~copy"
        fs.replace(target, fs.read(source, 1 << 20)[0], scratch, sync=False)
        return True

    patch.setattr(fs, "link", link)


def fixed_claim_name(patch):
    """Every claim of a worker has the same fence."""
    names = iter(range(10**6))
    patch.setattr(fs, "fresh_name", lambda letters=6: f"{next(names):06d}")
    real = claims._take
    patch.setattr(claims, "_take", lambda where, ready, fence, want: real(where, ready, f"{want.worker}~fixed", want))


def next_bytes_straight_to_ready(patch):
    """The next bytes are moved to ready and the sealed file is removed afterwards: two tokens for a moment."""

    def back(sealed, event):
        where = sealed.folder
        ready = where.at(where.layout.ready_path(folder.stub(sealed.spot)))
        if "n" in sealed.parts and fs.move(sealed.part("n"), ready):
            fs.remove(sealed.path)
        elif not fs.move(sealed.path, ready):
            return Said.ALREADY
        ending._finish_up(sealed, event)
        return Said.OK

    patch.setattr(ending, "_back_to_ready", back)


def result_before_its_bytes_are_written(patch):
    """The claim is sealed first, and what follows is written then."""
    real = ending.seal

    def seal(where, claimed, end, still_ours):
        late = []
        create = fs.create
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(fs, "create", lambda *args, **named: late.append((args, named)))
            sealed = real(where, claimed, end, still_ours)
        for args, named in late:
            create(*args, **named)
        return sealed

    patch.setattr(claims, "seal", seal)


def children_forgotten_by_the_keeper(patch):
    """Only the worker itself lets its children in."""
    real = ending.roll

    def roll(sealed, *, end=None, event=None):
        if end is None:
            sealed.parts = sealed.parts.replace("c", "")
        return real(sealed, end=end, event=event)

    patch.setattr(ending, "roll", roll)
    patch.setattr("taskpit.store.mend.roll", roll)


def swallowed_lines_stay_swallowed(patch):
    patch.setattr(changelog, "tells_end", lambda *_, **__: True)


def renewal_by_descriptor(patch):
    """The stamp follows the file into somebody else's claim."""
    held = {}
    real_take, real_times = claims._take, fs.set_times

    def take(where, ready, fence, want):
        claim = real_take(where, ready, fence, want)
        if claim is not None:
            path = where.at(where.layout.claimed_path(claim.task, fence))
            held[path] = os.open(path, os.O_RDONLY)
        return claim

    def set_times(path, modified):
        if path in held and modified is not None:
            fs._step("utime", path)
            os.utime(held[path], (modified, modified))
            return True
        return real_times(path, modified)

    patch.setattr(claims, "_take", take)
    patch.setattr(fs, "set_times", set_times)


def judged_by_mtime_alone(patch):
    """A claim that was renamed and not yet stamped looks abandoned."""
    real, look = judge.lapsed, fs.status

    def without_ctime(path):
        status = look(path)
        return status and SimpleNamespace(
            st_ino=status.st_ino,
            st_mtime=status.st_mtime,
            st_mtime_ns=status.st_mtime_ns,
            st_ctime=0.0,
            st_ctime_ns=0,
        )

    def lapsed(where, orphans=()):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(fs, "status", without_ctime)
            return real(where, orphans)

    patch.setattr(judge, "lapsed", lapsed)


def no_fsync_of(place):
    def mutant(patch):
        real_dir, real_create = fs.sync_dir, fs.create

        def sync_dir(path):
            if not path.endswith(place):
                real_dir(path)

        def create(path, data, *, sync):
            real_create(path, data, sync=sync and place != "file")

        patch.setattr(fs, "sync_dir", sync_dir)
        patch.setattr(fs, "create", create)

    mutant.__name__ = f"no fsync of {place}"
    return mutant


def traced(test):
    """A test of the fsync suite, given a queue of its own."""

    def victim(tmp_path):
        queue = fsync.make(str(tmp_path / "pit"), fsync.FakeClock(), POWER)
        try:
            test(queue)
        finally:
            queue.close()

    return victim


CASES = [
    (seal_skipped, worker.test_a_stalled_done_while_the_other_still_works),
    (publish_before_seal, worker.test_a_stalled_done),
    (publish_before_seal, partial(crash, "done")),
    (publish_by_rename, others.test_a_foreign_result_while_finishing),
    (seal_by_link_and_unlink, partial(crash, "reclaim")),
    (seal_by_link_and_unlink, others.test_two_keepers),
    (second_link_in_put, others.test_a_stalled_putter_brings_nothing_back_to_life),
    (put_without_the_registry, others.test_two_putters_of_one_id),
    (fixed_claim_name, others.test_a_stalled_keeper_and_the_same_worker_again),
    (next_bytes_straight_to_ready, partial(crash, "failed, again later")),
    (result_before_its_bytes_are_written, partial(crash, "split")),
    (children_forgotten_by_the_keeper, partial(crash, "split")),
    (swallowed_lines_stay_swallowed, partial(crash, "done")),
    (renewal_by_descriptor, worker.test_a_stalled_renewal),
    (judged_by_mtime_alone, worker.test_a_claim_is_not_taken_away_before_it_is_stamped),
    (no_fsync_of("file"), traced(fsync.test_put)),
    (no_fsync_of("file"), traced(fsync.test_done)),
    (no_fsync_of("/ids"), traced(fsync.test_put)),
    (no_fsync_of("/food"), traced(fsync.test_put)),
    (no_fsync_of("/food"), traced(fsync.test_back_to_ready)),
    (no_fsync_of("/tmp"), traced(fsync.test_done)),
    (no_fsync_of("/tmp"), traced(fsync.test_reopen)),
    (no_fsync_of("/done"), traced(fsync.test_done)),
    (no_fsync_of("/scraps"), traced(fsync.test_failed)),
    (no_fsync_of("/sealed"), traced(fsync.test_split)),
]


def name(case):
    mutant, victim = case
    of = victim.args[0] if isinstance(victim, partial) else victim.__name__.removeprefix("test_")
    return f"{mutant.__name__} by {of}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_mutant_is_caught(case, tmp_path, monkeypatch):
    mutant, victim = case
    monkeypatch.setattr(fs, "TURN", 0.005)
    mutant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        victim(tmp_path)
