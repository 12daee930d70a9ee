"""The change that a task's agent made, as its page shows it. Reads, changes nothing; knows no request."""

from __future__ import annotations

from taskpit.errors import TaskpitError
from taskpit.landing import review
from taskpit.landing.diff import FilePart, read_hunks
from taskpit.landing.values import CANDIDATE, HandIn
from taskpit.policy import REVIEW
from taskpit.records import Value
from taskpit.task import State
from taskpit.web.highlight import coloured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from markupsafe import Markup

    from taskpit.queue import Queue
    from taskpit.task import Card

__all__ = ["Shown", "change_of"]

#: So many rows of a diff are on a page.
MOST = 3000


class Shown(Value):
    """A candidate on a page."""

    #: Its whole name; empty if it cannot be shown, and then why.
    commit: str = ""
    trouble: str = ""
    #: Whether it waits for a person's word here.
    waits: bool = False
    #: What was handed in with it; a change that has landed has its result instead.
    handed: HandIn | None = None
    parts: tuple[tuple[FilePart, list[Markup]], ...] = ()

    @property
    def added(self) -> int:
        """Lines that are new."""
        return sum(part.added for part, _ in self.parts)

    @property
    def removed(self) -> int:
        """Lines that are gone."""
        return sum(part.removed for part, _ in self.parts)


def change_of(queue: Queue, card: Card) -> Shown | None:
    """What its agent changed, while that waits and once it has landed; None if there is nothing of the kind."""
    waits = CANDIDATE in card.task.extra and card.state is State.READY
    landed = card.state is State.DONE and card.result is not None and card.result.reason.startswith("landed on ")
    if not waits and not landed:
        return None
    handed = None
    try:
        if waits:
            pipe, handed = review.find(queue, card.task.id)
            base, commit = handed.base, handed.commit
        else:
            pipe, base, commit = review.candidate(queue, card.task.id)
        parts = read_hunks(review.diff(pipe, base, commit), MOST)
    except (TaskpitError, OSError) as error:
        return Shown(trouble=str(error)) if waits else None
    asked = card.task.hold.startswith(REVIEW)
    return Shown(commit=commit, waits=asked, handed=handed, parts=tuple((part, coloured(part)) for part in parts))
