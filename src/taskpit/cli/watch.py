"""Less than a board, and nothing to install: `watch`. One block rewritten in place on a terminal, lines in a pipe."""

from __future__ import annotations

import os
import sys

from taskpit.board import COLUMNS, Board, titles
from taskpit.cli import output
from taskpit.cli.context import Reply
from taskpit.cli.look import COLOURS
from taskpit.cli.options import a_duration, example
from taskpit.cli.output import cut, pad, paint, terminal_width
from taskpit.cli.past import event_line
from taskpit.clock import say_duration
from taskpit.history import who
from taskpit.text import fit, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import TextIO

    from taskpit.board import Slip
    from taskpit.cli.context import Context
    from taskpit.cli.table import Handlers
    from taskpit.task import Event

__all__ = ["VERBS", "block"]

#: How often it looks, in seconds.
PACE = 0.5
#: At most so many of what is worked on, of what is stuck, of what happened last.
RUNNING, STUCK, LAST = 10, 5, 5


def _watch_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "A live summary: how many tasks are where, who works on what, what is stuck, what happened last. One block\n"
        "rewritten in place on a terminal; in a pipe one line per change (with --json an envelope). Ctrl-C ends it.\n"
        "`pit board` shows all and lets you act; `pit status` is one screen, once."
    )
    parser.epilog = example("pit watch", "pit watch --for 10m > today.log")
    parser.add_argument("--for", dest="seconds", type=a_duration, metavar="T", help="end by itself after so long")


def _watch(args: Namespace, context: Context) -> Reply:
    queue = context.queue
    board = Board(queue).load()
    lives = sys.stdout.isatty() and context.env.get("TERM") != "dumb" and not context.json
    stage = _InPlace(context, sys.stdout) if lives else None
    deadline = queue.clock.monotonic() + args.seconds if args.seconds else None
    try:
        while True:
            if stage is not None:
                stage.show(block(board, queue.clock.now(), terminal_width(), _height()))
            left = PACE if deadline is None else deadline - queue.clock.monotonic()
            if left <= 0:
                break
            queue.clock.sleep(min(left, PACE))
            change = board.follow()
            if stage is None:
                for event in change.events:
                    if context.json:
                        output.envelope({**event.as_dict(), "counts": board.counts})
                    else:
                        context.tell(f"{event_line(event)}  ({_counts(board)})")
    except KeyboardInterrupt:  # that is how one ends it
        context.json = False
        if stage is not None:
            sys.stdout.write("\n")  # the terminal has written ^C where the shell would write its prompt
    return Reply() if not context.json else Reply(data={"counts": board.counts})


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


def _height() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        return 24


def _counts(board: Board) -> str:
    return ", ".join(f"{board.counts[name]} {name}" for name in COLUMNS if board.counts[name]) or "empty"


def block(board: Board, now: float, width: int, height: int) -> str:
    """All of it as lines that fit."""
    info = board.queue.store.info()
    names = titles(info.layout)
    heads = [paint(COLOURS[name], f"{names[name]} {board.counts[name]}") for name in COLUMNS]
    lines = [paint("bold", fit(info.where, width)), "  ".join(heads)]
    lines += [paint("yellow", fit(board.paused, width))] if board.paused else []
    running = board.column("claimed")
    lines += _part("working", [_worker(slip, now, width) for slip in running[:RUNNING]], len(running))
    stuck = board.stuck()
    lines += _part("stuck", [_stuck(slip, width) for slip in stuck[:STUCK]], len(stuck))
    last = list(board.recent)[-LAST:]
    lines += _part("last", [_happened(event, width) for event in last], len(last))
    if not any(board.counts.values()):
        lines.append("The queue is empty. Put something in: pit add 'a first task'")
    return "\n".join(cut(line, width) for line in lines[: max(height - 1, 3)])


def _part(title: str, lines: list[str], count: int) -> list[str]:
    more = [paint("dim", f"  … and {count - len(lines)} more")] if count > len(lines) else []
    return ["", paint("bold", title), *lines, *more] if lines else []


def _worker(slip: Slip, now: float, width: int) -> str:
    """Id and title; who has it, since when, and whether that one lives."""
    life = {"yes": "", "no": "  dead"}.get(slip.alive, "  may or may not be alive")
    old = say_duration(int(max(now - slip.since, 0))) if slip.since else ""
    tail = f"  {one_line(who(slip.worker))}  {old}{life}"
    head = f"  {slip.id}  "
    room = max(min(width - len(tail) - len(head), 60), 10)
    return head + pad(fit(slip.title, room), room) + paint("red" if slip.alive == "no" else "blue", tail)


def _stuck(slip: Slip, width: int) -> str:
    """Id and title; why it does not go on."""
    why = f"? {slip.question}" if slip.question else slip.held or f"failed: {slip.reason}"
    head = f"  {slip.id}  "
    room = max(min(width // 2 - len(head), 60), 10)
    return (
        head
        + pad(fit(slip.title, room), room)
        + paint("yellow", f"  {fit(why, max(width - len(head) - room - 2, 10))}")
    )


def _happened(event: Event, width: int) -> str:
    """When, which, what, who, and whatever else is told."""
    worker, did = one_line(who(event.worker)), one_line(event.did.removesuffix("_task"))
    head = f"  {one_line(event.timestamp[11:19])}  {one_line(event.about) or '-':<6}  {did:<10}  {worker:<10}  "
    return (head + fit(event.details, max(width - len(head), 0))).rstrip()


VERBS: Handlers = {"watch": (_watch_arguments, _watch)}
