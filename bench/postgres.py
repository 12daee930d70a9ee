# ruff: noqa: INP001 - a script, not a part of a package; the names in its SQL are its own
"""The queue on PostgreSQL beside procrastinate on the same server, in turns, round by round.

    python bench/postgres.py                    five minutes
    python bench/postgres.py --quick            one
    python bench/postgres.py --backlog 1000000  with so many tasks waiting (default: 100,000)
    python bench/postgres.py --goals            what is aimed at beside what is measured, gateway and all: ten minutes

The server is a private one with fsync on, in a temporary folder, on a socket. Writes postgres.json into `--out`
and prints the figures. Server CPU and WAL are counted by the server; keep the machine quiet all the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(ROOT, "src"), os.path.join(ROOT, "tests", "support")]

import psycopg  # noqa: E402
from pgservers import Server, system, wheel  # noqa: E402

from taskpit.config import Config  # noqa: E402
from taskpit.model import Done, Task, Want  # noqa: E402
from taskpit.policy import settle  # noqa: E402
from taskpit.store.postgres.address import parse  # noqa: E402
from taskpit.store.postgres.opening import init_database  # noqa: E402
from taskpit.store.postgres.store import PostgresStore  # noqa: E402

fork = multiprocessing.get_context("fork")
BODY = "x" * 300
CONFIG = Config()


def tasks(first: int, count: int) -> list[Task]:
    """Tasks to put, made before the clock runs."""
    return [Task(id=f"{n:08d}", title="t", body=BODY, by="bench") for n in range(first, first + count)]


# -- the server, and what it spent -------------------------------------------------------------------


class Meter:
    """What the server's processes and its log have used since the last look."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self.cpu, self.wal = self.server.cpu(), self._wal()

    def _wal(self) -> int:
        return int(self.server.sql("SELECT pg_current_wal_lsn() - '0/0'")[0][0])

    def spent(self, count: int) -> dict[str, float]:
        """Milliseconds of CPU and bytes of WAL for each of so many."""
        cpu, wal = self.server.cpu() - self.cpu, self._wal() - self.wal
        return {"cpu_ms": round(1000 * cpu / count, 3), "wal_bytes": round(wal / count)}


# -- ours --------------------------------------------------------------------------------------------


class Ours:
    """A queue of ours for one lap."""

    name = "taskpit"

    def __init__(self, server: Server, number: int) -> None:
        self.address = server.address(schema=f"lap{number}")
        init_database(self.address, {})

    def put(self, first: int, count: int, batch: int = 1) -> None:
        """So many tasks, in calls of so many."""
        store, made = PostgresStore(parse(self.address)), tasks(first, count)
        for start in range(0, count, batch):
            store.put(made[start : start + batch])
        store.close()

    def drain(self, count: int, batch: int = 1) -> None:
        """So many tasks claimed and finished: an end and the next claim in one call, as a gateway makes them."""
        store, done = PostgresStore(parse(self.address)), 0
        want = Want(worker=f"w{os.getpid()}", lease=900.0, count=batch)
        claims = store.claim(want)
        while claims:
            done += len(claims)
            ends = [settle(claim, Done(output="ok"), (), CONFIG, 0.0) for claim in claims]
            _, (claims,) = store.turn(ends, [want]) if done < count else (store.finish(ends), [[]])
        store.close()


