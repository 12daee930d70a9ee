"""What the chapters of the contract are made of, and what a store may have to do differently."""

from __future__ import annotations

from typing import Any

from taskpit.model import Card, Claim, End, Result, Said, State, Task, Try, Verdict, Want
from taskpit.store.port import Lapse, Member, Store
from taskpit.testing.clock import FakeClock

#: How long claims last here, in seconds.
LEASE = 60.0


class Steps:
    """What the tests below are made of, and what a store may have to do differently."""

    clock: FakeClock
    store: Store

    def make_store(self, clock: FakeClock) -> Store:
        """An empty store by this clock. Override this."""
        raise NotImplementedError

    #: Whether a number stands for the id made of it, as `7` does for `0007`.
    numbers_are_ids = True

    def kept(self, task: Task) -> Task:
        """The task as this store keeps it. Override it where the format always says more than was asked."""
        return task

    def die(self, member: Member) -> None:
        """The process of this member dies. Override it where leaving is not as good as dying."""
        member.leave()

    def setup_method(self) -> None:
        """Before each test: an empty store."""
        self.clock = FakeClock()
        self.store = self.make_store(self.clock)

    def teardown_method(self) -> None:
        """After each test."""
        self.store.close()

    def id(self, number: int) -> str:
        """The id of a task in these tests. Override it where ids are made in another way."""
        return f"{number:04d}"

    def task(self, number: int, **fields: Any) -> Task:
        """A task with an id that this store can carry."""
        return Task(**{"id": self.id(number), "title": f"task {number}", "slug": f"task-{number}", **fields})

    def put(self, *tasks: Task) -> None:
        """These are in."""
        assert self.store.put(tasks) == [Said.CREATED] * len(tasks)

    def claim(self, worker: str = "snake", **want: Any) -> list[Claim]:
        """What this worker gets."""
        return self.store.claim(Want(**{"worker": worker, "lease": LEASE, **want}))

    def take(self, worker: str = "snake", **want: Any) -> Claim:
        """The one task this worker gets."""
        claims = self.claim(worker, **want)
        assert len(claims) == 1
        return claims[0]

    def done(self, claim: Claim, output: str = "it works", **fields: Any) -> End:
        """An end: done."""
        return End(claim=claim, result=self.result(claim, Verdict.DONE, output=output), **fields)

    def failed(self, claim: Claim, reason: str = "it broke") -> End:
        """An end: failed for good."""
        return End(claim=claim, result=self.result(claim, Verdict.FAILED, reason=reason), action="failed_task")

    def result(self, claim: Claim, verdict: Verdict, **fields: Any) -> Result:
        """A result as the queue makes them."""
        return Result(id=claim.task.id, verdict=verdict, worker=claim.fence, attempt=claim.attempt, **fields)

    def attempt(self, claim: Claim, error: str = "it broke") -> Try:
        """A try that spent an attempt."""
        return Try(at=float(int(self.clock.now())), worker=claim.fence, kind="task", error=error, mark=error)

    def finish(self, end: End) -> Said:
        """How this end was taken."""
        return self.store.finish([end])[0]

    def give_back(self, lapse: Lapse) -> Said:
        """What a keeper does with a lapsed claim."""
        lost = Try(at=0.0, worker=lapse.claim.fence, kind="lost", error=lapse.reason, counted=False)
        return self.finish(End(claim=lapse.claim, attempt=lost, action="recovered_task", details=lapse.reason))

    def card(self, task_id: str) -> Card:
        """The card of a task that is there."""
        card = self.store.read([task_id])[0]
        assert card is not None
        return card

    def state(self, task_id: str) -> State:
        """Where a task is."""
        return self.card(task_id).state

    def actions(self, task_id: str) -> list[str]:
        """What the changelog tells of a task, in the words of plain tasks."""
        return [event.did for event in self.store.events()[0] if event.about == task_id]

    def finished(self, number: int, **fields: Any) -> Task:
        """A task that is done."""
        task = self.task(number, **fields)
        self.put(task)
        assert self.finish(self.done(self.take(ids=(task.id,)))) is Said.OK
        return task

    def broken(self, number: int, **fields: Any) -> Task:
        """A task that has failed."""
        task = self.task(number, **fields)
        self.put(task)
        assert self.finish(self.failed(self.take(ids=(task.id,)))) is Said.OK
        return task
