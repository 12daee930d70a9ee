"""Why a task is where it is, in sentences that say what to do next. Pure: a card in, words out."""

from __future__ import annotations

from taskpit import errors
from taskpit.clock import iso, say_duration
from taskpit.policy import WAITS
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.task import Card

__all__ = ["ENDING", "held_by", "known_otherwise", "not_claimed", "nothing", "refusal", "why"]

#: Whose a task is between the end of its claim and the last step of it.
ENDING = "(ending)"


def held_by(card: Card, now: float) -> errors.Lost:
    """Who has it, whether it lives, since when, and what to do."""
    if card.worker == ENDING:
        told = f"the end of {card.task.id} is decided and not carried out yet"
        return errors.Lost(told, hint="`pit sweep` carries it out.", id=card.task.id)
    left = card.until - now
    life = {"yes": "is alive", "no": "is dead", "unknown": "may or may not be alive"}[card.alive]
    hint = "Wait for it, or choose another task with `pit claim`."
    if card.alive == "no" or left <= 0:
        hint = "`pit sweep` gives abandoned tasks back; then claim again."
    until = f"its lease ends in {say_duration(left)}" if left > 0 else f"its lease ended {say_duration(-left)} ago"
    sign = f"last sign {say_duration(now - card.since)} ago"
    return errors.Lost(
        f"{card.task.id} is held by {card.worker}, which {life}; {sign}, {until}",
        hint=hint,
        id=card.task.id,
        holder=card.worker,
        alive=card.alive,
    )


def refusal(card: Card, now: float) -> errors.TaskpitError:
    """Why a task cannot be had: somebody works on it, it is finished, or it is held."""
    task_id = card.task.id
    if card.state is State.CLAIMED:
        return held_by(card, now)
    if card.state is not State.READY:
        return errors.Conflict(f"{task_id} {_told(card)} already", hint=f"See `pit show {task_id}`.", id=task_id)
    if card.held:
        return errors.Held(f"{task_id} is held: {card.held}", hint=f"`pit why {task_id}` says more.", id=task_id)
    return errors.Lost(f"{task_id} could not be had: somebody was faster", hint=f"See `pit why {task_id}`.", id=task_id)


def not_claimed(card: Card) -> errors.Lost:
    """It is nobody's; what to do depends on why."""
    task_id, free = card.task.id, card.state is State.READY and not card.held
    hint = f"`pit claim {task_id}` takes it." if free else f"See `pit why {task_id}`."
    return errors.Lost(f"{task_id} {_told(card)}, not claimed", hint=hint, id=task_id, state=str(card.state))


def _told(card: Card) -> str:
    if card.state is State.FAILED:
        return "has failed"
    return "is held" if card.held else f"is {card.state}"


def nothing(counts: dict[State, int], paused: str, task_id: str = "", tags: Sequence[str] = ()) -> errors.TaskpitError:
    """Why there was nothing to claim, or not the one named, and what to do."""
    if paused:
        return errors.Nothing(f"the queue is {paused}", hint="`pit resume` gives out tasks again.", paused=paused)
    if task_id:
        return errors.Lost(f"{task_id} could not be had: somebody was faster", hint=f"See `pit why {task_id}`.")
    ready, claimed = counts[State.READY], counts[State.CLAIMED]
    if ready and tags:
        hint = "Other tasks are ready or held; `pit list --state ready` shows them."
    elif ready:
        hint = f"{ready} ready but held; `pit list --state held` says why."
    elif claimed:
        hint = f"{claimed} being worked on; `pit list --state claimed` shows by whom, --wait waits for more."
    elif any(counts.values()):
        hint = "Everything is finished. `pit add` puts something in."
    else:
        hint = "The queue is empty. `pit add 'a first task'` puts something in."
    with_tag = f" with the tag {' or '.join(tags)}" if tags else ""
    return errors.Nothing(f"there is nothing to claim{with_tag}", hint=hint, ready=ready, claimed=claimed)


def known_otherwise(task_id: str, card: Card | None) -> errors.Conflict:
    """The id is another task's: which, and what to do."""
    state = card.state if card else "known"
    return errors.Conflict(
        f"{task_id} exists already ({state}) with other content",
        hint=f"Look at it with `pit show {task_id}`, change it with `pit edit {task_id}`, or choose another id.",
        id=task_id,
        state=str(state),
    )


def why(card: Card, now: float, paused: str) -> list[str]:
    """What holds it, what happened to it, what to do."""
    told = [_where(card, now), *_what_to_do(card, paused)]
    told += [f"{one.kind} at {iso(one.at)} by {one.worker}: {' '.join(one.error.split())[:300]}" for one in card.tries]
    return told + [f"A late result is kept in {late}." for late in card.late]


def _where(card: Card, now: float) -> str:
    task_id = card.task.id
    by = f" (by {card.result.worker})" if card.result and card.result.worker else ""
    if card.held:
        return f"{task_id} is held: {card.held.rstrip('.')}."
    if card.state is State.READY:
        who = "a planner takes it (`pit work --big`)" if card.task.big else "any worker may take it"
        return f"{task_id} is ready: {who}."
    if card.state is State.CLAIMED:
        return held_by(card, now).message.replace("is held by", "is being worked on by") + "."
    if card.state is State.DONE:
        return f"{task_id} is done{by}."
    return f"{task_id} {card.result.verdict if card.result else 'failed'}{by}."


def _what_to_do(card: Card, paused: str) -> list[str]:
    task_id = card.task.id
    if card.state is State.FAILED and card.result:
        return [f"Reason: {card.result.reason}", f"`pit retry {task_id}` starts it anew."]
    if card.task.hold.startswith(WAITS):
        return [f"`pit answer {task_id} TEXT` answers it."]
    if card.task.hold:
        return [f"`pit unblock {task_id}` lets it go on."]
    if card.state is State.READY and paused:
        return [f"The queue is {paused}. `pit resume` gives out tasks again."]
    return []
