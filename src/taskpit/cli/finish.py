"""Ending a claim: `done`, `fail`, `release`, `split`. The queue decides what becomes of the task."""

from __future__ import annotations

import os
from hashlib import sha256

from taskpit import access, errors
from taskpit.cli.context import Args, Context, Reply, Usage, arg, either, takes
from taskpit.cli.options import AS, ID, IDS, REASON, named, one_input, read_input, read_text, reason_words, to_each
from taskpit.clock import iso
from taskpit.explain import nothing
from taskpit.model import Claim, End, Failed, Outcome, Release, Split, State, Task
from taskpit.run.manual import finish_by_hand, need_wait, refuse_called_off, refuse_lost, refuse_unsplit
from taskpit.store.run_files import LARGEST_ARTIFACT

#: Results and logs may be long; more than this is not read into memory.
LONGEST = 32 * 1024 * 1024


# -- done ------------------------------------------------------------------------------------------


@takes(
    IDS,
    AS,
    arg("--result FILE", "the result; - is standard input"),
    arg("--log FILE", "a log to keep for a while; - is standard input"),
    arg("--artifact FILE", "a file to keep with the task; may be repeated", action="append"),
    arg("--no-check", "do not run the check (for people, not in a pool's run)"),
    arg("--not-mine", "end another worker's claim, although its pool is alive (for people)"),
)
def _done(args: Args, context: Context) -> Reply:
    """Finish a task: run its check here, then publish the result. If the check is red, the exit code is 7 and the
    claim stays yours. Repeating it is harmless. In a command that a pool runs, the result is handed in, and the
    pool runs the check when the command has ended.

    pit done 0007 --result summary.md
    make report | pit done 0007 --result - --as worker-1
    pit done 7 --artifact report.pdf
    """
    one_input(args, "result", "log")
    worker, ids = context.worker(args), named(context, args.ids)
    output = read_text(args.result, LONGEST) if args.result else ""
    log = _kept_log(args.log, context, worker) if args.log else ""
    for path in args.artifact or ():
        _keep(path, context, worker, ids)

    def act(task_id: str) -> tuple[object, str]:
        access.need(context.queue, "done", context.queue.card(task_id), context.env)
        facts = finish_by_hand(
            *(context.queue, task_id, worker),
            output=output,
            log=log,
            cwd=os.getcwd(),
            check=not args.no_check,
            force=args.not_mine,
            env=context.env,
        )
        return facts, _told_done(facts)

    return to_each(ids, act)


def _kept_log(path: str, context: Context, worker: str) -> str:
    text = read_text(path, LONGEST)
    return context.queue.store.keep_log(worker, text.encode("utf-8", "replace"))


def _keep(path: str, context: Context, worker: str, ids: list[str]) -> None:
    """The file is kept with the task, which is still this worker's."""
    if len(ids) > 1:
        raise Usage("--artifact is for one task", hint=f"For example: `pit done {ids[0]} --artifact {path}`.")
    data = read_input(path, LARGEST_ARTIFACT)
    claim = access.own_claim(context.queue, "done", ids[0], worker, context.env)
    context.queue.store.keep_artifact(claim, os.path.basename(path), data, sha256(data).hexdigest())


def _told_done(facts: dict[str, object]) -> str:
    if facts.get("handed_in"):
        return f"{facts['id']} is handed in; the pool checks it when this command ends"
    if facts["state"] != "done":
        return f"{facts['id']} is not complete yet, but your part is done: {facts['held']}"
    return f"{facts['id']} is done" + (" already" if facts["already"] else "")


# -- fail, release, split --------------------------------------------------------------------------


@takes(
    ID,
    arg("REASON", "what went wrong; - is standard input", dest="text", nargs="?"),
    arg("--reason --error TEXT", "the same as an option", dest="error"),
    arg("--final", "no further attempt, whatever is left"),
    arg("--log FILE", "a log to keep for a while"),
    AS,
)
def _fail(args: Args, context: Context) -> Reply:
    """It did not work. The queue decides what is next: another attempt after a pause, a person's look if it
    is the same failure again and again, or the end when its attempts are spent.

    pit fail 0007 'the schema has no such column'
    pit fail 0007 --reason - < errors.txt
    """
    if args.error is not None and args.text is not None:
        raise Usage("the reason is given twice", hint=f"`pit fail {args.id} 'no such column'` is enough.")
    args.error = args.error if args.error is not None else args.text
    if args.error is None:
        raise Usage("say what went wrong", hint=f"For example: `pit fail {args.id} 'no such column'`.")
    one_input(args, "error", "log")
    error = read_text("-", LONGEST) if args.error == "-" else args.error
    if not error.strip():
        raise errors.Invalid("say what went wrong", hint=f"For example: `pit fail {args.id} 'no such column'`.")
    worker = context.worker(args)
    claim = access.own_claim(context.queue, "fail", context.queue.resolve(args.id), worker, context.env)
    log = _kept_log(args.log, context, worker) if args.log else ""
    return _finish(claim, Failed(error=error.strip(), final=args.final, log=log), context)


