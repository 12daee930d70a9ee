from __future__ import annotations

import json
import os
import sys

import pytest
from workshop import Pit

from taskpit.run.agent_runner import AgentRunner
from taskpit.run.preset import find, places

FAKES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fakes")


class Agents(Pit):
    """A pit, and fake agents on the path."""

    def runner(self, name, *, limit=600.0, model="", extra=(), clock=None, **changes):
        preset = find(name, places(self.root)).replace(**{"grace": 0.4, **changes})
        made = AgentRunner(
            preset, cwd=self.root, limit=limit, model=model, extra=extra, env=("FAKE_*",), grace=0.2, clock=clock
        )
        made.check(os.environ)
        return made

    def calls(self):
        try:
            with open(f"{self.root}/calls", encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        except FileNotFoundError:
            return []

    def has_children(self):
        """Whether an agent has told of a child: its note is there before there is anything in it."""
        path = f"{self.root}/children"
        return os.path.exists(path) and os.path.getsize(path) > 0

    def children(self):
        with open(f"{self.root}/children", encoding="utf-8") as file:
            found = [int(line) for line in file]
        assert found, "it had no children: nothing is shown by their end"
        return found

    def log(self, path):
        with open(f"{self.root}/{path}", encoding="utf-8") as file:
            return file.read()


@pytest.fixture
def pit(tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("claude", "codex", "gemini", "opencode"):
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKES}/{name}.py" "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "kept")
    pit = Agents(tmp_path / "pit")
    yield pit
    pit.close()
