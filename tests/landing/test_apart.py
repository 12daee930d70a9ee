"""The person's branch and what landed on it have gone apart: both come together, and what was taken out stays out."""

from __future__ import annotations

import shlex

import pytest
from ground import Ground, git, write

from taskpit.task import State


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
    assert "commits that conflict with what has landed: a.txt" in ground.pit("status")
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