def _finish(claim: Claim, outcome: Outcome, context: Context) -> Reply:
    """End the claim and say what became of the task."""
    said, end = context.queue.finish(claim, outcome)
    refuse_lost(said, claim.task.id)
    after = end.task or claim.task
    state = str(end.result.verdict.state) if end.result else "ready"
    again = iso(context.queue.clock.now() + end.delay) if end.delay else None
    data = {"id": claim.task.id, "state": state, "held": after.hold, "not_before": again, "attempts": after.attempts}
    return Reply(data=data, text=_became(claim.task.id, end))


def _became(task_id: str, end: End) -> str:
    if end.result:
        return f"{task_id} is {end.result.verdict}; `pit retry {task_id}` runs it again from scratch"
    if end.task and end.task.hold:
        return f"{task_id} needs a person: {end.task.hold}"
    if end.delay:
        return f"{task_id} is back: {end.details}"
    return f"{task_id} is back"


@takes(IDS, REASON, AS)
def _release(args: Args, context: Context) -> Reply:
    """Give a task back as it was; spends no attempt.

    pit release 0007
    pit release 7 8 --reason 'needs a GPU'
    """
    queue, worker, reason = context.queue, context.worker(args), reason_words(args, context) or ""
    claims = [access.own_claim(queue, "release", task_id, worker, context.env) for task_id in named(context, args.ids)]
    replies = [_finish(claim, Release(reason=reason), context) for claim in claims]
    data = [reply.data for reply in replies]
    return Reply(data=data[0] if len(data) == 1 else data, text="\n".join(str(reply.text) for reply in replies))


@takes(
    ID,
    arg("TITLE", "a child for each", dest="titles", nargs="*"),
    arg("-F --file FILE", "one JSON object a line; - is standard input"),
    *either(
        arg("--no-wait", "end the task now: what needs it does not wait"),
        arg("--wait", "wait for the subtasks (default)"),
    ),
    AS,
)
def _split(args: Args, context: Context) -> Reply:
    """Replace a task by several smaller ones, all of them or none. The task waits until they are done; then it
    may be taken again to see that the whole is right, and its check runs. What needs it waits as long.
    Children have its tags and priority unless they say otherwise. A file has records as `pit import` takes
    them; they may need each other by the ids they are given there. It must be your own claim, or no worker's.

    pit split 0007 'Design it' 'Build it'
    pit split 0007 -F children.jsonl
    """
    from taskpit.cli.import_files import settle
    from taskpit.cli.import_records import collect
    from taskpit.importers import Found

    if args.no_wait:
        need_wait(args.id, context.env)
    if bool(args.titles) == bool(args.file):
        raise Usage("name the children by their titles, or by a file", hint="`pit split 7 'Design it' 'Build it'`.")
    queue, worker, task_id = context.queue, context.worker(args), context.queue.resolve(args.id)
    records = [Found(task=Task(id="", title=title), where=title) for title in args.titles]
    if args.file:
        records = collect([args.file], queue.config.largest_task, kind="jsonl")
    ready = queue.card(task_id).state is State.READY
    if not ready:
        queue.holding(task_id, worker)  # says who has it, if that is another
    children = tuple(record.task for record in settle(queue, records, "")[1])
    if ready:
        access.need(queue, "split", queue.card(task_id), context.env)
        claims = queue.claim(worker, ids=[task_id])
    else:
        claims = [access.own_claim(queue, "split", task_id, worker, context.env)]
    if not claims:
        raise nothing(queue.store.counts(), queue.store.paused(), task_id)
    claim = claims[0]
    try:
        said, end = queue.finish(claim, Split(children=children, wait=not args.no_wait))
    except errors.TaskpitError:
        if ready:
            queue.finish(claim, Release(reason="it was not split"))
        raise
    refuse_unsplit(queue, said, end)
    refuse_called_off(end)
    ids = [child.id for child in end.children]
    text = f"{claim.task.id} is split into {', '.join(ids)}" + ("" if args.no_wait else " and waits for them")
    state = "done" if args.no_wait else "ready"
    return Reply(data={"id": claim.task.id, "state": state, "children": ids}, text=text)
