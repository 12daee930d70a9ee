"""The one screen: what needs you, what runs, what waits, what the last day brought; once, or live. Changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TextIO

from taskpit import errors, fs, pools, schedule
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.crew import CONFIG, crew_files
from taskpit.cli.log import event_line
from taskpit.cli.options import a_duration
from taskpit.cli.output import aligned, cut, pad, paint, table, terminal_width
from taskpit.cli.show import COLOURS as STATUS_COLOURS
from taskpit.cli.show import set_aside
from taskpit.clock import iso, say_duration
from taskpit.crew.file import posts_of
from taskpit.crew.state import SUPERVISOR, Post
from taskpit.crew.status import MemberRow, doing, idle_workers, pid_here, rows
from taskpit.events import new_events
from taskpit.explain import reason_of
from taskpit.history import who
from taskpit.model import Card, Event, State, Task, Value
from taskpit.policy import LANDING, PULL, REVIEWER
from taskpit.queue import Queue, cards, tally
from taskpit.race import is_racer
from taskpit.report import DAY, LANDED, newest
from taskpit.status import STATUSES, Status, counted, status_of, summary
from taskpit.text import fit, width_of

#: So many tasks of each part people see; programs see all.
SCREENFUL = 10
#: So many of the last pools are shown.
SHOWN_POOLS = 3
#: How often a live screen looks, in seconds, and at most this many times as long as looking took.
PACE, RARELY = 0.5, 10
COLOURS = {"up": "green", "waiting": "blue", "paused": "yellow", "stalled": "red", "down": "dim"}
#: What the changelog calls the ends that a day is counted by, and the words for them in the order they are shown.
ENDS = {"completed_task": "done", "failed_task": "failed", "cancelled_task": "cancelled", "split_task": "done"}
DAY_WORDS = ("landed", "done", "failed", "cancelled")


@takes(
    arg("WORK-ITEM", "only this work item, in a queue of activities", dest="id", nargs="?"),
    arg("-f --follow", "follow changes until interrupted"),
    arg("--all", "one line for every queue that you made or trusted on this machine"),
    arg("--for T", "with -f: end after this time", dest="seconds", type=a_duration),
    CONFIG,
)
def _status(args: Args, context: Context) -> Reply:
    """Show the queue on one screen: tasks that need you, running and waiting tasks, and the last 24 hours.
    With -f it stays live until Ctrl-C; in a pipe it prints one line per change (with --json one object).

    pit status
    pit status -f
    pit status --all
    pit status -f --for 10m > today.log
    pit status WI-001
    """
    if args.seconds and not args.follow:
        raise Usage("--for goes with -f", hint="For example: `pit status -f --for 10m`.")
    if [bool(args.all), bool(args.id), args.follow].count(True) > 1:
        raise Usage("-f, --all and a work item are each shown by themselves", hint="`pit board --all` shows all, live.")
    if args.all:
        return _every_queue(context)
    posts, trouble = posts_of(crew_files(context).root, context.env, args.config)
    if trouble is not None:
        context.warn(trouble.message, hint=trouble.hint)
    day = LastDay(context.queue)
    if args.follow:
        return _follow(args, context, posts, day)
    overview = look(context, posts, day).replace(work_items=_work_items(context, args.id))
    return Reply(data=overview.facts(), text=lambda: screen(overview, terminal_width()))


def _every_queue(context: Context) -> Reply:
    """A line for each queue of this user, those that need them first. Looks, and connects to nothing."""
    from taskpit.run.user_queues import Queues

    queues = Queues(context.env)
    try:
        found = queues.look()
    finally:
        queues.close()
    wide = max((width_of(one.path) for one in found), default=0)
    cost = [f", ${one.usd:.2f} in 24 hours" if one.usd else "" for one in found]
    shown = [f"{one.trouble or summary(one.counts)}{usd}" for one, usd in zip(found, cost, strict=True)]
    lines = [f"{pad(one.path, wide)}  {text}" for one, text in zip(found, shown, strict=True)]
    data = [{"path": one.path, "trouble": one.trouble, **one.counts, "usd": one.usd} for one in found]
    return Reply(data=data, text="\n".join(lines) or "You have not made or trusted any queue on this machine.")


def _work_items(context: Context, named: str | None) -> list[dict[str, Any]] | None:
    """The tree, where there is one."""
    queue = context.queue
    if queue.store.info().layout != "activities":
        if named:
            raise errors.Invalid(f"{named}: only a queue of layout activities has work items")
        return None
    from taskpit.cli.activity import facts, work_items

    return facts(work_items(context), queue.resolve(named) if named else "")


# -- looking ---------------------------------------------------------------------------------------


class LastDay:
    """What the changelog tells of the last 24 hours; read once, then followed."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        events, self._cursor = newest(queue.store, iso(queue.clock.now() - DAY))
        #: When and how each task ended that is still over, by its id.
        self._ends: dict[str, tuple[str, str]] = {}
        self._hear(events)

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            if is_racer(event.about) or (event.activity_id and event.task_id):
                continue  # the end of its race is that of another task; a step's is not its activity's
            if event.did in ENDS and not event.waits:
                landed = event.did == "completed_task" and bool(LANDED.search(event.details))
                self._ends[event.about] = (event.timestamp, "landed" if landed else ENDS[event.did])
            elif event.did == "reopened_task":
                self._ends.pop(event.about, None)

    def more(self) -> list[Event]:
        """The lines since the last look."""
        found, self._cursor = new_events(self._queue.store, self._cursor)
        self._hear(found)
        return found

    def facts(self) -> dict[str, float]:
        """How many tasks ended how, and what it cost."""
        now = self._queue.clock.now()
        self._ends = {name: end for name, end in self._ends.items() if end[0] >= iso(now - DAY)}
        how = [word for _, word in self._ends.values()]
        facts: dict[str, float] = {word: how.count(word) for word in DAY_WORDS}
        root = self._queue.store.info().papers
        if root:
            from taskpit.run.budget import Ledger

            facts["usd"] = round(sum(usd for at, _, usd in Ledger(root).entries() if at >= now - DAY), 4)
        return facts


