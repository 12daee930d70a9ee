"""Repositories as people have them: shallow, bare with worktrees, cleaned, renamed, full; and names that are odd."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import pytest
from faults import killed_at, record
from ground import Ground, git, read, write

from taskpit.errors import Invalid
from taskpit.landing import review
from taskpit.landing.pipe import LandingPipe
from taskpit.landing.repository import Repository
from taskpit.model import State
from taskpit.queue import Queue
from taskpit.store.opening import init


def from_another(ground, top):
    """The ground's tasks land in this repository from now on."""
    ground.top = top
    ground.pipe = ground.new_pipe()


def carry(ground, **files):
    """One task from its clone to the person's branch; its id."""
    task = ground.put()
    ground.work(task, **files)
    ground.land(task)
    return task


def test_a_shallow_clone(ground):
    ground.commit("second.txt")
    ground.commit("third.txt")
    git(ground.folder, "clone", "-q", "--depth", "1", f"file://{ground.top}", "shallow")
    from_another(ground, f"{ground.folder}/shallow")
    first = carry(ground, a_dot_txt="x")
    second = carry(ground, b_dot_txt="x")
    assert [ground.card(task).state for task in (first, second)] == [State.DONE] * 2
    assert ground.pipe.behind() == []
    assert ground.log() == ["do it", "do it", "add third.txt"]
    assert git(ground.top, "status", "--porcelain") == ""


def test_a_bare_repository_with_worktrees(ground):
    git(ground.folder, "clone", "-q", "--bare", ground.top, "bare.git")
    git(f"{ground.folder}/bare.git", "worktree", "add", "-q", f"{ground.folder}/tree", "main")
    from_another(ground, f"{ground.folder}/tree")
    task = carry(ground, a_dot_txt="x")
    assert ground.card(task).state is State.DONE
    assert read(f"{ground.top}/a.txt") == "x"
    assert git(ground.top, "status", "--porcelain") == ""


def test_a_repository_that_borrows_its_objects(ground):
    git(ground.folder, "clone", "-q", "--shared", ground.top, "borrower")
    from_another(ground, f"{ground.folder}/borrower")
    task = carry(ground, a_dot_txt="x")
    assert ground.card(task).state is State.DONE
    assert read(f"{ground.top}/a.txt") == "x"


def test_the_person_cleans_up_between_any_two_steps(ground):
    def clean():
        git(ground.top, "reflog", "expire", "--expire=now", "--all")
        git(ground.top, "gc", "-q", "--prune=now", "--aggressive")

    task = ground.put()
    claim, path = ground.enter(task)
    ground.commit("theirs.txt")
    git(ground.top, "reset", "-q", "--hard", "HEAD~1")
    clean()
    write(f"{path}/a.txt")
    ground.hand_in(claim)
    clean()
    ground.land(task)
    clean()
    assert ground.files() == {"README", "a.txt"}
    assert git(ground.top, "fsck", "--no-dangling") == ""
    carry(ground, b_dot_txt="x")
    assert ground.files() == {"README", "a.txt", "b.txt"}


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_a_branch_that_is_gone_in_the_night_is_told_and_nothing_is_lost(ground, how):
    task, later = ground.put("one"), ground.put("two")
    ground.work(task, a_dot_txt="x")
    git(ground.top, "checkout", "-q", "-b", "else")
    git(ground.top, "branch", *(["-D", "main"] if how == "deleted" else ["-m", "main", "trunk"]))
    lander = ground.lander()
    for _ in range(3):
        for handed in lander.waiting():
            lander.land(handed)
    card = ground.card(task)
    assert (card.state, card.task.attempts) == (State.READY, 0)
    assert f"there is no branch 'main' in {ground.top}" in card.held
    assert git(ground.top, "branch", "--list", "main") == ""
    with pytest.raises(Invalid, match="there is no branch 'main'"):
        ground.pool("true")
    git(ground.top, "branch", "main", "else")
    review.approve(ground.queue, task, "ada")
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert ground.files() == {"README", "a.txt"}
    assert ground.card(later).state is State.READY


def on_a_branch(ground, name, was=""):
    """The person is on a new branch, and has one less if `was` names one; what they do lands there from now on."""
    git(ground.top, "checkout", "-q", *(["main"] if was else ["-b", name]))
    if was:
        git(ground.top, "branch", "-q", "-D", was)
        git(ground.top, "checkout", "-q", "-b", name)
    ground.terms = ground.terms.replace(onto=name)
    ground.pipe = ground.new_pipe()


#: Git has no two branches of which one is below the other.
BELOW = [("release/1", "release"), ("release", "release/1/2")]


@pytest.mark.parametrize(("old", "new"), BELOW)
def test_a_branch_in_the_place_of_one_that_is_gone_is_landed_on(ground, old, new):
    on_a_branch(ground, old)
    carry(ground, a_dot_txt="x")
    on_a_branch(ground, "beside")
    carry(ground, b_dot_txt="x")
    on_a_branch(ground, new, old)
    task = carry(ground, c_dot_txt="x")
    assert ground.card(task).state is State.DONE
    assert ground.files(new) == {"README", "c.txt"}
    assert ground.files("beside") == {"README", "a.txt", "b.txt"}
    refs = git(ground.pipe.git.directory, "for-each-ref", "--format=%(refname)", "refs/pit/line").splitlines()
    assert refs == ["refs/pit/line/beside", f"refs/pit/line/{new}"]


