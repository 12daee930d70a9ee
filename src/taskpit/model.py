"""The nouns of taskpit as immutable values, and how each is written. Knows nothing of files, stores or policy.

| for | written by | times | fields with their default | read by |
|---|---|---|---|---|
| the wire | `msgspec.json.encode(value)` | Unix seconds | may be left out | `decode.convert` |
| rows of a database | `fields_of(value)`, then sorted JSON | Unix seconds | always left out | `decode.convert` |
| files of a layout | the layout, in its own words | its own | its own | the layout, then `decode.convert` |
| `--json`, MCP | `facts(value)` | ISO 8601 in UTC, or null | written | not read |

A value checks nothing when a program makes it; `decode.convert` checks what comes from outside against the types here:
unknown fields, kinds, ranges, lengths. What is `Fields` may hold any plain values, and is carried along.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Self, get_type_hints

from msgspec import NODEFAULT, Meta, Struct, structs

from taskpit.clock import FIRST, LAST, iso

# -- kinds of fields ---------------------------------------------------------------------------------

#: The largest whole number that every reader of JSON reads exactly.
LARGEST = 2**53
#: A line or a paragraph, and a whole page.
Text = Annotated[str, Meta(max_length=1 << 20)]
LongText = Annotated[str, Meta(max_length=1 << 26)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=100_000)]
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
#: How long something takes or lasts.
Seconds = Annotated[float, Meta(ge=0, le=LAST)]
#: The difference of two clocks.
Offset = Annotated[float, Meta(ge=-LAST, le=LAST)]
#: Unix seconds, also before 1970; 0 is unknown.
Time = Annotated[float, Meta(ge=FIRST, le=LAST, extra={"time": True})]
#: `KEY`, `KEY=N` or `KEY=N/min` with a number from 1 to 1,000,000.
LIMIT = r"^[A-Za-z0-9._:/@-]{1,64}(=0{0,9}([1-9][0-9]{0,5}|1000000)(/min)?)?$"
Limits = Annotated[tuple[Annotated[str, Meta(pattern=LIMIT)], ...], Meta(max_length=100_000)]
#: Plain values under names that taskpit does not know.
Fields = Mapping[str, object]


class Value(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, repr_omit_defaults=True):
    """An immutable record; `replace` makes a changed copy."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these fields changed."""
        return structs.replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, in order of declaration; values inside stay values."""
        return structs.asdict(self)

    @classmethod
    def kinds(cls) -> dict[str, Any]:
        """Return the type of each field, without its limits."""
        return _kinds(cls)


@cache
def _kinds(kind: type[Value]) -> dict[str, Any]:
    known = get_type_hints(kind)
    return {name: known[name] for name in kind.__struct_fields__}


@cache
def defaults(kind: type[Value]) -> Mapping[str, Any]:
    """Return the default of each field that has one."""
    names, found = kind.__struct_fields__, kind.__struct_defaults__
    pairs = zip(names[len(names) - len(found) :], found, strict=True)
    return {
        name: usual.factory() if hasattr(usual, "factory") else usual for name, usual in pairs if usual is not NODEFAULT
    }


def fields_of(value: Value) -> dict[str, Any]:
    """Return the fields that differ from their defaults as plain values, always the same for equal values."""
    usual = defaults(type(value))
    return {
        name: _plain(field, fields_of)
        for name, field in structs.asdict(value).items()
        if name not in usual or field != usual[name]
    }


def facts(value: Value) -> dict[str, Any]:
    """Return all fields as programs read them: plain values, times as ISO 8601 or None."""
    times = _times(type(value))
    return {
        name: _plain((iso(field) if field else None) if name in times else field, facts)
        for name, field in structs.asdict(value).items()
        if not isinstance(field, bytes)
    }


@cache
def _times(kind: type[Value]) -> frozenset[str]:
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(name for name, hint in hints.items() if hint is Time or hint == Time)


def _plain(value: Any, fields: Any) -> Any:
    if isinstance(value, Value):
        return fields(value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(one, fields) for one in value]
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return dict(value) if isinstance(value, Mapping) else value


# -- the nouns ---------------------------------------------------------------------------------------

NOTHING: Fields = {}
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

    id: Text
    title: Text
    body: LongText = ""
    #: The readable part of a file name; chosen from the title, meaningless to the queue.
    slug: Text = ""
    #: Higher first.
    priority: Whole = 0
    #: Ids that must be done before this may be taken.
    needs: Texts = ()
    #: The command that proves it done, run by the queue.
    check: Text = ""
    #: Attempts spent so far, and how many there may be (0: the queue's default).
    attempts: Count = 0
    max_attempts: Count = 0
    tags: Texts = ()
    #: Path globs this task will change.
    touches: Texts = ()
    #: What it uses that is scarce: `staging=1` (at once), `api=10/min`, or a key alone.
    limits: Limits = ()
    parent: Text = ""
    #: Unix seconds before which it may not be taken; 0 is any time.
    not_before: Time = 0.0
    #: Why a person must look before it may be taken; empty is free.
    hold: Text = ""
    #: Too large to do in one sitting: a planner splits it.
    big: bool = False
    #: What the last attempt died of, in one line.
    last_error: Text = ""
    #: Who asked, and when (unix seconds; 0 is unknown).
    by: Text = ""
    created: Time = 0.0
    #: When it was last put back, where a layout tells.
    updated: Time = 0.0
    #: Fields a layout has no word of its own for, kept and carried along.
    extra: Fields = NOTHING
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
LISTS = tuple(name for name, kind in Task.kinds().items() if kind == tuple[str, ...])
LINES = tuple(name for name, kind in Task.kinds().items() if kind is str and name not in ("body", "last_error"))
#: Fields that came after the first release: of them a wish tells only what is said, so that stored digests of old tasks
#: hold. A new field is named here.
LATER = ("limits",)


class Evidence(Value, frozen=True, kw_only=True):
    """What running a check showed."""

    command: Text
    exit_code: Whole
    seconds: Seconds = 0.0
    #: The end of what it printed.
    tail: LongText = ""

    @property
    def green(self) -> bool:
        """Whether the check passed."""
        return self.exit_code == 0

    def complaint(self, where: str = "") -> str:
        """Return a sentence that names the exit code and the end of the output."""
        return f"the check is red (exit code {self.exit_code}){where}: {self.tail[-500:] or self.command}"


class Result(Value, frozen=True, kw_only=True):
    """What is published once per task, for ever."""

    id: Text
    verdict: Verdict
    reason: Text = ""
    output: LongText = ""
    #: Who ended it: the worker's fence, so that repeating a finish can be told from losing one.
    worker: Text = ""
    attempt: Count = 1
    finished: Time = 0.0
    seconds: Seconds = 0.0
    evidence: Evidence | None = None
    #: Money, tokens and turns, as the agent reported them.
    cost: Fields = NOTHING
    children: Texts = ()
    #: Where the working log went.
    log: Text = ""


def brought(end: Value) -> dict[str, Any]:
    """Return the fields of an outcome, a result or a hand-in that describe its work."""
    return {name: getattr(end, name) for name in ("output", "evidence", "seconds", "cost", "log")}


class Try(Value, frozen=True, kw_only=True):
    """One attempt that did not finish the task; `counted` says whether it spent one of its attempts."""

    at: Time
    worker: Text
    #: task, check, crash, timeout, empty spend an attempt; lost, quota, infra, room, released don't; reset forgives.
    kind: Text
    error: Text = ""
    #: The error with numbers, paths and times taken out: equal marks are the same failure.
    mark: Text = ""
    counted: bool = True
    seconds: Seconds = 0.0
    evidence: Evidence | None = None
    log: Text = ""


class Claim(Value, frozen=True, kw_only=True):
    """This worker's right to work on this task until the lease runs out or is revoked."""

    task: Task
    worker: Text
    #: Opaque, unique per claim; the store knows what to make of it.
    fence: Text
    lease: Seconds = 0.0
    attempt: Count = 1
    #: Unix seconds of the claim, by the store's clock.
    since: Time = 0.0


