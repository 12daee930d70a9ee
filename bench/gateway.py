# ruff: noqa: D102, D103, INP001, S311
"""How much one gateway process bears: N simulated agents against `pit serve` over a folder or a database.

    python bench/gateway.py busy 64 --seconds 10                # agents that do nothing but finish and claim
    python bench/gateway.py tasks 1000 --task 60 --seconds 60   # agents whose tasks take a minute, renewed in between
    python bench/gateway.py idle 2000 --seconds 10              # waits in line: memory and CPU of the gateway
    ... --queue postgresql:///work                              # default: a folder in a temporary directory

The agents are coroutines of this process that speak bare HTTP; it shares the machine with the gateway, so the
figures are a lower bound. CPU and memory are the gateway's, from /proc.
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

PATIENCE = 60.0


class Agent:
    """One connection that asks, and how long each answer took."""

    def __init__(self, number: int, port: int, token: str, took: dict[str, list[float]]) -> None:
        self.name, self.port, self.token, self.took = f"bench-{number}", port, token, took
        self.reader = self.writer = None

    async def ask(self, verb: str, **body: object) -> object:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = json.dumps({**body, "call": f"c{random.getrandbits(60):013x}"}).encode()
        head = f"POST /q/v1/{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
        began = time.monotonic()
        self.writer.write(
            f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        )
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        told = json.loads(await self.reader.readexactly(length))
        self.took.setdefault(verb, []).append(time.monotonic() - began)
        if not told["ok"]:
            raise SystemExit(f"refused: {told['error']}")
        return told["data"]

    def want(self, lease: float = 900.0) -> dict[str, object]:
        return {"worker": self.name, "lease": lease, "call": f"c{random.getrandbits(52):013x}"}

    def end(self, claim: dict[str, object]) -> dict[str, object]:
        result = {"id": claim["task"]["id"], "verdict": "done", "worker": claim["fence"], "output": "ok"}
        return {"claim": claim, "result": result, "action": "completed_task"}


async def busy(agent: Agent, over: float) -> None:
    ends = []
    while time.monotonic() < over:
        said = await agent.ask("turn", finish=ends, claim=agent.want(), wait=5)
        ends = [agent.end(claim) for claim in said["claim"]]
    await agent.ask("turn", finish=ends)


async def tasks(agent: Agent, over: float, seconds: float) -> None:
    await asyncio.sleep(random.random() * seconds)
    ends = []
    while time.monotonic() < over:
        said = await agent.ask("turn", finish=ends, claim=agent.want(), wait=25)
        held, until = said["claim"], time.monotonic() + seconds * (0.5 + random.random())
        while held and time.monotonic() < min(until, over):
            await asyncio.sleep(min(20.0, max(until - time.monotonic(), 0.1)))
            if time.monotonic() < until:
                await agent.ask("renew", held=held, lease=900.0)
        ends = [agent.end(claim) for claim in held]
    await agent.ask("turn", finish=ends)


async def idle(agent: Agent, over: float) -> None:
    while time.monotonic() < over:
        await agent.ask("turn", claim=agent.want(), wait=max(over - time.monotonic(), 0.1))


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


async def measure(args: argparse.Namespace, pid: int, port: int, token: str) -> None:
    took: dict[str, list[float]] = {}
    first = Agent(0, port, token, {})
    if args.kind != "idle":
        await fill(first, args.fill, begin=random.randrange(10**7))
    agents = [Agent(number, port, token, took) for number in range(1, args.agents + 1)]
    before, began = cost(pid), time.monotonic()
    over = began + args.seconds
    acts = {
        "busy": lambda one: busy(one, over),
        "tasks": lambda one: tasks(one, over, args.task),
        "idle": lambda one: idle(one, over),
    }
    running = [asyncio.ensure_future(acts[args.kind](agent)) for agent in agents]
    if args.kind == "idle":
        await asyncio.sleep(args.seconds / 2)
        settled, at = cost(pid), time.monotonic()
        await asyncio.sleep(args.seconds / 2 - 1)
        now = cost(pid)
        print(
            f"{args.agents} idle: {100 * (now[0] - settled[0]) / (time.monotonic() - at):.1f} % CPU, "
            f"{now[1] - before[1]:.0f} MB above {before[1]:.0f}"
        )
        for one in running:
            one.cancel()
        return
    await asyncio.gather(*running)
    lasted, after = time.monotonic() - began, cost(pid)
    count = sum(map(len, took.values()))
    print(
        f"{args.agents} agents, {lasted:.1f} s: {count / lasted:.0f} requests/s, "
        f"{1000 * (after[0] - before[0]) / count:.2f} ms CPU of the gateway each, {after[1]:.0f} MB"
    )
    for verb, times in took.items():
        times.sort()
        half, most = (1000 * times[len(times) * part // 100] for part in (50, 99))
        print(f"  {verb}: {len(times)}, p50 {half:.0f} ms, p99 {most:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("busy", "tasks", "idle"))
    parser.add_argument("agents", type=int)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--task", type=float, default=60.0)
    parser.add_argument("--fill", type=int, default=20_000)
    parser.add_argument("--queue", default="")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    place = tempfile.mkdtemp()
    where = args.queue or f"{place}/pit"
    env = {**os.environ, "XDG_STATE_HOME": f"{place}/state"}
    pit = [sys.executable, "-m", "taskpit"]
    subprocess.run([*pit, "init", where], env=env, check=True, stdout=subprocess.DEVNULL)
    if not args.queue:
        with open(f"{where}/.taskpit/config.toml", "w", encoding="utf-8") as file:
            file.write('durability = "process"\n')
    made = subprocess.run(
        [*pit, "-C", where, "--json", "token", "add", "bench", "--verb", "all"],
        env=env,
        check=True,
        stdout=subprocess.PIPE,
    )
    token = json.loads(made.stdout)["data"]["token"]
    gateway = subprocess.Popen(
        [*pit, "-C", where, "--json", "serve", "--port", "18499"], env=env, stdout=subprocess.PIPE
    )
    try:
        port = json.loads(gateway.stdout.readline())["data"]["port"]
        asyncio.run(measure(args, gateway.pid, port, token))
    finally:
        gateway.terminate()
        gateway.wait(PATIENCE)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
