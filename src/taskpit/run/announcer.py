"""Show claims and ends in an order that a person understands, whatever the order in which threads report them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskpit.model import Claim
    from taskpit.run.attempt import ClaimEnd
    from taskpit.run.pool_options import Show

#: Words of ends after which the task goes on: it is landed, or judged once more.
GOES_ON = ("handed in", "approved")


class Announcer:
    """Shows a claim after the end of what it needed, and after the end of an earlier claim of the same task.

    A task that another slot has just finished may be needed, claimed and begun before that slot's end is shown.
    """

    def __init__(self, show: Show) -> None:
        self.show = show
        #: Tasks of ours whose end was not shown yet, and those that the lander has taken.
        self._going: set[str] = set()
        self.landing: Callable[[], Collection[str]] = frozenset
        #: What each worker does whose end was not shown yet.
        self.doing: dict[str, str] = {}
        self._waiting: list[Claim] = []
        self._said = ""

    def begun(self, worker: str, claim: Claim) -> None:
        """Show that a worker begins a task, now or later."""
        self.doing[worker] = claim.task.id
        self._waiting.append(claim)
        self._show()
        self._going.add(claim.task.id)
        self._said = ""

    def ended(self, worker: str, end: ClaimEnd) -> None:
        """Show the end of a claim; `worker` is empty for one of the lander's."""
        if worker:
            del self.doing[worker]
        if end.claim in self._waiting:
            self._waiting.remove(end.claim)
            self.show.claimed(end.claim)
        self.show.over(end)
        if end.word not in GOES_ON:
            self._going.discard(end.claim.task.id)
        self._show()

    def _show(self) -> None:
        """Show the claims that nothing keeps back any more."""
        if not self._waiting:
            return
        others = [*self.doing.items(), *(("", task_id) for task_id in list(self.landing()))]
        for claim in list(self._waiting):
            needs_ours = not self._going.isdisjoint(claim.task.needs)
            again = any(task_id == claim.task.id and worker != claim.worker for worker, task_id in others)
            if not needs_ours and not again:
                self._waiting.remove(claim)
                self.show.claimed(claim)

    def once(self, sentence: str) -> None:
        """Say why nothing is claimed, once, until something begins."""
        if sentence and sentence != self._said:
            self.show.say(sentence)
            self._said = sentence
