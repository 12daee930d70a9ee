"""What a pool is told, what it reports, and who may watch it. Values and one protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from taskpit.records import Value

if TYPE_CHECKING:
    from taskpit.errors import TaskpitError
    from taskpit.landing.pipe import Pipe
    from taskpit.store.port import Mend
    from taskpit.task import Claim
    from taskpit.worker.budget import Limit
    from taskpit.worker.remaining import Survey
    from taskpit.worker.runner import Run
    from taskpit.worker.sandbox import Sandbox
    from taskpit.worker.slot import Over

__all__ = ["Orders", "Report", "Show"]


class Orders(Value):
    """What a pool is told to do."""

    #: How many work on tasks at once; none in a pool that only reviews.
    slots: int = 1
    #: Workers are called this, a dash, and a number nobody has.
    name: str = "snake"
    #: The one worker is called just this; Lost if somebody living is.
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
    budget: tuple[Limit, ...] = ()
    #: How long a check may run, and whether it must be red before the work.
    check_limit: float = 600.0
    red_first: bool = False
    #: No further task is begun while this many changes wait for a person's look, 0: no limit.
    review_limit: int = 0
    #: Gives tasks that land clones of their own, and lands them; None: there is no repository.
    landing: Pipe | None = None


class Report(Value):
    """What a pool has done."""

    #: How often each word of `Over` was heard.
    tally: dict[str, int]
    seconds: float
    #: How many tasks it began; those that are in no tally were handed in and wait.
    started: int = 0
    #: The signal that ended it, 0: none.
    signal: int = 0
    error: TaskpitError | None = None


class Show(Protocol):
    """Whoever watches a pool; called in the dispatcher's thread only."""

    #: Seconds between looks, 0: only when something has happened.
    period: float

    def claimed(self, claim: Claim) -> None:
        """A task begins."""

    def over(self, over: Over) -> None:
        """A task's claim has ended."""

    def mended(self, mend: Mend) -> None:
        """The keeper has done something."""

    def say(self, text: str) -> None:
        """Something a person should know."""

    def look(self, runs: dict[str, Run], survey: Survey | None) -> None:
        """How things stand, by worker."""
