"""The demo runs, in a pipe, and everything it promises comes true."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from collectors import Collector
from waits import PATIENCE

from taskpit.cli import demo
from taskpit.demo.run import tasks


def test_the_demo(tmp_path):
    folder = tmp_path / "a showing"
    argv = [sys.executable, "-m", "taskpit", "demo", "--dir", str(folder), "--seed", "3"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("TASKPIT_")}
    env |= {"DEMO_PACE": "0.5", "COLUMNS": "120", "XDG_STATE_HOME": str(tmp_path / "state")}
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False, env=env)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.count("  yes  ") == 8
    assert "\x1b" not in shown.stdout
    assert "kill -9" in shown.stdout
    look = next(line for line in shown.stdout.splitlines() if line.startswith("  ls "))
    results = subprocess.run(
        ["sh", "-c", look.partition("  the results")[0]], capture_output=True, text=True, check=True
    )
    assert len(results.stdout.splitlines()) >= 25
    assert "recovered" in shown.stdout
    screen = shown.stdout.partition("status\n")[2].partition("\n$ ")[0]
    crew = [line.split()[0] for line in screen.partition("LAST OUTPUT\n")[2].partition("\n\n")[0].splitlines()]
    assert crew == ["keeper", "planner", "snake-1", "snake-2", "snake-3", "cleanup", "reviewer", "chronicle"]
    assert "failed 3 times the same way" in screen
    assert (folder / "out" / "story.txt").read_text().count("\n") >= 7
    assert (folder / "sign.txt").read_text() == "Please knock before you enter.\n"
    assert "-lander-" not in screen.partition("Crew")[0]
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is missing: pip install 'taskpit[otel]'")
    with Collector() as collector:
        env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.address}
        sends = [sys.executable, "-m", "taskpit", "-C", str(folder), "trace", "--since", "1d"]
        subprocess.run(sends, capture_output=True, timeout=PATIENCE, check=True, env=env)
        collector.shutdown()
    traces = {}
    for span in collector.spans:
        traces.setdefault(span.trace_id, []).append(span)
    assert len(traces) >= 25
    for spans in traces.values():  # each is whole: one beginning, and no parent that was not sent
        assert [span.name for span in spans if not span.parent_span_id] == ["task"]
        assert {span.parent_span_id for span in spans} <= {b"", *(span.span_id for span in spans)}
    sign = max(traces.values(), key=lambda spans: sum(span.name == "review" for span in spans))
    counts = Counter(span.name for span in sign)
    assert counts == {"task": 1, "claim": 2, "run": 2, "review": 2, "landing": 1, "check": 1}


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "precious").write_text("mine")
    argv = [sys.executable, "-m", "taskpit", "demo", "--dir", str(tmp_path)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert shown.returncode == 6
    assert os.listdir(tmp_path) == ["precious"]


def test_originals_make_other_tasks_of_one_shape():
    one, two = tasks(1), tasks(2)
    assert [task.id for task in one] == [task.id for task in two]
    assert one != two
    assert tasks(1) == one
    assert len(one) >= 24


def test_where_to_look_is_told_as_a_shell_finds_it(tmp_path, monkeypatch):
    """After `make demo` no `pit` is on the path."""
    program = tmp_path / "bin dir/pit"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert demo._program() == "'bin dir/pit'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert demo._program() == "pit"
