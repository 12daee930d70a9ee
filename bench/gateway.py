# ruff: noqa: D102, D103, INP001, S311
"""How much one gateway process bears: N simulated agents against `pit serve` over a folder or a database.

    python bench/gateway.py busy 64 --seconds 10                # agents that do nothing but finish and claim
    python bench/gateway.py tasks 1000 --task 60 --seconds 60   # agents whose tasks take a minute, renewed in between
    python bench/gateway.py idle 2000 --seconds 10              # waits in line: memory and CPU of the gateway
    python bench/gateway.py all --postgres --out FILE           # all runs, one after the other
    ... --postgres                                              # over a private server with fsync on, not a folder

The agents are coroutines of this process that speak bare HTTP; it shares the machine with the gateway, so the
figures are a lower bound. CPU of gateway, agents and database is counted apart, from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from pgservers import Server

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 60.0
LEASE = 60.0


class Agent(asyncio.Protocol):
    """One connection that asks, and how long each answer took."""

    def __init__(self, number: int, port: int, token: str, took: dict[str, list[float]]) -> None:
        self.name, self.port, self.took = f"bench-{number}", port, took
        self.head = (
            f"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        )
        self.data, self.length = b"", -1
        self.transport = self.answer = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("the gateway hung up"))

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.length < 0:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.data[:end].lower()
            self.length = end + 4 + int(head[head.index(b"content-length:") + 15 :].partition(b"\r\n")[0])
        if len(self.data) >= self.length:
            body = self.data[self.data.index(b"\r\n\r\n") + 4 :]
            self.data, self.length = b"", -1
            self.answer.set_result(body)

    async def ask(self, verb: str, **body: object) -> object:
        loop = asyncio.get_running_loop()
        if self.transport is None:
            await loop.create_connection(lambda: self, "127.0.0.1", self.port)
        data = json.dumps({**body, "call": f"c{random.getrandbits(52):013x}"}).encode()
        self.answer = loop.create_future()
        began = time.monotonic()
        self.transport.write(f"POST /q/v1/{verb} {self.head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        reply = json.loads(await self.answer)
        self.news = reply.get("news", 0)
        self.took.setdefault(verb, []).append(time.monotonic() - began)
        if not reply["ok"]:
            raise SystemExit(f"refused: {reply['error']}")
        return reply["data"]

    def want(self, lease: float = 900.0) -> dict[str, object]:
        return {"worker": self.name, "lease": lease, "call": f"c{random.getrandbits(52):013x}"}

    async def turn(
        self, ends: list[dict[str, object]], want: dict[str, object], deadline: float
    ) -> list[dict[str, dict[str, str]]]:
        """End what is held, then claim; where nothing is ready, wait for it."""
        if ends:
            await self.ask("finish", ends=ends)
        while True:
            claims = await self.ask("claim", want=want)
            if claims or time.monotonic() >= deadline:
                return claims
            await self.ask("wait", want=want, news=self.news, seconds=max(min(25.0, deadline - time.monotonic()), 0.1))

    def end(self, claim: dict[str, object]) -> dict[str, object]:
        result = {"id": claim["task"]["id"], "verdict": "done", "worker": claim["fence"], "output": "ok"}
        return {"claim": claim, "result": result, "action": "completed_task"}


async def busy(agent: Agent, over: float) -> None:
    ends = []
    while time.monotonic() < over:
        ends = [agent.end(claim) for claim in await agent.turn(ends, agent.want(), over)]
    await agent.ask("finish", ends=ends)


async def tasks(agent: Agent, over: float, seconds: float, late: list[str]) -> None:
    """Its tasks take between half and one and a half of these seconds; it renews three times in a lease."""
    await asyncio.sleep(min(random.random() * seconds, over - time.monotonic()))
    ends = []
    while time.monotonic() < over:
        held, renewed = await agent.turn(ends, agent.want(LEASE), over), time.monotonic()
        until = renewed + seconds * (0.5 + random.random())
        while held and time.monotonic() < min(until, over):
            await asyncio.sleep(max(min(LEASE / 3, until - time.monotonic(), over - time.monotonic()), 0.0))
            if time.monotonic() < min(until, over):
                said = await agent.ask("renew", held=held, lease=LEASE)
                if said != ["ok"] or time.monotonic() - renewed > LEASE:
                    late.append(f"{agent.name}: {said}, {time.monotonic() - renewed:.1f} s after the last")
                renewed = time.monotonic()
        ends = [agent.end(claim) for claim in held]
        if time.monotonic() >= over:
            return  # what it holds is nobody's business: all of them ending at once is another question


async def idle(agent: Agent, deadline: float) -> None:
    while time.monotonic() < deadline:
        await agent.turn([], agent.want(), deadline)


async def fill(agent: Agent, count: int, *, begin: int = 0) -> None:
    for start in range(begin, begin + count, 500):
        some = range(start, min(start + 500, begin + count))
        await agent.ask("put", tasks=[{"id": f"n{one:08d}", "title": "bench", "slug": "bench"} for one in some])


def cost(pid: int) -> tuple[float, float]:
    """CPU seconds and resident megabytes of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), pages * resource.getpagesize() / 1e6


#: The runs of `all`: kind, agents, seconds.
PLAN = (
    ("busy", 1, 4),
    ("busy", 16, 6),
    ("tasks", 1000, 50),
    ("busy", 64, 8),
    ("busy", 256, 8),
    ("tasks", 10_000, 100),
)
#: Tasks that are there for each agent with calm work: so many that nobody waits for one.
FOR_EACH = 3