class Peer:
    """procrastinate for one lap: its own schema in a database of its own."""

    name = "procrastinate"

    def __init__(self, server: Server, number: int) -> None:
        import procrastinate

        server.sql(f"CREATE DATABASE peer{number}")
        self.info = f"host={server.root} user=pit dbname=peer{number}"
        app = self._app(procrastinate.SyncPsycopgConnector(conninfo=self.info))
        with app.open():
            app.schema_manager.apply_schema()

    def _app(self, connector: Any) -> Any:
        import procrastinate

        app = procrastinate.App(connector=connector)
        app.task(name="nothing")(_nothing)
        return app

    def put(self, first: int, count: int) -> None:
        """So many jobs, one by one, over one connection."""
        import procrastinate

        app = self._app(procrastinate.SyncPsycopgConnector(conninfo=self.info, min_size=1, max_size=1))
        with app.open():
            defer = app.configure_task("nothing")
            for number in range(first, first + count):
                defer.defer(number=number, body=BODY)

    def drain(self, count: int) -> None:  # noqa: ARG002 - a worker runs until nothing is left
        """Every job there is."""
        import procrastinate

        logging.disable(logging.CRITICAL)

        async def work() -> None:
            app = self._app(procrastinate.PsycopgConnector(conninfo=self.info, min_size=1, max_size=4))
            async with app.open_async():
                await app.run_worker_async(wait=False, concurrency=1, install_signal_handlers=False)

        asyncio.run(work())


async def _nothing(number: int, body: str) -> None:
    """A job that does nothing."""


# -- laps --------------------------------------------------------------------------------------------


def race(workers: int, act: Callable[[int], None]) -> float:
    """Seconds until so many processes have each done it, from the moment all are ready."""
    barrier = fork.Barrier(workers + 1)

    def run(number: int) -> None:
        barrier.wait()
        act(number)
        os._exit(0)

    processes = [fork.Process(target=run, args=(number,)) for number in range(workers)]
    for process in processes:
        process.start()
    barrier.wait()
    began = time.monotonic()
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a worker ended with {process.exitcode}")
    return time.monotonic() - began


