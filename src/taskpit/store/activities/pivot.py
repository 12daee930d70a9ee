"""Replanning a work item: while a pivot is under way nothing of it is given out; then what is left starts anew."""

from __future__ import annotations

from collections.abc import Sequence

from taskpit import fs
from taskpit.clock import iso
from taskpit.errors import Conflict, Invalid, NotFound
from taskpit.layouts import activities
from taskpit.layouts import activities as names
from taskpit.layouts.progress import ABANDONED, ENDED, Progress, append, clear, status_of
from taskpit.model import Card, State
from taskpit.store.activities.items import Items
from taskpit.store.activities.states import ActivityStates
from taskpit.store.disk_errors import verb
from taskpit.store.folder import STOPS


@verb
def live(items: Items, item: str) -> list[Card]:
    """Activities of the work item that somebody is working on."""
    view = ActivityStates(items)
    inside = (one for key, one in view.standings().items() if key.startswith(f"{item}-A"))
    return [view.brief(one) for one in inside if one.state is State.CLAIMED and not one.over]


@verb
def start(items: Items, item: str, worker: str, reason: str) -> None:
    """From now on nothing of this work item is given out. Who has a part of it keeps it."""

    def begin(found: Progress) -> None:
        running = found.pivot()
        if running is not None:
            told = f"{item} is being replanned already: {running.get('reason')}"
            raise Conflict(told, hint=f"`pit pivot finish {item}` ends that.", id=item)
        now = iso(items.folder.clock.now())
        pivot = {"started_at": now, "started_by": worker, "reason": reason, "finished_at": None}
        append(found.document, "pivots", pivot)

    items.edit(item, worker, begin)
    items.tell("pivot_started", item, worker, reason)


@verb
def ask_to_stop(items: Items, cards: Sequence[Card]) -> None:
    """Their holders learn it when they renew."""
    _stop(items, [card.task.id for card in cards])


def _stop(items: Items, ids: Sequence[str]) -> None:
    for task_id in ids:
        try:
            fs.create(items.plan_mark(task_id), b"", sync=False)
        except FileExistsError:
            continue


@verb
def mark_blocked(items: Items, item: str, cards: Sequence[Card], worker: str, reason: str) -> list[str]:
    """Each gets a blocker, so that it waits for a person once its holder lets go; their ids."""

    def block(found: Progress) -> list[str]:
        now = items.folder.clock.now()
        return [found.block(card.task.id, _words(reason), worker, now) for card in cards]

    ids = items.edit(item, worker, block)
    for card in cards:
        items.tell("blocked", card.task.id, worker, _words(reason))
    return ids


def _words(reason: object) -> str:
    """What a blocker of a pivot says: by it, the end of the pivot knows its own."""
    return f"pivot: {reason}"


@verb
def finish(
    items: Items, item: str, worker: str, *, redo: Sequence[str] = (), drop: Sequence[str] = (), summary: str = ""
) -> tuple[list[str], list[str]]:
    """The plan is new: completed work is kept, the rest is pending again. What was reset, what was kept.

    `redo` is completed work that is no longer valid; `drop` will not be done any more.
    """
    busy = [card.task.id for card in live(items, item)]
    _free_abandoned(items, item)

    def end(found: Progress) -> tuple[list[str], list[str], list[str]]:
        running = found.pivot()
        if running is None:
            raise Conflict(f"{item} is not being replanned", hint=f"`pit pivot start {item}` begins it.", id=item)
        _check(found, redo, drop)
        now, own = items.folder.clock.now(), _words(running.get("reason"))
        freed = [key for key, _ in found.entries() if found.unblock(key, "pivot", now, own)]
        reset, kept = _replan(found, redo, drop, busy)
        running["finished_at"] = iso(now)
        running["finished_by"] = worker
        if summary:
            running["summary"] = summary
        found.settle(now)
        return reset, kept, freed

    reset, kept, freed = items.edit(item, worker, end)
    told = summary or f"kept {', '.join(kept) or 'nothing'}; pending again: {', '.join(reset) or 'nothing'}"
    items.tell("pivot_completed", item, worker, told)
    for task_id in freed:
        items.tell("unblocked", task_id, worker, "pivot")
    for task_id in drop:
        spot = names.place(task_id)
        items.tell("cancelled_task" if spot and spot.step else "cancelled_activity", task_id, worker, "pivot")
    for task_id in {*reset, *drop} - set(busy):
        fs.remove(items.folder.of(STOPS, task_id))
        fs.remove(items.plan_mark(task_id))
    _stop(items, [task_id for task_id in drop if task_id in busy])
    return reset, kept


def _free_abandoned(items: Items, item: str) -> None:
    """What nobody works on any more is nobody's: whoever comes back to it later finds it gone."""
    for key, one in ActivityStates(items).standings().items():
        if key.startswith(f"{item}-A") and one.seen is not None and one.over:
            with items.grip(key) as grip:
                mine = grip.mine(one.seen.lock)
                if mine is not None and (seen := grip.look()) is not None and grip.over(seen):
                    grip.leave()


def _check(found: Progress, redo: Sequence[str], drop: Sequence[str]) -> None:
    """Whether all that is named is there, and named for one thing."""
    known = {key for key, _ in found.entries()}
    known |= {key for activity, one in found.entries() for key, _ in found.step_entries(activity, one)}
    for task_id in (*redo, *drop):
        if task_id not in known:
            raise NotFound(f"there is no {task_id} in {found.item}", id=task_id)
    if set(redo) & set(drop):
        raise Invalid("the same cannot be done again and dropped", ids=sorted(set(redo) & set(drop)))


def _replan(
    found: Progress, redo: Sequence[str], drop: Sequence[str], busy: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Every activity as it goes on: what was reset, what was kept."""
    reset, kept = [], []
    for activity_id, fields in found.entries():
        _renew_steps(found, activity_id, fields, redo, drop, going_on=activity_id in busy)
        if activity_id in drop:
            fields["status"] = ABANDONED
        elif status_of(fields) in ENDED and activity_id not in redo and not _redone(activity_id, redo):
            kept.append(activity_id)
        elif activity_id not in busy:
            _reset(found, activity_id, fields)
            reset.append(activity_id)
    return reset, kept


def _redone(activity_id: str, redo: Sequence[str]) -> bool:
    return any(task_id.startswith(f"{activity_id}-T") for task_id in redo)


def _renew_steps(
    found: Progress, activity_id: str, fields: object, redo: Sequence[str], drop: Sequence[str], *, going_on: bool
) -> None:
    """Steps that are open start anew unless somebody is at them; completed ones only if they are to be done again."""
    for step_id, step in found.step_entries(activity_id, fields):
        spot = names.place(step_id)
        if step_id in drop:
            step["status"] = "cancelled"
        elif (
            (status_of(step) not in ENDED and not going_on)
            or step_id in redo
            or (spot is not None and spot.activity in redo)
        ):
            step["status"] = "pending"
            clear(step, "completed_by", "completed_at")


def _reset(found: Progress, activity_id: str, fields: object) -> None:
    """It is as if nobody had begun it, but for what its steps have done; an old result is kept among its tries.

    What people have against it, or when it may begin, is no part of the plan.
    """
    if not isinstance(fields, dict):
        return
    if status_of(fields) != "blocked" or not found.hold(activity_id, {}):
        fields["status"] = "pending"
    old = activities.plain(fields.pop("result", None))
    if isinstance(old, dict):
        fields["superseded"] = [*(fields.get("superseded") or []), old]
    clear(fields, "completed_by", "completed_at", "started_at")
