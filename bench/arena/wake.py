"""From the beginning of a put until a worker that slept has the task."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from arena.race import GRACE, Failure, fork, spawn
from arena.stats import percentile

if TYPE_CHECKING:
    from arena.entrants import Entrant
    from arena.plan import Run

__all__ = ["WAITERS", "wake"]

WAITERS = ("taskpit", "Redis everysec", "beanstalkd", "SQLite NORMAL")
#: Puts in one round.
PUTS = 60


def wake(run: Run) -> None:
    """Each waiter in turn, some puts a round."""
    names = [name for name in WAITERS if run.may_run(name)]
    for number in range(run.rounds):
        for name in names:
            if run.is_over("wake"):
                return
            run.tell(f"put to claimed, round {number + 1} of {run.rounds}: {name}")
            _round(run, name, number)
    for name in names:
        samples = run.book.samples.get(("wake", name))
        if samples:
            run.book.add("wake-p90", name, 0, percentile(samples, 0.9), "ms")
            run.book.add("wake-p99", name, 0, percentile(samples, 0.99), "ms")


def _round(run: Run, name: str, number: int) -> None:
    entrant, measure = run.entrants[name], run.book.measure("wake-p50", name, "ms")
    try:
        entrant.start(run.fresh())
        samples = latencies(entrant, run.scaled(PUTS, at_least=10))
        run.book.samples.setdefault(("wake", name), []).extend(samples)
        measure.rounds[number] = percentile(samples, 0.5)
    except Exception as error:  # a client's own errors, too: the others still have their round
        measure.note(f"failed: {error}")
    finally:
        entrant.stop()


def latencies(entrant: Entrant, count: int) -> list[float]:
    """Milliseconds, one for each put."""
    puts, claims, ready = fork.RawArray("d", count), fork.RawArray("d", count), fork.RawArray("i", 1)
    jobs = [(_worker, entrant, count, claims, ready), (_putter, entrant, count, puts, claims, ready)]
    spawn(_either, jobs, GRACE + count * 0.5)
    return [1000 * (claimed - put) for put, claimed in zip(puts, claims, strict=True)]


def _either(act: Any, *arguments: Any) -> None:
    act(*arguments)


def _worker(entrant: Entrant, count: int, claims: Any, ready: Any) -> None:
    """Sleeps until there is something, count times; says after each that it goes back to sleep."""
    session = entrant.open()
    session.claim(1)  # whatever is loaded and opened once is
    for number in range(count):
        ready[0] = number + 1
        deadline = time.monotonic() + GRACE
        while not (tokens := session.take(10)):
            if time.monotonic() > deadline:
                raise Failure("nobody put anything")
        claims[number] = time.monotonic()
        session.done(tokens)
    session.close()


def _putter(entrant: Entrant, count: int, puts: Any, claims: Any, ready: Any) -> None:
    """Puts one once the worker sleeps, at times that fit no rhythm of its own."""
    session = entrant.open()
    items = session.items(1, count)
    for number in range(count):
        deadline = time.monotonic() + GRACE
        while ready[0] <= number or (number and not claims[number - 1]):
            if time.monotonic() > deadline:
                raise Failure("the worker does not come back")
            time.sleep(0.0005)
        time.sleep(0.004 + os.urandom(1)[0] / 255 * 0.012)
        puts[number] = time.monotonic()
        session.put([items[number]])
    session.close()