class Bench:
    """All figures of one run."""

    def __init__(self, server: Server, *, quick: bool) -> None:
        self.server, self.quick, self.meter = server, quick, Meter(server)
        self.rounds = 2 if quick else 3
        self.figures: dict[str, list[float]] = {}
        self.spent: dict[str, dict[str, float]] = {}
        self._lap = 0

    def _fresh(self, kind: type) -> Any:
        self._lap += 1
        return kind(self.server, self._lap)

    def note(self, name: str, value: float) -> None:
        """One more figure."""
        self.figures.setdefault(name, []).append(round(value, 3))
        print(f"  {name}: {value:,.2f}", file=sys.stderr)

    def lives(self) -> None:
        """Single operations, one and eight workers, each entrant in each round."""
        for _ in range(self.rounds):
            for kind, each in ((Ours, 1600 if self.quick else 4000), (Peer, 240 if self.quick else 480)):
                for workers in (1, 8):
                    count = each // workers * workers if workers > 1 else each // 2
                    lap, share = self._fresh(kind), count // workers
                    self.meter.begin()
                    took = race(workers, lambda n, lap=lap, share=share: lap.put(n * share, share))
                    self.note(f"{kind.name} put/s, {workers} workers", count / took)
                    self.spent[f"{kind.name} put, {workers} workers"] = self.meter.spent(count)
                    self.meter.begin()
                    took = race(workers, lambda _, lap=lap, share=share: lap.drain(share))
                    self.note(f"{kind.name} claim+finish/s, {workers} workers", count / took)
                    self.spent[f"{kind.name} claim+finish, {workers} workers"] = self.meter.spent(count)

    def batches(self) -> None:
        """A hundred at once."""
        count = 8_000 if self.quick else 20_000
        for _ in range(self.rounds):
            for workers in (1, 4):
                lap, share = self._fresh(Ours), count // workers
                self.meter.begin()
                took = race(workers, lambda n, lap=lap, share=share: lap.put(n * share, share, 100))
                self.note(f"batches of 100: put/s, {workers} workers", count / took)
                self.spent[f"batches put, {workers} workers"] = self.meter.spent(count)
                self.meter.begin()
                took = race(workers, lambda _, lap=lap, share=share: lap.drain(share, 100))
                self.note(f"batches of 100: claim+finish/s, {workers} workers", count / took)
                self.spent[f"batches claim+finish, {workers} workers"] = self.meter.spent(count)

    def renewals(self) -> None:
        """Leases renewed, a thousand in one call."""
        lap = self._fresh(Ours)
        lap.put(0, 1000, 100)
        store = PostgresStore(parse(lap.address))
        claims = store.claim(Want(worker="w", lease=900.0, count=1000))
        for _ in range(self.rounds):
            began = time.monotonic()
            for _ in range(10):
                store.renew(claims, 900.0)
            self.note("leases renewed/s, 1000 in a call", 10 * len(claims) / (time.monotonic() - began))
        store.close()

    def held(self, many: int) -> None:
        """Claims while a transaction that stays open keeps so many dead rows from being cleaned away."""
        lap = self._fresh(Ours)
        store = PostgresStore(parse(lap.address))
        self.server.fill(store, many + 4000)

        def claims(count: int) -> float:
            self.meter.begin()
            began = time.monotonic()
            for _ in range(count):
                store.claim(Want(worker="w", lease=900.0))
            self.note("claim, server CPU ms", self.meter.spent(count)["cpu_ms"])
            return 1000 * (time.monotonic() - began) / count

        self.note("claim, ms, no dead rows", claims(500))
        line = psycopg.connect(self.server.address())
        line.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        line.execute("SELECT pg_current_xact_id()")
        for _ in range(many // 500):
            store.claim(Want(worker="w", lease=900.0, count=500))
        time.sleep(1.5)  # the server counts its dead rows once a second
        store.claim(Want(worker="w", lease=900.0))
        time.sleep(1.1)
        store.claim(Want(worker="w", lease=900.0))
        self.note(f"claim, ms, {many:,} dead rows", claims(500))
        store.database.execute(f"DELETE FROM {store.database.schema}.floor")  # noqa: S608 - its own name; to compare
        store._raised = time.monotonic() + 3600  # noqa: SLF001
        self.note(f"claim, ms, {many:,} dead rows, no floor", claims(200))
        line.close()
        store.close()

    def aside(self, many: int) -> None:
        """Claims beside so many tasks that one which runs keeps waiting, by the path they share."""
        lap, count = self._fresh(Ours), 200
        store = PostgresStore(parse(lap.address))
        blocked = [Task(id=f"b{n:06d}", title="t", touches=("src/one",), priority=9) for n in range(many + 1)]
        for start in range(0, len(blocked), 500):
            store.put(blocked[start : start + 500])
        store.put(tasks(0, 2 * count))
        store.claim(Want(worker="w", lease=900.0))
        for name in ("the first ones", f"beside {many:,} that wait for a path"):
            self.meter.begin()
            began = time.monotonic()
            for _ in range(count):
                if len(store.claim(Want(worker="w", lease=900.0))) != 1:
                    raise RuntimeError("there should be one")
            self.note(f"claim, ms, {name}", 1000 * (time.monotonic() - began) / count)
            self.note(f"claim, server CPU ms, {name}", self.meter.spent(count)["cpu_ms"])
        store.close()

    def wake(self) -> None:
        """From put to claimed, by a worker that sleeps."""
        lap, count = self._fresh(Ours), 50 if self.quick else 300
        taken: dict[str, float] = {}
        over = threading.Event()

        def work() -> None:
            store = PostgresStore(parse(lap.address))
            want = Want(worker="w", lease=900.0)
            while not over.is_set():
                for claim in store.claim(want):
                    taken[claim.task.id] = time.monotonic()
                store.wait(1.0)
            store.close()

        thread = threading.Thread(target=work)
        thread.start()
        store = PostgresStore(parse(lap.address))
        time.sleep(1.0)
        latencies = []
        for number in range(count):
            (task,) = tasks(number, 1)
            began = time.monotonic()
            store.put([task])
            while task.id not in taken:
                time.sleep(0.0002)
            latencies.append(1000 * (taken[task.id] - began))
            time.sleep(0.01)
        over.set()
        thread.join()
        store.close()
        latencies.sort()
        self.note("put to claim, ms, p50", latencies[len(latencies) // 2])
        self.note("put to claim, ms, p99", latencies[int(len(latencies) * 0.99)])

    def backlog(self, many: int) -> None:
        """Tasks claimed and finished one by one, with a thousand waiting and with many, in turns."""
        laps, count = {1_000: self._fresh(Ours), many: self._fresh(Ours)}, 300 if self.quick else 600
        for waiting, lap in laps.items():
            store = PostgresStore(parse(lap.address))
            self.server.fill(store, waiting + self.rounds * count)
            store.close()
        self.server.sql("VACUUM ANALYZE")
        self.server.sql("CHECKPOINT")
        for _ in range(self.rounds):
            for waiting, lap in laps.items():
                self.meter.begin()
                took = race(1, lambda _, lap=lap: lap.drain(count))
                self.note(f"claim+finish/s, 1 worker, {waiting:,} waiting", count / took)
                spent = self.meter.spent(count)
                self.note(f"server CPU ms per claim+finish, {waiting:,} waiting", spent["cpu_ms"])
                self.spent[f"claim+finish, {waiting:,} waiting"] = spent

    def disk(self) -> None:
        """What a commit waits for, whatever the queue: eight kilobytes on the disk of the server's log."""
        took = []
        with tempfile.TemporaryFile(dir=self.server.root) as file:
            for _ in range(200):
                file.write(bytes(8192))
                file.flush()
                began = time.monotonic()
                os.fdatasync(file.fileno())
                took.append(1000 * (time.monotonic() - began))
        self.note("fdatasync of 8 KB, ms", statistics.median(took))

    def commands(self) -> None:
        """`pit add` beside what it would take to load psycopg, in turns: from start to end, and CPU."""
        lap = self._fresh(Ours)
        entrants = {
            "pit add": ["-m", "taskpit", "-C", lap.address, "add", "x"],
            "import psycopg": ["-c", "import psycopg"],
            "python": ["-c", "pass"],
        }
        env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "src"), "XDG_STATE_HOME": self.server.root}
        for _ in range(4 if self.quick else 15):
            for name, words in entrants.items():
                before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                subprocess.run([sys.executable, *words], env=env, check=True, stdout=subprocess.DEVNULL)
                took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
                self.note(f"{name}, ms", 1000 * took)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                self.note(f"{name}, CPU ms", 1000 * cpu)

    def report(self) -> dict[str, Any]:
        """The middle of each figure, and all of them."""
        middle = {name: statistics.median(values) for name, values in self.figures.items()}
        ratios = {
            f"{what}, {workers} workers": round(
                middle[f"taskpit {what}/s, {workers} workers"] / middle[f"procrastinate {what}/s, {workers} workers"], 1
            )
            for what in ("put", "claim+finish")
            for workers in (1, 8)
            if f"procrastinate {what}/s, {workers} workers" in middle
        }
        return {"median": middle, "times procrastinate": ratios, "server": self.spent, "all": self.figures}


# -- what is aimed at --------------------------------------------------------------------------------


def gateway(out: str) -> list[dict[str, Any]]:
    """Run bench/gateway.py, and return what it measured."""
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "src")}
    words = [os.path.join(HERE, "gateway.py"), "all", "--postgres", "--out", out]
    subprocess.run([sys.executable, *words], env=env, check=True)
    with open(out, encoding="utf-8") as file:
        runs: list[dict[str, Any]] = json.load(file)["runs"]
    return runs


