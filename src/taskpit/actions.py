"""What people do to a task, each thing once: what it needs, what it does, what it says, and how it is taken back.

The command line, the terminal board and the browser call these; each says the same sentence afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

from taskpit import access, errors, fs
from taskpit.decode import read_json
from taskpit.events import unsettled
from taskpit.history import who
from taskpit.ids import is_word
from taskpit.model import SPLIT_FROM, Card, Event, Failed, Release, Said, State, Task, Value
from taskpit.policy import LANDING, OVER, PULL, RACING, REVIEW, WAITS
from taskpit.queue import ASKED_TO_STOP, Queue
from taskpit.race import is_racer
from taskpit.rules import check_task
from taskpit.run.manual import answer_by_hand, need_own_run
from taskpit.status import STATUSES, Status, status_of

#: So many of the newest lines of the changelog are looked at for what a person did last.
LOOKED_AT = 500
#: What the changelog calls it that somebody reopened what they had cancelled.
TAKEN_BACK = "taken_back"
#: What it calls it that somebody put in tasks of others, or many at once: their own lines name who asks for them.
BROUGHT_IN = "brought_in"
#: Where a task stands that no worker has and that is not over.
OPEN = frozenset((Status.NEEDS_YOU, Status.READY, Status.WAITING))


class Action(Value, frozen=True, kw_only=True):
    """One thing that can be done to a task."""

    #: The verb by which the table of `access` knows it.
    verb: str
    #: Where a task must stand for it.
    stands: frozenset[Status]
    #: Does it to the task of this id, in this worker's name, with these words; the sentence that says so.
    run: Callable[[Queue, str, str, str], str]
    #: Only for tasks that ask this of a person (see `Slip.asks`); None is all.
    asks: str | None = None
    #: Only for what this worker itself has claimed.
    own: bool = False
    #: Whether `undo` can take it back, as long as nothing else has happened to the task.
    undoable: bool = False
    #: What takes its time and comes afterwards, beside whatever else goes on; may be called from any thread.
    then: Callable[[Queue, str, str], None] | None = None

    def do(self, queue: Queue, task_id: str, worker: str, text: str = "") -> str:
        """It is done, and how the task was before is remembered for `undo`; the sentence that says so."""
        before = queue.card(task_id)
        access.need(queue, self.verb, before, os.environ)
        message = self.run(queue, task_id, worker, text)
        if before.state is State.READY:
            remember(queue, worker, before.task)
        return message

    def begin_rest(self, queue: Queue, task_id: str, worker: str) -> None:
        """What comes afterwards is begun, beside whatever else goes on. If we are ended first, a pool goes on."""
        if self.then is not None:
            Thread(target=self.then, args=(queue, task_id, worker), name="lander", daemon=True).start()

    def fits(self, status: str, asks: str, *, own: bool) -> bool:
        """Whether it can be done to a task that stands so, asks this, and is one's own claim or not."""
        return self.asks in (None, asks) and status in self.stands and (own or not self.own)


def freed(queue: Queue, task_id: str, standing: str) -> str:
    """The sentence for a task that may go on: what still keeps it is part of it."""
    card = queue.card(task_id)
    if not card.held:
        return f"{task_id} {standing}"
    return f"{task_id} still {'needs you' if status_of(card) is Status.NEEDS_YOU else 'waits'}: {card.held}"


def _block(queue: Queue, task_id: str, worker: str, text: str) -> str:
    card = queue.card(task_id)
    _need_free(card)  # who unblocks it later does not see what it waited for
    if card.state is State.CLAIMED and card.worker == worker:
        access.own_claim(queue, "block", task_id, worker, os.environ)
    queue.block(task_id, worker, " ".join(text.split()))
    return f"{task_id} is blocked: {' '.join(text.split())}"


def _unblock(queue: Queue, task_id: str, worker: str, _: str) -> str:
    _need_free(queue.card(task_id))
    queue.unblock(task_id, worker)
    return freed(queue, task_id, "is ready")


