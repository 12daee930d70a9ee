"""What a token may do, and under which names. Pure: a grant and what is asked for in, the same or a refusal out.

A token works under its own name only: NAME, NAME-1, ..., NAME@machine. What others have claimed it can neither renew
nor end; a name that several tokens could have is the one's with the longest name. One with the right to `all` is its
owner's: every verb, under any name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from taskpit.access import TOKEN_VERBS
from taskpit.errors import Denied
from taskpit.history import SAID_BY_WORKERS, TOLD_BY_WORKERS
from taskpit.layouts.layout import is_worker
from taskpit.model import Card, End, Event, State, Task, Want
from taskpit.policy import KEY as ASK_KEY
from taskpit.policy import LANDING, PULL, RACERS, REVIEW, REVIEWER
from taskpit.rules import check_task
from taskpit.store.http.tokens import Grant
from taskpit.workers import MARK, base

#: Where a task that was handed in says what, and how its hold begins.
CANDIDATE, HANDED_IN = "candidate", (LANDING, REVIEW, PULL)

#: What a task asks for, which is the same after a claim as before.
ASKED = ("title", "check", "by", "parent", "priority", "tags", "limits", "touches", "max_attempts")
#: The further fields that an end may set: a question's key, a candidate, racers, the last run of a schedule. All others
#: are asked for: how it is checked, landed, shut in and set up, and by which agent.
SAID = frozenset((ASK_KEY, CANDIDATE, RACERS, "last-run"))


#: Words of a reviewer about a change.
VERDICTS = ("approved", "sent_back")


def is_owner(grant: Grant) -> bool:
    """Whether it may do everything."""
    return "all" in grant.rights


def check_verb(grant: Grant, verb: str) -> None:
    """Denied unless the token is for this."""
    if not is_owner(grant) and not any(verb in TOKEN_VERBS.get(right, ()) for right in grant.rights):
        right = next((right for right in ("put", "work") if verb in TOKEN_VERBS[right]), "all")
        message = f"the token {grant.name} does not allow this ({verb})"
        hint = f"On the server, `pit serve token add NAME --verb {right}` creates one that does."
        raise Denied(message, hint=hint, name=grant.name)


def acts_as(grant: Grant, worker: str) -> bool:
    """Whether this name, or a claim's fence with it, is the token's own."""
    name = base(worker)
    own = _is_of(name, grant.name) and not any(_is_of(name, other) for other in grant.others)
    return is_owner(grant) or (own and is_worker(worker))


def _is_of(name: str, token: str) -> bool:
    return name == token or name.startswith((f"{token}-", f"{token}@"))


def _need(grant: Grant, worker: str, what: str = "work") -> None:
    if not acts_as(grant, worker):
        told = f"the token {grant.name} cannot {what} as {base(worker)[:80]}"
        hint = f"It is for {grant.name}, {grant.name}-1, ...: --as {grant.name}."
        raise Denied(told, hint=hint, name=grant.name)


def check(grant: Grant, verb: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments as this token may give them; Denied or Invalid says what it may not."""
    look = _CHECKS.get(verb)
    changed = look(grant, given) if look is not None else given
    if "worker" in changed:
        _need(grant, changed["worker"])
    return changed


def _put(grant: Grant, given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "tasks": [_own(grant, task) for task in given["tasks"]]}


def _own(grant: Grant, task: Task) -> Task:
    """A task that can be one, asked for by who asks."""
    check_task(task)
    return task if acts_as(grant, task.by) else task.replace(by=grant.name)


def _claim(grant: Grant, given: dict[str, Any]) -> dict[str, Any]:
    want: Want = given["want"]
    _need(grant, want.worker, "claim")
    if is_owner(grant):
        return given
    if MARK in want.worker and not want.verbatim:
        raise Denied(f"A worker's name has no {MARK}: {want.worker[:80]}", name=grant.name)
    if want.even_held and not want.ids:
        raise Denied(f"the token {grant.name} may not change tasks that no worker has", name=grant.name)
    if grant.tags:
        tags = tuple(tag for tag in want.tags if tag in grant.tags) if want.tags else grant.tags
        if not tags:
            told = f"the token {grant.name} is for tasks tagged {', '.join(grant.tags)}"
            raise Denied(told, name=grant.name)
        want = want.replace(tags=tags)
    return {**given, "want": want}


def check_held(grant: Grant, cards: Iterable[Card | None]) -> None:
    """Denied unless each of these waits with a change that this token's own workers handed in, and which they land."""
    for card in cards:
        candidate = (
            card.task.extra.get(CANDIDATE) if card is not None and card.task.hold.startswith(HANDED_IN) else None
        )
        if is_owner(grant) or (isinstance(candidate, dict) and candidate.get("token") == grant.name):
            continue
        told = f"the token {grant.name} may not change tasks that no worker has"
        hint = "A token with `--verb all` may."
        raise Denied(told, hint=hint, id=card.task.id if card is not None else "")


