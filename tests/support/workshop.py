"""A pit for tests of workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from waits import PATIENCE, until

from taskpit import trust
from taskpit.model import Task
from taskpit.queue import Queue
from taskpit.run.attempt import Attempt, perform
from taskpit.run.pool_options import PoolOptions
from taskpit.run.run_directory import RunPlaces
from taskpit.run.runner import Run
from taskpit.run.steps import WORK
from taskpit.store.opening import init

#: No lease ends by itself, however busy the machine.
CONFIG = 'durability = "process"\nlease = "1m"\nbackoff = "0.1s"\nbackoff_longest = "0.2s"\n'
#: `pit`, in which pools renew and sweep more often than a lease of a minute asks for.
BRISK = """\
import sys
from taskpit.cli.main import main
from taskpit.run import heartbeat
heartbeat.RENEW_AT_MOST, heartbeat.SWEEP_AT_MOST = 0.2, 2.0
sys.exit(main(sys.argv[1:]))
"""


def alive(pid):
    """Whether a process of this number lives; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between the two
        return False


def read_pid(path, *processes):
    """The number in a file that one of these processes is about to write."""

    def read():
        try:
            with open(path, encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            return 0
        return int(text) if text.endswith("\n") else 0

    return until(read, *processes)


def work(queue, run, runner, options, lay_down, **more):
    """Run one claim to its end, as a slot does."""
    return perform(Attempt(queue, run, runner, options), WORK, lay_down, **more)


class Pit:
    """A pit for one test."""

    def __init__(self, root):
        self.root = str(root)
        init(self.root, "pit")
        self.configure(CONFIG)
        self.queue = Queue.open(self.root)
        self.processes = []

    def configure(self, text):
        with open(f"{self.root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
            file.write(text)

    def put(self, *titles, **fields):
        return [said[0] for said in self.queue.put([Task(id="", title=title, **fields) for title in titles])]

    def card(self, task_id):
        return self.queue.card(task_id)

    def events(self, action):
        return [event for event in self.queue.store.events(limit=100000)[0] if event.action == action]

    def work_once(self, runner, checks=True, lay_down=lambda: None, sandbox=None, check_in=""):
        """Claim one task and run it in this thread, as a slot would."""
        claim = self.queue.claim("snake-1", wait=PATIENCE)[0]
        run = Run(claim, RunPlaces(self.queue.store).of(claim), self.root)
        run.sandbox = sandbox
        try:
            orders = PoolOptions(check_in=(check_in or self.root) if checks else None)
            return work(self.queue, run, runner, orders, lay_down)
        finally:
            run.bell.close()
            run.place.clear()

    def start(self, *words):
        """`pit work` as a process of its own."""
        argv = [sys.executable, "-c", BRISK, "-C", self.root, "work", *words]
        with open(f"{self.root}/../pool-{len(self.processes)}.out", "wb") as log:
            process = subprocess.Popen(argv, cwd=self.root, stdout=log, stderr=log, env={**os.environ})
        self.processes.append(process)
        return process

    def said(self, number=0):
        with open(f"{self.root}/../pool-{number}.out", encoding="utf-8") as file:
            return file.read()

    def close(self):
        self.queue.close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def pit_work(pit, *words, **env):
    """`pit work` to its end; its exit code and its reply."""
    argv = [sys.executable, "-m", "taskpit", "-C", pit.root, "--json", "work", *words]
    done = subprocess.run(
        argv, cwd=pit.root, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **env}, check=False
    )
    return done.returncode, json.loads(done.stdout)


def own(pit, name, text):
    """A preset of this queue's own."""
    os.makedirs(f"{pit.root}/.taskpit/presets", exist_ok=True)
    with open(f"{pit.root}/.taskpit/presets/{name}.toml", "w", encoding="utf-8") as file:
        file.write(text)
    assert trust.remember(pit.root)
