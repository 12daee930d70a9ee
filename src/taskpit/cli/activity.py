"""What only work items have: `task` (the tasks inside an activity) and `pivot` (replanning)."""

from __future__ import annotations

from typing import Any

from taskpit import errors
from taskpit.cli.context import Args, Context, Reply, arg, takes
from taskpit.cli.options import AS, a_duration, words
from taskpit.cli.output import paint, terminal_width
from taskpit.clock import iso, say_duration
from taskpit.explain import reason_of
from taskpit.layouts.progress import Progress, Step
from taskpit.model import Card, State, worker_type
from taskpit.store.activities.items import Items
from taskpit.store.activities.states import ActivityState, ActivityStates
from taskpit.text import fit

# -- work items as a tree --------------------------------------------------------------------------

MARKS = {
    "completed": ("✓", "green"),
    "in_progress": ("→", "blue"),
    "awaiting_human": ("⌛", "yellow"),
    "blocked": ("■", "red"),
    "failed": ("✗", "red"),
    "cancelled": ("-", "dim"),
    "skipped": ("-", "dim"),
}


def facts(items: Items, only: str = "") -> list[dict[str, Any]]:
    """For programs: every work item with its activities and their tasks."""
    view, now = ActivityStates(items), items.folder.clock.now()
    found: list[dict[str, Any]] = []
    view.standings()
    for item, progress in items.all():
        if only and item != only:
            continue
        if not isinstance(progress, Progress):
            found.append({"id": item, "title": item, "status": "unreadable", "why": progress.message, "activities": []})
            continue
        inside = [_activity(view, one, now) for one in view.standings().values() if one.item.item == item]
        found.append(
            {
                "id": item,
                "title": progress.title,
                "status": progress.status,
                "pivot": (progress.pivot() or {}).get("reason"),
                "blockers": [str(one.get("id")) for one in progress.blockers()],
                "activities": [one for one in inside if one["id"] != item],
            }
        )
    return found


