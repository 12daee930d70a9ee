"""What has happened: `log` and `stats`, both from the changelog. Changes nothing but totals that are derived."""

from __future__ import annotations

from taskpit.cli import output
from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import a_count, example, past_moment
from taskpit.cli.output import paint
from taskpit.cli.progress import Progress
from taskpit.clock import instant, iso, say_duration
from taskpit.errors import CursorLost
from taskpit.queue import cards, tally
from taskpit.status import LABELS, STATUSES
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.queue import Queue
    from taskpit.task import Event

__all__ = ["VERBS", "event_line"]

#: `pit log` shows this many of the newest lines.
SCREENFUL = 50
#: How often a followed log is looked at, in seconds.
LOOK_AGAIN = 0.5
#: With more ready tasks than this not every one is read just to tell how old the oldest is.
MANY = 10_000
HOUR = 3600.0
DAY = 86_400.0


def _events(queue: Queue, cursor: str = "") -> Iterator[tuple[Event, str]]:
    """Every line after the cursor, each with the cursor after its page."""
    while True:
        events, after = queue.store.events(cursor)
        yield from ((event, after) for event in events)
        if not events:
            return
        cursor = after


# -- log -------------------------------------------------------------------------------------------


def _log_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "What happened, oldest first; with NAME, what that member of the crew has printed.\n"
        "With -f and --json every event is an envelope on a line of its own."
    )
    parser.epilog = example("pit log", "pit log -f", "pit log --task 0007 --since 2h", "pit log snake-1 -f")
    parser.add_argument("name", metavar="NAME", nargs="?", help="a member of the crew, or `supervisor`")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as more happens, until interrupted")
    parser.add_argument("--task", metavar="ID", help="only about this task")
    parser.add_argument("--since", metavar="T", help="2026-01-24T10:00:00Z, or 2h for the last two hours")
    told = f"only the newest N; 0 is all (default: {SCREENFUL}, with --since all)"
    parser.add_argument("--limit", type=a_count, metavar="N", help=told)


def _log(args: Namespace, context: Context) -> Reply:
    queue = context.queue
    if args.name:
        from taskpit.cli.crew import member_log

        if args.task or args.since:
            raise Usage(
                "--task and --since are for the queue's log", hint=f"`pit log {args.name} --limit N` is shorter."
            )
        return member_log(args.name, context, SCREENFUL if args.limit is None else args.limit, follow=args.follow)
    task_id = queue.resolve(args.task) if args.task else ""
    since = iso(past_moment(args.since, queue.clock.now())) if args.since else ""

    def keep(event: Event) -> bool:
        return task_id in ("", event.task_id, event.activity_id) and event.timestamp >= since

    limit = args.limit if args.limit is not None else 0 if since else SCREENFUL
    events, cursor = _newest(queue, keep, limit, since)
    shown = events[-limit:] if limit else events
    if args.follow:
        _follow(context, shown, cursor, keep)
    return Reply(data=[event.as_dict() for event in shown], text=lambda: _lines(shown))


def _newest(queue: Queue, keep: Callable[[Event], bool], limit: int, since: str) -> tuple[list[Event], str]:
    """So many of the newest lines that are kept, or all since then, and the cursor after them.

    From the end as far back as it takes: there may be millions. Clocks of several machines and clocks that were set
    let lines stand a little out of order.
    """
    early = iso(instant(since, 0.0) - DAY) if since else ""
    count = max(limit, SCREENFUL)
    while True:
        events, cursor = queue.store.latest(count)
        found = [event for event in events if keep(event)]
        if len(events) < count or (limit and len(found) >= limit) or events[0].timestamp < early:
            return found, cursor
        count *= 8


def _lines(events: Sequence[Event]) -> str:
    return "\n".join(map(event_line, events)) if events else "Nothing has happened yet."


def event_line(event: Event) -> str:
    """One line of the changelog as people read it."""
    details = f"  {' '.join(event.details.split())}" if event.details else ""
    return f"{paint('dim', event.timestamp)}  {event.about or '-':<6} {event.action:<15} {event.worker}{details}"


def _follow(context: Context, shown: Sequence[Event], cursor: str, keep: Callable[[Event], bool]) -> None:
    """Print what was and what comes, until interrupted."""

    def say(event: Event) -> None:
        if context.json:
            output.envelope(event.as_dict())
        else:
            context.tell(event_line(event))

    for event in shown:
        say(event)
    while True:
        try:
            for event, after in _events(context.queue, cursor):
                cursor = after
                if keep(event):
                    say(event)
        except CursorLost:
            cursor = ""  # somebody began a new changelog: so do we
        context.queue.clock.sleep(LOOK_AGAIN)


# -- stats -----------------------------------------------------------------------------------------


def _stats_arguments(parser: ArgumentParser) -> None:
    parser.description = "How many tasks are where, how fast they go, and what ran more than once."
    parser.epilog = example("pit stats", "pit stats --json")


def _stats(_: Namespace, context: Context) -> Reply:
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
    return Reply(data=data, text=lambda: _told(data))


def _past(context: Context, now: float) -> dict[str, object]:
    """What the changelog tells, in numbers."""
    from taskpit.store.stats_cache import tally as totals

    with Progress(context, "reading the changelog", turns=True):
        found = totals(context.queue.store, now)
    happened = found.happened
    return {
        "last_hour": {did.removesuffix("_task"): count for did, count in found.since(iso(now - HOUR)).items()},
        "claims": happened.get("claimed_task", 0),
        "retries": happened.get("retried_task", 0),
        "given_back": happened.get("recovered_task", 0),
        "run_twice": len(found.twice),
        "late_results": happened.get("late_result", 0),
    }


def _cost(queue: Queue, now: float) -> dict[str, object]:
    """What agents have reported of their cost."""
    info = queue.store.info()
    if not info.papers:
        return {}
    from taskpit.worker.budget import Ledger

    ledger = Ledger(info.papers)
    models = ledger.by_model()
    return {
        "cost": ledger.total().as_dict(),
        "cost_today": ledger.of_day(now).as_dict(),
        **({"models": models} if models else {}),
    }


def _told(data: dict[str, object]) -> str:
    counts: Any = data["statuses"]
    hour = data["last_hour"]
    oldest = data["oldest_ready_seconds"]
    rows = [
        *((LABELS[status], counts[status]) for status in STATUSES),
        ("oldest ready", say_duration(oldest) if isinstance(oldest, float) else "-"),
        ("last hour", ", ".join(f"{count} {word}" for word, count in hour.items()) if isinstance(hour, dict) else ""),
        ("claims", f"{data['claims']}, {data['retries']} retried, {data['given_back']} given back"),
        ("run twice", f"{data['run_twice']} (claimed again after their worker was lost)"),
        ("late results", f"{data['late_results']} (kept aside, never published)"),
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


VERBS: Handlers = {"log": (_log_arguments, _log), "stats": (_stats_arguments, _stats)}
