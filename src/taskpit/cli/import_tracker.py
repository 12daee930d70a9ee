"""Bringing in what another tracker keeps: `import --from`. Finds its files, maps its ids, puts what can be put.

Unlike an import of one's own records this goes on where a record is bad: people leave a tracker with years of
tasks in it, and one of them must not keep the others out. It can be repeated: each task remembers its origin.
"""

from __future__ import annotations

import glob
import json
import os

from taskpit import importers, layouts
from taskpit.cli.context import Reply
from taskpit.cli.options import read_text, vet
from taskpit.clock import iso
from taskpit.errors import Conflict, Invalid, Lost, NotFound, TaskpitError, TooLarge
from taskpit.importers.importer import relate, without_twins
from taskpit.records import Value
from taskpit.task import Card, Result, Said, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from taskpit.cli.context import Context
    from taskpit.importers import Bad, Found, Importer
    from taskpit.layouts import Layout
    from taskpit.queue import Queue
    from taskpit.task import Task

__all__ = ["bring", "detect"]

#: A tracker's file may hold all its tasks.
LARGEST_FILE = 256 * 1024 * 1024
#: A file this large is no tracker's unless one says so.
LARGEST_GUESS = 64 * 1024 * 1024
#: Where a task remembers what it was, and how many go in at once.
ORIGIN, BATCH = "origin", 200
EXIT_PARTIAL = Invalid.exit_code


class Haul(Value):
    """What an import did, by id in the queue; for what was left out, by id in the source."""

    created: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()
    #: Came in earlier and reads otherwise there now; left as it is here.
    changed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    bad: tuple[Bad, ...] = ()


def detect(paths: Sequence[str]) -> str:
    """The tracker that all of these are from, if that can be told without doubt."""
    found = {_detect(path) for path in paths}
    return found.pop() if len(found) == 1 else ""


def _detect(path: str) -> str:
    if os.path.isdir(path):
        found = [name for name in importers.NAMES if _recognised(importers.get(name), path)]
        return found[0] if len(found) == 1 else ""
    if path.endswith((".json", ".jsonl", ".md")) and os.path.isfile(path) and os.path.getsize(path) <= LARGEST_GUESS:
        return importers.detect(path, _peek(path))
    return ""


def _recognised(importer: Importer, folder: str) -> bool:
    files = _inside(folder, importer)
    return bool(files) and os.path.getsize(files[0]) <= LARGEST_GUESS and importer.recognises(files[0], _peek(files[0]))


