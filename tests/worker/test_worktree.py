"""Each task in a worktree of its own: what was not committed or merged survives whatever becomes of the task."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from workshop import read_pid, until

from taskpit.keeper import sweep
from taskpit.queue import Queue
from taskpit.store.opening import init
from taskpit.task import Done, Evidence, Failed, State, Task
from taskpit.worker.worktree import GitTrouble, Worktrees


def git(cwd, *words):
    return subprocess.run(("git", *words), cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.email", "ada@example.org")
    git(root, "config", "user.name", "Ada")
    (root / "README").write_text("hello\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    return root


@pytest.fixture
def queue(tmp_path):
    init(str(tmp_path / "queue"), "pit")
    found = Queue.open(str(tmp_path / "queue"))
    yield found
    found.close()


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "run").mkdir()
    return str(tmp_path / "run")


def where(queue):
    return queue.store.info().where


def commit(path, name, text="x\n"):
    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
        file.write(text)
    git(path, "add", name)
    git(path, "-c", "user.email=a@b", "-c", "user.name=A", "commit", "-qm", f"add {name}")


def green(_path):
    return Evidence(command="true", exit_code=0)


def red(_path):
    return Evidence(command="false", exit_code=1, tail="boom")


def test_each_task_has_a_branch_of_its_own(repository, queue):
    trees = Worktrees(str(repository), where(queue))
    one, two = trees.enter("0001"), trees.enter("0002")
    assert one != two
    assert git(one, "branch", "--show-current") == "pit/0001"
    assert git(two, "branch", "--show-current") == "pit/0002"
    assert trees.enter("0001") == one


def test_a_folder_without_git_is_refused(tmp_path, queue):
    (tmp_path / "plain").mkdir()
    with pytest.raises(GitTrouble):
        Worktrees(str(tmp_path / "plain"), where(queue))


def test_the_commits_are_listed_and_an_unmerged_worktree_stays(repository, queue, run_dir):
    trees = Worktrees(str(repository), where(queue))
    path = trees.enter("0001")
    commit(path, "a.txt")
    outcome = trees.leave("0001", Done(output="did it"), run_dir, green)
    assert outcome.output.startswith("did it\n\nCommits on pit/0001:\n- ")
    assert "add a.txt" in outcome.output
    assert os.path.exists(f"{path}/a.txt")
    assert not (repository / "a.txt").exists()


@pytest.mark.parametrize("outcome", [Done(), Failed(error="no")])
@pytest.mark.parametrize("merge", ["none", "ff"])
def test_uncommitted_work_survives(repository, queue, run_dir, outcome, merge):
    trees = Worktrees(str(repository), where(queue), merge=merge)
    path = trees.enter("0001")
    with open(f"{path}/half.txt", "w", encoding="utf-8") as file:
        file.write("half")
    trees.leave("0001", outcome, run_dir, green)
    assert os.path.exists(f"{path}/half.txt")
    assert trees.enter("0001") == path


def test_a_green_branch_is_merged_checked_again_and_its_worktree_removed(repository, queue, run_dir):
    trees = Worktrees(str(repository), where(queue), merge="ff")
    path = trees.enter("0001")
    commit(path, "a.txt")
    commit(repository, "meanwhile.txt")
    looked = []

    def check(where_to_look):
        looked.append(sorted(os.listdir(where_to_look)))
        return green(where_to_look)

    outcome = trees.leave("0001", Done(), run_dir, check)
    assert "Merged." in outcome.output
    assert looked == [[".git", "README", "a.txt", "meanwhile.txt"]]
    assert (repository / "a.txt").exists()
    assert not os.path.exists(path)
    assert "add a.txt" in pathlib.Path(run_dir, "work.patch").read_text()
    assert git(repository, "branch", "--list", "pit/0001") == ""


def test_red_after_the_merge_fails_and_keeps_everything(repository, queue, run_dir):
    trees = Worktrees(str(repository), where(queue), merge="ff")
    path = trees.enter("0001")
    commit(path, "a.txt")
    outcome = trees.leave("0001", Done(), run_dir, red)
    assert isinstance(outcome, Failed)
    assert "boom" in outcome.error
    assert os.path.exists(f"{path}/a.txt")
    assert not (repository / "a.txt").exists()


def test_a_conflict_fails_and_keeps_everything(repository, queue, run_dir):
    trees = Worktrees(str(repository), where(queue), merge="ff")
    path = trees.enter("0001")
    commit(path, "same.txt", "mine\n")
    commit(repository, "same.txt", "theirs\n")
    outcome = trees.leave("0001", Done(), run_dir, green)
    assert isinstance(outcome, Failed)
    assert "conflicts" in outcome.error
    assert pathlib.Path(path, "same.txt").read_text() == "mine\n"
    assert git(path, "status", "--porcelain") == ""


def test_a_dirty_checkout_is_not_merged_over(repository, queue, run_dir):
    trees = Worktrees(str(repository), where(queue), merge="ff")
    path = trees.enter("0001")
    commit(path, "README", "changed\n")
    (repository / "README").write_text("somebody edits this\n")
    outcome = trees.leave("0001", Done(), run_dir, green)
    assert isinstance(outcome, Failed)
    assert (repository / "README").read_text() == "somebody edits this\n"
    assert os.path.exists(path)


def test_uncommitted_work_survives_a_killed_pool_sweeps_and_the_next_attempt(repository, pit):
    (task,) = pit.put("half a job")
    env_script = "if [ -e half.txt ]; then cat half.txt; else echo half > half.txt; echo $$ > started; sleep 60; fi"
    words = ("-n", "1", "--lease", "1s", "--worktree", "--merge", "ff", "--until", "empty")
    argv = [sys.executable, "-m", "taskpit", "-C", pit.root, "work", *words, "--", "sh", "-c", env_script]
    path = f"{pit.root}/.taskpit/worktrees/{task}"
    with open(os.devnull, "wb") as nowhere:
        pool = subprocess.Popen(argv, cwd=repository, stdout=nowhere, stderr=nowhere)
        read_pid(f"{path}/started")
        pool.kill()
        pool.wait()
        until(lambda: sweep(pit.queue))
        sweep(pit.queue)
        assert pathlib.Path(path, "half.txt").read_text() == "half\n"
        subprocess.run(argv, cwd=repository, stdout=nowhere, stderr=nowhere, check=True)
    assert pit.card(task).state is State.DONE
    assert "uncommitted changes" in pit.card(task).result.output
    assert pathlib.Path(path, "half.txt").read_text() == "half\n"


def test_the_queue_is_found_from_inside_a_worktree(repository, queue, tmp_path):
    from taskpit.store.opening import discover

    init(str(repository / "pit"), "pit")
    path = Worktrees(str(repository), where(queue)).enter("0001")
    assert discover(path, {}) == str(repository / "pit")


def test_a_pool_gives_each_task_its_worktree(repository, queue):
    from taskpit.worker import progress
    from taskpit.worker.orders import Orders
    from taskpit.worker.pool import Pool
    from taskpit.worker.runner import CommandRunner

    queue.put([Task(id="", title=f"make {name}", check=f"test -s {name}.txt", body=name) for name in ("a", "b", "c")])
    script = (
        "name=$(tail -n 1 {task_file}); echo $name > $name.txt; git add .; "
        "git -c user.email=a@b -c user.name=A commit -qm $name"
    )
    runner = CommandRunner(("sh", "-c", script), cwd=str(repository))
    trees = Worktrees(str(repository), where(queue), merge="ff")
    orders = Orders(slots=3, until_empty=True, check_in=str(repository), worktrees=trees)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        report = Pool(queue, runner, orders, progress.choose(nowhere, {})).run()
    assert report.tally == {"done": 3}
    assert {name for name in os.listdir(repository) if name.endswith(".txt")} == {"a.txt", "b.txt", "c.txt"}
    assert len(git(repository, "log", "--oneline").splitlines()) == 4
