"""Why a task is where it is, in sentences that say what to do next. Pure: a card in, words out."""

from __future__ import annotations

from taskpit import errors
from taskpit.clock import iso, say_duration
from taskpit.policy import WAITS
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.task import Card

__all__ = ["ENDING", "held_by", "why"]

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