class Meter:
    """CPU of the gateway, of these agents and of the database, and the database's transactions."""

    def __init__(self, pid: int, server: Server | None) -> None:
        self.pid, self.server = pid, server
        self.began = self.now()

    def now(self) -> dict[str, float]:
        told = {"gateway": cost(self.pid)[0], "agents": time.process_time(), "database": 0.0, "calls": 0.0}
        if self.server is not None:
            told["database"] = self.server.cpu()
            sql = "SELECT sum(xact_commit) FROM pg_stat_database"
            told["calls"] = float(self.server.sql(sql)[0][0])
        return told

    def spent(self, count: int, seconds: float) -> dict[str, dict[str, float]]:
        """Milliseconds, and transactions, for each of so many answers; and cores that were busy all the time."""
        now = self.now()
        used = {name: now[name] - self.began[name] for name in now}
        each = {name: value / count * (1 if name == "calls" else 1000) for name, value in used.items()}
        busy = {name: used[name] / seconds for name in ("gateway", "agents", "database")}
        told = {"ms each": each, "cores busy": busy}
        return {name: {who: round(value, 4) for who, value in some.items()} for name, some in told.items()}


async def measure(args: argparse.Namespace, pid: int, port: int, token: str, server: Server | None) -> dict[str, Any]:
    took: dict[str, list[float]] = {}
    late: list[str] = []
    first = Agent(0, port, token, {})
    if args.kind != "idle":
        many = max(args.fill, FOR_EACH * args.agents if args.kind == "tasks" else 0)
        await fill(first, many, begin=random.randrange(10**7))
    agents = [Agent(number, port, token, took) for number in range(1, args.agents + 1)]
    before, meter, began = cost(pid), Meter(pid, server), time.monotonic()
    over = began + args.seconds
    acts = {
        "busy": lambda one: busy(one, over),
        "tasks": lambda one: tasks(one, over, args.task, late),
        "idle": lambda one: idle(one, over),
    }
    running = [asyncio.ensure_future(acts[args.kind](agent)) for agent in agents]
    told: dict[str, Any] = {"kind": args.kind, "agents": args.agents, "seconds": args.seconds}
    if args.kind == "idle":
        await asyncio.sleep(args.seconds / 2)
        settled, at = cost(pid), time.monotonic()
        await asyncio.sleep(args.seconds / 2 - 1)
        now = cost(pid)
        for one in running:
            one.cancel()
        part = 100 * (now[0] - settled[0]) / (time.monotonic() - at)
        return {**told, "CPU %": round(part, 1), "MB": round(now[1]), "MB above": round(now[1] - before[1])}
    await asyncio.gather(*running)
    lasted = time.monotonic() - began
    for agent in agents:
        if agent.transport is not None:  # else the run was over before its turn came
            agent.transport.close()
    every = sorted(one for times in took.values() for one in times)
    told["requests/s"] = round(len(every) / lasted, 1)
    told |= meter.spent(len(every), lasted)
    told["MB"] = round(cost(pid)[1])
    for name, times in {"all": every, **{verb: sorted(times) for verb, times in took.items()}}.items():
        half, most = (times[len(times) * part // 100] for part in (50, 99))
        shown = {"p50": half, "p99": most, "longest": times[-1]}
        told[name] = {"count": len(times), **{key: round(1000 * value, 1) for key, value in shown.items()}}
    if args.kind == "tasks":
        told["renewals later than a lease, or lost"] = late
    return told


def private_server() -> Server:
    """PostgreSQL of our own, with fsync on."""
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "support"))
    from pgservers import Server, wheel

    return Server(wheel(), fsync="on", shared_buffers="256MB").make().start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("busy", "tasks", "idle", "all"))
    parser.add_argument("agents", type=int, nargs="?", default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--task", type=float, default=60.0)
    parser.add_argument("--fill", type=int, default=20_000)
    parser.add_argument("--postgres", action="store_true", help="over a private server instead of a folder")
    parser.add_argument("--out", default="", metavar="FILE", help="what was measured, as JSON")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    place, load = tempfile.mkdtemp(), round(os.getloadavg()[0], 1)
    server = private_server() if args.postgres else None
    where = server.address(schema="bench") if server else f"{place}/pit"
    env = {**os.environ, "XDG_STATE_HOME": f"{place}/state"}
    pit = [sys.executable, "-m", "taskpit"]
    subprocess.run([*pit, "init", where], env=env, check=True, stdout=subprocess.DEVNULL)
    if server is None:
        with open(f"{where}/.taskpit/config.toml", "w", encoding="utf-8") as file:
            file.write('durability = "process"\n')
    add = [*pit, "-C", where, "--json", "token", "add", "bench", "--verb", "all"]
    token = json.loads(subprocess.run(add, env=env, check=True, stdout=subprocess.PIPE).stdout)["data"]["token"]
    serve = [*pit, "-C", where, "--json", "serve", "--port", "18499"]
    gateway = subprocess.Popen(serve, env=env, stdout=subprocess.PIPE)
    try:
        port = json.loads(gateway.stdout.readline())["data"]["port"]
        plan = PLAN if args.kind == "all" else ((args.kind, args.agents, args.seconds),)
        runs = []
        for args.kind, args.agents, args.seconds in plan:
            runs.append(asyncio.run(measure(args, gateway.pid, port, token, server)))
            print(json.dumps(runs[-1], indent=1), flush=True)
        if args.out:
            with open(args.out, "w", encoding="utf-8") as file:
                json.dump({"load before": load, "cores": len(os.sched_getaffinity(0)), "runs": runs}, file, indent=1)
    finally:
        gateway.terminate()
        gateway.wait(PATIENCE)
        if server is not None:
            server.remove()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
