"""One screen: how many tasks are where, who of the crew does what, what is stuck and why. Changes nothing."""

from __future__ import annotations

from taskpit import errors
from taskpit.cli.context import Reply
from taskpit.cli.crew import config_option, papers
from taskpit.cli.options import example
from taskpit.cli.output import paint, table, terminal_width
from taskpit.clock import iso, say_duration
from taskpit.queue import cards
from taskpit.task import State
from taskpit.text import fit
from taskpit.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from taskpit.cli.context import Context
    from taskpit.cli.table import Handlers
    from taskpit.queue import Queue
    from taskpit.task import Card
    from taskpit.worker.post import Post
    from taskpit.worker.standing import Row

__all__ = ["VERBS", "Standing", "look", "posts_of", "screen"]

#: How many stuck tasks people see; programs see all.
SCREENFUL = 10
COLOURS = {"up": "green", "waiting": "blue", "paused": "yellow", "stalled": "red", "down": "dim"}


def _status_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "One screen: how many tasks are where, who of the crew does what, what is stuck and why.\n"
        "A crew is up, down, waiting (until a time it said), paused (with the queue) or stalled."
    )
    parser.epilog = example("pit status", "pit status --json", "pit status WI-001")
    parser.add_argument("id", metavar="WORK-ITEM", nargs="?", help="only this work item, where a queue has them")
    config_option(parser)


def _status(args: Namespace, context: Context) -> Reply:
    posts, trouble = posts_of(context, args.config)
    standing = look(context, posts)
    standing = standing.replace(work_items=_work_items(context, args.id))
    if trouble is not None:
        context.warn(trouble.message, hint=trouble.hint)
    return Reply(data=standing.facts(), text=lambda: screen(standing))


def _work_items(context: Context, named: str | None) -> list[dict[str, Any]] | None:
    """The tree, where there is one."""
    queue = context.queue
    if queue.store.info().layout != "activities":
        if named:
            raise errors.Invalid(f"{named}: only a queue of layout activities has work items")
        return None
    from taskpit.cli.activity import work_items
    from taskpit.cli.tree import facts

    return facts(work_items(context), queue.resolve(named) if named else "")


def posts_of(context: Context, config: str | None) -> tuple[dict[str, Post], errors.TaskpitError | None]:
    """Who is in the file; a file that cannot be read is a warning, since what runs can be shown without it."""
    from taskpit.worker import crewfile

    root = papers(context).root
    try:
        path = config or crewfile.find(root)
    except errors.NotFound:
        return {}, None
    try:
        return {post.name: post for post in crewfile.load(path, root, context.env).posts}, None
    except errors.TaskpitError as error:
        return {}, error


class Standing(Value):
    """How the queue and its crew stand."""

    where: str
    #: Tasks by state, and how many of the ready ones are held.
    counts: dict[str, int]
    paused: str
    #: Backends that have had enough for a while.
    resting: list[str]
    #: The supervisor's process, 0 if there is none.
    supervisor: int
    crew: list[Row]
    #: Tasks that don't go on, each with id, title and why.
    stuck: list[dict[str, str]]
    #: Work items with their activities, where a queue has them.
    work_items: list[dict[str, Any]] | None = None
    #: What of its work has not come to rest: waits for review or landing, is not in the person's checkout yet.
    landing: list[str] = []

    def facts(self) -> dict[str, object]:
        """For programs."""
        agents = [_facts(row) for row in self.crew if row.kind != "service"]
        services = [_facts(row) for row in self.crew if row.kind == "service"]
        return {**self.as_dict(), "agents": agents, "services": services, "crew": len(self.crew)}


def _facts(row: Row) -> dict[str, object]:
    return {**row.as_dict(), "until": iso(row.until) if row.until else None}


