"""The verb that measures: `bench`. Chooses the disk and says what was found; `gauge` does the measuring."""

from __future__ import annotations

import os
from statistics import median

from taskpit import errors
from taskpit.cli.context import Context, Reply
from taskpit.cli.options import example, refusal
from taskpit.cli.output import paint, table
from taskpit.cli.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.bench_measures import Measured
    from taskpit.cli.verbs import Handlers

__all__ = ["VERBS", "place_of"]


def _bench_arguments(parser: ArgumentParser) -> None:
    parser.description = """\
Measure this machine: whole lives of tasks (put, claimed, done with a result) beside the bare system calls they
are made of, one by one and in batches of 100, without and with waiting for the disk; one `pit claim` beside
`python -c pass`; and how long a sleeping worker takes to have a new task. In a temporary folder on the disk of
your queue, or in the current directory if there is none; it is removed afterwards, your queue is not touched."""
    parser.epilog = example("pit bench", "pit -C /mnt/shared/pit bench --seconds 30", "pit bench --json")
    parser.add_argument("--seconds", type=_seconds, default=10.0, metavar="S", help="about how long (default 10)")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise refusal(f"{text!r} is not a number of seconds from above 0 to 3600")
    return seconds


def _bench(args: Namespace, context: Context) -> Reply:
    from shutil import rmtree
    from tempfile import mkdtemp

    from taskpit.cli.bench_measures import Gauge, Measured

    place = place_of(context)
    root = mkdtemp(prefix=".taskpit-bench-", dir=place)
    gauge = Gauge(root)
    try:
        with Progress(context, "measuring", turns=True) as bar:
            rounds = gauge.run(args.seconds, bar.say)
    finally:
        try:
            gauge.close()
        finally:
            rmtree(root, ignore_errors=True)
    measured = {name: Measured(unit="us", values=tuple(values)) for name, values in gauge.values.items()}
    ratios = _ratios(gauge.values)
    data = {
        "where": place,
        "rounds": rounds,
        "measures": {name: each.as_json() for name, each in measured.items()},
        "ratios": {key: round(ratio, 3) for key, (ratio, _) in ratios.items()},
    }
    return Reply(data=data, text=lambda: _text(place, rounds, measured, ratios))


def place_of(context: Context) -> str:
    """The folder whose disk is measured."""
    try:
        where = context.queue.store.info().where
    except errors.NotFound:
        if context.directory is not None:
            raise
        return os.getcwd()
    hidden = os.path.join(where, ".taskpit")
    return hidden if os.path.isdir(hidden) else where


def _ratios(values: dict[str, list[float]]) -> dict[str, tuple[float, str]]:
    """What is compared: the ratio within each round, the middle one of them, and how to read it."""

    def within(above: str, below: str) -> float:
        return median(one / other for one, other in zip(values[above], values[below], strict=True))

    speed, length = "x bare speed", "x as long"
    return {
        "life": (within("bare life", "life"), speed),
        "batches": (within("bare life", "life in batches"), speed),
        "life_synced": (within("bare life, synced", "life, synced"), speed),
        "batches_synced": (within("bare life, synced", "life in batches, synced"), speed),
        "one_shot": (within("pit claim", "python -c pass"), length),
    }


def _text(place: str, rounds: int, measured: dict[str, Measured], ratios: dict[str, tuple[float, str]]) -> str:
    from taskpit.cli.bench_measures import BATCH, PAYLOAD

    beside = {
        "life": "life",
        "life in batches": "batches",
        "life, synced": "life_synced",
        "life in batches, synced": "batches_synced",
        "pit claim": "one_shot",
    }
    rows = []
    for name, each in measured.items():
        ratio, how = ratios.get(beside.get(name, ""), (0.0, ""))
        rate = f"{1e6 / each.median:,.0f}/s" if "life" in name else ""
        spread = f"{_short(min(each.values))} .. {_short(max(each.values))}"
        rows.append((name, _short(each.median), spread, rate, f"{ratio:.2f} {how}" if how else ""))
    head = ("what", "median", "spread", "rate", "ratio")
    lines = [paint("bold", f"Measured in {place}, {rounds} {'round' if rounds == 1 else 'rounds'}"), ""]
    lines += [table(head, rows), ""]
    lines += [f"A life is put, claimed, done with a result: {PAYLOAD} bytes each. Batches are of {BATCH}."]
    lines += ["Synced is durability = power: on the disk before it is acknowledged."]
    return "\n".join(lines)


def _short(microseconds: float) -> str:
    """`85 us`, `1.3 ms`."""
    return f"{microseconds:.0f} us" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"


VERBS: Handlers = {"bench": (_bench_arguments, _bench)}
