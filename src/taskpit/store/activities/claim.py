"""Putting and taking: what enters a work item, and who gets an activity."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from taskpit import fs, rules, workers
from taskpit.clock import iso
from taskpit.errors import Conflict, Held, Invalid, Lost, NotFound, Unavailable
from taskpit.layouts import activities as names
from taskpit.layouts import progress
from taskpit.layouts.progress import Progress
from taskpit.model import Claim, Lock, Said, Task, Want, worker_type
from taskpit.store.activities.items import Items
from taskpit.store.activities.states import ActivityState, ActivityStates
from taskpit.store.flock import BoundedLock, Open
from taskpit.store.folder import GUARDS, IDS, TOUCHES
from taskpit.store.in_use import note_starts

# -- put -------------------------------------------------------------------------------------------


def allot(items: Items, parents: Sequence[str]) -> list[str]:
    """The next number under each parent; one that was given is not given again."""
    return [_next(items, parent) for parent in parents]


def _next(items: Items, parent: str) -> str:
    spot = names.place(parent) if parent else None
    if parent and (spot is None or spot.step):
        raise Invalid(f"nothing can be added under {parent!r}", hint="Name a work item or an activity.", id=parent)
    with BoundedLock(items.folder.at(f"{GUARDS}/next-{parent or 'WI'}")) as turn:
        text = os.pread(turn.fd, 32, 0).strip()
        number = max(int(text) if text.isdigit() else 1, _highest(items, parent) + 1)
        fs.overwrite(turn.fd, str(number + 1).encode(), turn.path)
    if not parent:
        return f"WI-{number:03d}"
    return f"{parent}-{'T' if spot and spot.activity else 'A'}{number}"


def _highest(items: Items, parent: str) -> int:
    """The highest number in use under a parent."""
    if not parent:
        known = (*items.folders(), *fs.names(items.folder.at(IDS)))
        return max((int(item[3:]) for item in known if names.item_of(item) == item), default=0)
    spot = names.place(parent)
    found = items.get(spot.item) if spot else None
    if spot is None or found is None:
        raise NotFound(f"there is no {parent}", hint="`pit list` shows what there is.", id=parent)
    if not spot.activity:
        return max((int(key.rpartition("-A")[2]) for key, _ in found.entries()), default=0)
    fields = found.entry(spot.activity)
    if fields is None:
        raise NotFound(
            f"there is no activity {parent}", hint=f"`pit status {spot.item}` shows its activities.", id=parent
        )
    ids = (key.rpartition("-T")[2] for key, _ in found.step_entries(spot.activity, fields))
    return max((int(number) for number in ids if number.isdecimal()), default=0)


def put(items: Items, task: Task, header: Mapping[str, Any] | None = None) -> Said:
    """A work item, an activity of one, or a step of that, as the id says; a new work item may have a header already."""
    items.folder.layout.check_id(task.id)
    spot = names.place(task.id)
    if spot is None or not spot.activity:
        return _put_item(items, task)
    return _put_step(items, task, spot) if spot.step else _put_activity(items, task, spot, header)


def _put_item(items: Items, task: Task, *inside: Task, header: Mapping[str, Any] | None = None) -> Said:
    by, now = task.by or "keeper", items.folder.clock.now()
    document = dict(header) if header else progress.begin(task, by, now)
    document["activities"] = [names.new(_inside(one, task.id)) for one in inside]
    if items.create(task.id, names.folder_name(task.id, task.title), document):
        for one in (task, *inside):
            _remember(items, one)
        items.tell("work_item_created", task.id, by, task.title)
        return Said.CREATED
    found = items.get(task.id)
    return _again(items, task, found.as_task() if found else None)


def _put_activity(items: Items, task: Task, spot: names.ActivityId, header: Mapping[str, Any] | None) -> Said:
    def add(found: Progress) -> Said:
        fields = found.entry(task.id)
        if fields is not None:
            raise _There(_again(items, task, found.activity(task.id, fields).task))
        found.add(names.new(_inside(task, spot.item)))
        found.settle(items.folder.clock.now())
        return Said.CREATED

    # The first thing that is asked of it names it, unless it has its header with it.
    title = progress.Progress(spot.item, header).title if header else task.title
    whole = Task(id=spot.item, title=title, by=task.by)
    if items.get(spot.item) is None and _put_item(items, whole, task, header=header) is Said.CREATED:
        items.tell("added_activity", task.id, task.by or "keeper", task.title)
        return Said.CREATED
    try:
        said = items.edit(spot.item, task.by or "keeper", add)
    except _There as there:
        return there.said
    _remember(items, task)
    items.tell("added_activity", task.id, task.by or "keeper", task.title)
    return said


def _put_step(items: Items, task: Task, spot: names.ActivityId) -> Said:
    def add(found: Progress) -> Said:
        known = found.step_entry(task.id)
        if known is not None:
            same = str(known[0].get("title")) == task.title
            raise _There(Said.EXISTS if same else Said.CONFLICT)
        fields = found.entry(spot.activity)
        if fields is None:
            raise NotFound(f"there is no activity {spot.activity}", id=spot.activity)
        if progress.status_of(fields) in progress.ENDED:
            raise Conflict(f"{spot.activity} is {fields['status']}; it takes no further task", id=spot.activity)
        step = {"id": task.id, "title": task.title, "status": "pending", "actor": "any", **task.extra}
        if task.body:
            step["description"] = task.body
        if task.needs:
            step["depends_on"] = list(task.needs)
        progress.append(fields, "tasks", step)
        return Said.CREATED

    _refuse_what_steps_lack(task)
    try:
        said = items.edit(spot.item, task.by or "keeper", add)
    except _There as there:
        return there.said
    items.tell("added_task", task.id, task.by or "keeper", task.title)
    return said


#: What a task inside an activity has; all else is its activity's.
OF_STEPS = frozenset(
    (
        *("id", "title", "body", "slug", "needs", "parent"),
        *("attempts", "last_error", "by", "created", "updated", "extra", "source"),
    )
)


def _refuse_what_steps_lack(task: Task) -> None:
    blank = Task(id=task.id, title=task.title)
    for name in Task.kinds():
        if name not in OF_STEPS and getattr(task, name) != getattr(blank, name):
            raise Invalid(
                f"a task inside an activity has no {name.replace('_', ' ')} of its own",
                hint="Give it to the activity.",
                id=task.id,
            )


class _There(Exception):
    """It is there already: leave the file as it is."""

    def __init__(self, said: Said) -> None:
        super().__init__(said)
        self.said = said


def _inside(task: Task, item: str) -> Task:
    """Belonging to its work item is what its id says; only another parent needs words."""
    return task.replace(parent="") if task.parent == item else task


def _remember(items: Items, task: Task) -> None:
    """What was asked for first, so that asking again can be told from asking for something else."""
    folder = items.folder
    try:
        fs.create(folder.of(IDS, task.id), folder.layout.dump(task), sync=False)
    except FileExistsError:
        return


def _again(items: Items, task: Task, now: Task | None) -> Said:
    """The id is known: with the same wish or another."""
    spot = names.place(task.id)
    first = items.folder.original(task.id) or now
    if first is None or spot is None:
        return Said.CONFLICT
    home = spot.parent
    wishes = [_inside(one, home).wish() for one in (first, task)]
    return Said.EXISTS if wishes[0] == wishes[1] else Said.CONFLICT


# -- claim -----------------------------------------------------------------------------------------


def claim(items: Items, want: Want) -> list[Claim]:
    """Up to as many as wanted, by priority and age, or these."""
    view = ActivityStates(items)
    kind = want.kind or worker_type(want.worker)
    taken: list[Claim] = []
    for standing in _candidates(view, want):
        if not standing.takeable or not rules.suits(standing.activity.task, want):
            continue
        reason = "" if want.even_held else view.held(standing, kind)
        if reason:
            if want.ids and not view.held(standing, "agent"):  # nobody else will say why
                raise Held(f"{standing.activity.id}: {reason}", id=standing.activity.id)
            continue
        try:
            got = _take(items, standing, want, kind)
        except (NotFound, FileNotFoundError):
            continue  # its folder has gone
        if got is not None:
            taken.append(got)
            if len(taken) == want.count:
                break
            view = ActivityStates(items) if standing.activity.task.touches or standing.activity.task.limits else view
    return taken


def _candidates(view: ActivityStates, want: Want) -> list[ActivityState]:
    standings = view.standings()
    if not want.ids:
        return sorted(standings.values(), key=lambda one: rules.order(one.activity.task))
    found: list[ActivityState] = []
    for task_id in want.ids:
        if task_id in standings:
            found.append(standings[task_id])
        elif (spot := names.place(task_id)) is not None and not spot.activity:  # a whole work item: its next
            inside = [one for key, one in standings.items() if key.startswith(f"{task_id}-A")]
            if inside and want.even_held:
                raise Conflict(f"{task_id} has activities", hint="Name one of them.", id=task_id)
            found += sorted(inside, key=lambda one: rules.order(one.activity.task))
    return found


def _take(items: Items, standing: ActivityState, want: Want, kind: str) -> Claim | None:
    """Try for one: in its turn, on what is there now; None if it can't be had."""
    task = standing.activity.task
    exclusive = bool(task.touches or task.limits) and not want.even_held
    alone = BoundedLock(items.folder.at(TOUCHES)) if exclusive else Open()
    try:
        if not (spot := names.place(task.id)) or not spot.activity:
            task = _first_activity(items, standing.item.item, want.worker)
        items.room_for_locks(standing.item.item)
        with alone, items.grip(task.id) as grip:
            view = ActivityStates(items)
            now = view.standings().get(task.id)
            if now is None or not now.takeable:
                return None
            if not want.even_held and view.held(now, kind):
                return None
            if exclusive:
                note_starts(items.folder, now.activity.task, view.use())
            lock = grip.acquire(_wanted(items, now, want, kind))
            try:
                return _have(items, now, want, kind, lock)
            except Exception:
                grip.let_go()  # it did not become ours: nobody must wait for its time to run out
                raise
    except (Lost, Unavailable):
        return None  # somebody was faster, or stands still in the middle; there are others


