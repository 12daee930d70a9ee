"""Every verb, interrupted before each of its changing calls by each thing that can come between.

Histories by chance find what happens often; this finds what needs one thing at one place. An interruption is the death
of the process, an error of the disk, a loss of power, or something that another process or a stranger does whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
from typing import TYPE_CHECKING

import msgspec
from actors import Host
from history import History
from knobs import Knobs, Role
from machine import SimClock, SimFiles
from scheduler import SECOND, Actor, Killed
from stores import init_queue

from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Release, Retry, Split, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUIET = Knobs(
    seed=1, layout="pit", roles=(), tasks=2, tick=10_000, burst=1.0, grain=1_000_000, latency=0.0, ordered=True,
    tells_ordered=True, durability="power", lease=30.0, pause=0.01,
)  # fmt: skip


class Bench(History):
    """A world in which one thing happens after the other."""

    def __init__(self, *, record: bool = False, **changes) -> None:
        super().__init__(msgspec.structs.replace(QUIET, **changes), record=record)
        self.judge.stopped.append((0, 0, 1 << 62, True))  # what comes between may find the lock held
        begin = self.world.process("begin")
        init_queue(SimFiles(self.machine, begin), SimClock(self.machine, begin), self.layout, self.config)
        self.machine.disk.flush_all()
        self.machine.kill(begin)
        self.hosts = {}
        self.claims = []

    def host(self, name: str, *, fresh: bool = False) -> Host:
        """A process of ours with an open queue, or a stranger."""
        if fresh or name not in self.hosts:
            host = Host(self, Role(name.rstrip("0123456789"), name, 1))
            host.actor = Actor(name, host.live, 1)
            host.process = self.world.process(name)
            self.processes.append(host.process)
            host.queue = self.open_queue(host.process)
            self.hosts[name] = host
        return self.hosts[name]

    def wait(self, seconds: float) -> None:
        self.world.monotonic += int(seconds * SECOND)

    # Verbs, as the book knows them

    def put(self, who: str = "putter", *ids: str):
        host, tasks = self.host(who), [self.tasks[task_id] for task_id in ids or ("t1",)]
        return host.call("put", tuple(task.id for task in tasks), lambda: host.queue.put(tasks))

    def claim(self, who: str = "worker", task_id: str = ""):
        host = self.host(who)
        ids = (task_id,) if task_id else ()
        claims = host.call("claim", (who, ids, 0.0), lambda: host.queue.claim(who, ids=ids, lease=30.0))
        for claim in claims or ():
            self.judge.claimed(host, claim)
            self.claims.append(claim)
        return claims

    def finish(self, outcome, who: str = "worker", claim=None):
        host, claim = self.host(who), claim or self.claims[-1]
        args = (claim.task.id, claim.fence, outcome)
        return host.call("finish", args, lambda: host.queue.finish(claim, outcome))

    def done(self, who: str = "worker"):
        return self.finish(Done(output=self.book.word(who)), who)

    def fail(self, who: str = "worker", *, final: bool = True):
        return self.finish(Failed(error=self.book.word(who), final=final), who)

    def person(self, verb: str, who: str = "person"):
        host = self.host(who)
        return host.call(verb, ("t1",), lambda: getattr(host.queue, verb)("t1", "ann@home"))

    def edit(self):
        words = self.book.word("person")
        host = self.host("person")
        return host.call(
            "edit", ("t1",), lambda: host.queue.edit("t1", "ann@home", lambda task: task.replace(body=words))
        )

    def sweep(self, who: str = "sweeper"):
        host = self.host(who)
        return host.call("sweep", (), lambda: sweep(host.queue))

    def die(self, name: str) -> None:
        """A process ends; the next one of this name is another."""
        self.machine.kill(self.hosts.pop(name).process)

    # Strangers

    def stranger(self, what: str):
        host = self.host(what)
        with contextlib.suppress(OSError):
            getattr(host, what)(random.Random(1))

    def moves_back(self):
        """A cleaner that moves every claim back, however young."""
        host, layout = self.host("cleaner"), self.layout
        for name in host.list(layout.claimed):
            spot = layout.spot(layout.claimed, name)
            if spot is not None and str(spot.state) == "claimed":
                self.book.note(host, "moves back", spot.id)
                with contextlib.suppress(OSError):
                    host.mv(spot.path, layout.ready_path(spot))

    def takes(self):
        """A snake takes what is ready, and keeps it."""
        host = self.host("snake")
        for name in host.list(self.ready):
            if self.id_of(name):
                self.book.note(host, "takes", self.id_of(name))
                with contextlib.suppress(OSError):
                    host.mv(
                        f"{self.ready}/{name}", self.layout.claimed_path(self.layout.spot(self.ready, name), "snake")
                    )

    def result(self, *, keeps: bool = False):
        """A snake publishes the result of a task that it has, or had; it removes its claim unless it keeps it."""
        host = self.host("snake")
        spot = self.layout.spot(
            self.ready, self.layout.ready_path(self.layout.named(self.tasks["t1"])).rpartition("/")[2]
        )
        name, words = spot.path.rpartition("/")[2], self.book.word("snake")
        with contextlib.suppress(OSError):
            getattr(host, f"_result_in_{self.knobs.layout}")(
                random.Random(2 if keeps else 1), spot, name, self.layout.claimed_path(spot, "snake"), words
            )

    def power(self, seed: int = 1):
        self.book.outages.append(self.world.steps)
        self.machine.power_off([process for process in self.processes if process.alive], random.Random(seed))
        self.hosts.clear()
        raise Killed


# What happens before, and the verb that is interrupted. The names of processes tell who is interrupted.
def _claimed(bench):
    bench.put()
    bench.claim()


def _failed(bench):
    _claimed(bench)
    bench.fail()


SCENES: dict[str, tuple[Callable, str, Callable]] = {
    "put": (lambda bench: None, "putter", lambda bench: bench.put()),
    "put two": (lambda bench: None, "putter", lambda bench: bench.put("putter", "t1", "t2")),
    "put again": (_claimed, "putter", lambda bench: bench.put()),
    "put what is done": (lambda bench: (_claimed(bench), bench.done()), "putter", lambda bench: bench.put()),
    "claim": (lambda bench: bench.put(), "worker", lambda bench: bench.claim()),
    "done": (_claimed, "worker", lambda bench: bench.done()),
    "fail": (_claimed, "worker", lambda bench: bench.fail()),
    "try again": (_claimed, "worker", lambda bench: bench.fail(final=False)),
    "release": (_claimed, "worker", lambda bench: bench.finish(Release())),
    "later": (_claimed, "worker", lambda bench: bench.finish(Retry(reason="quota", after=1.0))),
    "split": (
        _claimed, "worker", lambda bench: bench.finish(Split(children=(Task(id="", title="part"),), wait=True))
    ),
    "split and end": (
        _claimed, "worker", lambda bench: bench.finish(Split(children=(Task(id="", title="part"),), wait=False))
    ),
    "retry": (_failed, "person", lambda bench: bench.person("retry")),
    "cancel": (lambda bench: bench.put(), "person", lambda bench: bench.person("cancel")),
    "edit": (lambda bench: bench.put(), "person", lambda bench: bench.edit()),
    "sweep a dead worker's": (
        lambda bench: (_claimed(bench), bench.die("worker"), bench.wait(9000)), "sweeper", lambda bench: bench.sweep()
    ),
    "sweep a result": (
        lambda bench: (bench.put(), bench.takes(), bench.result(), bench.wait(5)),
        "sweeper",
        lambda bench: bench.sweep(),
    ),
    "sweep an edit": (
        lambda bench: (bench.put(), bench.stranger("renamer"), bench.wait(5)), "sweeper", lambda bench: bench.sweep()
    ),
    "claim after a result": (
        lambda bench: (bench.put(), bench.takes(), bench.result(keeps=True), bench.moves_back(), bench.wait(5)),
        "worker",
        lambda bench: bench.claim(),
    ),
    "sweep a copy": (
        lambda bench: (bench.put(), bench.stranger("git"), bench.claim(), bench.stranger("rsync"), bench.wait(5)),
        "sweeper",
        lambda bench: bench.sweep(),
    ),
}  # fmt: skip


def _kill(bench, process):
    bench.machine.kill(process)
    raise Killed


def _error(bench, process):
    process.hurt = True
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _late(bench, process):
    """The process stands still while its lease ends and another worker takes the task."""
    bench.wait(9000)
    bench.sweep("sweeper2")
    bench.claim("worker2")


INTERRUPTIONS: dict[str, Callable] = {
    "kill": _kill,
    "error": _error,
    "late": _late,
    "power": lambda bench, process: bench.power(1),
    "power, another state": lambda bench, process: bench.power(2),
    "an hour and a sweep": lambda bench, process: (bench.wait(4000), bench.sweep("sweeper2")),
    "a sweep": lambda bench, process: bench.sweep("sweeper2"),
    "a claim": lambda bench, process: bench.claim("worker2"),
    "a put": lambda bench, process: bench.put("putter2"),
    "retry": lambda bench, process: bench.person("retry", "person2"),
    "cancel": lambda bench, process: bench.person("cancel", "person2"),
    "moves back": lambda bench, process: bench.moves_back(),
    "takes": lambda bench, process: bench.takes(),
    "result": lambda bench, process: bench.result(),
    "editor": lambda bench, process: bench.stranger("editor"),
    "renamer": lambda bench, process: bench.stranger("renamer"),
    "git": lambda bench, process: (bench.stranger("git"), bench.stranger("rsync")),
}


def run(scene: str, interruption: str, number: int, **changes) -> tuple[Bench, bool]:
    """One run; whether there was such a call."""
    prepare, victim, act = SCENES[scene]
    bench = Bench(**changes)
    prepare(bench)
    process = bench.host(victim).process
    bench.world.interrupt = (process, number, lambda: INTERRUPTIONS[interruption](bench, process))
    with contextlib.suppress(Killed):
        act(bench)
    happened = bench.world.interrupt is None
    bench.world.interrupt = None
    for host in bench.hosts.values():
        if host.process.alive:
            bench.machine.kill(host.process)
    if happened:
        bench.judge.conclude()
    return bench, happened


def every(**changes) -> Iterator[tuple[str, Bench]]:
    """Every scene with every interruption before every call."""
    for scene in SCENES:
        for interruption in INTERRUPTIONS:
            number = 1
            while True:
                bench, happened = run(scene, interruption, number, **changes)
                if not happened:
                    break
                yield f"{scene}, {interruption} before call {number}", bench
                number += 1