def look(context: Context, posts: dict[str, Post]) -> Standing:
    """How it stands now."""
    from taskpit.worker.backends import resting
    from taskpit.worker.crew import SUPERVISOR
    from taskpit.worker.standing import pid_here, rows

    queue, desk = context.queue, papers(context)
    info = queue.store.info()
    paused = queue.store.paused()
    crew = rows(desk, posts, paused)
    ready = list(cards(queue.store, State.READY, tied=True))
    counts = {str(state): count for state, count in queue.store.counts().items()}
    return Standing(
        where=desk.root if info.kind == "files" else info.where,
        counts={**counts, "held": sum(1 for card in ready if card.held)},
        paused=paused,
        resting=resting(desk.root, queue.clock),
        supervisor=pid_here(desk, SUPERVISOR),
        crew=crew,
        stuck=_stuck(queue, ready, crew),
        landing=_landing(queue),
    )


def _stuck(queue: Queue, ready: list[Card], crew: list[Row]) -> list[dict[str, str]]:
    """What does not go on by itself first, then what waits for other tasks or a time."""
    held = sorted((card for card in ready if card.held), key=lambda card: not card.task.hold)
    lost = [card for card in cards(queue.store, State.CLAIMED) if card.alive == "no"]
    found = [
        _entry(card, f"{card.worker} is dead: whoever works here next gives it back, or `pit sweep`") for card in lost
    ]
    found += [_entry(card, card.held) for card in held]
    found += [
        _entry(card, f"failed: {card.result.reason if card.result else 'see its result'}")
        for card in cards(queue.store, State.FAILED)
    ]
    if crew and not any(row.role == "planner" for row in crew):
        found += [_entry(card, "big, and the crew has no planner") for card in ready if card.task.big and not card.held]
    return found


def _landing(queue: Queue) -> list[str]:
    from taskpit.landing.review import standing

    return standing(queue).told()


def _entry(card: Card, why: str) -> dict[str, str]:
    return {"id": card.task.id, "title": card.task.title or card.task.slug, "why": " ".join(why.split())}


# -- for people ------------------------------------------------------------------------------------


def screen(standing: Standing) -> str:
    """All of it as text."""
    lines = [f"{paint('bold', standing.where)}: {_totals(standing.counts)}"]
    if standing.paused:
        lines.append(paint("yellow", standing.paused))
    lines += [paint("yellow", told) for told in (*standing.resting, *standing.landing)]
    if standing.work_items is not None:
        from taskpit.cli.tree import lines as tree

        lines += tree(standing.work_items) or ["There is no work item yet: pit add 'a first one'"]
        lines += ["", *_crew_lines(standing)] if standing.crew else []
        return "\n".join(lines)
    lines += ["", *_crew_lines(standing)]
    stuck = standing.stuck
    if stuck:
        lines += ["", paint("bold", "stuck")]
        lines += [_stuck_line(one) for one in stuck[:SCREENFUL]]
        lines += [f"  … and {len(stuck) - SCREENFUL} more: `pit list --state held`"] if len(stuck) > SCREENFUL else []
    return "\n".join(lines)


def _stuck_line(one: dict[str, str]) -> str:
    head = f"  {one['id']}  {one['title']}"
    return f"{head}  {paint('yellow', fit(one['why'], max(terminal_width() - len(head) - 2, 20)))}"


def _totals(counts: dict[str, int]) -> str:
    held = f" ({counts['held']} held)" if counts["held"] else ""
    return (
        f"{counts['ready']} ready{held}, {counts['claimed']} claimed, {counts['done']} done, {counts['failed']} failed"
    )


def _crew_lines(standing: Standing) -> list[str]:
    from taskpit.worker.standing import told

    crew = standing.crew
    if not crew:
        return ["There is no crew: agents.toml would name one, `pit init DIR --template snakepit` makes an example."]
    body = []
    for row in crew:
        there = bool(row.pid) or row.wanted
        age, last = (say_duration(int(row.age)), row.last) if there else ("", "")
        body.append((row.name, row.role, row.state, age, str(row.restarts or ""), told(row), last))
    colours = [("bold", "", COLOURS[row.state], "", "", "", "dim") for row in crew]
    lines = table(("NAME", "ROLE", "STATE", "AGE", "RESTARTS", "TASK", "LAST OUTPUT"), body, colours).splitlines()
    if any(row.wanted for row in crew) and not standing.supervisor:
        lines.append(paint("red", "the supervisor is gone: nobody is healed; `pit up` starts it again"))
    return lines


VERBS: Handlers = {"status": (_status_arguments, _status)}
