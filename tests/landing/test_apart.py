"""The person's branch and what landed on it have gone apart: both come together, and what was taken out stays out."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from ground import Ground, git, write

from taskpit.landing.repository import Repository
from taskpit.landing.values import Waits
from taskpit.model import Done, Release, State, Want


class Meanwhile:
    """The ground's hands, with a person who does something while the landing check runs."""

    def __init__(self, hands, act):
        self.hands, self.act = hands, act

    def run(self, command, *rest, **more):
        if command == "landing":
            self.act()
            command = "true"
        return self.hands.run(command, *rest, **more)

    def say(self, text):
        self.hands.say(text)


@pytest.fixture
def ground(tmp_path):
    made = Ground(tmp_path, land_check="landing")
    yield made
    made.close()


def land_while(ground, act, task="", **files):
    """A task's files are handed in, and landed while the person acts; its id."""
    task = task or ground.put("one")
    ground.work(task, **(files or {"a_dot_txt": "a\n"}))
    ground.hands = Meanwhile(ground.hands, act)
    ground.land(task)
    ground.hands = ground.hands.hands
    assert ground.card(task).state is State.DONE
    return task


def test_what_a_person_commits_while_something_lands_is_merged_and_their_branch_has_both(ground):
    land_while(ground, lambda: ground.commit("mine.txt"))
    assert ground.files() == {"README", "a.txt", "mine.txt"}
    assert git(ground.top, "status", "--porcelain") == ""
    assert ground.pipe.behind() == []


def test_a_later_look_merges_what_could_not_be_merged_at_once(ground):
    def act():
        ground.commit("mine.txt")
        write(f"{ground.top}/README", "dirty\n")

    land_while(ground, act)
    assert ground.files() == {"README", "mine.txt"}
    git(ground.top, "checkout", "-q", "README")
    assert "your branch has what landed" in ground.pit("sweep")
    assert ground.files() == {"README", "a.txt", "mine.txt"}


def test_where_both_conflict_the_reason_has_the_commands(ground):
    land_while(ground, lambda: ground.commit("a.txt", "mine\n"))
    (told,) = ground.pipe.publish()
    assert told in ground.pit("status", COLUMNS="80").splitlines()  # to its last word, however narrow the terminal
    fetch, merge = (words.partition("`")[0] for words in told.split("`git ")[1:])
    git(ground.top, *shlex.split(fetch))
    git(ground.top, *shlex.split(merge.replace("merge", "merge -q -X ours")))
    assert ground.pipe.publish() == []
    assert ground.pipe.behind() == []
    assert git(ground.top, "show", "main:a.txt") == "mine"


def test_a_branch_that_changes_once_more_meanwhile_is_brought_there_by_the_next_look(ground, monkeypatch):
    repository = ground.pipe.repository
    real = type(repository).sync

    def sync(self, branch):
        line = real(self, branch)
        monkeypatch.undo()
        ground.commit("more.txt")
        return line

    def act():
        ground.commit("mine.txt")
        monkeypatch.setattr(type(repository), "sync", sync)

    land_while(ground, act)
    assert "changed in this very moment" in ground.pipe.behind()[0]
    assert ground.files() == {"README", "mine.txt", "more.txt"}
    assert ground.pipe.publish() == []
    assert ground.files() == {"README", "a.txt", "mine.txt", "more.txt"}


def test_what_is_taken_out_while_the_checkout_is_looked_at_stays_out(ground, monkeypatch):
    """In a large one that takes seconds."""
    with_a_secret(ground)
    real = Repository._changed

    def changed(self, place):
        found = real(self, place)
        monkeypatch.undo()
        reset(ground)
        return found

    land_while(ground, lambda: monkeypatch.setattr(Repository, "_changed", changed))
    assert "changed in this very moment" in ground.pipe.behind()[0]
    assert ground.log() == ["begin"]
    assert ground.pipe.publish() == []
    assert ground.log() == ["one", "begin"]


def with_a_secret(ground):
    ground.commit("secret.txt")
    assert ground.log() == ["add secret.txt", "begin"]


def reset(ground):
    git(ground.top, "reset", "-q", "--hard", "HEAD~1")


def amend(ground):
    git(ground.top, "rm", "-q", "secret.txt")
    ground.commit("better.txt", message="x")
    git(ground.top, "reset", "-q", "--soft", "HEAD~2")
    git(ground.top, "commit", "-qm", "amended")


#: What a person does to their last commit, and what is on their branch beside what landed.
REWRITES = {"reset": (reset, ["begin"], {"README"}), "amended": (amend, ["amended", "begin"], {"README", "better.txt"})}