def _peek(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # whoever reads it in earnest says why


def _inside(folder: str, importer: Importer) -> list[str]:
    """The files of this tracker in a folder."""
    for patterns in importer.places:
        found = [path for one in patterns for path in glob.glob(f"{glob.escape(folder)}/{one}")]
        files = sorted(filter(os.path.isfile, dict.fromkeys(found)))
        if files:
            return files
    return []


# -- bringing --------------------------------------------------------------------------------------


def bring(source: str, args: Namespace, context: Context) -> Reply:
    """What `import` does with another tracker's files."""
    queue = context.queue
    importer = importers.get(source)
    prefix = f"{source}@{args.name}:" if args.name else f"{source}:"
    found, bad = _read(importer, args.paths)
    found, twins = without_twins(found)
    found, unfit = _fitting(queue, found, prefix)
    known = _known(queue, prefix)
    related = relate(found, known, closed=args.closed)
    coming = [one for one in related if args.closed or not one.over]
    skipped = tuple(one.task.id for one in related if one.over and not args.closed)
    haul = Haul(skipped=skipped, bad=(*bad, *twins, *unfit))
    if args.dry_run:
        return _reply(_foreseen(coming, known, haul), context, source, dry_run=True)
    ids = _ids(queue, coming, known)
    here = [_renamed(one, ids, prefix, queue.clock.now()) for one in coming]
    mapped = {one.task.id: ids[one.task.id] for one in coming if ids[one.task.id] != one.task.id}
    return _reply(_put(queue, here, haul, source), context, source, mapped=mapped)


def _read(importer: Importer, paths: Sequence[str]) -> tuple[list[Found], list[Bad]]:
    found: list[Found] = []
    bad: list[Bad] = []
    for path in _files(importer, paths):
        try:
            text = read_text(path, LARGEST_FILE)
        except NotFound:
            raise
        except TaskpitError as error:
            bad.append(importers.Bad(where=path, why=error.message))
            continue
        for one in importer.read(path, text):
            (found if isinstance(one, importers.Found) else bad).append(one)  # type: ignore[arg-type]
    return found, bad


def _files(importer: Importer, paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield path
            continue
        files = _inside(path, importer)
        if not files:
            looked = ", ".join(pattern for patterns in importer.places for pattern in patterns)
            raise NotFound(f"there is nothing of {importer.name} in {path}", hint=f"Looked for {looked}.", path=path)
        yield from files


def _fitting(queue: Queue, found: Sequence[Found], prefix: str) -> tuple[list[Found], list[Bad]]:
    """Tasks this queue can carry; a field it can't goes into the body."""
    layout = layouts.get(queue.store.info().layout)
    good: list[Found] = []
    bad: list[Bad] = []
    for one in found:
        try:
            good.append(one.replace(task=_fit(queue, layout, one.task, prefix + one.task.id)))
        except Invalid as error:
            bad.append(importers.Bad(where=one.where, why=error.message))
    return good, bad


def _fit(queue: Queue, layout: Layout, task: Task, origin: str) -> Task:
    bare = task.replace(id=layout.new_id(1), needs=(), parent="", extra={**task.extra, ORIGIN: origin})
    for key in task.extra:
        try:
            vet(queue, bare.replace(extra={key: task.extra[key]}))
        except Invalid as error:
            if error.details.get("field") != key:
                raise
            told = json.dumps(task.extra[key], ensure_ascii=False)
            extra = {name: value for name, value in bare.extra.items() if name != key}
            bare = bare.replace(extra=extra, body=f"{bare.body}\n\n## {key}\n\n{told}".strip("\n"))
    vet(queue, bare)
    size, most = len(layout.dump(bare)), queue.config.largest_task
    if size > most:
        raise TooLarge(f"the task is {size} bytes; {most} is the most")
    return bare.replace(id=task.id, needs=task.needs, parent=task.parent)


def _known(queue: Queue, prefix: str) -> dict[str, str]:
    """What came in earlier: its id there and its id here."""
    from taskpit.queue import cards

    origins = ((str(card.task.extra.get(ORIGIN, "")), card.task.id) for card in cards(queue.store))
    return {origin.removeprefix(prefix): task_id for origin, task_id in origins if origin.startswith(prefix)}


def _ids(queue: Queue, coming: Sequence[Found], known: dict[str, str]) -> dict[str, str]:
    """An id here for each id there: the one it has, its own if names can carry it and nobody has it, or a new one."""
    layout = layouts.get(queue.store.info().layout)
    ids = dict(known)
    fresh = []
    for one in coming:
        given = one.task.id
        if given in ids:
            continue
        if _is_word(layout, given) and queue.store.read([given])[0] is None:
            ids[given] = given
        else:
            fresh.append(one)
    allotted = queue.store.allot([""] * len(fresh))
    return ids | {one.task.id: new for one, new in zip(fresh, allotted, strict=True)}


def _is_word(layout: Layout, text: str) -> bool:
    """Whether file names carry it and nobody takes it for a number of ours."""
    try:
        return bool(layout.check_id(text)) and not layout.number(text) and not text.replace(".", "").isdecimal()
    except Invalid:
        return False


def _renamed(one: Found, ids: dict[str, str], prefix: str, now: float) -> Found:
    task = one.task
    return one.replace(
        task=task.replace(
            id=ids[task.id],
            needs=tuple(ids[need] for need in task.needs),
            parent=ids.get(task.parent, ""),
            by=task.by or prefix.rstrip(":"),
            created=task.created or float(int(now)),
        )
    )


def _put(queue: Queue, coming: Sequence[Found], haul: Haul, source: str) -> Haul:
    """What is over there first, so that nobody waits for it; then the others, some at a time."""
    said: list[tuple[str, Said]] = [(one.task.id, _place(queue, one, source)) for one in coming if one.over]
    tasks = [one.task for one in coming if not one.over]
    for start in range(0, len(tasks), BATCH):
        batch = tasks[start : start + BATCH]
        said += zip((task.id for task in batch), queue.store.put(batch), strict=True)
    return haul.replace(
        created=tuple(task_id for task_id, word in said if word is Said.CREATED),
        existing=tuple(task_id for task_id, word in said if word is Said.EXISTS),
        changed=tuple(task_id for task_id, word in said if word is Said.CONFLICT),
    )


def _place(queue: Queue, one: Found, source: str) -> Said:
    """It is in the queue and has ended as it did there."""
    from taskpit.transfer import place

    before = queue.store.read([one.task.id])[0]
    if before is not None and before.result is not None:
        return Said.EXISTS
    verdict = Verdict.DONE if one.over == "done" else Verdict.CANCELLED
    when = f" on {iso(one.ended)}" if one.ended else ""
    told = f"{'closed' if one.over == 'done' else one.over} in {source}{when}" + (
        f": {one.ending}" if one.ending else ""
    )
    result = Result(
        id=one.task.id,
        verdict=verdict,
        reason=told,
        output=f"Imported from {source} ({one.task.extra[ORIGIN]}), {told}.",
        worker="import",
        finished=one.ended or queue.clock.now(),
    )
    try:
        place(Card(task=one.task, state=verdict.state, result=result), queue.store)
    except (Conflict, Lost):
        return Said.CONFLICT
    return Said.CREATED if before is None else Said.EXISTS


# -- telling ---------------------------------------------------------------------------------------


def _foreseen(coming: Sequence[Found], known: dict[str, str], haul: Haul) -> Haul:
    ids = [one.task.id for one in coming]
    return haul.replace(
        created=tuple(one for one in ids if one not in known), existing=tuple(one for one in ids if one in known)
    )


def _reply(
    haul: Haul, context: Context, source: str, *, dry_run: bool = False, mapped: dict[str, str] | None = None
) -> Reply:
    for one in haul.bad:
        context.warn(f"{one.where}: {one.why}")
    parts = [f"{len(haul.created)} {'would be added' if dry_run else 'added'}"]
    parts += [f"{len(haul.existing)} already there"] if haul.existing else []
    parts += [f"{len(haul.changed)} read otherwise there now and were left as they are here"] if haul.changed else []
    parts += [f"{len(haul.skipped)} left out (closed; --closed brings them in as done)"] if haul.skipped else []
    parts += [f"{len(haul.bad)} could not be read"] if haul.bad else []
    data = {
        **haul.as_dict(),
        "bad": [one.as_dict() for one in haul.bad],
        "source": source,
        "mapped": mapped or {},
        "dry_run": dry_run,
    }
    return Reply(data=data, text=f"from {source}: {', '.join(parts)}", exit_code=EXIT_PARTIAL if haul.bad else 0)
