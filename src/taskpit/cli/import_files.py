"""Bringing in tasks that others wrote: `import`. One way for all of them: read, give ids of this queue, check, put.

A person's own records are all checked before any is put, and one that is bad keeps all out. What another tracker
keeps goes in as far as it can: people leave a tracker with years of tasks in it, and one of them must not keep the
others out. Either can be repeated: each task remembers what it was called.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from taskpit import importers, layouts
from taskpit.actions import tell_brought
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.import_records import bad_record, collect, own_files, read_records
from taskpit.cli.options import as_text, read_text, vet
from taskpit.cli.output import quoted
from taskpit.cli.progress import ProgressBar
from taskpit.clock import iso
from taskpit.errors import Conflict, Invalid, Lost, NotFound, TaskpitError, TooLarge
from taskpit.importers import Bad, Found, Importer
from taskpit.importers.importer import relate, without_twins
from taskpit.model import LISTS, Card, Result, Said, State, Task, Value, Verdict
from taskpit.queue import Queue, cards
from taskpit.workers import default_worker

#: By so many bytes an export differs from records; and so large it may be.
HEAD, LARGEST_EXPORT = 4096, 1 << 30
#: A tracker's file may hold all its tasks; one larger than the second is no tracker's unless the command says so.
LARGEST_FILE, LARGEST_GUESS = 256 * 1024 * 1024, 64 * 1024 * 1024
#: Files that may be a tracker's without the command saying so.
GUESSED = (".json", ".jsonl", ".md")
#: Where the id of a record is kept that this queue's names cannot carry; where a tracker's task remembers what it was.
ORIGINAL, ORIGIN = "original-id", "origin"
#: With so many open tasks records are still compared with them: each of these is read for it.
COMPARED = 20_000
#: So many of a tracker's tasks go in at once.
BATCH = 200


@takes(
    arg("FILE", "a file, a folder, or - for standard input", dest="paths", nargs="+"),
    arg("--from TRACKER", "beads, claude, backlog, taskmaster, github, checklist", dest="source"),
    arg("--dry-run", "show what would be added, change nothing"),
    arg("--again", "put in also what reads like an open task"),
    arg("--closed", "with --from: what is closed there comes in as done"),
    arg("--name NAME", "with --from: tells projects with equal ids apart", default=""),
)
def _import(args: Args, context: Context) -> Reply:
    """Bring in tasks: .md (one task each), .json (an object or a list), .jsonl (one object a line), folders of
    them, or - for JSON lines on standard input. Every record is checked before any is put. Repeating is fine:
    what has an id is known by it, and what has none is left out if it reads like a task that is still open
    (--again puts it in once more).

    Ids are kept where this queue's file names can carry them; others get new ids, their needs follow, and
    the old id stays beside the task as 'original-id'. Markdown named food-<id>-<slug>.md keeps its bytes.
    Priorities P0 to P4 become 40 to 0; integers are kept, higher first. Finished records are left out.
    What `pit export` wrote is brought in whole, with states, results and changelog.

    With --from it is what another tracker keeps: beads (issues.jsonl), claude (tasks and todos of Claude
    Code), backlog (Backlog.md), taskmaster (tasks.json), github (gh issue list --json), checklist (a plan
    in Markdown, `- [ ]` lines), or what a package adds. Files that can be no other's are recognised
    without it. Fields without a word here are kept beside the task; ids are mapped and remembered, so that a
    second import makes no second tasks. A record that
    can't be read is named with its place and the others go in: exit 6.

    pit import tasks.jsonl notes/
    other-tracker export | pit import -
    pit import .beads --from beads --dry-run
    gh issue list --json number,title,body,labels,state,url | pit import - --from github
    """
    source = args.source or detect(args.paths)
    if source and args.again:
        raise Usage("--again is for records of one's own", hint=f"What comes from {source} is known by where it was.")
    if source:
        return _from_tracker(source, args, context)
    if args.closed or args.name:
        raise Usage("--closed and --name go with --from: say which tracker this is from")
    whole = _export(args.paths)
    if whole is not None and args.dry_run:
        raise Usage("--dry-run shows what tracker files and records would do; an export is compared by itself")
    if whole is not None:
        from taskpit.cli.export import bring_back

        return bring_back(whole, context, _importer(context))
    return _from_records(args, context)


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


# -- a place in this queue ---------------------------------------------------------------------------


def _known(queue: Queue, key: str, prefix: str = "") -> dict[str, str]:
    """What came in earlier: its id there, as the field of this name has it, and its id here."""
    there = ((str(card.task.extra.get(key, "")), card.task.id) for card in cards(queue.store))
    return {name.removeprefix(prefix): task_id for name, task_id in there if name and name.startswith(prefix)}


def _ids(
    queue: Queue, given: Sequence[str], known: Mapping[str, str], keeps: Callable[[str], bool], *, dry_run: bool = False
) -> dict[str, str]:
    """An id here for each id there: the one it has, its own where that can be kept, or a new one.

    In a dry run no ids are given away: those that need a new one have some number.
    """
    others = [one for one in given if one not in known]
    own = [one for one in others if keeps(one)]
    new = [one for one in others if one not in set(own)]
    layout = layouts.get(queue.store.info().layout)
    fresh = [layout.new_id(1) for _ in new] if dry_run else queue.store.allot([""] * len(new)) if new else []
    return {**known, **{one: one for one in own}, **dict(zip(new, fresh, strict=True))}


def _fits(queue: Queue, task_id: str) -> bool:
    """Whether file names can carry it."""
    try:
        return bool(layouts.get(queue.store.info().layout).check_id(task_id))
    except Invalid:
        return False


def _check(queue: Queue, task: Task) -> None:
    """Whether the queue can carry the task; Invalid or TooLarge says why not."""
    vet(queue, task)
    layout, most = layouts.get(queue.store.info().layout), queue.config.largest_task
    size = len(layout.dump(task.replace(id=task.id or layout.new_id(1))))
    if size > most:
        raise TooLarge(f"the task is {size} bytes; {most} is the most")


def _signed(one: Found, worker: str, now: float) -> Found:
    """Who brings it and when, where it does not say."""
    task = one.task
    return one.replace(task=task.replace(by=task.by or worker, created=task.created or float(int(now))))


# -- records of one's own: all or none ---------------------------------------------------------------


def _importer(context: Context) -> str:
    """Who runs this."""
    return context.env.get("TASKPIT_AS") or default_worker(context.token_name())


def _from_records(args: Args, context: Context) -> Reply:
    queue = context.queue
    read = collect(args.paths, queue.config.largest_task, layout=layouts.get(queue.store.info().layout))
    worker = _importer(context)
    given, records = settle(queue, read, worker, dry_run=args.dry_run)
    twins = [""] * len(records) if args.again else _twins(queue, records, context.warn)
    coming = [record for record, twin in zip(records, twins, strict=True) if not twin]
    there = [*filter(None, twins)]
    if args.dry_run:
        more = f", {len(there)} already there" if there else ""
        titles = [record.task.title for record in coming]
        return Reply(data={"would_create": titles}, text=f"{len(titles)} would be added{more}; nothing was changed")
    said = _put_all(queue, coming, context, worker)
    missing = _missing(queue, coming, {task_id for task_id, _ in said})
    for need in missing:
        context.warn(f"some of these wait for {need}, which does not exist yet")
    for record in coming:
        if record.where.endswith(".md") and record.task.body.count("[ ] ") > 1:
            hint = f"`pit import {quoted(record.where)} --from checklist` makes a task of each box, with needs."
            context.warn(f"{record.where} is a list with boxes, and became one task", hint=hint)
    data = {
        "created": [task_id for task_id, word in said if word is Said.CREATED],
        "existing": [*there, *(task_id for task_id, word in said if word is Said.EXISTS)],
        "skipped": [record.task.id or record.where for record in read if record.over],
        "mapped": {old: record.task.id for old, record in zip(given, records, strict=True) if old != record.task.id},
        "missing_needs": missing,
    }
    return Reply(data=data, text=_counted(data))


def bring_file(queue: Queue, name: str, data: bytes, worker: str) -> list[str]:
    """The tasks in a file of this name are in, read as `import` does, and all of them checked before any is put; the
    ids of those that were not there already.
    """
    created = _bring_file(queue, name, data, worker)
    tell_brought(queue, created, worker)
    return created


def _bring_file(queue: Queue, name: str, data: bytes, worker: str) -> list[str]:
    if len(data) > queue.config.largest_task and name.lower().endswith(".md"):
        raise TooLarge(f"{name} is larger than {queue.config.largest_task} bytes")
    source = importers.detect(name, data.decode("utf-8", "replace")) if name.endswith(GUESSED) else ""
    if source:
        found, bad = _sorted(importers.get(source), name, as_text(name, data))
        plan = _plan(queue, source, "", found, bad, closed=False)
        if plan.haul.bad:
            one = plan.haul.bad[0]
            hint = f"Nothing was put in. `pit import {quoted(name)}` brings in the others."
            raise Invalid(f"{one.where}: {one.why}", hint=hint, where=one.where)
        return list(_bring(queue, plan)[0].created)
    from taskpit.cli.export import bring_export, is_export

    if name.endswith(".jsonl") and is_export(data[:HEAD].decode("utf-8", "replace")):
        return bring_export(queue, as_text(name, data))
    read = read_records(name, data, layout=layouts.get(queue.store.info().layout))
    _, records = settle(queue, read, worker)
    twins = _twins(queue, records, lambda _: None)
    coming = [record.task for record, twin in zip(records, twins, strict=True) if not twin]
    return [task_id for task_id, said in queue.put(coming) if said is Said.CREATED]


def settle(queue: Queue, read: Sequence[Found], worker: str, *, dry_run: bool = False) -> tuple[list[str], list[Found]]:
    """The records that go in, each with an id of this queue or none yet, checked as they will be put, and the ids they
    were given. They are this worker's where they don't say whose; without a worker nobody's yet.
    """
    twice = without_twins(read)[1]
    if twice:
        raise Invalid(f"{twice[0].where}: {twice[0].why}", hint="Nothing was put in.", where=twice[0].where)
    finished = {record.task.id for record in read if record.over == "done"}
    coming = [record for record in read if not record.over]
    given = [record.task.id for record in coming]
    foreign = [one for one in given if one and not _fits(queue, one)]
    known = _known(queue, ORIGINAL) if foreign else {}
    ids = {**_ids(queue, foreign, known, lambda _: False, dry_run=dry_run), "": ""}
    settled = []
    for record in coming:
        old = record.task
        task = old.replace(needs=tuple(need for need in old.needs if need not in finished)).renamed(ids)
        if task.id != old.id:
            task = task.replace(extra={**task.extra, ORIGINAL: old.id})
        try:
            _check(queue, task)
        except Invalid as error:
            raise bad_record(record.where, error) from None
        one, whole = record.replace(task=task), bool(old.source and old.id)  # a task's own file keeps its bytes
        settled.append(_signed(one, worker, queue.clock.now()) if worker and not whole else one)
    return given, settled


def _twins(queue: Queue, records: Sequence[Found], warn: Callable[[str], None]) -> list[str]:
    """For each record without an id the open task that reads like it, else nothing: so an import can be repeated.

    A finished task is no twin: what is to be done every night reads the same every night.
    """
    if all(record.task.id for record in records):
        return [""] * len(records)
    counts = queue.store.counts()
    if counts[State.READY] + counts[State.CLAIMED] > COMPARED:
        warn(f"more than {COMPARED:,} tasks are open: what has no id was not compared with them")
        return [""] * len(records)
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


def _reads(task: Task) -> tuple[object, ...]:
    """What a task says, without who put it and when."""
    what = (task.title, task.body.strip(), task.check, task.priority, task.parent)
    return (*what, *(frozenset(getattr(task, name)) for name in LISTS))


def _put_all(queue: Queue, records: Sequence[Found], context: Context, worker: str) -> list[tuple[str, Said]]:
    count, bar = 0, ProgressBar(context, "importing", len(records))
    created: list[str] = []

    def each(task_id: str, said: Said) -> None:
        nonlocal count
        count += 1
        created.extend([task_id] if said is Said.CREATED else [])
        bar.step(count)

    try:
        with bar:
            return queue.put([record.task for record in records], each=each)
    except KeyboardInterrupt:
        context.warn(f"interrupted: {count} of {len(records)} are in, or a few more; repeating goes on from there")
        raise
    except Conflict as error:
        where = next(record.where for record in records if record.task.id == error.details.get("id"))
        text = f"{where}: {error.message}; the {count} before it are in"
        raise Conflict(text, hint=error.hint, **error.details, where=where, done=count) from None
    finally:
        tell_brought(queue, created, worker)


def _missing(queue: Queue, records: Sequence[Found], coming: set[str]) -> list[str]:
    outside = [need for record in records for need in record.task.needs if need not in coming]
    outside = list(dict.fromkeys(outside))
    return [need for need, card in zip(outside, queue.store.read(outside), strict=True) if card is None]


def _counted(data: Mapping[str, Collection[str]]) -> str:
    words = {"existing": "already there", "skipped": "left out (finished)", "mapped": "with new ids"}
    parts = [f"{len(data[key])} {word}" for key, word in words.items() if data[key]]
    return ", ".join([f"{len(data['created'])} added", *parts])


# -- what another tracker keeps: as far as it can ----------------------------------------------------


class Haul(Value, frozen=True, kw_only=True):
    """What an import did, by id in the queue; for what was left out, by id in the source."""

    created: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()
    #: Came in earlier and reads otherwise there now; left as it is here.
    changed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    bad: tuple[Bad, ...] = ()


class Plan(Value, frozen=True, kw_only=True):
    """What of a tracker's tasks would come in."""

    source: str
    prefix: str
    coming: tuple[Found, ...]
    #: What came in earlier: ids there and here.
    known: Mapping[str, str]
    #: What is left out.
    haul: Haul
    #: Titles of what came in earlier without its file's name: whether from this file, nobody can tell.
    doubtful: tuple[str, ...] = ()