def _retry(queue: Queue, task_id: str, worker: str, _: str) -> str:
    _need_free(queue.card(task_id))
    queue.retry(task_id, worker)
    return freed(queue, task_id, "is ready again")


def _cancel(queue: Queue, task_id: str, worker: str, text: str) -> str:
    reason, card = " ".join(text.split()), queue.card(task_id)
    if card.task.hold.startswith((LANDING, PULL)):
        _refuse_landed(queue, task_id)
    ended = False
    if card.state is State.CLAIMED and card.worker == worker:  # one's own claim ends at once
        said, _ = queue.finish(
            access.own_claim(queue, "cancel", task_id, worker, os.environ),
            Failed(error=reason or "cancelled", cancelled=True),
        )
        ended = said is not Said.LOST
    elif card.state is State.CLAIMED:
        need_own_run(queue, queue.holding(task_id, card.worker), os.environ, parts=True)
    ended = ended or queue.cancel(task_id, worker, reason)
    return f"{task_id} is cancelled" if ended else f"{task_id}: its worker was asked to stop"


def _refuse_landed(queue: Queue, task_id: str) -> None:
    """What has landed is done, although a crash came before that was written: it cannot be cancelled."""
    from taskpit.landing.review import landed

    if commit := landed(queue, task_id):
        hint = f"`pit review {task_id} --approve` writes that it is done, or the next `pit work`."
        raise errors.Conflict(f"{task_id} has landed already, as {commit[:12]}", hint=hint, id=task_id)


def _release(queue: Queue, task_id: str, worker: str, text: str) -> str:
    claim = access.own_claim(queue, "release", task_id, worker, os.environ)
    said, _ = queue.finish(claim, Release(reason=text))
    if said is Said.LOST:
        raise errors.Lost(f"{task_id} was finished before it could be given back", id=task_id)
    return f"{task_id} is given back"


def _take_back(queue: Queue, task_id: str, worker: str, _: str) -> str:
    """Its worker loses it, and learns so when it renews; a result that comes later is kept aside."""
    return _release(queue, task_id, queue.card(task_id).worker, f"taken back by {worker}")


def _answer(queue: Queue, task_id: str, worker: str, text: str) -> str:
    ids = answer_by_hand(queue, task_id, text, worker)
    return f"{', '.join(ids)} {'go' if len(ids) > 1 else 'goes'} on"


def _note(queue: Queue, task_id: str, worker: str, text: str) -> str:
    queue.note(task_id, text, worker)
    return f"noted at {task_id}"


def tell(queue: Queue, task_id: str, worker: str, text: str) -> tuple[str, str]:
    """The agent that works on it hears this, and it is noted; by which way (empty: not before the next attempt)."""
    from taskpit.run import steering
    from taskpit.run.run_directory import directory_for

    access.need_verb("tell", os.environ, task_id)  # an agent reads it as a person's word
    card = queue.card(task_id)
    if card.result is not None or not text.strip():
        message = "the message is empty" if card.result is None else f"{task_id} is finished: no agent reads it"
        hint = "`pit note ID TEXT` leaves a note; `pit retry ID` has a failed task tried again."
        raise errors.Invalid(message, hint=hint, id=task_id)
    queue.note(task_id, f"told: {text}", worker)
    run_dir = directory_for(queue.store, card)
    way = steering.way_of(run_dir) if run_dir else ""
    if way and not steering.say_to(run_dir, text):
        way = ""
    return way, steering.WAYS[way] if run_dir else "no agent is working on it; the next attempt will read it"


def _tell(queue: Queue, task_id: str, worker: str, text: str) -> str:
    return f"{task_id}: {tell(queue, task_id, worker, text)[1]}"


# -- a person's word on a change; what it is about is in `landing` -----------------------------------