class Overview(Value, frozen=True, kw_only=True):
    """How the queue stands."""

    where: str
    #: Tasks by the state a store keeps, and how many of the ready ones are held; by where they stand.
    counts: dict[str, int]
    statuses: dict[str, int]
    paused: str
    #: Backends that have had enough for a while.
    resting: list[str]
    #: The supervisor's process, 0 if there is none.
    supervisor: int
    crew: list[MemberRow]
    #: Tasks with id, title and why; those that run with worker, seconds and whether the worker lives.
    needs_you: list[dict[str, str]]
    running: list[dict[str, Any]]
    failed: list[dict[str, str]]
    #: Workers that live and have nothing to do.
    idle: list[str]
    #: How many wait for what, and the seconds until the first of those that wait for a time.
    waiting: dict[str, float]
    #: Schedules, next ones first.
    schedules: list[dict[str, object]]
    #: What ended in the last 24 hours, and what it cost.
    last_day: dict[str, float]
    #: Work items with their activities, where a queue has them.
    work_items: list[dict[str, Any]] | None = None
    #: What of its work has not come to rest: waits for review or landing, is not in the person's checkout yet.
    landing: list[str] = []
    #: Tasks that nobody of this crew will take, with why; for programs they are among the stuck ones.
    untaken: list[dict[str, str]] = []
    #: When the last pools worked, and why they ended.
    pools: list[str] = []
    #: What to do about files that could not be tasks.
    aside: list[str] = []
    #: When this was.
    now: float = 0.0

    def facts(self) -> dict[str, object]:
        """For programs."""
        agents = [_facts(row) for row in self.crew if row.kind != "service"]
        services = [_facts(row) for row in self.crew if row.kind == "service"]
        lost = [{"id": one["id"], "title": one["title"], "why": _lost(one)} for one in self.running if _lost(one)]
        stuck = [*lost, *self.needs_you, *self.untaken, *self.failed]
        told = {key: value for key, value in self.as_dict().items() if key not in ("untaken", "aside", "now")}
        return {**told, "agents": agents, "services": services, "crew": len(self.crew), "stuck": stuck}


