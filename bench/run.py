# ruff: noqa: INP001 - a script, not a part of a package
"""The benchmark: ours, the peers and the bare system calls on the same disk, in turns, round by round.

    python bench/run.py                         everything, up to 20 minutes
    python bench/run.py --quick                 a tenth of it, up to 2 minutes
    python bench/run.py --only life,dirq        some groups of scenes, some peers
    python bench/run.py --disk /mnt/bench       on another disk

Writes results.json, results.md and plots into `--out`. What could not be installed is named there as
missing. Keep the machine quiet meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "src")]

from arena.backlog import Backlogs, backlog, looks, oneshot  # noqa: E402 - the paths come first
from arena.crowd import crowd, idle  # noqa: E402
from arena.machine import describe  # noqa: E402
from arena.plan import GROUPS, Run  # noqa: E402
from arena.plots import draw  # noqa: E402
from arena.report import as_json, as_markdown  # noqa: E402
from arena.runner import processor, runner  # noqa: E402
from arena.scenes import all_entrants, lives  # noqa: E402
from arena.wake import wake  # noqa: E402


def main() -> int:
    """Run it; 0 once the results are written, whatever they say."""
    entrants = all_entrants()
    args = _arguments(list(entrants))
    os.makedirs(args.out, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are ended and folders cleared then, too
    machine = describe(args.disk)
    run = Run(disk=args.disk, quick=args.quick, entrants=entrants, only=frozenset(args.only))
    try:
        for name, reason in run.book.missing.items():
            run.tell(f"missing: {name}: {reason}")
        _play(run)
    finally:
        run.close()
    plots = draw(run.book, args.out)
    with open(f"{args.out}/results.json", "w", encoding="utf-8") as file:
        json.dump(as_json(run.book, machine, entrants, quick=args.quick), file, indent=1)
    text = as_markdown(run.book, machine, entrants, plots, quick=args.quick)
    with open(f"{args.out}/results.md", "w", encoding="utf-8") as file:
        file.write(text)
    print("\n".join([*plots, f"{args.out}/results.json", f"{args.out}/results.md"]))
    return 0


def _play(run: Run) -> None:
    """The short scenes first: a million tasks come last, and only if there is time."""
    backlogs = Backlogs(run)
    groups: dict[str, Callable[[], None]] = {
        "life": lambda: lives(run, "life"),
        "wake": lambda: wake(run),
        "crowd": lambda: crowd(run),
        "idle": lambda: idle(run),
        "runner": lambda: runner(run),
        "processor": lambda: processor(run),
        "oneshot": lambda: oneshot(run, backlogs),
        "batch": lambda: lives(run, "batch"),
        "power": lambda: lives(run, "power"),
        "backlog": lambda: backlog(run, backlogs),
        "looks": lambda: looks(run, backlogs),
    }
    for name, play in groups.items():
        if run.wants(name):
            try:
                play()
            except Exception as error:  # whatever it is, the other groups have their figures all the same
                run.book.left_out[name] = f"failed: {error}"


def _arguments(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks, and fewer rounds")
    parser.add_argument("--out", default=os.path.join(HERE, "results"), metavar="DIR", help="default: bench/results")
    parser.add_argument("--disk", default=HERE, metavar="DIR", help="a folder on the disk to measure (default: bench)")
    parser.add_argument("--only", default=[], type=_words, metavar="NAME,...", help=f"{', '.join(GROUPS)}; or peers")
    args = parser.parse_args()
    unknown = sorted(set(args.only) - {*GROUPS, *names})
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join((*GROUPS, *names))}")
    return args


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


if __name__ == "__main__":
    sys.exit(main())
