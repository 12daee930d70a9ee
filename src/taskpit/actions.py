"""What people do to a task, each thing once: what it needs, what it does, what it says, and how it is taken back.

The command line, the terminal board and the browser call these; each says the same sentence afterwards.
"""

from __future__ import annotations

from taskpit import errors
from taskpit.status import STATUSES, Status
from taskpit.task import Failed, Release, Said, State
from taskpit.values import Value
from taskpit.worker.byhand import answer_by_hand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.queue import Queue

__all__ = ["ACTIONS", "OPEN", "Action", "a_priority", "freed"]

#: Where a task stands that no worker has and that is not over.
OPEN = frozenset((Status.NEEDS_YOU, Status.READY, Status.WAITING))


class Action(Value):
    """One thing that can be done to a task."""

    #: Where a task must stand for it.
    stands: frozenset[Status]
    #: Does it to the task of this id, in this worker's name, with these words; the sentence that says so.
    run: Callable[[Queue, str, str, str], str]
    #: Only for tasks that ask something, or only for those that don't; None is all.
    question: bool | None = None
    #: Only for what this worker itself has claimed.
    own: bool = False

    def fits(self, status: str, question: str, *, own: bool) -> bool:
        """Whether it can be done to a task that stands so, asks this, and is one's own claim or not."""
        asks = self.question is None or self.question == bool(question)
        return asks and status in self.stands and (own or not self.own)


def freed(queue: Queue, task_id: str, told: str) -> str:
    """The sentence for a task that may go on: what still keeps it is part of it."""
    held = queue.card(task_id).held
    return f"{task_id} still waits: {held}" if held else f"{task_id} {told}"


def _block(queue: Queue, task_id: str, worker: str, text: str) -> str:
    queue.block(task_id, worker, " ".join(text.split()))
    return f"{task_id} is blocked: {' '.join(text.split())}"


def _unblock(queue: Queue, task_id: str, worker: str, _: str) -> str:
    queue.unblock(task_id, worker)
    return freed(queue, task_id, "is ready")


def _retry(queue: Queue, task_id: str, worker: str, _: str) -> str:
    queue.retry(task_id, worker)
    return freed(queue, task_id, "is ready again")


def _cancel(queue: Queue, task_id: str, worker: str, text: str) -> str:
    reason, card = " ".join(text.split()), queue.card(task_id)
    if card.state is State.CLAIMED and card.worker == worker:  # one's own claim ends at once
        said, _ = queue.finish(queue.holding(task_id, worker), Failed(error=reason or "cancelled", cancelled=True))
        ended = said is not Said.LOST
    else:
        ended = queue.cancel(task_id, worker, reason)
    return f"{task_id} is cancelled" if ended else f"{task_id}: its worker is asked to stop"


def _release(queue: Queue, task_id: str, worker: str, text: str) -> str:
    said, _ = queue.finish(queue.holding(task_id, worker), Release(reason=text))
    if said is Said.LOST:
        raise errors.Lost(f"{task_id} was over before it could be given back", id=task_id)
    return f"{task_id} is given back"


def _take_back(queue: Queue, task_id: str, worker: str, _: str) -> str:
    """Its worker loses it, and learns so when it renews; a result that comes later is kept aside."""
    return _release(queue, task_id, queue.card(task_id).worker, f"taken back by {worker}")


def _answer(queue: Queue, task_id: str, worker: str, text: str) -> str:
    ids = answer_by_hand(queue, task_id, text, worker)
    return f"{', '.join(ids)} {'go' if len(ids) > 1 else 'goes'} on"


def _note(queue: Queue, task_id: str, worker: str, text: str) -> str:
    queue.note(task_id, text, worker)
    return f"noted beside {task_id}"


def a_priority(text: str) -> int:
    """The number that somebody wrote; nothing is 0."""
    try:
        if len(text) < 10:
            return int(text.strip() or "0")
    except ValueError:
        pass
    raise errors.Invalid(f"{text[:20]!r} is not a priority", hint="Write a whole number; higher comes first.")


def _priority(queue: Queue, task_id: str, worker: str, text: str) -> str:
    wanted = a_priority(text)
    task = queue.edit(task_id, worker, lambda task: task.replace(priority=wanted))
    return f"{task_id} has priority {task.priority}"


def _step(by: int) -> Callable[[Queue, str, str, str], str]:
    def run(queue: Queue, task_id: str, worker: str, _: str) -> str:
        return _priority(queue, task_id, worker, str(queue.card(task_id).task.priority + by))

    return run


ACTIONS = {
    "answer": Action(stands=frozenset((Status.NEEDS_YOU,)), run=_answer, question=True),
    "unblock": Action(stands=frozenset((Status.NEEDS_YOU,)), run=_unblock, question=False),
    "retry": Action(stands=frozenset((Status.FAILED, Status.CANCELLED)), run=_retry),
    "block": Action(stands=OPEN, run=_block),
    "release": Action(stands=frozenset((Status.RUNNING,)), run=_release, own=True),
    "take_back": Action(stands=frozenset((Status.RUNNING,)), run=_take_back),
    "priority": Action(stands=OPEN, run=_priority),
    "raise": Action(stands=OPEN, run=_step(1)),
    "lower": Action(stands=OPEN, run=_step(-1)),
    "cancel": Action(stands=OPEN | {Status.RUNNING}, run=_cancel),
    "note": Action(stands=frozenset(STATUSES), run=_note),
}
