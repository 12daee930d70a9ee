"""Once through a real terminal: keys in, screen out, an editor in between, another process beside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest
from waits import PATIENCE

from taskpit.cli.main import main

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is missing: sh scripts/system-packages tmux")


class Tmux:
    """A terminal of its own, far from anybody else's."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    def press(self, *keys: str) -> None:
        self("send-keys", *keys)

    def until(self, *words: str) -> str:
        """The screen, once all these are on it: the board is another process, so there is only looking."""
        deadline = time.monotonic() + PATIENCE
        while True:
            screen = self("capture-pane", "-p")
            if all(word in screen for word in words):
                return screen
            assert time.monotonic() < deadline, f"{words} never came:\n{screen}"
            time.sleep(0.05)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TASKPIT_DIR", str(tmp_path / "pit"))
    monkeypatch.setenv("TASKPIT_AS", "ann@home")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["init", str(tmp_path / "pit")]) == 0
    return tmp_path


def test_a_session(folder):
    editor = folder / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/Mend the roof/Mend the door/' \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)
    board = f"{sys.executable} -m taskpit board; echo ended with $?; cat"
    tmux = Tmux(str(folder / "socket"))
    env = [f"-e{key}={os.environ[key]}" for key in ("HOME", "TASKPIT_DIR", "TASKPIT_AS")]
    tmux("new-session", "-d", "-x", "80", "-y", "24", *env, f"-eEDITOR='{editor}'", "sh", "-c", board)
    try:
        tmux.until("Ready 0", "Press n to add a first task", "? help  q quit")
        tmux.press("n")
        tmux.until("A new task")
        tmux.press("-l", "Mend the roof")
        tmux.until("Mend the roof")
        tmux.press("Enter")
        tmux.until("Ready 1", "0001  Mend the roof")
        assert main(["add", "From elsewhere", "--priority", "5"]) == 0
        tmux.until("Ready 2", "From elsewhere")
        tmux.press("e")
        tmux.until("Ready 2", "0001  Mend the door")
        tmux.press("x")
        tmux.until("It will not be done.")
        tmux.press("Enter")
        tmux.until("Ready 1", "0001 is cancelled")
        tmux.press("Right", "Right", "Right", "Right")
        tmux.until("cancelled", "r retry")
        tmux.press("q")
        assert "ended with 0" in tmux.until("ended with")
    finally:
        tmux("kill-server")
