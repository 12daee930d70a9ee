"""Every test has the same world, whatever was around when the suite was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import world
from boxes import clean_environment
from waits import PATIENCE

SUPPORT = Path(__file__).parents[1] / "support"

LOOKS = """
import os, signal, subprocess, sys, time, pathlib, tempfile

SEEN = []

def look():
    assert {name for name in os.environ if name.startswith(("GIT_", "TASKPIT_", "XDG_", "LC_"))} == {
        "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT"
    }
    assert (os.environ["LANG"], time.tzname[0]) == ("C.UTF-8", "UTC")
    assert os.umask(0o022) == 0o022
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        child = subprocess.run(["sh", "-c", f"kill -{int(number)} $$"])
        assert child.returncode == -number
    assert not os.listdir(os.environ["HOME"])
    assert os.environ["HOME"] not in SEEN
    SEEN.append(os.environ["HOME"])
    assert not any((above / ".git").exists() for above in pathlib.Path(tempfile.gettempdir()).resolve().parents)

def test_one(tmp_path):
    look()
    pathlib.Path.home().joinpath("left").touch()
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    os.umask(0)
    os.chdir(tmp_path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

def test_two():
    look()
"""

LEAVES = """
import subprocess

def test_leaves_an_orphan(tmp_path):
    subprocess.run(["sh", "-c", f"sleep 1000 & echo $! > '{tmp_path.parent}/orphan'"], stdout=subprocess.DEVNULL)
"""


def suite(tmp_path, text, **env):
    """The end of a suite of this one file, started where nothing is as it should be; and what it printed."""
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "conftest.py").write_text('import world\n\nworld.PATIENCE = 0.1\npytest_plugins = ["world"]\n')
    (tmp_path / ".git").mkdir()
    (tmp_path / "temporary").mkdir()
    words = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base")]

    def spoil():
        os.umask(0o077)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--rootdir", tmp_path, "-c", "/dev/null", tmp_path],
        env={**clean_environment(), "PYTHONPATH": str(SUPPORT), "TMPDIR": str(tmp_path / "temporary"), **env},
        preexec_fn=spoil,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_nothing_of_the_machine_is_seen(tmp_path):
    names = {
        "GIT_DIR": "/nowhere",
        "GIT_AUTHOR_NAME": "x",
        "TASKPIT_DIR": "/nowhere",
        "TASKPIT_AS": "x",
        "XDG_STATE_HOME": "/nowhere",
        "LC_ALL": "C",
        "TZ": "Asia/Tokyo",
        "HOME": "/nowhere",
    }
    ran = suite(tmp_path, LOOKS, **names)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="only Linux tells whose children live")
def test_a_child_that_outlives_its_test_is_ended_and_told(tmp_path):
    ran = suite(tmp_path, LEAVES)
    assert "these outlived their test, and were ended" in ran.stdout, ran.stdout + ran.stderr
    assert "sleep 1000" in ran.stdout
    pid = int((tmp_path / "base" / "orphan").read_text())
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="only Linux tells whose children live")
def test_a_child_lives_while_it_becomes_another_program(monkeypatch):
    """It has no command line for a moment, and was taken for one that has ended."""
    lasting = world.children()
    process = subprocess.Popen(["sleep", "1000"])
    monkeypatch.setattr(world, "_command", lambda _: "")
    monkeypatch.setattr(world, "PATIENCE", 0.0)
    assert world.outlived(lasting) == [f"{process.pid} "]
    process.wait()
