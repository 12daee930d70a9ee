# ruff: noqa: ANN001, ANN002, ANN201, D102, D103, INP001, S311
"""How far it goes, simulated: many agents, gateways and one database, by the costs that were measured.

    python bench/simulate.py                     # the measured runs again, then what cannot be measured here
    python bench/simulate.py --out docs/pictures # and the plots of docs/scale.md

Discrete events; seconds of a simulated clock. What is in it, and nothing else:
    an agent     finishes and claims in one call, works, renews its lease in between, asks again after an error with
                 pauses that double from 0.02 to 1 second, as our client does
    a gateway    one process with one core: each request costs it CPU, in the order they came. What came while its last
                 call of the database was under way goes into the next one; renewals have a line of their own
    the database so many cores; a call costs a share that is there for every call, and a share for each item; ends wait
                 for the disk. While it is away every call fails
    the network  half a round trip each way
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import time
from collections import deque
from typing import NamedTuple


class Costs(NamedTuple):
    """Seconds; the source of each stands in docs/scale.md."""

    #: CPU of the gateway for a request.
    gateway: float = 0.00040
    #: CPU of the database for a call, whatever is in it, and for each turn (an end and a claim) and renewal in it.
    call: float = 0.00025
    turn: float = 0.00009
    renewal: float = 0.000025
    #: A commit that waits for the disk.
    disk: float = 0.004
    #: A round trip between agents and gateways, and between gateways and the database.
    far: float = 0.0005
    near: float = 0.0002
    #: Cores of the database; of this machine, with the agents' own CPU for a request where they share it.
    cores: int = 8
    agent: float = 0.0
    #: Whether gateway, database and agents share `cores`.
    shared: bool = False


#: Items of one call.
MOST = 500


class Cores:
    """So many cores, work in the order it comes."""

    def __init__(self, count: int) -> None:
        self.free = [0.0] * count
        self.busy = 0.0

    def work(self, now: float, seconds: float) -> float:
        """When it is done, begun at once or when a core is free."""
        begin = max(now, heapq.heappop(self.free))
        heapq.heappush(self.free, begin + seconds)
        self.busy += seconds
        return begin + seconds


class World:
    """The clock, and what happens."""

    def __init__(self, costs: Costs, *, gateways: int, seed: int = 1) -> None:
        self.costs, self.now = costs, 0.0
        self.random = random.Random(seed)
        self._events: list = []
        self._number = 0
        self.database = Cores(costs.cores)
        self.down_until = -1.0
        self.gateways = [Gateway(self, self.database if costs.shared else Cores(1)) for _ in range(gateways)]
        self.took: dict[str, list[tuple[float, float]]] = {"turn": [], "renew": []}
        self.done = self.late = self.failed = 0

    def at(self, when: float, act, *words) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, act, words))

    def run(self, until: float) -> World:
        while self._events and self._events[0][0] <= until:
            self.now, _, act, words = heapq.heappop(self._events)
            act(*words)
        self.now = until
        return self


class Gateway:
    """One process: a line of requests, and one call of the database under way for each verb."""

    def __init__(self, world: World, core: Cores) -> None:
        self.world, self.core = world, core
        self.alive = True
        self.waiting = {"turn": deque(), "renew": deque()}
        self.busy = {"turn": False, "renew": False}

    def ask(self, verb: str, answer) -> None:
        """A request has come; `answer` is called with whether it was done."""
        world = self.world
        if not self.alive:
            world.at(world.now + world.costs.far, answer, False)
            return
        ready = self.core.work(world.now, world.costs.gateway)
        world.at(ready, self._hand_on, verb, answer)

    def _hand_on(self, verb: str, answer) -> None:
        self.waiting[verb].append(answer)
        if not self.busy[verb]:
            self._call(verb)

    def _call(self, verb: str) -> None:
        world, line = self.world, self.waiting[verb]
        some = [line.popleft() for _ in range(min(MOST, len(line)))]
        self.busy[verb] = True
        costs = world.costs
        if not self.alive or world.now < world.down_until:
            world.at(world.now + costs.near, self._over, verb, some, False)
            return
        each = costs.turn if verb == "turn" else costs.renewal
        done = world.database.work(world.now + costs.near / 2, costs.call + each * len(some))
        world.at(done + (costs.disk if verb == "turn" else 0.0) + costs.near / 2, self._over, verb, some, True)

    def _over(self, verb: str, some: list, said: bool) -> None:
        said = said and self.alive and self.world.now >= self.world.down_until
        for answer in some:
            self.world.at(self.world.now + self.world.costs.far / 2, answer, said)
        self.busy[verb] = False
        if self.waiting[verb]:
            self._call(verb)


class Agent:
    """Claims, works, renews, ends."""

    def __init__(self, world: World, number: int, *, task: float, renew: float, lease: float, spread: float) -> None:
        self.world, self.number = world, number
        self.task, self.renew, self.lease = task, renew, lease
        self.pause = 0.02
        self.until = self.renewed = self.asked = 0.0
        world.at(world.random.random() * spread, self.turn)

    def gateway(self) -> Gateway:
        """Its own, or, while that is gone, another."""
        every = self.world.gateways
        own = every[self.number % len(every)]
        return own if own.alive else self.world.random.choice(every)

    def turn(self) -> None:
        self.asked = self.world.now
        self._send("turn", self._turned)

    def _send(self, verb: str, answer) -> None:
        costs, world = self.world.costs, self.world
        when = world.database.work(world.now, costs.agent) if costs.shared and costs.agent else world.now
        world.at(when + costs.far / 2, self.gateway().ask, verb, answer)

    def _again(self, act) -> None:
        self.world.failed += 1
        self.world.at(self.world.now + self.pause * (0.5 + self.world.random.random()), act)
        self.pause = min(2 * self.pause, 1.0)

    def _turned(self, said: bool) -> None:
        world = self.world
        if not said:
            self._again(lambda: self._send("turn", self._turned))
            return
        self.pause = 0.02
        world.took["turn"].append((world.now, world.now - self.asked))
        world.done += 1
        self.renewed = world.now
        self.until = world.now + self.task * (0.5 + world.random.random())
        self._next()

    def _next(self) -> None:
        world = self.world
        if not self.task or self.until - world.now <= self.renew:
            world.at(max(self.until, world.now), self.turn)
        else:
            world.at(world.now + self.renew, self._renew)

    def _renew(self) -> None:
        self.asked = self.world.now
        self._send("renew", self._renewed)

    def _renewed(self, said: bool) -> None:
        world = self.world
        if not said:
            self._again(lambda: self._send("renew", self._renewed))
            return
        self.pause = 0.02
        world.took["renew"].append((world.now, world.now - self.asked))
        world.late += world.now - self.renewed > self.lease
        self.renewed = world.now
        self._next()


# -- what is asked ---------------------------------------------------------------------------------


def figures(world: World, began: float, until: float) -> dict[str, float]:
    """Of what was answered between these moments."""
    both = [(at, took) for some in world.took.values() for at, took in some if began <= at < until]
    times = sorted(took for _, took in both) or [0.0]
    return {
        "requests/s": len(both) / (until - began),
        "p50 ms": 1000 * times[len(times) // 2],
        "p99 ms": 1000 * times[len(times) * 99 // 100],
        "longest s": times[-1],
        "renewals later than a lease": world.late,
    }


def run(costs: Costs, *, agents: int, gateways: int = 1, seconds: float = 60.0, **work: float) -> dict[str, float]:
    """A plain run; its first third is not counted."""
    world = World(costs, gateways=gateways)
    spread = work.pop("spread", min(work["task"] or 0.1, seconds / 3))
    for number in range(agents):
        Agent(world, number, spread=spread, **work)
    world.run(seconds)
    told = figures(world, seconds / 3, seconds)
    told["database cores busy"] = world.database.busy / seconds
    if not costs.shared:
        told["gateway core busy"] = sum(one.core.busy for one in world.gateways) / gateways / seconds
    return told


def lose(costs: Costs, what: str, *, agents: int, gateways: int, seconds: float, at: float, away: float, **work: float):
    """A gateway dies for good, or the database is away for a while; and how it went, second by second."""
    world = World(costs, gateways=gateways)
    for number in range(agents):
        Agent(world, number, spread=at / 2, **work)

    def strike() -> None:
        if what == "gateway":
            world.gateways[0].alive = False
        else:
            world.down_until = world.now + away

    world.at(at, strike)
    world.run(seconds)
    both = sorted(moment for some in world.took.values() for moment in some)
    slow = [[] for _ in range(int(seconds))]
    for moment, took in both:
        if moment < seconds:
            slow[int(moment)].append(took)
    course = [
        {"second": n, "answers": len(some), "p99 s": sorted(some)[len(some) * 99 // 100] if some else 0.0}
        for n, some in enumerate(slow)
    ]
    usual = sorted(one["answers"] for one in course[int(at / 2) : int(at)])[int(at / 4)]
    back = at + (away if what == "database" else 0.0)
    calm = next(
        (n for n in range(int(back), int(seconds)) if 0 < course[n]["p99 s"] < 1.0 and course[n]["answers"]), seconds
    )
    return {
        "before: answers/s": usual,
        "most answers in a second after": max(one["answers"] for one in course[int(back) :]),
        "seconds until p99 is under 1 s again": calm - back,
        "calls that failed and were repeated": world.failed,
        "renewals later than a lease": world.late,
    }, course


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="", metavar="DIR", help="where the plots go")
    parser.add_argument(
        "--costs", default="{}", metavar="JSON", help="other costs, in seconds: gateway, call, turn, ..."
    )
    parser.add_argument("--only", default="", help="scenes whose name has this in it")
    args = parser.parse_args()
    given = Costs()._replace(**json.loads(args.costs))
    here = given._replace(cores=2, shared=True, far=0.0001, near=0.0001, agent=0.00035)
    calm = {"task": 60.0, "renew": 20.0, "lease": 900.0}
    slow = {"task": 300.0, "renew": 60.0, "lease": 900.0}
    lossy = {"agents": 100_000, "gateways": 20, "seconds": 120.0, "at": 30.0}
    scenes = {
        "as measured: 64 busy agents": lambda: run(here, agents=64, seconds=10.0, task=0.0, renew=20.0, lease=900.0),
        "as measured: 10,000 agents, tasks of a minute": lambda: run(here, agents=10_000, seconds=90.0, **calm),
        "10,000 tasks/s: 600,000 agents, 30 gateways": lambda: run(given, agents=600_000, gateways=30, **calm),
        "1,000,000 agents, tasks of 5 minutes, 50 gateways": lambda: run(given, agents=1_000_000, gateways=50, **slow),
        "a gateway of 20 is lost": lambda: lose(given, "gateway", away=0.0, **lossy, **calm),
        "the database is away for 30 s": lambda: lose(given, "database", away=30.0, **lossy, **calm),
    }
    courses = {}
    for name, scene in scenes.items():
        if args.only not in name:
            continue
        began = time.monotonic()
        told = scene()
        if isinstance(told, tuple):
            told, courses[name] = told
        print(f"{name}  ({time.monotonic() - began:.0f} s)")
        for key, value in told.items():
            print(f"    {key}: {value:,.2f}" if isinstance(value, float) else f"    {key}: {value:,}")
        sys.stdout.flush()
    if args.out:
        for name, course in courses.items():
            path = f"{args.out}/scale-{'gateway' if 'gateway' in name else 'database'}.svg"
            with open(path, "w", encoding="utf-8") as file:
                file.write(plot(name, course))
            print(path)
    return 0


def plot(title: str, course: list[dict[str, float]]) -> str:
    """Answers in each second, and the 99th percentile of how long they took, over the time."""
    wide, high, left, top = 760, 300, 60, 40
    most = max(one["answers"] for one in course) or 1
    slowest = max(1.0, *(one["p99 s"] for one in course))
    step = (wide - 2 * left) / len(course)
    bars = "".join(
        f'<rect x="{left + n * step:.1f}" y="{top + (high - 2 * top) * (1 - one["answers"] / most):.1f}" '
        f'width="{step * 0.8:.1f}" height="{(high - 2 * top) * one["answers"] / most:.1f}" fill="#8ab4d8"/>'
        for n, one in enumerate(course)
    )
    points = " ".join(
        f"{left + (n + 0.4) * step:.1f},{top + (high - 2 * top) * (1 - one['p99 s'] / slowest):.1f}"
        for n, one in enumerate(course)
    )
    label = 'font-family="sans-serif" font-size="12" fill="#555"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">'
        f'<rect width="{wide}" height="{high}" fill="#fff"/>'
        f'<text x="{left}" y="22" {label} font-weight="bold">{title}, simulated</text>{bars}'
        f'<polyline points="{points}" fill="none" stroke="#b5442a" stroke-width="2"/>'
        f'<text x="{left}" y="{high - 12}" {label}>0 s</text>'
        f'<text x="{wide - left - 30}" y="{high - 12}" {label}>{len(course)} s</text>'
        f'<text x="4" y="{top + 4}" {label}>{most:,}/s</text>'
        f'<text x="{wide - left + 6}" y="{top + 4}" {label} style="fill:#b5442a">{slowest:.1f} s</text>'
        f'<text x="{left + 90}" y="{high - 12}" {label}>blue: answers a second; red: the 99th percentile of how long '
        f"they took</text></svg>\n"
    )


if __name__ == "__main__":
    sys.exit(main())