def check_tagged(grant: Grant, cards: Iterable[Card | None]) -> None:
    """Denied if there are tasks among these, and none that this token's tags let it claim."""
    there = [card.task for card in cards if card is not None]
    if there and not is_owner(grant) and all(set(grant.tags).isdisjoint(task.tags) for task in there):
        told = f"the token {grant.name} is for tasks tagged {', '.join(grant.tags)}, and {there[0].id} is not"
        raise Denied(told, hint="Claim another one, or ask who has a token with `--verb all`.", id=there[0].id)


def check_end(grant: Grant, end: End, card: Card | None) -> End:
    """The end with the task as the store has it, whatever the claim that was sent says: it is written back, published
    and told to hooks. Denied if another one should go back: who works on a task does not change what it asks for.

    An end of what is not held any more changes nothing, and is for the store to answer.
    """
    if is_owner(grant) or card is None:
        return end
    if end.task is not None and (other := _changed(card.task, end.task)):
        if card.state is State.CLAIMED and card.worker == end.claim.fence:
            told = f"the token {grant.name} may not change what {card.task.id} asks for ({other})"
            raise Denied(told, hint="Whoever has a token with `--verb all` may.", id=card.task.id)
        end = end.replace(task=None)
    if end.action in VERDICTS and not card.task.hold.startswith(REVIEWER):
        message = f"The token {grant.name} may not call {card.task.id} {end.action.replace('_', ' ')}."
        raise Denied(message, hint="Only a reviewer of a change that waits for an agent's review may.", id=card.task.id)
    if card.state not in (State.READY, State.CLAIMED):
        return end  # an end that is said again is known by what was said
    back = end.task and end.task.replace(source=card.task.source)
    return end.replace(claim=end.claim.replace(task=card.task), task=back)


def _changed(before: Task, after: Task) -> str:
    """The first thing that the one asks for and the other does not; empty if there is none."""
    other = [name for name in ASKED if getattr(before, name) != getattr(after, name)]
    fields = before.extra.keys() | after.extra.keys()
    other += sorted(name for name in fields - SAID if before.extra.get(name) != after.extra.get(name))
    other += [] if set(before.needs) <= set(after.needs) else ["needs"]
    other += [] if before.body.strip() in after.body else ["body"]
    return other[0] if other else ""


def _signed(grant: Grant, task: Task) -> Task:
    """A task that was handed in says by whom, whatever its worker says."""
    candidate = task.extra.get(CANDIDATE)
    if not isinstance(candidate, dict) or not task.hold.startswith(HANDED_IN):
        return task
    return task.replace(extra={**task.extra, CANDIDATE: {**candidate, "token": grant.name}})


def _renew(grant: Grant, given: dict[str, Any]) -> dict[str, Any]:
    for claim in given["held"]:
        _need(grant, claim.fence, "renew what is held")
    return given


def _own_claim(grant: Grant, given: dict[str, Any]) -> dict[str, Any]:
    for worker in (given["claim"].fence, given["claim"].worker):
        _need(grant, worker, "add to what is held")
    return given


def _finish(grant: Grant, given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "ends": [_own_end(grant, end) for end in given["ends"]]}


def _own_end(grant: Grant, end: End) -> End:
    task_id = end.claim.task.id
    for worker in (end.claim.fence, end.claim.worker):
        _need(grant, worker, "end what is held")
    for said in (end.result, end.attempt):
        if said is not None and said.worker:
            _need(grant, said.worker, "speak")
    if end.action:
        _need_word(grant, end.action, SAID_BY_WORKERS)
    if (end.result is not None and end.result.id != task_id) or (end.task is not None and end.task.id != task_id):
        raise Denied(f"the end of {task_id} is about another task", id=task_id)
    if end.task is not None:
        check_task(end.task)
        end = end.replace(task=_signed(grant, end.task))
    return end.replace(children=tuple(_own(grant, child) for child in end.children)) if end.children else end


def _record(grant: Grant, given: dict[str, Any]) -> dict[str, Any]:
    events: list[Event] = given["events"]
    for event in events:
        _need(grant, event.worker, "speak")
        _need_word(grant, event.action, TOLD_BY_WORKERS)
        if event.extra and not is_owner(grant):
            raise Denied(f"the token {grant.name} may not say more than a line has words for", name=grant.name)
    return given


def _need_word(grant: Grant, action: str, words: Collection[str]) -> None:
    """Denied if it is not a worker's to say: what a person says counts wherever it is read."""
    if action not in words and not is_owner(grant):
        told = f"the token {grant.name} may not say {action[:80]!r}: it is no worker's word"
        raise Denied(told, hint="Whoever has a token with `--verb all` may.", name=grant.name)


def _lock(grant: Grant, given: dict[str, Any]) -> dict[str, Any]:
    _need(grant, given["lock"].holder, "hold a lock")
    return given


_CHECKS: dict[str, Callable[[Grant, dict[str, Any]], dict[str, Any]]] = {
    "put": _put,
    "reopen": _put,
    "claim": _claim,
    "renew": _renew,
    "add_log": _own_claim,
    "end_log": _own_claim,
    "keep_artifact": _own_claim,
    "finish": _finish,
    "record": _record,
    "relock": _lock,
    "unlock": _lock,
}
