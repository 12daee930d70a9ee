"""A repository and a queue whose tasks land in it: real git, stand-in agents."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
from functools import cache
from unittest import mock

from world import keep, require

from taskpit.cli.main import main
from taskpit.landing.lander import Lander
from taskpit.landing.pipe import LandingPipe
from taskpit.landing.repository import Repository
from taskpit.landing.values import Terms
from taskpit.model import Done, Task
from taskpit.queue import Queue
from taskpit.run import pool_display
from taskpit.run.landing_thread import pipe_for
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions
from taskpit.run.process import run_check
from taskpit.run.runner import CommandRunner
from taskpit.store.opening import init

CONFIG = 'durability = "process"\nlease = "1m"\nbackoff = "0s"\nbackoff_longest = "0s"\n'


def git(cwd, *words, **env):
    """What git says there."""
    known = {**os.environ, **env}
    ran = subprocess.run(("git", *words), cwd=cwd, check=False, capture_output=True, text=True, env=known)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def make_repository(path, objects="sha1"):
    """A repository with one commit, whose author is Ada; where there is no git, the test is skipped."""
    require("git")
    shutil.copytree(_begun(objects), path, dirs_exist_ok=True)


@cache
def _begun(objects):
    path = keep("repository")
    write(f"{path}/README", "hello\n")
    git(path, "init", "-q", "-b", "main", "--template=", f"--object-format={objects}")
    with open(f"{path}/.git/config", "a", encoding="utf-8") as file:
        file.write("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    git(path, "add", "README")
    git(path, "commit", "-qm", "begin")
    return path


def own_state(folder, monkeypatch):
    """Nothing of the user's own is met, and nothing is left there."""
    require("git")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (folder / "home").mkdir()


def write(path, text="x\n"):
    """A file with its folders."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


class Hands:
    """Runs commands and remembers them."""

    def __init__(self):
        self.ran = []
        self.said = []

    def run(self, command, directory, limit, log="", env=()):
        self.ran.append((command, sorted(os.listdir(directory))))
        return run_check(command, directory, limit, log=log)

    def say(self, text):
        self.said.append(text)


class Ground:
    """One repository, one queue, one pipe."""

    def __init__(self, folder, layout="pit", objects="sha1", **terms):
        self.folder = str(folder)
        self.top = f"{folder}/repository"
        make_repository(self.top, objects)
        self.hands = Hands()
        self.terms = Terms(**{"land": "merge", "onto": "main", **terms})
        self.make_queue(f"{folder}/queue", layout)

    def make_queue(self, root, layout="pit"):
        """A new queue is there, and is ours; what was in its place is moved away."""
        if os.path.exists(root):
            self.queue.close()
            os.rename(root, f"{root}.before")
        self.root = root
        init(self.root, layout)
        write(f"{self.root}/.taskpit/config.toml", CONFIG)
        self.queue = Queue.open(self.root)
        self.pipe = self.new_pipe()

    def new_pipe(self):
        return LandingPipe(Repository(self.top), os.path.realpath(self.root), self.terms)

    def commit(self, name, text="x\n", message=""):
        """The person commits a file."""
        write(f"{self.top}/{name}", text)
        git(self.top, "add", name)
        git(self.top, "commit", "-qm", message or f"add {name}")

    def put(self, title="do it", **fields):
        """The id of a new task."""
        return self.queue.put([Task(id="", title=title, **fields)])[0][0]

    def card(self, task_id):
        return self.queue.card(task_id)

    def claim(self, task_id, worker="snake-1"):
        return self.queue.claim(worker, ids=(task_id,))[0]

    def enter(self, task_id):
        """It is claimed and has its clone: both."""
        claim = self.claim(task_id)
        return claim, self.pipe.enter(claim.task, self.hands)

    def hand_in(self, claim, output="did it"):
        """The work is handed in, and the claim ended so; the outcome."""
        outcome = self.pipe.hand_in(claim, Done(output=output), self.hands)
        self.queue.finish(claim, outcome)
        return outcome

    def work(self, task_id, **files):
        """A stand-in agent writes these files (`__` is a slash, `_dot_` a dot) and hands in; the outcome."""
        claim, path = self.enter(task_id)
        for name, text in files.items():
            write(f"{path}/{name.replace('__', '/').replace('_dot_', '.')}", text)
        return self.hand_in(claim)

    def lander(self, pipe=None, worker="lander"):
        return Lander(self.queue, pipe or self.pipe, worker, self.hands)

    def land(self, task_id):
        """It is landed; what the lander says."""
        lander = self.lander()
        handed = next(one for one in lander.waiting() if one.task == task_id)
        return lander.land(handed)

    def pool(self, script, slots=1, limit=600.0, sandbox=None, review_limit=0, **terms):
        """A pool has run until nothing was left, by a script or a function; its report and what it printed."""
        runner = script if callable(script) else CommandRunner(("sh", "-c", script), cwd=self.top, limit=limit)
        pipe = pipe_for(self.queue, self.top, self.terms.replace(**terms))
        orders = PoolOptions(
            slots=slots, until_empty=True, check_in=self.top, landing=pipe, sandbox=sandbox, review_limit=review_limit
        )
        printed = io.StringIO()
        report = Pool(self.queue, runner, orders, pool_display.Lines(printed)).run()
        return report, printed.getvalue()

    def pit(self, *words, code=0, **env):
        """`pit WORDS` in the repository; all it printed."""
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        streams = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
        with mock.patch.dict(os.environ, env), contextlib.chdir(self.top), streams[0], streams[1]:
            ended = main(["-C", self.root, *words])
        said.flush()
        printed = said.buffer.getvalue().decode()
        assert ended == code, printed
        return printed

    def log(self, *words, branch="main"):
        """The titles on a branch of the person's, newest first."""
        return git(self.top, "log", "--format=%s", branch, *words).splitlines()

    def files(self, branch="main"):
        return set(git(self.top, "ls-tree", "-r", "--name-only", branch).splitlines())

    def close(self):
        self.queue.close()
