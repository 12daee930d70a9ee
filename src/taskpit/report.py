"""What happened since a time, for the person who comes back: landed, done, waiting for you, failed, and what it cost.

Reads the changelog's end and the tasks it names; changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taskpit import pools
from taskpit.clock import instant, iso, local, say_duration
from taskpit.decode import amount
from taskpit.explain import reason_of
from taskpit.history import author, who
from taskpit.model import Card, Event, State, Value, Verdict
from taskpit.queue import Queue, cards
from taskpit.race import parent_of, racers_of
from taskpit.status import LABELS, Status, counted, status_of
from taskpit.store.folder import lately_aside
from taskpit.store.port import Looking

#: What may end a task: one that was split and waits has no result.
_ENDS = ("completed_task", "failed_task", "cancelled_task", "split_task")
#: What a result's reason says when its work is where it was asked to be: by itself, or after how its run or race ended.
LANDED = re.compile(r"(\A|; | won: )landed on ")
#: So many letters of a reason are shown.
LONGEST = 160
DAY = 86_400.0


class ReportRow(Value, frozen=True, kw_only=True):
    """A task in the report."""

    id: str
    title: str
    #: Where it landed, why it waits or failed, or how it was checked.
    what: str = ""
    worker: str = ""
    attempt: int = 1
    seconds: float = 0.0
    usd: float = 0.0

    @property
    def step(self) -> str:
        """What brings it on if it waits for a person: a review, an answer, or a look why."""
        begins = {"waits for your review": "review", "asks: ": "answer"}
        return next((step for words, step in begins.items() if self.what.startswith(words)), "why")


class Report(Value, frozen=True, kw_only=True):
    """What happened since a time."""

    since: float
    until: float
    landed: tuple[ReportRow, ...] = ()
    done: tuple[ReportRow, ...] = ()
    needs_you: tuple[ReportRow, ...] = ()
    failed: tuple[ReportRow, ...] = ()
    cancelled: tuple[ReportRow, ...] = ()
    running: tuple[ReportRow, ...] = ()
    #: Tasks that go on by themselves.
    ready: int = 0
    waiting: int = 0
    #: Files that could not be tasks.
    aside: int = 0
    #: Tasks, seconds and dollars by model where the agent told it, else by worker.
    costs: tuple[tuple[str, int, float, float], ...] = ()
    #: Runs and tokens by model, else by agent, where the cost in dollars is not known.
    unknown: tuple[tuple[str, int, float], ...] = ()
    #: When the last pools worked, and why they ended.
    pools: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """For programs."""
        parts = {name: [row.as_dict() for row in getattr(self, name)] for name, _ in PARTS}
        costs = [dict(zip(("by", "tasks", "seconds", "usd"), cost, strict=True)) for cost in self.costs]
        unknown = [dict(zip(("by", "runs", "tokens"), row, strict=True)) for row in self.unknown]
        times = {"since": iso(self.since), "until": iso(self.until)}
        return {
            **times,
            **parts,
            "ready": self.ready,
            "waiting": self.waiting,
            "costs": costs,
            "unknown": unknown,
            "pools": [*self.pools],
        }

    def headline(self) -> str:
        """The whole in a line."""
        found = {name: len(getattr(self, name)) for name, _ in PARTS} | {"ready": self.ready, "waiting": self.waiting}
        parts = [
            f"{count} {name}" if name == "landed" else counted(name, count) for name, count in found.items() if count
        ]
        parts += [f"{self.aside} set aside"] if self.aside else []
        usd = sum(cost[3] for cost in self.costs)
        return ", ".join([*parts, *([f"${usd:.2f}"] if usd else [])]) or "nothing happened"

    def markdown(self) -> str:
        """As a page people keep or send."""
        span = say_duration(self.until - self.since)
        lines = [f"# {local(self.since)[:16]} to {local(self.until)[:16]} ({span})"]
        lines += ["", self.headline().capitalize() + ".", ""]
        for name, word in PARTS:
            rows = getattr(self, name)
            if rows:
                lines += [f"## {word}", "", *(_line(row) for row in rows), ""]
        if self.pools:
            lines += ["## Pools", "", *(f"- {sentence}" for sentence in self.pools), ""]
        if self.costs:
            lines += ["## Cost", "", "| by | tasks | time | dollars |", "|---|---|---|---|"]
            lines += [f"| {by} | {count} | {say_duration(took)} | {usd:.2f} |" for by, count, took, usd in self.costs]
            lines.append("")
        if self.unknown:
            lines += ["## Unknown cost", "", *(f"- {sentence}" for sentence in self.unpriced()), ""]
        if self.next_steps():
            lines += ["## Next", "", *(f"- `{step}`" for step in self.next_steps()), ""]
        return "\n".join(lines)

    def unpriced(self) -> list[str]:
        """Say which runs cost an amount that is not known."""
        return [
            f"{by}: {runs} run{'' if runs == 1 else 's'}, {f'{int(tokens)} tokens' if tokens else 'no usage reported'}"
            for by, runs, tokens in self.unknown
        ]

    def next_steps(self) -> list[str]:
        """The commands that bring on what waits for a person, most wanted first."""
        rows = {step: [row for row in self.needs_you if row.step == step] for step in ("review", "answer", "why")}
        steps = ["pit review"] if rows["review"] else []
        steps += [f"pit answer {row.id} TEXT" for row in rows["answer"][:3]]
        steps += [f"pit why {row.id}" for row in [*rows["why"], *self.failed][:3]]
        return [*steps, "pit doctor"] if self.aside else steps


#: The parts in the order they are shown, and what each is called.
PARTS = (
    ("needs_you", LABELS["needs_you"]),
    ("landed", "Landed"),
    *((name, LABELS[name]) for name in ("done", "failed", "cancelled", "running")),
)


def _line(row: ReportRow) -> str:
    by = f" ({row.worker}{f', attempt {row.attempt}' if row.attempt > 1 else ''})" if row.worker else ""
    return f"- **{row.id}** {row.title}{by}{f': {row.what}' if row.what else ''}"


def newest(
    store: Looking, since: str = "", limit: int = 0, keep: Callable[[Event], bool] = lambda _: True
) -> tuple[list[Event], str]:
    """The lines of the changelog since then that are kept, at least the last so many, and the cursor after them.

    Read from the end as far back as it takes: there may be millions. Clocks of several machines and clocks that were
    set let lines stand a little out of order, and those that another queue brought stand where they came in.
    """
    early = iso(instant(since, 0.0) - DAY) if since else ""
    count = limit or 50
    while True:
        events, cursor = store.latest(count)
        found = [event for event in events if event.timestamp >= since and keep(event)]
        if len(events) < count or (limit and len(found) >= limit):
            return found, cursor
        if events[0].timestamp < early and not _was_brought(events):
            return found, cursor
        count *= 8


def _was_brought(events: Sequence[Event]) -> bool:
    """Whether the first of these lines is one that another queue brought: the line after them says how many came."""
    return any(
        event.action == "transferred_events" and place <= int(digits)
        for place, event in enumerate(events)
        if (digits := event.details.partition(" ")[0]).isdecimal()
    )


def make_report(
    queue: Queue,
    since: float,
    paid: Sequence[tuple[str, str, float, float]] = (),
    unknown: Sequence[tuple[str, int, float]] = (),
) -> Report:
    """How it went since then, and how it stands. `paid` is task, model, seconds and dollars of each run since then that
    was paid for, whatever came of it: a task that is not among these counts as its result says. `unknown` is model,
    runs and tokens where the cost is not known.
    """
    store, now = queue.store, queue.clock.now()
    ids = dict.fromkeys(event.about for event in newest(store, iso(since))[0] if event.did in _ENDS)
    finished = [card for card in store.read(list(ids)) if card is not None and card.result is not None]
    parts: dict[str, list[ReportRow]] = {name: [] for name, _ in PARTS}
    spent: dict[str, float] = {}
    for task_id, _, _, usd in paid:
        spent[task_id] = spent.get(task_id, 0.0) + usd
    for card in finished:
        if not parent_of(card.task):  # how its race ended is what the task says that they raced for
            parts[_part(card)].append(_row(card, spent))
    open_cards = list(cards(store, State.READY, tied=True))
    parts["needs_you"] = [_row(card, spent) for card in open_cards if status_of(card) is Status.NEEDS_YOU]
    parts["running"] = [_row(card, spent) for card in cards(store, State.CLAIMED)]
    waiting = sum(1 for card in open_cards if status_of(card) is Status.WAITING)
    ready = store.counts()[State.READY] - waiting - len(parts["needs_you"])
    kept = {name: tuple(rows) for name, rows in parts.items()}
    aside, costs = lately_aside(store.info().papers, since), _costs(finished, paid)
    ended = tuple(record.sentence() for record in pools.last_ended(store.info().papers, since))
    return Report(
        since=since,
        until=now,
        ready=max(ready, 0),
        waiting=waiting,
        aside=aside,
        costs=costs,
        unknown=tuple(unknown),
        pools=ended,
        **kept,
    )


def _part(card: Card) -> str:
    result = card.result
    if result is not None and result.verdict is Verdict.DONE:
        return "landed" if LANDED.search(result.reason) else "done"
    return "cancelled" if status_of(card) is Status.CANCELLED else "failed"


def _row(card: Card, spent: Mapping[str, float]) -> ReportRow:
    result = card.result
    text = result.reason if result and result.verdict is Verdict.DONE else reason_of(card)
    what = " ".join(text.split())
    return ReportRow(
        id=card.task.id,
        title=card.task.title,
        what=what if len(what) <= LONGEST else f"{what[: LONGEST - 1]}…",
        worker=_author(card),
        attempt=result.attempt if result else card.task.attempts + 1,
        seconds=result.seconds if result else 0.0,
        usd=spent.get(card.task.id) or (amount(result.cost.get("usd")) if result else 0.0),
    )


def _author(card: Card) -> str:
    return who(card.worker) if card.result is None else author(card.result)


def _costs(
    finished: list[Card], paid: Sequence[tuple[str, str, float, float]]
) -> tuple[tuple[str, int, float, float], ...]:
    known = {task_id for task_id, *_ in paid}
    rows = list(paid)
    for card in finished:
        if card.result is not None and card.task.id not in known and not racers_of(card.task):  # these have their own
            cost = card.result.cost
            by = str(cost.get("model") or cost.get("agent") or _author(card))
            rows.append((card.task.id, by, card.result.seconds, amount(cost.get("usd"))))
    found: dict[str, tuple[set[str], float, float]] = {}
    for task_id, by, took, dollars in rows:
        tasks, seconds, usd = found.get(by[:60], (set(), 0.0, 0.0))
        found[by[:60]] = (tasks | {task_id}, seconds + took, usd + dollars)
    ordered = sorted(found.items(), key=lambda one: (-one[1][2], one[0]))
    return tuple((by, len(tasks), seconds, usd) for by, (tasks, seconds, usd) in ordered if seconds or usd)
