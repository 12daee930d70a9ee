"""The nouns of taskpit as immutable values. Knows what a task is; nothing of files, stores or policy."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from msgspec import NODEFAULT, Struct, structs


class Value(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """An immutable record; `replace` makes a changed copy."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these fields changed."""
        return structs.replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, in order of declaration; values inside stay values."""
        return structs.asdict(self)

    def changed_fields(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        usual = defaults(type(self))
        return {
            name: value for name, value in structs.asdict(self).items() if name not in usual or value != usual[name]
        }

    @classmethod
    def kinds(cls) -> dict[str, str]:
        """Return the annotation of each field."""
        known: dict[str, str] = {}
        for base in cls.__mro__:
            known |= {name: kind for name, kind in inspect.get_annotations(base).items() if name not in known}
        return {name: known[name] for name in cls.__struct_fields__}


def defaults(kind: type[Value]) -> dict[str, Any]:
    """Return the default of each field that has one; a default that is made for each value is an empty mapping."""
    names, found = kind.__struct_fields__, kind.__struct_defaults__
    pairs = zip(names[len(names) - len(found) :], found, strict=True)
    return {
        name: usual.factory() if hasattr(usual, "factory") else usual for name, usual in pairs if usual is not NODEFAULT
    }


NOTHING: Mapping[str, object] = {}
#: The tag by which schedules are found among many tasks; their runs have it not.
SCHEDULES = "@schedule"
#: How the hold of a task begins that comes from elsewhere with a past, until it has that here. No part of its wish.
ARRIVING = "it is being brought in; if that was interrupted, repeat it."


class State(StrEnum):
    """Where a task is; *held* is a ready task with a reason, not a state of its own."""

    READY = "ready"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"


class Verdict(StrEnum):
    """What a result says."""

    DONE = "done"
    FAILED = "failed"  #: out of attempts, or past mending
    CANCELLED = "cancelled"  #: a person took it back; counts as failed for what needs it

    @property
    def state(self) -> State:
        """The state a task with this verdict is in."""
        return State.DONE if self is Verdict.DONE else State.FAILED


class Said(StrEnum):
    """What a store answers for one item of a batch."""

    CREATED = "created"
    EXISTS = "exists"  #: same id, same content: it is there already
    CONFLICT = "conflict"  #: same id, other content
    OK = "ok"
    ALREADY = "already"  #: this very claim has ended this way before
    LOST = "lost"  #: the claim is over; nothing was changed
    CANCEL = "cancel"  #: still ours, but we are asked to stop


class Task(Value, frozen=True, kw_only=True, dict=True):
    """One piece of work, as it was asked for. Change it by `replace`."""

    id: str
    title: str
    body: str = ""
    #: The readable part of a file name; chosen from the title, meaningless to the queue.
    slug: str = ""
    #: Higher first.
    priority: int = 0
    #: Ids that must be done before this may be taken.
    needs: tuple[str, ...] = ()
    #: The command that proves it done, run by the queue.
    check: str = ""
    #: Attempts spent so far, and how many there may be (0: the queue's default).
    attempts: int = 0
    max_attempts: int = 0
    tags: tuple[str, ...] = ()
    #: Path globs this task will change.
    touches: tuple[str, ...] = ()
    #: What it uses that is scarce: `staging=1` (at once), `api=10/min`, or a key alone.
    limits: tuple[str, ...] = ()
    parent: str = ""
    #: Unix seconds before which it may not be taken; 0 is any time.
    not_before: float = 0.0
    #: Why a person must look before it may be taken; empty is free.
    hold: str = ""
    #: Too large to do in one sitting: a planner splits it.
    big: bool = False
    #: What the last attempt died of, in one line.
    last_error: str = ""
    #: Who asked, and when (unix seconds; 0 is unknown).
    by: str = ""
    created: float = 0.0
    #: When it was last put back, where a layout tells.
    updated: float = 0.0
    #: Fields a layout has no word of its own for, kept and carried along.
    extra: Mapping[str, object] = NOTHING
    #: The bytes this was read from: what nobody changed is written back as it was.
    source: bytes = b""

    def mark_read(self, way: object) -> None:
        """Remember that the fields are those that `source` has in this layout."""
        self.__dict__["read"] = way  # a changed copy has no mark

    @property
    def was_read(self) -> object:
        """The way in which `source` says just this, if that is known; a copy does not know it of itself."""
        return self.__dict__.get("read")

    def renamed(self, ids: Mapping[str, str]) -> Task:
        """Return the task with other ids: its own, its needs and its parent."""
        needs = tuple(ids.get(need, need) for need in self.needs)
        return self.replace(id=ids.get(self.id, self.id), needs=needs, parent=ids.get(self.parent, self.parent))

    def arriving(self) -> Task:
        """Return the task held until its history is imported, too."""
        return self.replace(hold=f"{ARRIVING} {self.hold}".strip())

    def wish(self) -> tuple[object, ...]:
        """Return the fields that a caller asked for, without author, times and progress. Equal wishes are one task."""
        return (
            self.title,
            self.body.strip(),
            self.priority,
            self.needs,
            self.check,
            self.max_attempts,
            self.tags,
            self.touches,
            self.parent,
            int(self.not_before),
            self.hold[len(ARRIVING) :].lstrip() if self.hold.startswith(ARRIVING) else self.hold,
            self.big,
            dict(self.extra),
            *((name, value) for name in LATER if (value := getattr(self, name))),
        )


#: Fields by their kind. What layouts, importers and rules do with a field follows from it: a new one need not be named.
LISTS = tuple(name for name, kind in Task.kinds().items() if kind == "tuple[str, ...]")
LINES = tuple(name for name, kind in Task.kinds().items() if kind == "str" and name not in ("body", "last_error"))
#: Fields that came after the first release: of them a wish tells only what is said, so that stored digests of old tasks
#: hold. A new field is named here.
LATER = ("limits",)


class Evidence(Value, frozen=True, kw_only=True):
    """What running a check showed."""

    command: str
    exit_code: int
    seconds: float = 0.0
    #: The end of what it printed.
    tail: str = ""

    @property
    def green(self) -> bool:
        """Whether the check passed."""
        return self.exit_code == 0

    def complaint(self, where: str = "") -> str:
        """Return a sentence that names the exit code and the end of the output."""
        return f"the check is red (exit code {self.exit_code}){where}: {self.tail[-500:] or self.command}"


class Result(Value, frozen=True, kw_only=True):
    """What is published once per task, for ever."""

    id: str
    verdict: Verdict
    reason: str = ""
    output: str = ""
    #: Who ended it: the worker's fence, so that repeating a finish can be told from losing one.
    worker: str = ""
    attempt: int = 1
    finished: float = 0.0
    seconds: float = 0.0
    evidence: Evidence | None = None
    #: Money, tokens and turns, as the agent reported them.
    cost: Mapping[str, object] = NOTHING
    children: tuple[str, ...] = ()
    #: Where the working log went.
    log: str = ""


def brought(end: Value) -> dict[str, Any]:
    """Return the fields of an outcome, a result or a hand-in that describe its work."""
    return {name: getattr(end, name) for name in ("output", "evidence", "seconds", "cost", "log")}


class Try(Value, frozen=True, kw_only=True):
    """One attempt that did not finish the task; `counted` says whether it spent one of its attempts."""

    at: float
    worker: str
    #: task, check, crash, timeout, empty spend an attempt; lost, quota, infra, room, released don't; reset forgives.
    kind: str
    error: str = ""
    #: The error with numbers, paths and times taken out: equal marks are the same failure.
    mark: str = ""
    counted: bool = True
    seconds: float = 0.0
    evidence: Evidence | None = None
    log: str = ""


class Claim(Value, frozen=True, kw_only=True):
    """This worker's right to work on this task until the lease runs out or is revoked."""

    task: Task
    worker: str
    #: Opaque, unique per claim; the store knows what to make of it.
    fence: str
    lease: float = 0.0
    attempt: int = 1
    #: Unix seconds of the claim, by the store's clock.
    since: float = 0.0


