"""Proof that is hard to cheat: frozen paths are the target's, and a check that was green before proves nothing."""

from __future__ import annotations

import os

import pytest
from ground import Ground, git, write
from workshop import Pit

from taskpit.model import Failed, State
from taskpit.policy import LANDING


@pytest.fixture
def frozen(tmp_path):
    made = Ground(tmp_path / "frozen", frozen=("tests/**", "Makefile"))
    made.commit("tests/test_it.sh", "test -s answer.txt\n")
    made.commit("tests/deep/more.sh", "true\n")
    yield made
    made.close()


def test_an_edited_test_is_the_targets_in_what_is_checked_and_landed(frozen):
    task = frozen.put(check="sh tests/test_it.sh")
    outcome = frozen.work(task, tests__test_it_dot_sh="true\n", tests__extra_dot_sh="x")
    assert isinstance(outcome, Failed)  # nothing but frozen paths was changed
    claim, path = frozen.enter(task)
    write(f"{path}/other.txt")
    outcome = frozen.hand_in(claim)
    assert "green only with files that are not committed (tests/extra.sh), which do not land" in outcome.error
    claim, path = frozen.enter(task)
    write(f"{path}/answer.txt", "42\n")
    frozen.hand_in(claim)
    frozen.land(task)
    assert frozen.card(task).state is State.DONE
    assert git(frozen.top, "show", "main:tests/test_it.sh") == "test -s answer.txt"
    assert frozen.files() == {"README", "answer.txt", "other.txt", "tests/test_it.sh", "tests/deep/more.sh"}


@pytest.mark.parametrize("kind", ["deleted", "a link instead", "a file instead"])
def test_a_frozen_directory_that_was_replaced_is_back(frozen, kind):
    task = frozen.put()
    claim, path = frozen.enter(task)
    os.rename(f"{path}/tests", f"{path}/moved")
    if kind == "a link instead":
        os.symlink("moved", f"{path}/tests")
    elif kind == "a file instead":
        write(f"{path}/tests", "x")
    frozen.hand_in(claim)
    frozen.land(task)
    tree = git(frozen.top, "ls-tree", "-r", "main")
    assert "120000" not in tree
    assert {"tests/test_it.sh", "tests/deep/more.sh", "moved/test_it.sh"} <= frozen.files()


def test_frozen_means_the_target_as_it_is_now_not_as_it_was_at_the_base(frozen):
    task = frozen.put(check="grep -q stricter tests/test_it.sh")
    claim, path = frozen.enter(task)
    frozen.commit("tests/test_it.sh", "stricter\n")
    write(f"{path}/answer.txt")
    write(f"{path}/tests/test_it.sh", "mine\n")
    frozen.hand_in(claim)
    frozen.land(task)
    assert frozen.card(task).state is State.DONE  # and no conflict, although both changed it
    assert git(frozen.top, "show", "main:tests/test_it.sh") == "stricter"


def test_a_task_may_freeze_more_than_its_pool_and_never_less(frozen):
    task = frozen.put(extra={"frozen": "README"})
    claim, path = frozen.enter(task)
    write(f"{path}/README", "changed\n")
    write(f"{path}/tests/test_it.sh", "changed\n")
    write(f"{path}/a.txt")
    frozen.hand_in(claim)
    assert frozen.card(task).held == f"{LANDING} on main"
    assert frozen.card(task).task.extra["candidate"]["files"] == 1


@pytest.fixture
def pit(tmp_path):
    made = Pit(tmp_path / "pit")
    yield made
    made.close()


def test_a_check_that_is_green_before_the_work_is_asked_about_once(pit):
    from taskpit.run.runner import CommandRunner

    body = (
        "**Question:** its check is green before anything was done: true\n\n**Answer** (ada): go on\n"  # a stranger's
    )
    (task,) = pit.put("one", check="true", extra={"red-first": "yes"}, body=body)
    (red,) = pit.put("two", check="test -e made", extra={"red-first": "yes"})
    runner = CommandRunner(("sh", "-c", "touch made"), cwd=pit.root)
    assert pit.work_once(runner).word == "asked"
    assert "green before anything was done" in pit.card(task).held
    assert pit.card(task).task.attempts == 0
    assert pit.work_once(runner).word == "done"
    assert pit.card(red).state is State.DONE
    pit.queue.answer(task, "go on, the check is meant to stay green", "ada")
    assert pit.work_once(runner).word == "done"
