"""Every queue of this user on one screen: what needs the user and what runs. Enter opens the board of one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from taskpit.board import Slip
from taskpit.history import who
from taskpit.run.user_queues import Glance, Queues
from taskpit.status import STATUSES, counted
from taskpit.tui.drawing import HEAD, ThemedApp, cut

#: Seconds between two looks, and so many tasks of a queue that need a person, or run, are shown.
PACE, SHOWN = 2.0, 6


def block(one: Glance, room: int) -> Content:
    """One queue in a few lines."""
    counts = [(f"  {counted(name, one.counts[name])}", HEAD[name]) for name in STATUSES if one.counts[name]]
    cost = f"  ${one.usd:.2f} in 24 hours" if one.usd else ""
    lines = [Content.assemble((one.name, "bold"), *counts, (cost, "$muted"))]
    lines += [Content.styled(f"  {cut(text, room)}", "$warning") for text in (one.trouble, *one.notices) if text]
    for slips, style in ((one.needs_you, "$warning"), (one.running, "$primary")):
        lines += [_line(slip, room, style) for slip in slips[:SHOWN]]
        lines += [Content.styled(f"  … and {len(slips) - SHOWN} more", "$muted")] if len(slips) > SHOWN else []
    return Content("\n").join([*lines, Content.styled(f"  {cut(one.path, room)}", "$muted"), Content("")])


def _line(slip: Slip, room: int, style: str) -> Content:
    why = slip.question or slip.held or who(slip.worker)
    title = cut(slip.title, max(room // 2, 20))
    return Content.assemble(
        (f"  {slip.id}  ", "bold"), title, (f"  {cut(why, room - len(slip.id) - len(title) - 4)}", style)
    )


class AllQueues(ThemedApp[str]):
    """What is shown over all of them; the path of the one that was opened comes back."""

    BINDINGS = [
        Binding("j", "step(1)", show=False),
        Binding("k", "step(-1)", show=False),
        Binding("t", "theme", show=False),
        Binding("q", "quit", show=False),
        Binding("escape", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(
        self, queues: Queues, picked: str = "", trouble: str = "", *, pace: float = PACE, light: bool = False
    ) -> None:
        super().__init__(light=light)
        self._queues, self._picked, self._pace = queues, picked, pace
        #: Why the one that was picked could not be opened.
        self._trouble = trouble
        self._found: list[Glance] = []

    def compose(self) -> ComposeResult:
        """A bar, the queues, the keys."""
        with Horizontal(id="bar"):
            yield Static(Content.styled("pit ", "bold") + "all queues", id="where", markup=False)
            yield Static("reading …", id="told", markup=False)
        yield OptionList(id="queues", markup=False)
        yield Static(" enter opens its board   t light or dark   q quit", id="keys", markup=False)

    def on_mount(self) -> None:
        """The first look."""
        self.query_one(OptionList).focus()
        if self._trouble:
            self.notify(self._trouble, severity="error", markup=False, timeout=8)
        self.run_worker(self._follow(), group="follow")

    async def _follow(self) -> None:
        await self.catch_up()
        while self._pace:
            await asyncio.sleep(self._pace)
            await self.catch_up()

    async def catch_up(self) -> None:
        """All queues as they stand now."""
        found = await asyncio.to_thread(self._queues.look)
        if found != self._found or not found:
            self._show(found)

    def _show(self, found: Sequence[Glance]) -> None:
        options = self.query_one(OptionList)
        at = options.highlighted
        picked = self._found[at].path if at is not None and at < len(self._found) else self._picked
        self._found = list(found)
        room = max(self.size.width - 4, 20)
        options.set_options([Option(block(one, room)) for one in found])
        options.highlighted = next((n for n, one in enumerate(found) if one.path == picked), 0 if found else None)
        needs, running = (sum(one.counts[name] for one in found) for name in ("needs_you", "running"))
        usd = sum(one.usd for one in found)
        lines = [f"{needs} need{'s' * (needs == 1)} you" if needs else "", f"{running} running" if running else ""]
        lines += [f"${usd:.2f} in 24 hours"] if usd else []
        none = "There is no queue that you made or trusted on this machine."
        self.query_one("#told", Static).update("  ".join(filter(None, lines)) if found else none)

    def on_resize(self) -> None:
        """There is more room, or less."""
        if self._found:
            self._show(self._found)

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """This one is opened."""
        self.exit(self._found[message.option_index].path)

    def action_step(self, step: int) -> None:
        """The one below, or above."""
        options = self.query_one(OptionList)
        options.action_cursor_down() if step > 0 else options.action_cursor_up()
