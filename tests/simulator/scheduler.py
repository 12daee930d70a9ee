"""One actor runs at a time. A baton is passed at calls to the operating system; one seed decides to whom.

Each actor is a thread with a gate. `step` is called before every call: it counts, lets time pass, carries out
the faults that are due, and may pass the baton. Nothing else switches threads, so a seed repeats a history.
"""

from __future__ import annotations

import hashlib
import random
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from disk import Notifications, OpenFile
    from knobs import Fault

SECOND = 1_000_000_000


#: Calls that can have an error of the disk, by its number: EIO, ENOSPC, EMFILE.
OPENS = ("create", "append", "open to write", "open to lock", "open", "list")
GROWS = ("create", "append", "open to write", "write", "link", "mkdir", "fsync")
ERRORS = {5: (*OPENS, *GROWS, "read", "pread", "move", "replace", "unlink", "utime"), 28: GROWS, 24: OPENS}


def can_have(call: str, fault: Fault) -> bool:
    """Whether this call of the operating system can have the fault."""
    return fault.kind != "error" or call in ERRORS[int(fault.amount)]


class Killed(BaseException):
    """The process is dead: its calls have no effect any more."""


class Stuck(BaseException):
    """The history takes more steps than it may."""


class PowerLoss(BaseException):
    """The machine went off while this actor held the baton."""


@dataclass(eq=False)
class Process:
    """What the kernel keeps for a process."""

    number: int
    name: str
    alive: bool = True
    stopped_until: int = 0
    files: dict[int, OpenFile] = field(default_factory=dict)
    watchers: list[Notifications] = field(default_factory=list)
    mutexes: list[Mutex] = field(default_factory=list)
    last_file: int = 2
    #: Whether an error of the disk was injected into the verb that runs now.
    hurt: bool = False

    def give(self, opened: OpenFile) -> int:
        self.last_file += 1
        self.files[self.last_file] = opened
        return self.last_file


class Actor:
    """A thread of a process, its own chance and its own faults."""

    def __init__(self, name: str, life: Callable[[Actor], None], seed: object, faults: tuple[Fault, ...] = ()) -> None:
        self.name, self.life, self.faults = name, life, list(faults)
        self.chance = random.Random(f"{seed}:{name}")
        self.process: Process | None = None
        self.gate = threading.Semaphore(0)
        self.wake = 0
        self.ready: Callable[[], bool] | None = None
        self.counts = {"call": 0, "change": 0, "held": 0}
        #: Set by a lock that was refused: the next sleep is a wait for it.
        self.refused: Callable[[], bool] | None = None
        self.holds = 0
        self.finished = False
        self.error: BaseException | None = None
        self.doing = ""


