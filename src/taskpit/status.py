"""The one word for where a task stands, as every list, count, board and plot says it. Pure: a card in, a word out.

A store knows four states. People ask another question: does it go on by itself, does a worker have it, or does it
wait for me? Each task has exactly one answer, and each surface asks here for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from taskpit.model import UNREAD, Card, State, Verdict, facts
from taskpit.policy import LANDING, PULL, RACING, REVIEWER, SPARE


class Status(StrEnum):
    """Where a task stands."""

    NEEDS_YOU = "needs_you"  #: it asks, it keeps failing the same way, or it was blocked: a person goes first
    READY = "ready"  #: any worker may take it
    WAITING = "waiting"  #: for another task, its racers, a reviewer or a time; it goes on by itself
    RUNNING = "running"  #: a worker has claimed it
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


#: The states of a store, and where their tasks can stand.
STANDS: Mapping[State, frozenset[Status]] = {
    State.READY: frozenset((Status.READY, Status.WAITING, Status.NEEDS_YOU)),
    State.CLAIMED: frozenset((Status.RUNNING,)),
    State.DONE: frozenset((Status.DONE,)),
    State.FAILED: frozenset((Status.FAILED, Status.CANCELLED)),
}
#: In the order every surface shows them.
STATUSES = (
    Status.NEEDS_YOU,
    Status.READY,
    Status.WAITING,
    Status.RUNNING,
    Status.DONE,
    Status.FAILED,
    Status.CANCELLED,
)
LABELS: Mapping[str, str] = {status: status.replace("_", " ").capitalize() for status in STATUSES}
#: How reasons begin and end that no worker and no time can end, where a task has no hold of its own.
_BEGINS = (UNREAD, "only a person", "it waits for a person", "its needs go round")
_ENDS = "is for a person"
#: What each word of `--state` means; also the words of earlier versions.
_WORDS: Mapping[str, frozenset[Status]] = {
    **{str(status): frozenset((status,)) for status in STATUSES},
    "held": frozenset((Status.NEEDS_YOU, Status.WAITING)),
    "claimed": frozenset((Status.RUNNING,)),
    "all": frozenset(STATUSES),
}


def status_of(card: Card) -> Status:
    """Where this task stands."""
    if card.state is State.CLAIMED:
        return Status.RUNNING
    if card.state is State.DONE:
        return Status.DONE
    if card.state is State.FAILED:
        cancelled = card.result is not None and card.result.verdict is Verdict.CANCELLED
        return Status.CANCELLED if cancelled else Status.FAILED
    if not card.held:
        return Status.READY

    reason = card.held
    queues_own = reason.startswith((LANDING, RACING, REVIEWER, SPARE, f"{PULL} "))
    for_person = card.task.hold == reason or reason.startswith(_BEGINS) or reason.endswith(_ENDS)
    return Status.NEEDS_YOU if for_person and not queues_own else Status.WAITING


def card_facts(card: Card) -> dict[str, Any]:
    """Return a task and its status as programs read them."""
    return {
        **facts(card.task),
        "state": str(card.state),
        "status": str(status_of(card)),
        "held": card.held,
        "worker": card.worker,
    }


def full_facts(card: Card) -> dict[str, Any]:
    """Return everything that is known of a task as programs read it."""
    known = facts(card)
    result = {**known["result"], "checked": card.checked or "none"} if card.result else None
    rest = {name: known[name] for name in ("since", "until", "alive", "tries", "notes", "late")}
    return {**card_facts(card), **rest, "result": result}


def read_status(word: str) -> frozenset[Status]:
    """What a word for a status means; ValueError if it means nothing."""
    found = _WORDS.get(word.strip().lower().replace("-", "_").replace(" ", "_"))
    if found is None:
        shown = ", ".join(status.replace("_", "-") for status in STATUSES)
        raise ValueError(f"{word!r} is not a state; write one of {shown}, all")
    return found


def state_with(wanted: frozenset[Status]) -> State | None:
    """The one state of a store in which all tasks that stand so are; None if there are several."""
    return next((state for state, here in STANDS.items() if wanted <= here), None)


def summary(counts: Mapping[str, int]) -> str:
    """How many stand where, in one line; what there is none of is left out."""
    return ", ".join(counted(status, counts[status]) for status in STATUSES if counts[status]) or "no tasks"


def counted(status: str, count: int) -> str:
    """So many tasks that stand so, in words: `1 needs you`, `2 need you`, `3 ready`."""
    return f"{count} need you" if status == Status.NEEDS_YOU and count != 1 else f"{count} {LABELS[status].lower()}"
