"""How activities stand: by their status, their lock, and what they need. Reads; changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from taskpit import fs, rules
from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.layouts import activities as names
from taskpit.layouts.progress import ENDED, Activity, Progress, actor_of, people, status_of
from taskpit.model import UNREAD, Card, State, Task, Value, Verdict
from taskpit.store.activities.items import Items
from taskpit.store.folder import LARGEST_RESULT, LATE
from taskpit.store.in_use import excluded, starts
from taskpit.store.leases import alive
from taskpit.store.locks import LockFile


class ActivityState(Value, frozen=True, kw_only=True):
    """An activity and its lock, as they are now."""

    activity: Activity
    item: Progress
    seen: LockFile | None = None
    #: Why the lock no longer counts; empty while it may be live.
    over: str = ""
    #: Whose lock another program has put under the short id, if that may be live.
    beside: str = ""

    @property
    def state(self) -> State:
        """Where it is: ended by its status, else claimed by its lock."""
        if self.activity.verdict is not None:
            return self.activity.verdict.state
        return State.CLAIMED if self.seen is not None else State.READY

    @property
    def takeable(self) -> bool:
        """Whether no live lock and no end stands before it."""
        return self.activity.verdict is None and (self.seen is None or bool(self.over))


class ActivityStates:
    """Looks at everything once; asks are answered from that."""

    def __init__(self, items: Items) -> None:
        self.items = items
        self._standings: dict[str, ActivityState] | None = None
        self._progress: dict[str, Progress] = {}
        self.broken: dict[str, Invalid] = {}

    def standings(self) -> dict[str, ActivityState]:
        """Every activity by its id; a work item without activities, or which nobody can read, stands for itself."""
        if self._standings is None:
            self._standings = {}
            for item, progress in self.items.all():
                if isinstance(progress, Progress):
                    self._progress[item] = progress
                    self._standings.update({one.activity.id: one for one in self._of(progress)})
                else:
                    self.broken[item] = progress
                    self._standings[item] = _unread(item, progress)
        return self._standings

    def _of(self, progress: Progress) -> Iterator[ActivityState]:
        activities = progress.activities()
        if not activities:
            task, actor = _own_task(progress), actor_of(progress.head)
            task = task.replace(hold=task.hold or progress.hold(progress.item, {}))
            own = Activity(id=progress.item, task=task, status=_own_status(progress), actor=actor, steps=())
            yield ActivityState(activity=own, item=progress)
        held = set(fs.names(self.items.folder.at(self.items.path(progress.item, names.LOCKS))))
        for activity in activities:
            short = f"{activity.id.removeprefix(f'{progress.item}-')}.lock"
            beside = self._beside(activity.id, short) if short in held else ""
            if f"{activity.id}.lock" not in held:
                yield ActivityState(activity=activity, item=progress, beside=beside)
                continue
            grip = self.items.grip(activity.id)
            seen = grip.look()
            over = grip.over(seen) if seen is not None and activity.verdict is None else ""
            yield ActivityState(activity=activity, item=progress, seen=seen, over=over, beside=beside)

    def _beside(self, activity_id: str, name: str) -> str:
        """What a lock says that is called by the short id, as the file spells it; empty if its time is over."""
        grip = self.items.grip(activity_id, name)
        seen = grip.look()
        if seen is None or grip.until(seen) <= self.items.folder.clock.now():
            return ""
        return f"{seen.lock.holder or 'another program'} has {name} until {iso(grip.until(seen))}"

    def state_of(self, task_id: str) -> State | None:
        """Where an activity or a whole work item is."""
        standing = self.standings().get(task_id)
        if standing is not None:
            return standing.state
        spot = names.place(task_id)
        progress = self._progress.get(spot.item) if spot else None
        if spot is None or progress is None:
            return None
        if not spot.activity:
            return progress.state()
        step = progress.step_entry(task_id) if spot.step else None
        return None if step is None else _step_state(step[0])

    def use(self) -> rules.Use:
        """What the activities that are worked on change and use."""
        folder, standings = self.items.folder, self.standings().values()
        running = (one.activity.task for one in standings if one.state is State.CLAIMED and not one.over)
        now, settings = folder.clock.now(), folder.config.limits
        return rules.Use(running=tuple(running), starts=starts(folder), settings=settings, now=now)

    def held(self, standing: ActivityState, kind: str) -> str:
        """Why this kind of worker may not take it; empty if it may. The lock is not asked."""
        activity, task = standing.activity, standing.activity.task
        reason = self.barred(standing)
        return reason or activity.unfit(kind) or (excluded(task, self.use())[0] if task.touches or task.limits else "")

    def barred(self, standing: ActivityState) -> str:
        """Why nobody may work on it, of whatever kind; empty if somebody may."""
        task = standing.activity.task
        reason = standing.beside or _stopped(standing.item) or self._whole_held(standing)
        reason = reason or rules.held(task, self.items.folder.clock.now(), self.state_of)
        if reason and task.needs:
            ready = {key: one.activity.task for key, one in self.standings().items() if one.state is State.READY}
            reason = rules.held_in_circle(task, ready) or reason
        return reason

    def _whole_held(self, standing: ActivityState) -> str:
        """Why nothing of its work item may be taken: what that needs, or when it may begin."""
        item = standing.item.item
        if item == standing.activity.id:
            return ""
        reason = rules.held(whole(standing.item), self.items.folder.clock.now(), self.state_of)
        return f"{item}: {reason}" if reason else ""

    def besides(self, standing: ActivityState) -> str:
        """All that keeps agents from taking or ending it by other words than its own; the same until something changes.

        What is needed and done already keeps nobody.
        """
        item, before, reasons = standing.item.item, whole(standing.item), [_stopped(standing.item)]
        if item != standing.activity.id:
            reasons.append(f"{item}: {before.hold}" if before.hold else "")
            if before.not_before > self.items.folder.clock.now():
                reasons.append(f"{item}: not before {iso(before.not_before)}")
            reasons += [f"{item} needs {need}" for need in before.needs if self.state_of(need) is not State.DONE]
        return "; ".join(filter(None, (*reasons, _for_people(standing.activity))))

    # -- cards -------------------------------------------------------------------------------------

    def card(self, task_id: str) -> Card | None:
        """The task as it stands, with everything known about it."""
        standing, spot = self.standings().get(task_id), names.place(task_id)
        if spot is not None and spot.item in self.broken:
            reason = self.standings()[spot.item].activity.task.hold
            return Card(task=Task(id=task_id, title=spot.item), state=State.READY, held=reason, barred=reason)
        if standing is not None:
            return self._full(standing)
        progress = self._progress.get(spot.item) if spot else None
        if progress is None or spot is None:
            return None
        return (
            self._step_card(progress, task_id)
            if spot.step
            else self._item_card(progress)
            if not spot.activity
            else None
        )

    def brief(self, standing: ActivityState) -> Card:
        """The task as lists show it."""
        task, state = standing.activity.task, standing.state
        if state is State.READY:
            return Card(task=task, state=state, held=self.held(standing, "agent"))
        if state is State.CLAIMED and standing.seen is not None:
            lock, grip = standing.seen.lock, self.items.grip(task.id)
            return Card(
                task=task,
                state=state,
                worker=lock.holder,
                kind=lock.kind,
                since=lock.acquired or standing.seen.status.st_mtime,
                until=grip.until(standing.seen),
                alive=alive(self.items.folder, lock.holder),
            )
        fields = standing.item.entry(task.id)
        verdict = standing.activity.verdict or Verdict.DONE
        return Card(task=task, state=state, result=names.load_result(task.id, fields or {}, verdict))

    def _full(self, standing: ActivityState) -> Card:
        card, task_id = self.brief(standing), standing.activity.id
        fields = standing.item.entry(task_id) or {}
        if card.result is not None:
            card = card.replace(result=card.result.replace(output=self._output(standing.item.item, fields)))
        late = sorted(name for name in fs.names(self.items.folder.at(LATE)) if name.startswith(f"{task_id}~"))
        return card.replace(
            tries=names.load_tries(fields),
            late=tuple(f"{LATE}/{name}" for name in late),
            notes=self._notes(standing.item.item, task_id),
            barred=self.besides(standing) if standing.activity.verdict is None else "",
        )

    def _output(self, item: str, fields: dict[str, object]) -> str:
        """What the worker said, from the file that the result names."""
        result = fields.get("result")
        path = str(result.get("output") or "") if isinstance(result, dict) else ""
        if not path.startswith(f"{names.DELIVERABLES}/") or "/" in path.partition("/")[2]:
            return ""
        return self._text(self.items.path(item, path))

    def _notes(self, item: str, task_id: str) -> str:
        lines = self._text(self.items.path(item, names.NOTES)).splitlines(keepends=True)
        return "".join(line for line in lines if f" ({task_id}) " in line)

    def _text(self, path: str) -> str:
        try:
            return fs.read(self.items.folder.at(path), LARGEST_RESULT)[0].decode("utf-8", "replace")
        except OSError:
            return ""

    def _item_card(self, progress: Progress) -> Card:
        """A work item with activities: it is where they are."""
        state = progress.state()
        task = _own_task(progress)
        if state is State.READY:
            return Card(task=task, state=state, held="it is done when its activities are; `pit claim` takes the next")
        fields = {"completed_at": progress.document.get("last_modified")}
        return Card(task=task, state=state, result=names.load_result(task.id, fields, Verdict(str(state))))

    def _step_card(self, progress: Progress, step_id: str) -> Card | None:
        spot = names.place(step_id)
        found = progress.step_entry(step_id)
        standing = self.standings().get(spot.activity) if spot else None
        if found is None or standing is None:
            return None
        fields = found[0]
        step = next(step for step in standing.activity.steps if step.id == step_id)
        task, status = Task(id=step_id, title=step.title, parent=standing.activity.id), step.status
        with contextlib.suppress(Invalid):  # what a task of an activity has beside its words may be anything
            task = names.load(step_id, {**fields, "depends_on": None}).replace(parent=task.parent)
        lock = standing.seen.lock if standing.seen else None
        if status in ENDED:
            result = names.load_result(step_id, fields, ENDED[status])
            return Card(task=task, state=ENDED[status].state, result=result)
        if lock is not None and lock.task_id == step_id:
            return Card(task=task, state=State.CLAIMED, worker=lock.holder, kind=lock.kind, until=lock.task_expires)
        told = "it waits for a person" if status == "awaiting_human" else f"it is part of {task.parent}: claim that"
        return Card(task=task, state=State.READY, held=told)


def _step_state(fields: dict[str, object]) -> State:
    verdict = ENDED.get(status_of(fields))
    return verdict.state if verdict else State.READY


def _stopped(progress: Progress) -> str:
    """Why nothing of a work item goes on."""
    pivot = progress.pivot()
    if pivot is not None:
        return f"{progress.item} is being replanned: {pivot.get('reason') or 'a pivot is under way'}"
    if progress.status in ENDED and progress.status != "completed":
        return f"{progress.item} is {progress.status}"
    return ""


def _for_people(activity: Activity) -> str:
    """Why agents alone may not do all that is left of it."""
    if activity.actor not in ("any", "agent"):
        return f"only {people(activity.actor)} may do it"
    theirs = next((step for step in activity.steps if step.open and step.actor not in ("any", "agent")), None)
    return f"its task {theirs.id} is for {people(theirs.actor)}" if theirs else ""


def whole(progress: Progress) -> Task:
    """What stands before all activities of a work item, as a task; words that cannot be read hold it, and it alone."""
    fields = {word: progress.head.get(word) for word in ("depends_on", "hold", "not_before")}
    try:
        return names.load(progress.item, fields)
    except Invalid as error:
        return Task(id=progress.item, title=progress.title, hold=f"{UNREAD}: {error.message}")


def _unread(item: str, error: Invalid) -> ActivityState:
    """A work item of which only its name is known, held until somebody has mended it."""
    task = Task(id=item, title=item, hold=f"{UNREAD}: {error.message}")
    own = Activity(id=item, task=task, status="pending", actor="any", steps=())
    return ActivityState(activity=own, item=Progress(item, {}))


def _own_task(progress: Progress) -> Task:
    try:
        return progress.as_task()
    except Invalid as error:
        return Task(id=progress.item, title=progress.title, hold=f"{UNREAD}: {error.message}")


def _own_status(progress: Progress) -> str:
    return progress.status if progress.status in ENDED else "pending"
