"""The verb that measures: `bench`. Chooses the disk, measures there, says what was found."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from statistics import median

import taskpit
from taskpit import errors
from taskpit.cli.context import Args, Context, Reply, arg, takes
from taskpit.cli.options import refusal
from taskpit.cli.output import paint, table
from taskpit.cli.progress import ProgressBar
from taskpit.model import Claim, Done, Task
from taskpit.policy import settle
from taskpit.queue import Queue
from taskpit.store.opening import init

# -- what `pit bench` measures ---------------------------------------------------------------------
# Our verbs beside the bare system calls they are made of, on the disk at hand.
# Ours and bare take turns, round by round, and ratios are taken within a round: a machine that is busy for
# a while then slows both. The bare calls are those of the commit table and nothing else: no reading of
# settings, no choosing, no parsing.

#: Lives in one round: without and with waiting for the disk. A batch is as many tasks as one call is given.
LIVES, SYNCED, BATCH, WAKES, FSYNCS = 50, 10, 100, 5, 5
#: What a task weighs, in bytes of its file.
PAYLOAD = 500
#: The longest anything of another process or thread is waited for.
PATIENCE = 30.0
#: What is compared: its name for programs, what is divided by what, and how the ratio is to be read.
RATIOS = (
    ("life", "bare life", "life", "x bare speed"),
    ("batches", "bare life", "life in batches", "x bare speed"),
    ("life_synced", "bare life, synced", "life, synced", "x bare speed"),
    ("batches_synced", "bare life, synced", "life in batches, synced", "x bare speed"),
    ("one_shot", "pit claim", "python -c pass", "x as long"),
)


class BareCalls:
    """The system calls of the commit table for one task, with nothing around them."""

    FOLDERS = ("ready", "claimed", "done", "drafts", "ids", "sealed", "outcomes")

    def __init__(self, root: str, *, sync: bool) -> None:
        self.root = root
        self.sync = sync
        self.data = b"x" * PAYLOAD
        self.line = b"y" * 149 + b"\n"
        self._fd = -1
        for name in self.FOLDERS:
            os.makedirs(f"{root}/{name}", exist_ok=True)

    def _create(self, path: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        os.write(fd, self.data)
        os.close(fd)

    def _settle(self, path: str, *, touch: bool) -> None:
        if self.sync:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            if touch:
                os.utime(fd)
            os.fsync(fd)
            os.close(fd)

    def _log(self) -> None:
        if self._fd < 0:  # by each process once
            self._fd = os.open(f"{self.root}/log", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        os.write(self._fd, b"\n" + self.line)

    def put(self, name: str) -> None:
        """Row *put*: create, link the id, settle, tell, rename."""
        draft = f"{self.root}/drafts/{name}~put"
        self._create(draft)
        os.link(draft, f"{self.root}/ids/{name}")
        self._settle(draft, touch=False)
        self._log()
        os.rename(draft, f"{self.root}/ready/{name}")

    def claim(self, name: str) -> None:
        """Row *claim*: look at the id, stamp the lease, rename, look, read, tell."""
        ready, claimed = f"{self.root}/ready/{name}", f"{self.root}/claimed/w~abc123.{name}"
        os.stat(f"{self.root}/ids/{name}")
        until = time.time() + 900
        os.utime(ready, (until, until))
        os.rename(ready, claimed)
        fd = os.open(claimed, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.fstat(fd)
        os.read(fd, 4096)
        os.close(fd)
        self._log()

    def done(self, name: str) -> None:
        """Row *end of a claim*: write the result, seal, settle, link the result, tell, clear up."""
        result, sealed = f"{self.root}/drafts/{name}~result", f"{self.root}/sealed/{name}~done"
        self._create(result)
        os.rename(f"{self.root}/claimed/w~abc123.{name}", sealed)
        self._settle(result, touch=True)
        os.link(result, f"{self.root}/done/{name}.result")
        self._log()
        os.unlink(sealed)
        os.rename(result, f"{self.root}/outcomes/{name}~done")

    def live(self, names: Sequence[str]) -> None:
        """All of them are put, then claimed, then done."""
        for step in (self.put, self.claim, self.done):
            for name in names:
                step(name)


def sample_task(number: int, priority: int = 0) -> Task:
    """A task whose file weighs about PAYLOAD bytes."""
    return Task(
        id=f"{number:07d}",
        title=f"task {number}",
        slug=f"task-{number}",
        created=float(1_700_000_000 + number),
        by="bench",
        priority=priority,
        body="x" * (PAYLOAD - 150),
    )


class Gauge:
    """What is measured, and what came of it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._queues: dict[str, Queue] = {}
        self._number = 0
        #: Microseconds by name, one for each round.
        self.values: dict[str, list[float]] = {}

    def run(self, seconds: float, progress: Callable[[str], None]) -> int:
        """Rounds until the time is over, at least one; how many."""
        deadline, rounds = time.monotonic() + seconds, 0
        longest = 0.0
        while not rounds or time.monotonic() + longest < deadline:
            began = time.monotonic()
            rounds += 1
            for step in self._round():
                progress(f"round {rounds}: {step}")
            longest = max(longest, time.monotonic() - began)
        return rounds

    def _round(self) -> Iterator[str]:
        """Everything once; what comes next is said before it."""
        plain, synced = self._queue("process"), self._queue("power")
        yield "lives"
        self._time("bare life", LIVES, self._bare("bare", sync=False).live, self._names(LIVES))
        self._time("life", LIVES, _live, plain, self._fresh(LIVES))
        yield "batches"
        self._time("life in batches", BATCH, _live_in_one, plain, self._fresh(BATCH))
        yield "waiting for the disk"
        self._time("bare life, synced", SYNCED, self._bare("bare-synced", sync=True).live, self._names(SYNCED))
        self._time("life, synced", SYNCED, _live, synced, self._fresh(SYNCED))
        self._time("life in batches, synced", BATCH, _live_in_one, synced, self._fresh(BATCH))
        self._time("fsync of a file", FSYNCS, _sync_file, f"{self.root}/sync")
        yield "one command"
        plain.store.put(self._fresh(1))
        self._time("python -c pass", 1, _run, "-c", "pass")
        self._time("pit claim", 1, _run, "-m", "taskpit", "-C", f"{self.root}/process", "claim", "--json")
        yield "waking up"
        self.values.setdefault("put to claimed", []).append(1e6 * self._wake_up(plain))

    def _time(self, name: str, count: int, act: Callable[..., None], *given: object) -> None:
        began = time.perf_counter()
        act(*given)
        self.values.setdefault(name, []).append(1e6 * (time.perf_counter() - began) / count)

    def close(self) -> None:
        """Nothing is held open."""
        for queue in self._queues.values():
            queue.close()

    def _queue(self, durability: str) -> Queue:
        """The queue with this durability; made when first asked for."""
        if durability not in self._queues:
            path = f"{self.root}/{durability}"
            init(path, "pit")
            with open(f"{path}/.taskpit/config.toml", "w", encoding="utf-8") as file:
                file.write(f'durability = "{durability}"\n')
            self._queues[durability] = Queue.open(path)
            _live(self._queues[durability], self._fresh(2))  # what is loaded once is no part of a life
        return self._queues[durability]

    def _bare(self, name: str, *, sync: bool) -> BareCalls:
        return BareCalls(f"{self.root}/{name}", sync=sync)

    def _fresh(self, count: int) -> list[Task]:
        self._number += count
        return [sample_task(number) for number in range(self._number - count + 1, self._number + 1)]

    def _names(self, count: int) -> list[str]:
        return [f"{task.id}-{task.slug}.md" for task in self._fresh(count)]

    def _wake_up(self, queue: Queue) -> float:
        """Seconds from the beginning of a put until a worker that slept has the task."""
        taken = []
        with closing(Queue.open(f"{self.root}/process")) as waiter, ThreadPoolExecutor(1) as thread:
            for task in self._fresh(WAKES):
                claimed = thread.submit(_claimed_at, waiter)
                time.sleep(0.02)  # it sleeps by now
                began = time.monotonic()
                queue.store.put([task])
                taken.append(claimed.result(PATIENCE) - began)
        return median(taken)


