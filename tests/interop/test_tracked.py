"""A queue in git's commits: real branches, merges and clones, and what the next command makes of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from taskpit.errors import Invalid
from taskpit.model import Done, Failed, State, Task
from taskpit.queue import Queue
from taskpit.store.git_tracked import ELSEWHERE

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")


class Checkout:
    """A checkout with a tracked queue in it."""

    def __init__(self, top):
        self.top = str(top)
        self.root = f"{self.top}/pit"

    def git(self, *words):
        who = ["-c", "user.name=Ann", "-c", "user.email=ann@home"]
        ran = subprocess.run(["git", "-C", self.top, *who, *words], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def pit(self, *words):
        command = [sys.executable, "-m", "taskpit", "-C", self.root, *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.top)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def queue(self):
        """Opened anew, as each command does; what was written a moment ago is old enough to be judged."""
        for place, _, names in os.walk(self.root):
            for name in names:
                if not os.path.islink(f"{place}/{name}"):
                    os.utime(f"{place}/{name}", (1e9, 1e9))
        return Queue.open(self.root)

    def put(self, title):
        queue = self.queue()
        task_id = queue.put([Task(id="", title=title)])[0][0]
        queue.close()
        return task_id

    def end(self, task_id, outcome):
        queue = self.queue()
        queue.finish(queue.claim("ann", ids=[task_id])[0], outcome)
        queue.close()

    def states(self):
        queue = self.queue()
        found = {card.task.title: card.state for card in queue.store.page().cards}
        assert sum(queue.store.counts().values()) == len(found)
        assert os.listdir(f"{self.root}/.taskpit/quarantine") == []
        queue.close()
        return found


@pytest.fixture
def checkout(tmp_path):
    made = Checkout(tmp_path / "project")
    os.mkdir(made.top)
    made.git("init", "-qb", "main")
    told = subprocess.run(
        [sys.executable, "-m", "taskpit", "init", "--git", "track"],
        cwd=made.top,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Git tracks its tasks" in told.stdout
    made.commit("a queue")
    return made


READY, DONE, FAILED = State.READY, State.DONE, State.FAILED


def test_two_branches_are_merged(checkout):
    first, second, third = (checkout.put(title) for title in ("first", "second", "third"))
    assert not any(one.isdigit() for one in (first, second, third))
    checkout.commit("three tasks")
    assert checkout.git("status", "--short") == ""
    tracked = set(checkout.git("ls-files").split())
    assert {f"pit/food/food-{first}-first.md", "pit/.taskpit/config.toml", "pit/.taskpit/layout"} <= tracked
    assert not any("/ids/" in name or "changelog" in name for name in tracked)

    checkout.git("checkout", "-qb", "other")
    checkout.end(first, Done(output="did it"))
    checkout.end(second, Failed(error="no", final=True))
    checkout.put("fourth")
    checkout.commit("other")
    assert checkout.states() == {"first": DONE, "second": FAILED, "third": READY, "fourth": READY}

    checkout.git("checkout", "-q", "main")
    assert checkout.states() == {"first": READY, "second": READY, "third": READY}
    assert checkout.git("status", "--short") == ""  # looking changed nothing that git has
    checkout.end(third, Done(output="done here"))
    checkout.put("fifth")
    checkout.commit("main")
    checkout.git("merge", "-qm", "both", "other")
    merged = {"first": DONE, "second": FAILED, "third": DONE, "fourth": READY, "fifth": READY}
    assert checkout.states() == merged
    assert checkout.git("status", "--short") == ""
    queue = checkout.queue()
    assert queue.card(first).result.output.strip() == "did it"
    assert {claim.task.title for claim in queue.claim("ann", count=9)} == {"fourth", "fifth"}
    queue.close()


def test_what_was_done_on_one_branch_can_be_done_again_on_another(checkout):
    task = checkout.put("twice")
    checkout.commit("a task")
    checkout.git("checkout", "-qb", "other")
    checkout.end(task, Done(output="there"))
    checkout.commit("there")
    checkout.git("checkout", "-q", "main")
    checkout.end(task, Done(output="here"))
    queue = checkout.queue()
    assert queue.card(task).result.output.strip() == "here"
    queue.close()
    checkout.commit("here")
    checkout.git("checkout", "-q", "other")
    queue = checkout.queue()
    assert queue.card(task).result.output.strip() == "there"
    assert any(name.startswith(task) for name in os.listdir(f"{checkout.root}/{ELSEWHERE}"))  # nothing is thrown away
    queue.close()
    assert checkout.git("status", "--short") == ""


def test_who_works_while_the_branch_is_switched_keeps_its_task(checkout):
    task = checkout.put("long")
    checkout.commit("a task")
    queue = checkout.queue()
    (claim,) = queue.claim("ann")
    checkout.git("checkout", "-qb", "other")
    again = checkout.queue()
    assert again.card(task).state is State.CLAIMED
    again.close()
    queue.finish(claim, Done(output="ok"))
    assert queue.card(task).state is State.DONE
    queue.close()


def test_a_clone_has_the_tasks_and_no_trust(checkout, tmp_path):
    checkout.put("shared")
    checkout.commit("a task")
    checkout.git("clone", "-q", checkout.top, str(tmp_path / "clone"))
    clone = Checkout(tmp_path / "clone")
    assert clone.states() == {"shared": READY}
    (task,) = json.loads(clone.pit("list", "--json"))["data"]
    clone.end(task["id"], Done(output="in the clone"))
    clone.commit("done in the clone")
    checkout.git("pull", "-q", clone.top, "main")
    assert checkout.states() == {"shared": DONE}


def test_other_layouts_are_not_tracked(tmp_path):
    command = [sys.executable, "-m", "taskpit", "init", "q", "--layout", "mailbox", "--git", "track"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "only a queue of layout pit can be tracked" in ran.stderr
    assert not (tmp_path / "q").exists()


def test_results_stay_where_the_commits_have_them(checkout):
    """An archive is in no commit: after the next one nobody knew what was done, and it could be put in again."""
    first = checkout.put("first")
    checkout.end(first, Done(output="did it"))
    queue = checkout.queue()
    with pytest.raises(Invalid, match="would not be committed"):
        queue.store.archive(0.0)
    queue.store.folder.config = queue.config.replace(keep_results=1.0)
    assert queue.store.compost() == []
    queue.close()
    checkout.commit("a result")
    assert checkout.states() == {"first": DONE}


@pytest.mark.parametrize("away", ["archived", "pruned"])
def test_what_was_put_away_before_git_had_the_queue_is_still_known(tmp_path, away):
    made = Checkout(tmp_path / "project")
    os.mkdir(made.top)
    made.git("init", "-qb", "main")
    os.mkdir(made.root)
    made.pit("init", made.root)
    first = made.put("first")
    made.end(first, Done(output="did it"))
    queue = made.queue()
    queue.store.folder.config = queue.config.replace(keep_results=1.0 if away == "pruned" else 0.0)
    assert [mend.what for mend in queue.store.archive(0.0) + queue.store.compost()][-1] == first
    queue.close()
    made.pit("init", made.root, "--git", "track")
    made.commit("a queue")
    assert made.states() == {"first": DONE}
