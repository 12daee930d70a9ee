"""The tools as data: what each is called, what it wants, what it answers. Pure; kept short, since every agent
that connects reads all of it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from taskpit import access, errors, layouts
from taskpit.explain import nothing
from taskpit.model import LISTS, Ask, Card, Failed, Outcome, Release, Said, Split, State, Task, Value
from taskpit.queue import LOOK_AGAIN, Queue, cards, tally
from taskpit.run.manual import (
    finish_by_hand,
    need_ids,
    need_wait,
    refuse_called_off,
    refuse_lost,
    refuse_unsplit,
)
from taskpit.status import card_facts, full_facts, read_status, state_with, status_of

Facts = dict[str, Any]
Arguments = Mapping[str, Any]

INSTRUCTIONS = (
    "A queue of tasks shared with other agents and people. Work: `claim` a task under one worker name of your own, "
    "do it, `done` with a summary; its check must be green. `renew` before the lease ends when you need longer. "
    "If you can't finish, `give_back`; if a person must decide, `note` with ask=true. Pass the same worker every time."
)


class ToolRow(Value, frozen=True, kw_only=True):
    """One tool."""

    name: str
    about: str
    #: Its arguments as JSON schema properties.
    takes: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    #: What is always in its answer, likewise.
    gives: Mapping[str, Any]
    #: Changes nothing; may be repeated with the same effect.
    reads: bool = False
    repeats: bool = False


def _text(about: str = "") -> dict[str, Any]:
    return {"type": "string", "description": about} if about else {"type": "string"}


def _texts(about: str = "") -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}} | ({"description": about} if about else {})


def _seconds(most: int, about: str = "") -> dict[str, Any]:
    return {"type": "number", "minimum": 0, "maximum": most} | ({"description": about} if about else {})


TEXT, TEXTS, FLAG, NUMBER = _text(), _texts(), {"type": "boolean"}, {"type": "number"}
OBJECT = {"type": "object"}
ID = {"id": TEXT}
WORKER = {"worker": _text("your one name")}
LEASE = {"lease_seconds": _seconds(7 * 24 * 3600)}
WISH = {
    "title": TEXT,
    "body": TEXT,
    "check": _text("shell command that proves it done"),
    "priority": {"type": "integer", "description": "higher first"},
    "tags": TEXTS,
    "touches": _texts("globs it will change"),
}
#: Fields of a task that an agent may give it as they are.
ASKED = (*WISH, "limits")

TOOLS: tuple[ToolRow, ...] = (
    ToolRow(
        name="add",
        about="Put a task into the queue.",
        takes={
            **WISH,
            "limits": _texts("KEY=N, KEY=N/min"),
            "needs": _texts("ids it waits for"),
            "parent": TEXT,
            "id": _text("default: next free"),
            **WORKER,
        },
        needs=("title",),
        gives={**ID, "created": FLAG},
    ),
    ToolRow(
        name="list",
        about="Tasks: ready ones in the order they will be taken, `held` ones with the reason.",
        takes={
            "state": {**_text("waiting, needs-you, running, done, failed, cancelled, all"), "default": "ready"},
            "tag": TEXT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20},
        },
        gives={"tasks": {"type": "array", "items": OBJECT}, "more": FLAG, "counts": OBJECT},
        reads=True,
    ),
    ToolRow(
        name="show",
        about="One task with its result, tries, notes and why it is where it is.",
        takes={**ID},
        needs=("id",),
        gives={**ID, "title": TEXT, "state": TEXT, "why": TEXTS},
        reads=True,
    ),
    ToolRow(
        name="claim",
        about="Take the next task, or the one named; it is yours until the lease ends. task is null if there is none.",
        takes={
            **WORKER,
            **ID,
            "tags": _texts("only with one of these"),
            **LEASE,
            "wait_seconds": _seconds(50, "wait for one"),
        },
        needs=("worker",),
        gives={"task": {"type": ["object", "null"]}, "worker": TEXT},
    ),
    ToolRow(
        name="renew",
        about="Keep a claim for another lease. stop=true: you are asked to stop.",
        takes={**ID, **WORKER, **LEASE},
        needs=("id", "worker"),
        gives={**ID, "lease_seconds": NUMBER, "stop": FLAG},
        repeats=True,
    ),
    ToolRow(
        name="done",
        about="Finish your task: runs its check, then publishes the result. If the check is red the task stays yours.",
        takes={**ID, **WORKER, "result": _text("what you did and found"), "cwd": _text("folder to run the check in")},
        needs=("id", "worker"),
        gives={**ID, "state": TEXT},
        repeats=True,
    ),
    ToolRow(
        name="give_back",
        about=(
            "End your claim unfinished. fail: it did not work, the queue decides what is next. release: as it was. "
            "split: into parts; it comes back when they are done, or with wait=false is done now."
        ),
        takes={
            **ID,
            **WORKER,
            "how": {"enum": ["fail", "release", "split"]},
            "reason": _text("fail: what went wrong"),
            "final": {**FLAG, "description": "fail: no further attempt"},
            "parts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        **WISH,
                        "after": {
                            "type": "array",
                            "items": {"type": "integer"},
                            "description": "positions of earlier parts it needs, from 0",
                        },
                    },
                    "required": ["title"],
                    "additionalProperties": False,
                },
            },
            "wait": FLAG,
        },
        needs=("id", "worker", "how"),
        gives={**ID, "state": TEXT},
    ),
    ToolRow(
        name="note",
        about="Leave a note beside a task. ask=true: put your task back until a person has answered the text.",
        takes={**ID, **WORKER, "text": TEXT, "ask": FLAG},
        needs=("id", "worker", "text"),
        gives={**ID},
    ),
)


def find(name: str) -> ToolRow | None:
    """The tool of this name."""
    return next((row for row in TOOLS if row.name == name), None)


def input_schema(row: ToolRow, worker: str = "") -> dict[str, Any]:
    """What it wants; where the server speaks for one worker, the worker need not be said."""
    needs = [name for name in row.needs if not (name == "worker" and worker)]
    required = {"required": needs} if needs else {}
    return {"type": "object", "properties": dict(row.takes), **required, "additionalProperties": False}


# -- what each tool does ---------------------------------------------------------------------------


#: How the command line says it, and how that is said in tools. What is left is for a person.
_AS_TOOLS = tuple(
    (re.compile(said), meant)
    for said, meant in (
        (r"`pit list --state ([\w-]+)`", r"`list` with state=\1"),
        (r"--wait waits", "wait_seconds waits"),
        (r"--no-wait", "wait=false"),
        (r"`pit why ([^`]*)`", r"`show \1`"),
        (r"`pit fail [^`]*`", "`give_back` with how=fail and the reason"),
        (r"`pit release [^`]*`", "`give_back` with how=release"),
        (r"`pit ((?:add|list|show|claim|renew|done|note)\b[^`]*)`", r"`\1`"),
    )
)
#: What lists tell of a task; `show` tells the rest.
BRIEF = ("id", "title", "state", "held", "worker", "priority", "tags", "needs", "parent")
PAGE = 200


class ToolCalls:
    """Where calls are answered. One queue for all of them; a call that waits opens its own."""

    def __init__(self, open_queue: Callable[[], Queue], worker: str = "", cwd: str = ".") -> None:
        self._open = open_queue
        self.queue = open_queue()
        #: Whom calls speak for that name nobody; empty if each must.
        self.worker = worker
        #: Where checks run unless the call says otherwise.
        self.cwd = cwd
        #: Whether nobody waits any more for what the calling thread is to answer.
        self.is_over: Callable[[], bool] = lambda: False
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._of_turns = threading.Lock()

    def fresh(self) -> Queue:
        """The same queue, opened for a call that will wait for it."""
        return self._open()

    def close(self) -> None:
        """Let go of the queue."""
        self.queue.close()

    def answer(self, name: str, given: Arguments) -> Facts:
        """What the tool of this name has to say; TaskpitError if it can't be done."""
        try:
            answer: Facts = getattr(self, f"_{name}")(given)
        except errors.TaskpitError as error:
            known = layouts.get(self.queue.store.info().layout).error_names.get(error.code)
            if known:
                error.message = f"{known}: {error.message}"
            raise
        return answer

    # -- make and look -----------------------------------------------------------------------------

    def _add(self, given: Arguments) -> Facts:
        queue = self.queue
        if given.get("worker"):
            layouts.get(queue.store.info().layout).check_worker(given["worker"])
        task = _wish(given).replace(
            id=given.get("id", ""),
            needs=need_ids(queue, given.get("needs", ())),
            parent=queue.resolve(given["parent"]) if given.get("parent") else "",
            by=given.get("worker") or self.worker or "agent",
        )
        task_id, said = queue.put([task])[0]
        missing = queue.missing_needs(task)
        return {"id": task_id, "created": said is Said.CREATED} | ({"missing_needs": missing} if missing else {})

    def _list(self, given: Arguments) -> Facts:
        state, tag, limit = given.get("state", "ready"), given.get("tag"), int(given.get("limit", 20))
        found: list[Facts] = []
        more = False
        for card in self._cards(state):
            if tag and tag not in card.task.tags:
                continue
            more = len(found) == limit
            if more:
                break
            facts = card_facts(card)
            found.append(_filled({key: facts[key] for key in BRIEF}, "id", "title", "state"))
        return {"tasks": found, "more": more, "counts": tally(self.queue.store)}

    def _cards(self, word: str) -> Iterator[Card]:
        try:
            wanted = read_status(word)
        except ValueError as error:
            raise errors.Invalid(str(error)) from None
        return (card for card in cards(self.queue.store, state_with(wanted), PAGE) if status_of(card) in wanted)

    def _show(self, given: Arguments) -> Facts:
        card = self.queue.card(self.queue.resolve(given["id"]))
        return _filled({**full_facts(card), "why": self.queue.why(card.task.id)}, "id", "title", "state", "why")

    # -- work on a task ----------------------------------------------------------------------------

    def _who(self, given: Arguments) -> str:
        return given.get("worker") or self.worker

    def _claim(self, given: Arguments) -> Facts:
        wait = float(given.get("wait_seconds", 0))
        queue = self.fresh() if wait else self.queue  # only one at a time may wait for an open queue
        try:
            return self._take(queue, given, wait)
        finally:
            if queue is not self.queue:
                queue.close()

    def _take(self, queue: Queue, given: Arguments, wait: float) -> Facts:
        worker, tags = self._who(given), tuple(given.get("tags", ()))
        access.need_name(worker, os.environ)
        ids = [queue.resolve(given["id"])] if given.get("id") else []
        lease, until = float(given.get("lease_seconds", 0)), queue.clock.monotonic() + wait
        mine = [card.worker for card in queue.store.read(ids) if card and card.state is State.CLAIMED] == [worker]
        while True:
            left = max(until - queue.clock.monotonic(), 0.0)
            step = min(left, LOOK_AGAIN)
            claims = queue.claim(worker, ids=ids, tags=tags, lease=lease, wait=step, verbatim=True)
            if claims or left <= LOOK_AGAIN or self.is_over():
                break
        if not claims:
            error = nothing(queue.store.counts(), queue.store.paused(), ids[0] if ids else "", tags)
            if ids:
                raise error
            return {"task": None, "worker": worker, "message": error.message, "hint": in_tools(error.hint)}
        claim = claims[0]
        facts = card_facts(Card(task=claim.task, state=State.CLAIMED, worker=claim.fence))
        task = _filled(facts, "id", "title", "state")
        answer = {"task": task, "worker": claim.worker, "lease_seconds": claim.lease, "attempt": claim.attempt}
        answer |= {"already": True} if mine else {}
        return {**answer, "notes": notes} if (notes := queue.card(claim.task.id).notes) else answer

    def take_back(self, claimed: Facts) -> None:
        """What `claim` has answered to nobody is as it was; what was this worker's before stays so."""
        task = claimed["task"]
        if task and not claimed.get("already"):
            claim = self.queue.holding(task["id"], task["worker"])
            self.queue.finish(claim, Release(reason="whoever asked for it has gone"))

    def _renew(self, given: Arguments) -> Facts:
        task_id = self.queue.resolve(given["id"])
        access.need(self.queue, "renew", self.queue.card(task_id), os.environ)
        claim = self.queue.holding(task_id, self._who(given))
        lease = float(given.get("lease_seconds", 0)) or claim.lease
        said = self.queue.renew(claim, lease)
        if said is Said.LOST:
            raise errors.Lost(
                f"{task_id} is no longer yours: stop working on it", hint=f"`pit show {task_id}` says why.", id=task_id
            )
        return {"id": task_id, "lease_seconds": lease, "stop": said is Said.CANCEL}

    def _done(self, given: Arguments) -> Facts:
        cwd = os.path.abspath(given.get("cwd") or self.cwd)
        if not os.path.isdir(cwd):
            raise errors.NotFound(f"there is no folder {cwd} to run the check in", path=cwd)
        task_id = self.queue.resolve(given["id"])
        output = given.get("result", "")
        access.need(self.queue, "done", self.queue.card(task_id), os.environ)
        with self._turn(task_id):  # who repeats the call while the check runs waits for what becomes of it
            facts = finish_by_hand(
                self.queue, task_id, self._who(given), output=output, cwd=cwd, env=os.environ, go_on=self._go_on
            )
        return _filled(facts, "id", "state")

    def _turn(self, task_id: str) -> threading.Lock:
        """Whoever has it ends this task; kept for as long as anybody waits for it."""
        with self._of_turns:
            turn = self._turns.get(task_id)
            if turn is None:
                turn = self._turns[task_id] = threading.Lock()
            return turn

    def _go_on(self) -> None:
        if self.is_over():
            raise errors.Conflict("whoever asked for this has gone: nothing was published, and the claim stays")

    def _give_back(self, given: Arguments) -> Facts:
        how, reason = given["how"], given.get("reason", "").strip()
        if how == "fail" and not reason:
            raise errors.Invalid("say what went wrong", hint="Give `reason`: the next attempt reads it.")
        if (how == "split") != ("parts" in given):
            raise errors.Invalid("a split needs `parts`, and nothing else has them", hint="Each part has a title.")
        if how == "split" and not given.get("wait", True):
            need_wait(given["id"], os.environ)
        claim = access.own_claim(self.queue, how, self.queue.resolve(given["id"]), self._who(given), os.environ)
        outcome: Outcome
        if how == "split":
            parts = self._parts(given["parts"], claim.task)
            outcome = Split(children=parts, wait=given.get("wait", True), output=reason)
        elif how == "fail":
            outcome = Failed(error=reason, final=given.get("final", False))
        else:
            outcome = Release(reason=reason)
        said, end = self.queue.finish(claim, outcome)
        refuse_unsplit(self.queue, said, end)
        if how == "split":
            refuse_called_off(end)
        after = end.task or claim.task
        facts = {
            "id": claim.task.id,
            "state": str(end.result.verdict.state) if end.result else "ready",
            "held": after.hold,
            "delay_seconds": end.delay,
            "children": [child.id for child in end.children],
        }
        return _filled(facts, "id", "state")

    def _parts(self, given: Sequence[Arguments], whole: Task) -> tuple[Task, ...]:
        """The parts as tasks; where one comes after another they get their ids now."""
        wishes = [_wish(part) for part in given]
        if not any(part.get("after") for part in given):
            return tuple(wishes)
        ids = self.queue.store.allot([self.queue.lineage(whole)[-1]] * len(wishes))
        parts = []
        for place, (wish, part) in enumerate(zip(wishes, given, strict=True)):
            earlier = part.get("after", ())
            if not all(0 <= other < place for other in earlier):
                raise errors.Invalid(f"part {place} comes after one that is not earlier: {list(earlier)}")
            parts.append(wish.replace(id=ids[place], needs=tuple(ids[other] for other in earlier)))
        return tuple(parts)

    def _note(self, given: Arguments) -> Facts:
        queue, text = self.queue, given["text"]
        task_id = queue.resolve(given["id"])
        if not given.get("ask"):
            layouts.get(queue.store.info().layout).check_worker(self._who(given))
            queue.note(task_id, text, self._who(given))
            return {"id": task_id, "noted": True}
        if not text.strip():
            raise errors.Invalid("the question is empty")
        claim = access.own_claim(queue, "ask", task_id, self._who(given), os.environ)
        said, end = queue.finish(claim, Ask(question=text))
        refuse_lost(said, task_id)
        refuse_called_off(end)
        return {"id": task_id, "state": "ready", "held": (end.task or claim.task).hold}


def _wish(given: Arguments) -> Task:
    said: dict[str, Any] = {name: given[name] for name in ASKED if name in given}
    return Task(id="", **{**said, **{name: tuple(said[name]) for name in LISTS if name in said}})


def _filled(facts: Facts, *always: str) -> Facts:
    """The facts without those that say nothing: an agent pays for every word."""
    silent: tuple[object, ...] = (None, "", [], (), {}, 0)
    return {key: value for key, value in facts.items() if key in always or (value not in silent and key != "slug")}


def in_tools(text: str) -> str:
    """A hint for an agent that has tools instead of a command line, where there is one for it."""
    for said, meant in _AS_TOOLS:
        text = said.sub(meant, text)
    return text


def say_error(error: errors.TaskpitError) -> str:
    """What went wrong and what to do next, for an agent to read."""
    lines = [f"{error.code}: {error.message}"]
    if error.hint:
        lines.append(f"Next: {in_tools(error.hint)}")
    tail = str(error.details.get("tail", ""))
    return "\n".join([*lines, *(["", tail] if tail else [])])
