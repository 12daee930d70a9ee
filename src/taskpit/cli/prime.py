"""`pit prime`: what an agent must know of this queue, in less than two kilobytes.

Made from the program and the queue as they are: the verbs' own rows and arguments, what the worker holds,
what is next. Nothing here says how a verb is spelled, so nothing here can grow old.
"""

from __future__ import annotations

from taskpit.cli import verbs
from taskpit.cli.context import Reply
from taskpit.cli.options import example, worker_option
from taskpit.clock import say_duration
from taskpit.queue import cards
from taskpit.task import State
from taskpit.text import fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.queue import Queue
    from taskpit.task import Card

__all__ = ["LARGEST", "VERBS", "held_by", "prime_text"]

#: Never more than this many bytes.
LARGEST = 2048
#: Verbs an agent needs, in the order it needs them.
NEEDED = ("claim", "renew", "done", "fail", "release", "split", "ask", "task", "note", "add", "show", "why")
#: Of the options, those that are said even though they can be left out.
WORTH_SAYING = ("--result", "--check", "--needs")
SHOWN, TITLE, PLACE = 3, 60, 200


def held_by(queue: Queue, worker: str) -> list[Card]:
    """What this worker holds."""
    return [card for card in cards(queue.store, State.CLAIMED) if card.worker == worker]


class _Shape:
    """Stands in for a parser, to learn how a verb is written."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.description = self.epilog = ""

    def add_argument(self, *names: str, **said: Any) -> _Shape:
        shown = str(said.get("metavar") or said.get("dest") or names[0].lstrip("-"))
        if names[0].startswith("-"):
            long = next((name for name in names if name.startswith("--")), names[0])
            if said.get("required"):
                self.words.append(f"{names[0]} {shown}")
            elif long in WORTH_SAYING:
                self.words.append(f"[{long} {shown}]")
        elif said.get("nargs") in ("?", "*"):
            self.words.append(f"[{shown}]")
        else:
            self.words.append(f"{shown}..." if said.get("nargs") == "+" else shown)
        return self

    def add_mutually_exclusive_group(self, **_: Any) -> _Shape:
        return self

    def add_argument_group(self, *_: Any, **__: Any) -> _Shape:
        return self

    def set_defaults(self, **_: Any) -> None:
        """Nothing that is written."""


def _spelled(verb: verbs.Verb) -> str:
    arguments, _ = verbs.handlers(verb)
    shape: Any = _Shape()
    arguments(shape)
    return " ".join(["pit", verb.name, *shape.words])


def _verbs(layout: str) -> list[tuple[str, str]]:
    """How each is written and what it does; `task` only where there are tasks inside of activities."""
    found = [verb for name in NEEDED if (verb := verbs.find(name)) is not None]
    return [(_spelled(verb), verb.summary) for verb in found if verb.name != "task" or layout == "activities"]


def _look(queue: Queue, worker: str) -> dict[str, Any]:
    """All that is told, as values."""
    info = queue.store.info()
    free = [card for card in queue.store.page(State.READY, "", 50).cards if not card.held]
    return {
        "queue": info.where,
        "layout": info.layout,
        "worker": worker,
        "paused": queue.store.paused(),
        "counts": {str(state): count for state, count in queue.store.counts().items()},
        "holding": [_row(card, queue.clock.now()) for card in held_by(queue, worker)],
        "next": [_row(card, queue.clock.now()) for card in free[:SHOWN]],
        "verbs": [{"usage": usage, "summary": summary} for usage, summary in _verbs(info.layout)],
    }


def _row(card: Card, now: float) -> dict[str, Any]:
    row: dict[str, Any] = {"id": card.task.id, "title": card.task.title or card.task.slug, "check": card.task.check}
    return {**row, "lease_seconds_left": card.until - now} if card.state is State.CLAIMED else row


def _line(row: dict[str, Any]) -> str:
    left = row.get("lease_seconds_left")
    lease = "" if left is None else f" (lease ends in {say_duration(left)})" if left > 0 else " (lease over: renew now)"
    return f"- {fit(row['id'], 40)} {fit(row['title'], TITLE)}{lease}"


def prime_text(queue: Queue, worker: str) -> str:
    """What an agent reads."""
    return _text(_look(queue, worker))


def _text(told: dict[str, Any]) -> str:
    holding, coming, counts = told["holding"], told["next"], told["counts"]
    counted = ", ".join(f"{count} {state}" for state, count in counts.items())
    lines = [f"taskpit queue {fit(told['queue'], PLACE)} ({told['layout']}): {counted}."]
    lines.append(f"You are `{fit(told['worker'], 80)}` here (`--as` or TASKPIT_AS; the MCP tools call it `worker`).")
    if told["paused"]:
        lines.append(f"It is {fit(told['paused'], 120)}.")
    if holding:
        lines += ["", "You hold, and must finish or give back:", *map(_line, holding[:SHOWN])]
        lines += [f"- and {len(holding) - SHOWN} more"] if len(holding) > SHOWN else []
    else:
        lines += ["", "You hold nothing."]
    lines += ["", "Next:", *map(_line, coming)] if coming else ["", "Nothing is ready to be taken."]
    lines += ["", *(f"{verb['usage']}  # {verb['summary']}" for verb in told["verbs"])]
    lines += [
        "",
        "One task at a time. Done means its check is green. Renew before the lease ends; if that fails, stop.",
    ]
    return "\n".join(lines)


def _prime_arguments(parser: ArgumentParser) -> None:
    parser.description = "What an agent must know to work here: what it holds, what is next, and the commands."
    parser.epilog = example("pit prime", "pit prime --as snake-1 --json")
    worker_option(parser)


def _prime(args: Namespace, context: Context) -> Reply:
    told = _look(context.queue, context.worker(args))
    return Reply(data=told, text=lambda: _text(told))


VERBS: Handlers = {"prime": (_prime_arguments, _prime)}
