"""Running checks: own group, no input, a limit, the end of the output."""

from __future__ import annotations

import os

import pytest
from waits import Leap, until
from workshop import alive

from taskpit.errors import Storage
from taskpit.run import process
from taskpit.run.process import TIMED_OUT, run_check


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


def test_at_the_limit_the_whole_group_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "time", Leap((tmp_path / "begun").exists))
    evidence = run_check("sleep 600 & echo $! > child; echo begun; touch begun; wait", str(tmp_path), 3600.0)

    assert evidence.exit_code == TIMED_OUT
    assert evidence.tail == "begun\n[stopped after 1h, the limit of a check]"
    until(lambda: not alive(int((tmp_path / "child").read_text())))


def test_what_it_left_running_ends_with_it(tmp_path):
    evidence = run_check("sleep 600 & echo $! > child; echo done", str(tmp_path), 30)

    assert (evidence.exit_code, evidence.tail) == (0, "done")
    until(lambda: not alive(int((tmp_path / "child").read_text())))


def test_it_has_no_input_and_the_environment_it_is_given(tmp_path):
    evidence = run_check("cat; echo $COLOUR", str(tmp_path), 30, {**os.environ, "COLOUR": "green"})

    assert evidence.tail == "green"


def test_where_it_cannot_run(tmp_path):
    with pytest.raises(Storage, match="cannot be run"):
        run_check("true", str(tmp_path / "missing"), 30)
