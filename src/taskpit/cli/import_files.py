"""Bringing in tasks that others wrote: `import`. All of them are checked before any is put."""

from __future__ import annotations

import os
import sys

from taskpit import layouts
from taskpit.cli.context import Reply, Usage
from taskpit.cli.import_ids import COMPARED, ORIGINAL, open_twins, settle, too_many_open
from taskpit.cli.import_records import collect, read_records
from taskpit.cli.options import example, read_text
from taskpit.cli.output import quoted
from taskpit.cli.progress import ProgressBar
from taskpit.errors import Conflict, TooLarge
from taskpit.task import Said
from taskpit.workers import default_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Collection, Mapping, Sequence

    from taskpit.cli.context import Context
    from taskpit.cli.import_records import ImportedTask
    from taskpit.cli.verbs import Handlers
    from taskpit.queue import Queue

__all__ = ["VERBS", "bring_file"]

#: By so many bytes an export is told from records; and so large it may be.
HEAD, LARGEST_EXPORT = 4096, 1 << 30


def _import_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Bring in tasks: .md (one task each), .json (an object or a list), .jsonl (one object a line), folders of\n"
        "them, or - for JSON lines on standard input. Every record is checked before any is put. Repeating is fine:\n"
        "what has an id is known by it, and what has none is left out if it reads like a task that is still open\n"
        "(--again puts it in once more).\n\n"
        "Ids are kept where this queue's file names can carry them; others get new ids, their needs follow, and\n"
        f"the old id stays beside the task as {ORIGINAL!r}. Markdown named food-<id>-<slug>.md keeps its bytes.\n"
        "Priorities P0 to P4 become 40 to 0; integers are kept, higher first. Finished records are left out.\n"
        "What `pit export` wrote is brought in whole, with states, results and changelog.\n\n"
        "With --from it is what another tracker keeps: beads (issues.jsonl), claude (tasks and todos of Claude\n"
        "Code), backlog (Backlog.md), taskmaster (tasks.json), github (gh issue list --json), checklist (a plan\n"
        "in Markdown, `- [ ]` lines), or what a package adds. Files that can be no other's are recognised\n"
        "without it. Fields without a word here are kept beside the task; ids are mapped and remembered, so that a\n"
        "second import makes no second tasks. A record that\n"
        "can't be read is named with its place and the others go in: exit 6."
    )
    parser.epilog = example(
        "pit import tasks.jsonl notes/",
        "other-tracker export | pit import -",
        "pit import .beads --from beads --dry-run",
        "gh issue list --json number,title,body,labels,state,url | pit import - --from github",
    )
    parser.add_argument("paths", metavar="FILE", nargs="+", help="a file, a folder, or - for standard input")
    parser.add_argument(
        "--from", dest="source", metavar="TRACKER", help="beads, claude, backlog, taskmaster, github, checklist"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be added, change nothing")
    parser.add_argument("--again", action="store_true", help="put in also what reads like an open task")
    parser.add_argument("--closed", action="store_true", help="with --from: what is closed there comes in as done")
    parser.add_argument("--name", default="", metavar="NAME", help="with --from: tells projects with equal ids apart")


def _import(args: Namespace, context: Context) -> Reply:
    queue = context.queue
    from taskpit.cli import import_tracker

    source = args.source or import_tracker.detect(args.paths)
    if source:
        return import_tracker.bring(source, args, context)
    if args.closed or args.name:
        raise Usage("--closed and --name go with --from: say which tracker this is from")
    whole = _export(args.paths)
    if whole is not None and args.dry_run:
        raise Usage("--dry-run shows what tracker files and records would do; an export is compared by itself")
    if whole is not None:
        from taskpit.cli.export import bring_back

        return bring_back(whole, context)
    layout = layouts.get(queue.store.info().layout)
    read = collect(args.paths, queue.config.largest_task, layout=layout)
    worker = context.env.get("TASKPIT_AS") or default_worker(context.token_name())
    records = _signed(settle(queue, read, dry_run=args.dry_run), worker, queue.clock.now())
    records, twins = _apart(queue, records, context) if not args.again else (records, [])
    if args.dry_run:
        titles = [record.task.title for record in records]
        there = f", {len(twins)} already there" if twins else ""
        return Reply(data={"would_create": titles}, text=f"{len(titles)} would be added{there}; nothing was changed")
    said = _put(queue, records, context)
    created = [task_id for task_id, word in said if word is Said.CREATED]
    existing = [*twins, *(task_id for task_id, word in said if word is Said.EXISTS)]
    mapped = {
        record.given: task_id
        for record, (task_id, _) in zip(records, said, strict=True)
        if record.given and record.given != task_id
    }
    missing = _missing(queue, records, {task_id for task_id, _ in said})
    for need in missing:
        context.warn(f"some of these wait for {need}, which does not exist yet")
    for record in records:
        if record.where.endswith(".md") and record.task.body.count("[ ] ") > 1:
            hint = f"`pit import {quoted(record.where)} --from checklist` makes a task of each box, with needs."
            context.warn(f"{record.where} is a list with boxes, and became one task", hint=hint)
    skipped = [record.given or record.where for record in read if record.over]
    data = {"created": created, "existing": existing, "skipped": skipped, "mapped": mapped, "missing_needs": missing}
    return Reply(data=data, text=_told(data))


def _export(paths: Sequence[str]) -> str | None:
    """The text of an export, if that is what was given: it brings states and results along."""
    from taskpit.cli.export import is_export

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


def _signed(records: list[ImportedTask], worker: str, now: float) -> list[ImportedTask]:
    """Who brings them and when, where they don't say; a file that is a task already keeps its bytes."""
    signed = []
    for record in records:
        task = record.task
        if not (task.source and record.given):
            task = task.replace(by=task.by or worker, created=task.created or float(int(now)))
        signed.append(record.replace(task=task))
    return signed


def _apart(queue: Queue, records: list[ImportedTask], context: Context) -> tuple[list[ImportedTask], list[str]]:
    """The records that are new here, and the ids of open tasks that read like the others."""
    if all(record.task.id for record in records):
        return records, []
    if too_many_open(queue):
        context.warn(f"more than {COMPARED:,} tasks are open: what has no id was not compared with them")
        return records, []
    twins = open_twins(queue, records)
    return [record for record, twin in zip(records, twins, strict=True) if not twin], [*filter(None, twins)]


def _put(queue: Queue, records: Sequence[ImportedTask], context: Context) -> list[tuple[str, Said]]:
    count, bar = 0, ProgressBar(context, "importing", len(records))

    def each(_task_id: str, _said: Said) -> None:
        nonlocal count
        count += 1
        bar.step(count)

    try:
        with bar:
            return queue.put([record.task for record in records], each=each)
    except KeyboardInterrupt:
        context.warn(f"interrupted: {count} of {len(records)} are in, or a few more; repeating goes on from there")
        raise
    except Conflict as error:
        where = next(record.where for record in records if record.task.id == error.details.get("id"))
        told = f"{where}: {error.message}; the {count} before it are in"
        raise Conflict(told, hint=error.hint, **error.details, where=where, done=count) from None


def _missing(queue: Queue, records: Sequence[ImportedTask], coming: set[str]) -> list[str]:
    outside = [need for record in records for need in record.task.needs if need not in coming]
    outside = list(dict.fromkeys(outside))
    return [need for need, card in zip(outside, queue.store.read(outside), strict=True) if card is None]


def _told(data: Mapping[str, Collection[str]]) -> str:
    counts = {key: len(value) for key, value in data.items()}
    parts = [f"{counts['created']} added"]
    parts += [f"{counts['existing']} already there"] if counts["existing"] else []
    parts += [f"{counts['skipped']} left out (finished)"] if counts["skipped"] else []
    parts += [f"{counts['mapped']} with new ids"] if counts["mapped"] else []
    return ", ".join(parts)


VERBS: Handlers = {"import": (_import_arguments, _import)}
