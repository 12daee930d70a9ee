"""Commands: how many a pool runs in a second beside other runners, and what one command of ours costs the processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import taskpit
from arena.backlog import CLAIM
from arena.entrants import needs_command
from arena.ours import make_queue
from arena.race import Failure
from taskpit.model import Task
from taskpit.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from arena.plan import Run

__all__ = ["cpu_of", "processor", "runner"]

#: Commands that are run in one round, and how many at a time.
COMMANDS, SLOTS = 1000, 2
#: Ready tasks beside one command.
WAITING = 1000


def runner(run: Run) -> None:
    """`true` for each of many tasks, two at a time, by us and by runners that keep nothing."""
    count = run.scaled(COMMANDS, at_least=300)
    lines = "".join(f"{number}\n" for number in range(count)).encode()
    others: dict[str, list[str]] = {}
    for name, argv in (
        ("xargs", ["xargs", f"-P{SLOTS}", "-n1", "true"]),
        ("GNU parallel", ["parallel", f"-j{SLOTS}", "true"]),
    ):
        reason = needs_command(argv[0])
        if reason:
            run.book.missing[name] = reason
        else:
            others[name] = argv
    for number in range(3 if run.quick else 5):
        if run.is_over("runner", needed=5):
            return
        run.tell(f"a pool of {SLOTS} runs `true` {count:,} times, round {number + 1}")
        folder = run.fresh()
        _fill(folder, count)
        ours = [sys.executable, "-c", CLAIM, "-C", folder, "work", "-n", str(SLOTS), "--until", "empty", "--", "true"]
        _race(run, "pit work", number, ours, b"", count)
        for name, argv in others.items():
            run.tell(f"{name} runs `true` {count:,} times, round {number + 1}")
            _race(run, name, number, argv, lines, count)


def _fill(folder: str, count: int) -> None:
    make_queue(folder, "process")
    queue = Queue.open(folder)
    queue.store.put([Task(id=f"{n:07d}", title="t", slug="t", by="bench") for n in range(1, count + 1)])
    queue.close()


def _race(run: Run, name: str, number: int, argv: list[str], lines: bytes, count: int) -> None:
    try:
        began = time.perf_counter()
        used = cpu_of(argv, lines, run.root)
        run.book.add("runner", name, number, count / (time.perf_counter() - began), "commands/s")
        run.book.add("runner-cpu", name, number, 1000 * used / count, "ms")
    except Failure as error:
        run.book.measure("runner", name, "commands/s").note(f"failed: {error}")


def cpu_of(argv: list[str], lines: bytes = b"", cwd: str | None = None, **more: str) -> float:
    """Seconds of the processor that a command has taken, with all it waited for."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(taskpit.__file__)))
    env = {**os.environ, "PYTHONPATH": package, "TASKPIT_AS": "bench", **more}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.PIPE, **quiet) as process:
        if process.stdin is not None:
            process.stdin.write(lines)
            process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failure(f"{argv[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def processor(run: Run) -> None:
    """What `pit claim` and `pit add` cost the processor, beside a Python that begins and ends."""
    folder = run.fresh()
    _fill(folder, WAITING)
    pit = [sys.executable, "-c", CLAIM]
    commands: dict[str, Callable[[], float]] = {
        "python -I -S -c pass": lambda: cpu_of([sys.executable, "-I", "-S", "-c", "pass"]),
        "pit claim": lambda: cpu_of([*pit, "claim"], TASKPIT_DIR=folder),
        "pit add": lambda: cpu_of([*pit, "add", "one more"], TASKPIT_DIR=folder),
    }
    for number in range(-2, 10 if run.quick else 25):
        for name, measured in commands.items():
            if run.is_over("processor"):
                return
            used = measured()
            if number >= 0:  # the first ones compile, and build the catalogue
                run.book.add("processor", name, number, 1000 * used, "ms")
