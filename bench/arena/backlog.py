"""Queues with many ready tasks: what a claim costs a worker that stays and a command that claims once; memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from statistics import mean
from threading import Timer
from typing import TYPE_CHECKING, Any

import taskpit
from arena.entrants import needs_command
from arena.filling import fill
from arena.ours import make_queue
from arena.race import Failure
from taskpit.model import Done
from taskpit.policy import settle
from taskpit.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from arena.plan import Run

__all__ = ["Backlogs", "backlog", "looks", "oneshot", "resident_mb"]

#: Ready tasks; the last only in a full run.
SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
#: Claims of one worker in one round.
CLAIMS = 300
#: How long anything may take that was not bounded by its count.
PATIENCE = 600.0
#: Tasks written in a second until we know better, and seconds for clearing one away.
PACE, CLEARING = 4000.0, 60e-6

#: Commands whose time is told for each size.
LOOKS = (("add", "one more"), ("list",), ("status",), ("stats",), ("sweep", "--dry-run"))
#: Our command, as a wrapper that pip writes has it.
CLAIM = "import sys; from taskpit.cli.main import main; sys.exit(main())"


class Backlogs:
    """The filled queues of a run, each made when first asked for."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._folders: dict[int, str] = {}
        self._next: dict[int, int] = {}
        self._pace = PACE

    def at(self, size: int) -> str | None:
        """The folder of a queue with so many ready tasks; None if there is no time to fill it."""
        if size not in self._folders:
            if self.run.is_over(f"{size:,} ready", needed=size * (1.1 / self._pace + CLEARING)):
                return None
            folder = self.run.fresh()
            make_queue(folder, "process")
            self._folders[size], self._next[size] = folder, 1
            self.fill(size, size)
        return self._folders[size]

    def fill(self, size: int, count: int) -> None:
        """So many more are in it."""
        folder, first = self._folders[size], self._next[size]
        self.run.tell(f"filling a queue with {count:,} tasks")
        began = time.monotonic()
        fill(folder, first, count, PATIENCE)
        self._next[size] += count
        if count == size:
            self._pace = count / (time.monotonic() - began)
            self.run.book.add("fill", f"{size:,} tasks", 0, self._pace)


def backlog(run: Run, backlogs: Backlogs) -> None:
    """What one claim costs at each size, in turns."""
    sizes = [size for size in (QUICK_SIZES if run.quick else SIZES) if backlogs.at(size)]
    for number in range(3):
        for size in sizes:
            name, folder = f"{size:,} ready", backlogs.at(size)
            if run.is_over("backlog") or folder is None:
                return
            run.tell(f"claims with {name}, round {number + 1} of 3")
            try:
                claims = run.scaled(CLAIMS)
                first, later, memory = _claims(folder, claims)
            except Failure as error:
                run.book.measure("claim", name, "ms").note(f"failed: {error}")
                continue
            run.book.add("claim", name, number, 1000 * mean(later), "ms")
            run.book.add("claim-first", name, number, 1000 * first, "ms")
            run.book.add("memory", name, number, memory, "MB")
            run.book.samples.setdefault(("claim", name), []).extend(1000 * value for value in later)
            backlogs.fill(size, claims)


def looks(run: Run, backlogs: Backlogs) -> None:
    """What the commands that look take at each size, and handing one in."""
    for size in QUICK_SIZES if run.quick else SIZES:
        folder = backlogs.at(size)
        for words in LOOKS:
            if folder is None or run.is_over("looks"):
                return
            name = f"pit {words[0]} at {size:,}"
            run.tell(name)
            began = time.perf_counter()
            try:
                _command([sys.executable, "-c", CLAIM, "-C", folder, *words])
            except (subprocess.SubprocessError, OSError) as error:
                run.book.measure("looks", name, "ms").note(f"failed: {error}")
                continue
            run.book.add("looks", name, 0, 1000 * (time.perf_counter() - began), "ms")


