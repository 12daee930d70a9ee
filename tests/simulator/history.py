"""One history: the knobs of a seed, its world, its actors, and what the judge says at the end."""

from __future__ import annotations

import gc
import os
import random

from actors import Host
from book import Book
from disk import Disk
from judge import Judge
from knobs import Knobs
from machine import Machine, SimClock, SimFiles
from scheduler import SECOND, Actor, Killed, World
from stores import init_queue, open_queue

from taskpit import layouts
from taskpit.config import Config
from taskpit.model import State, Task

#: A history that takes so many calls does not end by itself.
LIMIT = 200_000


class History:
    """A world, and what happens in it."""

    def __init__(self, knobs: Knobs, *, record: bool = False) -> None:
        self.knobs = knobs
        seed = knobs.seed
        self.world = World(seed, tick=knobs.tick, burst=knobs.burst, limit=LIMIT)
        if record:
            self.world.trace = []
        disk = Disk(self.world.now, ordered=knobs.ordered, reuse=knobs.reuse)
        disk.grain, disk.salt, disk.events = knobs.grain, seed & 0xFFFF, knobs.events
        self.machine = Machine(self.world, disk, seed)
        self.machine.latency, self.machine.halves = knobs.latency, knobs.halves
        self.machine.notifies, self.machine.tells_ordered = knobs.notifies, knobs.tells_ordered
        self.world.on_fault = self.fault
        self.crash = random.Random(f"{seed}:crash")
        self.book = Book()
        self.judge = Judge(self)
        self.processes = []
        self.snapshots = {}
        self.layout = layouts.get(knobs.layout)
        self.ready = self.layout.ready
        self.config = Config(
            durability=knobs.durability, backoff=0.0, lease=knobs.lease, abandoned=knobs.lease * 2, compost=7 * 86400.0
        )
        chance = random.Random(f"{seed}:tasks")
        self.ids = [f"t{number}" for number in range(1, knobs.tasks + 1)]
        self.tasks = {}
        for place, task_id in enumerate(self.ids):
            needs = (chance.choice(self.ids[:place]),) if place and knobs.needs and chance.random() < 0.6 else ()
            body = f"body of {task_id}"
            self.tasks[task_id] = Task(
                id=task_id,
                title=f"task {task_id}",
                slug="t",
                body=body,
                needs=needs,
                limits=("db=1",) if knobs.limited else (),
                by="ann",
                created=1.7e9,
            )

    # What actors ask

    def open_queue(self, process):
        return open_queue(SimFiles(self.machine, process), SimClock(self.machine, process), self.layout, self.config)

    def leave(self, host):
        """The process ends in good order."""
        if host.queue is not None:
            host.call("leave", (), lambda: self._leave(host))
        self.machine.kill(host.process)

    def _leave(self, host):
        if host.member is not None:
            host.member.leave()
        host.queue.close()

    def some_id(self, chance):
        return chance.choice(self.ids)

    def some_tasks(self, chance):
        count = min(len(self.ids), chance.choice((1, 2, 3, 5)) if self.knobs.batches else 1)
        return [self.tasks[task_id] for task_id in sorted(chance.sample(self.ids, count))]

    def id_of(self, name):
        """The id in the name of a ready file, or ""."""
        spot = self.layout.spot(self.ready, name)
        return spot.id if spot and spot.state is State.READY else ""

    def other_name(self, name):
        """The name of a copy: another slug, or another id where names have none."""
        if self.knobs.layout == "pit":
            return name.removesuffix(".md") + "-copy.md"
        return name.replace(self.id_of(name), f"{self.id_of(name)}c", 1)

    # Faults

    def fault(self, actor, fault, call):
        """Carry out a fault before a call of its actor."""
        world, process = self.world, actor.process
        if process is None or not process.alive:
            return
        world.note(f"! {fault.kind} {fault.amount} before {call}")
        if fault.kind == "kill":
            self.machine.kill(process)
            raise Killed
        if fault.kind == "stall":
            process.stopped_until = world.monotonic + int(fault.amount * SECOND)
            self.judge.stopped.append((process.number, world.monotonic, process.stopped_until, actor.holds > 0))
            world._pass_on(actor)
        elif fault.kind == "nap":
            end = world.monotonic + int(fault.amount * SECOND)
            self.judge.stopped.append((process.number, world.monotonic, end, actor.holds > 0))
            world.sleep(fault.amount)
        elif fault.kind == "leap":
            world.offset += int(fault.amount * SECOND)
            self.book.leaps.append(world.steps)
        elif fault.kind == "power":
            self.book.outages.append(world.steps)
            world.note("! power is lost")
            self.machine.power_off([process for process in self.processes if process.alive], self.crash)
            raise Killed
        elif fault.kind == "error":
            process.hurt = True
            raise OSError(int(fault.amount), os.strerror(int(fault.amount)))

    # The course of a history

    def run(self):
        """Live through it and judge it; the rules that were broken."""
        gc.disable()
        try:
            return self._run()
        finally:
            gc.enable()

    def _run(self):
        begin = self.world.process("begin")
        init_queue(SimFiles(self.machine, begin), SimClock(self.machine, begin), self.layout, self.config)
        self.machine.disk.flush_all()
        self.machine.kill(begin)
        if self.knobs.full:
            self.judge.fill_later()
        actors = []
        for role in self.knobs.roles:
            host = Host(self, role)
            actors.append(Actor(role.name, host.live, self.knobs.seed, role.faults))
        self.world.run(actors)
        if self.world.stopping is not None:
            self.book.breaks("a history ends", str(self.world.stopping))
        for actor in actors:
            if actor.error is not None:
                self.book.breaks("the simulator works", repr(actor.error))
        self.machine.disk.room = 1 << 40
        for process in self.processes:
            if process.alive:
                self.machine.kill(process)
        self.world.actor = None
        self.judge.conclude()
        return self.book.broken

    @property
    def digest(self):
        return self.world.digest.hexdigest()
