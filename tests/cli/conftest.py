"""A folder to work in, and `pit` as a function: no process, no environment of the machine's own."""

from __future__ import annotations

import io
import os
import sys

import pytest
from boxes import Answer

from taskpit.cli.main import main


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder that is the working directory, and an environment that names nothing."""
    for name in ("TASKPIT_DIR", "TASKPIT_DEBUG", "XDG_CONFIG_HOME", "VISUAL", "EDITOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.startswith("DROVER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TASKPIT_AS", "me")
    monkeypatch.setenv("NO_COLOR", "1")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def run(place, capsys, monkeypatch):
    """`run("add", "title")` is `pit add title`."""

    def run(*words: str, stdin: str | bytes = "") -> Answer:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)), encoding="utf-8"))
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return Answer(words, code, said.out, said.err)

    return run


@pytest.fixture
def pit(run):
    """The same, with a queue in `pit/`."""
    assert run("init").code == 0
    return run
