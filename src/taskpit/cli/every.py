"""Recurring work: `every` makes a schedule, or shows those there are."""

from __future__ import annotations

import os

from taskpit.cli.add import add_options, asked_for
from taskpit.cli.context import Args, Context, Handlers, Parser, Reply, Usage
from taskpit.cli.options import example
from taskpit.cli.output import table
from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.queue import cards
from taskpit.schedule import CATCH_UP, facts, first_time, local_zone, told
from taskpit.task import Said, State


def _arguments(parser: Parser) -> None:
    parser.description = (
        "Put a task into the queue again and again. A schedule is a task of its own that waits for its next time;\n"
        "any pool, crew or `pit sweep` that runs then puts in a new task, exactly once however many run.\n"
        "`pit edit ID` changes it, `pit block ID REASON` stops it for a while, `pit cancel ID` ends it.\n"
        "Without arguments: the schedules there are, and when they are due next."
    )
    parser.epilog = example(
        "pit every 'mon-fri 07:00' 'Update the dependencies' --tag chores",
        "pit every '*/30 8-18 * * 1-5' 'Triage new issues' --zone Europe/Berlin --jitter 5m",
        "pit every",
    )
    text = "`mon-fri 07:00`, `every 15m`, `1st 03:00`, or cron's five fields"
    parser.add_argument("when", metavar="WHEN", nargs="?", help=text)
    parser.add_argument("title", metavar="TITLE", nargs="?", help="one line")
    parser.add_argument(
        "--zone", metavar="ZONE", help="whose clock it goes by (default: this machine's), Europe/Berlin"
    )
    parser.add_argument(
        "--catch-up", choices=CATCH_UP, help="when no pool ran at its time: run once later (one), each, or not at all"
    )
    parser.add_argument("--jitter", metavar="5m", help="spread the runs over this long, so that not all begin at once")
    add_options(parser)


def _every(args: Args, context: Context) -> Reply:
    if args.when is None:
        return _listed(context)
    if args.title is None:
        raise Usage("missing: TITLE", hint="For example: `pit every 'mon-fri 07:00' 'Update the dependencies'`.")
    queue = context.queue
    given = {"every": args.when, "zone": args.zone or _zone(context), "catch-up": args.catch_up, "jitter": args.jitter}
    args.set = [*(args.set or ()), *(f"{key}={value}" for key, value in given.items() if value)]
    task = first_time(asked_for(args, context), queue.clock.now())
    if queue.store.info().layout == "activities":
        raise Invalid(
            "activities are numbered by their work item, so none can recur", hint="Use a queue of another layout."
        )
    task_id, said = queue.put([task])[0]
    data = {"id": task_id, "created": said is Said.CREATED, "next": iso(task.not_before)}
    return Reply(data=data, text=f"{task_id}  next {told(task, queue.clock.now())}")


def _zone(context: Context) -> str:
    try:
        link = os.readlink("/etc/localtime")
    except OSError:
        link = ""
    return local_zone(context.env, link)


def _listed(context: Context) -> Reply:
    queue = context.queue
    found = [card.task for card in cards(queue.store, State.READY, tied=True) if "every" in card.task.extra]
    found.sort(key=lambda task: task.not_before)
    now = queue.clock.now()
    rows = [(task.id, str(task.extra["every"]), told(task, now), task.title) for task in found]
    hint = "There is no schedule. For example: pit every 'mon-fri 07:00' 'Update the dependencies'"
    text = table(("ID", "WHEN", "NEXT", "TITLE"), rows) if rows else hint
    return Reply(data=[facts(task) for task in found], text=text)


VERBS: Handlers = {"every": (_arguments, _every)}
