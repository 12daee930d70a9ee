"""What agents cost is in the report, also of runs that were killed or do not say. Through the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from waits import PATIENCE, until
from workshop import alive, pit_work

from taskpit import trust


def pit_says(pit, *words):
    argv = [sys.executable, "-m", "taskpit", "-C", pit.root, *words]
    ran = subprocess.run(argv, cwd=pit.root, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return ran.stdout


def test_a_run_that_died_with_its_pool_is_in_the_report(pit):
    (task,) = pit.put("spends and hangs: a task")
    pool = pit.start("--agent", "claude", "--model", "claude-opus-4-5")
    until(pit.has_children)
    os.kill(pool.pid, signal.SIGKILL)
    pool.wait()
    until(lambda: not any(map(alive, pit.children())))
    for _ in range(2):  # it is paid once, however often is swept
        pit_says(pit, "sweep")
    report = json.loads(pit_says(pit, "--json", "report"))["data"]
    (row,) = report["costs"]
    assert (row["by"], row["tasks"], row["usd"]) == ("claude-opus-4-5", 1, pytest.approx(0.002325))
    assert pit.card(task).task.attempts == 0


def test_a_run_that_tells_no_dollars_is_marked_as_unknown(pit):
    pit.put("good: a task")
    pit_work(pit, "--agent", "codex", "--until", "empty")
    assert "codex: 1 run, 59 tokens" in pit_says(pit, "report")


def test_a_run_that_was_ended_at_its_limit_is_marked_as_unknown(pit):
    pit.put("hangs: a task")
    pit_work(pit, "--agent", "codex", "--limit", "1s", "--max-tasks", "1")
    assert "codex: 1 run, no usage reported" in pit_says(pit, "report")


def test_the_end_of_a_pool_is_in_status_and_report_and_reaches_a_hook(pit):
    """A night that ends early says why in the morning."""
    hook = f"{pit.root}/../hook"
    with open(hook, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\ncat > "{hook}.heard.new"; mv "{hook}.heard.new" "{hook}.heard"\n')
    os.chmod(hook, 0o755)
    pit.configure(f'durability = "process"\n[hooks]\nstopped = ["{hook}"]\n')
    assert trust.remember(pit.root)
    pit.put("logged out: a task")
    pit_work(pit, "--agent", "claude", "--until", "empty")
    for verb in ("status", "report"):
        assert "ended: claude is not logged in: Not logged in" in pit_says(pit, verb)
    until(lambda: os.path.exists(f"{hook}.heard"))
    with open(f"{hook}.heard", encoding="utf-8") as file:
        event = json.load(file)
    assert (event["event"], event["details"].startswith("claude is not logged in")) == ("stopped", True)


def test_a_killed_pool_is_called_killed(pit):
    pit.put("hangs: a task")
    pool = pit.start("--agent", "claude")
    until(pit.has_children)
    os.kill(pool.pid, signal.SIGKILL)
    pool.wait()
    assert "ended: it was killed" in pit_says(pit, "status")
