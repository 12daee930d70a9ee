"""How a claim on an activity ends: one rename of `progress.yaml`, made while the lock is known to be ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from taskpit import fs, workers
from taskpit.clock import iso
from taskpit.errors import Invalid, Lost, Unavailable
from taskpit.ids import path_of
from taskpit.layouts import activities
from taskpit.layouts import activities as names
from taskpit.layouts.progress import ABANDONED, ENDED, Progress, Step, clear, status_of
from taskpit.model import SPLIT_FROM, Claim, End, Lock, Result, Said, Task, Try, Verdict
from taskpit.store.activities.items import Items, UnreadableItem
from taskpit.store.folder import LATE, STOPS

STATUS = {Verdict.DONE: "completed", Verdict.FAILED: ABANDONED, Verdict.CANCELLED: ABANDONED}


def _ending(verdict: Verdict) -> str:
    return "completed" if verdict is Verdict.DONE else str(verdict)


def renew(items: Items, task_id: str, fence: str, lease: float) -> Said:
    """The lock lasts another lease; a task lock never outlives it."""
    now = items.folder.clock.now()
    with items.grip(task_id) as grip:
        mine = grip.mine(Lock(name=task_id, holder=fence))
        if mine is None:
            return Said.LOST
        expires = now + max(lease, 1.0)
        try:
            grip.rewrite(mine.replace(expires=expires, task_expires=min(mine.task_expires, expires)))
        except Lost:
            return Said.LOST
    return Said.CANCEL if items.is_called_off(task_id) or fs.exists(items.plan_mark(task_id)) else Said.OK


def finish(items: Items, end: End) -> Said:
    """The claim has ended; LOST if it was not this claim's any more, and then its result is kept aside."""
    task_id, fence = end.claim.task.id, end.claim.fence
    spot = names.place(task_id)
    if spot is None or _found(items, spot.item) is None:
        return Said.LOST
    with items.grip(task_id) as grip:
        mine = grip.mine(Lock(name=task_id, holder=fence))
        if mine is not None:
            try:
                action = _edited(items, spot.item, end, mine)
            except _Over:
                action = ""
            fs.remove(items.plan_mark(task_id))  # whoever has it next works by the new plan
            grip.leave()
    if mine is not None and action:
        _tell(items, end, action, mine)
        return Said.OK
    found = _found(items, spot.item)
    if found is not None and _ended_so(found, end):
        return Said.ALREADY
    if end.result is not None:
        kept = _set_aside(items, task_id, end.result)
        items.tell("late_result", task_id, fence, f"kept in {kept}")
    return Said.LOST


def _found(items: Items, item: str) -> Progress | None:
    """The work item. What cannot be read now may be read again soon, and a claim must be able to end."""
    try:
        return items.get(item)
    except UnreadableItem as error:
        raise Unavailable(f"{error.message}; nothing happened", hint=error.hint, id=item) from None


class _Over(Exception):
    """A person, or a new plan, ended it while it was being worked on: that stands."""


def _edited(items: Items, item: str, end: End, mine: Lock) -> str:
    """The file says how it ended; the changelog's word for it."""
    output = _publish(items, item, end.claim.task.id, end.result)
    try:
        return items.edit(item, end.claim.fence, lambda now: _carry_out(items, now, end, output, mine.kind))
    except Exception as error:
        if output:
            fs.remove(items.folder.at(items.path(item, output)))
        if isinstance(error, UnreadableItem):
            raise Unavailable(f"{error.message}; nothing happened", hint=error.hint, id=item) from None
        raise


def _tell(items: Items, end: End, action: str, mine: Lock) -> None:
    task_id, fence = end.claim.task.id, end.claim.fence
    if end.result is not None:  # that it is called off outlives a claim that merely ends
        fs.remove(items.folder.of(STOPS, task_id))
    items.tell(action, task_id, fence, end.details, mine.kind)
    for child in end.children:
        items.tell("added_activity", child.id, fence, f"{SPLIT_FROM}{task_id}", mine.kind)