def _wanted(items: Items, now: ActivityState, want: Want, kind: str) -> Lock:
    fence = want.worker if want.verbatim else f"{want.worker}{workers.MARK}{want.call or fs.fresh_name()}"
    start = items.folder.clock.now()
    lock = Lock(name=now.activity.id, holder=fence, kind=kind, acquired=start, expires=start + max(want.lease, 1.0))
    last = now.seen.lock.task_id if now.seen else ""
    fit = [step for step in now.activity.steps if step.open and step.actor in ("any", kind)]
    begun = [step.id for step in fit if step.id == last] or [step.id for step in fit if step.status == "in_progress"]
    if not begun or want.even_held:
        return lock
    until = min(start + items.folder.config.task_lease_of(kind), lock.expires)  # go on where the last one stopped
    return lock.replace(task_id=begun[0], task_acquired=start, task_expires=until)


def _have(items: Items, now: ActivityState, want: Want, kind: str, lock: Lock) -> Claim:
    """The lock is ours: say so in the file and in the changelog."""
    task = now.activity.task
    got = Claim(
        task=task,
        worker=want.worker,
        fence=lock.holder,
        lease=want.lease,
        attempt=task.attempts + 1,
        since=items.folder.clock.now(),
    )
    if want.even_held:  # a person's change is told when it is made
        return got

    def begin(found: Progress) -> None:
        fields = _still(found, task.id)
        fields["status"] = "in_progress"
        fields["started_at"] = fields.get("started_at") or iso(items.folder.clock.now())
        if progress.status_of(found.head) in ("pending", "planning", "review", "completed"):
            found.head["status"] = "in_progress"

    items.edit(now.item.item, lock.holder, begin)
    action, details = _told(now, lock)
    items.tell(action, task.id, lock.holder, details, kind)
    return got


