"""The control of the simulator: defects put back into the store, and how many histories it takes to find each.

    python tests/mutants/control.py [--runs 3] [--limit 2000] [NAME ...]

With `--limit 0` the directed interruptions look for it instead of histories.

A defect is a change of the source text, made while the module is imported, so each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

from defects import DEFECTS, PACKAGE, Defect

HERE = os.path.dirname(os.path.abspath(__file__))


class Breaker(importlib.abc.MetaPathFinder):
    """Imports one module with its text changed."""

    def __init__(self, defect: Defect) -> None:
        self.defect = defect

    def find_spec(self, name, path=None, target=None):
        if name != f"{PACKAGE}.{self.defect.module}":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        text = spec.loader.get_source(name)
        assert text.count(self.defect.old) == 1, f"{text.count(self.defect.old)} places have {self.defect.old!r}"
        code = compile(text.replace(self.defect.old, self.defect.new), spec.origin, "exec", dont_inherit=True)
        spec.loader.get_code = lambda _: code
        return spec


def find_directed(defect: Defect, seconds: float) -> tuple[int, str]:
    """How many directed interruptions it takes until a rule is broken; negative: so many found nothing."""
    from directed import INTERRUPTIONS, SCENES, run

    end, count = time.monotonic() + seconds, 0
    for stride in (7, 1):
        for order in (True, False):
            for scene in SCENES:
                for place, interruption in enumerate(INTERRUPTIONS):
                    number, happened = 1 + place % stride, True
                    while happened and time.monotonic() < end:
                        options = {"layout": defect.layout, "ordered": order, "tells_ordered": order}
                        bench, happened = run(scene, interruption, number, **options)
                        count += happened
                        number += stride
                        if bench.book.broken:
                            return count, f"{scene}, {interruption}: {bench.book.broken[0][0]}"
    return -count, ""


def find(defect: Defect, first: int, limit: int, seconds: float) -> tuple[int, str]:
    """How many histories it takes until a rule is broken, and which; negative: so many found nothing."""
    sys.meta_path.insert(0, Breaker(defect))
    sys.path[:0] = [os.path.join(os.path.dirname(HERE), "simulator")]
    if not limit:
        return find_directed(defect, seconds)
    from history import History
    from knobs import drawn

    end = time.monotonic() + seconds
    for number in range(1, limit + 1):
        found = History(drawn(first + number - 1, defect.layout)).run()
        if found:
            return number, found[0][0]
        if time.monotonic() > end:
            break
    return -number, ""


def measure(name: str, runs: int, limit: int, seconds: float) -> dict[str, object]:
    """Run a defect from several first seeds, each in a process of its own."""
    counts, rules = [], []
    for run in range(runs):
        command = [sys.executable, __file__, name, "--once", str(1 + 100_000 * run), "--limit", str(limit)]
        done = subprocess.run([*command, "--seconds", str(seconds)], capture_output=True, text=True, check=False)
        if done.returncode:
            return {"name": name, "error": done.stderr[-800:]}
        count, rule = json.loads(done.stdout)
        counts.append(count)
        rules.append(rule)
    median = statistics.median_low(sorted(count if count > 0 else 10**9 for count in counts))
    return {"name": name, "median": median if median < 10**9 else 0, "counts": counts, "rules": rules}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("name", nargs="*")
    options.add_argument("--once", type=int, default=0)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--limit", type=int, default=2000)
    options.add_argument("--seconds", type=float, default=120.0)
    args = options.parse_args()
    if args.once:
        print(json.dumps(find(DEFECTS[args.name[0]], args.once, args.limit, args.seconds)))
        return
    for name in args.name or DEFECTS:
        print(json.dumps(measure(name, args.runs, args.limit, args.seconds)), flush=True)


if __name__ == "__main__":
    main()
