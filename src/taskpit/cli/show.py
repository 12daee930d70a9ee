"""Looking at tasks: `list`, `show`, `why`, `search`. Changes nothing."""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from taskpit import fs, layouts
from taskpit.cli.context import Args, Context, Reply, Usage, arg, either, takes
from taskpit.cli.options import IDS, a_count, a_priority, a_status, named, only_tags, past_moment
from taskpit.cli.output import paint, quoted, table, terminal_width
from taskpit.clock import say_duration
from taskpit.errors import Invalid, NotFound
from taskpit.explain import ending, facts, reason_of, tries
from taskpit.history import who
from taskpit.layouts import Layout
from taskpit.model import Card, Result, State
from taskpit.queue import Queue, cards, tally
from taskpit.search import Hit
from taskpit.status import LABELS, Status, card_facts, full_facts, read_status, state_with, status_of, summary
from taskpit.store.folder import lately_aside
from taskpit.store.port import Artifact, Store
from taskpit.store.run_files import last_log
from taskpit.text import fit, plain, revealed

#: People see this many tasks unless they ask for more; programs see all.
SCREENFUL = 50
#: Tasks are read this many at a time.
PAGE = 1000
#: So much of a log is read at once.
PIECE = 1 << 20
#: Workers and tags take so many letters at most.
WIDEST = 18
#: Below this width a list has no room for tags beside titles and reasons.
NARROW = 100
#: So many names are looked at for files that are no tasks.
MANY = 10_000
DAY = 86_400.0
COLOURS = {
    "needs_you": "yellow",
    "ready": "green",
    "waiting": "dim",
    "running": "blue",
    "done": "dim",
    "failed": "red",
    "cancelled": "dim",
}


def _some(found: Iterator[Card], limit: int, keep: Callable[[Card], bool]) -> tuple[list[Card], bool]:
    """As many as asked for (0: all), and whether there are more."""
    some: list[Card] = []
    for card in found:
        if keep(card):
            if limit and len(some) == limit:
                return some, True
            some.append(card)
    return some, False


# -- list ------------------------------------------------------------------------------------------


@takes(
    arg("--state S", "needs-you, ready, waiting, running, done, failed, cancelled or all", type=a_status, default=None),
    arg("--ready", "only tasks that can be taken now; the same as --state ready"),
    arg("--tag T", "only tasks with this tag, or one of several", action="append"),
    arg("--worker W", "only tasks that this worker has or had"),
    arg("--priority N", "only this priority and higher ones", type=a_priority),
    arg("--since T", "only tasks that changed since then: 2h, or 2026-01-24T10:00:00Z"),
    arg("--limit N", f"at most N tasks; 0 is all (default: {SCREENFUL}; with --json all)", type=a_count),
)
def _list(args: Args, context: Context) -> Reply:
    """List tasks: ready and waiting ones in the order in which they will be taken, then the others.

    pit list
    pit list --ready --tag web
    pit list --state needs-you
    pit list --state failed --since 1d
    """
    if args.ready and args.state is not None:
        raise Usage("--ready and --state exclude each other", hint="`--state ready` is the same as --ready.")
    only: frozenset[Status] = read_status("ready") if args.ready else args.state or read_status("all")
    keep, filters = _filter(args, context, only)
    limit = args.limit if args.limit is not None else 0 if context.json else SCREENFUL
    size = PAGE if filters or not limit else limit + 1
    tied = Status.READY not in only
    state = state_with(only)
    seen: dict[State, list[Card]] = {one: [] for one in (State.READY, State.FAILED) if state in (None, one)}

    def look(card: Card) -> bool:
        if card.state in seen:
            seen[card.state].append(card)
        return keep(card)

    some, more = _some(cards(context.queue.store, state, min(size, PAGE), tied=tied), limit, look)
    if context.json:
        return Reply(data=[card_facts(card) for card in some])
    return Reply(text=_page(context.queue, some, more=more, counts=tally(context.queue.store, {} if more else seen)))


