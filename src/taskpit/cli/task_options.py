"""What can be said of a task on the command line, a row each: for those who make one and those who change one."""

from __future__ import annotations

from taskpit.cli.context import Args, Parser
from taskpit.cli.options import a_count, a_priority, words
from taskpit.errors import Invalid
from taskpit.records import Value
from taskpit.task import LISTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from taskpit.queue import Queue


class TaskOption(Value):
    """A field of a task, its option, and the words of the help."""

    field: str
    flag: str
    metavar: str
    help: str
    #: Reads one word; not for lists.
    type: Callable[[str], object] = str


TASK_OPTIONS = (
    TaskOption(
        field="check",
        flag="--check",
        metavar="CMD",
        help="the command that proves it done, run by `pit done` and by workers",
    ),
    TaskOption(
        field="priority",
        flag="--priority",
        metavar="N",
        help="higher first, default 0; P0 to P4 mean 40 to 0",
        type=a_priority,
    ),
    TaskOption(field="needs", flag="--needs", metavar="ID", help="a task that must be done before"),
    TaskOption(field="tags", flag="--tag", metavar="T", help="what kind of task it is"),
    TaskOption(field="touches", flag="--touches", metavar="GLOB", help="paths it will change"),
    TaskOption(
        field="limits",
        flag="--limit",
        metavar="KEY=N",
        help="something scarce it uses: staging=1 at once, api=10/min, or a key of [limits]",
    ),
    TaskOption(field="parent", flag="--parent", metavar="ID", help="the task it is a part of"),
    TaskOption(field="not_before", flag="--not-before", metavar="T", help="2026-01-24T10:00:00Z or +30m"),
    TaskOption(
        field="max_attempts", flag="--attempts", metavar="N", help="how many attempts it may have", type=a_count
    ),
)


def task_options(parser: Parser) -> None:
    """What can be said about a task, for those who make and those who change one."""
    for row in TASK_OPTIONS:
        if row.field in LISTS:
            text = f"{row.help}; may be repeated"
            parser.add_argument(row.flag, dest=row.field, action="append", metavar=row.metavar, help=text)
        else:
            parser.add_argument(row.flag, dest=row.field, type=row.type, metavar=row.metavar, help=row.help)
    text = "run it only when an agent's quota would be lost otherwise"
    parser.add_argument("--spare", action="store_true", default=None, help=text)


def task_fields(args: Args, queue: Queue) -> dict[str, Any]:
    """The fields that these options speak of, as a task has them."""
    said: dict[str, Any] = {}
    for field in (row.field for row in TASK_OPTIONS):
        given = getattr(args, field)
        if given is not None:
            read = _READ.get(field)
            said[field] = read(queue, given) if read else words(given) if field in LISTS else given
    if args.spare:
        from taskpit.policy import SPARE  # who adds others does without

        said["hold"] = SPARE
    return said


def _needed(queue: Queue, given: list[str]) -> tuple[str, ...]:
    from taskpit.worker.manual import need_ids

    return need_ids(queue, words(given)) if words(given) else ()


def _moment(queue: Queue, text: str) -> float:
    from taskpit.clock import instant

    try:
        return instant(text, queue.clock.now()) if text else 0.0
    except (ValueError, OverflowError) as error:
        raise Invalid(str(error)) from None


def _parent(queue: Queue, text: str) -> str:
    return queue.resolve(text) if text else ""


#: Fields whose words mean something in this queue.
_READ: dict[str, Callable[[Queue, Any], object]] = {"needs": _needed, "parent": _parent, "not_before": _moment}
