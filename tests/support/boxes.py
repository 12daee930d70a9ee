"""Queues of any layout to try things on, and `pit` as a function."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from unittest import mock

from schemata import judge_command
from waits import PATIENCE

from taskpit import fs, layouts
from taskpit.cli.main import main
from taskpit.config import Config
from taskpit.queue import Queue
from taskpit.store.files import FileStore
from taskpit.store.opening import init

LEASE = 900.0
FAST = Config(durability="process", lease=LEASE)
LAYOUTS = ("pit", "mailbox", "workspace")
#: A task of a mailbox, as its own document shows it.
ORIGINAL_TASK = """\
{
  "id": "task_1234567890",
  "title": "Implement feature X",
  "description": "Add feature X with proper error handling",
  "epic_id": "epic_abc123",
  "parent_id": "",
  "sequence_number": 0,
  "type": "feature",
  "priority": 1,
  "status": "ready",
  "attempts": 0,
  "max_attempts": 3,
  "last_error": "",
  "claimed_by": "",
  "claimed_at": 0,
  "operator": "",
  "verdict": "unknown",
  "verdict_reason": "",
  "test_mode": "strict",
  "test_scope": "diff",
  "test_command": "",
  "created_at": 1705862400,
  "updated_at": 1705862400,
  "metadata": {
    "worktree": "/path/to/worktree",
    "dependencies": []
  }
}
"""


def make(root, layout, clock=None, config=FAST) -> Queue:
    """An empty queue of this layout."""
    init(str(root), layout, clock)
    return reopened(root, layout, clock, config)


def reopened(root, layout, clock=None, config=FAST) -> Queue:
    """The queue as another process sees it, one that leaves nobody time to finish."""
    kind = layouts.get(layout)
    fs.wall(str(root))  # somebody may have put another folder in its place since
    store = FileStore(str(root), kind, config.replace(**kind.defaults), clock, grace=0.0)
    return Queue(store, store.folder.config, store.folder.clock)


def make_fast(root, layout) -> str:
    """A queue for processes, without fsync."""
    init(str(root), layout)
    write(f"{root}/.taskpit/config.toml", 'durability = "process"\n')
    return str(root)


def read(path) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def load(path):
    return json.loads(read(path))


class Answer:
    """What a command said."""

    def __init__(self, words, code, out, err) -> None:
        self.words = words
        self.code = code
        self.out = out
        self.err = err

    @property
    def envelope(self):
        """The one envelope on stdout: nothing else may be there."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        envelope = json.loads(lines[0])
        assert envelope["schema"] == 1
        return envelope

    @property
    def data(self):
        envelope = self.envelope
        assert envelope["ok"] is True, envelope
        judge_command(self.words, envelope["data"])
        return envelope["data"]

    @property
    def error(self):
        envelope = self.envelope
        assert envelope["ok"] is False, envelope
        return envelope["error"]


def clean_environment(**more) -> dict[str, str]:
    """The environment without anything that names a queue or a worker."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TASKPIT_", "DROVER_"))}
    return {**kept, "TASKPIT_AS": "me", "NO_COLOR": "1", **more}


def pit(*words, env=None) -> Answer:
    """`pit("add", "title")` is `pit add title`."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    environment = mock.patch.dict(os.environ, clean_environment(**(env or {})), clear=True)
    with environment, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    out.flush()
    return Answer(words, code, out.buffer.getvalue().decode(), err.getvalue())


def python(script, *words, **options) -> subprocess.Popen:
    """A Python process that runs this text, for everything that must be killed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.Popen(command, **{**pipes, "env": clean_environment(), **options})


def ended(process) -> str:
    """What the process printed, once it has ended well."""
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, ""), err
    return out