def _filter(args: Args, context: Context, only: frozenset[Status]) -> tuple[Callable[[Card], bool], bool]:
    """Whether a task is one of those that are asked for, and whether not every one is."""
    tags, least = set(only_tags(args.tag)), args.priority
    since = past_moment(args.since, context.queue.clock.now()) if args.since is not None else 0.0

    def keep(card: Card) -> bool:
        task, result = card.task, card.result
        worker = card.worker or (result.worker if result else "")
        last = max(task.created, card.since, result.finished if result else 0.0)
        return (
            status_of(card) in only
            and (not tags or bool(tags & set(task.tags)))
            and (least is None or task.priority >= least)
            and (not args.worker or who(worker) == args.worker or worker == args.worker)
            and last >= since
        )

    return keep, bool(tags or since or args.worker or least is not None or only != read_status("all"))


def _page(queue: Queue, some: list[Card], counts: Mapping[str, int], *, more: bool) -> str:
    strangers = _strangers(queue)
    if not any(counts.values()):
        return "\n".join(["The queue is empty. Add a task: pit add 'a first task'", *strangers])
    lines = [_rows(some)] if some else ["No matching tasks."]
    if more:
        ready = sum(1 for card in some if status_of(card) is Status.READY)
        free = ", --ready those that can be taken" if ready < min(len(some), counts[Status.READY]) else ""
        lines.append(paint("dim", f"… and more; `--limit 0` shows all{free}."))
    return "\n".join([*lines, "", summary(counts), *strangers])


def _strangers(queue: Queue) -> list[str]:
    """Files that were dropped where ready tasks lie, and that no worker will take: what to do about them."""
    info = queue.store.info()
    layout = layouts.get(info.layout) if info.kind == "files" and info.papers else None
    if layout is None or layout.name == "activities":
        return []
    folder = f"{info.papers}/{layout.ready}"
    names = sorted(islice(fs.names(folder), MANY))
    lost = [name for name in names if name.endswith((".md", ".json")) and not _is_named(layout, name)]
    lost = [name for name in lost if not name.startswith((".", "README"))]
    lines = [f"{layout.ready}/{name} is no task yet: {_way_in(layout, folder, name)}" for name in lost]
    lines[3:] = [f"… and {len(lines) - 3} more"] if len(lines) > 3 else []
    return [paint("yellow", line) for line in (*lines, *set_aside(queue))]


def set_aside(queue: Queue) -> list[str]:
    """What to do about files that were set aside in the last day, as a sentence; none if there are none."""
    aside = lately_aside(queue.store.info().papers, queue.clock.now() - DAY)
    were = "files were" if aside > 1 else "file was"
    return [f"{aside} {were} set aside in the last day; `pit doctor` says why"] if aside else []


def _way_in(layout: Layout, folder: str, name: str) -> str:
    """What makes a task of a file that was dropped in under no task's name."""
    path = f"{folder}/{name}"
    status = fs.status(path)
    if status is None or not stat.S_ISREG(status.st_mode) or not status.st_size:
        return "it is empty, or not a file; `pit doctor` shows it"
    if layout.takes_in and name.endswith(layout.takes_in):
        return "`pit sweep` takes it in, and so does a running pool"
    return f"`pit import {quoted(path)}` makes it one"


def _is_named(layout: Layout, name: str) -> bool:
    """Whether its name is a task's, ours or others', or so nearly that `pit doctor` says what is wrong with it."""
    try:
        return layout.spot(layout.ready, name) is not None or layout.is_others(name)
    except Invalid:
        return True