class Want(Value, frozen=True, kw_only=True):
    """What a worker asks a store for."""

    worker: Text
    lease: Seconds
    count: Count = 1
    #: Only these, in this order of trying; empty is any.
    ids: Texts = ()
    #: Only tasks with one of these tags; empty is any.
    tags: Texts = ()
    #: True: only big tasks; False: only small ones; None is any.
    big: bool | None = None
    #: Take it although it is held: for a person's changes, never for work.
    even_held: bool = False
    #: Use the worker's name as the fence as it is, instead of adding something unique per claim.
    verbatim: bool = False
    #: `human` or `agent`, for work that only one of them may do; empty is told from the name.
    kind: Text = ""
    #: The name of this request, which its claims' fences then have in them: by it they are found when the answer was
    #: lost. Empty: one is made.
    call: Text = ""


#: The kinds of notes for people that an end may leave.
NOTE_KINDS = ("choked", "lost", "ask")
NOTE_KIND = f"^({'|'.join(NOTE_KINDS)})$"


class End(Value, frozen=True, kw_only=True):
    """How one claim ends, decided by the queue and carried out by the store: all of it or nothing."""

    claim: Claim
    #: Terminal: the result to publish. Otherwise None, and the task goes back to ready.
    result: Result | None = None
    #: The task as it goes back, or as it stays with its result (None: unchanged).
    task: Task | None = None
    #: Seconds before it may be taken again, by the store's clock.
    delay: Seconds = 0.0
    children: tuple[Task, ...] = ()
    attempt: Try | None = None
    #: Kind and text of a note for people, where the layout keeps notes.
    note: tuple[Annotated[str, Meta(pattern=NOTE_KIND)], LongText] | None = None
    #: The changelog's word for this end, and its details.
    action: Text = ""
    details: Text = ""