def _ended_so(found: Progress, end: End) -> bool:
    """Whether this very claim has ended this way before."""
    fields = found.entry(end.claim.task.id) or {}
    verdict = ENDED.get(status_of(fields))
    if end.result is None or verdict is not end.result.verdict:
        return False
    return activities.load_result(end.claim.task.id, fields, verdict).worker == end.claim.fence


def _publish(items: Items, item: str, task_id: str, result: Result | None) -> str:
    """What the worker said lies among the deliverables, under a name of its own; where."""
    if result is None or not result.output.strip():
        return ""
    folder = items.folder
    for number in range(1, 1000):
        name = path_of(names.DELIVERABLES, task_id, f"-{number}.md" if number > 1 else ".md")
        path = folder.at(items.path(item, name))
        fs.make_dir(path.rpartition("/")[0])
        scratch = folder.tmp(task_id, fs.fresh_name(), "output")
        fs.create(scratch, result.output.encode("utf-8", "replace"), sync=folder.durable)
        linked = fs.link(scratch, path)
        fs.remove(scratch)
        if linked:
            folder.sync(items.path(item, names.DELIVERABLES))
            return name
    raise Invalid(f"{item} has a thousand deliverables of {task_id} already", id=task_id)


def _set_aside(items: Items, task_id: str, result: Result) -> str:
    """A result that came too late, where nobody takes it for the one."""
    path = path_of(LATE, task_id, f"~{fs.fresh_name()}")
    fields = {**activities.spell_result(result, ""), "output": result.output}
    fs.create(items.folder.at(path), json.dumps(fields, indent=2).encode() + b"\n", sync=items.folder.durable)
    return path


def _carry_out(items: Items, found: Progress, end: End, output: str, kind: str) -> str:
    """All that the end says, in the document; the changelog's word for it."""
    task, fence, now = end.claim.task, end.claim.fence, items.folder.clock.now()
    fields = found.entry(task.id)
    if fields is None or status_of(fields) in ENDED:
        raise _Over
    if end.attempt is not None:
        _count(fields, end.attempt)
    for child in end.children:
        _add_child(found, child)
    if end.result is not None:
        if end.task is not None:
            _go_back(found, fields, task, end.task, fence, now)
        done = end.result.verdict is Verdict.DONE
        left = _left_to_people(list(found.steps(task.id, fields))) if done and kind != "human" else {}
        if left:
            return _wait_for_people(found, fields, end, output, now, left)
        _end_for_good(found, fields, end.result, output, end.claim, now)
        return _word(end)
    after = end.task or task
    if end.delay:
        after = after.replace(not_before=now + end.delay)
    _go_back(found, fields, task, after, fence, now)
    return _word(end)


def _count(fields: Any, attempt: Try) -> None:
    """One try more; an end that is told twice is counted once."""
    one = {**attempt.as_dict(), "evidence": attempt.evidence.as_dict() if attempt.evidence else None}
    told = {key: value for key, value in one.items() if value}
    known = entry_list(fields, "tries")
    if told not in known:
        fields["tries"] = [*known, told]


def _add_child(found: Progress, child: Task) -> None:
    spot = names.place(child.id)
    if spot is None or spot.item != found.item or spot.activity != child.id:
        raise Invalid(f"{child.id} is no activity of {found.item}", hint="Leave out the ids of children.", id=child.id)
    if found.entry(child.id) is None:
        found.add(activities.new(child.replace(parent="") if child.parent == found.item else child))


def entry_list(fields: Any, word: str) -> list[Any]:
    """A list in an entry, if it is one."""
    found = fields.get(word)
    return list(found) if isinstance(found, list) else []


def _word(end: End) -> str:
    """What happened, in the words of activities."""
    action = end.action or (f"{_ending(end.result.verdict)}_task" if end.result else "released_task")
    return f"{action.removesuffix('_task')}_activity" if action.endswith("_task") else action


