"""The verb that measures: `bench`. Chooses the disk, measures there, says what was found."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from subprocess import Popen

from taskpit import errors
from taskpit.cli.context import Args, Context, Handlers, Parser, Reply
from taskpit.cli.options import example, refusal
from taskpit.cli.output import paint, table
from taskpit.cli.progress import ProgressBar
from taskpit.queue import Queue
from taskpit.records import Value
from taskpit.task import Claim, Task

# -- what `pit bench` measures ---------------------------------------------------------------------
# What `pit bench` measures: our verbs beside the bare system calls they are made of, on the disk at hand.
# Ours and bare take turns, round by round, and ratios are taken within a round: a machine that is busy for
# a while then slows both. The bare calls are those of the commit table and nothing else: no reading of
# settings, no choosing, no parsing.

#: Lives in one round: without and with waiting for the disk. A batch is as many tasks as one call is given.
LIVES, SYNCED, BATCH, WAKES, FSYNCS = 50, 10, 100, 5, 5
#: What a task weighs, in bytes of its file.
PAYLOAD = 500
#: The longest anything of another process is waited for.
PATIENCE = 30.0

CLAIM = "import sys; from taskpit.cli.main import main; sys.exit(main())"
WAITER = """
import sys, time
from taskpit.queue import Queue
queue = Queue.open(sys.argv[1])
print("waiting", flush=True)
for _ in sys.stdin:
    claims = queue.claim("waiter", wait=10.0)
    print(time.monotonic_ns(), *(claim.task.id for claim in claims), flush=True)
"""


class BareCalls:
    """The system calls of the commit table for one task, with nothing around them."""

    FOLDERS = ("ready", "claimed", "done", "drafts", "ids", "sealed", "outcomes")

    def __init__(self, root: str, *, sync: bool) -> None:
        self.root = root
        self.sync = sync
        self.data = b"x" * PAYLOAD
        for name in self.FOLDERS:
            os.makedirs(f"{root}/{name}", exist_ok=True)

    def _create(self, path: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        os.write(fd, self.data)
        if self.sync:
            os.fsync(fd)
        os.close(fd)

    def _settle(self, *folders: str) -> None:
        if self.sync:
            for name in folders:
                sync_folder(f"{self.root}/{name}")

    def _log(self) -> None:
        fd = os.open(f"{self.root}/log", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        fcntl.flock(fd, fcntl.LOCK_EX)
        end = os.lseek(fd, 0, os.SEEK_END)
        if end:
            os.pread(fd, 1, end - 1)
        os.write(fd, b"y" * 149 + b"\n")
        os.close(fd)

    def put(self, name: str) -> None:
        """Row *put*: create, link the id, tell, rename."""
        draft = f"{self.root}/drafts/{name}~put"
        self._create(draft)
        self._settle("drafts")
        os.link(draft, f"{self.root}/ids/{name}")
        self._log()
        os.rename(draft, f"{self.root}/ready/{name}")
        self._settle("ids", "ready")

    def claim(self, name: str) -> None:
        """Row *claim*: freshen, rename, stamp the lease, read, tell."""
        ready, claimed = f"{self.root}/ready/{name}", f"{self.root}/claimed/w~abc123.{name}"
        os.utime(ready)
        os.rename(ready, claimed)
        until = time.time() + 900
        os.utime(claimed, (until, until))
        fd = os.open(claimed, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.fstat(fd)
        os.read(fd, 4096)
        os.close(fd)
        self._log()

    def done(self, name: str) -> None:
        """Row *end of a claim*: write the result, seal, link the result, tell, clear up."""
        result, sealed = f"{self.root}/drafts/{name}~result", f"{self.root}/sealed/{name}~done"
        self._create(result)
        self._settle("drafts")
        os.rename(f"{self.root}/claimed/w~abc123.{name}", sealed)
        os.link(result, f"{self.root}/done/{name}.result")
        self._settle("done")
        self._log()
        os.unlink(sealed)
        os.rename(result, f"{self.root}/outcomes/{name}~done")

    def live(self, names: Sequence[str]) -> None:
        """All of them are put, then claimed, then done."""
        for step in (self.put, self.claim, self.done):
            for name in names:
                step(name)


def sync_folder(path: str) -> None:
    """The folder's entries are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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


class Measured(Value):
    """What was measured under one name, one number for each round."""

    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.values)

    def as_json(self) -> dict[str, object]:
        """The middle one and the spread."""
        return {
            "unit": self.unit,
            "median": round(self.median, 3),
            "low": round(min(self.values), 3),
            "high": round(max(self.values), 3),
        }


