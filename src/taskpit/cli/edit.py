"""Changing a task that nobody works on: `edit`, by options or in a person's own editor."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

from taskpit import layouts
from taskpit.actions import edit
from taskpit.cli.add import with_fields
from taskpit.cli.context import Args, Context, Reply, Usage, arg, either, takes
from taskpit.cli.options import AS, ID, read_text, vet, words
from taskpit.cli.task_options import TASK_ARGS, task_fields
from taskpit.errors import Conflict, Invalid
from taskpit.model import State, Task
from taskpit.queue import Queue
from taskpit.status import card_facts
from taskpit.workers import run_around

#: How a line begins that an editor shows and no task has.
NOTE = "#! "


@takes(
    ID,
    arg("--title TITLE", "one line"),
    *either(
        arg("--body TEXT", "what is to be done"),
        arg("-F --file FILE", "read the body from a file; - is standard input"),
    ),
    *TASK_ARGS,
    arg("--add-tag T", "add a tag; may be repeated", action="append"),
    arg("--remove-tag T", "remove a tag; may be repeated", action="append"),
    arg("--big", "whether a planner splits it", action=argparse.BooleanOptionalAction),
    arg("--set KEY=VALUE", "a further field; may be repeated", action="append"),
    AS,
)
def _edit(args: Args, context: Context) -> Reply:
    """Change a task that no worker has. An option replaces the old value; an empty one ('') clears it.
    Without options, on a terminal, the task is opened in $VISUAL or $EDITOR.

    pit edit 0007 --priority 10 --add-tag urgent
    pit edit 0007 --needs ''
    pit edit 7
    """
    queue = context.queue
    task_id = queue.resolve(args.id)
    around = run_around(context.env)
    if around and task_id in (around.task, around.says):
        message = f"{task_id} is the task of this run, and a run cannot change its own task"
        raise Invalid(
            message, hint=f"`pit ask {task_id} TEXT` asks a person; `pit add` puts in another task.", id=task_id
        )
    changes = _changes(args, queue)
    change: Callable[[Task], Task] | None
    if changes:
        change = _by_options(queue, changes)
    elif _has_person():
        change = by_hand(queue, task_id, context.env)
    else:
        raise Usage(
            "nothing to change",
            hint="Use --title, --body, --priority, ...; on a terminal without options it opens an editor.",
        )
    if change is None:
        return Reply(data=card_facts(queue.card(task_id)), text=f"{task_id} is unchanged")
    text = edit(queue, task_id, context.worker(args), change)
    card = queue.card(task_id)
    if card.state is State.READY:
        for need in queue.missing_needs(card.task):
            context.warn(f"{task_id} waits for {need}, which does not exist yet")
    return Reply(data=card_facts(card), text=text)


def _has_person() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _changes(args: Args, queue: Queue) -> dict[str, Any]:
    """The fields that options speak of, with their new values."""
    given = {"title": args.title, "big": args.big, **task_fields(args, queue)}
    given["body"] = read_text(args.file, queue.config.largest_task) if args.file else args.body
    for field in ("set", "add_tag", "remove_tag"):
        given[field] = getattr(args, field)
    return {field: value for field, value in given.items() if value is not None}


def _by_options(queue: Queue, changes: dict[str, Any]) -> Callable[[Task], Task]:
    def change(task: Task) -> Task:
        fields = dict(changes)
        further, more, less = (fields.pop(name, None) for name in ("set", "add_tag", "remove_tag"))
        tags = [tag for tag in (*fields.get("tags", task.tags), *words(more)) if tag not in words(less)]
        fields["tags"] = tuple(dict.fromkeys(tags))
        return _in_step(task, with_fields(queue, task.replace(**fields), further), queue.clock.now())

    return change


def _in_step(before: Task, after: Task, now: float) -> Task:
    """A schedule that goes by other times, or another clock, is due at the first of them."""
    if "every" not in after.extra or after.not_before != before.not_before:
        return after
    if all(after.extra.get(field) == before.extra.get(field) for field in ("every", "zone")):
        return after
    from taskpit.schedule import first_time  # only schedules pay for a calendar

    return first_time(after.replace(not_before=0.0), now)


# -- in an editor ----------------------------------------------------------------------------------


def by_hand(queue: Queue, task_id: str, env: Mapping[str, str]) -> Callable[[Task], Task] | None:
    """What a person made of the task's own text; None if nothing. Nothing is held while they write."""
    layout = layouts.get(queue.store.info().layout)
    card = queue.card(task_id)
    if card.state is not State.READY:
        raise Conflict(f"{task_id} is {card.state}", hint=f"`pit why {task_id}` says more.", id=task_id)
    before = layout.dump(card.task)
    name = os.path.basename(layout.ready_path(card.task))
    spot = layouts.Spot(state=State.READY, id=task_id, slug=card.task.slug)

    def read(data: bytes) -> Task:
        written = layout.load(spot, data)
        vet(queue, written)
        return written

    after, written = _written(before, name, env, read)
    if written is None:
        return None

    def change(task: Task) -> Task:
        if layout.dump(task) != before:
            raise Conflict(f"{task_id} was changed in the meantime", hint=_kept(after, name), id=task_id)
        return _in_step(task, written, queue.clock.now())

    return change


def _written(
    before: bytes, name: str, env: Mapping[str, str], read: Callable[[bytes], Task]
) -> tuple[bytes, Task | None]:
    """What a person wrote, and the task it is; None if nothing. With a mistake in it the editor opens again, with the
    complaint on top; who leaves it as it is gives up, and finds the text in a file.
    """
    data, complaint = before, ""
    while True:
        note = f"{NOTE}{complaint}\n{NOTE}Mend it, or leave it as it is to give up; these two lines go away.\n"
        edited = _in_editor(note.encode() + data if complaint else data, name, env)
        after = b"".join(line for line in edited.splitlines(keepends=True) if not line.startswith(NOTE.encode()))
        if after == data:
            if complaint:
                raise Invalid(complaint, hint=_kept(data, name))
            return after, None
        try:
            return after, read(after)
        except (Invalid, ValueError) as error:
            data, complaint = after, _plainly(error)


def _plainly(error: Exception) -> str:
    found = re.search(r"invalid literal for int\(\) with base 10: ('.*')", str(error))
    return f"{found[1]} is not a whole number" if found else " ".join(str(error).split())


def _kept(data: bytes, name: str) -> str:
    """Where the text is that a person wrote and that could not be taken."""
    from tempfile import mkstemp

    fd, path = mkstemp(prefix="pit-edit-", suffix=f"-{name}")
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    return f"Nothing was changed; what you wrote is in {path}."


def _in_editor(data: bytes, name: str, env: Mapping[str, str]) -> bytes:
    import subprocess
    from tempfile import TemporaryDirectory

    editor = env.get("VISUAL") or env.get("EDITOR") or "vi"
    with TemporaryDirectory(prefix="pit-") as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        try:
            code = subprocess.call([*shlex.split(editor), path])
        except (OSError, ValueError) as error:
            raise Invalid(f"the editor {editor!r} cannot be run: {error}", hint="Set EDITOR, or use options.") from None
        if code:
            raise Invalid(f"the editor exited with {code}; nothing was changed")
        with open(path, "rb") as file:
            return file.read()
