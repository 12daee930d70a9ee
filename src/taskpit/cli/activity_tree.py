"""Work items as a tree: activities and their tasks, who has them and for how long. Looks; changes nothing."""

from __future__ import annotations

from taskpit.cli.output import paint, terminal_width
from taskpit.clock import iso, say_duration
from taskpit.layouts.progress import Progress
from taskpit.store.activities.states import View
from taskpit.task import State
from taskpit.text import fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taskpit.layouts.progress import Step
    from taskpit.store.activities.items import Items
    from taskpit.store.activities.states import Standing

__all__ = ["facts", "lines"]

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
    view, now = View(items), items.folder.clock.now()
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


def _activity(view: View, standing: Standing, now: float) -> dict[str, Any]:
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
    told: list[str] = []
    for item in found:
        done = sum(1 for one in item["activities"] if one["status"] == "completed")
        total = len(item["activities"])
        count = f"{done}/{total} activities" if total else "no activities yet"
        told += ["", _head(item, count)]
        if item.get("pivot"):
            told.append(paint("yellow", f"  being replanned: {item['pivot']}"))
        if item.get("why"):
            told.append(paint("red", f"  {item['why']}"))
        for activity in item["activities"]:
            told.append(_row(activity, 2, _who(activity)))
            told += [_row(step, 6, _doer(step, activity)) for step in activity["tasks"]]
    return told


def _head(item: dict[str, Any], count: str) -> str:
    return (
        f"{paint('bold', item['id'])}  {item['title']}  {paint('dim', f'{count}, ' + item['status'].replace('_', ' '))}"
    )


def _row(one: dict[str, Any], indent: int, told: str) -> str:
    mark, colour = MARKS.get(one["status"], ("○", ""))
    head = f"{' ' * indent}{mark} {one['id']}  {one['title']}"
    room = max(terminal_width() - len(head) - 2, 24)
    line = f"{' ' * indent}{paint(colour, mark) if colour else mark} {one['id']}  {one['title']}"
    return f"{line}  {paint('dim', fit(told, room))}" if told else line


def _who(activity: dict[str, Any]) -> str:
    if activity["expired"]:
        return f"abandoned: {activity['expired']}"
    if activity["holder"]:
        left = activity["seconds_left"]
        kind = f" ({activity['holder_type']})" if activity["holder_type"] else ""
        return f"{activity['holder']}{kind}, {say_duration(max(left, 0))} left"
    if activity["held"]:
        return str(activity["held"])
    return "may be taken" if activity["status"] in ("pending", "in_progress", "awaiting_human") else ""


def _doer(step: dict[str, Any], activity: dict[str, Any]) -> str:
    if step["status"] == "completed":
        return step["completed_by"] or ""
    if activity["task"] == step["id"]:
        return "being worked on"
    return {"human": "for a person", "agent": "for an agent"}.get(step["actor"], "")
