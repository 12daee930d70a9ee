"""A queue: what should happen next. Policy over a Store; knows no file, no process, no terminal.

The same verbs serve the command line, the worker pool, the boards and programs that import taskpit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import filterfalse
from typing import Self

from taskpit import errors, explain, pools, trust
from taskpit.clock import Clock, iso
from taskpit.config import Config
from taskpit.decode import convert, several
from taskpit.explain import known_otherwise, may_be_in, not_claimed, refusal
from taskpit.held_lock import NamedLock, one_of
from taskpit.hooks import tell_ends
from taskpit.model import (
    SCHEDULES,
    Card,
    Claim,
    Count,
    Done,
    End,
    Event,
    Failed,
    Outcome,
    Said,
    Seconds,
    Split,
    State,
    Task,
    Try,
    Want,
    worker_type,
)
from taskpit.policy import KEY, WAITS, answered, settle
from taskpit.race import Race, entrants, parent_of
from taskpit.rules import ANY, check_task, drawn, find_cycle, suits, tangled
from taskpit.status import STATUSES, Status, status_of
from taskpit.store.opening import open_store
from taskpit.store.port import Looking, Store

#: Changes by a person take the task for this long at most.
EDIT_LEASE = 60.0
#: So many tasks are put in one go: they share what they wait for, and nobody waits long for a sign of life.
CHUNK = 500
#: What the changelog calls the cancelling of a task that a worker has.
ASKED_TO_STOP = "asked_to_stop"
#: How a task ends whose worker gives it back after it was asked to stop.
CALLED_OFF = Failed(error="cancelled", cancelled=True)
#: So many of the newest lines of the changelog are searched for why a worker was asked to stop.
STOPS_LOOKED_AT = 500
#: A waiting claim looks again after this many seconds, whatever the store tells.
LOOK_AGAIN = 1.0


class Queue:
    """Tasks in, claims out, ends decided."""

    def __init__(self, store: Store, config: Config | None = None, clock: Clock | None = None) -> None:
        self.store = store
        self.config = config or Config()
        self.clock = clock or Clock()
        self._is_trusted = False

    @classmethod
    def open(cls, path: str, env: Mapping[str, str] | None = None) -> Self:
        """The queue in this folder."""
        store = open_store(path, env)
        return cls(store, store.config, store.clock)

    def close(self) -> None:
        """Let go of what is held open."""
        self.store.close()

    def need_trust(self) -> None:
        """Untrusted unless this user trusts the queue's folder: something that it names is about to run."""
        info = self.store.info()
        if self._is_trusted or info.kind != "files":  # who named a database by hand has said it
            return

        trust.require(info.where)
        self._is_trusted = True

    # -- in ----------------------------------------------------------------------------------------

    def put(self, tasks: Iterable[Task], each: Callable[[str, Said], None] | None = None) -> list[tuple[str, Said]]:
        """Each is in the queue for good; those without an id get one. Ids and what was said, in order.

        All are checked before any is put: bad input changes nothing. Conflict if an id is known with
        other content; the tasks before it in the list are in, and of those after it at most CHUNK.
        `each` is told of every task that is in, in order, a CHUNK at a time.
        """
        tasks = list(tasks)  # what can be gone through only once would be at its end before any is put
        if not {Task}.issuperset(map(type, tasks)):
            raise errors.Invalid("put takes tasks", hint="queue.add('Fix the login') puts one by its title.")
        ready = self._prepare(tasks)
        said: list[tuple[str, Said]] = []
        for start in range(0, len(ready), CHUNK):
            chunk = ready[start : start + CHUNK]
            try:
                answers = self.store.put(chunk)
            except errors.Unknown as error:
                may_be_in(error, [task.id for task, asked in zip(chunk, tasks[start:], strict=False) if not asked.id])
                raise
            for task, answer in zip(chunk, answers, strict=True):
                asked = tasks[len(said)]
                # Under an id that we were just given nothing was there: a put whose answer got lost was repeated.
                entered = (task.id, Said.CREATED if answer is Said.EXISTS and not asked.id else answer)
                if answer is Said.CONFLICT:
                    entered = self._put_otherwise(task, asked)
                said.append(entered)
                if each is not None:
                    each(*entered)
        return said

    def _put_otherwise(self, refused: Task, asked: Task) -> tuple[str, Said]:
        """It enters under another id, if it was we who chose this one: another program has used it meanwhile."""
        if asked.id:
            raise known_otherwise(refused.id, self.store.read([refused.id])[0])
        return self.put([asked])[0]

    def _prepare(self, tasks: Sequence[Task], near: str = "") -> list[Task]:
        """The tasks as they will be put, each with an id: one under its parent's, or under `near`."""
        fresh = iter(self.store.allot([near or task.parent for task in tasks if not task.id]))
        now, needy = float(int(self.clock.now())), False
        ready = []
        for task in tasks:
            changes: dict[str, object] = {"id": task.id or next(fresh)}
            if not task.source:  # what was read from a file stays as it was written
                changes |= {"created": task.created or now, "by": task.by or "keeper"}
            given = task.replace(**changes)
            self.check(given)
            ready.append(given)
            needy = needy or bool(given.needs)
        self.store.vet(ready)
        if needy:
            self._refuse_circles(ready)
        return ready

    def check(self, task: Task) -> None:
        """Whether this can be a task; Invalid says why not."""
        if not isinstance(task, Task):
            raise errors.Invalid(f"{task!r:.60} is no task", hint="Write Task(id='', title='Fix the login').")
        check_task(task)
        if "race" in task.extra:
            entrants(task)
            if self.store.info().layout == "activities":
                raise errors.Invalid("activities cannot race", hint="Use another layout: `pit convert`.", id=task.id)

    def _refuse_circles(self, tasks: Sequence[Task]) -> None:
        """Invalid if some of these would wait for each other. What waits already is read once, however long a chain."""
        waiting = {task.id: task for task in tasks}
        others = {need: None for task in tasks for need in task.needs if need not in waiting}
        near = self.store.read(list(others))
        if any(card is not None and card.state is State.READY and card.task.needs for card in near):
            waiting = {card.task.id: card.task for card in cards(self.store, State.READY, tied=True)} | waiting
        stuck = tangled(waiting)
        for task in tasks:
            circle = find_cycle(task.id, lambda key: stuck[key].needs if key in stuck else ())
            if circle:
                text = f"these tasks would wait for each other: {' -> '.join(circle)}"
                raise errors.Invalid(text, hint="Leave out one of these needs.", circle=circle)

    def missing_needs(self, task: Task) -> list[str]:
        """Ids this task needs that nobody has put yet."""
        if not task.needs:
            return []
        return [need for need, card in zip(task.needs, self.store.read(task.needs), strict=True) if card is None]

    # -- out ---------------------------------------------------------------------------------------

    def claim(  # noqa: PLR0913 - a wish has many sides, each said by name
        self,
        worker: str,
        *,
        ids: Sequence[str] = (),
        tags: Sequence[str] = (),
        big: bool | None = None,
        lease: float = 0.0,
        count: int = 1,
        wait: float = 0.0,
        verbatim: bool = False,
        kind: str = "",
    ) -> list[Claim]:
        """Up to `count` tasks for this worker; waits up to `wait` seconds for the first. Empty: none.

        A task named by id that can't be had raises: Nothing, Held, Lost, Conflict or NotFound, with the reason.
        """
        if lease:
            convert(lease, Seconds, "lease")
        if count != 1 and not convert(count, Count, "count"):
            raise errors.Invalid("count must be at least 1: 0 tasks cannot be claimed")
        want = Want(
            worker=worker,
            kind=kind,
            lease=lease or self.config.lease_of(kind or worker_type(worker)),
            ids=ids if ids == () else several("ids", ids),
            tags=tags if tags == () else several("tags", tags),
            big=big,
            count=count,
            verbatim=verbatim,
        )
        deadline = self.clock.monotonic() + wait
        while True:
            taken = self._draw(want) if self.config.shares else self.store.claim(want)
            if claims := list(filterfalse(self._fired, taken)):
                return claims
            if taken:
                continue  # a schedule's time had come, or a race begins: what entered may be for us
            if ids and (mine := self._refuse_or_mine(ids, want)):
                return mine
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return []
            self.store.wait(min(left, LOOK_AGAIN))

    def _draw(self, want: Want) -> list[Claim]:
        """By priority and age; where the settings give shares to tags, first among those of a tag that was drawn."""
        if want.ids or want.tags:
            return self.store.claim(want)
        import random  # only a queue with shares pays for it

        for tag in drawn(self.config.shares, random.random):
            if taken := self.store.claim(want if tag == ANY else want.replace(tags=(tag,))):
                return taken
        return []

    def _fired(self, claim: Claim) -> bool:
        """Whether this is no work itself, and its claim has ended: a schedule, whose due runs are in the queue now; a
        task that is to race, whose racers are; or a racer whose race is over.
        """
        extra = claim.task.extra
        if not ("every" in extra or "race" in extra or "race-of" in extra):
            return False
        if "every" not in extra:
            race = self._race()
            end = race.start(claim) if "race" in extra else race.late(claim)
            try:
                self.store.finish([end] if end is not None else [])
            except errors.Invalid as error:  # written by hand where there is no room for racers
                held = claim.task.replace(hold=f"its racers cannot enter: {error.message}")
                self.store.finish([End(claim=claim, task=held, action="blocked", details=held.hold)])
            return end is not None
        from taskpit.schedule import fire  # only schedules pay for a calendar

        def state_of(task_id: str) -> State | None:
            card = self.store.read([task_id])[0]
            return card.state if card else None

        self.store.finish([fire(claim, self.clock.now(), state_of)])
        return True

    def fire_schedules(self, worker: str, *, closely: bool = False) -> list[str]:
        """Schedules whose time has come have put in what is due, whatever the workers here take; their ids.

        They are found by their tag, as cheaply as any task. `closely`: each waiting task is looked at, too, for
        schedules that were written by hand, and for one that waits too long because the clock was ahead.
        """
        fired: list[str] = []
        while claims := self.store.claim(Want(worker=worker, lease=EDIT_LEASE, tags=(SCHEDULES,), count=10)):
            due = [claim.task.id for claim in claims if self._fired(claim)]
            fired += due
            self.store.finish([End(claim=claim) for claim in claims if "every" not in claim.task.extra])
            if len(due) < 10:  # also where tasks that are no schedules have the tag: they would come again and again
                break
        if not closely:
            return fired
        from taskpit.schedule import stray

        for card in cards(self.store, State.READY, tied=True):
            if "race-of" in card.task.extra or "racers" in card.task.extra:
                self.look_after_race(card.task)
            elif "every" in card.task.extra and not card.task.hold and stray(card.task, self.clock.now()):
                self._fired(self._take_ready(card.task.id, worker))
                fired.append(card.task.id)
        return fired

    def _refuse_or_mine(self, ids: Sequence[str], want: Want) -> list[Claim]:
        """Why none of these could be claimed; or the claims, if this very worker has them already."""
        mine = []
        for task_id in ids:
            card = self.card(task_id)
            if card.state is State.CLAIMED and card.worker == want.worker and want.verbatim:
                mine.append(self._claim_of(card, want.lease))
            elif card.state is not State.READY or card.held or not suits(card.task, want):
                raise self._refusal(card)
        if mine:
            self.store.renew(mine, want.lease)
        return mine

    def _refusal(self, card: Card) -> errors.TaskpitError:
        """Why it cannot be had, and what to do."""
        return refusal(card, self.clock.now())

    def _claim_of(self, card: Card, lease: float = 0.0) -> Claim:
        return Claim(
            task=card.task,
            worker=card.worker,
            fence=card.worker,
            lease=lease or self.config.lease_of(card.kind or worker_type(card.worker)),
            attempt=card.task.attempts + 1,
            since=card.since,
        )

    def holding(self, task_id: str, worker: str) -> Claim:
        """The claim this worker has on this task; Lost says who has it instead, or that nobody does."""
        card = self.card(task_id)
        if card.state is not State.CLAIMED:
            raise not_claimed(card)
        if card.worker != worker:
            raise self._refusal(card)
        return self._claim_of(card)

    def renew(self, claim: Claim, lease: float = 0.0) -> Said:
        """The claim lasts another lease; says CANCEL if it should stop, as a racer does when another has won.

        LOST if it is over.
        """
        convert(lease, Seconds, "lease")
        said = self.store.renew([claim], lease or claim.lease or self.config.lease)[0]
        if said is Said.OK and "race-of" in claim.task.extra and self._race().over(claim.task) is not None:
            return Said.CANCEL
        return said

    def _race(self) -> Race:

        return Race(self.store, self.config, self.clock)

    def finish(self, claim: Claim, outcome: Outcome) -> tuple[Said, End]:
        """The claim ends this way. LOST: it was over before; the result is kept aside and the other's stands."""
        return self.finish_many([(claim, outcome)])[0]

    def finish_many(self, ends: Sequence[tuple[Claim, Outcome]]) -> list[tuple[Said, End]]:
        """Each of these claims ends its way; together they wait for the disk once."""
        settled = []
        for claim, outcome in ends:
            meant = self._with_ids(claim, outcome) if isinstance(outcome, Split) else outcome
            tries = self._tries(claim.task.id) if isinstance(meant, Failed) else ()
            end = settle(claim, meant, tries, self.config, self.clock.now())
            if (end.result is None or end.children) and self.is_called_off(claim):
                end = settle(claim, self.called_off(claim.task.id), tries, self.config, self.clock.now())
            settled.append(end)
        if self.config.hooks.commands:
            self.need_trust()
        return self._carry_out(settled)

    def called_off(self, task_id: str) -> Failed:
        """Return how a task ends whose worker was asked to stop: with the reason that was given then."""
        try:
            events, _ = self.store.latest(STOPS_LOOKED_AT)
        except errors.Storage:
            return CALLED_OFF
        said = [event.details for event in events if event.did == ASKED_TO_STOP and event.about == task_id]
        return CALLED_OFF.replace(error=said[-1]) if said and said[-1] else CALLED_OFF

    def is_called_off(self, claim: Claim) -> bool:
        """Whether a person has cancelled it meanwhile: then it is not left to others, neither whole nor in parts."""
        if self.store.info().layout == "activities":  # there it may also be a new plan for whose sake work stops
            asked: Callable[[str], bool] | None = getattr(self.store, "is_called_off", None)
            return asked is not None and asked(claim.task.id)
        return self.store.renew([claim], claim.lease or EDIT_LEASE)[0] is Said.CANCEL

    def _carry_out(self, ends: Sequence[End]) -> list[tuple[Said, End]]:
        """Each of these has ended, and so has what follows from it for a race; hooks are told."""
        more: list[tuple[Said, End]] = []
        for end in ends:
            if "race-of" in end.claim.task.extra or "racers" in end.claim.task.extra:
                said, more = self._finish_races(ends)
                break
        else:
            said = list(zip(self.store.finish(ends), ends, strict=True))
        if self.config.hooks.commands:
            tell_ends(self.store, self.config.hooks, [end for answer, end in (*said, *more) if answer is Said.OK])
        return said

    def _finish_races(self, ends: Sequence[End]) -> tuple[list[tuple[Said, End]], list[tuple[Said, End]]]:
        """The ends that were asked for, and those that follow from them."""
        race = self._race()
        said: list[tuple[Said, End]] = []
        more: list[tuple[Said, End]] = []
        for end in ends:
            if "race-of" in end.claim.task.extra:
                first, *others = race.finish(end)
            else:
                first = (self.store.finish([end])[0], end)
                others = race.stop(end.claim.task, end.claim.worker) if end.result is not None else []
            said.append(first)
            more += others
        return said, more

    def seal(
        self, parent: Claim, winner: str, done: Done, costs: Iterable[Mapping[str, object]] = ()
    ) -> tuple[Said, End]:
        """The task whose claim this is has the result of its racer `winner`; the other racers end."""
        return self._carry_out([self._race().sealed(parent, winner, done, costs)])[0]

    def look_after_race(self, task: Task, worker: str = "keeper") -> None:
        """What a worker that died left undone of the race of this task, or of this racer, is done."""
        self._race().look(parent_of(task) or task.id, worker)

    def _tries(self, task_id: str) -> tuple[Try, ...]:
        """Earlier attempts, read only where the policy asks for them."""
        card = self.store.read([task_id])[0]
        return card.tries if card else ()

    def _with_ids(self, claim: Claim, split: Split) -> Split:
        if not split.children:
            raise errors.Invalid("a split needs at least one child", id=claim.task.id)
        whole, line = claim.task, self.lineage(claim.task)
        deep = f"a part of a part, {len(line)} deep: look whether that leads anywhere"
        hold = deep if len(line) > self.config.choke + 1 else ""
        parented = [
            child.replace(
                parent=whole.id,
                by=child.by or claim.worker,
                tags=child.tags or whole.tags,
                priority=child.priority or whole.priority,
                hold=child.hold or hold,
            )
            for child in split.children
        ]
        named = [child.id for child in parented if child.id]
        for task_id, card in zip(named, self.store.read(named), strict=True):
            if card is not None:
                raise errors.Conflict(f"the child's id {task_id} exists already", id=task_id, state=str(card.state))
        # Where ids tell what belongs where, the children stand beside what they replace, not inside it.
        return split.replace(children=tuple(self._prepare(parented, line[-1])))

    def lineage(self, task: Task) -> list[str]:
        """The task, its parent, that one's, and so on: the last is what it belongs to in the end."""
        found, above = [task.id], task.parent
        while above and above not in found:
            found.append(above)
            card = self.store.read([above])[0]
            above = card.task.parent if card else ""
        return found

    # -- locks -------------------------------------------------------------------------------------

    def lock(self, name: str, *, worker: str = "", ttl: float = 1800.0, wait: float = 0.0, kind: str = "") -> NamedLock:
        """A name to have alone while something runs: `with queue.lock("deploy", wait=60) as held: ...`."""
        return NamedLock(self.store, self.clock, name, worker or one_of(), ttl=ttl, wait=wait, kind=kind)

    # -- what people do ----------------------------------------------------------------------------

    def card(self, task_id: str) -> Card:
        """The task as it stands; NotFound if there is none."""
        card = self.store.read([task_id])[0]
        if card is None:
            if self.store.resolve(task_id) == [task_id]:
                text = f"{task_id} was added, but its file is gone: it was moved or removed by hand"
                hint = "`pit doctor` shows it, `pit doctor --fix` puts it back."
                raise errors.NotFound(text, hint=hint, id=task_id)
            raise errors.NotFound(f"there is no task {task_id}", hint="`pit list` shows what there is.", id=task_id)
        return card

    def resolve(self, text: str) -> str:
        """The one id this text means: the id itself, its number, or an unambiguous beginning."""
        if not text:  # as an unset variable: it would mean the only task
            raise errors.Invalid("the id is empty", hint="`pit list` shows what there is.")
        ids = self.store.resolve(text) if len(text.encode("utf-8", "replace")) < 256 else []  # no name is longer
        if len(ids) == 1:
            return ids[0]
        if not ids:
            raise errors.NotFound(f"there is no task {text}", hint="`pit list` shows what there is.", id=text)
        some = ", ".join(ids[:5]) + (" …" if len(ids) > 5 else "")
        raise errors.Invalid(f"{text} could be any of {len(ids)} tasks: {some}", ids=ids[:20])

    def edit(
        self, task_id: str, worker: str, change: Callable[[Task], Task], action: str = "edited_task", why: str = ""
    ) -> Task:
        """A ready task, changed: it is taken for a moment, so that nobody works on it meanwhile."""
        claim = self._take_ready(task_id, worker)
        try:
            changed = change(claim.task)
            self.check(changed)
            if changed.needs != claim.task.needs:
                self._refuse_circles([changed])
            self.store.finish([End(claim=claim, task=changed, action=action, details=why)])
        except BaseException:
            self.store.finish([End(claim=claim, details="nothing was changed")])
            raise
        return changed

    def _take_ready(self, task_id: str, worker: str) -> Claim:
        want = Want(worker=worker, lease=EDIT_LEASE, ids=(task_id,), even_held=True)
        claims = self.store.claim(want)
        if claims:
            return claims[0]
        card = self.card(task_id)
        if card.state is State.CLAIMED and card.worker == worker:
            hint = f"`pit release {task_id}` gives it back, then change it."
            raise errors.Conflict(f"{task_id} is your own claim", hint=hint, id=task_id)
        if card.state is State.READY:  # nothing was asked for that it could not be
            raise errors.Conflict(f"another process is moving {task_id} at this moment", hint="Repeat it.", id=task_id)
        raise self._refusal(card)

    def block(self, task_id: str, worker: str, reason: str) -> Task:
        """No worker may take it until it is unblocked; its own holder lets go of it with that."""
        if not reason.strip():
            raise errors.Invalid("say why it is blocked", id=task_id)
        card = self.card(task_id)
        if card.state is State.CLAIMED and card.worker == worker:  # the worker that meets the obstacle lets go of it
            claim = self._claim_of(card)
            blocked = claim.task.replace(hold=reason)
            if self.store.finish([End(claim=claim, task=blocked, action="blocked", details=reason)])[0] is Said.OK:
                return blocked
        return self.edit(task_id, worker, lambda task: task.replace(hold=reason), "blocked", reason)

    def unblock(self, task_id: str, worker: str) -> Task:
        """It may be taken again, with all its attempts: its failures so far do not count any more."""
        return self._free(task_id, worker)

    def _free(self, task_id: str, worker: str, why: str = "") -> Task:
        claim = self._take_ready(task_id, worker)
        if self.is_called_off(claim):  # what it was asked to stop for is over with that
            self.finish(claim, CALLED_OFF)
            return self.retry(task_id, worker)
        freed = _fresh(claim.task)
        reset = Try(at=self.clock.now(), worker=worker, kind="reset", counted=False)
        try:
            self.store.finish([End(claim=claim, task=freed, attempt=reset, action="unblocked", details=why)])
        except errors.Denied:
            self.store.finish([End(claim=claim, details="nothing was changed")])
            raise
        return freed

    def answer(self, word: str, text: str, worker: str) -> list[str]:
        """Every task that waits for this answer goes on with it: the task of that id, or all with that key."""
        if not text.strip():
            raise errors.Invalid("the answer is empty")

        asked = [card.task for card in cards(self.store, State.READY, tied=True) if card.task.hold.startswith(WAITS)]
        ids = [task.id for task in asked if task.extra.get(KEY) == word]
        if not ids:
            task = self.card(self.resolve(word)).task
            if not task.hold.startswith(WAITS):
                raise errors.Conflict(f"{task.id} asks nothing", hint=f"See `pit why {task.id}`.", id=task.id)
            key = task.extra.get(KEY)
            ids = [other.id for other in asked if key and other.extra.get(KEY) == key] or [task.id]
        for task_id in ids:
            self.edit(task_id, worker, lambda task: answered(task, text, worker), "answered", " ".join(text.split()))
        return ids

    def retry(self, task_id: str, worker: str) -> Task:
        """It starts again with all its attempts: a failed task is reopened, a ready one freed of its waiting."""
        card = self.card(task_id)
        if card.state is State.DONE:
            hint = "Add a new task instead; a result stands for ever."
            raise errors.Conflict(f"{task_id} is done", hint=hint, id=task_id)
        if card.state is not State.FAILED:
            return self._free(task_id, worker, "retry")
        if "race-of" in card.task.extra and (over := self._race().over(card.task)) is not None:
            whole = over.task.id
            again = over.state is State.FAILED
            hint = f"`pit retry {whole}` lets it race again." if again else f"See `pit show {whole}`."
            raise errors.Conflict(f"{task_id} is a racer of {whole}, and the race is over", hint=hint, id=task_id)
        fresh = _fresh(card.task)
        if self.store.reopen([fresh])[0] is not Said.OK:
            raise errors.Conflict(f"{task_id} is no longer failed", hint=f"See `pit show {task_id}`.", id=task_id)
        self.tell("unblocked", task_id, worker, "retry")
        return fresh  # any worker may have it by now

    def cancel(self, task_id: str, worker: str, reason: str = "") -> bool:
        """It will not be done. True: it is cancelled; False: its worker was asked to stop and will see it."""
        card = self.card(task_id)
        if card.state is State.CLAIMED:
            self.store.stop([task_id])
            if self.card(task_id).state is not State.READY:  # else it was given back just then: nobody would hear it
                self.tell(ASKED_TO_STOP, task_id, worker, reason)
                return False
        claim = self._take_ready(task_id, worker)
        self.finish(claim, Failed(error=reason or "cancelled", cancelled=True))
        return True

    def tell(self, action: str, task_id: str, worker: str, details: str = "") -> None:
        """The changelog says what this worker did where the store itself does not know who it was."""
        kind, at = worker_type(worker), iso(self.clock.now())
        told = Event(timestamp=at, worker=worker, worker_type=kind, action=action, task_id=task_id, details=details)
        self.store.record([told])

    def note(self, task_id: str, text: str, worker: str) -> None:
        """A note beside the task, whatever its state."""
        if not text.strip():
            raise errors.Invalid("the note is empty", id=task_id)
        self.card(task_id)
        self.store.note(task_id, text, worker)

    def why(self, task_id: str) -> list[str]:
        """Why this task is where it is, in sentences: what holds it, what happened to it, what to do."""
        card, root = self.card(task_id), self.store.info().papers
        lines = explain.why(card, self.clock.now(), self.store.paused())
        if card.state is State.READY and not card.held and root:
            lines[1:1] = [
                line for pool in pools.living(root) for line in pool.why_not(declared=bool(card.task.touches))
            ]
        return lines


