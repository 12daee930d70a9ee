"""The keys by which a person acts on a task: a key, a word, what it asks before. What they do is in `actions`."""

from __future__ import annotations

from taskpit.actions import ACTIONS
from taskpit.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.actions import Action
    from taskpit.board import Slip

__all__ = ["ACTS", "VERDICTS", "Act", "find"]


class Act(Value):
    """One key."""

    #: What it does, by its name in `actions`.
    name: str
    key: str
    #: What the bottom line calls it; empty: it stands beside another one.
    word: str
    #: What is asked before; nothing is done without an answer, which may be empty if `silent`.
    asks: str = ""
    silent: bool = False

    @property
    def action(self) -> Action:
        """What it does."""
        return ACTIONS[self.name]

    def fits(self, slip: Slip | None, worker: str) -> bool:
        """Whether this worker can do it to this one."""
        return slip is not None and self.action.fits(slip.column, slip.asks, own=slip.worker == worker)


ACTS = (
    Act(name="answer", key="a", word="answer", asks="Your answer"),
    Act(name="unblock", key="u", word="unblock"),
    Act(name="retry", key="r", word="retry"),
    Act(name="block", key="b", word="block", asks="Why is it blocked?"),
    Act(name="release", key="g", word="give back"),
    Act(name="raise", key="plus", word="priority"),
    Act(name="lower", key="minus", word=""),
    Act(
        name="cancel",
        key="x",
        word="cancel",
        asks="It will not be done. Why? (Enter cancels it, also without a reason)",
        silent=True,
    ),
    Act(name="note", key="m", word="note", asks="Your note"),
)
#: The keys below a change that waits for review.
VERDICTS = (
    Act(
        name="approve",
        key="a",
        word="approve",
        asks="It is checked once more and lands. Enter approves it",
        silent=True,
    ),
    Act(name="send_back", key="s", word="send back", asks="What should be different? FILE:LINE: TEXT is about a line"),
    Act(name="take_over", key="o", word="take over"),
)


def find(name: str) -> Act:
    """The key of this name."""
    return next(act for act in (*ACTS, *VERDICTS) if act.name == name)