class Want(Value, frozen=True, kw_only=True):
    """What a worker asks a store for."""

    worker: str
    lease: float
    count: int = 1
    #: Only these, in this order of trying; empty is any.
    ids: tuple[str, ...] = ()
    #: Only tasks with one of these tags; empty is any.
    tags: tuple[str, ...] = ()
    #: True: only big tasks; False: only small ones; None is any.
    big: bool | None = None
    #: Take it although it is held: for a person's changes, never for work.
    even_held: bool = False
    #: Use the worker's name as the fence as it is, instead of adding something unique per claim.
    verbatim: bool = False
    #: `human` or `agent`, for work that only one of them may do; empty is told from the name.
    kind: str = ""
    #: The name of this request, which its claims' fences then have in them: by it they are found when the answer was
    #: lost. Empty: one is made.
    call: str = ""


#: The kinds of notes for people that an end may leave.
NOTE_KINDS = ("choked", "lost", "ask")


class End(Value, frozen=True, kw_only=True):
    """How one claim ends, decided by the queue and carried out by the store: all of it or nothing."""

    claim: Claim
    #: Terminal: the result to publish. Otherwise None, and the task goes back to ready.
    result: Result | None = None
    #: The task as it goes back, or as it stays with its result (None: unchanged).
    task: Task | None = None
    #: Seconds before it may be taken again, by the store's clock.
    delay: float = 0.0
    children: tuple[Task, ...] = ()
    attempt: Try | None = None
    #: Kind and text of a note for people, where the layout keeps notes.
    note: tuple[str, str] | None = None
    #: The changelog's word for this end, and its details.
    action: str = ""
    details: str = ""


