"""What a person can do to a task from a board, as a table: a key, a word, where it fits, what it asks. No screen.

Each is a verb of the queue; what the queue refuses, it says why.
"""

from __future__ import annotations

from taskpit.task import Failed, Release, Said, State
from taskpit.values import Value
from taskpit.worker.byhand import answer_by_hand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.board import Slip
    from taskpit.queue import Queue

__all__ = ["ACTS", "Act", "find"]

UNFINISHED = ("ready", "held", "claimed")
WAITING = ("ready", "held")


class Act(Value):
    """One thing that can be done to a task."""

    name: str
    key: str
    #: What the bottom line calls it.
    word: str
    columns: tuple[str, ...]
    #: Does it to the task of this id, in this worker's name, with what was answered; what to tell the person.
    run: Callable[[Queue, str, str, str], str]
    #: What is asked before; nothing is done without an answer, which may be empty if `silent`.
    asks: str = ""
    silent: bool = False
    #: Only for tasks that ask something.
    question: bool = False

    def fits(self, slip: Slip | None) -> bool:
        """Whether it can be done to this one."""
        return slip is not None and slip.column in self.columns and (not self.question or bool(slip.question))


def _hold(queue: Queue, task_id: str, worker: str, text: str) -> str:
    queue.block(task_id, worker, " ".join(text.split()))
    return f"{task_id} is held"


def _unblock(queue: Queue, task_id: str, worker: str, _: str) -> str:
    queue.unblock(task_id, worker)
    held = queue.card(task_id).held
    return f"{task_id} goes on" + (f", but {held}" if held else "")


def _answer(queue: Queue, task_id: str, worker: str, text: str) -> str:
    ids = answer_by_hand(queue, task_id, text, worker)
    return f"{', '.join(ids)} {'go' if len(ids) > 1 else 'goes'} on"


def _retry(queue: Queue, task_id: str, worker: str, _: str) -> str:
    queue.retry(task_id, worker)
    return f"{task_id} is ready again"


def _give_back(queue: Queue, task_id: str, worker: str, _: str) -> str:
    said, _end = queue.finish(queue.holding(task_id, worker), Release(reason="given back from the board"))
    return f"{task_id} is given back" if said is not Said.LOST else f"{task_id} was over already"


def _cancel(queue: Queue, task_id: str, worker: str, text: str) -> str:
    card = queue.card(task_id)
    if card.state is State.CLAIMED and card.worker == worker:  # one's own claim ends at once
        queue.finish(queue.holding(task_id, worker), Failed(error=text.strip() or "cancelled", cancelled=True))
        return f"{task_id} is cancelled"
    ended = queue.cancel(task_id, worker, text.strip())
    return f"{task_id} is cancelled" if ended else f"{task_id}: its worker is asked to stop"


def _note(queue: Queue, task_id: str, worker: str, text: str) -> str:
    queue.note(task_id, text, worker)
    return f"noted beside {task_id}"


def _priority(step: int) -> Callable[[Queue, str, str, str], str]:
    def run(queue: Queue, task_id: str, worker: str, _: str) -> str:
        task = queue.edit(task_id, worker, lambda task: task.replace(priority=task.priority + step))
        return f"{task_id} has priority {task.priority}"

    return run


ACTS = (
    Act(name="answer", key="a", word="answer", columns=("held",), run=_answer, asks="Your answer", question=True),
    Act(name="unblock", key="u", word="let go on", columns=("held",), run=_unblock),
    Act(name="retry", key="r", word="retry", columns=("failed", "held"), run=_retry),
    Act(name="hold", key="b", word="hold", columns=UNFINISHED, run=_hold, asks="Why is it held?"),
    Act(name="give_back", key="g", word="give back", columns=("claimed",), run=_give_back),
    Act(name="raise", key="plus", word="priority", columns=WAITING, run=_priority(1)),
    Act(name="lower", key="minus", word="", columns=WAITING, run=_priority(-1)),
    Act(
        name="cancel",
        key="x",
        word="cancel",
        columns=UNFINISHED,
        run=_cancel,
        asks="It will not be done. Why? (Enter cancels it, also without a reason)",
        silent=True,
    ),
    Act(name="note", key="m", word="note", columns=(*UNFINISHED, "done", "failed"), run=_note, asks="Your note"),
)


def find(name: str) -> Act:
    """The act of this name."""
    return next(act for act in ACTS if act.name == name)
