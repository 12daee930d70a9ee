"""The whole port in a dictionary: for tests and dry runs, and the model that the file store is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256 as digest_of

from taskpit import rules
from taskpit.clock import Clock, iso
from taskpit.errors import CursorLost, Invalid, Lost
from taskpit.layouts.layout import check_word
from taskpit.model import SPLIT_FROM, Card, Claim, End, Event, Lock, Page, Said, State, Task, Try, Want, worker_type
from taskpit.rules import held_in_circle, order
from taskpit.store import run_files
from taskpit.store.port import Artifact, Info, Lapse, Mend
from taskpit.text import is_count


class _Record:
    """One task and all that is known of it."""

    def __init__(self, task: Task) -> None:
        self.asked = task
        self.card = Card(task=task, state=State.READY)
        self.fence = ""
        self.until = 0.0
        self.lease = 0.0
        self.tries: list[Try] = []
        self.late: list[str] = []
        self.notes = ""
        self.stop = False


class MemoryStore:
    """A Store that forgets everything when the process ends."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self._records: dict[str, _Record] = {}
        self._events: list[Event] = []
        self._number = 0
        self._claims = 0
        self._members: set[str] = set()
        self._joined: set[str] = set()
        self._pause = ("", 0.0)
        self._logs: dict[str, bytes] = {}
        self._artifacts: dict[str, dict[str, bytes]] = {}
        self._locks: dict[str, Lock] = {}
        self._fences: dict[str, int] = {}
        self._starts: dict[str, tuple[float, ...]] = {}
        self.limits: Mapping[str, str] = {}

    def allot(self, parents: Sequence[str]) -> list[str]:
        """The next numbers."""
        ids: list[str] = []
        while len(ids) < len(parents):
            self._number += 1
            if f"{self._number:04d}" not in self._records:
                ids.append(f"{self._number:04d}")
        return ids

    def vet(self, tasks: Sequence[Task]) -> None:
        """Any word will do as an id that would do as a file name."""
        for task in tasks:
            check_word(task.id, "id")
            for need in task.needs:
                check_word(need, "need")

    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Into the dictionary, unless the id is known."""
        return [self._put(task) for task in tasks]

    def _put(self, task: Task, details: str = "") -> Said:
        known = self._records.get(task.id)
        if known is not None:
            return Said.EXISTS if known.asked.wish() == task.wish() else Said.CONFLICT
        self._records[task.id] = _Record(task)
        self._tell("added_task", task.id, task.by or "keeper", details or task.title)
        return Said.CREATED

    def claim(self, want: Want) -> list[Claim]:
        """The best that fit."""
        if not want.even_held and self.paused():
            return []
        ready = [record for record in self._records.values() if record.card.state is State.READY]
        if want.ids:
            by_id = {record.card.task.id: record for record in ready}
            chosen = [by_id[task_id] for task_id in want.ids if task_id in by_id]
        else:
            chosen = sorted(ready, key=lambda record: order(record.card.task))
        taken: list[Claim] = []
        for record in chosen:  # one after another: what is taken now may be in the way of the next
            if len(taken) < want.count and self._fits(record.card.task, want):
                taken.append(self._take(record, want))
        return taken

    def _fits(self, task: Task, want: Want) -> bool:
        if not rules.suits(task, want):
            return False
        return want.even_held or not self._held(task)

    def _held(self, task: Task) -> str:
        running = tuple(record.card.task for record in self._records.values() if record.card.state is State.CLAIMED)
        use = rules.Use(running=running, starts=self._starts, settings=self.limits, now=self.clock.now())
        held = rules.held(task, use.now, self.state_of) or rules.in_the_way(task, running)
        return held or rules.over_limit(task, use)[0]

    def state_of(self, task_id: str) -> State | None:
        """Where a task is."""
        record = self._records.get(task_id)
        return record.card.state if record else None

    def _take(self, record: _Record, want: Want) -> Claim:
        self._claims += 1
        now, task = self.clock.now(), record.card.task
        record.fence = want.worker if want.verbatim else f"{want.worker}~{self._claims}"
        record.lease, record.until = want.lease, now + want.lease
        record.card = Card(task=task, state=State.CLAIMED, worker=record.fence, since=now, until=record.until)
        if not want.even_held:
            for key in rules.rated(task, self.limits):
                self._starts[key] = (*self._starts.get(key, ()), now)
            self._tell("claimed_task", task.id, record.fence)
        return Claim(
            task=task,
            worker=want.worker,
            fence=record.fence,
            lease=want.lease,
            attempt=task.attempts + 1,
            since=now,
        )

    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """Later ends."""
        return [self._renew(claim, lease) for claim in held]

    def _renew(self, claim: Claim, lease: float) -> Said:
        record = self._claimed(claim)
        if record is None:
            return Said.LOST
        record.until = self.clock.now() + lease
        return Said.CANCEL if record.stop else Said.OK

    def _claimed(self, claim: Claim) -> _Record | None:
        record = self._records.get(claim.task.id)
        alive = record is not None and record.card.state is State.CLAIMED and record.fence == claim.fence
        return record if alive else None

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """Each end, whole."""
        return [self._finish(end) for end in ends]

    def _finish(self, end: End) -> Said:
        record, claim = self._claimed(end.claim), end.claim
        if record is None:
            return self._too_late(end)
        record.fence, record.stop = "", record.stop and end.result is None
        if end.attempt is not None:
            record.tries.append(end.attempt)
        for child in end.children:
            self._put(child, f"{SPLIT_FROM}{claim.task.id}")
        if end.result is not None:
            record.card = Card(task=end.task or record.card.task, state=end.result.verdict.state, result=end.result)
        else:
            task = end.task or record.card.task
            if end.delay:
                task = task.replace(not_before=float(int(self.clock.now() + end.delay)))
            record.card = Card(task=task, state=State.READY)
        self._tell(end.action or "released_task", claim.task.id, claim.fence, end.details)
        return Said.OK

    def _too_late(self, end: End) -> Said:
        record, result = self._records.get(end.claim.task.id), end.result
        if record is None:
            return Said.LOST
        published = record.card.result
        if result and published and (published.worker, published.verdict) == (end.claim.fence, result.verdict):
            return Said.ALREADY
        if end.attempt is not None and end.attempt in record.tries:
            return Said.ALREADY
        if result is not None or end.attempt is not None:
            record.late.append(result.output if result else end.attempt.error if end.attempt else "")
            self._tell("late_result", end.claim.task.id, end.claim.fence)
        return Said.LOST

    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Failed ones become ready."""
        return [self._reopen(task) for task in tasks]

    def _reopen(self, task: Task) -> Said:
        record = self._records.get(task.id)
        if record is None or record.card.state is not State.FAILED:
            return Said.LOST
        record.late.append(record.card.result.reason if record.card.result else "")
        record.card = Card(task=task, state=State.READY)
        self._tell("reopened_task", task.id)
        return Said.OK

    def stop(self, ids: Sequence[str]) -> None:
        """Seen at the next renewal."""
        for task_id in ids:
            if task_id in self._records:
                self._records[task_id].stop = True

    def pause(self, reason: str, seconds: float, worker: str) -> None:
        """Until then."""
        self._pause = (f"paused by {worker}: {reason}", self.clock.now() + seconds if seconds else 0.0)
        self._tell("paused", "", worker, reason)

    def resume(self, worker: str) -> bool:
        """No longer."""
        was, self._pause = self.paused(), ("", 0.0)
        if was:
            self._tell("resumed", "", worker)
        return bool(was)

    def paused(self) -> str:
        """What was said, unless its time has passed."""
        said, until = self._pause
        if until and until <= self.clock.now():
            return ""
        return f"{said}, until {iso(until)}" if until else said

    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> MemoryMember:  # noqa: ARG002 - nobody waits
        """Nobody else has this name."""
        if worker in self._members:
            raise Lost(f"a living process already works here as {worker}", worker=worker)
        self._members.add(worker)
        self._joined.add(worker)
        return MemoryMember(self, worker)

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:  # noqa: ARG002 - looking changes nothing here
        """Those past their end, and those of workers that joined and are gone."""
        found = []
        for record in self._records.values():
            if record.card.state is not State.CLAIMED:
                continue
            worker = record.fence.split("~", 1)[0]
            if worker in self._joined and worker not in self._members and "~" in record.fence:
                reason = f"{worker} is dead"
            elif self.clock.now() > record.until:
                reason = f"{record.fence} did not renew"
            else:
                continue
            task = record.card.task
            claim = Claim(task=task, worker=worker, fence=record.fence, attempt=task.attempts + 1)
            found.append(Lapse(claim=claim, reason=reason, called_off=record.stop))
        return found

    def mend(self, *, dry_run: bool = False) -> list[Mend]:  # noqa: ARG002 - nothing can be half done here
        """Nothing to repair."""
        return []

    def fix(self, *, dry_run: bool = False) -> list[Mend]:  # noqa: ARG002 - nothing can be half done here
        """Nothing to repair."""
        return []

    def check(self) -> list[Mend]:
        """Nothing can be out of order."""
        return []

    def compost(self, *, dry_run: bool = False) -> list[Mend]:  # noqa: ARG002 - nothing is kept
        """Nothing to prune."""
        return []

    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Each with everything known."""
        return [self._card(self._records[task_id]) if task_id in self._records else None for task_id in ids]

    def _card(self, record: _Record) -> Card:
        reason = ""
        if record.card.state is State.READY:
            reason = self._held(record.card.task)
            if reason and record.card.task.needs:
                ready = {key: r.card.task for key, r in self._records.items() if r.card.state is State.READY}
                reason = held_in_circle(record.card.task, ready) or reason
        return record.card.replace(
            held=reason, until=record.until, tries=tuple(record.tries), late=tuple(record.late), notes=record.notes
        )

    def resolve(self, text: str) -> list[str]:
        """Itself, its number, or what begins with it."""
        for exact in (text, text.zfill(4)):
            if exact in self._records:
                return [exact]
        return sorted(key for key in self._records if text and key.startswith(text))

    def page(
        self,
        state: State | None = None,
        after: str = "",
        limit: int = 1000,
        *,
        tied: bool = False,  # noqa: ARG002 - all of them
    ) -> Page:
        """In the order of taking, then by state."""
        ordered = sorted(self._records.values(), key=self._place)
        cards = [self._card(record) for record in ordered if state in (None, record.card.state)]
        start = int(after or 0) if is_count(after or "0") else len(cards) + 1
        if start > len(cards):
            raise Invalid(f"{after[:40]!r} is not a place in a listing", hint="Begin again without it.")
        cursor = str(start + limit) if start + limit < len(cards) else ""
        return Page(cards=tuple(cards[start : start + limit]), cursor=cursor)

    def _place(self, record: _Record) -> tuple[object, ...]:
        shown = (State.READY, State.CLAIMED, State.FAILED, State.DONE)
        return (shown.index(record.card.state), order(record.card.task))

    def counts(self) -> dict[State, int]:
        """By state."""
        return {state: sum(1 for r in self._records.values() if r.card.state is state) for state in State}

    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """What was told."""
        start = int(after or 0) if is_count(after or "0") else len(self._events) + 1
        if start > len(self._events):
            raise CursorLost(cursor=after)
        found = self._events[start : start + limit]
        return found, str(start + len(found))

    def latest(self, limit: int) -> tuple[list[Event], str]:
        """What was told last."""
        return self._events[max(len(self._events) - limit, 0) :], str(len(self._events))

    def record(self, events: Iterable[Event]) -> None:
        """Told from outside."""
        self._events.extend(events)

    def note(self, task_id: str, text: str, worker: str) -> None:
        """One more line."""
        if task_id in self._records:
            self._records[task_id].notes += f"- {iso(self.clock.now())} {worker}: {text.rstrip()}\n"
        self._tell("noted", task_id, worker, text)

    def keep_log(self, worker: str, data: bytes) -> str:
        """Under a number."""
        place = f"{worker}, log {len(self._logs)}"
        self._logs[place] = data
        return place

    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """Under the claim's fence."""
        self._own(claim)
        run_files.check_piece(start, data)
        log = self._logs.get(claim.fence, b"")
        begins_again, fits = start == 0 and not data, start <= len(log)
        self._logs[claim.fence] = b"" if begins_again else log + data[len(log) - start :] if fits else log
        return len(self._logs[claim.fence])

    def end_log(self, claim: Claim) -> str:
        """Under a number."""
        self._own(claim)
        data = self._logs.pop(claim.fence, b"")
        return self.keep_log(claim.worker, data) if data else ""

    def read_log(self, task_id: str, start: int, size: int) -> tuple[bytes, int]:
        """Of who has it, or had it last."""
        card = self.read([task_id])[0]
        if card is None:
            raise run_files.none_of(task_id)
        data = self._logs.get(card.worker if card.state is State.CLAIMED else run_files.last_log(card), b"")
        return data[start : start + size], len(data)

    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """Under its name."""
        task_id = self._own(claim).task.id
        run_files.check_artifact(name, data, sha256, self.artifacts(task_id))
        self._artifacts.setdefault(task_id, {})[name] = data

    def artifacts(self, task_id: str) -> list[Artifact]:
        """By name."""
        found = sorted(self._artifacts.get(task_id, {}).items())
        return [Artifact(name=name, size=len(data), sha256=digest_of(data).hexdigest()) for name, data in found]

    def read_artifact(self, task_id: str, name: str) -> bytes:
        """Its bytes."""
        data = self._artifacts.get(task_id, {}).get(name)
        if data is None:
            raise run_files.none_of(task_id, name)
        return data

    def _own(self, claim: Claim) -> Card:
        return run_files.check_held(claim, self.read([claim.task.id])[0])

    def lock(self, name: str, worker: str, seconds: float, kind: str = "") -> Lock:
        """A name in a dictionary, and a number that only grows."""
        check_word(name, "name of a lock")
        if seconds <= 0:
            raise Invalid("a lock must last some time", name=name)
        now, held = self.clock.now(), self._locks.get(name)
        if held is not None and held.holder == worker:
            lock = held.replace(expires=now + seconds)
        elif held is not None and held.expires >= now:
            raise Lost(f"{name} is held by {held.holder}", holder=held.holder)
        else:
            self._fences[name] = self._fences.get(name, 0) + 1
            kind, number = kind or worker_type(worker), self._fences[name]
            lock = Lock(name=name, holder=worker, kind=kind, number=number, acquired=now, expires=now + seconds)
        self._locks[name] = lock
        return lock

    def relock(self, lock: Lock, seconds: float) -> Said:
        """It lasts longer, if it is still the same."""
        held = self._locks.get(lock.name)
        if held is None or held.holder != lock.holder or lock.number not in (0, held.number):
            return Said.LOST
        self._locks[lock.name] = held.replace(expires=self.clock.now() + seconds)
        return Said.OK

    def unlock(self, lock: Lock) -> Said:
        """It is gone, if it was still the same."""
        held = self._locks.get(lock.name)
        if held is None or held.holder != lock.holder or lock.number not in (0, held.number):
            return Said.LOST
        del self._locks[lock.name]
        return Said.OK

    def locks(self) -> list[Lock]:
        """By name."""
        return [self._locks[name] for name in sorted(self._locks)]

    def wait(self, timeout: float) -> bool:
        """Let the time pass."""
        self.clock.sleep(timeout)
        return False

    def info(self) -> Info:
        """What this store is."""
        return Info(kind="memory", layout="", where="memory", durability="none", largest_task=1 << 30, wake_bound=0.0)

    def close(self) -> None:
        """Nothing is open."""

    def _tell(self, action: str, task_id: str, worker: str = "keeper", details: str = "") -> None:
        self._events.append(
            Event(
                timestamp=iso(self.clock.now()),
                worker=worker,
                worker_type=worker_type(worker),
                action=action,
                task_id=task_id,
                details=details,
            )
        )


class MemoryMember:
    """A worker that stays."""

    def __init__(self, store: MemoryStore, worker: str) -> None:
        self.worker = worker
        self._store = store

    def leave(self) -> None:
        """The name is free."""
        self._store._members.discard(self.worker)  # noqa: SLF001 - the store's own handle
