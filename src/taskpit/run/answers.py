"""What people have answered to a task's questions, as the changelog tells: a task's text may be anybody's."""

from __future__ import annotations

from taskpit.errors import TaskpitError
from taskpit.events import new_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.model import Task
    from taskpit.store.port import Looking

#: Before any answer stands its question in the text: where none does, nothing was answered.
SIGN = "**Question:**"


def answers(store: Looking, task: Task) -> dict[str, str]:
    """By question; the last word counts. What another queue brought was answered there, and counts for nothing here.

    Where the changelog cannot be read, nothing was answered: it is asked again.
    """
    if SIGN not in task.body:
        return {}
    try:
        events, _ = new_events(store, "", lambda event: event.about == task.id or event.action == "transferred_events")
    except TaskpitError:
        return {}
    found: dict[str, str] = {}
    question = ""
    for event in events:
        if event.action == "transferred_events":
            found, question = {}, ""
        elif event.did == "asked":
            question = event.details.strip()
        elif event.did == "answered" and question:
            found[question], question = event.details.strip(), ""
    return found
