"""How things stand: what is left to do, and what could still come by itself. Reads, changes nothing."""

from __future__ import annotations

from taskpit.queue import cards
from taskpit.records import Value
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from taskpit.queue import Queue
    from taskpit.task import Card, Task

__all__ = ["Survey", "survey"]


class Survey(Value):
    """A look at the whole queue."""

    done: int
    failed: int
    claimed: int
    #: May be taken now.
    ready: int
    #: May not be taken yet.
    held: int
    #: Ready or held, ours to take, and nothing but time and other tasks stands in the way.
    coming: int


def survey(
    queue: Queue, tags: Sequence[str] = (), big: bool | None = None, landing: Collection[str] = frozenset()
) -> Survey:
    """Count; with `tags`, only tasks with one of them are ours to take, with `big` only such.

    Those in `landing` wait for nothing but a lander of ours.
    """
    store = queue.store
    counts = store.counts()
    everything = bool(tags) or big is not None  # otherwise what nothing can hold need only be counted
    ready = {card.task.id: card for card in cards(store, State.READY, tied=not everything)}
    free = 0 if everything else max(counts[State.READY] - len(ready), 0)
    soon = queue.clock.now() + queue.config.backoff_longest

    def _comes(card: Card) -> bool:
        return card.task.id in landing or (not _stuck(card, soon) and _fits(card.task, tags, big))

    ours = [card.task for card in ready.values() if _comes(card)]
    outside = sorted({need for task in ours for need in task.needs if need not in ready})
    going = {need for need, card in zip(outside, store.read(outside), strict=True) if card and _goes(card)}
    held = sum(1 for card in ready.values() if card.held)
    return Survey(
        done=counts[State.DONE],
        failed=counts[State.FAILED],
        claimed=counts[State.CLAIMED],
        ready=len(ready) + free - held,
        held=held,
        coming=len(_coming(ours, going)) + free,
    )


def _goes(card: Card) -> bool:
    """Whether a needed task can still be done, or is; a ready one that was not looked at has nothing to wait for."""
    return card.state in (State.DONE, State.CLAIMED) or (card.state is State.READY and not card.held)


def _coming(tasks: Sequence[Task], going: set[str]) -> set[str]:
    """Ids of tasks whose needs are met, or will be by others of these; those in a circle never are."""
    found: set[str] = set()
    while True:
        more = {task.id for task in tasks if task.id not in found and found | going >= set(task.needs)}
        if not more:
            return found
        found |= more


def _fits(task: Task, tags: Sequence[str], big: bool | None) -> bool:
    return (not tags or bool(set(tags) & set(task.tags))) and big in (None, task.big)


def _stuck(card: Card, soon: float) -> bool:
    """Held by a person, unreadable, a schedule, or put off for longer than any pause between attempts."""
    task = card.task
    unreadable = bool(card.held) and not task.needs and not task.not_before
    return bool(task.hold) or unreadable or task.not_before > soon or "every" in task.extra
