"""The models at length: `python tests/models/explore.py [--states N] [WORDS...]`.

First the controls, each with its shortest trace to a broken promise; then the protocols themselves, each world
explored whole, or up to N states if that is less. WORDS choose those whose names contain them all. Exit code 1 if a
promise broke, or a control did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from models.cases import CONTROLS, LARGE
from models.explorer import explore


def main(arguments=None):
    """Explore, say what was found; whether all is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--states", type=int, default=2_000_000, help="the most to look at in one world (0: all)")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args(arguments)
    chosen = [name for name in (*CONTROLS, *LARGE) if all(word in name for word in given.words)]
    begun, well, totals = time.monotonic(), True, {}
    for name in chosen:
        started = time.monotonic()
        make, words = CONTROLS[name] if name in CONTROLS else (LARGE[name], None)
        found = explore(make(), given.states)
        right = found.violation == "" if words is None else bool(found.violation) and words in found.violation
        well = well and right
        print(f"{'as it should be' if right else 'NOT AS IT SHOULD BE'}: {name} ({time.monotonic() - started:.1f} s)")
        print(f"  {found}\n", flush=True)
        if words is None:
            totals[name.partition(":")[0]] = totals.get(name.partition(":")[0], 0) + found.states
    for kind, states in totals.items():
        print(f"{kind}: {states:,} states")
    print(
        f"{sum(totals.values()):,} states without a violation, {time.monotonic() - begun:.0f} s" if well else "BROKEN"
    )
    return well


if __name__ == "__main__":
    sys.exit(not main())
