# ruff: noqa: ANN001, ANN002, ANN201, D102, D103, INP001, S311
"""How far it goes, simulated: many agents, gateways and one database, by the costs that were measured.

    python bench/gateway.py all --postgres --out bench/gateway.json    # measure, on a quiet machine
    python bench/simulate.py --only measured                           # costs of three small runs, the others foretold
    python bench/simulate.py --page docs/scale.md --out docs/pictures  # and what cannot be measured here, with plots

bench/gateway.json has the runs of the machine that docs/scale.md speaks of, and both its tables are written by this
program; --measured FILE takes other runs.

Discrete events; seconds of a simulated clock. What is in it, and nothing else:
    an agent     finishes and claims in one call, works, renews its lease in between; asks again after an error with
                 pauses that double from 0.02 to 1 second, and after ten seconds without an answer, as our client does
    a gateway    one thread: CPU for each request when it comes and when it is answered, and for each call of the
                 database. What came while its last call was under way goes into the next one; renewals have a line of
                 their own. While the database is away a call waits for it for 15 seconds, then fails
    the database so many cores; a call costs a share that is there for every call, and a share for each item; one with
                 ends waits for the disk. Rows that several gateways want at once are not in it
    the network  half a round trip each way
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import sys
from collections import deque
from typing import Any, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
VERBS = ("turn", "renew")
#: Items of one call.
MOST = 500
#: Which part of a gateway's CPU for a request is spent when it comes, and again when it is answered; what is left is
#: spent on it in the call of the database, beside which nothing else of its verb goes: 20 to 30 % by a profile.
EDGE = 0.35
#: How long a gateway's call waits for a database that is away, and how long a client waits for an answer.
PATIENCE, SILENT = 15.0, 10.0


class Costs(NamedTuple):
    """Seconds of CPU, but for the last three."""

    #: Of a gateway: for a call of the database, and for each request by its verb.
    gateway_call: float
    gateway: dict[str, float]
    #: Of the database, likewise.
    database_call: float
    database: dict[str, float]
    #: Of an agent for a request, where agents share the machine.
    agent: float
    #: A commit that waits for the disk; a round trip between agents and gateways, and to the database.
    disk: float
    far: float = 0.0
    near: float = 0.0


class Processor:
    """So many cores. Whoever has work to do waits for a free one, in the order they came."""

    def __init__(self, world: World, cores: int) -> None:
        self.world, self.idle, self.busy = world, cores, 0.0
        self.waiting: deque[Lane] = deque()

    def want(self, lane: Lane) -> None:
        if self.idle:
            self._begin(lane)
        else:
            self.waiting.append(lane)

    def _begin(self, lane: Lane) -> None:
        self.idle -= 1
        seconds = lane.line[0][0]
        self.busy += seconds
        self.world.at(self.world.now + seconds, self._over, lane)

    def _over(self, lane: Lane) -> None:
        self.idle += 1
        _, then, words = lane.line.popleft()
        if lane.line:
            self.waiting.append(lane)
        if self.waiting:
            self._begin(self.waiting.popleft())
        then(*words)


class Lane:
    """What does one thing at a time: a thread."""

    def __init__(self, processor: Processor) -> None:
        self.processor = processor
        self.line: deque[tuple[float, Any, tuple[Any, ...]]] = deque()

    def work(self, seconds: float, then, *words) -> None:
        self.line.append((seconds, then, words))
        if len(self.line) == 1:
            self.processor.want(self)


class World:
    """The clock, and what happens. `cores` given: everybody shares so many; else the database has eight of its own."""

    def __init__(self, costs: Costs, *, gateways: int, cores: int = 0, seed: int = 1) -> None:
        self.costs, self.now = costs, 0.0
        self.random = random.Random(seed)
        self._events: list = []
        self._number = 0
        self.database = Processor(self, cores or 8)
        self.agents = Lane(self.database) if cores else None
        self.down_until = -1.0
        self.gateways = [Gateway(self, self.database if cores else Processor(self, 1)) for _ in range(gateways)]
        self.took: dict[str, list[tuple[float, float]]] = {verb: [] for verb in VERBS}
        self.late = self.failed = self.calls = 0

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
    """One process: a thread that takes and answers requests, and one call of the database under way for each verb."""

    def __init__(self, world: World, processor: Processor) -> None:
        self.world, self.thread = world, Lane(processor)
        self.alive = True
        self.waiting: dict[str, deque] = {verb: deque() for verb in VERBS}
        self.busy = dict.fromkeys(VERBS, False)
        self.backend = {verb: Lane(world.database) for verb in VERBS}

    def ask(self, verb: str, answer) -> None:
        """A request has come; `answer` is called with whether it was done."""
        if not self.alive:
            self._say(answer, False)
            return
        self.thread.work(self.world.costs.gateway[verb] * EDGE, self._hand_on, verb, answer)

    def ask_again(self, verb: str) -> None:
        """The same request over another connection: it is known, and waits with the first."""
        if self.alive:
            self.thread.work(self.world.costs.gateway[verb] * EDGE, lambda: None)

    def _say(self, answer, said: bool) -> None:
        self.world.at(self.world.now + self.world.costs.far / 2, answer, said)

    def _hand_on(self, verb: str, answer) -> None:
        self.waiting[verb].append(answer)
        if not self.busy[verb]:
            self._call(verb)

    def _call(self, verb: str) -> None:
        line = self.waiting[verb]
        some = [line.popleft() for _ in range(min(MOST, len(line)))]
        self.busy[verb] = True
        self.world.calls += 1
        costs = self.world.costs
        spent = costs.gateway_call + costs.gateway[verb] * (1 - 2 * EDGE) * len(some)
        self.thread.work(spent, self._send, verb, some, self.world.now + PATIENCE)

    def _send(self, verb: str, some: list, patience: float) -> None:
        world, costs = self.world, self.world.costs
        if world.now < world.down_until:
            if world.down_until > patience:
                world.at(patience, self._over, verb, some, False)
            else:  # it asks again and again, at most a second later than it could
                world.at(world.down_until + world.random.random(), self._send, verb, some, patience)
            return
        each = costs.database_call + costs.database[verb] * len(some)
        world.at(world.now + costs.near / 2, self.backend[verb].work, each, self._commit, verb, some, patience)

    def _commit(self, verb: str, some: list, patience: float) -> None:
        world, costs = self.world, self.world.costs
        if world.now < world.down_until:  # cut off in the middle: again
            self._send(verb, some, patience)
            return
        world.at(world.now + costs.near / 2 + (costs.disk if verb == "turn" else 0.0), self._over, verb, some, True)

    def _over(self, verb: str, some: list, said: bool) -> None:
        for answer in some:
            self.thread.work(self.world.costs.gateway[verb] * EDGE, self._say, answer, said and self.alive)
        self.busy[verb] = False
        if self.waiting[verb]:
            self._call(verb)


class Agent:
    """Claims, works, renews, ends. `spread`: seconds within which they begin; 0: in the middle of their work."""

    def __init__(
        self, world: World, number: int, *, task: float, renew: float, lease: float, spread: float = 0.0
    ) -> None:
        self.world, self.number = world, number
        self.task, self.renew, self.lease = task, renew, lease
        self.pause = 0.02
        self.until = self.renewed = self.asked = 0.0
        self.tries = 0
        if spread:
            world.at(world.random.random() * spread, self._ask, "turn")
            return
        self.until = world.random.random() * task * (0.5 + world.random.random())  # in the middle of a task
        self.renewed = -world.random.random() * renew
        when = self.renewed + renew
        world.at(min(when, self.until), self._ask, "renew" if when < self.until else "turn")

    def gateway(self) -> Gateway:
        """Its own, or, while that is gone, another."""
        every = self.world.gateways
        own = every[self.number % len(every)]
        return own if own.alive else self.world.random.choice(every)

    def _ask(self, verb: str) -> None:
        self.asked = self.world.now
        self._send(verb)

    def _send(self, verb: str) -> None:
        world = self.world
        if world.agents is None:
            self._sent(verb)
        else:
            world.agents.work(world.costs.agent, self._sent, verb)

    def _sent(self, verb: str) -> None:
        world = self.world
        self.tries += 1
        where = self.gateway()
        world.at(world.now + world.costs.far / 2, where.ask, verb, lambda said: self._answered(verb, said))
        if world.down_until > world.now:  # only then an answer takes so long
            world.at(world.now + SILENT, self._silent, verb, self.tries, where)

    def _silent(self, verb: str, tries: int, where: Gateway) -> None:
        if tries == self.tries:
            where.ask_again(verb)
            self.world.at(self.world.now + SILENT, self._silent, verb, tries, where)

    def _answered(self, verb: str, said: bool) -> None:
        world = self.world
        self.tries += 1
        if not said:
            world.failed += 1
            world.at(world.now + self.pause * (0.5 + world.random.random() / 2), self._send, verb)
            self.pause = min(2 * self.pause, 1.0)
            return
        self.pause = 0.02
        world.took[verb].append((world.now, world.now - self.asked))
        if verb == "turn":
            self.until = world.now + self.task * (0.5 + world.random.random())
        else:
            world.late += world.now - self.renewed > self.lease
        self.renewed = world.now
        if self.until - world.now <= self.renew:
            world.at(max(self.until, world.now), self._ask, "turn")
        else:
            world.at(world.now + self.renew, self._ask, "renew")


# -- what is asked ---------------------------------------------------------------------------------


def shown(times: list[float]) -> dict[str, float]:
    times = sorted(times) or [0.0]
    return {
        "median ms": 1000 * times[len(times) // 2],
        "99th percentile ms": 1000 * times[len(times) * 99 // 100],
        "longest ms": 1000 * times[-1],
    }


def run(
    costs: Costs, *, agents: int, seconds: float, gateways: int = 1, cores: int = 0, begin: float = 0.0, **work: float
) -> dict[str, float]:
    """A plain run, counted from `begin` on."""
    world = World(costs, gateways=gateways, cores=cores)
    for number in range(agents):
        Agent(world, number, **work)
    world.run(seconds)
    both = [took for some in world.took.values() for at, took in some if at >= begin]
    told = {"answers a second": len(both) / (seconds - begin), **shown(both)}
    told["renewals later than a lease"] = world.late
    told["cores of the database busy"] = world.database.busy / seconds
    if not cores:
        told["part of a gateway busy"] = sum(one.thread.processor.busy for one in world.gateways) / gateways / seconds
    return told


def lose(costs: Costs, what: str, *, agents: int, gateways: int, seconds: float, at: float, away: float, **work: float):
    """A gateway dies for good, or the database is away for a while; and how it went, second by second."""
    world = World(costs, gateways=gateways)
    for number in range(agents):
        Agent(world, number, **work)

    def strike() -> None:
        if what == "gateway":
            world.gateways[0].alive = False
        else:
            world.down_until = world.now + away

    world.at(at, strike)
    world.run(seconds)
    slow: list[list[float]] = [[] for _ in range(int(seconds) + 1)]
    for some in world.took.values():
        for moment, took in some:
            slow[int(moment)].append(took)
    course = [
        {"second": n, "answers": len(some), "p99 s": sorted(some)[len(some) * 99 // 100] if some else 0.0}
        for n, some in enumerate(slow[: int(seconds)])
    ]
    usual = sorted(one["answers"] for one in course[int(at) - 20 : int(at)])[10]
    back = int(at + (away if what == "database" else 0.0))
    calm = next((n for n in range(back, int(seconds)) if course[n]["answers"] and course[n]["p99 s"] < 1.0), seconds)
    return {
        "answers a second before": usual,
        "most answers in a second after": max(one["answers"] for one in course[back:]),
        "seconds until the 99th percentile is under 1 s again": calm - back,
        "longest ms": max(shown(some)["longest ms"] for some in slow),
        "calls that failed and were made again": world.failed,
        "renewals later than a lease": world.late,
    }, course


# -- costs from measured runs ----------------------------------------------------------------------


def calibrate(runs: list[dict[str, Any]]) -> Costs:
    """From one agent and a few that are busy: what a call costs and what an item; from calm ones: a renewal."""
    known = {(one["kind"], one["agents"]): one for one in runs}
    one, many, calm = (known[key] for key in CALIBRATION)

    def parts(who: str) -> tuple[float, float, float]:
        """A call, a turn, a renewal."""
        (a, x), (b, y) = ((run["ms each"]["calls"], run["ms each"][who] / 1000) for run in (one, many))
        call = max((x - y) / (a - b), 0.0)
        turn = max(y - call * b, 0.0)
        turns, renewals = calm["turn"]["count"], calm["renew"]["count"]
        spent = calm["ms each"][who] / 1000 * (turns + renewals) - call * calm["ms each"]["calls"] * (turns + renewals)
        return call, turn, max((spent - turn * turns) / renewals, turn / 4)

    gateway_call, *gateway = parts("gateway")
    database_call, *database = parts("database")
    agent = many["ms each"]["agents"] / 1000
    work = one["ms each"]["gateway"] + one["ms each"]["database"] + one["ms each"]["agents"]
    return Costs(
        gateway_call,
        dict(zip(VERBS, gateway, strict=True)),
        database_call,
        dict(zip(VERBS, database, strict=True)),
        agent,
        disk=max(one["turn"]["p50"] - work, 0.0) / 1000,
    )


#: The runs that costs are taken of: small ones. All others are foretold.
CALIBRATION = (("busy", 1), ("busy", 16), ("tasks", 1000))
#: How agents are in each kind of measured run: a word for it, seconds of a task, seconds within which they begin.
KINDS = {"busy": ("busy", 0.0, 0.1), "tasks": ("calm", 60.0, 60.0), "herd": ("that end at once", 60.0, 0.001)}
BY_HAND = (
    "The costs of this run were partly split by hand, and its first row was looked at meanwhile: that shows a fit."
)


def checked(costs: Costs, measured: dict[str, Any]) -> str:
    """The measured runs once more, simulated on as many shared cores, as a table, and how they were measured."""
    lines = ["| agents | | measured | simulated | off by |", "|---|---|---|---|---|"]
    for one in measured["runs"]:
        word, task, spread = KINDS[one["kind"]]
        how = {"task": task, "renew": 20.0, "lease": 60.0, "spread": spread}
        told = run(costs, agents=one["agents"], seconds=one["seconds"], cores=measured["cores"], **how)
        taken = "costs" in measured or (one["kind"], one["agents"]) in CALIBRATION
        name = f"{one['agents']:,} {word}" + ("" if taken else ", foretold")
        figures = {
            "answers a second": (one.get("requests/s"), told["answers a second"]),
            "median, ms": (one["all"].get("p50"), told["median ms"]),
            "99th percentile, ms": (one["all"].get("p99"), told["99th percentile ms"]),
            "longest, ms": (one["all"].get("longest") if one["kind"] == "herd" else None, told["longest ms"]),
            "cores busy": (sum(one.get("cores busy", {}).values()), told["cores of the database busy"]),
        }
        for what, (found, simulated) in figures.items():
            if found:
                digits = 2 if what == "cores busy" else 1 if found < 10 else 0
                off = f"{100 * (simulated / found - 1):+.0f} %"
                lines.append(f"| {name} | {what} | {found:,.{digits}f} | {simulated:,.{digits}f} | {off} |")
                name = ""
    others = (
        f"Measured on {measured['cores']} cores, with a load of {measured.get('load before')} of others' before it."
    )
    table = "\n".join([*lines, "", BY_HAND if "costs" in measured else others])
    print(table, flush=True)
    return table


def write(page: str, name: str, table: str) -> None:
    """The table of this name in a page is this one."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    begin, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
    before, _, rest = text.partition(begin)
    with open(page, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", default=os.path.join(HERE, "gateway.json"), metavar="FILE")
    parser.add_argument("--out", default="", metavar="DIR", help="where the plots go")
    parser.add_argument("--page", default="", metavar="FILE", help="the page whose tables are written")
    parser.add_argument("--only", default="", help="scenes whose name has this in it")
    args = parser.parse_args()
    with open(args.measured, encoding="utf-8") as file:
        measured = json.load(file)
    costs = Costs(**measured["costs"]) if "costs" in measured else calibrate(measured["runs"])
    print(json.dumps(costs._asdict(), indent=1))
    tables = {"checked": checked(costs, measured)} if args.only in "measured" else {}
    given = costs._replace(far=0.02, near=0.0005)
    calm = {"task": 60.0, "renew": 20.0, "lease": 60.0}
    slow = {"task": 300.0, "renew": 60.0, "lease": 900.0}
    lossy = {"agents": 25_000, "gateways": 10, "at": 30.0, "seconds": 75.0, **calm}
    herd = {**lossy, "seconds": 270.0}
    scenes = {
        "600,000 agents with tasks of a minute (10,000 a second), 60 gateways": lambda: run(
            given, agents=600_000, gateways=60, seconds=12.0, begin=4.0, **calm
        ),
        "1,000,000 agents with tasks of five minutes, 60 gateways": lambda: run(
            given, agents=1_000_000, gateways=60, seconds=15.0, begin=5.0, **slow
        ),
        "a gateway of ten is lost, 25,000 agents": lambda: lose(given, "gateway", away=0.0, **lossy),
        "another database takes over after 15 s": lambda: lose(given, "database", away=15.0, **lossy),
        "a herd: the database is away for three minutes": lambda: lose(given, "database", away=180.0, **herd),
    }
    names = {"a gateway": "gateway", "another": "failover", "a herd": "herd"}
    lines = []
    for name, scene in scenes.items():
        if args.only not in name:
            continue
        told = scene()
        if isinstance(told, tuple):
            told, course = told
            short = next(word for start, word in names.items() if name.startswith(start))
            if args.out:
                with open(f"{args.out}/scale-{short}.svg", "w", encoding="utf-8") as file:
                    file.write(plot(name, course))
        figures = (
            f"{key} {value:,.{1 if isinstance(value, float) and value < 10 else 0}f}" for key, value in told.items()
        )
        lines.append(f"| {name} | {'; '.join(figures)} |")
        print(lines[-1], flush=True)
    if len(lines) == len(scenes):
        tables["scenes"] = "\n".join(["| | |", "|---|---|", *lines])
    if args.page:
        for name, table in tables.items():
            write(args.page, name, table)
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