def _need_free(card: Card) -> None:
    """Raise Conflict if its change waits, because sending it back does that. Raise Denied in a run if it waits for a
    person.
    """
    task_id, hold = card.task.id, card.task.hold
    if hold.startswith((WAITS, REVIEW, LANDING, PULL)):
        access.need_verb("answer", os.environ, task_id)
    if card.state is State.READY and hold.startswith((REVIEW, LANDING, PULL)):
        hint = f"`pit review {task_id} --approve` lands it, --send-back TEXT has it worked on, `pit cancel` ends it."
        raise errors.Conflict(f"{task_id} has a change that {hold.partition(':')[0]}", hint=hint, id=task_id)


def _approve(queue: Queue, task_id: str, worker: str, text: str) -> str:
    """Approve the candidate that the first word names, despite the reasons that the others name."""
    from taskpit.landing.review import approve

    commit, *despite = text.split() or [""]
    if not commit:
        raise errors.Invalid("an approval names the candidate that was seen", id=task_id)
    queue.need_trust()  # landing runs the task's check
    _, handed = approve(queue, task_id, worker, commit, despite)
    return f"{task_id} is approved; it lands on {handed.target} now"


def _land(queue: Queue, task_id: str, worker: str) -> None:
    """What was approved lands; what a person must know of it is noted beside the task."""
    from taskpit.landing.review import find
    from taskpit.run.landing_thread import land_by_hand

    try:
        land_by_hand(queue, *find(queue, task_id), worker, lambda line: queue.note(task_id, line, worker))
    except (errors.TaskpitError, OSError) as error:  # it stays approved: the next pool lands it
        try:
            queue.note(task_id, f"it was not landed yet: {error}", worker)
        except errors.TaskpitError:
            return  # the queue itself is gone, and with it the place to say so


def _send_back(queue: Queue, task_id: str, worker: str, text: str) -> str:
    from taskpit.landing.review import find, remarks, send_back

    send_back(queue, task_id, worker, *remarks(*find(queue, task_id), text))
    return f"{task_id} goes back to its agent"


def _take_over(queue: Queue, task_id: str, worker: str, text: str) -> str:
    from taskpit.landing.review import take_over

    del text
    _, branch = take_over(queue, task_id, worker)
    return f"{task_id} is yours; its change is on the branch {branch}"


# -- its place in the line ---------------------------------------------------------------------------


def a_priority(text: str) -> int:
    """The number that was written; nothing is 0."""
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
    "answer": Action(verb="answer", stands=frozenset((Status.NEEDS_YOU,)), run=_answer, asks="question", undoable=True),
    "unblock": Action(verb="unblock", stands=frozenset((Status.NEEDS_YOU,)), run=_unblock, asks="", undoable=True),
    "approve": Action(verb="approve", stands=OPEN, run=_approve, asks="review", then=_land),
    "send_back": Action(verb="send_back", stands=OPEN, run=_send_back, asks="review"),
    "take_over": Action(verb="take_over", stands=OPEN, run=_take_over, asks="review"),
    "retry": Action(verb="retry", stands=frozenset((Status.FAILED, Status.CANCELLED)), run=_retry),
    "block": Action(verb="block", stands=OPEN, run=_block, undoable=True),
    "release": Action(verb="release", stands=frozenset((Status.RUNNING,)), run=_release, own=True),
    "take_back": Action(verb="take_back", stands=frozenset((Status.RUNNING,)), run=_take_back),
    "priority": Action(verb="priority", stands=OPEN, run=_priority, undoable=True),
    "raise": Action(verb="raise", stands=OPEN, run=_step(1), undoable=True),
    "lower": Action(verb="lower", stands=OPEN, run=_step(-1), undoable=True),
    "cancel": Action(verb="cancel", stands=OPEN | {Status.RUNNING}, run=_cancel, undoable=True),
    "note": Action(verb="note", stands=frozenset(STATUSES), run=_note),
    "tell": Action(verb="tell", stands=frozenset((Status.RUNNING,)), run=_tell),
}

#: What it means to move a task to another column of a board. A worker's own is not taken away like that.
MOVES = {
    Status.READY: ("unblock", "retry"),
    Status.NEEDS_YOU: ("block",),
    Status.CANCELLED: ("cancel",),
}


