"""The scenes of whole lives: who takes part, with how many workers and in what batches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena.databases import DATABASES, HandSqlite
from arena.filequeues import FILE_QUEUES
from arena.ours import Bare, Original, Spelt, Taskpit
from arena.race import race
from arena.servers import Beanstalkd, Postgres, Redis

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arena.entrants import Entrant
    from arena.plan import Run

__all__ = ["SCENES", "Scene", "all_entrants", "lives"]

#: Those that are measured with every number of workers; the others with 1 and 4.
FAST = (
    "taskpit",
    "bare calls",
    "plain protocol",
    "dirq",
    "huey SQLite",
    "SQLite NORMAL",
    "Redis everysec",
    "beanstalkd",
)
POWER = (
    "taskpit power",
    "bare calls + fsync",
    "plain protocol + fsync",
    "SQLite FULL",
    "PostgreSQL",
    "Redis always",
    "beanstalkd synced",
)
BATCHES = (
    "taskpit",
    "bare calls",
    "bare calls, spelt",
    "dirq",
    "huey SQLite",
    "SQLite NORMAL",
    "litequeue",
    "simplebroker",
    "Redis everysec",
    "beanstalkd",
)
#: Those that list what is waiting for every claim, and whom they are compared with.
DEEP = ("taskpit", "bare calls", "dirq", "SQLite NORMAL", "huey file", "kombu filesystem", "Maildir", "Maildir popitem")
DEEP_SHARED = ("taskpit", "bare calls", "huey file", "kombu filesystem")
#: Nothing but these is needed to run the benchmark at all.
ALWAYS = frozenset(("taskpit", "taskpit power", "bare calls", "bare calls + fsync"))


def all_entrants() -> dict[str, Entrant]:
    """Everything that may take part, by name."""
    entrants: Iterable[Entrant] = (
        Taskpit("process"),
        Bare("process"),
        Spelt(),
        Original("process"),
        *(make() for make in FILE_QUEUES),
        HandSqlite("process"),
        *(make() for make in DATABASES),
        Redis("everysec"),
        Beanstalkd(50),
        Taskpit("power"),
        Bare("power"),
        Original("power"),
        HandSqlite("power"),
        Postgres(),
        Redis("always"),
        Beanstalkd(0),
    )
    return {entrant.name: entrant for entrant in entrants}


@dataclass(frozen=True)
class Scene:
    """One way to live."""

    name: str
    title: str
    workers: int
    batch: int
    #: Lives in one lap, of a full run; a quick one has a tenth.
    count: int
    #: Who takes part; empty is everybody of process durability.
    entrants: tuple[str, ...] = ()


SCENES = (
    Scene("life-1", "single operations, 1 worker", 1, 1, 2000),
    Scene("life-4", "single operations, 4 workers", 4, 1, 2000),
    Scene("life-2", "single operations, 2 workers", 2, 1, 1200, FAST),
    Scene("life-8", "single operations, 8 workers", 8, 1, 1200, FAST),
    Scene("life-deep-1", "single operations, 1 worker, 10,000 waiting", 1, 1, 10_000, DEEP),
    Scene("life-deep-4", "single operations, 4 workers, 10,000 waiting", 4, 1, 10_000, DEEP_SHARED),
    Scene("batch-1", "batches of 100, 1 worker", 1, 100, 3000, BATCHES),
    Scene("batch-4", "batches of 100, 4 workers", 4, 100, 3200, BATCHES),
    Scene("power-1", "power durability, single operations, 1 worker", 1, 1, 400, POWER),
    Scene("power-8", "power durability, single operations, 8 workers", 8, 1, 800, POWER),
    Scene("power-batch-10", "power durability, batches of 10, 1 worker", 1, 10, 1000, POWER),
    Scene("power-batch-100", "power durability, batches of 100, 1 worker", 1, 100, 2000, POWER),
)


def lives(run: Run, group: str) -> None:
    """Every scene of whole lives in this group."""
    for scene in SCENES:
        if scene.name.startswith(f"{group}-"):
            _play(run, scene)


def _play(run: Run, scene: Scene) -> None:
    """Round by round, each entrant once a round; who has used up its time sits out the rest."""
    names = scene.entrants or tuple(name for name in run.entrants if name not in POWER)
    spent = dict.fromkeys((name for name in names if run.may_run(name, scene.workers)), 0.0)
    for number in range(run.rounds):
        for name in spent:
            if spent[name] > run.patience:
                continue
            if run.is_over(scene.name):
                return
            run.tell(f"{scene.title}, round {number + 1} of {run.rounds}: {name}")
            spent[name] += _lap(run, scene, name, number)


def _lap(run: Run, scene: Scene, name: str, number: int) -> float:
    """One lap of one entrant; the seconds it took, without what a server takes to begin."""
    entrant, measure = run.entrants[name], run.book.measure(scene.name, name)
    began = time.monotonic()
    try:
        entrant.start(run.fresh())
        began = time.monotonic()
        lap = race(entrant, scene.workers, run.scaled(scene.count, at_least=scene.batch), scene.batch, run.limit)
        measure.rounds[number] = lap.rate
        if lap.partial:
            measure.note(f"not all of its tasks within {run.limit:.0f} s: {lap.finished}")
    except Exception as error:  # a client's own errors, too: the others still have their lap
        measure.note(f"failed: {error}")
    took = time.monotonic() - began
    entrant.stop()
    return took
