"""Between people and agents: `ask`, `answer`, `pause`, `resume`."""

from __future__ import annotations

from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import a_duration, example, id_argument, read_text, worker_option
from taskpit.clock import say_duration
from taskpit.errors import Invalid, Lost
from taskpit.task import Ask, Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers

__all__ = ["VERBS"]

#: What `pit answer` calls the question whether a day may cost more.
BUDGET = "budget"
#: What lets it; anything else costs nothing.
YES = ("yes", "y", "ok", "go on")


def _ask_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Put your task back until a person has answered a question. You are free to take another one; the\n"
        "answer will stand in the task. Tasks that ask with the same key are answered together."
    )
    parser.epilog = example("pit ask 0007 'Which database?' --key database --wanted 'a name and a version'")
    id_argument(parser)
    told = "what a person must say; - is standard input. In a run of the task the ID may be left out"
    parser.add_argument("question", metavar="QUESTION", nargs="?", help=told)
    parser.add_argument("--key", default="", metavar="KEY", help="equal keys are the same question")
    parser.add_argument("--wanted", default="", metavar="TEXT", help="what would answer it")
    worker_option(parser)


def _ask(args: Namespace, context: Context) -> Reply:
    queue, task_id, question = context.queue, args.id, args.question
    if question is None:  # a worker that a pool has started works on one task
        task_id, question = context.env.get("TASKPIT_TASK", ""), args.id
        if not task_id:
            raise Usage("the id of the task or the question is missing", hint="`pit ask 7 'Which database?'`")
    question = _text(question, context)
    if not question.strip():
        raise Invalid("the question is empty")
    claim = queue.holding(queue.resolve(task_id), context.worker(args))
    said, end = queue.finish(claim, Ask(question=question, key=args.key, wanted=args.wanted))
    if said is Said.LOST:
        raise Lost(f"the claim on {claim.task.id} is over", id=claim.task.id)
    return Reply(data={"id": claim.task.id, "question": end.details}, text=f"{claim.task.id} waits for an answer")


def _answer_arguments(parser: ArgumentParser) -> None:
    parser.description = "Answer a task that asks; it goes on with question and answer in its text."
    parser.epilog = example(
        "pit answer 0007 'PostgreSQL 18'", "pit answer database 'PostgreSQL 18'", "pit answer budget yes"
    )
    parser.add_argument("id", metavar="ID|KEY", help="the task that asks, or the key of the question")
    parser.add_argument("text", metavar="TEXT", help="the answer; - is standard input")
    worker_option(parser)


def _answer(args: Namespace, context: Context) -> Reply:
    if args.id == BUDGET:
        return _go_on(args, context)
    from taskpit.actions import remember
    from taskpit.worker.manual import answer_by_hand

    queue, worker = context.queue, context.worker(args)
    meant = [card.task for card in queue.store.read(queue.store.resolve(args.id)) if card is not None]
    ids = answer_by_hand(queue, args.id, _text(args.text, context), worker)
    if ids == [task.id for task in meant]:
        remember(queue, worker, meant[0])
    return Reply(data={"ids": ids}, text=f"{', '.join(ids)} {'go' if len(ids) > 1 else 'goes'} on")


def _go_on(args: Namespace, context: Context) -> Reply:
    """The day may cost as much again; the queue goes on."""
    from taskpit.worker.budget import Ledger

    if _text(args.text, context).strip().casefold() not in YES:
        hint = "`pit answer budget yes` lets today cost as much again; without it the queue goes on tomorrow."
        raise Invalid("the budget stays as it is", hint=hint)
    queue = context.queue
    Ledger(queue.store.info().papers).allow("day", queue.clock.now())
    resumed = queue.store.resume(context.worker(args))
    return Reply(data={"resumed": resumed}, text="the queue goes on; today may cost as much again")


def _text(word: str, context: Context) -> str:
    return read_text("-", context.queue.config.largest_task) if word == "-" else word


def _pause_arguments(parser: ArgumentParser) -> None:
    parser.description = "Give out no task until `pit resume`, or for so long. Running tasks go on."
    parser.epilog = example("pit pause 'deploying' --for 20m")
    parser.add_argument("text", metavar="REASON", nargs="?", default="", help="why")
    parser.add_argument("--reason", default="", metavar="TEXT", help="the same as an option")
    parser.add_argument("--for", dest="seconds", type=a_duration, default=0.0, metavar="T", help="how long")
    worker_option(parser)


def _pause(args: Namespace, context: Context) -> Reply:
    reason = " ".join((args.reason or args.text).split()) or "no reason given"
    context.queue.store.pause(reason, args.seconds, context.worker(args))
    until = f" for {say_duration(args.seconds)}" if args.seconds else ", until `pit resume`"
    return Reply(data={"paused": context.queue.store.paused()}, text=f"no task is given out{until}")


def _resume_arguments(parser: ArgumentParser) -> None:
    parser.description = "Give out tasks again after `pit pause`."
    parser.epilog = example("pit resume")
    worker_option(parser)


def _resume(args: Namespace, context: Context) -> Reply:
    was = context.queue.store.resume(context.worker(args))
    return Reply(data={"resumed": was}, text="tasks are given out again" if was else "it was not paused")


VERBS: Handlers = {
    "ask": (_ask_arguments, _ask),
    "answer": (_answer_arguments, _answer),
    "pause": (_pause_arguments, _pause),
    "resume": (_resume_arguments, _resume),
}