def _rows(some: list[Card]) -> str:
    rows, colours = [], []
    for card in some:
        task, status = card.task, status_of(card)
        worker, tags = fit(who(card.worker), WIDEST), fit(",".join(task.tags), WIDEST)
        why = reason_of(card) or ("not checked" if card.checked == "no" else "")
        rows.append((task.id, LABELS[status], str(task.priority or ""), worker, tags, task.title or task.slug, why))
        colours.append(("bold", COLOURS[status], "", "", "dim", "", "dim"))
    head = ("ID", "STATE", "PRI", "WORKER", "TAGS", "TITLE", "WHY")
    if terminal_width() < NARROW and any(row[-1] for row in rows):
        rows = [(*row[:4], "", *row[5:]) for row in rows]  # titles and reasons say more than tags
    return table(head, rows, colours, spills=True)


# -- show ------------------------------------------------------------------------------------------


@takes(
    IDS,
    *either(
        arg("--log", "only the output of its run, or of its last run"),
        arg("--artifact NAME", "only the content of a file that is kept with it"),
    ),
)
def _show(args: Args, context: Context) -> Reply:
    """Show a task with its result, attempts, notes and files.
    With --json one task is an object, and several are a list.

    pit show 0001
    pit show 1 2 --json
    pit show 7 --log
    pit show 7 --artifact report.pdf > report.pdf
    """
    found = [context.queue.card(task_id) for task_id in named(context, args.ids)]
    if args.log or args.artifact:
        return _raw(args, context, [card.task.id for card in found])
    kept = {card.task.id: context.queue.store.artifacts(card.task.id) for card in found}
    data = [{**full_facts(card), "artifacts": [one.as_dict() for one in kept[card.task.id]]} for card in found]
    return Reply(
        data=data[0] if len(data) == 1 else data,
        text=lambda: "\n\n".join(_sheet(card, context.queue.clock.now(), kept[card.task.id]) for card in found),
    )


def _raw(args: Args, context: Context, ids: list[str]) -> Reply:
    """What was printed or kept, as it is."""
    if len(ids) > 1:
        raise Usage("--log and --artifact show one task", hint=f"For example: `pit show {ids[0]} --log`.")
    store = context.queue.store
    data = store.read_artifact(ids[0], args.artifact) if args.artifact else b"".join(_log_of(store, ids[0]))
    if args.log and not data:
        _tell_missing(context.queue, context.queue.card(ids[0]))
    if context.json:
        return Reply(data={"id": ids[0], "bytes": len(data), "text": data.decode("utf-8", "replace")})
    if args.artifact or not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return Reply()
    return Reply(text=plain(data.decode("utf-8", "replace")) or "Nothing has been printed yet.")


def _tell_missing(queue: Queue, card: Card) -> None:
    """NotFound if a log was pruned, or is not known; nothing where nothing was printed."""
    task_id, kept = card.task.id, last_log(card)
    if card.state is not State.CLAIMED and kept:
        hint = f"Logs are kept for {say_duration(queue.config.compost)}: the setting `compost`."
        raise NotFound(f"the log of the last run of {task_id} was pruned: {kept}", hint=hint, id=task_id)
    if card.state is State.READY:  # a run that asked, or split its task, names none
        hint = f"Logs are kept by worker and time; `pit log --task {task_id}` shows both."
        raise NotFound(f"the log of the last run of {task_id} is not known", hint=hint, id=task_id)


def _log_of(store: Store, task_id: str) -> Iterator[bytes]:
    """All that was printed when it was first looked at, in pieces."""
    start, size = 0, 1
    while start < size:
        data, size = store.read_log(task_id, start, PIECE)
        if not data:
            return
        start += len(data)
        yield data


