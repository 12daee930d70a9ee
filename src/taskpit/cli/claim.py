"""Holding a task: `claim` and `renew`.

A claim made here has no process behind it, only its lease: the worker's name is used as it is, so that
a `done` under the same name is the claimer's.
"""

from __future__ import annotations

from taskpit import access, errors
from taskpit.cli.context import Args, Context, Reply, arg, takes
from taskpit.cli.options import AS, IDS, a_duration, named, only_tags, refusal, to_each
from taskpit.cli.output import paint
from taskpit.clock import say_duration
from taskpit.explain import nothing
from taskpit.model import Card, Claim, Said, State
from taskpit.status import card_facts
from taskpit.text import revealed

FOR_EVER = float("inf")


LEASE = arg(
    "--lease 30m",
    "how long it is yours unless you renew it (default: 15m; for an activity 1h, for a person 8h)",
    type=a_duration,
    default=0.0,
)


def _patience(text: str) -> float:
    """How long to wait for a task."""
    if len(text) > 1 and text.startswith("0") and text.isdecimal():
        raise refusal(f"{text} looks like an id, not like a time; write `pit claim {text} --wait`")
    return a_duration(text)


@takes(
    arg("ID", "the task to take (default: the next one)", nargs="?"),
    AS,
    LEASE,
    arg("--human", "claim as a person (for tasks that agents may not take)"),
    arg(
        "--wait 10s",
        "wait this long for a task; without a time, until there is one",
        nargs="?",
        type=_patience,
        const=FOR_EVER,
        default=0.0,
    ),
    arg("--tag T", "only tasks with this tag, or one of several", action="append"),
)
def _claim(args: Args, context: Context) -> Reply:
    """Take the next task, or the named one. Exit code 3: there is no task to take, or the named one has to wait;
    4: another worker has it; 6: it is finished. Claiming your own task renews its lease.

    pit claim --as worker-1 --lease 1h
    pit claim 0007
    pit claim --wait 10m --tag web --json
    pit claim WI-001-A1 --as ann --human
    """
    queue, tags, kind = context.queue, only_tags(args.tag), "human" if args.human else ""
    ids = [queue.resolve(args.id)] if args.id is not None else []
    access.need_name(context.worker(args), context.env)
    claims = queue.claim(
        context.worker(args), ids=ids, tags=tags, lease=args.lease, wait=args.wait, verbatim=True, kind=kind
    )
    if not claims:
        raise nothing(queue.store.counts(), queue.store.paused(), ids[0] if ids else "", tags)
    claim = claims[0]
    return Reply(data=_facts(claim) if context.json else None, text=lambda: _page(claim, context, args.worker))


def _facts(claim: Claim) -> dict[str, object]:

    return {
        "task": card_facts(Card(task=claim.task, state=State.CLAIMED, worker=claim.fence)),
        "worker": claim.worker,
        "lease_seconds": claim.lease,
        "attempt": claim.attempt,
    }


def _page(claim: Claim, context: Context, named_worker: str | None) -> str:
    task = claim.task
    allowed = task.max_attempts or context.queue.config.max_attempts
    lines = [
        f"{paint('bold', task.id)}  {paint('bold', task.title)}",
        f"  claimed by {claim.fence} for {say_duration(claim.lease)}, attempt {claim.attempt} of {allowed}",
    ]
    if task.check:
        lines.append(f"  check: {revealed(task.check)}")
    if task.body.strip():
        lines += ["", task.body.strip("\n")]
    mine = f" --as {named_worker}" if named_worker else ""
    done = context.called(f"done {task.id}{mine}")
    fail = context.called(f"fail {task.id} 'what went wrong'{mine}")
    lines += ["", paint("dim", f"then: {done}   or: {fail}")]
    return "\n".join(lines)


@takes(IDS, AS, LEASE)
def _renew(args: Args, context: Context) -> Reply:
    """Keep a claim for another lease. Exits 4 if it is no longer yours: then stop working on it.

    pit renew 0007 --as worker-1 --lease 30m
    """
    queue, worker = context.queue, context.worker(args)
    mine = f" --as {args.worker}" if args.worker else ""

    def act(task_id: str) -> tuple[object, str]:
        access.need(queue, "renew", queue.card(task_id), context.env)
        claim = queue.holding(task_id, worker)
        lease = args.lease or claim.lease
        said = queue.renew(claim, lease)
        if said is Said.LOST:
            raise errors.Lost(f"{task_id} is no longer yours", hint=f"See `pit why {task_id}`.", id=task_id)
        if said is Said.CANCEL:
            context.warn(f"stop working on {task_id}: it was cancelled", hint=f"`pit cancel {task_id}{mine}` ends it.")
        facts = {"id": task_id, "lease_seconds": lease, "stop": said is Said.CANCEL}
        return facts, f"{task_id} is yours for another {say_duration(lease)}"

    return to_each(named(context, args.ids), act)