def _end_for_good(found: Progress, fields: Any, result: Result, output: str, claim: Claim, now: float) -> None:
    fields["status"] = STATUS[result.verdict]
    if result.verdict is Verdict.DONE:
        by = workers.base(claim.fence)
        fields["completed_by"] = by
        fields["completed_at"] = iso(result.finished or now)
        for _, step in found.step_entries(claim.task.id, fields):
            if status_of(step) not in ENDED:
                step.update(status="completed", completed_by=by, completed_at=iso(now))
    fields["result"] = activities.spell_result(result, output)
    if output:
        fields["deliverables"] = [*entry_list(fields, "deliverables"), output]
    fields.pop("not_before", None)
    found.settle(now)


def _left_to_people(steps: Sequence[Step]) -> dict[str, bool]:
    """Open tasks that no agent may do, and those that need one of them, directly or not; whether it is a person's."""
    left = {step.id: True for step in steps if step.open and step.actor not in ("any", "agent")}
    while True:
        more = {
            step.id: False
            for step in steps
            if step.open and step.id not in left and not left.keys().isdisjoint(step.needs)
        }
        if not more:
            return left
        left |= more


def _wait_for_people(found: Progress, fields: Any, end: End, output: str, now: float, left: Mapping[str, bool]) -> str:
    """An agent has done what agents may now; people's tasks are left, and what comes after them is nobody's yet."""
    by = workers.base(end.claim.fence)
    for step_id, step in found.step_entries(end.claim.task.id, fields):
        if left.get(step_id):
            step["status"] = "awaiting_human"
        elif step_id not in left and status_of(step) not in ENDED:
            step.update(status="completed", completed_by=by, completed_at=iso(now))
    fields["status"] = "awaiting_human"
    if output:
        fields["deliverables"] = [*entry_list(fields, "deliverables"), output]
    return "awaiting_human"


def _go_back(found: Progress, fields: Any, before: Task, after: Task, fence: str, now: float) -> None:
    """It can be taken again. Only what its worker changed is changed: others may have been at it meanwhile."""
    told = after.hold != before.hold
    if told:
        found.unblock(before.id, f"by {workers.base(fence)}", now)
        fields.pop("hold", None)
        if after.hold:
            found.block(before.id, after.hold, workers.base(fence), now)
    parent = after.parent if after.parent not in ("", found.item) else ""
    mine = before.parent if before.parent not in ("", found.item) else ""
    activities.change(fields, before.replace(hold="", parent=mine), after.replace(hold="", parent=parent))
    waiting = any(status_of(step) == "awaiting_human" for _, step in found.step_entries(before.id, fields))
    blocked = found.hold(before.id, {} if told else fields)
    status = "blocked" if blocked else "awaiting_human" if waiting else "pending"
    if status_of(fields) != status:  # people may have another word for it
        fields["status"] = status


def reopen(items: Items, task: Task) -> Said:
    """A failed activity can be taken again; its result goes to the late ones."""
    spot = names.place(task.id)
    found = items.get(spot.item) if spot else None
    fields = found.entry(task.id) if found else None
    if spot is None or fields is None or ENDED.get(status_of(fields)) not in (Verdict.FAILED, Verdict.CANCELLED):
        return Said.LOST

    def back(now: Progress) -> Said:
        fields = now.entry(task.id)
        verdict = ENDED.get(status_of(fields)) if fields is not None else None
        if fields is None or verdict not in (Verdict.FAILED, Verdict.CANCELLED):
            return Said.LOST
        _set_aside(items, task.id, activities.load_result(task.id, fields, verdict))  # before it is gone from here
        clear(fields, "result", "completed_by", "completed_at")
        _go_back(now, fields, now.activity(task.id, fields).task, task, "keeper", items.folder.clock.now())
        now.settle(items.folder.clock.now())
        return Said.OK

    said = items.edit(spot.item, "keeper", back)
    for mark in (items.folder.of(STOPS, task.id), items.plan_mark(task.id)):  # they were about what has ended
        fs.remove(mark)
    return said
