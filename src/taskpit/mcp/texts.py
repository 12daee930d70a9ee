"""Tasks and board as resources, and the prompts: text for a model to read. Changes nothing."""

from __future__ import annotations

from taskpit import errors
from taskpit.clock import iso, say_duration
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.queue import Queue
    from taskpit.task import Card

__all__ = ["BOARD", "TASK", "board_text", "split_prompt", "task_of", "task_text", "task_uri", "work_prompt"]

BOARD = "pit://board"
TASK = "pit://task/{id}"
_PREFIX = "pit://task/"
#: How many tasks of each kind the board shows.
ROWS = 20


def task_uri(task_id: str) -> str:
    """Where a task is read."""
    return _PREFIX + task_id


def task_of(uri: str) -> str:
    """The id in such an address; empty if it is none."""
    return uri.removeprefix(_PREFIX) if uri.startswith(_PREFIX) else ""


def board_text(queue: Queue) -> str:
    """How many tasks are where; who does what; what is next; what waits and why."""
    counts = queue.store.counts()
    lines = ["# Board", "", ", ".join(f"{counts[state]} {state}" for state in State)]
    paused = queue.store.paused()
    if paused:
        lines += ["", f"The queue is {paused}."]
    now = queue.clock.now()
    ready = queue.store.page(State.READY, "", ROWS * 5).cards
    sections = (
        ("In work", queue.store.page(State.CLAIMED, "", ROWS + 1).cards),
        ("Next", tuple(card for card in ready if not card.held)),
        ("Held", tuple(card for card in ready if card.held)),
        ("Failed", queue.store.page(State.FAILED, "", ROWS + 1).cards),
    )
    for title, cards in sections:
        if cards:
            lines += ["", f"## {title}", "", *(_row(card, now) for card in cards[:ROWS])]
            lines += ["- …"] if len(cards) > ROWS else []
    return "\n".join(lines) + "\n"


def _row(card: Card, now: float) -> str:
    told = f"- {card.task.id} {' '.join((card.task.title or card.task.slug).split())}"
    if card.state is State.CLAIMED:
        return f"{told} ({card.worker}, last sign {say_duration(now - card.since)} ago)"
    return f"{told} ({card.held})" if card.held else told


def task_text(queue: Queue, task_id: str) -> str:
    """The task with its result, why it is where it is, and its notes."""
    card = queue.card(queue.resolve(task_id))
    task = card.task
    facts = [("id", task.id), ("state", str(card.state)), ("check", task.check), ("needs", ", ".join(task.needs))]
    facts += [("priority", str(task.priority or "")), ("tags", ", ".join(task.tags)), ("parent", task.parent)]
    facts += [("added by", task.by), ("created", iso(task.created) if task.created else "")]
    lines = [f"# {task.title}", "", *(f"- {key}: {value}" for key, value in facts if value)]
    result = card.result
    sections = [
        ("", task.body),
        ("Why it is where it is", "\n".join(queue.why(task.id))),
        ("Result", f"{result.verdict} by {result.worker}: {result.reason}\n\n{result.output}" if result else ""),
        ("Notes", card.notes),
    ]
    for title, text in sections:
        if text.strip():
            lines += ["", *([f"## {title}", ""] if title else []), text.strip("\n")]
    return "\n".join(lines) + "\n"


_WORK = """\
Work the next task of the queue. As `worker` use {name}.

1. `claim` a task. If `task` is null, say so and stop.
2. Do exactly what its title and body ask. If it has a `last_error` it was tried before: find out why that failed
   and do it differently. `renew` well before `lease_seconds` are over. If that says the task is no longer yours,
   or `stop`, stop working on it.
3. Run its `check` yourself if it has one, then `done` with a short `result`: what you did and what you found.
   If the check is red the task is still yours: mend it and repeat.
4. Can't finish? `give_back`: fail with the reason, release, or split if it is several tasks.
   A person must decide? `note` with ask=true and one clear question.
"""
_SPLIT = """\
Split the task below into parts that one agent can each finish and prove in one sitting. As `worker` use {name}.

`claim` it by its id unless you have it, then `give_back` with how=split and `parts`: each with a title, a body
that stands alone, a `check` command where one can prove it, `touches` for the paths it changes, and `after` for
the positions of earlier parts it needs. Parts that touch different paths can run side by side. Set wait=true if
something is left to do here when all parts are done.
"""


def work_prompt(worker: str) -> str:
    """How to work the next task."""
    return _WORK.format(name=_name(worker))


def split_prompt(queue: Queue, task_id: str, worker: str) -> str:
    """How to split this task."""
    if not task_id:
        raise errors.Invalid("say which task is to be split", hint="Give its `id`.")
    return f"{_SPLIT.format(name=_name(worker))}\n{task_text(queue, task_id)}"


def _name(worker: str) -> str:
    return f"`{worker}`" if worker else "a name of your own, the same in every call"