#: Fields of a changelog's line as another program spells them.
CAMEL = {"workerType": "worker_type", "activityId": "activity_id", "taskId": "task_id"}


#: How the line of a split begins where the task waits for its parts, and that of a race.
FOR_PARTS, FOR_RACERS = "and waits for ", "racers "
#: How the line of a task is told that entered as the claim of another ended: its parts, racers and runs.
SPLIT_FROM = "split from "


class Event(Value, frozen=True, kw_only=True):
    """One line of the changelog."""

    timestamp: str
    worker: str
    worker_type: str
    action: str
    activity_id: str = ""
    task_id: str = ""
    details: str = ""
    #: Fields we have no word for, kept.
    extra: Mapping[str, object] = NOTHING

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> Event:
        """Return the event in the fields of a line; TypeError if one is missing."""
        known: dict[str, Any] = {
            key: str(fields[key]) for key in cls.__struct_fields__[:-1] if fields.get(key) is not None
        }
        more = fields.items() if len(known) < len(fields) else ()  # nearly always there is nothing else
        extra = {key: value for key, value in more if key not in cls.__struct_fields__[:-1]}
        for theirs, ours in CAMEL.items():
            if theirs in extra and ours not in known:
                known[ours] = str(extra.pop(theirs))
        if "worker_type" not in known and "worker" in known:
            known["worker_type"] = worker_type(known["worker"])
        return cls(**known, extra=extra)

    def as_dict(self) -> dict[str, Any]:
        """Its fields as a line has them: what we have no word for stands among the others."""
        fields = super().as_dict()
        extra = fields.pop("extra")
        return {**fields, **extra}

    @property
    def about(self) -> str:
        """The id this line tells of."""
        return self.task_id or self.activity_id

    @property
    def did(self) -> str:
        """What happened, in the words of plain tasks: an activity is one."""
        return self.action.replace("_activity", "_task")

    @property
    def waits(self) -> bool:
        """Whether it tells of a split after which the task waits: for its parts, or for its racers. Else it is done."""
        return self.did == "split_task" and self.details.startswith((FOR_PARTS, FOR_RACERS))