def _claims(folder: str, count: int) -> tuple[float, list[float], float]:
    """What the first claim and each later one took, and memory: in a process that begins anew."""
    script = (
        "import json, sys; sys.path[:0] = json.loads(sys.argv[3]);"
        "from arena.backlog import claim_some; print(json.dumps(claim_some(sys.argv[1], int(sys.argv[2]))))"
    )
    import json

    argv = [sys.executable, "-c", script, folder, str(count), json.dumps(sys.path)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if ran.returncode:
        raise Failure(ran.stderr.strip()[-300:])
    first, later, memory = json.loads(ran.stdout)
    return first, later, memory


def claim_some(folder: str, count: int) -> tuple[float, list[float], float]:
    """Claim so many one by one; what is claimed is finished after the clock has stopped."""
    queue = Queue.open(folder)
    times: list[float] = []
    claims: list[Any] = []
    for _ in range(count):
        began = time.perf_counter()
        claims += queue.claim("stayer")
        times.append(time.perf_counter() - began)
    memory = resident_mb()
    now = queue.clock.now()
    queue.store.finish([settle(claim, Done(output="ok"), (), queue.config, now) for claim in claims])
    if len(claims) != count:
        raise Failure(f"{len(claims)} of {count} could be claimed")
    queue.close()
    return times[0], times[1:] or times, memory


def resident_mb() -> float:
    """The most memory this process ever had, in MB."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    from resource import RUSAGE_SELF, getrusage

    return getrusage(RUSAGE_SELF).ru_maxrss / 1024


# -- one command ---------------------------------------------------------------------------------------


def oneshot(run: Run, backlogs: Backlogs) -> None:
    """One `pit claim` beside a Python that does nothing, and beside what others' commands take."""
    commands: dict[str, Callable[[], None]] = {"python -c pass": lambda: _command([sys.executable, "-c", "pass"])}
    for size in (1_000,) if run.quick else (1_000, 100_000):
        folder = backlogs.at(size)
        if folder is not None:
            argv = [sys.executable, "-c", CLAIM, "-C", folder, "claim", "--json"]
            commands[f"pit claim at {size:,}"] = lambda argv=argv: _command(argv)
            commands[f"sh: glob and mv at {size:,}"] = _shell(run.fresh(), size)
    others = run.fresh()
    os.makedirs(others)
    commands |= _spoolers(run, others)
    try:
        for number in range(5 if run.quick else 15):
            for name, act in commands.items():
                if run.is_over("oneshot"):
                    return
                run.tell(f"one command, round {number + 1}: {name}")
                began = time.perf_counter()
                act()
                run.book.add("oneshot", name, number, 1000 * (time.perf_counter() - began), "ms")
    finally:
        if "tsp submit" in commands:
            _command(["tsp", "-K"], {"TS_SOCKET": f"{others}/tsp", "TMPDIR": others})


def _command(argv: list[str], more: dict[str, str] | None = None, cwd: str | None = None) -> None:
    package = os.path.dirname(os.path.dirname(os.path.abspath(taskpit.__file__)))
    env = {**os.environ, "PYTHONPATH": package, "TASKPIT_AS": "bench", **(more or {})}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # Not run(timeout=...): that looks whether it has ended at growing intervals, and measures those.
    with subprocess.Popen(argv, env=env, cwd=cwd, **quiet) as process:
        late = Timer(PATIENCE, process.kill)
        late.start()
        code = process.wait()
        late.cancel()
    if code:
        raise subprocess.CalledProcessError(code, argv)


def _shell(folder: str, size: int) -> Callable[[], None]:
    """A shell's own claim, in a folder with as many empty files."""
    os.makedirs(f"{folder}/claimed")
    os.makedirs(f"{folder}/food")
    for number in range(size):
        os.close(os.open(f"{folder}/food/food-{number:07d}-task.md", os.O_CREAT | os.O_WRONLY, 0o666))
    return lambda: _command(["sh", "-c", 'set -- food/*; mv "$1" claimed/'], cwd=folder)


def _spoolers(run: Run, folder: str) -> dict[str, Callable[[], None]]:
    """Command-line queues: handing one task in, since they run tasks themselves."""
    found: dict[str, Callable[[], None]] = {}
    for name, env in (("nq", {"NQDIR": folder}), ("tsp", {"TS_SOCKET": f"{folder}/tsp", "TMPDIR": folder})):
        reason = needs_command(name)
        if reason:
            run.book.missing[name if name == "nq" else "task-spooler"] = reason
        else:
            found[f"{name} submit"] = lambda name=name, env=env: _command([name, "true"], env)
    return found
