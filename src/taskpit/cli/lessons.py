"""`pit lessons`: what turned red checks green, as later agents are told it; one can say it better, or take it out."""

from __future__ import annotations

from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import example

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers

__all__ = ["VERBS"]


def _lessons_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "What turned red checks green: the error, and what helped, as the agents said it. Later tasks with the same\n"
        "error or the same `touches` are told. The setting `lessons` says how many are kept; 0 is none at all.\n"
        "With a number and a text, that lesson says this instead; --remove takes it out."
    )
    parser.epilog = example("pit lessons", "pit lessons 3 'run make generate first'", "pit lessons --remove 3")
    parser.add_argument("number", nargs="?", type=int, metavar="N", help="the lesson to change")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="what helps")
    parser.add_argument("--remove", type=int, metavar="N", help="take this one out")


def _lessons(args: Namespace, context: Context) -> Reply:
    from taskpit.actions import need_person
    from taskpit.agents.lessons import Lessons

    root = context.queue.store.info().papers
    known = Lessons(root, context.queue.config.lessons)
    number = args.remove if args.remove is not None else args.number
    if args.remove is not None and args.number is not None:
        raise Usage("--remove takes the number")
    if number is not None:
        if args.remove is None and not (args.text or "").strip():
            raise Usage("say what helps", hint=f"For example: `pit lessons {number} 'run make generate first'`.")
        need_person("a lesson", context.env)
        known.rewrite(number, "" if args.remove is not None else args.text)
    found = known.read() if root else []
    data = [{"number": place, **one.as_dict()} for place, one in enumerate(found, 1)]
    lines = [f"{place:>3}  {one.task:<8} {one.error}\n     => {one.helped}" for place, one in enumerate(found, 1)]
    return Reply(data=data, text="\n".join(lines) or "There are no lessons yet.")


VERBS: Handlers = {"lessons": (_lessons_arguments, _lessons)}