@pytest.mark.parametrize("how", REWRITES)
def test_what_a_person_takes_out_while_something_lands_stays_out(ground, how):
    act, log, files = REWRITES[how]
    with_a_secret(ground)
    land_while(ground, lambda: act(ground))
    assert ground.log() == ["one", *log]
    assert ground.files() == files | {"a.txt"}
    assert git(ground.top, "status", "--porcelain") == ""
    land_while(ground, lambda: None, ground.put("two"), b_dot_txt="b\n")
    assert ground.log() == ["two", "one", *log]


@pytest.mark.parametrize("how", REWRITES)
def test_what_a_person_takes_out_before_their_branch_is_brought_there_stays_out(ground, how):
    """Two have landed, and one of them with a merge of the person's own; the checkout is dirty meanwhile."""
    act, log, files = REWRITES[how]
    ground.commit("first.txt")
    land_while(ground, lambda: write(f"{ground.top}/README", "dirty\n"))
    git(ground.top, "stash", "-q")
    with_commits = ground.log()
    ground.commit("secret.txt")
    git(ground.top, "stash", "pop", "-q")
    land_while(ground, lambda: None, ground.put("two"), b_dot_txt="b\n")
    assert ground.log() == ["add secret.txt", *with_commits]
    git(ground.top, "checkout", "-q", "README")
    act(ground)
    ground.pit("sweep")
    assert ground.log() == ["two", "one", *log[:-1], *with_commits]
    assert ground.files() == files | {"a.txt", "b.txt", "first.txt"}
    assert ground.pipe.behind() == []


def test_what_needs_a_change_that_was_made_again_begins_with_it(ground):
    with_a_secret(ground)
    task = land_while(ground, lambda: reset(ground))
    two = ground.put("two", needs=(task,))
    _, path = ground.enter(two)
    assert sorted(os.listdir(path)) == [".git", "README", "a.txt"]


def test_what_needs_a_change_that_a_person_took_out_waits(ground):
    task = land_while(ground, lambda: None)
    reset(ground)
    with pytest.raises(Waits, match=f"{task}, which it needs, landed elsewhere"):
        ground.enter(ground.put("two", needs=(task,)))


def test_a_title_that_looks_like_a_candidate_lands_nothing_else(ground):
    """Of a message only what stands below the title counts."""
    task = land_while(ground, lambda: None)
    candidate = git(ground.top, "log", "-1", "--format=%(trailers:key=Candidate,valueonly)")
    reset(ground)
    land_while(ground, lambda: None, ground.put(f"Candidate: {candidate}"), b_dot_txt="b\n")
    with pytest.raises(Waits):
        ground.enter(ground.put("two", needs=(task,)))


def test_landed_and_not_sealed_it_is_sealed_once_it_was_made_again(ground):
    with_a_secret(ground)
    task = ground.put("one")
    ground.work(task, a_dot_txt="a\n")
    ground.terms = ground.pipe.terms = ground.terms.replace(land_check="")
    claim = ground.queue.store.claim(Want(worker="first", lease=60.0, ids=(task,), even_held=True))[0]
    ground.hands = Meanwhile(ground.hands, lambda: None)
    assert isinstance(ground.pipe.land(claim, ground.hands, lambda: True), Done)
    ground.queue.finish(claim, Release())  # killed before its seal
    reset(ground)
    ground.work(ground.put("two"), a_dot_txt="and on\n")  # begun with it; merging it once more would conflict
    ground.land("0002")
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert ground.log() == ["two", "one", "begin"]


def test_what_conflicts_with_a_reset_is_brought_by_the_commands_that_are_told(ground):
    with_a_secret(ground)
    land_while(ground, lambda: reset(ground), secret_dot_txt="changed\n", a_dot_txt="a\n")
    (told,) = ground.pipe.publish()
    assert "main was reset, amended or rebased, and what has landed since conflicts with it: secret.txt" in told
    assert ground.log() == ["begin"]
    fetch, pick = (words.partition("`")[0] for words in told.split("`git ")[1:])
    git(ground.top, *shlex.split(fetch))
    picked = subprocess.run(("git", *shlex.split(pick)), cwd=ground.top, capture_output=True, check=False)
    assert b"secret.txt" in picked.stdout
    git(ground.top, "rm", "-q", "secret.txt")
    git(ground.top, "-c", "core.editor=true", "cherry-pick", "--continue")
    assert ground.pipe.publish() == []
    land_while(ground, lambda: None, ground.put("two"), b_dot_txt="b\n")
    assert ground.log() == ["two", "one", "begin"]
    assert ground.files() == {"README", "a.txt", "b.txt"}
