"""Who may do what: one table of actors and verbs. Anything that has no row is refused.

| actor | is |
|---|---|
| person | any process that is not part of a run |
| worker | the run of a task, by a pool or a crew |
| keeper, planner, reviewer | a run of a crew member with that role |
| token | a caller of `pit serve`, by the right that its token has |

| reach | lets a run act on |
|---|---|
| any | every task |
| text | every task, but only on its text, priority and needs |
| stuck | its own, and every task that is stuck or failed |
| own | the task of its claim with its parts, and tasks that its worker added |
| added | tasks that its worker added |
| never | nothing |

The command line, MCP, the library and both boards ask `need_verb` and `need`; the gateway asks `TOKEN_VERBS`. A run
is recognised by the kernel's name of its reaper (`workers.run_around`), which nothing below the reaper can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from taskpit import workers
from taskpit.errors import Denied
from taskpit.model import Card, Claim, State, Task
from taskpit.queue import Queue
from taskpit.run import manual
from taskpit.store.port import LOOKS


class Actor(StrEnum):
    """Who acts on the queue of this machine."""

    PERSON = "person"
    WORKER = "worker"
    KEEPER = "keeper"
    PLANNER = "planner"
    REVIEWER = "reviewer"


class Reach(StrEnum):
    """Which tasks a verb may be used on."""

    ANY = "any"
    TEXT = "text"
    STUCK = "stuck"
    OWN = "own"
    ADDED = "added"
    NEVER = "never"


#: The author of a task that was added without a name. No run counts as this author.
DEFAULT_AUTHOR = "keeper"
RUNS = (Actor.WORKER, Actor.KEEPER, Actor.PLANNER, Actor.REVIEWER)
#: Verb: the reach of a worker's, a keeper's, a planner's and a reviewer's run. A person may do everything.
TABLE: dict[str, tuple[Reach, Reach, Reach, Reach]] = {
    **dict.fromkeys(
        (
            *("status", "list", "show", "why", "diff", "report", "search", "log", "stats", "trace", "board", "prime"),
            *("lessons", "doctor", "export", "completion", "roles", "bench", "demo", "hook", "mcp", "note", "sweep"),
        ),
        (Reach.ANY, Reach.ANY, Reach.ANY, Reach.ANY),
    ),
    **dict.fromkeys(
        ("init", "setup", "convert", "add", "every", "import", "claim", "lock", "pipe", "work", "notify"),
        (Reach.ANY, Reach.ANY, Reach.ANY, Reach.NEVER),
    ),
    **dict.fromkeys(
        ("done", "fail", "release", "renew", "split", "ask", "task", "pivot"),
        (Reach.OWN, Reach.OWN, Reach.OWN, Reach.NEVER),
    ),
    **dict.fromkeys(("edit", "priority", "raise", "lower"), (Reach.ADDED, Reach.TEXT, Reach.ADDED, Reach.NEVER)),
    **dict.fromkeys(("block", "unblock", "cancel", "undo"), (Reach.OWN, Reach.OWN, Reach.OWN, Reach.NEVER)),
    "retry": (Reach.OWN, Reach.STUCK, Reach.OWN, Reach.NEVER),
    "send_back": (Reach.NEVER, Reach.NEVER, Reach.NEVER, Reach.ANY),
    **dict.fromkeys(
        (
            *("answer", "tell", "approve", "take_over", "take_back", "pause", "resume", "doctor --fix", "archive"),
            *("lessons --edit", "trust", "serve", "crew"),
        ),
        (Reach.NEVER, Reach.NEVER, Reach.NEVER, Reach.NEVER),
    ),
    # What a review does beyond showing has rows of its own: approve, send_back, take_over.
    "review": (Reach.ANY, Reach.ANY, Reach.ANY, Reach.ANY),
}
#: Fields that say what a task is, not how it is checked, landed or reviewed.
TEXT_FIELDS = frozenset(("title", "body", "slug", "priority", "needs", "source"))

#: The store calls that each right of a token allows; `all` allows every one.
TOKEN_VERBS: dict[str, frozenset[str]] = {
    "look": frozenset(LOOKS),
    "put": frozenset((*LOOKS, "allot", "vet", "put", "note")),
    "work": frozenset(
        (
            *LOOKS,
            *("allot", "vet", "claim", "wait", "renew", "finish", "join", "leave", "note", "record"),
            *("lock", "relock", "unlock", "lapsed", "mend", "compost"),
            *("keep_log", "add_log", "end_log", "keep_artifact"),
        )
    ),
}
_HINTS = {
    "resume": "Only a person resumes: what paused the queue may be what an agent has spent.",
    "doctor --fix": "`pit doctor` looks and changes nothing; a person repairs.",
}
_HINT = "`pit ask TEXT` asks a person; `pit add` puts in another task; `pit note ID TEXT` leaves a note."


def reach(actor: Actor, verb: str) -> Reach:
    """Return the tasks on which this actor may use this verb."""
    if actor is Actor.PERSON:
        return Reach.ANY
    row = TABLE.get(verb)
    return Reach.NEVER if row is None else row[RUNS.index(actor)]


def actor_of(around: workers.Around | None) -> Actor:
    """Return the actor that a process inside this run is; a person outside of all runs."""
    if around is None:
        return Actor.PERSON
    return Actor(around.role) if around.role in RUNS else Actor.WORKER


def need_verb(verb: str, env: Mapping[str, str], task_id: str = "") -> None:
    """Raise Denied if the run that this process is part of may never use this verb."""
    if set(TABLE.get(verb, ())) == {Reach.ANY}:
        return
    actor = actor_of(workers.run_around(env))
    if reach(actor, verb) is Reach.NEVER:
        raise _denied(verb, actor, task_id)


def need(queue: Queue, verb: str, card: Card, env: Mapping[str, str], after: Task | None = None) -> None:
    """Raise Denied if the run that this process is part of may not use this verb on this task.

    `after` is the task as an edit leaves it.
    """
    around = workers.run_around(env)
    actor = actor_of(around)
    allowed = reach(actor, verb)
    if around is None or allowed is Reach.ANY or _added_by(card.task, around):
        return
    if allowed is Reach.OWN and (is_own(queue, card, around) or manual.is_part(queue, card.task, around.task)):
        return
    if allowed is Reach.STUCK and (card.state is State.FAILED or card.task.hold):
        return
    if allowed is Reach.TEXT and (after is None or _same_terms(card.task, after)):
        return
    raise _denied(verb, actor, card.task.id)


def need_name(worker: str, env: Mapping[str, str]) -> None:
    """Raise Denied if the run that this process is part of may not claim under this name."""
    around = workers.run_around(env)
    if around is None or _has_name(worker, around):
        return
    name = workers.base(around.fence)
    message = f"A run may only claim under the name of its worker{f', {name}' if name else ''}."
    raise Denied(message, hint="Leave out --as: TASKPIT_AS has the name." if name else "", name=worker)


def own_claim(queue: Queue, verb: str, task_id: str, worker: str, env: Mapping[str, str]) -> Claim:
    """Return the claim of this worker on this task, which this process may end or renew."""
    need(queue, verb, queue.card(task_id), env)
    return manual.own_claim(queue, task_id, worker, env)


def is_own(queue: Queue, card: Card, around: workers.Around) -> bool:
    """Return whether the claim on this task is the run's own, or one of a pool inside the run."""
    if card.task.id == around.task or _has_name(card.worker, around):
        return True
    if card.state is not State.CLAIMED:
        return False
    from taskpit.run.run_directory import reaper_of  # noqa: PLC0415 - 5 ms that only a command below a run needs

    inside = reaper_of(queue.store, queue.holding(card.task.id, card.worker))
    return inside > 0 and workers.is_below(inside, around.top)


def _added_by(task: Task, around: workers.Around) -> bool:
    return workers.base(task.by) != DEFAULT_AUTHOR and _has_name(task.by, around)


def _has_name(worker: str, around: workers.Around) -> bool:
    """Return whether this is the name of the run's worker, or one made of it: NAME-2, NAME@host."""
    own, name = workers.base(around.fence), workers.base(worker)
    return bool(own) and (name == own or name.startswith((f"{own}-", f"{own}@")))


def _same_terms(before: Task, after: Task) -> bool:
    return all(
        getattr(before, name) == getattr(after, name) for name in Task.__struct_fields__ if name not in TEXT_FIELDS
    )


def _denied(verb: str, actor: Actor, task_id: str = "") -> Denied:
    who = f"a {actor}'s run" if actor is not Actor.PERSON else "this process"
    message = f"{who.capitalize()} may not use `pit {verb}`{f' on {task_id}' if task_id else ''}."
    return Denied(message, hint=_HINTS.get(verb, _HINT), verb=verb, actor=str(actor), id=task_id)