def _claimed_at(queue: Queue) -> float:
    """When this worker had a task."""
    if not queue.claim("waiter", wait=10.0):
        raise errors.Storage("a worker that waited was not told of a new task")
    return time.monotonic()


def _sync_file(path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        for _ in range(FSYNCS):
            os.write(fd, b"z" * PAYLOAD)
            os.fsync(fd)
    finally:
        os.close(fd)


def _live(queue: Queue, tasks: Sequence[Task]) -> None:
    """Each is put, then each is claimed, then each is done."""
    claims: list[Claim] = []
    for task in tasks:
        queue.store.put([task])
    for _ in tasks:
        claims += queue.claim("bench")
    for claim in claims:
        queue.finish(claim, Done(output="ok"))


def _live_in_one(queue: Queue, tasks: Sequence[Task]) -> None:
    """The same with all of them in one call each."""
    queue.store.put(tasks)
    claims = queue.claim("bench", count=len(tasks))
    now = queue.clock.now()
    queue.store.finish([settle(claim, Done(output="ok"), (), queue.config, now) for claim in claims])


def _run(*words: str) -> None:
    """Another Python that finds this very package."""
    from subprocess import DEVNULL, run

    here = os.path.dirname(os.path.dirname(os.path.abspath(taskpit.__file__)))
    env = {**os.environ, "PYTHONPATH": here, "TASKPIT_AS": "bench"}
    run([sys.executable, *words], stdin=DEVNULL, stdout=DEVNULL, check=True, env=env, timeout=PATIENCE)


# -- the verb that measures ------------------------------------------------------------------------


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise refusal(f"{text!r} is not a number of seconds from above 0 to 3600")
    return seconds


@takes(arg("--seconds S", "about how long (default 10)", type=_seconds, default=10.0))
def _bench(args: Args, context: Context) -> Reply:
    """Measure this machine: whole lives of tasks (put, claimed, done with a result) beside the bare system calls they
    are made of, one by one and in batches of 100, without and with waiting for the disk; one `pit claim` beside
    `python -c pass`; and how long a sleeping worker takes to have a new task. In a temporary folder on the disk of
    your queue, or in the current directory if there is none; it is removed afterwards, your queue is not touched.

    pit bench
    pit -C /mnt/shared/pit bench --seconds 30
    pit bench --json
    """
    from shutil import rmtree
    from tempfile import mkdtemp

    place = place_of(context)
    root = mkdtemp(prefix=".taskpit-bench-", dir=place)
    gauge = Gauge(root)
    try:
        with ProgressBar(context, "measuring", turns=True) as bar:
            rounds = gauge.run(args.seconds, bar.say)
    finally:
        try:
            gauge.close()
        finally:
            rmtree(root, ignore_errors=True)
    values = gauge.values
    ratios = {
        key: median(one / other for one, other in zip(values[above], values[below], strict=True))
        for key, above, below, _ in RATIOS
    }
    data = {
        "where": place,
        "rounds": rounds,
        "measures": {
            name: {
                "unit": "us",
                "median": round(median(each), 3),
                "low": round(min(each), 3),
                "high": round(max(each), 3),
            }
            for name, each in values.items()
        },
        "ratios": {key: round(ratio, 3) for key, ratio in ratios.items()},
    }
    return Reply(data=data, text=lambda: _text(place, rounds, values, ratios))


def place_of(context: Context) -> str:
    """The folder whose disk is measured."""
    try:
        where = context.queue.store.info().where
    except errors.NotFound:
        if context.directory is not None:
            raise
        return os.getcwd()
    hidden = os.path.join(where, ".taskpit")
    return hidden if os.path.isdir(hidden) else where


def _text(place: str, rounds: int, values: dict[str, list[float]], ratios: dict[str, float]) -> str:
    compared = {
        (above if key == "one_shot" else below): f"{ratios[key]:.2f} {how}" for key, above, below, how in RATIOS
    }
    rows = []
    for name, each in values.items():
        rate = f"{1e6 / median(each):,.0f}/s" if "life" in name else ""
        spread = f"{_short(min(each))} .. {_short(max(each))}"
        rows.append((name, _short(median(each)), spread, rate, compared.get(name, "")))
    head = ("what", "median", "spread", "rate", "ratio")
    lines = [paint("bold", f"Measured in {place}, {rounds} {'round' if rounds == 1 else 'rounds'}"), ""]
    lines += [table(head, rows), ""]
    lines += [f"A life is put, claimed, done with a result: {PAYLOAD} bytes each. Batches are of {BATCH}."]
    lines += ["Synced is durability = power: on the disk before it is acknowledged."]
    return "\n".join(lines)


def _short(microseconds: float) -> str:
    """`85 us`, `1.3 ms`."""
    return f"{microseconds:.0f} us" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"
