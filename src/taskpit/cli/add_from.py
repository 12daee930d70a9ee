"""Tasks from a template of the queue: `add --from`."""

from __future__ import annotations

from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import words
from taskpit.task import Said
from taskpit.task_templates import put_filled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from taskpit.cli.context import Context
    from taskpit.task import Task

__all__ = ["add_from"]


def add_from(args: Namespace, context: Context) -> Reply:
    """The template's tasks are in; all of them were checked before any was put."""
    queue = context.queue
    for name in ("id", "body", "file"):
        if getattr(args, name):
            raise Usage(f"--{name} does not go with --from", hint="Edit the task afterwards, or the template.")
    given = [*([args.title] if args.title else []), *args.fields]
    args.worker = args.by
    by = context.worker(args)

    def change(task: Task) -> Task:
        return task.replace(
            by=by,
            priority=task.priority if args.priority is None else args.priority,
            tags=tuple(dict.fromkeys((*task.tags, *words(args.tag)))),
            needs=tuple(dict.fromkeys((*task.needs, *words(args.needs)))),
        )

    tasks, said = put_filled(queue, args.template, given, change)
    ids = [task_id for task_id, _ in said]
    data = {"id": ids[0], "created": said[0][1] is Said.CREATED, "missing_needs": [], "ids": ids}
    lines = [f"{task.id}  {task.title}" for task in tasks]
    return Reply(data=data, text="\n".join(lines))
