"""What must be shown, as data, and whether it was. Knows measures by name; measures nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena.stats import Ratio

if TYPE_CHECKING:
    from arena.stats import Book

__all__ = ["GOALS", "Check", "Finding", "Goal", "judge"]

Place = tuple[str, str]


@dataclass(frozen=True)
class Check:
    """One number and its bound. Without a bound it is stated and decides nothing."""

    label: str
    above: Place
    #: What it is divided by; None: the number itself is looked at.
    below: Place | None = None
    at_least: float | None = None
    at_most: float | None = None
    #: It must be smaller than `at_most`, not equal.
    strictly: bool = False
    #: Of the checks that share this word one is enough.
    either: str = ""

    @property
    def bound(self) -> str:
        """What is asked for."""
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        if self.at_most is not None:
            return f"{'below' if self.strictly else 'at most'} {self.at_most:g}"
        return "stated"

    def find(self, book: Book) -> Ratio | None:
        """The number, if it was measured."""
        if self.below is not None:
            return book.ratio(self.above, self.below)
        measure = book.find(*self.above)
        return measure and Ratio(measure.median, min(measure.values), max(measure.values))

    def holds(self, number: Ratio | None) -> bool | None:
        """Whether the number is within its bound; None if there is no number or no bound."""
        if number is None:
            return None
        if self.at_least is not None:
            return number.median >= self.at_least
        if self.at_most is not None:
            return number.median < self.at_most if self.strictly else number.median <= self.at_most
        return None


@dataclass(frozen=True)
class Goal:
    """A row of the table."""

    what: str
    goal: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Finding:
    """How a goal stands."""

    goal: Goal
    numbers: tuple[tuple[Check, Ratio | None, bool | None], ...]

    @property
    def verdict(self) -> str:
        """`met`, `missed`, `met as far as measured`, or `not measured`."""
        decided: dict[str, list[bool | None]] = {}
        for place, (check, _, held) in enumerate(self.numbers):
            if check.at_least is not None or check.at_most is not None:
                decided.setdefault(check.either or str(place), []).append(held)
        answers = [_any(group) for group in decided.values()]
        if False in answers:
            return "missed"
        if True not in answers:
            return "not measured"
        return "met as far as measured" if None in answers else "met"


def _any(group: list[bool | None]) -> bool | None:
    if True in group:
        return True
    return None if None in group else False


def judge(book: Book) -> list[Finding]:
    """How every goal stands by these measures."""
    found = []
    for goal in GOALS:
        numbers = [(check, check.find(book)) for check in goal.checks]
        found.append(Finding(goal, tuple((check, number, check.holds(number)) for check, number in numbers)))
    return found


OURS, SYNCED = "taskpit", "taskpit power"


def _singles() -> tuple[Check, ...]:
    checks = []
    for workers in (1, 4):
        scene, said = f"life-{workers}", "1 worker" if workers == 1 else f"{workers} workers"
        checks.append(Check(f"bare calls, {said}", (scene, OURS), (scene, "bare calls"), at_least=0.6))
        slow, near = ("huey file", "kombu filesystem"), ("dirq", "SQLite NORMAL")
        # These list all that waits for every claim: how they compare depends on how much does.
        deep, waiting = f"life-deep-{workers}", "with 10,000 waiting"
        checks += [Check(f"{peer}, {said}, {waiting}", (deep, OURS), (deep, peer), at_least=10) for peer in slow]
        checks += [Check(f"{peer}, {said}, with 2,000 waiting", (scene, OURS), (scene, peer)) for peer in slow]
        # Maildir has one consumer at most: its figure is always that one's.
        checks.append(Check(f"Maildir, {said}, keys listed once", (scene, OURS), ("life-1", "Maildir")))
        popping = Check(f"Maildir, {said}, {waiting}", (deep, OURS), ("life-deep-1", "Maildir popitem"), at_least=10)
        checks.append(popping)
        checks += [Check(f"{peer}, {said}", (scene, OURS), (scene, peer)) for peer in near]
    return tuple(checks)


def _batches() -> tuple[Check, ...]:
    return tuple(
        Check(f"{peer}, {workers} worker{'s' * (workers > 1)}", (scene, OURS), (scene, peer), at_least=bound)
        for workers in (1, 4)
        for scene in (f"batch-{workers}",)
        for peer, bound in (("dirq", 1.0), ("huey SQLite", 1.0), ("SQLite NORMAL", None))
    )


def _power() -> tuple[Check, ...]:
    checks = [
        Check("bare calls + fsync, 1 worker", ("power-1", SYNCED), ("power-1", "bare calls + fsync"), at_least=0.8)
    ]
    for peer in ("SQLite FULL", "PostgreSQL"):
        for scene, said in (("power-8", "8 workers"), ("power-batch-10", "batches of 10")):
            checks.append(Check(f"{peer}, {said}", (scene, SYNCED), (scene, peer), at_least=1.0, either=peer))
    for peer in ("SQLite FULL", "PostgreSQL"):
        label = f"batches of 100, over {peer}'s single operations"
        checks.append(Check(label, ("power-batch-100", SYNCED), ("power-1", peer), at_least=10))
        label = f"batches of 100, over {peer}'s batches of 100"
        checks.append(Check(label, ("power-batch-100", SYNCED), ("power-batch-100", peer)))
    checks.append(Check("batches of 100, over our single operations", ("power-batch-100", SYNCED), ("power-1", SYNCED)))
    return tuple(checks)


def _claim(size: int) -> Place:
    return ("claim", f"{size:,} ready")


GOALS = (
    Goal(
        "life (put, claim, done with result), process durability, single operations, 1 and 4 workers",
        "at least 0.6x the bare calls of our own commit table; at least 10x huey file, kombu filesystem, Maildir; "
        "the ratio to dirq and hand-written SQLite stated",
        _singles(),
    ),
    Goal("the same with batches of 100", "at least 1.0x dirq and huey on SQLite without sync", _batches()),
    Goal(
        "life, power durability",
        "single operations at least 0.8x bare calls + fsync at 1 worker; at least 1.0x hand-written SQLite FULL and "
        "PostgreSQL at 8 workers or with batches of 10; batches of 100 at least 10x",
        _power(),
    ),
    Goal(
        "put to claimed, waiting worker, process durability",
        "p50 below Redis blocking pop and beanstalkd",
        tuple(
            Check(f"p50 over that of {peer}", ("wake-p50", OURS), ("wake-p50", peer), at_most=bound, strictly=True)
            for peer, bound in (("Redis everysec", 1.0), ("beanstalkd", 1.0), ("SQLite NORMAL", None))
        ),
    ),
    Goal(
        "claim cost at 1,000,000 ready with mixed priorities, long-lived worker",
        "at most 1.5x of that at 1,000",
        (
            Check("10,000 over 1,000", _claim(10_000), _claim(1_000)),
            Check("100,000 over 1,000", _claim(100_000), _claim(1_000)),
            Check("1,000,000 over 1,000", _claim(1_000_000), _claim(1_000), at_most=1.5),
        ),
    ),
    Goal(
        "`pit claim`, one shot, beside `python -c pass`",
        "at most 2.5x at 1,000 ready, at most 6x at 100,000 with mixed priorities",
        tuple(
            Check(f"at {size:,}", ("oneshot", f"pit claim at {size:,}"), ("oneshot", "python -c pass"), at_most=bound)
            for size, bound in ((1_000, 2.5), (100_000, 6.0))
        ),
    ),
    Goal(
        "16 workers over 10,000 empty tasks",
        "failed renames per claim under 1; no worker starves",
        (
            Check("failed renames per claim", ("crowd", "failed renames per claim"), at_most=1.0, strictly=True),
            # A rename that a touch comes before fails with the touch: both are counted here.
            Check("lost tries per claim", ("crowd", "lost tries per claim"), at_most=1.0, strictly=True),
            Check(
                "least of a worker over its fair share",
                ("crowd", "least of a worker over its fair share"),
                at_least=0.1,
            ),
            Check("most of a worker over its fair share", ("crowd", "most of a worker over its fair share")),
        ),
    ),
    Goal(
        "idle pool of 8, over 30 s",
        "under 1 % of a core, also beside 10,000 tasks that do not fit",
        (
            Check("% of a core", ("idle", "pit work -n 8"), at_most=1.0, strictly=True),
            Check(
                "% of a core beside 10,000",
                ("idle", "pit work -n 8 beside 10,000 that do not fit"),
                at_most=1.0,
                strictly=True,
            ),
        ),
    ),
    Goal(
        "`pit work -n 2 -- true`, commands a second",
        "at least 3x GNU parallel and 0.6x xargs, each with two at a time",
        (
            Check("GNU parallel", ("runner", "pit work"), ("runner", "GNU parallel"), at_least=3.0),
            Check("xargs", ("runner", "pit work"), ("runner", "xargs"), at_least=0.6),
            Check("processor, over that of GNU parallel", ("runner-cpu", "pit work"), ("runner-cpu", "GNU parallel")),
            Check("processor, over that of xargs", ("runner-cpu", "pit work"), ("runner-cpu", "xargs")),
        ),
    ),
    Goal(
        "one `pit claim` and one `pit add`, processor, beside `python -I -S -c pass`",
        "at most 3.3x each",
        tuple(
            Check(name, ("processor", name), ("processor", "python -I -S -c pass"), at_most=3.3)
            for name in ("pit claim", "pit add")
        ),
    ),
    Goal(
        "memory of a worker at 1,000,000 ready",
        "under 300 MB",
        (Check("MB", ("memory", "1,000,000 ready"), at_most=300.0, strictly=True),),
    ),
)