def _activity(view: ActivityStates, standing: ActivityState, now: float) -> dict[str, Any]:
    activity, card = standing.activity, view.brief(standing)
    status = activity.status
    if standing.state is State.CLAIMED and not standing.over:
        status = "in_progress"
    lock = standing.seen.lock if standing.seen else None
    return {
        "id": activity.id,
        "title": activity.task.title,
        "status": status,
        "actor": activity.actor,
        "held": card.held,
        "why": reason_of(card) if status == "failed" else "",
        "holder": card.worker or None,
        "holder_type": card.kind or None,
        "seconds_left": round(card.until - now) if card.worker else None,
        "expired": standing.over or None,
        "task": lock.task_id if lock else None,
        "task_expires": iso(lock.task_expires) if lock and lock.task_expires else None,
        "tasks": [_step(step) for step in activity.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "title": step.title,
        "status": step.status,
        "actor": step.actor,
        "completed_by": step.completed_by or None,
    }


def lines(found: list[dict[str, Any]]) -> list[str]:
    """For people."""
    shown: list[str] = []
    for item in found:
        done = sum(1 for one in item["activities"] if one["status"] == "completed")
        total = len(item["activities"])
        count = f"{done}/{total} activities" if total else "no activities yet"
        where = paint("dim", f"{count}, {item['status'].replace('_', ' ')}")
        shown += ["", f"{paint('bold', item['id'])}  {item['title']}  {where}"]
        if item.get("pivot"):
            shown.append(paint("yellow", f"  being replanned: {item['pivot']}"))
        if item.get("why"):
            shown.append(paint("red", f"  {item['why']}"))
        for activity in item["activities"]:
            shown.append(_row(activity, 2, _who(activity)))
            shown += [_row(step, 6, _doer(step, activity)) for step in activity["tasks"]]
    return shown


def _row(one: dict[str, Any], indent: int, text: str) -> str:
    mark, colour = MARKS.get(one["status"], ("○", ""))
    head = f"{' ' * indent}{mark} {one['id']}  {one['title']}"
    room = max(terminal_width() - len(head) - 2, 24)
    line = f"{' ' * indent}{paint(colour, mark) if colour else mark} {one['id']}  {one['title']}"
    return f"{line}  {paint('dim', fit(text, room))}" if text else line


def _who(activity: dict[str, Any]) -> str:
    if activity["expired"]:
        return f"abandoned: {activity['expired']}"
    if activity["holder"]:
        left = activity["seconds_left"]
        kind = f" ({activity['holder_type']})" if activity["holder_type"] else ""
        return f"{activity['holder']}{kind}, {say_duration(max(left, 0))} left"
    if activity["held"] or activity["why"]:
        return str(activity["held"] or activity["why"])
    return "may be taken" if activity["status"] in ("pending", "in_progress", "awaiting_human") else ""


def _doer(step: dict[str, Any], activity: dict[str, Any]) -> str:
    if step["status"] == "completed":
        return step["completed_by"] or ""
    if activity["task"] == step["id"]:
        return "being worked on"
    return {"human": "for a person", "agent": "for an agent"}.get(step["actor"], "")


# -- what only work items have ---------------------------------------------------------------------


#: How often a pivot looks whether the holders have let go, in seconds.
LOOK_AGAIN = 1.0


def work_items(context: Context) -> Items:
    """The work items of this queue; Invalid if it has none of the kind."""
    from taskpit.store.activities.store import ActivityStore

    store = context.queue.store
    if not isinstance(store, ActivityStore):
        raise errors.Invalid(
            f"this queue is a {store.info().layout}: it has no work items",
            hint="`pit init DIR --layout activities` makes a queue that has.",
        )
    return store.items


# -- task ------------------------------------------------------------------------------------------


@takes(
    arg("step", "what happens to it", choices=("start", "done", "wait")),
    arg("ID", "the task, such as WI-001-A1-T1"),
    AS,
    arg("--human", "a person does it"),
    arg("--notes TEXT", "what to remember of it", default=""),
    arg(
        "--lease 30m",
        "how long the task is yours (default: 30m, a person's 4h); never longer than the activity",
        type=a_duration,
        default=0.0,
    ),
)
def _task(args: Args, context: Context) -> Reply:
    """Move the tasks inside an activity. Only its holder may: `pit claim WI-001-A1` first.
    start: you are at it now, and the lock says so. done: it is completed. wait: a person must do it.
    If no worker holds the activity, `done` and `wait` take it for a moment; the last task done completes it.

    pit task start WI-001-A1-T1 --as agent-7
    pit task done WI-001-A1-T1 --as agent-7 --notes 'tests are green'
    pit task wait WI-001-A1-T2 --as agent-7
    pit task done WI-001-A1-T2 --as ann --human
    """
    from taskpit.store.activities import steps

    items, worker = work_items(context), context.worker(args)
    step_id = args.id.upper()
    if args.step == "start":
        lock = steps.start(items, step_id, worker, args.lease)
        given = int(lock.task_expires - lock.task_acquired)
        data: dict[str, object] = {
            "id": step_id,
            "worker": worker,
            "task_expires": iso(lock.task_expires),
            "expires": iso(lock.expires),
        }
        return Reply(data=data, text=f"{step_id} is yours for {say_duration(given)}")
    move = steps.finish if args.step == "done" else steps.await_human
    kind = "human" if args.human else worker_type(worker)
    state = move(items, step_id, worker, kind, args.notes)
    activity = step_id.rpartition("-T")[0]
    text = f"{step_id} is done" if args.step == "done" else f"{step_id} waits for a person"
    if state is State.DONE:
        text += f", and with it {activity}"
    elif state is State.CLAIMED and not _left(items, activity):
        text += f"; that was the last one: pit done {activity}"
    elif not _left(items, activity):
        text += f"; that was the last one, and {activity} has a check: pit claim {activity}, then pit done {activity}"
    return Reply(data={"id": step_id, "step": args.step, "activity": activity, "state": str(state)}, text=text)


def _left(items: Items, activity: str) -> bool:
    """Whether the activity has open tasks."""
    found = items.get(activity.rpartition("-A")[0])
    fields = found.entry(activity) if found else None
    return bool(found and fields is not None and any(step.open for step in found.steps(activity, fields)))


# -- pivot -----------------------------------------------------------------------------------------


@takes(
    arg("step", "begin or end it", choices=("start", "finish")),
    arg("WORK-ITEM", "such as WI-001", dest="id"),
    AS,
    arg("--reason TEXT", "why (start)", default=""),
    arg("--wait 30m", "wait so long for holders (start)", type=a_duration, default=0.0),
    arg("--ask", "ask holders to stop; they learn it when they renew (start)"),
    arg("--block", "block what is being worked on (start)"),
    arg("--redo ID", "completed work that is no longer valid (finish)", action="append"),
    arg("--drop ID", "what will not be done any more (finish)", action="append"),
    arg("--summary TEXT", "what came of it (finish)", default=""),
)
def _pivot(args: Args, context: Context) -> Reply:
    """Replan a work item. `start`: nothing of it is given out any more. If a worker holds a part of it,
    say what to do: --wait for them, --ask them to stop and wait, or --block their activities.
    `finish`: completed work is kept, except what --redo names; the rest is pending again; --drop cancels.

    pit pivot start WI-001 --reason 'GraphQL too, not only REST' --ask --wait 30m
    pit add 'Compare GraphQL schemas' --parent WI-001
    pit pivot finish WI-001 --redo WI-001-A2 --drop WI-001-A3
    """
    items, worker = work_items(context), context.worker(args)
    item = context.queue.resolve(args.id)
    if args.step == "start":
        return _start_pivot(args, context, items, item, worker)
    from taskpit.store.activities import pivot

    redo, drop = words(args.redo), words(args.drop)
    reset, kept = pivot.finish(items, item, worker, redo=redo, drop=drop, summary=args.summary)
    data = {"id": item, "reset": reset, "kept": kept, "dropped": list(drop)}
    lines = [
        f"{item} goes on",
        f"  kept: {', '.join(kept) or 'nothing'}",
        f"  pending again: {', '.join(reset) or 'nothing'}",
    ]
    return Reply(data=data, text="\n".join(lines + ([f"  dropped: {', '.join(drop)}"] if drop else [])))


def _start_pivot(args: Args, context: Context, items: Items, item: str, worker: str) -> Reply:
    from taskpit.store.activities import pivot

    if not args.reason.strip():
        raise errors.Invalid("say why with --reason", id=item)
    busy = pivot.live(items, item)
    if busy and not (args.wait or args.ask or args.block):
        raise errors.Lost(
            f"{item} is being worked on: {_holders(busy)}",
            hint="Choose: --wait 30m for them, --ask them to stop, or --block their activities.",
            id=item,
            holders={card.task.id: card.worker for card in busy},
        )
    pivot.start(items, item, worker, args.reason)
    if args.ask:
        pivot.ask_to_stop(items, busy)
    if args.wait:
        busy = _wait(context, items, item, args.wait)
    blocked = pivot.mark_blocked(items, item, busy, worker, args.reason) if busy and args.block else []
    data = {"id": item, "reason": args.reason, "still_held": [card.task.id for card in busy], "blockers": blocked}
    lines = [f"{item} is being replanned: nothing of it is given out until `pit pivot finish {item}`"]
    lines += [paint("yellow", f"  still at work: {_holders(busy)}")] if busy else []
    return Reply(data=data, text="\n".join(lines))


def _wait(context: Context, items: Items, item: str, seconds: float) -> list[Card]:
    """Those who still hold a part of it when the time is over."""
    from taskpit.store.activities import pivot

    clock = context.queue.clock
    deadline = clock.monotonic() + seconds
    while busy := pivot.live(items, item):
        left = deadline - clock.monotonic()
        if left <= 0:
            return busy
        clock.sleep(min(left, LOOK_AGAIN))
    return []


def _holders(busy: list[Card]) -> str:
    return ", ".join(f"{card.task.id} by {card.worker}" for card in busy)
