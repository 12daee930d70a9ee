"""A pit with a crew for one test, and `pit` as a function; whatever was started is gone in the end."""

from __future__ import annotations

import contextlib
import os
import signal
import textwrap

import boxes
from waits import until
from workshop import alive

from taskpit import trust
from taskpit.crew.state import SUPERVISOR, CrewFiles
from taskpit.crew.status import pid_here
from taskpit.model import Task
from taskpit.queue import Queue
from taskpit.store.opening import init

CONFIG = 'durability = "process"\nlease = "15s"\nbackoff = "0.1s"\nbackoff_longest = "0.2s"\n'


class Zoo:
    """A pit with an `agents.toml` of its own."""

    def __init__(self, root):
        self.path = root
        self.root = str(root)
        init(self.root, "pit")
        (root / ".taskpit" / "config.toml").write_text(CONFIG)
        self.queue = Queue.open(self.root)
        self.files = CrewFiles(self.root)
        self.pids = set()

    def crew(self, text):
        (self.path / "agents.toml").write_text(textwrap.dedent(text))
        assert trust.remember(self.root)

    def put(self, *titles, **fields):
        return [said[0] for said in self.queue.put([Task(id="", title=title, **fields) for title in titles])]

    def card(self, task_id):
        return self.queue.card(task_id)

    def pit(self, *words, code=0, env=None):
        """`pit WORDS`, with --json."""
        said = boxes.pit("-C", self.root, *words, "--json", env=env)
        self.notice()
        assert code is None or said.code == code, said.out + said.err + self.log(SUPERVISOR)
        return said

    def notice(self):
        """Every process of the crew that is seen must be gone in the end."""
        for name in (SUPERVISOR, *self.files.plan()):
            pid = pid_here(self.files, name)
            if pid:
                self.pids.add(pid)

    def pid(self, name):
        """The process of this name, once there is one."""
        pid = until(lambda: self.files.living(name))
        self.pids.add(pid)
        return pid

    def kill(self, name):
        pid = self.pid(name)
        with contextlib.suppress(ProcessLookupError):  # of a service only the guard may be left
            os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        return pid

    def row(self, name):
        data = self.pit("status").data
        return next(row for row in (*data["agents"], *data["services"]) if row["name"] == name)

    def seen(self, name):
        return self.files.seen(name)

    def log(self, name):
        try:
            with open(self.files.log(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def text(self, name):
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            return ""

    def gone(self):
        """Nobody that was ever seen is left."""
        self.notice()
        return not any(alive(pid) for pid in self.pids)

    def close(self):
        self.notice()
        try:
            if not self.gone():
                self.pit("down", "--now")
            until(self.gone)
        finally:
            for pid in self.pids:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)
            self.queue.close()