def detect(paths: Sequence[str]) -> str:
    """The tracker that all of these are from, if that is without doubt."""
    found = {_detect(path) for path in paths}
    return found.pop() if len(found) == 1 else ""


def _detect(path: str) -> str:
    if os.path.isdir(path):
        first = {name: _inside(path, importers.get(name))[:1] for name in importers.NAMES}
        small = {name: one for name, files in first.items() for one in files if os.path.getsize(one) <= LARGEST_GUESS}
        found = [name for name, one in small.items() if importers.get(name).recognises(one, _peek(one))]
        return found[0] if len(found) == 1 else ""
    if path.endswith(GUESSED) and os.path.isfile(path) and os.path.getsize(path) <= LARGEST_GUESS:
        return importers.detect(path, _peek(path))
    return ""


def _peek(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # reading it in earnest says why


def _inside(folder: str, importer: Importer) -> list[str]:
    """The files of this tracker in a folder."""
    for patterns in importer.places:
        found = [path for one in patterns for path in glob.glob(f"{glob.escape(folder)}/{one}")]
        files = sorted(own_files(folder, found))
        if files:
            return files
    return []


def _from_tracker(source: str, args: Args, context: Context) -> Reply:
    found, bad = _read(importers.get(source), args.paths)
    plan = _plan(context.queue, source, args.name, found, bad, closed=args.closed)
    if plan.doubtful:
        told = f"came in earlier, from a file whose name was not kept then: {', '.join(map(repr, plan.doubtful))}"
        context.warn(told, hint="If this is another file, --name NAME tells them apart and brings these in, too.")
    if args.dry_run:
        given = [one.task.id for one in plan.coming]
        created = tuple(one for one in given if one not in plan.known)
        existing = tuple(one for one in given if one in plan.known)
        return _reply(plan.haul.replace(created=created, existing=existing), context, source, dry_run=True)
    haul, mapped = _bring(context.queue, plan)
    tell_brought(context.queue, haul.created, _importer(context))
    return _reply(haul, context, source, mapped=mapped)


def _plan(queue: Queue, source: str, name: str, found: list[Found], bad: list[Bad], *, closed: bool) -> Plan:
    """What is to come in of what was found; nothing is changed."""
    prefix = f"{source}@{name}:" if name else f"{source}:"
    found, twins = without_twins(found)
    found, unfit = _fitting(queue, found, prefix)
    known = _known(queue, ORIGIN, prefix)
    found, doubtful = _as_earlier(importers.get(source), found, known, prefix)
    related = relate(found, known, closed=closed)
    coming = tuple(one for one in related if closed or not one.over)
    skipped = tuple(one.task.id for one in related if one.over and not closed)
    haul = Haul(skipped=skipped, bad=(*bad, *twins, *unfit))
    return Plan(source=source, prefix=prefix, coming=coming, known=known, haul=haul, doubtful=doubtful)


def _as_earlier(
    importer: Importer, found: Sequence[Found], known: dict[str, str], prefix: str
) -> tuple[list[Found], tuple[str, ...]]:
    """What came in under the name that earlier versions gave it is `known`, and keeps that name; the titles of it."""
    settled, titles = [], []
    for one in found:
        task, old = one.task, importer.earlier(one.task.id)
        if old and old in known and task.id not in known:
            known[task.id] = known.pop(old)
            one = one.replace(task=task.replace(extra={**task.extra, ORIGIN: prefix + old}))  # noqa: PLW2901 - the same
            titles.append(task.title)
        settled.append(one)
    return settled, tuple(titles)


def _bring(queue: Queue, plan: Plan) -> tuple[Haul, dict[str, str]]:
    """It has come in; and the ids that are others here."""

    def keeps(task_id: str) -> bool:
        """Names carry it, it is taken for no number of ours, and no task has it."""
        number = layouts.get(queue.store.info().layout).number(task_id) if _fits(queue, task_id) else True
        return not number and not task_id.replace(".", "").isdecimal() and queue.store.read([task_id])[0] is None

    given = [one.task.id for one in plan.coming]
    ids = _ids(queue, given, plan.known, keeps)
    now, worker = queue.clock.now(), plan.prefix.rstrip(":")
    here = [_signed(one.replace(task=one.task.renamed(ids)), worker, now) for one in plan.coming]
    return _put(queue, here, plan.haul, plan.source), {one: ids[one] for one in given if ids[one] != one}


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
        here, wrong = _sorted(importer, path, text)
        found += here
        bad += wrong
    return found, bad


def _sorted(importer: Importer, path: str, text: str) -> tuple[list[Found], list[Bad]]:
    """The tasks in a file of this tracker, and what cannot be read."""
    read = list(importer.read(path, text))
    return [one for one in read if isinstance(one, Found)], [one for one in read if isinstance(one, Bad)]


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
    good: list[Found] = []
    bad: list[Bad] = []
    for one in found:
        try:
            good.append(one.replace(task=_fit(queue, one.task, prefix + one.task.id)))
        except Invalid as error:
            bad.append(importers.Bad(where=one.where, why=error.message))
    return good, bad


def _fit(queue: Queue, task: Task, origin: str) -> Task:
    new_id = layouts.get(queue.store.info().layout).new_id(1)
    bare = task.replace(id=new_id, needs=(), parent="", extra={**task.extra, ORIGIN: origin})
    for key in task.extra:
        try:
            vet(queue, bare.replace(extra={key: task.extra[key]}))
        except Invalid as error:
            if error.details.get("field") != key:
                raise
            text = json.dumps(task.extra[key], ensure_ascii=False)
            extra = {name: value for name, value in bare.extra.items() if name != key}
            bare = bare.replace(extra=extra, body=f"{bare.body}\n\n## {key}\n\n{text}".strip("\n"))
    _check(queue, bare)
    return bare.replace(id=task.id, needs=task.needs, parent=task.parent)


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
    text = f"{'closed' if one.over == 'done' else one.over} in {source}{when}" + (
        f": {one.ending}" if one.ending else ""
    )
    result = Result(
        id=one.task.id,
        verdict=verdict,
        reason=text,
        output=f"Imported from {source} ({one.task.extra[ORIGIN]}), {text}.",
        worker="import",
        finished=one.ended or queue.clock.now(),
    )
    try:
        place(Card(task=one.task, state=verdict.state, result=result), queue.store)
    except (Conflict, Lost):
        return Said.CONFLICT
    return Said.CREATED if before is None else Said.EXISTS


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
    return Reply(data=data, text=f"from {source}: {', '.join(parts)}", exit_code=Invalid.exit_code if haul.bad else 0)
