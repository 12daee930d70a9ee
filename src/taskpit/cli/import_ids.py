"""Giving records a place in this queue: ids its file names can carry, needs that follow, who is here already.

Puts nothing.
"""

from __future__ import annotations

from taskpit import layouts
from taskpit.cli.import_records import DONE, bad_record
from taskpit.cli.options import vet
from taskpit.errors import Invalid, TooLarge
from taskpit.task import LISTS, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.cli.import_records import ImportedTask
    from taskpit.layouts import Layout
    from taskpit.queue import Queue
    from taskpit.task import Task

__all__ = ["COMPARED", "ORIGINAL", "open_twins", "settle", "too_many_open"]

#: Where the id of a record is kept that this queue's names cannot carry.
ORIGINAL = "original-id"
#: With so many open tasks records are still compared with them: each of these is read for it.
COMPARED = 20_000


def settle(queue: Queue, records: Sequence[ImportedTask], *, dry_run: bool = False) -> list[ImportedTask]:
    """The records that go in, each with an id of this queue or none yet, checked as they will be put.

    In a dry run no ids are given away: those that need a new one have some number.
    """
    layout = layouts.get(queue.store.info().layout)
    _refuse_twins(records)
    finished = {record.given for record in records if record.over in DONE}
    coming = [record for record in records if not record.over]
    ids = _ids(queue, layout, coming, dry_run=dry_run)
    settled = []
    for record in coming:
        task = record.task
        needs = tuple(ids.get(need, need) for need in task.needs if need not in finished)
        task = task.replace(
            id=ids.get(record.given, record.given), needs=needs, parent=ids.get(task.parent, task.parent)
        )
        if task.id != record.given:
            task = task.replace(extra={**task.extra, ORIGINAL: record.given})
        try:
            vet(queue, task)
            _refuse_large(task, layout, queue.config.largest_task)
        except Invalid as error:
            raise bad_record(record.where, error) from None
        settled.append(record.replace(task=task))
    return settled


def open_twins(queue: Queue, records: Sequence[ImportedTask]) -> list[str]:
    """For each record without an id the open task that reads like it, else nothing: so an import can be repeated.

    A finished task is no twin: what is to be done every night reads the same every night.
    """
    from taskpit.queue import cards

    wanted = {_reads(record.task) for record in records if not record.task.id}
    here: dict[tuple[object, ...], list[str]] = {}
    for state in (State.READY, State.CLAIMED) if wanted else ():
        for card in cards(queue.store, state):
            if (text := _reads(card.task)) in wanted:
                here.setdefault(text, []).append(card.task.id)
    twins = []
    for record in records:  # two records that read the same are two tasks
        waiting = [] if record.task.id else here.get(_reads(record.task), [])
        twins.append(waiting.pop(0) if waiting else "")
    return twins


def too_many_open(queue: Queue) -> bool:
    """Whether comparing with what is open would take too long."""
    counts = queue.store.counts()
    return counts[State.READY] + counts[State.CLAIMED] > COMPARED


def _reads(task: Task) -> tuple[object, ...]:
    """What a task says, whoever put it and when."""
    what = (task.title, task.body.strip(), task.check, task.priority, task.parent)
    return (*what, *(frozenset(getattr(task, name)) for name in LISTS))


def _refuse_twins(records: Sequence[ImportedTask]) -> None:
    first: dict[str, str] = {}
    for record in records:
        if record.given and first.setdefault(record.given, record.where) != record.where:
            told = f"{record.where}: the id {record.given!r} is also that of {first[record.given]}"
            raise Invalid(told, hint="Nothing was put in.", where=record.where)


def _refuse_large(task: Task, layout: Layout, most: int) -> None:
    size = len(layout.dump(task.replace(id=task.id or layout.new_id(1))))
    if size > most:
        raise TooLarge(f"the task is {size} bytes; {most} is the most")


def _ids(queue: Queue, layout: Layout, records: Sequence[ImportedTask], *, dry_run: bool) -> dict[str, str]:
    """New ids for those that file names can't carry; the same ones if they were brought in before."""
    foreign = [record.given for record in records if record.given and not _fits(layout, record.given)]
    if not foreign:
        return {}
    from taskpit.queue import cards

    known = {str(card.task.extra[ORIGINAL]): card.task.id for card in cards(queue.store) if ORIGINAL in card.task.extra}
    new = [given for given in foreign if given not in known]
    fresh = [layout.new_id(1) for _ in new] if dry_run else queue.store.allot([""] * len(new))
    return {**known, **dict(zip(new, fresh, strict=True))}


def _fits(layout: Layout, task_id: str) -> bool:
    try:
        return bool(layout.check_id(task_id))
    except Invalid:
        return False
