"""Keeping the queue in order: `sweep` does what is due; `doctor` looks, and with `--fix` puts right; `archive`."""

from __future__ import annotations

from collections import Counter

from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import example, refusal
from taskpit.cli.output import paint
from taskpit.cli.progress import Progress
from taskpit.clock import duration
from taskpit.errors import Invalid, TaskpitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from taskpit.cli.context import Context
    from taskpit.cli.system import Finding
    from taskpit.cli.verbs import Handlers
    from taskpit.store.port import Mend

__all__ = ["VERBS"]

#: Findings that mend themselves or are merely worth knowing; all others need a person.
HARMLESS = frozenset(("sweep will do", "late result", "unregistered", "torn", "not published", "kept clone"))
#: What each kind of finding means for whoever reads it.
ADVICE = {
    "sweep will do": "`pit sweep` does these",
    "late result": "results that came too late, or that `pit retry` took back; the published ones stand",
    "quarantined": "set aside with the reason; look, mend, and put it back or leave it",
    "vanished": "the file was removed by hand; the task's text is kept, and --fix puts it back",
    "in two places": "look which of them is right; `pit sweep` sets copies aside, --fix second names of one file",
    "stranger": "rename it to food-<id>-<slug>.md if it should be a task; --fix sets it aside",
    "foreign": "nothing of the queue's own; --fix sets it aside",
    "result gone": "the result was removed by hand; --fix puts the kept copy back in its place",
    "edited result": "look who wrote there, and what it should be; --fix accepts it as it stands, and logs that",
    "unregistered": "--fix makes its id known again",
    "torn": "a writer was killed; --fix ends the line",
    "not readable": "--fix gives you back the right to",
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
    from taskpit.worker.run_directory import end_commands_of

    with Progress(context, "sweeping", turns=True):
        mends = sweep(context.queue, dry_run=args.dry_run, closely=True, ended=end_commands_of)
        if not args.dry_run:
            mends = [*mends, *_publish(context), *_pulls(context), *_pruned(context)]
    data = {"dry_run": args.dry_run, "did": [mend.as_dict() for mend in mends]}
    return Reply(data=data, text=lambda: _swept(mends, dry_run=args.dry_run))


def _publish(context: Context) -> list[Mend]:
    """Branches follow what landed on them, where nothing is in the way; what is, is told."""
    from taskpit.landing.review import pipes
    from taskpit.store.port import Mend

    did = []
    for pipe in pipes(context.queue):
        try:
            before = set(pipe.repository.unpublished())
            for line in pipe.publish():
                context.warn(line)
            moved = before - set(pipe.repository.unpublished())
        except (TaskpitError, OSError) as error:
            context.warn(f"what landed in {pipe.repository.top} cannot be brought to its branch: {error}")
            continue
        did += [Mend(kind="published", what=name, details="your branch has what landed") for name in sorted(moved)]
    return did


def _pulls(context: Context) -> list[Mend]:
    """Pull requests that were merged, closed or answered have their consequences."""
    from taskpit import workers
    from taskpit.landing.lander import Lander
    from taskpit.landing.review import pipes
    from taskpit.store.port import Mend
    from taskpit.worker.landing_thread import ByHand

    did = []
    worker = workers.default_worker(context.token_name())
    for pipe in pipes(context.queue):
        lander = Lander(context.queue, pipe, worker, ByHand(context.warn))
        try:
            ended = lander.look()
        except (TaskpitError, OSError) as error:
            context.warn(f"pull requests could not be looked at: {error}")
            continue
        did += [Mend(kind="pull request", what=claim.task.id, details=end.details) for claim, end in ended]
    return did


def _pruned(context: Context) -> list[Mend]:
    """Candidates that nobody looks at any more are gone."""
    from taskpit.landing.review import prune
    from taskpit.store.port import Mend

    try:
        found = prune(context.queue)
    except (TaskpitError, OSError) as error:
        context.warn(f"old candidates could not be pruned: {error}")
        return []
    return [Mend(kind="pruned", what=one, details="its candidate; what landed stays") for one in found]


def _unlanded(context: Context) -> list[Mend]:
    """What of this queue's work is not where a person looks for it."""
    from taskpit.landing.review import standing
    from taskpit.store.port import Mend

    found = standing(context.queue)
    behind = [Mend(kind="repository gone", what="git", details=line) for line in found.stranded]
    behind += [Mend(kind="not published", what="git", details=line) for line in found.behind]
    return [*behind, *(Mend(kind="kept clone", what=path, details="its task is over") for path in found.kept)]


def _swept(mends: Sequence[Mend], *, dry_run: bool) -> str:
    if not mends:
        return "nothing to do"
    lines = [
        f"{paint('bold', mend.kind)}  {mend.what}" + (f": {mend.details}" if mend.details else "") for mend in mends
    ]
    return "\n".join([*(["would do:"] if dry_run else []), *lines])


def _doctor_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Look for what is out of order; change nothing. Exits 1 when something needs a person.\n"
        "With --fix, put right what can be: all that a sweep mends, and what needs your word, such as a task whose\n"
        "file is gone. Nothing is deleted; what is in the way is set aside with its reason. Workers may go on."
    )
    parser.epilog = example(
        "pit doctor", "pit doctor --fix --dry-run", "pit doctor --fix", "pit doctor --system --json"
    )
    parser.add_argument("--fix", action="store_true", help="put right what can be, then look")
    parser.add_argument("--dry-run", action="store_true", help="with --fix: only say what would be done")
    parser.add_argument("--system", action="store_true", help="instead: what works on this machine, for bug reports")


