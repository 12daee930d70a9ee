"""`progress.yaml`: a work item, its activities, their steps and blockers, as values. Pure; touches no disk.

Reads every form met so far: the header flat or under `work_item`, ids in full or short (`A1`, `A1-T1`),
lists as lists or by id, statuses in several words. Writes into the form it finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.layouts import activities as entry
from taskpit.layouts.activities import BLOCKERS, place
from taskpit.model import State, Task, Value, Verdict
from taskpit.text import is_count

#: The form of new files: with actors.
SCHEMA = 2
STATUSES = {
    "todo": "pending",
    "planned": "pending",
    "not_started": "pending",
    "ready": "pending",
    "active": "in_progress",
    "started": "in_progress",
    "wip": "in_progress",
    "complete": "completed",
    "done": "completed",
    "canceled": "cancelled",
    "on_hold": "blocked",
}
#: The status of what has ended without being completed: the one word that other programs have for it.
ABANDONED = "abandoned"
#: Who may do something, by the words people have for it; no word is anybody.
ACTORS = {
    "": "any",
    "all": "any",
    "any": "any",
    "anyone": "any",
    "both": "any",
    "either": "any",
    "mixed": "any",
    "agent": "agent",
    "ai": "agent",
    "human": "human",
    "person": "human",
    "user": "human",
}
#: Statuses of an activity that has not ended.
OPEN = ("pending", "in_progress", "awaiting_human", "blocked", "planning")
#: Statuses that end an activity, and how.
ENDED = {
    "completed": Verdict.DONE,
    "failed": Verdict.FAILED,
    "cancelled": Verdict.CANCELLED,
    "skipped": Verdict.CANCELLED,
}
#: What stands in a flat header without being the work item's own.
OF_THE_FILE = frozenset(
    (
        "schema_version",
        "version",
        "last_modified",
        "last_modified_by",
        "work_item_id",
        "work_item",
        "activities",
        "blockers",
        "pivots",
    )
)


def status_of(fields: Any) -> str:
    """The status in one word, whatever the spelling; no status is pending."""
    text = str(fields.get("status") or "pending").strip().lower().replace("-", "_").replace(" ", "_")
    if text == ABANDONED:  # there is one word for what did not come about; the result says how
        result = fields.get("result")
        said = str(result.get("verdict")) if isinstance(result, dict) else ""
        return said if said in ("failed", "cancelled") else "cancelled"
    return STATUSES.get(text, text)


def actor_of(fields: Any) -> str:
    """Who may do it: agent, human, any, or a word that means nothing here."""
    text = str(fields.get("actor") or "").strip().lower()
    return ACTORS.get(text, text)


def pairs(found: Any) -> list[tuple[str, Any]]:
    """What is inside a list or a mapping by id, each with the id it has by its place; mappings only."""
    listed = [("", one) for one in found] if isinstance(found, list) else []
    inside = found.items() if isinstance(found, dict) else listed
    return [(str(key), one) for key, one in inside if isinstance(one, dict)]


def append(home: Any, word: str, fields: dict[str, Any]) -> None:
    """One more in a list or mapping of this name; Invalid if it is neither."""
    found = home.get(word)
    if found is None:
        home[word] = [fields]
    elif isinstance(found, dict):
        found[fields["id"] if "id" in fields else str(len(found) + 1)] = fields
    elif isinstance(found, list):
        found.append(fields)
    else:
        raise Invalid(f"{word} is neither a list nor a mapping")


class Step(Value, frozen=True, kw_only=True):
    """A task inside an activity."""

    id: str
    title: str
    status: str
    #: Who may do it: agent, human or any.
    actor: str
    needs: tuple[str, ...] = ()
    completed_by: str = ""

    @property
    def open(self) -> bool:
        """Whether there is something left to do."""
        return self.status not in ENDED


class Activity(Value, frozen=True, kw_only=True):
    """An activity as it stands in the file."""

    id: str
    task: Task
    status: str
    actor: str
    steps: tuple[Step, ...]

    @property
    def verdict(self) -> Verdict | None:
        """How it ended, if it has."""
        return ENDED.get(self.status)

    def unfit(self, kind: str) -> str:
        """Why this kind of worker may not do what comes next; empty if it may."""
        if self.actor not in ("any", kind):
            return f"only {people(self.actor)} may do it"
        step = self.next_step(kind)
        if step is not None and step.actor not in ("any", kind):
            return f"its next task {step.id} is for {people(step.actor)}"
        return ""

    def next_step(self, kind: str) -> Step | None:
        """What comes next for this kind of worker; what waits for a person stops only what needs it."""
        done = {step.id for step in self.steps if step.status in ("completed", "skipped")}
        waiting = None
        for step in self.steps:
            if not step.open or not done.issuperset(step.needs):
                continue
            if step.status == "awaiting_human" and kind != "human":
                waiting = waiting or step
                continue
            return step
        return waiting


def people(kind: str) -> str:
    """Who that is, in a sentence."""
    return {"human": "a person", "agent": "an agent"}.get(kind, f"{kind!r}, which is neither human nor agent,")


class Progress:
    """A document of a work item, looked at and changed in memory. `document` keeps how it was written."""

    def __init__(self, item: str, document: Any) -> None:
        self.item = item
        self.document = document
        head = document.get("work_item")
        #: Where the work item's own fields are.
        self.head: Any = head if isinstance(head, dict) else document
        for word in ("activities", "blockers", "pivots"):
            if not isinstance(document.get(word), list | dict | None):
                raise Invalid(f"{word} is neither a list nor a mapping", id=item)
        self._refuse_shared()

    def _refuse_shared(self) -> None:
        """Two entries that are one by an alias cannot be changed one by one."""
        seen: set[int] = set()
        for _, one in pairs(self.document.get("activities")):
            tasks = one.get("tasks")
            parts = [one, *([tasks] if tasks else []), *(step for _, step in pairs(tasks))]
            if any(id(part) in seen for part in parts):
                raise Invalid(
                    f"{one.get('id') or one.get('title')} shares a part with another by an alias", id=self.item
                )
            seen.update(map(id, parts))

    # -- the work item -----------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What the work item is about."""
        return str(self.head.get("title") or self.item)

    @property
    def status(self) -> str:
        """How it stands by its own word."""
        return status_of(self.head)

    def as_task(self) -> Task:
        """The work item as a task, for those without activities."""
        return entry.load(self.item, {key: value for key, value in self.head.items() if key not in OF_THE_FILE})

    def header(self) -> dict[str, Any]:
        """All but its activities and what blocks single ones, which go with these; plain values."""
        single = {id(one) for one in self.blockers() if self._blocked(one) != {self.item}}
        known = pairs(self.document.get("blockers"))
        blockers = [{"id": key, **one} if key else one for key, one in known if id(one) not in single]
        found: Any = entry.plain({**self.document, "activities": [], "blockers": blockers})
        return {str(key): value for key, value in found.items()}

    def touch(self, worker: str, now: float) -> None:
        """One version more, by whom and when."""
        version = str(self._home("version").get("version"))
        self._home("version")["version"] = int(version) + 1 if is_count(version) else 1
        self._home("last_modified")["last_modified"] = iso(now)
        self._home("last_modified_by")["last_modified_by"] = worker.partition("~")[0]

    def _home(self, word: str) -> Any:
        """Where a word of the file stands: in a header of its own only if it is there already."""
        return self.head if word in self.head else self.document

    # -- activities --------------------------------------------------------------------------------

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Every activity's id in full, and its mapping; what is no activity is passed over, and a second one too."""
        seen: set[str] = set()
        for key, one in pairs(self.document.get("activities")):
            activity_id = self.full(str(one.get("id") or key))
            spot = place(activity_id)
            if spot is not None and spot.activity == activity_id and spot.item == self.item and activity_id not in seen:
                seen.add(activity_id)
                yield activity_id, one

    def odd(self) -> Iterator[str]:
        """What stands among the activities and is none, or a second one of its id, in words."""
        known = {id(one) for _, one in self.entries()}
        found = self.document.get("activities") or []
        for one in found.values() if isinstance(found, dict) else found:
            if id(one) not in known:
                name = one.get("id") or one.get("title") if isinstance(one, dict) else one
                yield str(name)[:80]

    def full(self, text: str) -> str:
        """An id in full, if it is short."""
        return text if text.startswith("WI-") or not text else f"{self.item}-{text}"

    def entry(self, activity_id: str) -> Any | None:
        """The mapping of an activity."""
        return next((one for key, one in self.entries() if key == activity_id), None)

    def activities(self) -> list[Activity]:
        """All of them, in the order of the file; one that cannot be read is held for a person."""
        return [self.activity(key, one) for key, one in self.entries()]

    def activity(self, activity_id: str, fields: Any) -> Activity:
        """One of them."""
        try:
            task = entry.load(activity_id, fields, self.hold(activity_id, fields))
        except Invalid as error:
            task = Task(id=activity_id, title=activity_id, hold=f"it cannot be read: {error.message}")
        task = task.replace(parent=task.parent or self.item, needs=tuple(map(self.full, task.needs)))
        steps = tuple(self.steps(activity_id, fields))
        actor = actor_of(fields)
        if not fields.get("actor") and steps and all(step.actor == "human" for step in steps):
            actor = "human"
        return Activity(id=activity_id, task=task, status=status_of(fields), actor=actor, steps=steps)

    def steps(self, activity_id: str, fields: Any) -> Iterator[Step]:
        """The tasks inside an activity."""
        for step_id, one in self.step_entries(activity_id, fields):
            needs = one.get("depends_on") or []
            needs = needs if isinstance(needs, list) else [needs]
            yield Step(
                id=step_id,
                title=str(one.get("title") or step_id),
                status=status_of(one),
                actor=actor_of(one),
                needs=tuple(self._step_id(activity_id, str(need)) for need in needs),
                completed_by=str(one.get("completed_by") or ""),
            )

    def step_entries(self, activity_id: str, fields: Any) -> Iterator[tuple[str, Any]]:
        """Every step's id in full, and its mapping."""
        for key, one in pairs(fields.get("tasks")):
            if one.get("id") or key:
                yield self._step_id(activity_id, str(one.get("id") or key)), one

    def _step_id(self, activity_id: str, text: str) -> str:
        return f"{activity_id}-{text}" if text.startswith("T") else self.full(text)

    def step_entry(self, step_id: str) -> tuple[Any, Any] | None:
        """The mappings of a step and of its activity."""
        spot = place(step_id)
        fields = self.entry(spot.activity) if spot else None
        for key, one in self.step_entries(spot.activity, fields) if spot and fields is not None else ():
            if key == step_id:
                return one, fields
        return None

    def add(self, fields: dict[str, Any]) -> None:
        """One activity more."""
        append(self.document, "activities", fields)

    # -- blockers and pivots -----------------------------------------------------------------------

    def blockers(self, activity_id: str = "") -> Iterator[Any]:
        """Open ones, of this activity or of all."""
        for _, one in pairs(self.document.get("blockers")):
            over = one.get("resolved_at") or one.get("resolved") or status_of(one) in ("resolved", "closed")
            if not over and (not activity_id or {activity_id, self.item} & self._blocked(one)):
                yield one

    def _blocked(self, one: Any) -> set[str]:
        """What a blocker stands before: activities, or the whole work item, also if it does not say."""
        more = one.get("blocking") or []
        ids = [one.get("activity_id"), one.get("task_id"), *(more if isinstance(more, list) else [more])]
        places = (place(self.full(str(text))) for text in ids if text)
        return {spot.activity or spot.item for spot in places if spot is not None} or {self.item}

    def hold(self, activity_id: str, fields: Any) -> str:
        """What holds it by other words than its own."""
        for one in self.blockers(activity_id):
            return str(one.get("description") or one.get("id") or "blocked")
        status = status_of(fields)
        if status == "blocked":
            return "its status is blocked"
        return "" if status in OPEN or status in ENDED else f"its status is {status!r}, which means nothing here"

    def block(self, activity_id: str, why: str, worker: str, now: float, step_id: str = "") -> str:
        """One blocker more; its id."""
        known = pairs(self.document.get("blockers"))
        numbers = (BLOCKERS.match(str(one.get("id") or key)) for key, one in known)
        number = max((int(match[1]) for match in numbers if match), default=0) + 1
        blocker = {
            "id": f"{self.item}-B{number}",
            "activity_id": activity_id,
            "task_id": step_id or None,
            "description": why,
            "raised_at": iso(now),
            "raised_by": worker,
            "resolved_at": None,
            "resolution": None,
        }
        append(self.document, "blockers", blocker)
        return str(blocker["id"])

    def unblock(self, activity_id: str, how: str, now: float, only: str = "") -> bool:
        """Its open blockers are resolved, or those of just these words; what blocks the whole work item stays."""
        found = [one for one in self.blockers(activity_id) if activity_id in self._blocked(one)]
        found = [one for one in found if only in ("", one.get("description"))]
        for one in found:
            one["resolved_at"] = iso(now)
            one["resolution"] = how
        return bool(found)

    def pivot(self) -> Any | None:
        """The pivot that is under way, if one is."""
        running = [one for _, one in pairs(self.document.get("pivots")) if not one.get("finished_at")]
        return running[-1] if running else None

    def state(self) -> State:
        """Where the work item is, by its activities: one that failed is not made up for by the others."""
        statuses = [status_of(fields) for _, fields in self.entries()]
        if not statuses:
            verdict = ENDED.get(self.status)
            return verdict.state if verdict else State.READY
        if any(status not in ENDED for status in statuses):
            return State.READY
        return State.DONE if "completed" in statuses and "failed" not in statuses else State.FAILED

    def settle(self, now: float) -> None:
        """The work item's own status follows its activities: completed with the last of them, and no longer."""
        if self.state() is State.DONE:
            self.head["status"] = "done"
            self.head["completed_at"] = iso(now)
        elif self.status == "completed":
            self.head["status"] = "in_progress"
            clear(self.head, "completed_at")


def clear(fields: Any, *words: str) -> None:
    """These words say nothing any more. One that lines of a person follow stays, or they would go with it."""
    lines = getattr(getattr(fields, "ca", None), "items", {})
    for word in words:
        if fields.get(word) is not None and word in lines:
            fields[word] = None
        elif fields.get(word) is not None:
            del fields[word]


def begin(task: Task, worker: str, now: float) -> dict[str, Any]:
    """A new work item."""
    fields = entry.new(task, "planning")
    for word in ("id", "depends_on", "parent"):
        fields.pop(word, None)
    if task.needs:
        fields["depends_on"] = list(task.needs)
    fields.setdefault("type", "development")
    return {
        "schema_version": SCHEMA,
        "version": 1,
        "last_modified": iso(now),
        "last_modified_by": worker,
        "work_item_id": task.id,
        **fields,
        "activities": [],
        "blockers": [],
    }
