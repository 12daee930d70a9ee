"""What has happened: `log`, `stats`, `trace`, `report`, from the changelog. Changes nothing but derived totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import a_count, a_duration, past_moment
from taskpit.cli.output import aligned, paint, terminal_width
from taskpit.cli.progress import ProgressBar
from taskpit.clock import instant, iso, local, say_duration
from taskpit.errors import Invalid
from taskpit.events import new_events
from taskpit.model import Event, State
from taskpit.queue import Queue, cards, tally
from taskpit.report import PARTS, Report, ReportRow, make_report, newest
from taskpit.run.traces import TraceSpan
from taskpit.status import LABELS, STATUSES
from taskpit.store.stats_cache import tally as totals
from taskpit.text import one_line

#: `pit log` shows this many of the newest lines.
SCREENFUL = 50
#: How often a followed log is looked at, in seconds.
LOOK_AGAIN = 0.5
#: With more ready tasks than this not every one is read just to tell how old the oldest is.
MANY = 10_000
HOUR = 3600.0


# -- log -------------------------------------------------------------------------------------------


@takes(
    arg("NAME", "a member of the crew, or `supervisor`", nargs="?"),
    arg("-f --follow", "go on as more happens, until interrupted"),
    arg("--task ID", "only about this task"),
    arg("--since T", "2026-01-24T10:00:00Z, or 2h for the last two hours"),
    arg("--limit N", f"only the newest N; 0 is all (default: {SCREENFUL}, with --since all)", type=a_count),
)
def _log(args: Args, context: Context) -> Reply:
    """What happened, oldest first; with NAME, what that member of the crew has printed.
    With -f and --json every event is an envelope on a line of its own.

    pit log
    pit log -f
    pit log --task 0007 --since 2h
    pit log planner -f
    """
    queue = context.queue
    if args.name:
        from taskpit.cli.crew import member_log

        if args.task or args.since:
            raise Usage(
                "--task and --since are for the queue's log", hint=f"`pit log {args.name} --limit N` is shorter."
            )
        return member_log(args.name, context, SCREENFUL if args.limit is None else args.limit, follow=args.follow)
    task_id = queue.resolve(args.task) if args.task is not None else ""
    since = iso(past_moment(args.since, queue.clock.now())) if args.since is not None else ""

    def keep(event: Event) -> bool:
        return task_id in ("", event.task_id, event.activity_id)

    limit = args.limit if args.limit is not None else 0 if since else SCREENFUL
    events, cursor = newest(queue.store, since, limit, keep)
    shown = events[-limit:] if limit else events
    if args.follow:
        _follow(context, shown, cursor, keep)
    return Reply(
        data=[event.as_dict() for event in shown],
        text=lambda: "\n".join(map(event_line, shown)) or "Nothing has happened yet.",
    )


def _when(event: Event) -> str:
    """The local time of an event; what another program wrote there if that is no time."""
    try:
        return local(instant(event.timestamp))
    except (ValueError, OverflowError, OSError):
        return one_line(event.timestamp)


def event_line(event: Event) -> str:
    """One line of the changelog as people read it."""
    details = f"  {' '.join(event.details.split())}" if event.details else ""
    return f"{paint('dim', _when(event))}  {event.about or '-':<6} {event.action:<15} {one_line(event.worker)}{details}"


def _follow(context: Context, shown: Sequence[Event], cursor: str, keep: Callable[[Event], bool]) -> None:
    """Print what was and what comes, until interrupted."""
    while True:
        for event in shown:
            context.say(event.as_dict(), event_line(event))
        context.queue.clock.sleep(LOOK_AGAIN)
        events, cursor = new_events(context.queue.store, cursor)
        shown = [event for event in events if keep(event)]


# -- stats -----------------------------------------------------------------------------------------


@takes()
def _stats(_: Args, context: Context) -> Reply:
    """How many tasks are where, how fast they go, and what ran more than once.

    pit stats
    pit stats --json
    """
    queue, now = context.queue, context.queue.clock.now()
    counts = queue.store.counts()
    many = counts[State.READY] > MANY
    ready = list(cards(queue.store, State.READY, tied=many))
    free = [] if many else [card.task.created for card in ready if not card.held and card.task.created]
    oldest = now - min(free) if free else None
    data: dict[str, object] = {
        **{str(state): counts[state] for state in State},
        "held": sum(1 for card in ready if card.held),
        "statuses": tally(queue.store),
        "oldest_ready_seconds": oldest,
        **_past(context, now),
        **_cost(queue, now),
    }
    return Reply(data=data, text=lambda: _page(data))


def _past(context: Context, now: float) -> dict[str, object]:
    """What the changelog tells, in numbers."""
    with ProgressBar(context, "reading the changelog", turns=True):
        found = totals(context.queue.store, now)
    happened = found.happened
    return {
        "last_hour": {did.removesuffix("_task"): count for did, count in found.since(iso(now - HOUR)).items()},
        "claims": happened.get("claimed_task", 0),
        "retries": happened.get("retried_task", 0),
        "given_back": happened.get("recovered_task", 0) + happened.get("released_task", 0),
        "run_twice": len(found.twice),
        "late_results": happened.get("late_result", 0),
    }


def _cost(queue: Queue, now: float) -> dict[str, object]:
    """What agents have reported of their cost."""
    info = queue.store.info()
    if not info.papers:
        return {}
    from taskpit.run.budget import Ledger

    ledger = Ledger(info.papers)
    models = ledger.by_model()
    return {
        "cost": ledger.total().as_dict(),
        "cost_today": ledger.today(now).as_dict(),
        **({"models": models} if models else {}),
    }


def _page(data: dict[str, object]) -> str:
    counts: Any = data["statuses"]
    hour = data["last_hour"]
    oldest = data["oldest_ready_seconds"]
    rows = [
        *((LABELS[status], counts[status]) for status in STATUSES),
        ("oldest ready", say_duration(oldest) if isinstance(oldest, float) else "-"),
        ("last hour", ", ".join(f"{count} {word}" for word, count in hour.items()) if isinstance(hour, dict) else ""),
        ("claims", f"{data['claims']}, {data['retries']} retried, {data['given_back']} given back"),
        ("run twice", f"{data['run_twice']} (claimed again after their worker was lost)"),
        ("late results", f"{data['late_results']} (came too late; kept aside, never published)"),
        *_told_cost(data),
    ]
    return "\n".join(f"{paint('dim', f'{name:<13}')} {value}" for name, value in rows)


def _told_cost(data: dict[str, object]) -> list[tuple[str, object]]:
    cost, today = data.get("cost"), data.get("cost_today")
    if not isinstance(cost, dict) or not isinstance(today, dict) or not (cost["usd"] or cost["tokens"]):
        return []
    models = data.get("models")
    return [
        ("cost", f"${cost['usd']:.2f}, {int(cost['tokens'])} tokens; today ${today['usd']:.2f}"),
        *(
            (f"  {name}", f"${row['usd']:.2f}, {int(row['tokens'])} tokens, {row['done']} of {row['runs']} runs done")
            for name, row in sorted(models.items() if isinstance(models, dict) else ())
        ),
    ]


# -- `pit trace` -----------------------------------------------------------------------------------


#: Where a collector is, as OpenTelemetry spells it; one of them is enough.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: How often -f looks, and tells numbers, in seconds.
PACE, NUMBERS = 1.0, 60.0


@takes(
    arg("ID", "these tasks", dest="ids", nargs="*"),
    arg("--since T", "all tasks that ended in this time: 1d", type=a_duration),
    arg("-f --follow", "each task as it ends, until interrupted"),
    arg("--for T", "with -f: end after so long", dest="seconds", type=a_duration),
)
def _trace(args: Args, context: Context) -> Reply:
    """What happened to a task as one trace: put, claims, runs, checks, review, landing. Where
    OTEL_EXPORTER_OTLP_ENDPOINT is set and the extra `otel` is installed, it is sent there; else it is shown.
    With -f each task is sent as it ends, until Ctrl-C; and every minute how many tasks there are, whether the
    queue is paused and what it has cost.
    Agents are given TRACEPARENT, so that what they send belongs to their run.

    pit trace 7
    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 pit trace -f
    """
    if args.seconds and not args.follow:
        raise Usage("--for goes with -f", hint="For example: `pit trace -f --for 1h`.")
    if args.follow and (args.ids or args.since):
        raise Usage("-f is for every task that ends from now on", hint="`pit trace 7` and `--since` go without it.")
    queue, sends = context.queue, any(context.env.get(name) for name in ENDPOINTS)
    if args.follow:
        if not sends:
            raise Invalid("there is no collector to send to", hint=f"Set {ENDPOINTS[0]}=http://127.0.0.1:4318 or so.")
        return _follow_trace(args, context)
    ids = [queue.resolve(word) for word in args.ids] + (_ended(queue, args.since) if args.since else [])
    if not ids and not args.since:
        raise Usage("missing: ID", hint="For example: `pit trace 7`, `pit trace --since 1d` or `pit trace -f`.")
    spans = _send(queue, ids, sends=sends)
    return Reply(data=[span.as_dict() for span in spans], text=lambda: _shown(spans))


def _ended(queue: Queue, seconds: float) -> list[str]:
    from taskpit.run.traces import OVER

    events, _ = newest(queue.store, iso(queue.clock.now() - seconds))
    return list(dict.fromkeys(event.about for event in events if event.did in OVER))


def _send(queue: Queue, ids: Sequence[str], *, sends: bool) -> list[TraceSpan]:
    from taskpit.run.traces import send_spans, trace_of, trails

    text, where = trails(queue, ids) if ids else {}, queue.store.info().where
    cards = [card for card in queue.store.read(list(ids)) if card is not None]
    spans = [span for card in cards for span in trace_of(where, card, text.get(card.task.id, ()))]
    if sends and spans:
        send_spans(spans)
    return spans


def _follow_trace(args: Args, context: Context) -> Reply:
    from taskpit.run.traces import OVER, metrics_of, send_metrics

    queue, clock, sent = context.queue, context.queue.clock, 0
    _, cursor = queue.store.latest(1)
    deadline, numbers = clock.monotonic() + (args.seconds or float("inf")), 0.0
    try:
        while True:
            events, cursor = new_events(queue.store, cursor)
            over = list(dict.fromkeys(event.about for event in events if event.did in OVER))
            _send(queue, over, sends=True)
            sent += len(over)
            if clock.monotonic() - numbers >= NUMBERS or clock.monotonic() >= deadline:
                numbers = clock.monotonic()
                send_metrics(metrics_of(queue, tally(queue.store)))
            if not events:
                if clock.monotonic() >= deadline:
                    break
                clock.sleep(min(PACE, max(deadline - clock.monotonic(), 0.01)))
    except KeyboardInterrupt:
        context.json = False
    return Reply(data={"sent": sent}, text=f"{sent} sent")


def _shown(spans: Sequence[TraceSpan]) -> str:
    """The spans as a tree."""
    depth: dict[str, int] = {"": -1}
    lines = []
    for span in spans:
        depth[span.span_id] = depth.get(span.parent_id, 0) + 1
        facts = "  ".join(str(value) for key, value in span.attributes.items() if key != "taskpit.queue")
        error = f"  failed: {span.error}" if span.error else ""
        lines.append(
            f"{'  ' * depth[span.span_id]}{span.name}  {local(span.start)}  "
            f"{say_duration(round(span.end - span.start, 1))}  {facts}{error}"
        )
    return "\n".join(lines)


# -- the morning view: `report` --------------------------------------------------------------------


PART_COLOURS = {"needs_you": "yellow", "landed": "green", "done": "green", "failed": "red", "running": "blue"}
#: So many tasks of each part people see; Markdown and programs see all.
PART_SHOWN = 20


@takes(
    arg("--since T", "a time, or a duration before now (default: 24h)", default="24h"),
    arg("--markdown", "print Markdown, with every task"),
)
def _report(args: Args, context: Context) -> Reply:
    """Summarise the last day: landed and finished tasks, tasks that need you, failures with their reasons, the cost,
    and the commands that help. The board in the browser has the same as a page.

    pit report
    pit report --since 12h
    pit report --markdown > morning.md
    """
    queue = context.queue
    from taskpit.run.budget import Ledger

    since, root = past_moment(args.since, queue.clock.now()), queue.store.info().papers
    ledger = Ledger(root) if root else None
    report = make_report(queue, since, *((ledger.since(since), ledger.unknown(since)) if ledger else ()))
    text = report.markdown() if args.markdown else lambda: _screen(report, context)
    return Reply(data=report.facts(), text=text)


def _screen(report: Report, context: Context) -> str:
    width = terminal_width()
    lines = [paint("bold", _span(report)), report.headline()]
    for name, word in PARTS:
        rows: tuple[ReportRow, ...] = getattr(report, name)
        if rows:
            shown = [(row.id, row.title, row.what) for row in rows]
            lines += ["", paint("bold", word), *aligned(shown[:PART_SHOWN], width, PART_COLOURS.get(name, "dim"))]
            lines += [paint("dim", f"  … and {len(rows) - PART_SHOWN} more")] if len(rows) > PART_SHOWN else []
    if report.pools:
        lines += ["", paint("bold", "Pools"), *(f"  {sentence}" for sentence in report.pools)]
    if any(cost[3] for cost in report.costs):
        lines += ["", paint("bold", "Cost")]
        wide = max(len(f"{usd:.2f}") for _, _, _, usd in report.costs)
        parts = [
            f"{by}, {count} task{'' if count == 1 else 's'}, {say_duration(took)}"
            for by, count, took, _ in report.costs
        ]
        lines += [f"  ${usd:>{wide}.2f}  {text}" for (_, _, _, usd), text in zip(report.costs, parts, strict=True)]
    if report.unknown:
        lines += ["", paint("bold", "Unknown cost"), *(f"  {sentence}" for sentence in report.unpriced())]
    if report.next_steps():
        lines += [
            "",
            paint("bold", "Next"),
            *(f"  {context.called(step.removeprefix('pit '))}" for step in report.next_steps()),
        ]
    return "\n".join(lines)


def _span(report: Report) -> str:
    """How long ago it begins, as `pit status` says it where it is a number of hours."""
    seconds = round(report.until - report.since)
    hours, rest = divmod(seconds, 3600)
    return f"Last {hours} hour{'' if hours == 1 else 's'}" if hours and not rest else f"Last {say_duration(seconds)}"
