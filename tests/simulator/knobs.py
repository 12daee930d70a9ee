"""Everything that a seed decides about a history, as values: so that a failing one can be shrunk and kept."""

from __future__ import annotations

import random
from typing import Literal

import msgspec

KINDS = ("stall", "nap", "kill", "leap", "power", "error")
#: Our own verbs, and programs that know nothing of the lock.
ROLES = ("worker", "putter", "person", "sweeper", "pool", "reader", "locker")
STRANGERS = ("snake", "cleaner", "editor", "renamer", "copier", "git", "rsync")
LAYOUTS = ("pit", "mailbox", "workspace")


class Fault(msgspec.Struct, frozen=True):
    """Before its n-th call (`call`), changing call (`change`) or changing call under the lock (`held`)."""

    where: Literal["call", "change", "held"]
    number: int
    kind: str
    #: Seconds of a stall, nap or leap, or the number of an error.
    amount: float = 0.0


class Role(msgspec.Struct, frozen=True):
    """An actor: what it is, how many rounds it lives, and its faults."""

    kind: str
    name: str
    rounds: int
    faults: tuple[Fault, ...] = ()


class Knobs(msgspec.Struct, frozen=True):
    """One history."""

    seed: int
    layout: str
    roles: tuple[Role, ...]
    tasks: int
    #: Nanoseconds of a call, the mean number of calls before the baton is passed, the grain of file times.
    tick: int
    burst: float
    grain: int
    #: Seconds of an fsync.
    latency: float
    ordered: bool
    #: Whether the store knows that the disk is ordered.
    tells_ordered: bool
    durability: str
    lease: float
    #: The longest pause between the verbs of an actor, in seconds.
    pause: float
    reuse: bool = True
    halves: bool = False
    notifies: bool = True
    events: int = 16384
    needs: bool = False
    #: Whether all tasks use one thing of which there is one.
    limited: bool = False
    batches: bool = False
    #: Whether changing calls may find the disk full for a while.
    full: bool = False


def drawn(seed: int, layout: str = "") -> Knobs:
    """The history of a seed. Half of them are tight: one or two tasks, many hands, pauses of milliseconds."""
    chance = random.Random(f"knobs:{seed}")
    tight = chance.random() < 0.5
    chosen = LAYOUTS[chance.choice((0, 0, 0, 1, 2, 2))]
    pause = chance.choice((0.002, 0.02, 0.5)) if tight else chance.choice((0.5, 5.0, 60.0))
    with_strangers = chance.random() < 0.4
    with_faults = chance.random() < 0.8
    may_lose_power = with_faults and chance.random() < 0.3
    some = ("worker", "worker", "putter", "person", "sweeper", "sweeper", "pool", "reader")
    kinds = ["worker", "worker", *(chance.choice(some) for _ in range(chance.randint(1, 6)))]
    if chance.random() < 0.1:
        kinds += ["locker", "locker"]
    if with_strangers:
        others = chance.sample(STRANGERS, chance.randint(1, 3))
        kinds += [chance.choice(others) for _ in range(chance.randint(1, 3))]
    roles = [Role("putter", "putter0", chance.randint(1, 3))]
    for number, kind in enumerate(kinds, 1):
        rounds = chance.randint(2, 8) if not tight else chance.randint(1, 5)
        faults = _faults(chance, kind, power=may_lose_power) if with_faults else ()
        roles.append(Role(kind, f"{kind}{number}", rounds, faults))
    ordered = chance.random() < 0.6
    return Knobs(
        seed=seed,
        layout=layout or chosen,
        roles=tuple(roles),
        tasks=chance.randint(1, 2) if tight else chance.randint(2, 7),
        tick=chance.choice((10_000, 10_000, 100_000, 1_000_000, 8_000_000)),
        burst=chance.choice((1.0, 2.0, 4.0, 12.0)),
        grain=chance.choice((1, 1_000_000, 4_000_000, 10_000_000)),
        latency=chance.choice((0.0, 0.001, 0.02)),
        ordered=ordered,
        tells_ordered=ordered and chance.random() < 0.8,
        durability="power" if may_lose_power or chance.random() < 0.6 else "process",
        lease=chance.choice((30.0, 30.0, 300.0)),
        pause=pause,
        reuse=chance.random() < 0.7,
        halves=chance.random() < 0.25,
        notifies=chance.random() < 0.9,
        events=3 if chance.random() < 0.25 else 16384,
        needs=chance.random() < 0.3 and not tight,
        limited=chance.random() < 0.15,
        batches=chance.random() < 0.4,
        full=with_faults and chance.random() < 0.1,
    )


def _faults(chance: random.Random, kind: str, *, power: bool) -> tuple[Fault, ...]:
    found = []
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        where = chance.choice(("change", "change", "change", "held", "call"))
        number = 1 + int(chance.expovariate(1 / (60 if where == "call" else 15)))
        what = chance.choice(
            ("stall", "stall", "nap", "kill", "kill", "leap", "error", "error" if not power else "power")
        )
        if kind in STRANGERS and what in ("error", "power"):
            what = "nap"
        if what in ("stall", "nap"):
            amount = 10 ** chance.uniform(-3, 3.9)
        elif what == "leap":
            amount = chance.choice((-1, 1)) * 10 ** chance.uniform(0, 5.3)
        else:
            amount = float(chance.choice((5, 28, 28, 24))) if what == "error" else 0.0
        found.append(Fault(where, number, what, round(amount, 4)))
    return tuple(found)