def _doctor(args: Namespace, context: Context) -> Reply:
    if args.dry_run and not args.fix:
        raise Usage("--dry-run goes with --fix", hint="Without --fix nothing is changed anyway.")
    if args.system:
        return _system(args, context)
    act = args.fix and not args.dry_run
    lost = _refound(context, dry_run=not act)
    if lost and not act:
        data = {"clean": False, "needs_person": True, "findings": _findings(lost), "queue": None}
        return Reply(data=data, text=lambda: _diagnosis(context.find(), lost), exit_code=1)
    did = [*lost, *(_fix(context, dry_run=args.dry_run) if args.fix else [])]
    store = context.queue.store
    with Progress(context, "looking", turns=True):
        findings, info = [*store.check(), *_unlanded(context)], store.info()
    urgent = [mend for mend in findings if mend.kind not in HARMLESS]
    data = {
        "clean": not findings,
        "needs_person": bool(urgent),
        "findings": _findings(findings),
        "queue": info.as_dict(),
    }
    if args.fix:
        data |= {"dry_run": args.dry_run, "did": [mend.as_dict() for mend in did]}
    place = "\n".join((f"{info.where}: layout {info.layout}, durability {info.durability}", *info.warnings))

    def text() -> str:
        told = [_swept(did, dry_run=args.dry_run), ""] if args.fix else []
        return "\n".join([*told, _diagnosis(place, findings)])

    return Reply(data=data, text=text, exit_code=1 if urgent else 0)


def _system(args: Namespace, context: Context) -> Reply:
    """What this machine can do, where the queue is or would be."""
    if args.fix:
        raise Usage("--system looks at the machine; --fix at the queue", hint="Say one of them.")
    from taskpit.cli.bench import place_of
    from taskpit.cli.system import survey

    found = survey(place_of(context))
    works = all(finding.works is not False for finding in found)
    return Reply(
        data={"works": works, "findings": [finding.as_dict() for finding in found]},
        text=lambda: _surveyed(found),
        exit_code=0 if works else 1,
    )


def _surveyed(found: Sequence[Finding]) -> str:
    width = max(len(finding.name) for finding in found)
    lines = []
    for finding in found:
        colour = {True: "", None: "yellow", False: "red"}[finding.works]
        told = paint(colour, finding.told) if colour else finding.told
        lines.append(f"{finding.name:<{width}}  {told}" + (f"  ({finding.hint})" if finding.hint else ""))
    return "\n".join(lines)


def _refound(context: Context, *, dry_run: bool) -> list[Mend]:
    """What says that the folder is a queue: without it nothing can be opened."""
    from taskpit.store.readopt import refound

    return refound(context.find(), dry_run=dry_run)


def _fix(context: Context, *, dry_run: bool) -> list[Mend]:
    from taskpit.keeper import fix
    from taskpit.worker.run_directory import end_commands_of

    with Progress(context, "mending", turns=True):
        return fix(context.queue, dry_run=dry_run, ended=end_commands_of)


def _findings(found: Sequence[Mend]) -> list[dict[str, object]]:
    return [{**mend.as_dict(), "needs_person": mend.kind not in HARMLESS} for mend in found]


def _diagnosis(place: str, findings: Sequence[Mend]) -> str:
    lines = [place]
    for kind in dict.fromkeys(mend.kind for mend in findings):
        some = [mend for mend in findings if mend.kind == kind]
        colour = "yellow" if kind in HARMLESS else "red"
        advice = f": {ADVICE[kind]}" if kind in ADVICE else ""
        lines += ["", f"{paint(colour, f'{kind} ({len(some)})')}{advice}"]
        lines += [f"  {mend.what}" + (f"  {mend.details}" if mend.details else "") for mend in some]
    return "\n".join(lines if findings else [*lines, paint("green", "all is in order")])


# -- archive ---------------------------------------------------------------------------------------


def _archive_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Old results leave their place for a folder of their month in .taskpit/archive. Nothing is copied or deleted,\n"
        "and everything still finds them: show, search, needs, export, doctor."
    )
    parser.epilog = example("pit archive --dry-run", "pit archive --older 90d")
    told = "results published longer ago than this (default: 30d)"
    parser.add_argument("--older", type=_an_age, default=30 * 86400.0, metavar="AGE", help=told)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def _an_age(text: str) -> float:
    """A duration; none at all is one, too."""
    try:
        return duration(text)
    except ValueError as error:
        raise refusal(str(error)) from None


def _archive(args: Namespace, context: Context) -> Reply:
    from taskpit.store.files import FileStore

    store = context.queue.store
    if not isinstance(store, FileStore):
        raise Invalid(f"a queue of layout {store.info().layout} keeps its results where they are")
    mends = store.archive(args.older, dry_run=args.dry_run)
    data = {"dry_run": args.dry_run, "did": [mend.as_dict() for mend in mends]}
    return Reply(data=data, text=lambda: _put_away(mends, dry_run=args.dry_run))


def _put_away(mends: Sequence[Mend], *, dry_run: bool) -> str:
    """How many went where."""
    if not mends:
        return "nothing to archive"
    months = Counter(mend.details.rpartition("/")[0] for mend in mends)
    told = "would go to" if dry_run else "now in"
    return "\n".join(f"{count} result{'s' * (count > 1)} {told} {month}" for month, count in sorted(months.items()))


VERBS: Handlers = {
    "sweep": (_sweep_arguments, _sweep),
    "doctor": (_doctor_arguments, _doctor),
    "archive": (_archive_arguments, _archive),
}