class Gauge:
    """The things that are measured, and what came of it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._queues: dict[str, Queue] = {}
        self._number = 0
        self._waiter: Popen[str] | None = None
        #: Microseconds by name, one for each round.
        self.values: dict[str, list[float]] = {}
        self.steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("lives", self._lives),
            ("batches", self._batches),
            ("waiting for the disk", self._synced),
            ("one command", self._one_shot),
            ("waking up", self._wake_up),
        )

    def run(self, seconds: float, progress: Callable[[str], None]) -> int:
        """Rounds until the time is over, at least one; how many."""
        deadline, rounds = time.monotonic() + seconds, 0
        longest = 0.0
        while not rounds or time.monotonic() + longest < deadline:
            began = time.monotonic()
            rounds += 1
            for name, step in self.steps:
                progress(f"round {rounds}: {name}")
                step()
            longest = max(longest, time.monotonic() - began)
        return rounds

    def close(self) -> None:
        """Nothing is held open, nobody waits."""
        for queue in self._queues.values():
            queue.close()
        if self._waiter is not None:
            if self._waiter.stdin:
                self._waiter.stdin.close()
            try:
                self._waiter.wait(PATIENCE)
            finally:
                self._waiter.kill()
                if self._waiter.stdout:
                    self._waiter.stdout.close()
                self._waiter.wait()

    def _queue(self, durability: str) -> Queue:
        """The queue with this durability; made when first asked for."""
        if durability not in self._queues:
            from taskpit.store.opening import init

            path = f"{self.root}/{durability}"
            init(path, "pit")
            with open(f"{path}/.taskpit/config.toml", "w", encoding="utf-8") as file:
                file.write(f'durability = "{durability}"\n')
            self._queues[durability] = Queue.open(path)
            _live(self._queues[durability], self._fresh(2))  # what is loaded once is no part of a life
        return self._queues[durability]

    def _fresh(self, count: int) -> list[Task]:
        self._number += count
        return [sample_task(number) for number in range(self._number - count + 1, self._number + 1)]

    def _note(self, name: str, seconds: float, count: int) -> None:
        self.values.setdefault(name, []).append(1e6 * seconds / count)

    def _bare(self, name: str, count: int, *, sync: bool) -> None:
        calls = BareCalls(f"{self.root}/{name.replace(' ', '-')}", sync=sync)
        names = [f"{task.id}-{task.slug}.md" for task in self._fresh(count)]
        self._note(name, _timed(lambda: calls.live(names)), count)

    def _ours(self, name: str, queue: Queue, count: int) -> None:
        tasks = self._fresh(count)
        self._note(name, _timed(lambda: _live(queue, tasks)), count)

    def _lives(self) -> None:
        """Lives one by one; nobody waits for the disk."""
        self._bare("bare life", LIVES, sync=False)
        self._ours("life", self._queue("process"), LIVES)

    def _batches(self) -> None:
        queue, tasks = self._queue("process"), self._fresh(BATCH)
        self._note("life in batches", _timed(lambda: _live_in_one(queue, tasks)), BATCH)

    def _synced(self) -> None:
        """Lives that are on the disk before they are acknowledged, and what a disk asks for that."""
        queue = self._queue("power")
        self._bare("bare life, synced", SYNCED, sync=True)
        self._ours("life, synced", queue, SYNCED)
        tasks = self._fresh(BATCH)
        self._note("life in batches, synced", _timed(lambda: _live_in_one(queue, tasks)), BATCH)
        self._note("fsync of a file", _timed(lambda: self._sync_files(FSYNCS)), FSYNCS)

    def _sync_files(self, count: int) -> None:
        fd = os.open(f"{self.root}/sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            for _ in range(count):
                os.write(fd, b"z" * PAYLOAD)
                os.fsync(fd)
        finally:
            os.close(fd)

    def _one_shot(self) -> None:
        queue = self._queue("process")
        queue.store.put(self._fresh(1))
        self._note("python -c pass", _timed(lambda: _run("-c", "pass")), 1)
        self._note("pit claim", _timed(lambda: _run("-c", CLAIM, "-C", f"{self.root}/process", "claim", "--json")), 1)

    def _wake_up(self) -> None:
        """From the beginning of a put until a worker that slept has the task."""
        queue = self._queue("process")
        waiter = self._waiter = self._waiter or self._start_waiter()
        if waiter.stdin is None or waiter.stdout is None:
            raise errors.Storage("the worker that waits cannot be spoken to")
        taken = []
        for task in self._fresh(WAKES):
            waiter.stdin.write("next\n")
            waiter.stdin.flush()
            time.sleep(0.02)  # it sleeps by now
            began = time.monotonic_ns()
            queue.store.put([task])
            while task.id not in (said := waiter.stdout.readline().split()):  # one that was left over came first
                if not said:
                    raise errors.Storage("the worker that waits has ended")
                waiter.stdin.write("next\n")
                waiter.stdin.flush()
            taken.append((int(said[0]) - began) / 1e9)
        self._note("put to claimed", median(taken), 1)

    def _start_waiter(self) -> Popen[str]:
        from subprocess import PIPE

        argv = [sys.executable, "-c", WAITER, f"{self.root}/process"]
        waiter = Popen(argv, stdin=PIPE, stdout=PIPE, text=True, env=_env())
        if waiter.stdout is not None:
            waiter.stdout.readline()
        return waiter


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _live(queue: Queue, tasks: Sequence[Task]) -> None:
    """Each is put, then each is claimed, then each is done."""
    from taskpit.task import Done

    claims: list[Claim] = []
    for task in tasks:
        queue.store.put([task])
    for _ in tasks:
        claims += queue.claim("bench")
    for claim in claims:
        queue.finish(claim, Done(output="ok"))


def _live_in_one(queue: Queue, tasks: Sequence[Task]) -> None:
    """The same with all of them in one call each."""
    from taskpit.policy import settle
    from taskpit.task import Done

    queue.store.put(tasks)
    claims = queue.claim("bench", count=len(tasks))
    now = queue.clock.now()
    queue.store.finish([settle(claim, Done(output="ok"), (), queue.config, now) for claim in claims])


def _env() -> dict[str, str]:
    """What another Python needs to find this very package."""
    import taskpit

    here = os.path.dirname(os.path.dirname(os.path.abspath(taskpit.__file__)))
    return {**os.environ, "PYTHONPATH": here, "TASKPIT_AS": "bench"}


def _run(*words: str) -> None:
    from subprocess import DEVNULL, run

    run([sys.executable, *words], stdin=DEVNULL, stdout=DEVNULL, check=True, env=_env(), timeout=PATIENCE)


# -- the verb that measures ------------------------------------------------------------------------


def _bench_arguments(parser: Parser) -> None:
    parser.description = """\