def goals(report: dict[str, Any], no_disk: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    """Each figure, what is aimed at, and what was measured."""
    middle, ratios, free = report["median"], report["times procrastinate"], no_disk["times procrastinate"]
    known = {(one["kind"], one["agents"]): one for one in runs}
    calm = known["tasks", 10_000]
    single, hundreds = middle["taskpit put/s, 1 workers"], middle["batches of 100: put/s, 1 workers"]
    none, some, *_ = report["all"]["claim, server CPU ms"]
    put, wait = 1000 / single, middle["fdatasync of 8 KB, ms"]
    late, renew, turns = len(calm["renewals later than a lease, or lost"]), calm["renew"], calm["turn"]
    busy = ", ".join(f"{who} {cores:.2f}" for who, cores in calm["cores busy"].items())
    names = ("pit add", "import psycopg")
    add, load = (f"{middle[f'{name}, ms']:.0f} ms, {middle[f'{name}, CPU ms']:.0f} CPU" for name in names)
    beside = middle["claim, server CPU ms, beside 3,000 that wait for a path"]
    aims = (("claim+finish", 1, 3.0), ("claim+finish", 8, 3.4), ("put", 1, 2.5), ("put", 8, 2.5))
    lines = [
        (f"{what} against procrastinate, {workers}", f"{least}x", f"{ratios[f'{what}, {workers} workers']}x")
        for what, workers, least in aims
    ]
    lines += [
        ("put, 1 and 8, where the disk costs nothing", "", f"{free['put, 1 workers']}x, {free['put, 8 workers']}x"),
        ("of a single put, waiting for the disk", "", f"{wait:.2f} of {put:.2f} ms"),
        ("put in hundreds against single", "10x", f"{hundreds / single:.0f}x ({hundreds:,.0f}/s)"),
        ("claim with a snapshot held, 40,000 dead rows", "at most 1.5x", f"{some / none:.1f}x ({some} ms CPU)"),
        ("claim beside 3,000 blocked by one path", "under 1 ms CPU", f"{beside:.2f} ms"),
        ("64 busy agents on one gateway", "1,200/s", f"{known['busy', 64]['requests/s']:,.0f}/s"),
        ("10,000 agents, tasks of 60 s, turns: p99", "under 1 s", f"{turns['p99']:.0f} ms; cores busy: {busy}"),
        ("their renewals that were late", "0", f"{late} of {renew['count']:,} (p99 {renew['p99']:.0f} ms)"),
        ("pit add to a database", "under 150 ms", f"{add}; importing psycopg alone: {load}"),
    ]
    return "\n".join(["| figure | goal | measured |", "|---|---|---|", *(f"| {' | '.join(line)} |" for line in lines)])


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--backlog", type=int, default=100_000, metavar="N")
    parser.add_argument("--out", default=os.path.join(HERE, "results"), metavar="DIR")
    parser.add_argument("--system", action="store_true", help="the system's own server instead of the wheel's")
    parser.add_argument("--no-fsync", action="store_true", help="as if the disk cost nothing: what is left is CPU")
    parser.add_argument("--only", default="", help="what has this in its name: lives, batches, held, aside, ...")
    parser.add_argument("--goals", action="store_true", help="what is aimed at beside what is measured")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    programs = (system() if args.system else None) or wheel()
    server = Server(programs, fsync="off" if args.no_fsync else "on", shared_buffers="256MB")
    try:
        server.make().start()
        bench = Bench(server, quick=args.quick)
        steps: dict[str, Callable[[], None]] = {
            "lives": bench.lives,
            "batches": bench.batches,
            "renewals": bench.renewals,
            "held": lambda: bench.held(40_000),
            "aside": lambda: bench.aside(3_000),
            "disk": bench.disk,
            "commands": bench.commands,
            "wake": bench.wake,
            "backlog": lambda: bench.backlog(args.backlog),
        }
        for name, step in steps.items():
            if args.only in name and not (args.goals and name in ("renewals", "wake", "backlog")):
                step()
        report = {"server version": server.sql("SHOW server_version")[0][0], **bench.report()}
    finally:
        server.remove()
    with open(f"{args.out}/postgres.json", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    print(json.dumps({key: value for key, value in report.items() if key != "all"}, indent=1))
    if args.goals:
        print(goals(report, without_disk(programs), gateway(f"{args.out}/gateway.json")))
    return 0


def without_disk(programs: str) -> dict[str, Any]:
    """Lives once more on a server that waits for no disk: what is left is CPU."""
    server = Server(programs, fsync="off", shared_buffers="256MB")
    try:
        bench = Bench(server.make().start(), quick=True)
        bench.lives()
        return bench.report()
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(main())
