"""Bringing in tasks that others wrote: `import`. All of them are checked before any is put."""

from __future__ import annotations

import os
import sys

from taskpit import layouts
from taskpit.cli.context import Reply
from taskpit.cli.options import example, read_text
from taskpit.cli.records import collect, read_records
from taskpit.cli.settle import ORIGINAL, settle
from taskpit.errors import Conflict, TooLarge
from taskpit.owner import default_worker
from taskpit.task import Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Collection, Mapping, Sequence

    from taskpit.cli.context import Context
    from taskpit.cli.records import Record
    from taskpit.cli.table import Handlers
    from taskpit.queue import Queue

__all__ = ["VERBS", "bring_file"]

#: By so many bytes an export is told from records; and so large it may be.
HEAD, LARGEST_EXPORT = 4096, 1 << 30


def _import_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Bring in tasks: .md (one task each), .json (an object or a list), .jsonl (one object a line), folders of\n"
        "them, or - for JSON lines on standard input. Every record is checked before any is put; repeating is fine.\n\n"
        "Ids are kept where this queue's file names can carry them; others get new ids, their needs follow, and\n"
        f"the old id stays beside the task as {ORIGINAL!r}. Markdown named food-<id>-<slug>.md keeps its bytes.\n"
        "Priorities P0 to P4 become 40 to 0; integers are kept, higher first. Finished records are left out.\n"
        "What `pit export` wrote is brought in whole, with states, results and changelog."
    )
    parser.epilog = example("pit import tasks.jsonl notes/", "other-tracker export | pit import -")
    parser.add_argument("paths", metavar="FILE", nargs="+", help="a file, a folder, or - for standard input")


def _import(args: Namespace, context: Context) -> Reply:
    queue = context.queue
    whole = _export(args.paths)
    if whole is not None:
        from taskpit.cli.move import bring_back

        return bring_back(whole, context)
    layout = layouts.get(queue.store.info().layout)
    read = collect(args.paths, queue.config.largest_task, layout=layout)
    worker = context.env.get("TASKPIT_AS") or default_worker()
    records = _signed(settle(queue, read), worker, queue.clock.now())
    said = _put(queue, records, context)
    created = [task_id for task_id, word in said if word is Said.CREATED]
    existing = [task_id for task_id, word in said if word is Said.EXISTS]
    mapped = {
        record.given: task_id
        for record, (task_id, _) in zip(records, said, strict=True)
        if record.given and record.given != task_id
    }
    missing = _missing(queue, records, {task_id for task_id, _ in said})
    for need in missing:
        context.warn(f"some of these wait for {need}, which nobody has added yet")
    skipped = [record.given or record.where for record in read if record.over]
    data = {"created": created, "existing": existing, "skipped": skipped, "mapped": mapped, "missing_needs": missing}
    return Reply(data=data, text=_told(data))


def _export(paths: Sequence[str]) -> str | None:
    """The text of an export, if that is what was given: it brings states and results along."""
    from taskpit.cli.move import is_export

    if len(paths) != 1:
        return None
    head = b""
    if paths[0] == "-":
        head = sys.stdin.buffer.peek(HEAD) if hasattr(sys.stdin.buffer, "peek") else b""
    elif paths[0].endswith(".jsonl") and os.path.isfile(paths[0]):
        with open(paths[0], "rb") as file:
            head = file.read(HEAD)
    return read_text(paths[0], LARGEST_EXPORT) if is_export(head.decode("utf-8", "replace")) else None


def bring_file(queue: Queue, name: str, data: bytes, worker: str) -> list[str]:
    """The tasks in a file of this name are in, all of them checked before any is put; their ids."""
    layout = layouts.get(queue.store.info().layout)
    if len(data) > queue.config.largest_task and name.lower().endswith(".md"):
        raise TooLarge(f"{name} is larger than {queue.config.largest_task} bytes")
    records = settle(queue, read_records(name, data, layout=layout))
    tasks = [record.task for record in _signed(records, worker, queue.clock.now())]
    return [task_id for task_id, _ in queue.put(tasks)]


def _signed(records: list[Record], worker: str, now: float) -> list[Record]:
    """Who brings them and when, where they don't say; a file that is a task already keeps its bytes."""
    signed = []
    for record in records:
        task = record.task
        if not (task.source and record.given):
            task = task.replace(by=task.by or worker, created=task.created or float(int(now)))
        signed.append(record.replace(task=task))
    return signed


def _put(queue: Queue, records: Sequence[Record], context: Context) -> list[tuple[str, Said]]:
    count, shown = 0, sys.stderr.isatty() and not context.json

    def each(_task_id: str, _said: Said) -> None:
        nonlocal count
        count += 1
        if shown and (count % 50 == 0 or count == len(records)):
            sys.stderr.write(f"\r{count} of {len(records)}" + ("\n" if count == len(records) else ""))
            sys.stderr.flush()

    try:
        return queue.put([record.task for record in records], each=each)
    except Conflict as error:
        where = next(record.where for record in records if record.task.id == error.details.get("id"))
        told = f"{where}: {error.message}; the {count} before it are in"
        raise Conflict(told, hint=error.hint, **error.details, where=where, done=count) from None


def _missing(queue: Queue, records: Sequence[Record], coming: set[str]) -> list[str]:
    outside = [need for record in records for need in record.task.needs if need not in coming]
    outside = list(dict.fromkeys(outside))
    return [need for need, card in zip(outside, queue.store.read(outside), strict=True) if card is None]


def _told(data: Mapping[str, Collection[str]]) -> str:
    counts = {key: len(value) for key, value in data.items()}
    parts = [f"{counts['created']} in"]
    parts += [f"{counts['existing']} there already"] if counts["existing"] else []
    parts += [f"{counts['skipped']} left out (finished)"] if counts["skipped"] else []
    parts += [f"{counts['mapped']} with new ids"] if counts["mapped"] else []
    return ", ".join(parts)


VERBS: Handlers = {"import": (_import_arguments, _import)}
