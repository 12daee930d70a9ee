"""Every test has the same world, whatever was around when the suite was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import rotation
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


def test_every_part_of_a_sweep_has_its_turn(request, monkeypatch):
    """The seed says which part it is: one number repeats a run."""
    assert getattr(request.config.option, "randomly_seed", 0) == rotation.TURN
    monkeypatch.setattr(rotation, "LONG", False)
    parts, layouts, kinds, kept, turns, ones = set(), set(), set(), set(), set(), set()
    tests = [collected("test_it", layout) for layout in ("pit", "mailbox", "workspace")]
    contract = type("Contract", (), {"KINDS": ("first", "second", "third"), "ALWAYS": 1})
    served = [collected("test_served", None, type("Contract", (), {"TURNS": 2}))]
    for turn in range(40):
        monkeypatch.setattr(rotation, "TURN", turn)
        parts.add(tuple(rotation.part(range(7), 3)))
        layouts.add(tuple(rotation.in_turn([("pit", "put"), ("mailbox", "put"), ("workspace", "put")])))
        kinds.add(rotation.kinds(contract, "test_put"))
        kept.add(tuple(test.nodeid for test in tests if test in rotation.layouts(tests)))
        turns.add(len(rotation.layouts(served)))
        ones.add(tuple(rotation.turn_of("test_it", "first", "second")))
    assert parts == {(0, 3, 6), (1, 4), (2, 5)}
    assert layouts == {(("pit", "put"), (other, "put")) for other in ("mailbox", "workspace")}
    assert kinds == {("first", "second"), ("first", "third")}
    assert kept == {("test_it[pit]", f"test_it[{other}]") for other in ("mailbox", "workspace")}
    assert turns == {0, 1}
    assert ones == {("first",), ("second",)}
    others = [collected("test_two", layout) for layout in ("mailbox", "workspace")]
    assert rotation.layouts(others) == set(others), "what the first layout does not have"


def collected(name, layout, cls=None):
    item = Mock(nodeid=f"{name}[{layout}]", callspec=Mock(params={"layout": layout}))
    item.cls = cls
    return item