def moves(status: str, asks: str) -> dict[Status, str]:
    """The columns to which a task that stands so and asks this can be moved, each with the action that it is."""
    if status == Status.RUNNING:
        return {}
    fitting = [(to, name) for to, names in MOVES.items() for name in names]
    return {to: name for to, name in fitting if to != status and ACTIONS[name].fits(status, asks, own=False)}


def edit(queue: Queue, task_id: str, worker: str, change: Callable[[Task], Task]) -> str:
    """The task is what this makes of it, and how it was before is remembered for `undo`; the sentence that says so."""
    before = queue.card(task_id)

    def checked(task: Task) -> Task:
        changed = change(task)
        access.need(queue, "edit", before, os.environ, after=changed)
        if changed.hold != task.hold:
            _need_free(before.replace(task=task))
        return changed

    queue.edit(task_id, worker, checked)
    remember(queue, worker, before.task)
    return f"{task_id} is changed"


# -- taking back -----------------------------------------------------------------------------------


def remember(queue: Queue, worker: str, before: Task) -> None:
    """How a task was before this worker changed it: the last one only, beside the queue."""
    path = _memory(queue, worker)
    if not path:
        return
    facts = {**before.as_dict(), "extra": dict(before.extra)}
    del facts["source"]
    after = queue.card(before.id)
    try:
        fs.make_dir(path.rpartition("/")[0])
        kept = json.dumps({"task": facts, "after": _mark(after.task)}).encode()
        fs.replace(path, kept, f"{path}~{fs.fresh_name()}", sync=False)
    except OSError:
        return  # then it cannot be taken back; that it was done stands


def _memory(queue: Queue, worker: str) -> str:
    root = queue.store.info().papers
    name = "".join(letter if letter.isalnum() or letter in "@_-" else "-" for letter in who(worker))
    return f"{root}/.taskpit/undo/{name}" if root and name else ""


def _mark(task: Task) -> str:
    return repr((task.wish(), task.attempts))


def undo(queue: Queue, worker: str) -> tuple[str, str]:
    """The last thing this worker did is taken back; the task's id and the sentence. Refused where that can't be."""
    did, task_id = _last_deed(queue, worker)
    card = queue.card(task_id)
    access.need(queue, "undo", card, os.environ)
    if did in ("added_task", BROUGHT_IN) and card.state is State.READY:
        return task_id, f"{_cancel(queue, task_id, worker, 'added by mistake')}: it was only just added"
    if did == "claimed_task" and card.state is State.CLAIMED:
        if who(card.worker) != who(worker):
            text = f"your claim of {task_id} is over: {who(card.worker) or 'a worker without a name'} has it now"
            raise errors.Conflict(text, hint=f"`pit why {task_id}` says more; nothing was changed.", id=task_id)
        return task_id, _release(queue, task_id, card.worker, "taken back")
    if did in ("cancelled_task", ASKED_TO_STOP) and status_of(card) is Status.CANCELLED:
        if queue.store.reopen([_without_race(card.task)])[0] is Said.OK:
            queue.tell(TAKEN_BACK, task_id, worker)
            return task_id, freed(queue, task_id, "is ready again")
    elif did in ("edited_task", "blocked", "unblocked", "answered") and card.state is State.READY:
        before = _before(queue, worker, card)
        queue.edit(task_id, worker, lambda _: before, why="taken back")
        return task_id, f"{task_id} is as it was before"
    raise errors.Conflict(
        f"the last thing you did cannot be taken back: {task_id} was {did.removesuffix('_task').replace('_', ' ')}",
        hint=_instead(did, task_id),
        id=task_id,
    )


