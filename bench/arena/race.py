"""One measurement of whole lives: some processes put their share, then claim and finish until nothing is left."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from arena.entrants import Entrant, Session

__all__ = ["Failure", "Lap", "race", "spawn"]

#: How much longer than the limit a process may take before it is ended.
GRACE = 30.0
#: How long a worker that finds nothing keeps looking while others are at work.
IDLE = 5.0

fork = multiprocessing.get_context("fork")


class Failure(Exception):
    """It could not be measured."""


@dataclass(frozen=True)
class Lap:
    """What came of it."""

    #: Lives in a second.
    rate: float
    finished: int
    #: Whether the time was over before the queue was empty.
    partial: bool


def spawn(act: Any, arguments: list[tuple[Any, ...]], patience: float) -> list[Any]:
    """Run `act(*each)` in a process of its own for each of these; what they return. Nobody outlives this call."""
    pipes, crew = [], []
    for each in arguments:
        here, there = fork.Pipe(duplex=False)
        process = fork.Process(target=_report, args=(act, each, there), daemon=True)
        process.start()
        there.close()
        pipes.append(here)
        crew.append(process)
    deadline = time.monotonic() + patience
    try:
        return _receive_all(pipes, deadline)
    finally:
        for process in crew:
            process.join(max(0.0, min(deadline - time.monotonic(), 5.0)))
            if process.is_alive():
                process.kill()
                process.join()


def _report(act: Any, arguments: tuple[Any, ...], pipe: Connection) -> None:
    try:
        pipe.send((True, act(*arguments)))
    except BaseException:
        pipe.send((False, traceback.format_exc(limit=4)))
    finally:
        pipe.close()


def _receive_all(pipes: list[Connection], deadline: float) -> list[Any]:
    """What each has to say; of several failures the one that was the cause of the others."""
    values: list[Any] = []
    failures: list[Failure] = []
    for pipe in pipes:
        try:
            values.append(_receive(pipe, deadline))
        except Failure as failure:
            failures.append(failure)
    if failures:
        raise min(failures, key=lambda failure: "BrokenBarrier" in str(failure))
    return values


def _receive(pipe: Connection, deadline: float) -> Any:
    if not pipe.poll(max(0.0, deadline - time.monotonic())):
        raise Failure("it took too long")
    try:
        good, value = pipe.recv()
    except EOFError:
        raise Failure("its process died") from None
    if not good:
        raise Failure(value.strip().rpartition("\n")[2][:300])
    return value


def race(entrant: Entrant, workers: int, count: int, batch: int, limit: float) -> Lap:
    """So many processes, so many lives between them, so many tasks in each call; ends after about `limit` seconds."""
    share = max(count // workers, 1)
    barrier = fork.Barrier(workers)
    puts, ends = fork.RawArray("i", workers), fork.RawArray("i", workers)
    jobs = [(entrant, index, share, batch, limit, barrier, puts, ends) for index in range(workers)]
    times = spawn(_run, jobs, 2 * limit + GRACE)
    began, put, went_on, ended = (list(column) for column in zip(*times, strict=True))
    finished = sum(ends)
    if not finished:
        raise Failure("nothing was finished")
    if finished > sum(puts):
        raise Failure(f"{finished} were finished of {sum(puts)} that were put")
    putting = (max(put) - min(began)) * finished / sum(puts)
    working = max(ended) - min(went_on)
    return Lap(rate=finished / (putting + working), finished=finished, partial=finished < workers * share)


def _run(
    entrant: Entrant, index: int, share: int, batch: int, limit: float, barrier: Any, puts: Any, ends: Any
) -> tuple[float, float, float, float]:
    try:
        session = entrant.open()
        items = session.items(1 + index * share, share)
        barrier.wait(GRACE)
        began = time.monotonic()
        for at in range(0, share, batch):
            session.put(items[at : at + batch])
            puts[index] = min(at + batch, share)
            if time.monotonic() - began > limit:
                break
        put = time.monotonic()
        barrier.wait(limit + GRACE)
        went_on = time.monotonic()
        ended = _drain(session, index, batch, went_on + limit, puts, ends)
        barrier.wait(limit + GRACE)  # what closing costs is nobody's
        session.close()
    except BaseException:
        barrier.abort()
        raise
    return began, put, went_on, ended


def _drain(session: Session, index: int, batch: int, deadline: float, puts: Any, ends: Any) -> float:
    """Claim and finish until all that was put is finished; when the last one was."""
    ended = found = time.monotonic()
    total = sum(puts)
    while True:
        tokens = session.claim(batch)
        if tokens:
            session.done(tokens)
            ends[index] += len(tokens)
            ended = found = time.monotonic()
            if ended > deadline:
                break
        else:
            now = time.monotonic()
            if sum(ends) >= total or now > deadline or now - found > IDLE:
                break
            time.sleep(0.0005)
    return ended
