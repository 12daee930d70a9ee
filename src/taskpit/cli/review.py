"""What agents changed, and a person's word on it: `review`, `diff`. Changes are shown here and judged elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence

from taskpit import access, errors
from taskpit.cli.context import Args, Context, Reply, Usage, arg, either, takes
from taskpit.cli.options import AS, ID, read_text
from taskpit.cli.output import paint, table
from taskpit.history import who
from taskpit.landing import review
from taskpit.landing.pipe import LandingPipe
from taskpit.landing.review import FileDiff, ReviewComment
from taskpit.landing.values import CANDIDATE, HandIn, frozen_edits
from taskpit.model import Card
from taskpit.text import revealed

#: The longest text of a review.
LONGEST = 1024 * 1024
#: So many lines of what was asked and of what was said are shown; `pit show` has all.
QUOTED = 20


@takes(
    arg("ID", "the task; without it, list the changes that wait for review", nargs="?"),
    *either(
        arg("--approve", "land it, if it still can"),
        arg("--send-back TEXT", "return it to its agent with this text; - is standard input"),
        arg("--take-over", "continue it yourself, on a branch"),
    ),
    arg("--comment FILE:LINE:TEXT", "with --send-back: a comment on a line; may be repeated", action="append"),
    arg("--commit C", "with --approve: only if the candidate is still this commit", default=""),
    arg(
        "--despite REASON",
        "with --approve: approve although the review asks about secret, conflict, link, starter or attributes",
        action="append",
    ),
    AS,
)
def _review(args: Args, context: Context) -> Reply:
    """Without ID, list the changes that wait for review. With ID, show the task, the output of the check, and the diff.
    --approve lands exactly the change that was shown. --send-back returns it to the same agent, with your text.
    --take-over gives it to you: the change is on a branch pit/ID, and you have claimed the task.

    pit review
    pit review 7
    pit review 7 --approve
    pit review 7 --send-back 'use the helper' --comment src/api.py:12:'this exists already'
    """
    if args.comment and args.send_back is None:
        raise Usage("--comment goes with --send-back")
    if args.commit and not args.approve:
        raise Usage("--commit goes with --approve")
    if args.despite and not args.approve:
        raise Usage("--despite goes with --approve")
    if args.id is None:
        if args.approve or args.take_over or args.send_back is not None:
            raise Usage("say which task")
        return _waiting(context)
    task_id = context.queue.resolve(args.id)
    if args.approve:
        return _approve(args, context, task_id)
    if args.send_back is not None:
        return _send_back(args, context, task_id)
    return _take_over(args, context, task_id) if args.take_over else _shown(context, task_id)


def _waiting(context: Context) -> Reply:
    found = review.waiting(context.queue)
    for line in review.standing(context.queue).stranded if found else ():
        context.warn(line)
    data = []
    for card in found:
        candidate = card.task.extra.get(CANDIDATE)
        seen = {CANDIDATE: candidate if isinstance(candidate, dict) else None}
        data.append({"id": card.task.id, "title": card.task.title, "held": card.held, **seen})

    def text() -> str:
        if not found:
            return "Nothing waits for review."
        rows = [(card.task.id, card.task.title, card.held.partition(": ")[2]) for card in found]
        return f"{table(('ID', 'TITLE', 'WHAT'), rows)}\n\n`{context.called('review ID')}` shows one."

    return Reply(data=data, text=text)


def _shown(context: Context, task_id: str) -> Reply:
    pipe, handed = review.find(context.queue, task_id)
    card = context.queue.card(task_id)
    rows = review.files(pipe, handed.base, handed.commit)
    change = review.diff(pipe, handed.base, handed.commit)
    runners = review.read_by_test_runners(pipe, handed.base, handed.commit)
    data = {
        "id": task_id,
        "title": handed.title,
        "held": card.held,
        "commit": handed.commit,
        "onto": handed.target,
        "worker": handed.worker,
        "output": handed.output,
        "check": handed.evidence.as_dict() if handed.evidence else None,
        "questions": list(handed.questions),
        "despite": list(handed.despite),
        "left_out": list(handed.left_out),
        "read_by_test_runners": runners,
        "cost": dict(handed.cost),
        "files": [one.as_dict() for one in rows],
        "diff": change,
    }
    return Reply(data=data, text=lambda: _page(context, card, handed, rows, change, runners))


def _page(
    context: Context, card: Card, handed: HandIn, rows: list[FileDiff], change: str, runners: Sequence[str]
) -> str:
    evidence = handed.evidence
    despite = "".join(f" --despite {reason}" for reason in handed.despite)
    green = paint("green", "green") if evidence and evidence.green else paint("red", "red")
    check = f"{green} in {evidence.seconds:.1f}s: {revealed(evidence.command)}" if evidence else "none was run"
    lines = [
        paint("bold", f"{card.task.id}  {handed.title}"),
        card.held or str(card.state),
        f"candidate {handed.commit[:12]} for {handed.target}, by {who(handed.worker)}, attempt {handed.attempt}",
        f"check: {check}",
        *(paint("yellow", f"asks: {one}") for one in handed.questions),
        *(paint("yellow", f"new, and read by a test runner without being named: {name}") for name in runners),
        *([paint("yellow", frozen_edits(handed.left_out))] if handed.left_out else []),
        *_quoted("Asked", card.task.body),
        *_quoted(f"{who(handed.worker)} says", handed.output),
        "",
        *(f"{one.letter}  {revealed(one.path)}  +{one.added} -{one.removed}" for one in rows),
        "",
        _coloured(change),
        "",
        f"`{context.called(f'review {card.task.id} --approve{despite}')}`, or --send-back TEXT, or --take-over.",
    ]
    return "\n".join(lines)


def _quoted(name: str, text: str) -> list[str]:
    """The beginning of a text below its name; nothing if it is empty."""
    lines = text.strip().splitlines()
    more = [f"  … and {len(lines) - QUOTED} more lines"] if len(lines) > QUOTED else []
    return ["", paint("bold", name), *(f"  {revealed(line)}" for line in lines[:QUOTED]), *more] if lines else []


def _coloured(change: str) -> str:
    colours = {"+": "green", "-": "red", "@": "blue"}
    lines = revealed(change.replace("\r\n", "\n")).splitlines()
    return "\n".join(paint(colours[line[0]], line) if line[:1] in colours else line for line in lines)


def _approve(args: Args, context: Context, task_id: str) -> Reply:
    from taskpit.run.landing_thread import land_by_hand

    worker = _judge(args, context, task_id)
    context.queue.need_trust()  # landing runs the task's check
    pipe, handed = review.find(context.queue, task_id)
    if handed.pr:
        return _merged(context, pipe, handed, worker)
    pipe, handed = review.approve(context.queue, task_id, worker, args.commit, args.despite or ())
    word = land_by_hand(context.queue, pipe, handed, worker, context.warn)
    card = context.queue.card(task_id)
    data = {"id": task_id, "state": str(card.state), "held": card.held, "commit": handed.commit}
    return Reply(data=data, text=f"{task_id} is approved; {word}")


def _merged(context: Context, pipe: LandingPipe, handed: HandIn, worker: str) -> Reply:
    """Its pull request is merged: the forge says so, or where nobody can ask it, the person."""
    from taskpit.landing.lander import Lander
    from taskpit.run.landing_thread import ByHand

    lander = Lander(context.queue, pipe, worker, ByHand(context.warn))
    if handed.number:
        lander.look(now=True)
    else:
        lander.confirm(handed)
    card = context.queue.card(handed.task)
    if card.result is None:
        text = f"{handed.task}: {handed.pr} is not merged"
        raise errors.Conflict(text, hint="Merge it there, or say what should be different with --send-back.")
    data = {"id": handed.task, "state": str(card.state), "held": card.held, "commit": handed.commit}
    return Reply(data=data, text=f"{handed.task} is done: {card.result.reason}")


def _judge(args: Args, context: Context, task_id: str) -> str:
    """Return the name of the person who approves; Denied in a run."""
    access.need_verb("approve", context.env, task_id)
    return context.worker(args)


def _send_back(args: Args, context: Context, task_id: str) -> Reply:
    text = read_text("-", LONGEST) if args.send_back == "-" else args.send_back
    comments = [_comment(one) for one in args.comment or ()]
    access.need(context.queue, "send_back", context.queue.card(task_id), context.env)
    review.send_back(context.queue, task_id, context.worker(args), text, comments)
    return Reply(data={"id": task_id, "state": "ready"}, text=f"{task_id} goes back to its agent")


def _comment(text: str) -> ReviewComment:
    path, first, rest = text.partition(":")
    number, second, said = rest.partition(":")
    if not (path and first and second and said.strip() and number.isdecimal()):
        raise errors.Invalid(f"--comment {text!r} does not read FILE:LINE:TEXT", hint="LINE 0 means the whole file.")
    return ReviewComment(path=path, line=int(number), text=said)


def _take_over(args: Args, context: Context, task_id: str) -> Reply:
    claim, branch = review.take_over(context.queue, task_id, _judge(args, context, task_id))
    text = f"{task_id} is yours; its change is on the branch {branch}. `{context.called(f'done {task_id}')}` ends it."
    return Reply(data={"id": task_id, "worker": claim.fence, "branch": branch}, text=text)


@takes(ID, arg("--stat", "only which files, and by how much"))
def _diff(args: Args, context: Context) -> Reply:
    """What a task's agent changed: its candidate, waiting or landed, as a diff.

    pit diff 7
    pit diff 7 --stat
    pit diff 7 | git apply --check
    """
    task_id = context.queue.resolve(args.id)
    pipe, base, commit = review.candidate(context.queue, task_id)
    rows = review.files(pipe, base, commit)
    data: dict[str, object] = {"id": task_id, "base": base, "commit": commit, "files": [one.as_dict() for one in rows]}
    stat = "\n".join(f"{one.letter}  {revealed(one.path)}  +{one.added} -{one.removed}" for one in rows)
    if args.stat:
        return Reply(data=data, text=stat)
    change = review.diff(pipe, base, commit)
    shown = change.rstrip("\n") if not os.isatty(1) else _coloured(change)
    return Reply(data={**data, "diff": change}, text=shown)
