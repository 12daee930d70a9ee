"""Taking back the last thing one did: `undo`."""

from __future__ import annotations

from taskpit.actions import undo
from taskpit.cli.context import Reply
from taskpit.cli.options import example, worker_option
from taskpit.json_facts import card_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers

__all__ = ["VERBS"]


def _undo_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Take back the last thing you did to a task: cancel, block, unblock, edit, priority, answer, claim, add.\n"
        "What cannot be taken back is refused with what to do instead: a result stands for ever."
    )
    parser.epilog = example("pit cancel 7", "pit undo")
    worker_option(parser)


def _undo(args: Namespace, context: Context) -> Reply:
    task_id, told = undo(context.queue, context.worker(args))
    return Reply(data=card_facts(context.queue.card(task_id)), text=told)


VERBS: Handlers = {"undo": (_undo_arguments, _undo)}