@pytest.mark.parametrize(("old", "new"), BELOW)
def test_what_landed_on_a_branch_that_is_gone_is_not_lost_to_one_in_its_place(ground, old, new):
    on_a_branch(ground, old)
    write(f"{ground.top}/README", "dirty\n")
    landed = carry(ground, a_dot_txt="x")
    git(ground.top, "checkout", "-q", "README")
    on_a_branch(ground, new, old)
    task = ground.put("two")
    ground.pool("echo x > b.txt")
    card = ground.card(task)
    assert card.held.startswith(f"something landed on {old}, which you have no longer")
    for words in card.held.split("`git ")[1:]:
        git(ground.top, *shlex.split(words.partition("`")[0]))
    assert ground.files(f"{old.replace('/', '-')}-landed") == {"README", "a.txt"}
    ground.queue.unblock(task, "ada@here")
    ground.pool("echo x > b.txt")
    assert ground.files(new) == {"README", "b.txt"}
    assert [ground.card(one).state for one in (landed, task)] == [State.DONE] * 2


def test_killed_anywhere_while_room_is_made_for_a_branch(ground):
    on_a_branch(ground, "release/1")
    carry(ground, a_dot_txt="x")
    on_a_branch(ground, "release", "release/1")
    ground.pipe.repository.open()
    shutil.copytree(ground.pipe.git.directory, f"{ground.folder}/kept", symlinks=True)
    with record() as calls:
        ground.pipe.repository.sync("release")
    numbers = [number for number, (call, _) in enumerate(calls, 1) if call == "git"]
    assert len(numbers) > 5
    for number in numbers:
        shutil.rmtree(ground.pipe.git.directory)
        shutil.copytree(f"{ground.folder}/kept", ground.pipe.git.directory, symlinks=True)
        with killed_at(number):
            ground.pipe.repository.sync("release")
        assert ground.pipe.repository.sync("release") == git(ground.top, "rev-parse", "release"), number


def test_two_queues_on_one_repository(ground):
    root = f"{ground.folder}/other"
    init(root, "pit")
    shutil.copy(f"{ground.root}/.taskpit/config.toml", f"{root}/.taskpit/config.toml")
    other = Ground.__new__(Ground)
    other.__dict__.update(ground.__dict__)
    other.root, other.queue = root, Queue.open(root)
    other.pipe = LandingPipe(Repository(ground.top), os.path.realpath(root), ground.terms)
    mine, theirs = ground.put("mine"), other.put("theirs")
    assert mine == theirs
    ground.work(mine, a_dot_txt="x")
    other.work(theirs, b_dot_txt="x")
    assert list(ground.pipe.waiting()) == [mine]
    ground.land(mine)
    other.land(theirs)
    assert (ground.card(mine).state, other.card(theirs).state) == (State.DONE, State.DONE)
    assert ground.log() == ["theirs", "mine", "begin"]
    other.queue.close()


def test_what_killed_processes_left_is_gone_after_days_and_nothing_else(ground):
    carry(ground, a_dot_txt="x")
    folder = ground.pipe.repository.folder
    kinds = ("check/0001.{}/node_modules/x", "git/index.{}", "git.{}/HEAD")
    for kind in kinds:
        for age in ("old", "new"):
            path = f"{folder}/{kind.format(age)}"
            write(path)
            if age == "old":
                os.utime(folder + path.removeprefix(folder).replace("/node_modules/x", "").replace("/HEAD", ""), (1, 1))
    ground.new_pipe().repository.open()
    there = [os.path.exists(f"{folder}/{kind.format(age)}") for age in ("old", "new") for kind in kinds]
    assert there == [False] * 3 + [True] * 3
    carry(ground, b_dot_txt="x")
    assert ground.files() == {"README", "a.txt", "b.txt"}


def test_names_that_are_odd(ground):
    ground.commit("Name.txt")
    task = ground.put()
    claim, path = ground.enter(task)
    os.rename(f"{path}/Name.txt", f"{path}/name.TXT")
    names = [
        "a\nb",
        "tab\there",
        'quo"te',
        "back\\slash",
        " leading",
        "trailing ",
        "ünï",
        "x" * 200,
        "a=b",
        "~1",
        "@{u}",
    ]
    for name in names:
        write(f"{path}/{name}")
    with open(os.fsencode(path) + b"/\xff\xfe", "wb") as file:
        file.write(b"\0\xff")
    os.symlink("nowhere", f"{path}/dangling")
    os.makedirs(f"{path}/empty/deeper")
    ground.hand_in(claim)
    ground.land(task)
    there = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "--name-only", "main"], cwd=ground.top, capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    wanted = {os.fsencode(name) for name in (*names, "README", "name.TXT", "dangling")} | {b"\xff\xfe"}
    assert set(there) == wanted
    assert ground.card(task).state is State.DONE
    assert git(ground.top, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", [".GIT/config", "git~1/config", "sub/.git./x"])
def test_names_that_git_would_not_check_out_everywhere_wait_for_a_person(ground, name):
    ground.put()
    _, printed = ground.pool(f"mkdir -p \"$(dirname '{name}')\"; echo x > '{name}'; echo y > y.txt")
    card = ground.card("0001")
    assert card.state is State.READY, printed
    assert "could not be handed in" in card.held
    assert ground.log() == ["begin"]


def test_a_large_file_is_asked_about_and_lands_once_it_was_seen(ground):
    claim, path = ground.enter(ground.put())
    with open(f"{path}/large.bin", "wb") as file:
        file.truncate(6 * 1024 * 1024)
    outcome = ground.hand_in(claim)
    assert "large.bin is new and large (6 MB)" in outcome.reason
    review.approve(ground.queue, "0001", "ada")
    ground.land("0001")
    assert os.path.getsize(f"{ground.top}/large.bin") == 6 * 1024 * 1024