def _sheet(card: Card, now: float, kept: Sequence[Artifact]) -> str:
    task, status, result = card.task, status_of(card), card.result
    lines = [f"{paint('bold', task.id)}  {paint('bold', task.title or task.slug)}"]
    for name, value in facts(card, now):
        label = LABELS[status]
        shown = value.replace(label, paint(COLOURS[status], label), 1) if name == "state" else value
        lines.append(f"  {name:<10}  {shown}")
    sections = [
        ("", task.body),
        *(_result_sections(result) if result else ()),
        ("Tries", "\n".join(tries(card.tries))),
        ("Notes", card.notes),
        ("Files", "\n".join(f"{one.name}  {one.size} bytes, sha256 {one.sha256}" for one in kept)),
        ("Late and withdrawn results", "\n".join(card.late)),
    ]
    for title, text in sections:
        if text.strip():
            lines += ["", *([paint("bold", title)] if title else []), text.strip("\n")]
    return "\n".join(lines)


def _result_sections(result: Result) -> list[tuple[str, str]]:
    lines, proof = ending(result), result.evidence
    if proof:
        lines.append(f"check: {revealed(proof.command)} exited {proof.exit_code} after {say_duration(proof.seconds)}")
    return [("Result", "\n".join(lines)), ("Output", result.output), ("Check", proof.tail if proof else "")]


# -- why -------------------------------------------------------------------------------------------


@takes(IDS)
def _why(args: Args, context: Context) -> Reply:
    """Explain why a task is not running, its history, and the command that helps.

    pit why 0001
    """
    values = {task_id: context.queue.why(task_id) for task_id in named(context, args.ids)}
    data = [{"id": task_id, "why": lines} for task_id, lines in values.items()]
    return Reply(
        data=data[0] if len(data) == 1 else data, text="\n\n".join("\n".join(lines) for lines in values.values())
    )


# -- looking for words: `search`. Changes nothing --------------------------------------------------


@takes(
    arg("WORD", "all of them must occur", dest="words", nargs="+"),
    arg("--state S", "only among these", type=a_status, default=read_status("all")),
    arg("--limit N", f"at most so many; 0 is all (default {SCREENFUL})", type=a_count, default=SCREENFUL),
)
def _search(args: Args, context: Context) -> Reply:
    """Tasks that mention all these words, in id, title, tags, text, reasons, results, workers or notes; those with
    the words in the title first. Upper and lower case are the same; "a phrase" stands between double quotes.

    pit search login
    pit search '"broken pipe" api' --state failed
    pit search x --json
    """
    from taskpit.cli.progress import ProgressBar
    from taskpit.search import search, words_of

    text = " ".join(args.words)
    # One more than is shown tells whether there are more.
    with ProgressBar(context, "reading tasks", turns=True) as bar:
        limit = args.limit + 1 if args.limit else 0
        hits = search(context.queue, text, limit, only=args.state, progress=bar.step)
    more = bool(args.limit) and len(hits) > args.limit
    hits = hits[: args.limit] if args.limit else hits
    data = [{key: value for key, value in hit.as_dict().items() if key != "rank"} for hit in hits]
    return Reply(data=data, text=lambda: _hit_page(hits, words_of(text), more=more))


def _hit_page(hits: Sequence[Hit], words: Sequence[str], *, more: bool) -> str:
    if not hits:
        return "No matching tasks."
    widest = max(len(hit.id) for hit in hits)
    room = terminal_width()
    lines = []
    for hit in hits:
        state = paint(COLOURS[hit.column], f"{LABELS[hit.column]:<9}")
        title = _lit(fit(hit.title, max(room - widest - 13, 20)), words)
        lines.append(f"{paint('bold', hit.id.ljust(widest))}  {state}  {title}")
        if hit.field not in ("id", "title"):
            label = f"{' ' * widest}  {hit.field:<9}  "
            lines.append(f"{paint('dim', label)}{_lit(fit(hit.snippet, max(room - len(label), 20)), words)}")
    lines += [paint("dim", f"… and more; `--limit 0` shows all, beginning with these {len(hits)}.")] if more else []
    return "\n".join(lines)


def _lit(text: str, words: Sequence[str]) -> str:
    """The text with what was looked for standing out."""
    any_of_them = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.sub(any_of_them, lambda found: paint("bold", found[0]), text, flags=re.IGNORECASE)