class Lock(Value, frozen=True, kw_only=True):
    """A name that one worker has until a time: an activity's, or any name at all."""

    name: str
    holder: str
    #: `human` or `agent`.
    kind: str = "agent"
    #: Grows with every acquisition of this name, for ever: a service that is shown a smaller one refuses it.
    number: int = 0
    acquired: float = 0.0
    expires: float = 0.0
    #: The task inside an activity that the holder is at, and until when.
    task_id: str = ""
    task_acquired: float = 0.0
    task_expires: float = 0.0
    #: Fields we have no word for, kept.
    extra: Mapping[str, object] = NOTHING


def worker_type(worker: str) -> str:
    """Return the changelog's word for a worker: people are `user@host`, the queue itself is `keeper`."""
    if worker == "keeper":
        return "system"
    return "human" if "@" in worker else "agent"


#: How the words begin that stand for what nobody can read: a task's reason to be held, a result's own.
UNREAD = "it cannot be read"


class Card(Value, frozen=True, kw_only=True):
    """A task as it stands: what a person looks at."""

    task: Task
    state: State
    #: Why a ready task may not be taken.
    held: str = ""
    worker: str = ""
    since: float = 0.0
    until: float = 0.0
    #: Whether the holder lives, as far as this machine can tell: yes, no, unknown.
    alive: str = "unknown"
    #: `human` or `agent`, where the claim says so itself.
    kind: str = ""
    result: Result | None = None
    tries: tuple[Try, ...] = ()
    #: Results of superseded claims, kept aside.
    late: tuple[str, ...] = ()
    notes: str = ""
    #: Why no agent may take it by words that are not its task's: its work item's, that a part of it is for people, or
    #: that it cannot be read.
    barred: str = ""

    @property
    def checked(self) -> str:
        """Whether the check of a task that is done was run: yes, no, or none if it has none; empty if it is not."""
        if self.state is not State.DONE:
            return ""
        return "yes" if self.result and self.result.evidence else "no" if self.task.check else "none"


class Page(Value, frozen=True, kw_only=True):
    """Some cards, and where to go on; an empty cursor is the end."""

    cards: tuple[Card, ...]
    cursor: str = ""


class Outcome(Value, frozen=True, kw_only=True):
    """How the work went, in the worker's words; the queue's policy makes an `End` of it."""


class Done(Outcome, frozen=True, kw_only=True):
    """The work is finished."""

    output: str = ""
    reason: str = ""
    evidence: Evidence | None = None
    seconds: float = 0.0
    cost: Mapping[str, object] = NOTHING
    log: str = ""


class Failed(Outcome, frozen=True, kw_only=True):
    """The work did not succeed. Policy decides between another attempt, a choke and the end."""

    error: str
    kind: str = "task"
    output: str = ""
    evidence: Evidence | None = None
    seconds: float = 0.0
    #: No further attempt, whatever is left.
    final: bool = False
    cancelled: bool = False
    cost: Mapping[str, object] = NOTHING
    log: str = ""


class Retry(Outcome, frozen=True, kw_only=True):
    """Put it back for another attempt after that many seconds; spends no attempt."""

    reason: str
    after: float = 0.0
    kind: str = "infra"
    log: str = ""


class Release(Outcome, frozen=True, kw_only=True):
    """Put it back as it was; spends no attempt."""

    reason: str = ""
    #: The bytes to go back with, when a person edited it.
    task: Task | None = None
    action: str = "released_task"


class Split(Outcome, frozen=True, kw_only=True):
    """It was several tasks: put these into the queue instead."""

    children: tuple[Task, ...]
    #: Come back to the parent when all children are done, instead of ending it now.
    wait: bool = False
    output: str = ""


class Ask(Outcome, frozen=True, kw_only=True):
    """A person must answer first; the task waits, the worker doesn't."""

    question: str
    #: Equal keys are the same question: one answer frees every task that waits with it.
    key: str = ""
    #: What would answer it, in words.
    wanted: str = ""
