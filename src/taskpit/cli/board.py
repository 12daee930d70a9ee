"""The verb that opens the terminal board: `board`. Knows what it needs, nothing of how it looks."""

from __future__ import annotations

import sys

from taskpit.cli.context import Reply
from taskpit.cli.edit import by_hand
from taskpit.cli.options import example, worker_option
from taskpit.errors import Invalid, MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from taskpit.cli.context import Context
    from taskpit.cli.table import Handlers
    from taskpit.worker.standing import Row

__all__ = ["VERBS"]


def _board_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "The board in the terminal: columns as the queue's folders, live; the picked task with its text, log and\n"
        "result; keys to add, hold, retry, cancel, answer and edit. `?` shows every key.\n"
        "`pit watch` shows less and needs nothing; `pit status` is one screen, once."
    )
    parser.epilog = example("pit board", "pit board --read-only", "pit board --light")
    parser.add_argument("--read-only", action="store_true", help="only look: keys that change something are refused")
    parser.add_argument("--light", action="store_true", help="begin with light colours (the key t changes them)")
    worker_option(parser)


def _board(args: Namespace, context: Context) -> Reply:
    context.find()  # without a queue there is nothing to look at, terminal or not
    if context.json or not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise Invalid(
            "the board needs a terminal to be looked at",
            hint="For programs there is `pit list --json`, for pipes `pit watch`.",
        )
    try:
        from taskpit.tui.app import PitBoard
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        told = "the terminal board needs a part that is not installed"
        raise MissingExtra(told, hint="pip install 'taskpit[tui]' installs it; `pit watch` needs nothing.") from None
    from taskpit.tui.desk import Desk

    queue, worker = context.queue, context.worker(args)
    desk = Desk(
        queue,
        worker,
        read_only=args.read_only,
        edit=lambda task_id: _edit(context, worker, task_id),
        crew=_crew(context),
    )
    light = args.light or context.env.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    PitBoard(desk, light=light).run()
    return Reply()


def _edit(context: Context, worker: str, task_id: str) -> str:
    change = by_hand(context.queue, task_id, context.env)
    if change is None:
        return "nothing was changed"
    context.queue.edit(task_id, worker, change)
    return f"{task_id} is changed"


def _crew(context: Context) -> Callable[[], list[Row]] | None:
    """Who of the crew does what; None if there is no folder for its papers."""
    if not context.queue.store.info().papers:
        return None
    from taskpit.cli.crew import papers
    from taskpit.cli.status import posts_of
    from taskpit.worker.standing import rows

    desk = papers(context)
    return lambda: rows(desk, posts_of(context, None)[0], context.queue.store.paused())


VERBS: Handlers = {"board": (_board_arguments, _board)}
