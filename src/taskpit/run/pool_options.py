"""What a pool is to do, what is left for it, what it reports, and how it can be watched. Values."""

from __future__ import annotations

from taskpit.model import State, Value, Want
from taskpit.queue import cards
from taskpit.rules import suits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from taskpit.errors import TaskpitError
    from taskpit.landing.pipe import LandingPipe
    from taskpit.model import Card, Claim, Task
    from taskpit.queue import Queue
    from taskpit.run.attempt import ClaimEnd
    from taskpit.run.budget import BudgetLimit
    from taskpit.run.runner import Run
    from taskpit.run.sandbox import Sandbox
    from taskpit.store.port import Mend

# -- how things stand ------------------------------------------------------------------------------


class Survey(Value, frozen=True, kw_only=True):
    """A look at the whole queue."""

    done: int
    failed: int
    claimed: int
    #: May be taken now.
    ready: int
    #: May not be taken yet.
    held: int
    #: Ready or held, ours to take, and nothing but time and other tasks stands in the way.
    coming: int


def survey(
    queue: Queue,
    tags: Sequence[str] = (),
    big: bool | None = None,
    landing: Collection[str] = frozenset(),
    *,
    declared_only: bool = False,
) -> Survey:
    """Count; with `tags`, only tasks with one of them are ours to take, with `big` only such.

    With `declared_only`, only tasks that declare the paths they touch are ours. Those in `landing` wait for nothing
    but a lander of ours.
    """
    store = queue.store
    counts = store.counts()
    everything = bool(tags) or big is not None or declared_only  # otherwise what nothing can hold need only be counted
    ready = {card.task.id: card for card in cards(store, State.READY, tied=not everything)}
    free = 0 if everything else max(counts[State.READY] - len(ready), 0)
    want = Want(worker="", lease=0.0, tags=tuple(tags), big=big)
    soon = queue.clock.now() + queue.config.backoff_longest
    ours = [
        card.task
        for card in ready.values()
        if card.task.id in landing
        or (not _stuck(card, soon) and suits(card.task, want) and (card.task.touches or not declared_only))
    ]
    outside = sorted({need for task in ours for need in task.needs if need not in ready})
    going = {need for need, card in zip(outside, store.read(outside), strict=True) if card and _goes(card)}
    held = sum(1 for card in ready.values() if card.held)
    return Survey(
        done=counts[State.DONE],
        failed=counts[State.FAILED],
        claimed=counts[State.CLAIMED],
        ready=len(ready) + free - held,
        held=held,
        coming=len(_coming(ours, going)) + free,
    )


def _goes(card: Card) -> bool:
    """Whether a needed task can still be done, or is; a ready one that was not looked at has nothing to wait for."""
    return card.state in (State.DONE, State.CLAIMED) or (card.state is State.READY and not card.held)


def _coming(tasks: Sequence[Task], going: set[str]) -> set[str]:
    """Ids of tasks whose needs are met, or will be by others of these; those in a circle never are."""
    found: set[str] = set()
    while True:
        more = {task.id for task in tasks if task.id not in found and found | going >= set(task.needs)}
        if not more:
            return found
        found |= more


def _stuck(card: Card, soon: float) -> bool:
    """Held by a person, unreadable, a schedule, or put off for longer than any pause between attempts."""
    task = card.task
    waits = task.needs or task.not_before or task.touches or task.limits
    unreadable = bool(card.held) and not waits
    return bool(task.hold) or unreadable or task.not_before > soon or "every" in task.extra


# -- what a pool is told ---------------------------------------------------------------------------


class PoolOptions(Value, frozen=True, kw_only=True):
    """What a pool is told to do."""

    #: How many work on tasks at once; none in a pool that only reviews.
    slots: int = 1
    #: Workers are called this, a dash, and a number nobody has.
    name: str = "worker"
    #: The one worker is called just this; Lost if a living worker is.
    exact: bool = False
    tags: tuple[str, ...] = ()
    #: Big tasks are for planners, who want nothing else; None takes both.
    big: bool | None = False
    #: Seconds a claim lasts unless renewed, 0: as the queue has it.
    lease: float = 0.0
    #: Claims made before it ends, 0: no limit.
    max_tasks: int = 0
    #: End once nothing is left that could come by itself.
    until_empty: bool = False
    #: Claim nothing from this time on, in unix seconds, 0: no such time.
    until: float = 0.0
    #: Only tasks that declare the paths they touch: agents share one checkout.
    declared_only: bool = False
    #: Only tasks whose check is like one of these are run; empty allows all.
    allow_checks: tuple[str, ...] = ()
    #: Where the tasks' checks are run, None: not at all.
    check_in: str | None = None
    #: Patterns of variables that set-ups and checks may see beside those that every program needs: where an agent
    #: has worked, they run what it wrote.
    env: tuple[str, ...] = ("*",)
    #: How far commands and checks reach; None: as far as we do.
    sandbox: Sandbox | None = None
    #: What work may cost.
    budget: tuple[BudgetLimit, ...] = ()
    #: Whether a check must be red before the work.
    red_first: bool = False
    #: No further task is begun while this many changes wait for a person's look, 0: no limit.
    review_limit: int = 0
    #: Gives tasks that land clones of their own, and lands them; None: there is no repository.
    landing: LandingPipe | None = None


class PoolReport(Value, frozen=True, kw_only=True):
    """What a pool has done."""

    #: How often each word of `ClaimEnd` was heard.
    tally: dict[str, int]
    seconds: float
    #: How many tasks it began; those that are in no tally were handed in and wait.
    started: int = 0
    #: The signal that ended it, 0: none.
    signal: int = 0
    error: TaskpitError | None = None


class Show:
    """What a pool tells while it works, one thread at a time. This one shows nothing."""

    #: Seconds between looks, 0: only when something has happened.
    period = 0.0

    def claimed(self, claim: Claim) -> None:
        """A task begins."""

    def over(self, over: ClaimEnd) -> None:
        """A task's claim has ended."""

    def mended(self, mend: Mend) -> None:
        """The keeper has done something."""

    def say(self, text: str) -> None:
        """Something a person should know."""

    def look(self, runs: dict[str, Run], survey: Survey | None) -> None:
        """How things stand, by worker."""

    def close(self) -> None:
        """The pool has ended."""