def _facts(row: MemberRow) -> dict[str, object]:
    return {**row.as_dict(), "until": iso(row.until) if row.until else None}


def _lost(running: dict[str, Any]) -> str:
    """What to say of a task whose worker is dead; empty for all others."""
    dead = running["alive"] == "no"
    return f"{running['worker']} is dead: the next worker, or `pit sweep`, gives it back" if dead else ""


def look(context: Context, posts: dict[str, Post], day: LastDay) -> Overview:
    """How it stands now."""
    from taskpit.landing.review import NO_REVIEWER, standing

    queue, desk = context.queue, crew_files(context)
    now, info, paused = queue.clock.now(), queue.store.info(), queue.store.paused()
    crew = rows(desk, posts, paused)
    ready = list(cards(queue.store, State.READY, tied=True))
    running = [_running(card, now) for card in cards(queue.store, State.CLAIMED)]
    ended = list(cards(queue.store, State.FAILED))
    failed = [card for card in ended if status_of(card) is Status.FAILED]
    failed.sort(key=lambda card: -(card.result.finished if card.result else 0.0))
    needs_you = [_entry(card) for card in ready if status_of(card) is Status.NEEDS_YOU]
    untaken: list[dict[str, str]] = []
    if crew and not any(row.role == "planner" for row in crew):
        big = [card for card in ready if card.task.big and not card.held]
        untaken += [_entry(card, "it is big, and the crew has no planner to split it") for card in big]
    counts = {str(state): count for state, count in queue.store.counts().items()}
    landing = standing(queue)
    if landing.judged and not landing.reviewer:
        judged = [card for card in ready if card.task.id in landing.judged]
        untaken += [_entry(card, f"waits for a reviewer agent, and none runs: {NO_REVIEWER}") for card in judged]
    recurring = sorted((card.task for card in ready if "every" in card.task.extra), key=lambda task: task.not_before)
    return Overview(
        where=desk.root if info.kind == "files" else info.where,
        counts={**counts, "held": sum(1 for card in ready if card.held)},
        statuses=tally(queue.store, {State.READY: ready, State.FAILED: ended}),
        paused=paused,
        resting=_resting(desk.root, queue),
        supervisor=pid_here(desk, SUPERVISOR),
        crew=crew,
        needs_you=needs_you,
        running=running,
        failed=[_entry(card) for card in failed],
        idle=idle_workers(desk.root, {one["worker"] for one in running} | {row.name for row in crew}),
        waiting=_waiting([card for card in ready if status_of(card) is Status.WAITING], now),
        schedules=_schedules(recurring),
        last_day=day.facts(),
        landing=landing.sentences(),
        untaken=untaken,
        pools=[record.sentence() for record in pools.last_ended(info.papers, now - DAY, SHOWN_POOLS)],
        aside=set_aside(queue),
        now=now,
    )


def _resting(root: str, queue: Queue) -> list[str]:
    """Agents that have reached a limit, in words."""
    if not fs.exists(f"{root}/.taskpit/backends"):
        return []
    from taskpit.run.agent_limits import resting  # only where agents have worked

    return resting(root, queue.clock)


def _schedules(tasks: Sequence[Task]) -> list[dict[str, object]]:
    if not tasks:
        return []

    return [schedule.facts(task) for task in tasks]


def _entry(card: Card, why: str = "") -> dict[str, str]:
    return {"id": card.task.id, "title": card.task.title or card.task.slug, "why": why or reason_of(card)}


def _running(card: Card, now: float) -> dict[str, Any]:
    seconds = max(now - card.since, 0.0) if card.since else 0.0
    return {**_entry(card), "worker": who(card.worker), "seconds": round(seconds, 1), "alive": card.alive}


