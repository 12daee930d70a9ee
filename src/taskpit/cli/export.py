"""Moving whole queues: `export` to JSON lines, `convert` into another layout. Nothing is lost, all is verified."""

from __future__ import annotations

import os
import sys

from taskpit import layouts, transfer
from taskpit.actions import tell_brought
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.output import harmless
from taskpit.cli.progress import ProgressBar
from taskpit.errors import Conflict, Invalid, Lost
from taskpit.model import State
from taskpit.queue import Queue
from taskpit.store.opening import init

# -- export ----------------------------------------------------------------------------------------


@takes(arg("-o --output FILE", "a new file to write to (default: standard output)"))
def _export(args: Args, context: Context) -> Reply:
    """Write the whole queue as JSON lines: every task with its id, state, result, tries and notes, then the
    changelog. `pit import` of the same brings it into any queue, whatever its layout: work items go where there
    are such, and elsewhere what they barred is held. Of what nobody can read only the name goes, held; that is said.

    pit export > queue.jsonl
    pit -C elsewhere import queue.jsonl
    """
    lines = map(harmless, transfer.dump(context.queue.store, context.warn))
    count = 0
    if not args.output:
        # Straight to standard output: these lines are for programs, and cleaning them would change them.
        for line in lines:
            sys.stdout.write(line + "\n")
        context.json = False  # they are JSON already: an envelope after them would be a line too many
        return Reply()
    try:
        with (
            open(args.output, "x", encoding="utf-8", errors="surrogatepass") as file,
            ProgressBar(context, "writing") as bar,
        ):
            for line in lines:
                file.write(line + "\n")
                count += 1
                bar.step(count)
    except FileExistsError:
        raise Conflict(f"{args.output} exists already", hint="Choose another name.", path=args.output) from None
    return Reply(data={"path": args.output, "lines": count}, text=f"{count} lines in {args.output}")


def is_export(text: str) -> bool:
    """Whether these lines begin as an export does."""
    first = text.lstrip().partition("\n")[0]
    return first.startswith("{") and '"kind": "queue"' in first and '"schema"' in first


def bring_back(text: str, context: Context, worker: str) -> Reply:
    """What `import` does with an export."""
    cargo = transfer.load(text.split("\n"))  # by nothing else: a line of JSON may hold other line ends
    fresh = _fresh(cargo, context.queue)
    reply = _move(cargo, context.queue, context)
    tell_brought(context.queue, fresh, worker)
    return reply


def bring_export(queue: Queue, text: str) -> list[str]:
    """The same without a command around it; the ids that were not there."""
    cargo = transfer.load(text.split("\n"))
    fresh = _fresh(cargo, queue)
    transfer.copy(cargo, queue.store, layouts.get(queue.store.info().layout).check_id)
    _compare(cargo, queue)
    return fresh


def _fresh(cargo: transfer.Cargo, queue: Queue) -> list[str]:
    """The ids that its tasks will have in this queue, of those that are not there yet."""
    here = layouts.get(queue.store.info().layout)
    new_ids = list(transfer.map_ids([card.task.id for card in cargo.cards], here.check_id, here.like).values())
    return [task_id for task_id, card in zip(new_ids, queue.store.read(new_ids), strict=True) if card is None]


# -- convert ---------------------------------------------------------------------------------------


@takes(
    arg("DIR", "the folder of the new queue, or its address", dest="path"),
    arg("--layout NAME", f"of a folder, one of: {', '.join(layouts.NAMES)}"),
    arg("--release", "go on although tasks are claimed; they become ready"),
)
def _convert(args: Args, context: Context) -> Reply:
    """Make a queue of another layout with everything this one has: tasks, results, tries, notes, changelog.
    What a layout has no word for is carried along; ids it can't carry are mapped. This queue stays as it
    is. What was interrupted is resumed by running it again; at the end every task is compared.

    pit -C pit convert mailbox-dir --layout mailbox
    pit convert postgresql://localhost/work
    """
    if "://" not in args.path:
        if not args.layout:
            raise Usage("say which layout the new folder has: --layout NAME")
        layouts.get(args.layout)  # Invalid before anything else is looked at
    queue = context.queue
    source, target = os.path.realpath(queue.store.info().where), os.path.realpath(args.path)
    if source == target:
        raise Invalid(f"{args.path} is this queue itself", hint="Name a new folder.")
    claimed = [card.task.id for card in queue.store.page(State.CLAIMED).cards]
    if claimed and not args.release:
        raise Lost(
            f"workers hold {', '.join(claimed[:5])}{' and others' if len(claimed) > 5 else ''}",
            hint="Wait until they are finished, or convert with --release: they are ready in the new queue.",
        )
    if "://" in args.path:
        from taskpit.store.postgres.opening import init_database

        init_database(args.path, {})
    else:
        init(args.path, args.layout)
    new = Queue.open(args.path, context.env)
    try:
        return _move(transfer.cargo_of(queue.store), new, context)
    finally:
        new.close()


def _move(cargo: transfer.Cargo, into: Queue, context: Context) -> Reply:
    check_id, where = layouts.get(into.store.info().layout).check_id, into.store.info().where
    with ProgressBar(context, "moving", len(cargo.cards)) as bar:
        moved = transfer.copy(cargo, into.store, check_id, step=bar.step)
    with ProgressBar(context, "comparing", turns=True):
        _compare(cargo, into)
    for sentence in moved.left:
        context.warn(sentence)
    named = {"mapped": dict(moved.mapped), "held": dict(moved.held)}
    data = {**moved.as_dict(), **named, "events": len(cargo.events), "path": where}
    lines = [f"{moved.tasks} tasks and {len(cargo.events)} events are in {where}, each compared"]
    lines += [f"{moved.already} were there already"] if moved.already else []
    lines += [f"{old} is called {new} there" for old, new in moved.mapped]
    lines += [f"{task_id} was being worked on; it is ready there" for task_id in moved.released]
    lines += [f"{task_id} is held there: {reason}" for task_id, reason in moved.held]
    lines += [f"it is {into.store.paused()}"] if cargo.paused and into.store.paused() else []
    return Reply(data=data, text="\n".join(lines))


def _compare(cargo: transfer.Cargo, into: Queue) -> None:
    """Conflict says what is not the same there."""
    wrong = transfer.verify(cargo, into.store, layouts.get(into.store.info().layout).check_id)
    if wrong:
        shown = "; ".join(wrong[:5])
        raise Conflict(f"not all is the same in the new place: {shown}", differences=wrong)