class Mutex:
    """A lock between the threads of one process."""

    def __init__(self, world: World) -> None:
        self.world, self.owner, self.depth = world, None, 0  # type: ignore[var-annotated]

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        actor = self.world.actor
        if self.owner is not None and not blocking:
            return False
        if self.owner is not None and actor is not None:
            limit = None if timeout < 0 else timeout
            self.world.wait(lambda: self.owner is None, limit)
            if self.owner is not None:
                return False
        self.owner = actor or self.world
        return True

    def release(self) -> None:
        self.owner = None

    def locked(self) -> bool:
        return self.owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class World:
    """Time, the actors, and who has the baton."""

    def __init__(self, seed: object, *, tick: int, burst: float, limit: int) -> None:
        self.schedule = random.Random(f"{seed}:schedule")
        self.tick, self.burst, self.limit = tick, burst, limit
        self.monotonic, self.offset, self.boots = 1_000 * SECOND, 1_790_000_000 * SECOND, 1
        self.actors: list[Actor] = []
        self.actor: Actor | None = None
        self.steps, self.left, self.pids = 0, 0, 100
        self.digest = hashlib.blake2b(digest_size=12)
        #: (time, actor, text, step) of each call, if asked for.
        self.trace: list[tuple[int, str, str, int]] | None = None
        self.main = threading.Semaphore(0)
        self.stopping: BaseException | None = None
        #: Whether a lock was refused while no actor lived.
        self.polls = False
        self.on_fault: Callable[[Actor, Fault, str], None] = lambda *_: None
        #: Called with each step; a judge may look at the disk.
        self.look: Callable[[], None] | None = None
        #: A process, the number of its changing call, and what happens before it.
        self.interrupt: tuple[Process, int, Callable[[], None]] | None = None

    def now(self) -> int:
        return self.monotonic + self.offset

    def process(self, name: str) -> Process:
        self.pids += 1
        return Process(self.pids, name)

    # What an actor's call does before it happens

    def step(self, process: Process, call: str, detail: str = "", *, changes: bool = False) -> None:
        """One call of the running actor is about to happen. Raises Killed if its process is dead."""
        if not process.alive:
            raise Killed
        actor = self.actor
        self.steps += 1
        self.monotonic += self.tick
        name = actor.name if actor else "main"
        self.digest.update(f"{self.monotonic} {name} {call} {detail}\n".encode())
        if self.trace is not None:
            self.trace.append((self.monotonic, name, f"{call} {detail}", self.steps))
        if self.look is not None:
            self.look()
        if self.steps > self.limit:
            if actor is None:
                raise Stuck
            self.stop(Stuck(f"{self.limit} calls, and no end: {actor.name} {actor.doing}"))
        if actor is None:
            self._interrupt(process, changes=changes)
            return
        self._count(actor, call, changes=changes)
        self.left -= 1
        if self.left <= 0:
            self._pass_on(actor)
        if self.stopping is not None or not process.alive:
            raise Killed

    def _interrupt(self, process: Process, *, changes: bool) -> None:
        """Without actors: what comes between two calls of one process."""
        if self.interrupt is not None and changes and self.interrupt[0] is process:
            _, number, act = self.interrupt
            self.interrupt = None if number == 1 else (process, number - 1, act)
            if number == 1:
                act()
                if not process.alive:
                    raise Killed

    def _count(self, actor: Actor, call: str, *, changes: bool) -> None:
        counts = actor.counts
        counts["call"] += 1
        if changes:
            counts["change"] += 1
            if actor.holds:
                counts["held"] += 1
        for fault in actor.faults:
            due = counts[fault.where] >= fault.number and (changes or fault.where == "call")
            if due and (fault.where != "held" or actor.holds) and can_have(call, fault):
                actor.faults.remove(fault)
                self.on_fault(actor, fault, call)
                break

    def note(self, text: str) -> None:
        """Add a line to the trace that is not a call."""
        if self.trace is not None:
            self.trace.append((self.monotonic, self.actor.name if self.actor else "main", text, self.steps))

    # Sleeping and waiting

    def sleep(self, seconds: float) -> None:
        """Let others run until this much time has passed."""
        actor = self.actor
        length = max(int(seconds * SECOND), 1)
        if actor is None:
            self.monotonic += max(length, SECOND // 2) if self.polls else length
            return
        if actor.refused is not None:
            # A refused lock is polled every few microseconds; nothing can change before it is free.
            ready, actor.refused = actor.refused, None
            actor.ready = ready
            length = max(length, SECOND // 2)
        actor.wake = self.monotonic + length
        self._pass_on(actor)
        actor.ready = None
        if self.stopping is not None or (actor.process is not None and not actor.process.alive):
            raise Killed

    def wait(self, ready: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until something is so; False if the time was not enough."""
        actor = self.actor
        if actor is None or ready():
            return ready()
        actor.ready = ready
        actor.wake = self.monotonic + int((100 * 86400 if seconds is None else seconds) * SECOND)
        self._pass_on(actor)
        actor.ready = None
        if self.stopping is not None or (actor.process is not None and not actor.process.alive):
            raise Killed
        return ready()

    # The baton

    def _may_run(self, actor: Actor) -> bool:
        process = actor.process
        if process is not None and not process.alive:
            return True
        if process is not None and process.stopped_until > self.monotonic:
            return False
        return actor.wake <= self.monotonic or (actor.ready is not None and actor.ready())

    def _next(self) -> Actor | None:
        while True:
            actors = [actor for actor in self.actors if not actor.finished]
            if not actors:
                return None
            if self.stopping is not None:
                return actors[0]
            able = [actor for actor in actors if self._may_run(actor)]
            if able:
                self.left = 1 + int(self.schedule.expovariate(1 / self.burst)) if self.burst > 1 else 1
                return able[int(self.schedule.random() * len(able))] if len(able) > 1 else able[0]
            self.monotonic = min(self._earliest(actor) for actor in actors)

    def _earliest(self, actor: Actor) -> int:
        stopped = actor.process.stopped_until if actor.process else 0
        if actor.ready is not None and stopped > self.monotonic and actor.ready():
            return stopped
        return max(actor.wake, stopped)

    def _pass_on(self, actor: Actor) -> None:
        following = self._next()
        if following is actor:
            actor.wake = 0
            return
        assert following is not None
        self.actor = following
        following.gate.release()
        actor.gate.acquire()
        self.actor = actor
        actor.wake = 0

    def stop(self, reason: BaseException) -> None:
        """Every actor ends at its next step."""
        if self.stopping is None:
            self.stopping = reason
        raise Killed

    def run(self, actors: list[Actor]) -> None:
        """Let these actors live until all have ended."""
        self.actors, self.stopping = actors, None
        threads = [threading.Thread(target=self._live, args=(actor,), daemon=True) for actor in actors]
        for thread in threads:
            thread.start()
        first = self._next()
        if first is not None:
            self.actor = first
            first.gate.release()
            self.main.acquire()
        for thread in threads:
            thread.join()
        self.actor, self.actors = None, []

    def _live(self, actor: Actor) -> None:
        actor.gate.acquire()
        self.actor = actor
        actor.wake = 0
        try:
            if self.stopping is None:
                actor.life(actor)
        except Killed:
            pass
        except BaseException as error:
            actor.error = error
        actor.finished = True
        following = self._next()
        self.actor = following
        if following is None:
            self.main.release()
        else:
            following.gate.release()
