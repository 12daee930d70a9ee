"""Workers of one kind: their names, which of them are idle, what they run, and the next task for one of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from taskpit.errors import TaskpitError
from taskpit.model import State, Task, Want
from taskpit.policy import SPARE
from taskpit.queue import cards
from taskpit.rules import suits
from taskpit.run.agent_limits import Gate, Pass, gate_for
from taskpit.run.attempt import Step
from taskpit.run.review_thread import Reviews
from taskpit.run.steps import WORK, review_steps

if TYPE_CHECKING:
    from taskpit.model import Claim
    from taskpit.queue import Queue
    from taskpit.run.pool_options import PoolOptions
    from taskpit.run.runner import Runner

#: The name of a pool's own reviewer, with a number.
REVIEWER = "reviewer"


class Bench:
    """Workers that take tasks from the queue."""

    steps: Sequence[Step] = WORK

    def __init__(self, queue: Queue, runner: Runner, options: PoolOptions, gate: Gate | None = None) -> None:
        self.queue = queue
        self.runner = runner
        self.options = options
        self.lease = options.lease or queue.config.lease
        self.gate = gate or gate_for(queue, runner)
        self.idle: list[str] = []
        #: Tasks that wait for nothing but a worker of this kind.
        self.known: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of these workers, before their number."""
        return self.options.name

    @property
    def count(self) -> int:
        """How many there are."""
        return self.options.slots

    def enter(self) -> Pass | None:
        """Return a place on the backend; None if it is full or rests."""
        return self.gate.enter()

    def claim(self, worker: str) -> Claim | None:
        """Claim the next task for this worker; None if there is none."""
        tags, big, ids = self.options.tags, self.options.big, self._declared()
        if ids is not None and not ids:
            return None
        claims = self.queue.claim(worker, tags=tags, big=big, lease=self.lease, ids=ids or ())
        return claims[0] if claims else None

    def _declared(self) -> tuple[str, ...] | None:
        """Ids of ready tasks that declare the paths they touch; None where every task may be claimed."""
        if not self.options.declared_only:
            return None
        want, ready = self._want, cards(self.queue.store, State.READY, tied=True)
        return tuple(card.task.id for card in ready if card.task.touches and not card.held and suits(card.task, want))

    @property
    def _want(self) -> Want:
        return Want(worker=self.name, lease=self.lease, tags=self.options.tags, big=self.options.big)

    def free_a_spare(self) -> bool:
        """Make a spare task an ordinary one if quota would be lost otherwise; whether there was one."""
        why = self.gate.is_lost_soon()
        if not why or self.queue.store.paused():
            return False
        for card in cards(self.queue.store, State.READY, tied=True):
            if card.task.hold == SPARE and suits(card.task, self._want):
                with suppress(TaskpitError):  # another pool was faster: there may be more
                    self.queue.edit(card.task.id, self.name, _freed, "unblocked", why)
                    return True
        return False


class ReviewBench(Bench):
    """The one reviewer of a pool, which judges changes and takes no tasks."""

    def __init__(self, queue: Queue, runner: Runner, options: PoolOptions, reviews: Reviews) -> None:
        super().__init__(queue, runner, options, reviews.gate)
        self._reviews = reviews
        self.steps = review_steps(reviews)

    @property
    def name(self) -> str:
        """The reviewer's name."""
        return REVIEWER if not self.options.exact else self.options.name

    @property
    def count(self) -> int:
        """How many there are."""
        return 1

    def claim(self, worker: str) -> Claim | None:
        """Claim a change to judge; None if none waits for this reviewer."""
        claim = self._reviews.take(worker, self.lease)
        self.known = self._reviews.known
        return claim

    def free_a_spare(self) -> bool:
        """Return False: a reviewer takes no tasks."""
        return False


def _freed(task: Task) -> Task:
    """Free a spare task; one that a person changed in the meantime stays as it is."""
    return task.replace(hold="") if task.hold == SPARE else task