def _still(found: Progress, task_id: str) -> Any:
    """The entry, if nothing has come between since it was looked at: this is the last moment to see it."""
    fields = found.entry(task_id)
    if fields is None or progress.status_of(fields) in progress.ENDED or found.pivot() is not None:
        raise Lost(f"{task_id} is no longer to be had", id=task_id)
    if found.hold(task_id, fields):
        raise Lost(f"{task_id} has been blocked", id=task_id)
    return fields


def _told(now: ActivityState, lock: Lock) -> tuple[str, str]:
    """The changelog's word for this claim."""
    where = f"; resuming at {lock.task_id}" if lock.task_id else ""
    if now.seen is not None:
        return "recovered_activity", f"{now.over}{where}"
    if now.activity.status == "in_progress":
        return "recovered_activity", f"it was in progress and no worker held it{where}"
    if any(step.status in ("completed", "in_progress") for step in now.activity.steps):
        return "resumed_activity", where.removeprefix("; ")
    return "claimed_activity", ""


def _first_activity(items: Items, item: str, worker: str) -> Task:
    """A work item without activities is one piece of work: its first activity is all of it."""

    def add(found: Progress) -> Task:
        activities = found.activities()
        if activities:
            raise Lost(f"{item} has activities now", id=item)
        task = found.as_task().replace(id=f"{item}-A1")
        found.add(names.new(task))
        return task

    return items.edit(item, worker, add)
