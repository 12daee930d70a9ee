"""What imported tasks have to do with each other: needs, parents, circles, what is over or was not in the file.

Pure, and total: whatever the source says, every task comes out, and none can be taken too early. Ids are
still the source's own.
"""

from __future__ import annotations

from taskpit.importers.importer import Bad, Found
from taskpit.rules import find_cycle, tangled
from taskpit.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["relate", "without_twins"]


def without_twins(found: Sequence[Found]) -> tuple[list[Found], list[Bad]]:
    """Each id once; those that come again are told of."""
    first: dict[str, Found] = {}
    bad = []
    for one in found:
        known = first.setdefault(one.task.id, one)
        if known is not one:
            bad.append(Bad(where=one.where, why=f"the id {one.task.id!r} is also that of {known.where}"))
    return list(first.values()), bad


def relate(found: Sequence[Found], known: Collection[str], *, closed: bool) -> list[Found]:
    """Every task with needs and parents that will be in the queue; what cannot be is said in its hold.

    `known` are ids that came in earlier; `closed` says that what is over comes in too.
    """
    open_ones = {one.task.id for one in found if not one.over}
    over = {one.task.id for one in found if one.over}
    here = {*open_ones, *known, *(over if closed else ())}
    needs = _all_needs(found)
    _wait_for_parts(found, open_ones, needs)
    return _without_circles([_settled(one, needs[one.task.id], here, over) for one in found])


def _all_needs(found: Sequence[Found]) -> dict[str, list[str]]:
    """What each waits for, told from either side."""
    needs = {one.task.id: list(one.task.needs) for one in found}
    for one in found:
        for other in one.blocks:
            if one.task.id not in needs.get(other, [one.task.id]):
                needs[other].append(one.task.id)
    return needs


def _wait_for_parts(found: Sequence[Found], open_ones: Collection[str], needs: dict[str, list[str]]) -> None:
    """What has parts comes after them, unless one of them waits for it."""
    for one in found:
        whole, part = one.task.parent, one.task.id
        if part in open_ones and whole in open_ones and part not in needs[whole]:
            needs[whole].append(part)
            if find_cycle(whole, lambda task_id: needs.get(task_id, ())):
                needs[whole].remove(part)


def _settled(one: Found, needs: Sequence[str], here: Collection[str], over: Collection[str]) -> Found:
    """Needs that are over are met; for those that nobody knows a person must look."""
    task, extra = one.task, dict(one.task.extra)
    kept = tuple(dict.fromkeys(need for need in needs if need in here and need not in over))
    met = [need for need in needs if need in over]
    unknown = [need for need in needs if need not in here and need not in over]
    if met:
        extra["needs-met"] = met
    hold = task.hold
    if unknown and not one.over:
        extra["needs-unknown"] = unknown
        hold = hold or f"it waits for {', '.join(unknown)}, which was not in the import"
    parent = task.parent if task.parent in here else ""
    if task.parent and not parent:
        extra["part-of"] = task.parent
    big = task.big and not kept
    return one.replace(task=task.replace(needs=kept, parent=parent, hold=hold, big=big, extra=extra))


def _without_circles(found: Sequence[Found]) -> list[Found]:
    """Tasks that wait for each other: one of each circle waits for a person instead."""
    tasks: dict[str, Task] = {one.task.id: one.task for one in found}

    def needs_of(task_id: str) -> Sequence[str]:
        return tasks[task_id].needs if task_id in tasks else ()

    for task_id in tangled(tasks):
        while circle := find_cycle(task_id, needs_of):
            task, cut = tasks[circle[0]], circle[1]
            told = f"these wait for each other: {' -> '.join(circle)}"
            tasks[task.id] = task.replace(
                needs=tuple(need for need in task.needs if need != cut),
                hold=task.hold or told,
                extra={**task.extra, "needs-cut": [*_listed(task.extra.get("needs-cut")), cut]},
            )
    return [one.replace(task=tasks[one.task.id]) for one in found]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
