"""The tasks inside an activity: only whoever has the activity moves them. Each change is made in the lock's turn.

The task lock stands in the activity's lock file and never outlives it. A task that nobody's activity lock
covers can be finished by taking the activity for a moment: that is how people do their part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskpit import workers
from taskpit.clock import iso
from taskpit.errors import Conflict, Held, Lost, NotFound
from taskpit.explain import pause_hint
from taskpit.layouts import activities
from taskpit.layouts import activities as names
from taskpit.layouts.progress import ENDED, Progress, actor_of, people, status_of
from taskpit.model import Lock, Result, State, Verdict
from taskpit.store import folder_store
from taskpit.store.activities.items import Items
from taskpit.store.activities.states import ActivityStates
from taskpit.store.disk_errors import verb
from taskpit.store.locks import Grip

#: How long an activity is taken for one change.
MOMENT = 60.0


@verb
def start(items: Items, step_id: str, worker: str, lease: float = 0.0) -> Lock:
    """The holder is at this task now; the lock says so."""
    activity = _activity(step_id)
    with items.grip(activity) as grip:
        mine = _held(grip, activity, worker)
        now = items.folder.clock.now()

        def begin(found: Progress) -> None:
            step = _open_step(found, step_id)
            _fits(step, step_id, mine.kind)
            _needs_done(found, step_id)
            step["status"] = "in_progress"

        items.edit(_item(step_id), worker, begin)
        until = min(now + (lease or items.folder.config.task_lease_of(mine.kind)), mine.expires)
        lock = mine.replace(task_id=step_id, task_acquired=float(int(now)), task_expires=until)
        grip.rewrite(lock)
    items.tell("started_task", step_id, worker, "", mine.kind)
    return lock


@verb
def finish(items: Items, step_id: str, worker: str, kind: str, notes: str = "") -> State:
    """The task is done; where its activity is now. Whoever does the last one of nobody's activity completes it."""

    def complete(found: Progress, kind: str) -> None:
        step = _open_step(found, step_id)
        _fits(step, step_id, kind)
        _needs_done(found, step_id)
        step["status"] = "completed"
        step["completed_by"] = workers.base(worker)
        step["completed_at"] = iso(items.folder.clock.now())
        if notes:
            step["notes"] = notes

    return _change(items, step_id, worker, kind, complete, "completed_task", notes, gates=True)


@verb
def await_human(items: Items, step_id: str, worker: str, kind: str, notes: str = "") -> State:
    """A person must do this one; what does not need it goes on."""

    def wait(found: Progress, _: str) -> None:
        step = _open_step(found, step_id)
        step["status"] = "awaiting_human"
        step["actor"] = "human"
        if notes:
            step["notes"] = notes

    return _change(items, step_id, worker, kind, wait, "awaiting_human", notes)


def _change(
    items: Items,
    step_id: str,
    worker: str,
    kind: str,
    change: Callable[[Progress, str], None],
    action: str,
    notes: str,
    *,
    gates: bool = False,
) -> State:
    """`gates`: whoever does not hold the activity passes all that a claim of it would have to."""
    activity = _activity(step_id)
    items.room_for_locks(_item(step_id))
    with items.grip(activity) as grip:
        seen = grip.look()
        ours = seen is not None and seen.lock.holder == worker
        if ours:
            mine, passing = _held(grip, activity, worker), False
        else:
            if gates:
                _refuse_held(items, activity, kind)
            mine, passing = _for_a_moment(items, grip, activity, worker, kind), True
        now = items.folder.clock.now()

        def edit(found: Progress) -> bool:
            change(found, mine.kind or kind)
            return passing and _ended(found, activity, worker, now)

        try:
            ended = items.edit(_item(step_id), worker, edit)
        finally:
            if passing:
                grip.let_go()
        if ours and mine.task_id == step_id:
            grip.rewrite(mine.replace(task_id="", task_acquired=0.0, task_expires=0.0))
    items.tell(action, step_id, worker, notes, mine.kind)
    if ended:
        items.tell("completed_activity", activity, worker, "All tasks complete", mine.kind)
    return State.DONE if ended else State.CLAIMED if ours else State.READY


