"""What can be said of a task on the command line, a row each: for those who make one and those who change one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskpit.cli.context import Args, arg
from taskpit.cli.options import a_count, a_priority, words
from taskpit.clock import instant
from taskpit.errors import Invalid
from taskpit.model import LISTS
from taskpit.policy import SPARE
from taskpit.queue import Queue

#: The fields of a task that an option says, each with that option; its words may be read by `_READ`.
TASK_OPTIONS = {
    "check": arg("--check CMD", "the command that proves it is done, run by `pit done` and by workers"),
    "priority": arg("--priority N", "higher first, default 0; P0 to P4 mean 40 to 0", type=a_priority),
    "needs": arg("--needs ID", "a task that must be done first; may be repeated"),
    "tags": arg("--tag T", "a label, to select tasks by; may be repeated"),
    "touches": arg("--touches GLOB", "paths that it will change; may be repeated"),
    "limits": arg(
        "--limit KEY=N",
        "a shared resource: staging=1 at once, api=10/min, or a key of [limits]; may be repeated",
    ),
    "parent": arg("--parent ID", "the task that it is part of"),
    "not_before": arg("--not-before T", "start no earlier than 2026-01-24T10:00:00Z, or +30m"),
    "max_attempts": arg("--attempts N", "the most attempts", type=a_count),
}
#: For verbs that make a task and those that change one.
TASK_ARGS = (
    *(
        arg(spelled, about, dest=field, **more, **({"action": "append"} if field in LISTS else {}))
        for field, (spelled, about, more) in TASK_OPTIONS.items()
    ),
    arg("--spare", "run it only when an agent's quota would be lost otherwise", default=None),
)


def task_fields(args: Args, queue: Queue) -> dict[str, Any]:
    """The fields that these options speak of, as a task has them."""
    said: dict[str, Any] = {}
    for field in TASK_OPTIONS:
        given = getattr(args, field)
        if given is not None:
            read = _READ.get(field)
            said[field] = read(queue, given) if read else words(given) if field in LISTS else given
    if args.spare:
        said["hold"] = SPARE
    return said


def _needed(queue: Queue, given: list[str]) -> tuple[str, ...]:
    from taskpit.run.manual import need_ids

    return need_ids(queue, words(given)) if words(given) else ()


def _moment(queue: Queue, text: str) -> float:
    try:
        return instant(text, queue.clock.now()) if text else 0.0
    except (ValueError, OverflowError) as error:
        raise Invalid(str(error)) from None


#: Fields whose words mean something in this queue.
_READ: dict[str, Callable[[Queue, Any], object]] = {
    "needs": _needed,
    "parent": lambda queue, text: queue.resolve(text) if text else "",
    "not_before": _moment,
}
