"""What people do to a task that is not theirs: `note`, `tell`, `block`, `unblock`, `retry`, `cancel`."""

from __future__ import annotations

from taskpit.cli.context import Reply
from taskpit.cli.options import example, id_argument, named, read_text, worker_option
from taskpit.errors import Invalid
from taskpit.facts import task_facts
from taskpit.task import Failed, Said, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from taskpit.cli.context import Context
    from taskpit.cli.table import Handlers
    from taskpit.task import Task

__all__ = ["VERBS"]


def _text_argument(parser: ArgumentParser, name: str, told: str) -> None:
    parser.add_argument("text", metavar=name, help=f"{told}; - is standard input")


def _text(args: Namespace, context: Context) -> str:
    text: str = args.text
    return read_text("-", context.queue.config.largest_task) if text == "-" else text


def _note_arguments(parser: ArgumentParser) -> None:
    parser.description = "Leave a note beside a task, whatever its state. Notes are shown by `pit show`."
    parser.epilog = example("pit note 0007 'the API key is in the vault'", "pit note 0007 - < findings.txt")
    id_argument(parser)
    _text_argument(parser, "TEXT", "the note")
    worker_option(parser)


def _note(args: Namespace, context: Context) -> Reply:
    task_id, text = context.queue.resolve(args.id), _text(args, context)
    context.queue.note(task_id, text, context.worker(args))
    return Reply(data={"id": task_id, "note": text}, text=f"noted beside {task_id}")


def _tell_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Say something to the agent that works on a task. What becomes of it depends on the agent, and is shown: it\n"
        "reads it after its next step, in the same session before it is finished, or in the next attempt. It is also\n"
        "left as a note beside the task."
    )
    parser.epilog = example("pit tell 0007 'leave the old API alone'", "pit tell 0007 - < more.txt")
    id_argument(parser)
    _text_argument(parser, "TEXT", "what to say")
    worker_option(parser)


def _tell(args: Namespace, context: Context) -> Reply:
    from taskpit.agents import steering
    from taskpit.worker.place import directory_for

    task_id, text = context.queue.resolve(args.id), _text(args, context)
    card = context.queue.card(task_id)
    if card.result is not None or not text.strip():
        told = "there is nothing to say" if card.result is None else f"{task_id} is finished: no agent reads it"
        raise Invalid(told, hint="`pit note ID TEXT` leaves a note; `pit retry ID` has a failed task tried again.")
    context.queue.note(task_id, f"told: {text}", context.worker(args))
    run_dir = directory_for(context.queue.store, card)
    way = steering.way_of(run_dir) if run_dir else ""
    if way:
        steering.say_to(run_dir, text)
    becomes = steering.WAYS[way] if run_dir else "no agent works on it: the next attempt reads it"
    return Reply(data={"id": task_id, "way": way or "next attempt", "told": text}, text=f"{task_id}: {becomes}")


def _block_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Keep a task from being taken until `pit unblock`. The reason is shown wherever it is.\n"
        "If you hold it yourself, you let go of it with that."
    )
    parser.epilog = example("pit block 0007 'waits for the new contract'")
    id_argument(parser)
    _text_argument(parser, "REASON", "why")
    worker_option(parser)


def _block(args: Namespace, context: Context) -> Reply:
    reason = " ".join(_text(args, context).split())
    task = context.queue.block(context.queue.resolve(args.id), context.worker(args), reason)
    return Reply(data=task_facts(task, State.READY, held=task.hold), text=f"{task.id} is held: {task.hold}")


def _unblock_arguments(parser: ArgumentParser) -> None:
    parser.description = "Let held tasks go on at once; their failures so far are forgiven. Needs still count."
    parser.epilog = example("pit unblock 0007 0008")
    id_argument(parser, several=True)
    worker_option(parser)


def _unblock(args: Namespace, context: Context) -> Reply:
    return _each(args, context, context.queue.unblock, "goes on")


def _retry_arguments(parser: ArgumentParser) -> None:
    parser.description = "Start tasks anew with all their attempts: failed ones are reopened, waiting ones freed."
    parser.epilog = example("pit retry 0007")
    id_argument(parser, several=True)
    worker_option(parser)


def _retry(args: Namespace, context: Context) -> Reply:
    return _each(args, context, context.queue.retry, "is ready again")


def _each(args: Namespace, context: Context, change: Callable[[str, str], Task], told: str) -> Reply:
    worker, data, lines = context.worker(args), [], []
    for task_id in named(context, args.ids):
        change(task_id, worker)
        card = context.queue.card(task_id)
        data.append(task_facts(card.task, card.state, card.held, card.worker))
        lines.append(f"{task_id} {told}" + (f", but {card.held}" if card.held else ""))
    return Reply(data=data[0] if len(data) == 1 else data, text="\n".join(lines))


def _cancel_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "These will not be done. A task that somebody works on is not torn away: its worker is asked to stop\n"
        "and learns it when it renews. Your own claim ends at once. `pit retry` takes it back."
    )
    parser.epilog = example("pit cancel 0007 --reason 'superseded by 0009'")
    id_argument(parser, several=True)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why")
    worker_option(parser)


def _cancel(args: Namespace, context: Context) -> Reply:
    queue, worker = context.queue, context.worker(args)
    data, lines = [], []
    for task_id in named(context, args.ids):
        ended = _cancel_mine(context, task_id, worker, args.reason) or queue.cancel(task_id, worker, args.reason)
        data.append({"id": task_id, "cancelled": ended, "asked_to_stop": not ended})
        lines.append(f"{task_id} is cancelled" if ended else f"{task_id}: its worker is asked to stop")
    return Reply(data=data[0] if len(data) == 1 else data, text="\n".join(lines))


def _cancel_mine(context: Context, task_id: str, worker: str, reason: str) -> bool:
    """Whether it was this worker's own claim, and has ended."""
    card = context.queue.card(task_id)
    if card.state is not State.CLAIMED or card.worker != worker:
        return False
    claim = context.queue.holding(task_id, worker)
    said, _ = context.queue.finish(claim, Failed(error=reason or "cancelled", cancelled=True))
    return said is not Said.LOST


VERBS: Handlers = {
    "note": (_note_arguments, _note),
    "tell": (_tell_arguments, _tell),
    "block": (_block_arguments, _block),
    "unblock": (_unblock_arguments, _unblock),
    "retry": (_retry_arguments, _retry),
    "cancel": (_cancel_arguments, _cancel),
}
