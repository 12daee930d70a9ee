"""What people do to a task that is not theirs, from `note` to `cancel` and `undo`; questions and answers; `pause`."""

from __future__ import annotations

from taskpit import access
from taskpit.actions import ACTIONS, remember, tell, undo
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import AS, ID, IDS, REASON, a_duration, named, read_text, reason_words, to_each
from taskpit.clock import say_duration
from taskpit.errors import Invalid, Lost
from taskpit.explain import resuming
from taskpit.model import Ask, Said
from taskpit.run.manual import answer_by_hand, refuse_called_off
from taskpit.status import Status, card_facts, status_of


def _text(word: str, context: Context) -> str:
    return read_text("-", context.queue.config.largest_task) if word == "-" else word


@takes(ID, arg("TEXT", "the note; - is standard input"), AS)
def _note(args: Args, context: Context) -> Reply:
    """Add a note to a task, in any state. `pit show` shows the notes.

    pit note 0007 'the API key is in the vault'
    pit note 0007 - < findings.txt
    """
    task_id = context.queue.resolve(args.id)
    text = _text(args.text, context)
    message = ACTIONS["note"].do(context.queue, task_id, context.worker(args), text)
    return Reply(data={"id": task_id, "note": text}, text=message)


@takes(ID, arg("TEXT", "what to say; - is standard input"), AS)
def _tell(args: Args, context: Context) -> Reply:
    """Send a message to the agent that works on a task. The reply shows when the agent reads it: after its next
    step, at the end of this session, or in the next attempt. The message is also kept as a note.

    pit tell 0007 'leave the old API alone'
    pit tell 0007 - < more.txt
    """
    task_id, text = context.queue.resolve(args.id), _text(args.text, context)
    way, becomes = tell(context.queue, task_id, context.worker(args), text)
    return Reply(data={"id": task_id, "way": way or "next attempt", "told": text}, text=f"{task_id}: {becomes}")


@takes(IDS, REASON, AS)
def _block(args: Args, context: Context) -> Reply:
    """Keep tasks from being taken until `pit unblock`. The reason is shown wherever they are.
    Your own claim is released by it.

    pit block 0007 'waits for the new contract'
    pit block 7 8 --reason 'after the release'
    """
    reason = reason_words(args, context, needed=True)
    if reason is None:
        raise Usage("say why it is blocked", hint="For example: `pit block 7 'waits for the new contract'`.")
    return _each("block", args, context, reason)


@takes(IDS, REASON, AS)
def _cancel(args: Args, context: Context) -> Reply:
    """Cancel tasks. The worker of a running task is asked to stop the next time it renews; your own claim ends at
    once. `pit undo` or `pit retry` reopens the task; if it is running, as soon as its worker has stopped.

    pit cancel 0007 'superseded by 0009'
    pit cancel 7 8 --reason 'not needed any more'
    """
    return _each("cancel", args, context, reason_words(args, context) or "")


@takes(IDS, AS)
def _retry(args: Args, context: Context) -> Reply:
    """Run tasks again from scratch, with all their attempts. Failed and cancelled tasks are reopened;
    blocked ones, and those that wait for a time, are released.

    pit retry 0007
    """
    return _each("retry", args, context)


@takes(IDS, AS)
def _unblock(args: Args, context: Context) -> Reply:
    """Release the hold and reset attempts: the tasks may be taken at once. Needs still count.

    pit unblock 0007 0008
    """
    return _each("unblock", args, context)


def _each(verb: str, args: Args, context: Context, text: str = "") -> Reply:
    """It is done to each of these tasks; where all of them stand, and what was said."""
    queue, worker = context.queue, context.worker(args)

    def act(task_id: str) -> tuple[object, str]:
        line = ACTIONS[verb].do(queue, task_id, worker, text)
        card = queue.card(task_id)
        ended = status_of(card) is Status.CANCELLED
        cancelled = {"id": task_id, "cancelled": ended, "asked_to_stop": not ended}
        return cancelled if verb == "cancel" else card_facts(card), line

    return to_each(named(context, args.ids), act)


# -- between people and agents ---------------------------------------------------------------------


#: What `pit answer` calls the question whether a day may cost more.
BUDGET = "budget"
#: What lets it; anything else costs nothing.
YES = ("yes", "y", "ok", "go on")


