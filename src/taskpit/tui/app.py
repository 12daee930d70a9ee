"""The screen of `pit board` with all its keys: each change goes through the desk, errors are shown in a corner."""

from __future__ import annotations

import asyncio

from textual.app import SuspendNotSupported
from textual.binding import Binding

from taskpit.errors import TaskpitError
from taskpit.status import LABELS, STATUSES
from taskpit.tui import task_keys
from taskpit.tui.dialogs import AddForm, Ask
from taskpit.tui.review import MOST, Verdict
from taskpit.tui.search_screen import Seeking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.task import Task

__all__ = ["PitBoard"]


def _refusal(act: task_keys.Act) -> str:
    """What a key is for, where it does nothing."""
    if act.action.asks == "question":
        return f"{act.name} is for tasks that ask something"
    stands = " or ".join(LABELS[status].lower() for status in STATUSES if status in act.action.stands)
    return f"{act.name} is for {'your own claims' if act.action.own else f'tasks that are: {stands}'}"


class PitBoard(Seeking):
    """The board of one queue, and what people do with it."""

    BINDINGS = [
        *(Binding(act.key, f"act('{act.name}')", show=False) for act in task_keys.ACTS),
        Binding("v", "review", show=False),
        Binding("n", "add", show=False),
        Binding("e", "edit", show=False),
        Binding("p", "pause", show=False),
        Binding("z", "undo", show=False),
    ]

    def action_act(self, name: str) -> None:
        """Do it to the task that is picked, after asking what is to be asked."""
        act, slip = task_keys.find(name), self.slip
        if slip is None or not act.fits(slip, self.desk.worker):
            self.notify(_refusal(act), severity="warning", markup=False)
            return
        task_id = slip.id

        def go_on(text: str | None) -> None:
            if text is not None:
                self._do(lambda: self.desk.act(act, task_id, text))

        if not act.asks or self.desk.read_only:  # refused at once, not after an answer was written
            go_on("")
            return
        about = f"{task_id}  {slip.title}"
        question = slip.question if act.action.asks == "question" else act.asks
        self.push_screen(Ask(about, question, silent=act.silent), go_on)

    def action_review(self) -> None:
        """The change of the task that is picked, and a person's word on it."""
        slip = self.slip
        if slip is None or slip.asks != "review":
            self.notify("v is for tasks that wait for review", severity="warning", markup=False)
            return
        self.begin(lambda: self._review(slip.id), "act")

    async def _review(self, task_id: str) -> None:
        try:
            handed, parts = await asyncio.to_thread(self.desk.change, task_id, MOST)
        except (TaskpitError, OSError) as error:
            self.complain(error)
            return

        def go_on(word: tuple[str, str] | None) -> None:
            if word is not None:
                self._do(lambda: self.desk.act(task_keys.find(word[0]), task_id, word[1]))

        self.push_screen(Verdict(handed, parts, read_only=self.desk.read_only), go_on)

    def action_add(self) -> None:
        """A form, then a task."""

        def go_on(task: Task | list[str] | None) -> None:
            if task is not None:
                self._do(lambda: f"{self.desk.add(task)} is in the queue")

        if self.desk.read_only:
            self._do(lambda: self.desk.pause(""))  # refuses, and says why
            return
        self.push_screen(AddForm(self.desk.templates()), go_on)

    def action_pause(self) -> None:
        """Pause the queue after asking why; a paused one goes on."""
        if self.desk.read_only or (self.view is not None and self.view.paused):
            self._do(lambda: self.desk.pause(""))
            return

        def go_on(text: str | None) -> None:
            if text is not None:
                self._do(lambda: self.desk.pause(text))

        self.push_screen(Ask("Give out no task; running tasks go on", "Why?", silent=True), go_on)

    def action_undo(self) -> None:
        """Take back what the person did last."""
        self._do(self.desk.undo)

    def action_edit(self) -> None:
        """The task in the person's own editor, which has the terminal meanwhile."""
        slip = self.slip
        if slip is None:
            return
        told, trouble = "", None
        try:
            with self.suspend():
                try:
                    told = self.desk.edit(slip.id)
                except (TaskpitError, OSError) as error:
                    trouble = error
        except SuspendNotSupported:
            told = "this terminal cannot be lent to an editor: use `pit edit`"
        if trouble is not None:
            self.complain(trouble)
        else:
            self.notify(told, markup=False)
        self.begin(self.catch_up, "follow")

    def _do(self, act: Callable[[], str]) -> None:
        self.begin(lambda: self._done(act), "act")

    async def _done(self, act: Callable[[], str]) -> None:
        """Do it, say how it went, and show what has become of it."""
        try:
            told = await asyncio.to_thread(act)
        except (TaskpitError, OSError) as error:
            self.complain(error)
        else:
            self.notify(told, markup=False, timeout=3)
        await self.catch_up()
