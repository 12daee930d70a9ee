"""The control: defects put back into the store, and how many histories it takes to find each.

    python tests/simulator/control.py NAME [--runs 3] [--limit 2000]

A defect is a change of the source text, made while the module is imported, so each runs in a process of its own.
`test_control.py` runs those that are found within some histories.
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

from defects import DEFECTS, Defect

HERE = os.path.dirname(os.path.abspath(__file__))


class Breaker(importlib.abc.MetaPathFinder):
    """Imports one module with its text changed."""

    def __init__(self, defect: Defect) -> None:
        self.defect = defect

    def find_spec(self, name, path=None, target=None):
        changes = [(old, new) for module, old, new in self.defect.changes if module == name]
        if not changes:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        load = spec.loader.get_source

        def changed(fullname):
            text = load(fullname)
            for old, new in changes:
                assert text.count(old) == 1, f"{self.defect.name}: {text.count(old)} places in {name} have {old!r}"
                text = text.replace(old, new)
            return text

        spec.loader.get_code = lambda fullname: compile(changed(fullname), spec.origin, "exec", dont_inherit=True)
        return spec


def find(defect: Defect, first: int, limit: int, seconds: float) -> tuple[int, str]:
    """How many histories it takes until a rule is broken, and which; 0 if none is."""
    sys.meta_path.insert(0, Breaker(defect))
    from history import History
    from knobs import drawn

    end = time.monotonic() + seconds
    for number in range(1, limit + 1):
        found = History(drawn(first + number - 1, defect.layout)).run()
        if found:
            return number, found[0][0]
        if time.monotonic() > end:
            return -number, ""
    return -limit, ""


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
    found = [count for count in counts if count > 0]
    median = statistics.median_low(sorted(count if count > 0 else 10**9 for count in counts))
    return {"name": name, "found": len(found), "runs": runs, "median": median, "counts": counts, "rules": rules}


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
