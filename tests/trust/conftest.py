"""A project that somebody else has made, as it comes by git: with everything in it that could start by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from shlex import quote

import pytest
from boxes import pit as run
from world import require

GIT = ["git", "-c", "user.name=eve", "-c", "user.email=eve@example.com", "-c", "init.defaultBranch=main"]


class Project:
    """The clone of an attacker's repository with a queue in it. What ran or was reached leaves a mark."""

    def __init__(self, tmp_path):
        self.tmp = tmp_path
        self.marks = tmp_path / "marks"
        self.marks.mkdir()
        self.evil = tmp_path / "evil"
        self.path = tmp_path / "clone"
        self.pit = self.path / "pit"
        #: Attacker and victim have homes, and states, of their own.
        self.hers = {"XDG_STATE_HOME": str(tmp_path / "hers")}
        self.mine = {"XDG_STATE_HOME": str(tmp_path / "mine")}
        assert run("init", self.evil / "pit", env=self.hers).code == 0

    def mark(self, name):
        """A command that leaves this mark."""
        return f"touch {quote(str(self.marks / name))}"

    @property
    def marked(self):
        return sorted(os.listdir(self.marks))

    def add(self, *words):
        return run("-C", self.evil / "pit", "add", *words, env=self.hers).out.strip()

    def write(self, name, text, folder=None):
        path = (folder or self.evil / "pit") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def clone(self):
        """By git itself, with what the queue's own .gitignore would have kept out."""
        require("git")
        subprocess.run([*GIT, "init", "-q", self.evil], check=True)
        (self.evil / "pit/.taskpit/.gitignore").unlink(missing_ok=True)
        for folder, folders, files in os.walk(self.evil / "pit"):
            if not folders and not files:
                open(f"{folder}/.keep", "w").close()
        subprocess.run([*GIT, "-C", self.evil, "add", "-A", "-f"], check=True)
        subprocess.run([*GIT, "-C", self.evil, "commit", "-q", "-m", "x"], check=True)
        subprocess.run([*GIT, "clone", "-q", self.evil, self.path], check=True)
        for folder, _, files in os.walk(self.pit):  # git carries no empty directories
            for name in files:
                if name == ".keep":
                    os.unlink(f"{folder}/{name}")

    def pull(self):
        subprocess.run([*GIT, "-C", self.evil, "add", "-A", "-f"], check=True)
        subprocess.run([*GIT, "-C", self.evil, "commit", "-q", "-m", "y"], check=True)
        subprocess.run([*GIT, "-C", self.path, "pull", "-q"], check=True)

    def __call__(self, *words, **env):
        """`pit WORDS` of the victim, in the clone."""
        return run("-C", self.pit, *words, env={**self.mine, **env})

    def down(self):
        if (self.pit / ".taskpit/crew").is_dir():
            self("down", "--now", TASKPIT_TRUST="1")


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    yield project
    project.down()
    shutil.rmtree(project.path, ignore_errors=True)
