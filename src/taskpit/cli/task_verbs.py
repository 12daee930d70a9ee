"""What people do to a task that is not theirs: `note`, `tell`, `block`, `unblock`, `retry`, `cancel`."""

from __future__ import annotations

from taskpit.actions import ACTIONS
from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import example, id_argument, named, read_text, reason_option, reason_words, worker_option
from taskpit.errors import Invalid
from taskpit.json_facts import card_facts
from taskpit.status import Status, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.task import Card

__all__ = ["VERBS"]


def _text(args: Namespace, context: Context) -> str:
    text: str = args.text
    return read_text("-", context.queue.config.largest_task) if text == "-" else text


def _note_arguments(parser: ArgumentParser) -> None:
    parser.description = "Leave a note beside a task, whatever its state. `pit show` shows the notes."
    parser.epilog = example("pit note 0007 'the API key is in the vault'", "pit note 0007 - < findings.txt")
    id_argument(parser)
    parser.add_argument("text", metavar="TEXT", help="the note; - is standard input")
    worker_option(parser)


def _note(args: Namespace, context: Context) -> Reply:
    task_id = context.queue.resolve(args.id)
    text = _text(args, context)
    told = ACTIONS["note"].do(context.queue, task_id, context.worker(args), text)
    return Reply(data={"id": task_id, "note": text}, text=told)


def _tell_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Say something to the agent that works on a task. What becomes of it depends on the agent, and is shown: it\n"
        "reads it after its next step, in the same session before it is finished, or in the next attempt. It is also\n"
        "left as a note beside the task."
    )
    parser.epilog = example("pit tell 0007 'leave the old API alone'", "pit tell 0007 - < more.txt")
    id_argument(parser)
    parser.add_argument("text", metavar="TEXT", help="what to say; - is standard input")
    worker_option(parser)


def _tell(args: Namespace, context: Context) -> Reply:
    from taskpit.agents import steering
    from taskpit.worker.run_directory import directory_for

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
        "Keep tasks from being taken until `pit unblock`. The reason is shown wherever they are.\n"
        "Your own claim is released by it."
    )
    parser.epilog = example("pit block 0007 'waits for the new contract'", "pit block 7 8 --reason 'after the release'")
    id_argument(parser, several=True)
    reason_option(parser)
    worker_option(parser)


def _block(args: Namespace, context: Context) -> Reply:
    reason = reason_words(args, context, needed=True)
    if reason is None:
        raise Usage("say why it is blocked", hint="For example: `pit block 7 'waits for the new contract'`.")
    return _each("block", args, context, reason)


def _unblock_arguments(parser: ArgumentParser) -> None:
    parser.description = "Release the hold and reset attempts: the tasks may be taken at once. Needs still count."
    parser.epilog = example("pit unblock 0007 0008")
    id_argument(parser, several=True)
    worker_option(parser)


def _unblock(args: Namespace, context: Context) -> Reply:
    return _each("unblock", args, context)


def _retry_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Run tasks again from scratch, with all their attempts: failed and cancelled ones are reopened,\n"
        "blocked ones and those that wait for a time are released."
    )
    parser.epilog = example("pit retry 0007")
    id_argument(parser, several=True)
    worker_option(parser)


def _retry(args: Namespace, context: Context) -> Reply:
    return _each("retry", args, context)


def _cancel_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "These tasks will not be done. A running task is not torn away: its worker is asked to stop and learns it\n"
        "when it renews. Your own claim ends at once. `pit undo` or `pit retry` takes it back."
    )
    parser.epilog = example("pit cancel 0007 'superseded by 0009'", "pit cancel 7 8 --reason 'not needed any more'")
    id_argument(parser, several=True)
    reason_option(parser)
    worker_option(parser)


def _cancel(args: Namespace, context: Context) -> Reply:
    return _each("cancel", args, context, reason_words(args, context) or "")


def _each(verb: str, args: Namespace, context: Context, text: str = "") -> Reply:
    """It is done to each of these tasks; where all of them stand, and what was said."""
    queue, worker, data, lines = context.queue, context.worker(args), [], []
    for task_id in named(context, args.ids):
        lines.append(ACTIONS[verb].do(queue, task_id, worker, text))
        card = queue.card(task_id)
        data.append(_cancelled(card) if verb == "cancel" else card_facts(card))
    return Reply(data=data[0] if len(data) == 1 else data, text="\n".join(lines))


def _cancelled(card: Card) -> dict[str, object]:
    ended = status_of(card) is Status.CANCELLED
    return {"id": card.task.id, "cancelled": ended, "asked_to_stop": not ended}


VERBS: Handlers = {
    "note": (_note_arguments, _note),
    "tell": (_tell_arguments, _tell),
    "block": (_block_arguments, _block),
    "unblock": (_unblock_arguments, _unblock),
    "retry": (_retry_arguments, _retry),
    "cancel": (_cancel_arguments, _cancel),
}
