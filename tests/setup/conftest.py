"""A project to set up, and `pit setup` as a function."""

from __future__ import annotations

import os
from functools import partial

import pytest
from boxes import pit


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty folder that is the working directory."""
    for name in [name for name in os.environ if name.startswith(("TASKPIT_", "DROVER_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def setup(project):
    """`setup("claude", "--check")` is `pit setup claude --check`."""
    return partial(pit, "setup")


@pytest.fixture
def picture(project):
    """Everything in the project: each file's bytes and mode, each folder, each link."""

    def picture():
        found = {}
        for folder, folders, names in os.walk(project):
            for name in [*folders, *names]:
                path = os.path.join(folder, name)
                place = os.path.relpath(path, project)
                if os.path.islink(path):
                    found[place] = ("link", os.readlink(path))
                elif os.path.isdir(path):
                    found[place] = ("folder",)
                else:
                    with open(path, "rb") as file:
                        found[place] = ("file", file.read(), os.stat(path).st_mode)
        return found

    return picture
