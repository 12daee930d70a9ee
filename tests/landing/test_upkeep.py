"""What landing costs while nothing lands: git is asked seldom, and our own repository is packed now and then."""

from __future__ import annotations

import contextlib
import hashlib
import os
from queue import SimpleQueue

import pytest
from faults import record
from ground import git, write
from shims import Shim
from waits import numbers

from taskpit.errors import TaskpitError
from taskpit.landing import git as calls
from taskpit.landing import lander as landing
from taskpit.landing.lander import Seldom
from taskpit.run.landing_thread import LOOK, LandingThread
from taskpit.testing import FakeClock


@pytest.fixture
def thread(ground):
    """A pool's lander, whose rounds are made one by one, and the clock it goes by."""
    ground.queue.clock = FakeClock()
    return LandingThread(ground.queue, ground.pipe, "pool", SimpleQueue())


def asked(ground, thread, lander, rounds):
    """How often git is called in so many rounds in which nothing is handed in, and what is said."""
    with record() as made:
        for _ in range(rounds):
            ground.queue.clock.advance(LOOK)
            thread._round(lander, anyway=False)
    return sum(call == "git" for call, _ in made)


def landed(ground, **files):
    task = ground.put("do it")
    ground.work(task, **files)
    ground.land(task)
    return task


def test_a_pool_with_nothing_to_land_and_a_branch_that_is_behind_hardly_asks_git(ground, thread):
    write(f"{ground.top}/README", "the person edits\n")
    landed(ground, README="changed\n")
    lander = ground.lander()
    busy = asked(ground, thread, lander, 1)
    assert busy > 3  # what one look takes
    while_idle = asked(ground, thread, lander, round(1200 / LOOK))
    assert while_idle <= (1200 / Seldom.LONGEST + 8) * busy


def test_what_changes_is_seen_in_the_next_round(ground, thread):
    write(f"{ground.top}/README", "the person edits\n")
    landed(ground, README="changed\n")
    lander = ground.lander()
    asked(ground, thread, lander, 100)
    git(ground.top, "checkout", "-q", "README")
    asked(ground, thread, lander, 1)
    assert ground.log() == ["do it", "begin"]
    task = ground.put("more")
    asked(ground, thread, lander, 100)
    ground.work(task, more="x\n")
    asked(ground, thread, lander, 1)
    assert ground.log() == ["more", "do it", "begin"]


def test_a_file_that_is_clean_again_without_a_trace_is_seen_after_a_pause(ground, thread):
    write(f"{ground.top}/README", "the person edits\n")
    landed(ground, README="changed\n")
    lander = ground.lander()
    asked(ground, thread, lander, 100)
    write(f"{ground.top}/README", "hello\n")
    asked(ground, thread, lander, round(Seldom.LONGEST / LOOK) + 1)
    assert ground.log() == ["do it", "begin"]


# -- packing ---------------------------------------------------------------------------------------


@pytest.fixture
def loose(ground, monkeypatch):
    """A repository of ours that needs packing; all objects that it has."""
    monkeypatch.setattr(calls, "LOOSE", 1)
    landed(ground, one="1\n")
    digest, number = "", 0
    while not digest.startswith("17"):  # the directory that is looked at
        number += 1
        data = f"{number}\n".encode()
        digest = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    assert ground.pipe.git.blob(data) == digest
    return objects(ground)


def objects(ground):
    words = ("cat-file", "--batch-check=%(objectname)", "--batch-all-objects")
    return set(ground.pipe.git.say(*words).split())


def counts(ground):
    """Loose objects, and packs."""
    told = dict(line.split(": ") for line in ground.pipe.git.say("count-objects", "-v").splitlines())
    return int(told["count"]), int(told["packs"])


def test_loose_objects_are_packed_and_none_is_lost(ground, loose):
    assert counts(ground)[0] > 5
    assert ground.lander().pack()
    assert counts(ground) == (0, 1)
    assert objects(ground) == loose
    ground.pipe.git.run("fsck", "--strict")
    landed(ground, two="2\n")
    assert len(ground.log()) == 3


def test_a_few_loose_objects_are_left_alone(ground):
    landed(ground, one="1\n")
    before = counts(ground)
    assert not ground.lander().pack()
    assert counts(ground) == before


def test_packed_once_a_day(ground, loose, monkeypatch):
    packed = []
    monkeypatch.setattr(calls.Git, "pack", lambda _: packed.append("once"))
    for _ in range(3):
        ground.lander().pack()
    assert len(packed) == 1
    long_ago = ground.queue.clock.now() - landing.DAILY - 1
    os.utime(f"{ground.pipe.repository.folder}/packed", (long_ago, long_ago))
    ground.lander().pack()
    assert len(packed) == 2


def test_never_while_something_lands_and_nothing_lands_meanwhile(ground, loose, monkeypatch):
    turn = ground.pipe.turn("main")
    with turn:
        assert not ground.lander().pack()
    assert counts(ground)[0] > 5
    free = []
    monkeypatch.setattr(calls.Git, "pack", lambda _: free.append(ground.new_pipe().turn("main").take(wait=False)))
    assert ground.lander().pack()
    assert free == [False]
    assert turn.take(wait=False)
    turn.drop()


def test_an_idle_round_packs(ground, thread, loose):
    thread._round(ground.lander())
    assert counts(ground) == (0, 1)


def test_objects_that_are_borrowed_stay_where_they_are(ground, loose):
    write(f"{ground.pipe.git.directory}/objects/info/alternates", f"{ground.top}/.git/objects\n")
    assert not ground.lander().pack()


@pytest.mark.needs("cc")
def test_killed_anywhere_nothing_is_lost(ground, loose, tmp_path, monkeypatch):
    shim = Shim(str(tmp_path), monkeypatch, "unlink")
    for number in numbers():
        ground.pipe.git.blob(b"%d more\n" % number)
        every = objects(ground)
        shim.kill_at(number)
        with contextlib.suppress(TaskpitError):
            ground.pipe.git.pack()
        alive = shim.counted() < number
        shim.kill_at(0)
        assert objects(ground) == every, number
        ground.pipe.git.run("fsck", "--strict")
        if alive:
            break
    assert number > 5
    assert counts(ground)[0] == 0


def test_one_that_was_just_packed_is_left_to_those_who_land(ground, loose, monkeypatch):
    """To look whether it is due takes every branch's turn for an instant."""
    monkeypatch.setattr(calls.Git, "pack", lambda _: None)
    lander = ground.lander()
    assert lander.pack()
    assert not lander.pack()