def _waiting(waiting: Sequence[Card], now: float) -> dict[str, float]:
    """How many wait for what, and how long until the first that waits for a time."""
    times = [card.task.not_before - now for card in waiting if card.held.startswith(("not before", "a schedule"))]
    tasks = sum(1 for card in waiting if card.held.startswith("needs "))
    landing = sum(1 for card in waiting if card.held.startswith((LANDING, PULL)))
    review = sum(1 for card in waiting if card.held.startswith(REVIEWER))
    other = len(waiting) - len(times) - tasks - landing - review
    found = {"tasks": tasks, "time": len(times), "review": review, "landing": landing, "other": other}
    return {**found, **({"next_seconds": round(max(min(times), 0.0), 1)} if times else {})}


# -- for people ------------------------------------------------------------------------------------


def screen(overview: Overview, width: int, *, live: bool = False) -> str:
    """All of it as text; what matters most to a person first.

    What is told of landing ends with commands to type: it is cut only where each line must fit.
    """
    parts = [paint(STATUS_COLOURS[one], counted(one, overview.statuses[one])) for one in STATUSES]
    shown = [text for one, text in zip(STATUSES, parts, strict=True) if overview.statuses[one]]
    lines = [paint("bold", fit(overview.where, width)), ", ".join(shown) or "The queue is empty."]
    told = [paint("yellow", text) for text in overview.landing]
    lines += [paint("yellow", text) for text in (overview.paused, *overview.resting, *overview.aside) if text] + told
    if overview.work_items is not None:
        from taskpit.cli.activity import lines as tree

        lines += tree(overview.work_items) or ["There is no work item yet: pit add 'a first one'"]
        return "\n".join([*lines, *_crew_lines(overview), *_part("Last 24 hours", _day_line(overview.last_day))])
    lines += _part("Needs you", _lines(overview.needs_you, width, "yellow"))
    lines += _part("Stuck", _lines(overview.untaken, width, "yellow"))
    lines += _part("Running", [_running_line(one, width) for one in overview.running], _idle(overview, width))
    lines += _crew_lines(overview)
    lines += _part("Waiting", [_waiting_line(overview.waiting)] if overview.statuses[Status.WAITING] else [])
    lines += _part("Schedules", _schedule_lines(overview.schedules, width, iso(overview.now)))
    lines += _part("Failed", _lines(overview.failed, width, "red"))
    lines += _part("Last 24 hours", [*_day_line(overview.last_day), *(f"  {one}" for one in overview.pools)])
    if not any(overview.statuses.values()):
        lines.append("Add a task: pit add 'a first task'")
    return "\n".join(line if line in told and not live else cut(line, width) for line in lines)


def _part(title: str, lines: list[str], below: str = "") -> list[str]:
    if not lines and not below:
        return []
    more = [paint("dim", f"  … and {len(lines) - SCREENFUL} more")] if len(lines) > SCREENFUL else []
    return ["", paint("bold", title), *lines[:SCREENFUL], *more, *([below] if below else [])]


def _lines(found: Sequence[dict[str, str]], width: int, colour: str) -> list[str]:
    shown = [(one["id"], one["title"], one["why"]) for one in found]
    return aligned(shown[:SCREENFUL], width, colour) + [""] * len(shown[SCREENFUL:])


def _running_line(one: dict[str, Any], width: int) -> str:
    life = {"yes": "", "no": "  dead: `pit sweep` gives it back"}.get(one["alive"], "  may or may not be alive")
    tail = f"  {one['worker']}  {say_duration(int(one['seconds']))}{life}"
    room = max(min(width - len(tail) - len(one["id"]) - 4, 60), 10)
    title = pad(fit(one["title"], room), room if width < 1 << 19 else 0)
    return f"  {paint('bold', one['id'])}  {title}{paint('red' if one['alive'] == 'no' else 'blue', tail)}"


def _idle(overview: Overview, width: int) -> str:
    idle = overview.idle
    if idle:
        return paint("dim", fit(f"  {len(idle)} idle: {', '.join(idle)}", width))
    nobody = not overview.running and not overview.crew and overview.statuses[Status.READY]
    return paint("dim", "  No worker runs. `pit work -- CMD` starts some.") if nobody else ""