@takes(
    ID,
    arg(
        "QUESTION",
        "the question; - is standard input. In a run of the task you can leave out the ID",
        nargs="?",
    ),
    arg("--key KEY", "equal keys are the same question", default=""),
    arg("--wanted TEXT", "what would answer it", default=""),
    AS,
)
def _ask(args: Args, context: Context) -> Reply:
    """Ask a person, and put your task back until there is an answer. You are free to take another task; the
    answer will be in this one's text. Tasks that ask with the same key are answered together.

    pit ask 0007 'Which database?' --key database --wanted 'a name and a version'
    """
    queue, task_id, question = context.queue, args.id, args.question
    if question is None:  # a worker that a pool has started works on one task
        task_id, question = context.env.get("TASKPIT_TASK", ""), args.id
        if not task_id:
            raise Usage("the id of the task or the question is missing", hint="`pit ask 7 'Which database?'`")
    question = _text(question, context)
    if not question.strip():
        raise Invalid("the question is empty")
    claim = access.own_claim(queue, "ask", queue.resolve(task_id), context.worker(args), context.env)
    said, end = queue.finish(claim, Ask(question=question, key=args.key, wanted=args.wanted))
    if said is Said.LOST:
        raise Lost(f"you no longer have {claim.task.id}", id=claim.task.id)
    refuse_called_off(end)
    return Reply(data={"id": claim.task.id, "question": end.details}, text=f"{claim.task.id} waits for an answer")


@takes(
    arg("ID|KEY", "the task that asks, or the key of the question", dest="id"),
    arg("TEXT", "the answer; - is standard input"),
    AS,
)
def _answer(args: Args, context: Context) -> Reply:
    """Answer the question of a task. It goes on, with question and answer in its text.

    pit answer 0007 'PostgreSQL 18'
    pit answer database 'PostgreSQL 18'
    pit answer budget yes
    """
    if args.id == BUDGET:
        return _go_on(args, context)
    queue, worker = context.queue, context.worker(args)
    meant = [card.task for card in queue.store.read(queue.store.resolve(args.id)) if card is not None]
    ids = answer_by_hand(queue, args.id, _text(args.text, context), worker)
    if ids == [task.id for task in meant]:
        remember(queue, worker, meant[0])
    return Reply(data={"ids": ids}, text=f"{', '.join(ids)} {'go' if len(ids) > 1 else 'goes'} on")


def _go_on(args: Args, context: Context) -> Reply:
    """The day may cost as much again; the queue goes on, unless it is paused for another reason."""
    from taskpit.run.budget import SPENT, allow

    if _text(args.text, context).strip().casefold() not in YES:
        hint = "`pit answer budget yes` allows the same amount again today; otherwise the queue goes on tomorrow."
        raise Invalid("the budget is unchanged", hint=hint)
    queue = context.queue
    allow(queue, context.worker(args))
    paused = queue.store.paused()
    if paused and f": {SPENT}: " not in paused:
        text = f"Today may cost as much again, but the queue stays {paused}. {resuming(paused)}".rstrip()
        return Reply(data={"resumed": False}, text=text)
    resumed = queue.store.resume(context.worker(args))
    return Reply(data={"resumed": resumed}, text="The queue goes on. Today may cost as much again.")


@takes(
    arg("REASON", "why", dest="text", nargs="?", default=""),
    arg("--reason TEXT", "the same as an option", default=""),
    arg("--for T", "how long", dest="seconds", type=a_duration, default=0.0),
    AS,
)
def _pause(args: Args, context: Context) -> Reply:
    """Give out no task until `pit resume`, or for so long. Running tasks go on.

    pit pause 'deploying' --for 20m
    """
    if args.reason and args.text:
        raise Usage("the reason is given twice", hint="`pit pause 'deploying'` is enough.")
    reason = " ".join((args.reason or args.text).split()) or "no reason given"
    context.queue.store.pause(reason, args.seconds, context.worker(args))
    until = f" for {say_duration(args.seconds)}" if args.seconds else ", until `pit resume`"
    return Reply(data={"paused": context.queue.store.paused()}, text=f"No task is handed out{until}.")


@takes(AS)
def _resume(args: Args, context: Context) -> Reply:
    """Give out tasks again after `pit pause`.

    pit resume
    """
    was = context.queue.store.resume(context.worker(args))
    return Reply(data={"resumed": was}, text="Tasks are handed out again." if was else "The queue was not paused.")


# -- taking back the last thing one did: `undo` ----------------------------------------------------


@takes(AS)
def _undo(args: Args, context: Context) -> Reply:
    """Undo your last action on a task: cancel, block, unblock, edit, priority, answer, claim, add.
    Other actions cannot be undone, because a result is final; the message names the command that helps instead.

    pit cancel 7
    pit undo
    """
    task_id, text = undo(context.queue, context.worker(args))
    return Reply(data=card_facts(context.queue.card(task_id)), text=text)