def _ended(found: Progress, activity_id: str, worker: str, now: float) -> bool:
    """Whether that was the last of an activity nobody else has: then it is completed."""
    fields = found.entry(activity_id)
    if fields is None:
        return False
    steps = [status_of(step) for _, step in found.step_entries(activity_id, fields)]
    if any(status not in ENDED for status in steps):
        if status_of(fields) in ("in_progress", "awaiting_human"):
            fields["status"] = "awaiting_human" if "awaiting_human" in steps else "pending"
        return False
    if found.activity(activity_id, fields).task.check:
        fields["status"] = "pending"  # its check decides: whoever claims it and says done has it run
        return False
    by, told = workers.base(worker), "All tasks complete"
    fields.update(status="completed", completed_by=by, completed_at=iso(now))
    attempt = found.activity(activity_id, fields).task.attempts + 1
    result = Result(id=activity_id, verdict=Verdict.DONE, worker=worker, attempt=attempt, reason=told, finished=now)
    fields["result"] = activities.spell_result(result, "")
    found.settle(now)
    return True


def _activity(step_id: str) -> str:
    spot = names.place(step_id)
    if spot is None or not spot.step:
        raise NotFound(f"{step_id} is no task of an activity", hint="They are called WI-001-A1-T1.", id=step_id)
    return spot.activity


def _item(step_id: str) -> str:
    spot = names.place(step_id)
    return spot.item if spot else ""


def _held(grip: Grip, activity: str, worker: str) -> Lock:
    """The lock, if it is this worker's; Lost says who has it."""
    mine = grip.mine(Lock(name=activity, holder=worker))
    if mine is None:
        seen = grip.look()
        if seen is not None and not grip.over(seen):
            raise grip.refusal(seen)
        raise Lost(f"{activity} is not yours", hint=f"`pit claim {activity} --as {worker}` takes it.", id=activity)
    return mine


def _refuse_held(items: Items, activity: str, kind: str) -> None:
    """Held, if a claim of the activity would be refused: paused, blocked, its needs not done, for another kind."""
    paused = folder_store.paused(items.folder)
    if paused:
        raise Held(f"{activity}: the queue is {paused}", hint=pause_hint(paused), id=activity)
    view = ActivityStates(items)
    standing = view.standings().get(activity)
    reason = view.barred(standing) if standing is not None else ""
    if standing is not None and not reason and standing.activity.actor not in ("any", kind):
        reason = f"only {people(standing.activity.actor)} may do it"
    if reason:
        raise Held(f"{activity}: {reason}", hint=f"`pit why {activity}` tells more.", id=activity)


def _for_a_moment(items: Items, grip: Grip, activity: str, worker: str, kind: str) -> Lock:
    now = items.folder.clock.now()
    return grip.acquire(Lock(name=activity, holder=worker, kind=kind, acquired=now, expires=now + MOMENT))


def _open_step(found: Progress, step_id: str) -> Any:
    """The step, if there is something left to do about it."""
    known = found.step_entry(step_id)
    if known is None:
        raise NotFound(
            f"there is no task {step_id}", hint=f"`pit status {found.item}` shows what there is.", id=step_id
        )
    step, fields = known
    if status_of(fields) in ENDED:
        raise Conflict(f"{step_id}: its activity is {status_of(fields)} already", id=step_id)
    if status_of(step) in ENDED:
        raise Conflict(f"{step_id} is {status_of(step)} already", id=step_id)
    return step


def _fits(step: Any, step_id: str, kind: str) -> None:
    """Whether this kind of worker may do it."""
    actor = actor_of(step)
    if actor not in ("any", kind):
        hint = f"`pit task wait {step_id}` leaves it to them; a person says --human." if actor == "human" else ""
        raise Held(f"{step_id} is for {people(actor)}", hint=hint, id=step_id)


def _needs_done(found: Progress, step_id: str) -> None:
    spot = names.place(step_id)
    fields = found.entry(spot.activity) if spot else None
    steps = {step.id: step for step in found.steps(spot.activity, fields)} if spot and fields is not None else {}
    for need in steps[step_id].needs if step_id in steps else ():
        if need not in steps or steps[need].open:
            raise Held(f"{step_id} needs {need}, which is not completed", id=step_id)