def _waiting_line(waiting: dict[str, float]) -> str:
    next_one = f" (the first in {say_duration(waiting['next_seconds'])})" if "next_seconds" in waiting else ""
    parts = {
        "tasks": "for other tasks",
        "time": f"for a time{next_one}",
        "review": "for a reviewer",
        "landing": "to land",
        "other": "for other reasons",
    }
    return "  " + ", ".join(f"{int(waiting[key])} {text}" for key, text in parts.items() if waiting[key])


def _schedule_lines(schedules: Sequence[dict[str, object]], width: int, now: str) -> list[str]:
    due = [one["held"] or _next(str(one["next"] or ""), now) for one in schedules]
    lines = [f"{one['every']}; {when}" for one, when in zip(schedules, due, strict=True)]
    rows = [
        {"id": str(one["id"]), "title": str(one["title"]), "why": why}
        for one, why in zip(schedules, lines, strict=True)
    ]
    return _lines(rows, width, "dim")


def _next(when: str, now: str) -> str:
    if not when:
        return "not yet due"
    return f"next {when}" if when > now else "due now"


def _day_line(day: dict[str, float]) -> list[str]:
    parts = [f"{int(day[word])} {word}" for word in DAY_WORDS if day[word]]
    parts += [f"${day['usd']:.2f}"] if day.get("usd") else []
    return [f"  {', '.join(parts)}"] if parts else []


def _crew_lines(overview: Overview) -> list[str]:
    crew = overview.crew
    if not crew:
        return []
    body = []
    for row in crew:
        there = bool(row.pid) or row.wanted
        age, last = (say_duration(int(row.age)), row.last) if there else ("", "")
        body.append((row.name, row.role, row.state, age, str(row.restarts or ""), doing(row), last))
    colours = [("bold", "", COLOURS[row.state], "", "", "", "dim") for row in crew]
    lines = table(("NAME", "ROLE", "STATE", "AGE", "RESTARTS", "TASK", "LAST OUTPUT"), body, colours).splitlines()
    if any(row.wanted for row in crew) and not overview.supervisor:
        lines.append(paint("red", "The supervisor is gone, so nothing is restarted. `pit crew up` starts it again."))
    return ["", paint("bold", "Crew"), *(f"  {line}" for line in lines)]


# -- live ------------------------------------------------------------------------------------------


def _follow(args: Args, context: Context, posts: dict[str, Post], day: LastDay) -> Reply:
    """The same, live; in a pipe one line per change."""
    from shutil import get_terminal_size

    clock = context.queue.clock
    lives = sys.stdout.isatty() and context.env.get("TERM") != "dumb" and not context.json
    stage = _InPlace(context, sys.stdout) if lives else None
    deadline = clock.monotonic() + args.seconds if args.seconds else None
    try:
        while True:
            began = clock.monotonic()
            if stage is not None:
                text = screen(look(context, posts, day), terminal_width(), live=True)
                stage.show("\n".join(text.split("\n")[: max(get_terminal_size().lines - 1, 3)]))
            took = clock.monotonic() - began
            left = max(PACE, RARELY * took) if deadline is None else deadline - clock.monotonic()
            if left <= 0:
                break
            clock.sleep(min(left, max(PACE, RARELY * took)))
            events = day.more()
            if stage is None and events:
                counts = tally(context.queue.store)
                for event in events:
                    context.say({**event.as_dict(), "counts": counts}, f"{event_line(event)}  ({summary(counts)})")
    except KeyboardInterrupt:  # that is how one ends it
        context.json = False
        if stage is not None:
            sys.stdout.write("\n")  # the shell would write its prompt into the screen
    return Reply(data={"counts": tally(context.queue.store)}) if context.json else Reply()


class _InPlace:
    """A block of lines that is written over by the next one."""

    def __init__(self, context: Context, stream: TextIO) -> None:
        self._context = context
        self._stream = stream
        self._shown = ""

    def show(self, text: str) -> None:
        """This instead of what was there; nothing if it is the same."""
        if text == self._shown:
            return
        if self._shown:
            self._stream.write(f"\x1b[{self._shown.count(chr(10)) + 1}A\x1b[J")
        self._context.screen.write(text, self._stream)
        self._shown = text
