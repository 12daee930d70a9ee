"""Looking at tasks: `list`, `show`, `ready`, `why`. Changes nothing."""

from __future__ import annotations

from taskpit.cli.context import Reply
from taskpit.cli.options import a_count, example, id_argument, named, words
from taskpit.cli.output import paint, table
from taskpit.clock import say_duration
from taskpit.explain import ending, facts, standing, tries
from taskpit.facts import card_facts, full_facts
from taskpit.queue import cards
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from taskpit.cli.context import Context
    from taskpit.cli.table import Handlers
    from taskpit.queue import Queue
    from taskpit.task import Card, Result

__all__ = ["VERBS"]

#: People see this many tasks unless they ask for more; programs see all.
SCREENFUL = 50
#: Tasks are read this many at a time.
PAGE = 1000
COLOURS = {"ready": "green", "held": "yellow", "claimed": "blue", "done": "dim", "failed": "red", "cancelled": "red"}


def _some(found: Iterator[Card], limit: int, keep: Callable[[Card], bool]) -> tuple[list[Card], bool]:
    """As many as asked for (0: all), and whether there are more."""
    some: list[Card] = []
    for card in found:
        if keep(card):
            if limit and len(some) == limit:
                return some, True
            some.append(card)
    return some, False


# -- list and ready --------------------------------------------------------------------------------


def _list_arguments(parser: ArgumentParser) -> None:
    parser.description = "Tasks and where they are: ready ones in the order they will be taken, then the others."
    parser.epilog = example("pit list", "pit list --state held", "pit list --tag web --json")
    states = ("ready", "held", "claimed", "done", "failed", "all")
    parser.add_argument("--state", choices=states, default="all", help="held: ready, but may not be taken yet")
    _filters(parser)


def _filters(parser: ArgumentParser) -> None:
    parser.add_argument("--tag", action="append", metavar="T", help="only with this tag; repeated: with one of them")
    told = f"at most so many; 0 is all (default: {SCREENFUL}; with --json all)"
    parser.add_argument("--limit", type=a_count, metavar="N", help=told)


def _list(args: Namespace, context: Context) -> Reply:
    state = {"all": None, "held": State.READY}.get(args.state, args.state)
    return _listing(args, context, None if state is None else State(state), only_held=args.state == "held")


def _ready_arguments(parser: ArgumentParser) -> None:
    parser.description = "What may be taken now, in the order it will be taken. Held tasks are not shown."
    parser.epilog = example("pit ready", "pit ready --tag web --limit 5")
    _filters(parser)


def _ready(args: Namespace, context: Context) -> Reply:
    return _listing(args, context, State.READY, only_free=True)


def _listing(
    args: Namespace, context: Context, state: State | None, *, only_held: bool = False, only_free: bool = False
) -> Reply:
    tags = set(words(args.tag))

    def keep(card: Card) -> bool:
        if (only_held and not card.held) or (only_free and card.held):
            return False
        return not tags or bool(tags & set(card.task.tags))

    limit = args.limit if args.limit is not None else 0 if context.json else SCREENFUL
    size = limit + 1 if limit and not (tags or only_held or only_free) else PAGE
    some, more = _some(cards(context.queue.store, state, min(size, PAGE), tied=only_held), limit, keep)
    if context.json:
        return Reply(data=[card_facts(card) for card in some])
    return Reply(text=_page(context.queue, some, more=more))


def _page(queue: Queue, some: list[Card], *, more: bool) -> str:
    counts = queue.store.counts()
    if not any(counts.values()):
        return "The queue is empty. Put something in: pit add 'a first task'"
    lines = [_rows(some)] if some else ["No task is like that."]
    if more:
        lines.append(paint("dim", f"… and more; `--limit 0` shows all, beginning with these {len(some)}."))
    return "\n".join([*lines, "", _summary(counts, sum(1 for card in some if card.held))])


def _rows(some: list[Card]) -> str:
    rows, colours = [], []
    for card in some:
        state = standing(card)
        held = f"  ({card.held})" if card.held else "  (not checked)" if card.checked == "no" else ""
        priority = str(card.task.priority) if card.task.priority else ""
        tags = ",".join(card.task.tags)
        rows.append((card.task.id, state, priority, card.worker, tags, (card.task.title or card.task.slug) + held))
        colours.append(("bold", COLOURS[state], "", "", "dim", ""))
    return table(("ID", "STATE", "PRIORITY", "WORKER", "TAGS", "TITLE"), rows, colours)


def _summary(counts: dict[State, int], held: int) -> str:
    """How many are where, in one line."""
    shown = (State.READY, State.CLAIMED, State.FAILED, State.DONE)
    told = [f"{counts[state]} {state}" for state in shown]
    told[0] += f" ({held} held)" if held else ""
    return ", ".join(told)


# -- show ------------------------------------------------------------------------------------------


def _show_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "One task with its result, its tries and its notes.\n"
        "With --json: one task as an object, several as a list of them."
    )
    parser.epilog = example("pit show 0001", "pit show 1 2 --json")
    id_argument(parser, several=True)


def _show(args: Namespace, context: Context) -> Reply:
    found = [context.queue.card(task_id) for task_id in named(context, args.ids)]
    data = [full_facts(card) for card in found]
    return Reply(
        data=data[0] if len(data) == 1 else data,
        text=lambda: "\n\n".join(_sheet(card, context.queue.clock.now()) for card in found),
    )


def _sheet(card: Card, now: float) -> str:
    task, state, result = card.task, standing(card), card.result
    lines = [f"{paint('bold', task.id)}  {paint('bold', task.title or task.slug)}"]
    for name, value in facts(card, now):
        shown = value.replace(state, paint(COLOURS[state], state), 1) if name == "state" else value
        lines.append(f"  {name:<10} {shown}")
    sections = [
        ("", task.body),
        *(_result_sections(result) if result else ()),
        ("Tries", "\n".join(tries(card.tries))),
        ("Notes", card.notes),
        ("Late results, kept aside", "\n".join(card.late)),
    ]
    for title, text in sections:
        if text.strip():
            lines += ["", *([paint("bold", title)] if title else []), text.strip("\n")]
    return "\n".join(lines)


def _result_sections(result: Result) -> list[tuple[str, str]]:
    lines, proof = ending(result), result.evidence
    if proof:
        lines.append(f"check: {proof.command} exited {proof.exit_code} after {say_duration(proof.seconds)}")
    return [("Result", "\n".join(lines)), ("Output", result.output), ("Check", proof.tail if proof else "")]


# -- why -------------------------------------------------------------------------------------------


def _why_arguments(parser: ArgumentParser) -> None:
    parser.description = "Why a task is where it is: what holds it, what happened to it, what to do."
    parser.epilog = example("pit why 0001")
    id_argument(parser, several=True)


def _why(args: Namespace, context: Context) -> Reply:
    told = {task_id: context.queue.why(task_id) for task_id in named(context, args.ids)}
    data = [{"id": task_id, "why": lines} for task_id, lines in told.items()]
    return Reply(
        data=data[0] if len(data) == 1 else data, text="\n\n".join("\n".join(lines) for lines in told.values())
    )


VERBS: Handlers = {
    "list": (_list_arguments, _list),
    "show": (_show_arguments, _show),
    "ready": (_ready_arguments, _ready),
    "why": (_why_arguments, _why),
}
