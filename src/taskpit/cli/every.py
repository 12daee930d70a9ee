"""Recurring work: `every` makes a schedule, or shows those there are."""

from __future__ import annotations

import os

from taskpit.cli.add import ADD_ARGS, asked_for, tell_by
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import said_any
from taskpit.cli.output import table
from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.model import Said, State
from taskpit.queue import cards
from taskpit.schedule import CATCH_UP, facts, first_time, local_zone, next_run


@takes(
    arg("WHEN", "`mon-fri 07:00`, `every 15m`, `1st 03:00`, or cron's five fields", nargs="?"),
    arg("TITLE", "one line", nargs="?"),
    arg("--zone ZONE", "whose clock it goes by (default: this machine's), Europe/Berlin"),
    arg("--catch-up", "when no pool ran at its time: run once later (one), each, or not at all", choices=CATCH_UP),
    arg("--jitter 5m", "spread the runs over this long, so that not all begin at once"),
    *ADD_ARGS,
)
def _every(args: Args, context: Context) -> Reply:
    """Put a task into the queue again and again. A schedule is a task of its own that waits for its next time;
    any pool, crew or `pit sweep` that runs then puts in a new task, exactly once however many run.
    `pit edit ID` changes it, `pit block ID REASON` stops it for a while, `pit cancel ID` ends it.
    Without arguments: the schedules there are, and when they are due next.

    pit every 'mon-fri 07:00' 'Update the dependencies' --tag chores
    pit every '*/30 8-18 * * 1-5' 'Triage new issues' --zone Europe/Berlin --jitter 5m
    pit every
    """
    if args.when is None and not said_any(args, *vars(args).keys() - {"json", "directory"}):
        return _listed(context)
    if args.title is None:
        missing = "TITLE" if args.when else "WHEN and TITLE"
        raise Usage(f"missing: {missing}", hint="For example: `pit every 'mon-fri 07:00' 'Update the dependencies'`.")
    queue = context.queue
    given = {"every": args.when, "zone": args.zone or _zone(context), "catch-up": args.catch_up, "jitter": args.jitter}
    args.set = [*(args.set or ()), *(f"{key}={value}" for key, value in given.items() if value)]
    task = first_time(asked_for(args, context), queue.clock.now())
    if queue.store.info().layout == "activities":
        raise Invalid(
            "activities are numbered by their work item, so none can recur", hint="Use a queue of another layout."
        )
    task_id, said = queue.put([task])[0]
    tell_by(args, context, [(task_id, said)])
    data = {"id": task_id, "created": said is Said.CREATED, "next": iso(task.not_before)}
    return Reply(data=data, text=f"{task_id}  next {next_run(task, queue.clock.now())}")


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
    rows = [(task.id, str(task.extra["every"]), next_run(task, now), task.title) for task in found]
    hint = "There is no schedule. For example: pit every 'mon-fri 07:00' 'Update the dependencies'"
    text = table(("ID", "WHEN", "NEXT", "TITLE"), rows) if rows else hint
    return Reply(data=[facts(task) for task in found], text=text)