#: Fields of a changelog's line as another program spells them.
CAMEL = {"workerType": "worker_type", "activityId": "activity_id", "taskId": "task_id"}


#: How the line of a split begins where the task waits for its parts, and that of a race.
FOR_PARTS, FOR_RACERS = "and waits for ", "racers "
#: How the line of a task is told that entered as the claim of another ended: its parts, racers and runs.
SPLIT_FROM = "split from "


class Event(Value, frozen=True, kw_only=True):
    """One line of the changelog."""

    timestamp: Text
    worker: Text
    worker_type: Text
    action: Text
    activity_id: Text = ""
    task_id: Text = ""
    details: Text = ""
    #: Fields we have no word for, kept.
    extra: Fields = NOTHING

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

    name: Text
    holder: Text
    #: `human` or `agent`.
    kind: Text = "agent"
    #: Grows with every acquisition of this name, for ever: a service that is shown a smaller one refuses it.
    number: Count = 0
    acquired: Time = 0.0
    expires: Time = 0.0
    #: The task inside an activity that the holder is at, and until when.
    task_id: Text = ""
    task_acquired: Time = 0.0
    task_expires: Time = 0.0
    #: Fields we have no word for, kept.
    extra: Fields = NOTHING


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
    held: Text = ""
    worker: Text = ""
    since: Time = 0.0
    until: Time = 0.0
    #: Whether the holder lives, as far as this machine can tell: yes, no, unknown.
    alive: Text = "unknown"
    #: `human` or `agent`, where the claim says so itself.
    kind: Text = ""
    result: Result | None = None
    tries: tuple[Try, ...] = ()
    #: Results of superseded claims, kept aside.
    late: Texts = ()
    notes: LongText = ""
    #: Why no agent may take it by words that are not its task's: its work item's, that a part of it is for people, or
    #: that it cannot be read.
    barred: Text = ""

    @property
    def checked(self) -> str:
        """Whether the check of a task that is done was run: yes, no, or none if it has none; empty if it is not."""
        if self.state is not State.DONE:
            return ""
        return "yes" if self.result and self.result.evidence else "no" if self.task.check else "none"


class Page(Value, frozen=True, kw_only=True):
    """Some cards, and where to go on; an empty cursor is the end."""

    cards: tuple[Card, ...]
    cursor: Text = ""


class Outcome(Value, frozen=True, kw_only=True):
    """How the work went, in the worker's words; the queue's policy makes an `End` of it."""


class Done(Outcome, frozen=True, kw_only=True):
    """The work is finished."""

    output: LongText = ""
    reason: Text = ""
    evidence: Evidence | None = None
    seconds: Seconds = 0.0
    cost: Fields = NOTHING
    log: Text = ""


class Failed(Outcome, frozen=True, kw_only=True):
    """The work did not succeed. Policy decides between another attempt, a choke and the end."""

    error: Text
    kind: Text = "task"
    output: LongText = ""
    evidence: Evidence | None = None
    seconds: Seconds = 0.0
    #: No further attempt, whatever is left.
    final: bool = False
    cancelled: bool = False
    cost: Fields = NOTHING
    log: Text = ""


class Retry(Outcome, frozen=True, kw_only=True):
    """Put it back for another attempt after that many seconds; spends no attempt."""

    reason: Text
    after: Seconds = 0.0
    kind: Text = "infra"
    log: Text = ""


class Release(Outcome, frozen=True, kw_only=True):
    """Put it back as it was; spends no attempt."""

    reason: Text = ""
    #: The bytes to go back with, when a person edited it.
    task: Task | None = None
    action: Text = "released_task"


class Split(Outcome, frozen=True, kw_only=True):
    """It was several tasks: put these into the queue instead."""

    children: tuple[Task, ...]
    #: Come back to the parent when all children are done, instead of ending it now.
    wait: bool = False
    output: LongText = ""


class Ask(Outcome, frozen=True, kw_only=True):
    """A person must answer first; the task waits, the worker doesn't."""

    question: Text
    #: Equal keys are the same question: one answer frees every task that waits with it.
    key: Text = ""
    #: What would answer it, in words.
    wanted: Text = ""
