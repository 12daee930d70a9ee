"""Tasks from a template of the queue: `add --from`."""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import words
from taskpit.errors import Invalid
from taskpit.recipes import Recipe, fill, read_recipe, unknown, with_ids
from taskpit.task import Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from taskpit.cli.context import Context
    from taskpit.queue import Queue

__all__ = ["add_from", "templates"]

FOLDER = "templates"


def templates(queue: Queue) -> list[str]:
    """Names of the templates of this queue."""
    info = queue.store.info()
    found = fs.names(f"{info.papers or info.where}/{FOLDER}") if info.papers or os.path.isdir(info.where) else []
    return sorted(
        name.removesuffix(".md") for name in found if name.endswith(".md") and not name.startswith((".", "README"))
    )


def _template(queue: Queue, name: str) -> Recipe:
    info, names = queue.store.info(), templates(queue)
    folder = f"{info.papers or info.where}/{FOLDER}"
    if name not in names:
        raise unknown(name, names, folder)
    try:
        text = fs.read(f"{folder}/{name}.md", queue.config.largest_task)[0].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{FOLDER}/{name}.md cannot be read: {error}") from None
    return read_recipe(name, text)


def add_from(args: Namespace, context: Context) -> Reply:
    """The template's tasks are in; all of them were checked before any was put."""
    queue = context.queue
    for name in ("id", "body", "file"):
        if getattr(args, name):
            raise Usage(f"--{name} does not go with --from", hint="Edit the task afterwards, or the template.")
    given = [*([args.title] if args.title else []), *args.fields]
    tasks = fill(_template(queue, args.template), given)
    args.worker = args.by
    by = context.worker(args)
    tasks = with_ids(tasks, queue.store.allot([""] * len(tasks)))
    tasks = [
        task.replace(
            by=by,
            priority=task.priority if args.priority is None else args.priority,
            tags=tuple(dict.fromkeys((*task.tags, *words(args.tag)))),
            needs=tuple(dict.fromkeys((*task.needs, *words(args.needs)))),
        )
        for task in tasks
    ]
    said = queue.put(tasks)
    ids = [task_id for task_id, _ in said]
    data = {"id": ids[0], "created": said[0][1] is Said.CREATED, "missing_needs": [], "ids": ids}
    lines = [f"{task.id}  {task.title}" for task in tasks]
    return Reply(data=data, text="\n".join(lines))