Measure this machine: whole lives of tasks (put, claimed, done with a result) beside the bare system calls they
are made of, one by one and in batches of 100, without and with waiting for the disk; one `pit claim` beside
`python -c pass`; and how long a sleeping worker takes to have a new task. In a temporary folder on the disk of
your queue, or in the current directory if there is none; it is removed afterwards, your queue is not touched."""
    parser.epilog = example("pit bench", "pit -C /mnt/shared/pit bench --seconds 30", "pit bench --json")
    parser.add_argument("--seconds", type=_seconds, default=10.0, metavar="S", help="about how long (default 10)")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise refusal(f"{text!r} is not a number of seconds from above 0 to 3600")
    return seconds


def _bench(args: Args, context: Context) -> Reply:
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
    measured = {name: Measured(unit="us", values=tuple(values)) for name, values in gauge.values.items()}
    ratios = _ratios(gauge.values)
    data = {
        "where": place,
        "rounds": rounds,
        "measures": {name: each.as_json() for name, each in measured.items()},
        "ratios": {key: round(ratio, 3) for key, (ratio, _) in ratios.items()},
    }
    return Reply(data=data, text=lambda: _text(place, rounds, measured, ratios))


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


def _ratios(values: dict[str, list[float]]) -> dict[str, tuple[float, str]]:
    """What is compared: the ratio within each round, the middle one of them, and how to read it."""

    def within(above: str, below: str) -> float:
        return median(one / other for one, other in zip(values[above], values[below], strict=True))

    speed, length = "x bare speed", "x as long"
    return {
        "life": (within("bare life", "life"), speed),
        "batches": (within("bare life", "life in batches"), speed),
        "life_synced": (within("bare life, synced", "life, synced"), speed),
        "batches_synced": (within("bare life, synced", "life in batches, synced"), speed),
        "one_shot": (within("pit claim", "python -c pass"), length),
    }


def _text(place: str, rounds: int, measured: dict[str, Measured], ratios: dict[str, tuple[float, str]]) -> str:
    beside = {
        "life": "life",
        "life in batches": "batches",
        "life, synced": "life_synced",
        "life in batches, synced": "batches_synced",
        "pit claim": "one_shot",
    }
    rows = []
    for name, each in measured.items():
        ratio, how = ratios.get(beside.get(name, ""), (0.0, ""))
        rate = f"{1e6 / each.median:,.0f}/s" if "life" in name else ""
        spread = f"{_short(min(each.values))} .. {_short(max(each.values))}"
        rows.append((name, _short(each.median), spread, rate, f"{ratio:.2f} {how}" if how else ""))
    head = ("what", "median", "spread", "rate", "ratio")
    lines = [paint("bold", f"Measured in {place}, {rounds} {'round' if rounds == 1 else 'rounds'}"), ""]
    lines += [table(head, rows), ""]
    lines += [f"A life is put, claimed, done with a result: {PAYLOAD} bytes each. Batches are of {BATCH}."]
    lines += ["Synced is durability = power: on the disk before it is acknowledged."]
    return "\n".join(lines)


def _short(microseconds: float) -> str:
    """`85 us`, `1.3 ms`."""
    return f"{microseconds:.0f} us" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"


VERBS: Handlers = {
    "bench": (_bench_arguments, _bench),
}
