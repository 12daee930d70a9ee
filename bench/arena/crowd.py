"""Many workers at once: how often they get in each other's way, and what they cost while there is nothing to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import taskpit
from arena.backlog import CLAIM
from arena.ours import make_queue
from arena.race import GRACE, Failure, fork, spawn
from taskpit import fs
from taskpit.model import Done, Task
from taskpit.policy import settle
from taskpit.queue import Queue

if TYPE_CHECKING:
    from arena.plan import Run

__all__ = ["crowd", "idle"]

WORKERS, TASKS = 16, 10_000
#: Slots of the idle pool, seconds it is watched, and seconds in which it must do nothing before.
SLOTS, WATCHED, SETTLING = 8, 30.0, 3.0
#: So many times it is looked whether it still begins, on a busy machine.
LONGEST_START = 20
#: What is watched: a pool in an empty queue, and one beside tasks that do not fit.
IDLE, UNFIT = "pit work -n 8", "pit work -n 8 beside 10,000 that do not fit"


def crowd(run: Run) -> None:
    """Sixteen workers on ten thousand tasks with nothing in them."""
    for number in range(1 if run.quick else 3):
        if run.is_over("crowd", needed=20):
            return
        count = run.scaled(TASKS)
        run.tell(f"{WORKERS} workers over {count:,} empty tasks, round {number + 1}")
        folder = run.fresh()
        make_queue(folder, "process")
        queue = Queue.open(folder)
        for first in range(0, count, 1000):
            last = min(first + 1000, count)
            queue.store.put([Task(id=f"{n:07d}", title="t", slug="t", by="bench") for n in range(first + 1, last + 1)])
        queue.close()
        barrier = fork.Barrier(WORKERS)
        try:
            told = spawn(_work, [(folder, barrier)] * WORKERS, 120 + GRACE)
        except Failure as error:
            run.book.measure("crowd", "failed renames per claim", "").note(f"failed: {error}")
            return
        claims = [each[0] for each in told]
        tries, missed = sum(each[1] for each in told), sum(each[2] for each in told)
        total = max(sum(claims), 1)
        run.book.add("crowd", "failed renames per claim", number, (tries - sum(claims)) / total, "")
        run.book.add("crowd", "lost tries per claim", number, missed / total, "")
        run.book.add("crowd", "least of a worker over its fair share", number, min(claims) * WORKERS / total, "")
        run.book.add("crowd", "most of a worker over its fair share", number, max(claims) * WORKERS / total, "")


def _work(folder: str, barrier: Any) -> tuple[int, int, int]:
    """Claim and finish until nothing is left: claims, renames tried of ready files, tries that came too late."""
    queue, worker = Queue.open(folder), f"w{os.getpid()}"
    calls = {"rename": 0, "utime": 0}

    def count(call: str, path: str) -> None:
        if call in calls and "/food/" in path:
            calls[call] += 1

    fs.set_hook(count)
    barrier.wait(GRACE)
    claims = 0
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (taken := queue.claim(worker)):
        claims += len(taken)
        now = queue.clock.now()
        queue.store.finish([settle(claim, Done(output="ok"), (), queue.config, now) for claim in taken])
    fs.set_hook(None)
    queue.close()
    return claims, calls["rename"], max(calls.values()) - claims


def idle(run: Run) -> None:
    """A pool with nothing to do, watched for a while: in an empty queue, and beside many tasks that are for others."""
    empty, full = run.fresh(), run.fresh()
    make_queue(empty, "process")
    _watch(run, IDLE, empty)
    make_queue(full, "process")
    queue = Queue.open(full)
    for first in range(0, TASKS, 1000):
        numbers = range(first + 1, first + 1001)
        queue.store.put([Task(id=f"{n:07d}", title="t", slug="t", tags=("others",), by="bench") for n in numbers])
    queue.close()
    _watch(run, UNFIT, full, "--tag", "ours")


def _watch(run: Run, name: str, folder: str, *words: str) -> None:
    seconds = (5.0 if name == IDLE else 10.0) if run.quick else WATCHED
    if run.is_over("idle", needed=seconds + SETTLING + 5):
        return
    run.tell(f"{name}, for {seconds:.0f} s")
    package = os.path.dirname(os.path.dirname(os.path.abspath(taskpit.__file__)))
    argv = [sys.executable, "-c", CLAIM, "-C", folder, "work", "-n", str(SLOTS), *words, "--", "true"]
    env = {**os.environ, "PYTHONPATH": package}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    pool = subprocess.Popen(argv, env=env, start_new_session=True, **quiet)
    try:
        before = _settled(pool.pid)
        time.sleep(seconds)
        after = _ticks(pool.pid)
        if pool.poll() is not None:
            run.book.measure("idle", name, "% of a core").note("failed: the pool ended by itself")
            return
        used = (after - before) / os.sysconf("SC_CLK_TCK")
        run.book.add("idle", name, 0, 100 * used / seconds, "% of a core")
    finally:
        pool.send_signal(signal.SIGINT)
        try:
            pool.wait(GRACE)
        except subprocess.TimeoutExpired:
            pool.kill()
            pool.wait()


def _settled(pid: int) -> int:
    """What it has used once it has begun and seen what is there: it has slept for a while by then."""
    used = -1
    for _ in range(LONGEST_START):
        before, used = used, _ticks(pid)
        if 0 < used == before:
            break
        time.sleep(SETTLING)
    return used


def _ticks(pid: int) -> int:
    """Clock ticks that a process, its children and those it waited for have used."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
            used[int(name)] = sum(map(int, fields[11:15]))
    total, left = 0, [pid]
    while left:
        each = left.pop()
        total += used.get(each, 0)
        left += children.get(each, [])
    return total