def cards(store: Looking, state: State | None = None, size: int = 1000, *, tied: bool = False) -> Iterator[Card]:
    """Every task, page by page: ready ones in the order they will be taken, then claimed, failed, done.

    `tied`: ready ones that nothing can hold may be missing.
    """
    cursor = ""
    while True:
        page = store.page(state, cursor, size, tied=tied)
        yield from page.cards
        cursor = page.cursor
        if not cursor:
            return


def tally(store: Looking, seen: Mapping[State, Sequence[Card]] | None = None) -> dict[str, int]:
    """How many tasks stand where, each counted once. Done and running ones are only counted, not read.

    `seen` are all that there are in these states, if they were just looked at.
    """
    there, counts, seen = store.counts(), dict.fromkeys(map(str, STATUSES), 0), seen or {}
    for state in (State.READY, State.FAILED):
        for card in seen[state] if state in seen else cards(store, state, tied=True):
            counts[status_of(card)] += 1
    held = counts[Status.NEEDS_YOU] + counts[Status.WAITING]
    counts[Status.READY] = max(there[State.READY] - held, 0)
    counts[Status.FAILED] = max(there[State.FAILED] - counts[Status.CANCELLED], 0)
    return {**counts, Status.RUNNING: there[State.CLAIMED], Status.DONE: there[State.DONE]}


def _fresh(task: Task) -> Task:
    """Nothing of its own keeps it; but a schedule has its next time there, from which it knows what it missed."""
    return task.replace(hold="", attempts=0, not_before=task.not_before if "every" in task.extra else 0.0)
