"""Running checks: own group, no input, a limit, the end of the output."""

from __future__ import annotations

import os
import time

import pytest

from taskpit.errors import Storage
from taskpit.worker.check import TIMED_OUT, run_check


def test_green_and_red(tmp_path):
    green = run_check("echo fine; pwd", str(tmp_path), 30)
    red = run_check("echo bad >&2; exit 3", str(tmp_path), 30)

    assert green.green
    assert green.tail == f"fine\n{tmp_path}"
    assert not red.green
    assert (red.exit_code, red.tail) == (3, "bad")


def test_killed_by_a_signal(tmp_path):
    assert run_check("kill -9 $$", str(tmp_path), 30).exit_code == -9


def test_the_tail_is_the_end(tmp_path):
    evidence = run_check("for i in $(seq 5000); do echo ä$i; done", str(tmp_path), 30)

    assert evidence.tail.endswith("ä5000")
    assert len(evidence.tail.encode()) <= 4096


def test_at_the_limit_the_whole_group_ends(tmp_path):
    began = time.monotonic()
    evidence = run_check("sleep 60 & echo $! > child; echo begun; wait", str(tmp_path), 0.5)

    assert time.monotonic() - began < 20
    assert evidence.exit_code == TIMED_OUT
    assert evidence.tail == "begun\n[stopped after 0.5s, the limit of a check]"
    _is_gone(int((tmp_path / "child").read_text()))


def test_what_it_left_running_ends_with_it(tmp_path):
    evidence = run_check("sleep 60 & echo $! > child; echo done", str(tmp_path), 30)

    assert (evidence.exit_code, evidence.tail) == (0, "done")
    _is_gone(int((tmp_path / "child").read_text()))


def _is_gone(pid):
    """Killed; whoever adopted it may not have buried it yet."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.01)
    pytest.fail(f"{pid} still runs")


def test_it_has_no_input_and_the_environment_it_is_given(tmp_path):
    evidence = run_check("cat; echo $COLOUR", str(tmp_path), 30, {**os.environ, "COLOUR": "green"})

    assert evidence.tail == "green"


def test_where_it_cannot_run(tmp_path):
    with pytest.raises(Storage, match="cannot be run"):
        run_check("true", str(tmp_path / "missing"), 30)