def _last_deed(queue: Queue, worker: str) -> tuple[str, str]:
    """What this worker did last, and to which task; Conflict where that was not one task, or another did it."""
    events, cursor = queue.store.latest(LOOKED_AT)
    events = [*events, *unsettled(queue.store, cursor)]
    mine = [event for event in events if who(event.worker) == who(worker) and _is_deed(event)]
    while mine and _is_part(queue, mine[-1]):
        mine.pop()
    if not mine:
        raise errors.Nothing("there is nothing to take back", hint="`pit log` shows what happened, and who did it.")
    did, task_id, brought = mine[-1].did, mine[-1].about, _brought(mine[-1])
    if len(brought) > 1:
        text = f"the last thing you did cannot be taken back: {len(brought)} tasks were brought in at once"
        raise errors.Conflict(text, hint=f"`pit cancel` calls off each of them; the last is {task_id}.", id=task_id)
    if did == "added_task":
        _refuse_others(events, worker, task_id)
    return did, task_id


def _is_deed(event: Event) -> bool:
    """Whether a line tells what somebody did to a task; that racers end with their race is not done to each."""
    return bool(event.about) and not (event.details.startswith(OVER) and is_racer(event.about))


def _is_part(queue: Queue, event: Event) -> bool:
    """Whether a line tells of a part, a racer or a run that entered as a claim ended: in the name of who asked for the
    whole, who need not have done anything.
    """
    parent = event.details.removeprefix(SPLIT_FROM)
    if event.did != "added_task" or parent == event.details or not is_word(parent):
        return False
    return queue.store.read([parent])[0] is not None  # else it is a title that begins so


def tell_brought(queue: Queue, ids: Sequence[str], worker: str) -> None:
    """The changelog says who put these in: of many, or of others' tasks, their own lines don't tell `undo`."""
    if ids:
        with suppress(errors.TaskpitError):  # they are in, whatever this worker may say
            queue.tell(BROUGHT_IN, ids[-1], worker, ", ".join(ids[-LOOKED_AT:]) if len(ids) > 1 else "")


def _brought(event: Event) -> list[str]:
    """The tasks that a line says were brought in; none if it tells of something else."""
    if event.did != BROUGHT_IN:
        return []
    return event.details.split(", ") if event.details else [event.about]


def _refuse_others(events: Sequence[Event], worker: str, task_id: str) -> None:
    """Conflict if it was not this worker who put the task in, although it is one of theirs."""
    for event in events:
        if who(event.worker) != who(worker) and task_id in _brought(event):
            text = f"{task_id} is the last thing in your name, and it was {who(event.worker)} who brought it in"
            raise errors.Conflict(text, hint=f"`pit cancel {task_id}` calls it off; nothing was changed.", id=task_id)


def _without_race(task: Task) -> Task:
    """The task as it is reopened: its racers have ended with it, so it waits for none and a new race begins."""
    return task.replace(hold="") if task.hold.startswith(RACING) else task


def _before(queue: Queue, worker: str, card: Card) -> Task:
    """The task as it was before this worker's last change; Conflict if it was changed since."""
    task_id, path = card.task.id, _memory(queue, worker)
    if not path:
        text = f"{task_id} cannot be taken back: this queue has no folder to keep what it was before"
        raise errors.Conflict(text, hint=f"`pit edit {task_id}` changes it.")
    try:
        kept = read_json(fs.read(path, queue.config.largest_task * 4)[0])
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in kept.get("task", {}).items()
        }
        before = Task(**fields)
        check_task(before)
    except (OSError, ValueError, TypeError, AttributeError):
        before = None
    if before is None or before.id != task_id or kept.get("after") != _mark(card.task):
        text = f"nothing more of {task_id} can be taken back: only your last change is kept, and it was changed since"
        raise errors.Conflict(text, hint=f"`pit show {task_id}` shows it, `pit edit {task_id}` changes it.")
    return before


def _instead(did: str, task_id: str) -> str:
    """What to do where something cannot be taken back."""
    if did == "completed_task":
        return "A result stands for ever, others may have begun on it: add a new task for what is wrong with it."
    if did == "released_task":
        return f"`pit claim {task_id}` takes it again."
    if did == ASKED_TO_STOP:
        return f"`pit retry {task_id}` runs it again as soon as its worker has stopped."
    if did == TAKEN_BACK:
        return f"`pit cancel {task_id}` calls it off again; undo goes one step back."
    return f"`pit why {task_id}` says where it stands."
