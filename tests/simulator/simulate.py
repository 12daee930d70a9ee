"""`make simulate SEED=7`: run the history of a seed; print it as columns of actors if a rule was broken.

A failing history is shrunk first: fewer actors, rounds, tasks and faults, as long as the same rule breaks. What is
left joins the corpus with KEEP=1, and every later run of the tests replays it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

import msgspec
from history import History
from knobs import Knobs, drawn

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = os.path.join(os.path.dirname(__file__), "corpus.jsonl")
#: A smaller history is tried with so many schedules before it counts as sound.
SCHEDULES = 9
WIDTH = 30
#: Calls that change nothing are not shown.
LOOKS = (
    "stat ",
    "list ",
    "read ",
    "pread ",
    "open ",
    "is locked ",
    "unlock ",
    "sleep ",
    "ls ",
    "cat ",
    "watch ",
    "wait ",
)


def corpus() -> list[Knobs]:
    """The histories that broke a rule once."""
    if not os.path.exists(CORPUS):
        return []
    with open(CORPUS, "rb") as file:
        return [msgspec.json.decode(line, type=Knobs) for line in file if line.strip()]


def keep(knobs: Knobs) -> None:
    """Add a history to the corpus."""
    with open(CORPUS, "ab") as file:
        file.write(msgspec.json.encode(knobs) + b"\n")


def rules(knobs: Knobs) -> dict[str, str]:
    """The rules that a history breaks, each with its first text."""
    found: dict[str, str] = {}
    for rule, text, _, _ in History(knobs).run():
        found.setdefault(rule, text)
    return found


def smaller(knobs: Knobs) -> Iterator[Knobs]:
    """Histories with one thing less."""
    change = msgspec.structs.replace
    for place, role in enumerate(knobs.roles):
        others = knobs.roles[:place], knobs.roles[place + 1 :]
        yield change(knobs, roles=(*others[0], *others[1]))
        for number in range(len(role.faults)):
            fewer = role.faults[:number] + role.faults[number + 1 :]
            yield change(knobs, roles=(*others[0], change(role, faults=fewer), *others[1]))
        for rounds in sorted({1, role.rounds // 2, role.rounds - 1} - {0, role.rounds}):
            yield change(knobs, roles=(*others[0], change(role, rounds=rounds), *others[1]))
    for tasks in range(1, knobs.tasks):
        yield change(knobs, tasks=tasks)
    plain = {"batches": False, "needs": False, "halves": False, "notifies": True, "events": 16384, "full": False}
    for name, value in {**plain, "ordered": True, "latency": 0.0, "tick": 10_000, "grain": 1, "reuse": False}.items():
        if getattr(knobs, name) != value:
            yield change(knobs, **{name: value})


def shrink(knobs: Knobs, rule: str, *, seconds: float = 60.0) -> Knobs:
    """The smallest history that was found to break the same rule."""
    end = time.monotonic() + seconds
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in smaller(knobs):
            for seed in (knobs.seed, *range(1, SCHEDULES)):
                if time.monotonic() > end:
                    return knobs
                tried = msgspec.structs.replace(candidate, seed=seed)
                if rule in rules(tried):
                    knobs, shrunk = tried, True
                    break
            if shrunk:
                break
    return knobs


def columns(history: History) -> Iterator[str]:
    """A history, one column for each actor; `>` marks the window of the broken rule."""
    trace = history.world.trace or []
    names = list(dict.fromkeys(name for _, name, _, _ in trace))
    begin, end = next(((first, last) for _, _, first, last in history.book.broken if last), (0, -1))
    yield " " * 16 + "".join(name.ljust(WIDTH) for name in names)
    for when, name, text, step in trace:
        if text.startswith(LOOKS):
            continue
        mark = ">" if begin <= step <= end else " "
        place = names.index(name)
        yield f"{mark}{when / 1e9:14.6f} " + " " * (WIDTH * place) + text.replace(".taskpit/", "~/")


def show(knobs: Knobs) -> None:
    """Print a history, the rules that it breaks, and its knobs."""
    history = History(knobs, record=True)
    found = history.run()
    for line in columns(history):
        print(line)
    for rule, text, _, _ in found:
        print(f"BROKEN {rule}: {text}")
    print(msgspec.json.encode(knobs).decode())


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("seed", type=int)
    options.add_argument("--layout", default="")
    options.add_argument("--count", type=int, default=1)
    options.add_argument("--seconds", type=float, default=0.0, help="stop after so many seconds")
    options.add_argument("--show", action="store_true", help="print the history also if no rule was broken")
    options.add_argument(
        "--shrink", action="store_true", help="shrink the first history that breaks a rule and print it"
    )
    options.add_argument("--keep", action="store_true", help="add what was shrunk to the corpus")
    options.add_argument("--digest", action="store_true", help="print the hash of all calls of each history")
    args = options.parse_args()
    begin, broken, calls, count = time.monotonic(), 0, 0, 0
    for seed in range(args.seed, args.seed + args.count):
        if args.seconds and time.monotonic() - begin > args.seconds:
            break
        knobs = drawn(seed, args.layout)
        history = History(knobs)
        found = history.run()
        count += 1
        calls += history.world.steps
        if args.digest:
            print(seed, history.digest)
        if found:
            broken += 1
            for rule, text, _, _ in found:
                print(f"seed {seed} {knobs.layout}: {rule}: {text[:1200]}", flush=True)
            if args.shrink:
                small = shrink(knobs, found[0][0])
                show(small)
                if args.keep:
                    keep(small)
                break
        if args.show:
            show(knobs)
    seconds = time.monotonic() - begin
    print(f"{count} histories, {broken} with a broken rule, {calls} calls, {60 * count / seconds:.0f} a minute")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
