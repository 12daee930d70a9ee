"""Keeping the queue in order: `sweep` does what is due, `doctor` only looks."""

from __future__ import annotations

from taskpit.cli.context import Reply
from taskpit.cli.options import example
from taskpit.cli.output import paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from taskpit.cli.context import Context
    from taskpit.cli.table import Handlers
    from taskpit.store.port import Mend

__all__ = ["VERBS"]

#: Findings that mend themselves or are merely worth knowing; all others need a person.
HARMLESS = frozenset(("sweep will do", "late result"))
#: What each kind of finding means for whoever reads it.
ADVICE = {
    "sweep will do": "`pit sweep` does these",
    "late result": "results of superseded claims; the published ones stand",
    "quarantined": "set aside with the reason; look, mend, and put it back or leave it",
    "vanished": "somebody removed the file by hand; what was asked for is kept",
    "in two places": "look which of them is right; `pit sweep` sets copies aside",
    "stranger": "rename it to food-<id>-<slug>.md if it should be a task",
}


def _sweep_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Give back what was abandoned, carry out what a crash left undone, register what was made by hand, prune\n"
        "old logs. Anybody may run it at any time; workers that renew are never disturbed."
    )
    parser.epilog = example("pit sweep --dry-run", "pit sweep")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def _sweep(args: Namespace, context: Context) -> Reply:
    from taskpit.keeper import sweep
    from taskpit.worker.leftover import end_commands_of

    mends = sweep(context.queue, dry_run=args.dry_run, ended=end_commands_of)
    data = {"dry_run": args.dry_run, "did": [mend.as_dict() for mend in mends]}
    return Reply(data=data, text=lambda: _swept(mends, dry_run=args.dry_run))


def _swept(mends: Sequence[Mend], *, dry_run: bool) -> str:
    if not mends:
        return "nothing to do"
    lines = [
        f"{paint('bold', mend.kind)}  {mend.what}" + (f": {mend.details}" if mend.details else "") for mend in mends
    ]
    return "\n".join([*(["would do:"] if dry_run else []), *lines])


def _doctor_arguments(parser: ArgumentParser) -> None:
    parser.description = "Look for what is out of order; change nothing. Exits 1 when something needs a person."
    parser.epilog = example("pit doctor", "pit doctor --json")


def _doctor(_: Namespace, context: Context) -> Reply:
    store = context.queue.store
    findings, info = store.check(), store.info()
    urgent = [mend for mend in findings if mend.kind not in HARMLESS]
    data = {
        "clean": not findings,
        "needs_person": bool(urgent),
        "findings": [{**mend.as_dict(), "needs_person": mend.kind not in HARMLESS} for mend in findings],
        "queue": info.as_dict(),
    }
    place = f"{info.where}: layout {info.layout}, durability {info.durability}"
    return Reply(data=data, text=lambda: _diagnosis(place, findings), exit_code=1 if urgent else 0)


def _diagnosis(place: str, findings: Sequence[Mend]) -> str:
    lines = [place]
    for kind in dict.fromkeys(mend.kind for mend in findings):
        some = [mend for mend in findings if mend.kind == kind]
        colour = "yellow" if kind in HARMLESS else "red"
        advice = f": {ADVICE[kind]}" if kind in ADVICE else ""
        lines += ["", f"{paint(colour, f'{kind} ({len(some)})')}{advice}"]
        lines += [f"  {mend.what}" + (f"  {mend.details}" if mend.details else "") for mend in some]
    return "\n".join(lines if findings else [*lines, paint("green", "all is in order")])


VERBS: Handlers = {"sweep": (_sweep_arguments, _sweep), "doctor": (_doctor_arguments, _doctor)}
