"""The screen of `pit board`: what is where, live; filter and search; and the keys by which a person changes it.

All it knows of the queue it asks the desk for, each change goes through it, and errors are shown in a corner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from textual import events
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Input, Label, Static

from taskpit.board import COLUMNS, Slip
from taskpit.crew.log_tail import Tail
from taskpit.errors import TaskpitError
from taskpit.model import Card
from taskpit.search import Hit
from taskpit.status import LABELS, STATUSES
from taskpit.text import plain
from taskpit.tui import drawing, keys
from taskpit.tui.column import Column, shared
from taskpit.tui.dialogs import MOST, AddForm, AskDialog, Find, Help, VerdictDialog
from taskpit.tui.drawing import T, ThemedApp
from taskpit.tui.panel import TABS, Panel
from taskpit.tui.queue_access import BoardView, QueueAccess

#: How often the board follows the queue, in seconds.
PACE = 0.25
#: After so many looks it is seen whether ages must be drawn again, and the crew is asked.
AGES, CREW = 4, 8
#: Below this width there is one column at a time.
NARROW = 100
#: Columns that are shown also when they are empty.
ALWAYS = ("ready", "running", "done")
#: Below this height there is no panel beside the columns.
LOW = 22
#: So many hits of a search are shown.
HITS = 100


def _refusal(act: keys.Act) -> str:
    """What a key is for, where it does nothing."""
    if act.action.asks == "question":
        return f"{act.name} is for tasks that ask something"
    stands = " or ".join(LABELS[status].lower() for status in STATUSES if status in act.action.stands)
    return f"{act.name} is for {'your own claims' if act.action.own else f'tasks that are: {stands}'}"


class PitBoard(ThemedApp[None]):
    """The board of one queue, and what people do with it."""

    BINDINGS = [
        *(Binding(key, f"tab('{tab}')", show=False) for key, tab in TABS.items()),
        *(Binding(str(number), f"column('{name}')", show=False) for number, name in enumerate(COLUMNS, 1)),
        Binding("left", "step(-1)", show=False),
        Binding("right", "step(1)", show=False),
        Binding("enter", "read", show=False),
        Binding("escape", "out", show=False),
        Binding("slash", "filter", show=False),
        Binding("f", "find", show=False),
        Binding("y", "copy", show=False),
        *(Binding(act.key, f"act('{act.name}')", show=False) for act in keys.ACTS),
        Binding("v", "review", show=False),
        Binding("n", "add", show=False),
        Binding("e", "edit", show=False),
        Binding("p", "pause", show=False),
        Binding("z", "undo", show=False),
        Binding("t", "theme", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, desk: QueueAccess, *, pace: float = PACE, light: bool = False) -> None:
        super().__init__(light=light)
        self.desk = desk
        self.view: BoardView | None = None
        self._pace = pace
        self._words: tuple[str, ...] = ()
        self._current = ALWAYS[0]
        self._looks = 0
        self._trouble = ""
        self._tail = Tail("")
        self._said: dict[str, object] = {}
        self._card: Card | None = None

    # -- the screen --------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """A bar, the heads of the columns, the columns, the panel, the keys."""
        with Horizontal(id="bar"):
            yield Static(id="where", markup=False)
            yield Static(id="told", markup=False)
        with Horizontal(id="heads"):
            for name in COLUMNS:
                yield Static(classes=f"head {name}", id=f"head-{name}", markup=False)
        with Horizontal(id="columns"):
            for name in COLUMNS:
                yield Column(name, self.desk.now, "Reading …")
        yield Panel()
        with Horizontal(id="filter"):
            yield Label("/", markup=False)
            yield Input(placeholder="words, or #tag", compact=True, id="words")
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Where keys go."""
        self.column(self._current).focus()
        self._say_bar("reading …")

    def on_ready(self) -> None:
        """Everything that can be filled is there: begin to read."""
        self.begin(self.load, "follow")

    def on_resize(self, event: events.Resize) -> None:
        """There is more room, or less."""
        self.screen.set_class(event.size.width < NARROW, "-narrow")
        self.screen.set_class(event.size.height < LOW, "-low")
        self.call_after_refresh(self._say_heads)
        self.call_after_refresh(self._say_keys)

    def column(self, name: str) -> Column:
        """The column of this name."""
        return self._base.query_one(f"#{name}", Column)

    @property
    def _base(self) -> Screen[Any]:
        """The screen that has the board, also while something is asked on top of it."""
        return self.screen_stack[0]

    @property
    def panel(self) -> Panel:
        """What is below the columns."""
        return self._base.query_one(Panel)

    @property
    def slip(self) -> Slip | None:
        """What keys act on."""
        return self.column(self._current).picked

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]], group: str, *, exclusive: bool = False) -> None:
        """Do this while the screen goes on; of an exclusive group only the last that was begun."""

        async def unless_gone() -> None:
            try:
                await work()
            except NoMatches:  # the person left while it was under way: there is nothing to show it on
                if self.is_running and not self._exit:
                    raise

        begun: Any = unless_gone  # a coroutine only once it runs: what is overtaken leaves nothing behind
        self.run_worker(begun, group=group, exclusive=exclusive)

    # -- following ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """All is read; then the board is followed."""
        loop = asyncio.get_running_loop()

        def progress(count: int) -> None:
            loop.call_soon_threadsafe(self._say_bar, f"reading … {count:,}")

        await self._ask(lambda: self.desk.load(progress))
        first = next((name for name in COLUMNS if self.column(name).slips), ALWAYS[0])
        self.action_column(first)
        self._read_card()
        while self._pace:
            await asyncio.sleep(self._pace)
            await self.catch_up()

    async def catch_up(self) -> None:
        """What is new is shown."""
        self._looks += 1
        await self._ask(self.desk.follow)
        if self._looks % AGES == 0:
            for name in COLUMNS:
                self.column(name).grow_older()
        if self.panel.shows("log"):
            self.panel.add_log(await asyncio.to_thread(self._tail.more))
        if self.panel.shows("crew") and self._looks % CREW == 1:
            await self._show_crew()

    async def _ask(self, look: Callable[[], BoardView]) -> None:
        """Show what the desk says; what it cannot read now it may read later."""
        try:
            view = await asyncio.to_thread(look)
        except (TaskpitError, OSError) as error:
            self._trouble = f"cannot be read: {error}"
            self._say_bar()
            return
        self._trouble = ""
        self._apply(view)

    def _apply(self, view: BoardView) -> None:
        before, self.view = self.view, view
        for name in COLUMNS:
            if before is None or view.columns[name] is not before.columns[name]:
                self._lay(name)
        self.panel.add_events(view.events)
        if before is None or view.change or view.paused != before.paused:
            self._say_bar()
            self._say_heads()
            changed = view.change.ids | {event.about for event in view.change.events}  # what no slip shows changes too
            if self.slip is not None and (view.change.anew or self.slip.id in changed):
                self._read_card()

    def _lay(self, name: str) -> None:
        if self.view is None:
            return
        slips = self.view.columns[name]
        if self._words:
            slips = [slip for slip in slips if slip.mentions(self._words)]
        self.column(name).show(slips, "No matching tasks." if self._words else drawing.EMPTY[name])

    # -- what is said in one line ------------------------------------------------------------------

    def _say_bar(self, text: str = "") -> None:
        self._say("where", drawing.place(self.desk.where, read_only=self.desk.read_only))
        self._say("told", drawing.news(self.view, self._trouble, text), layout=True)

    def _say(self, place: str, content: Content, *, layout: bool = False) -> None:
        """This is said there; what is said already costs nothing."""
        if self._said.get(place) != (content.plain, content.spans):
            self._said[place] = (content.plain, content.spans)
            self._base.query_one(f"#{place}", Static).update(content, layout=layout)

    def _shown(self) -> list[str]:
        """The columns that are shown: those with tasks, and those that a queue always has."""
        counts = self.view.counts if self.view else {}
        return [name for name in COLUMNS if name in ALWAYS or name == self._current or counts.get(name)]

    def _say_heads(self) -> None:
        there = self._shown()
        shares = shared({name: self.column(name).wish for name in there}, self._current, self.size.width)
        for name in COLUMNS:
            for part in (self.column(name), self._base.query_one(f"#head-{name}")):
                part.set_class(name not in there, "-empty")
                part.styles.width = None if self._base.has_class("-narrow") else f"{shares.get(name, 1.0):.1f}fr"
            shown = len(self.column(name).slips) if self._words else None
            count = self.view.counts[name] if self.view else 0
            self._say(f"head-{name}", drawing.head(name, count, shown))
            self._base.query_one(f"#head-{name}").set_class(name == self._current, "-current")

    def _say_keys(self) -> None:
        reading = self._base.has_class("-reading")
        worker = "" if self.desk.read_only else self.desk.worker
        line = keys.bottom(self.slip, self.size.width, worker, reading=reading)
        self._say("keys", line)

    # -- the task that is picked -------------------------------------------------------------------

    def on_column_picked(self, message: Column.Picked) -> None:
        """Keys act on another one."""
        if message.column.has_focus:
            self._current = message.column.title
            for name in COLUMNS:
                self.column(name).set_class(name == self._current, "-current")
            self._say_heads()
        if message.column.title == self._current:
            self._say_keys()
            self._read_card()

    def _read_card(self) -> None:
        self.begin(self._show_card, "detail", exclusive=True)

    async def _show_card(self) -> None:
        slip = self.slip
        try:
            card = await asyncio.to_thread(self.desk.card, slip.id) if slip else None
        except (TaskpitError, OSError) as error:
            self.panel.detail.say(f"It cannot be read: {error}")
            return
        fresh = card is None or self._card is None or card.task.id != self._card.task.id
        self._card = card
        if card is None:
            empty = self.view is not None and not any(self.view.counts.values())
            first = "The queue is empty. Press n to add a first task, or: pit add 'a first task'"
            self.panel.detail.say(first if empty else "No task is selected.")
        else:
            await self.panel.detail.show(card, self.desk.now())
        if fresh:
            self.panel.detail.scroll_home(animate=False)
        self._follow_log(card)

    def _follow_log(self, card: Card | None) -> None:
        path = self.desk.log_of(card) if card else ""
        if path != self._tail.path or not path:
            self._tail = Tail(path)
            self.panel.begin_log("" if path else "No output of this task is kept.")
            if path and self.panel.shows("log"):
                self.panel.add_log(self._tail.more())

    async def _show_crew(self) -> None:
        rows = await self._asked(self.desk.crew)
        if rows is not None:
            self.panel.show_crew(rows)

    async def _asked(self, look: Callable[..., T], *given: object) -> T | None:
        """What the desk says; what goes wrong is shown instead."""
        try:
            return await asyncio.to_thread(look, *given)
        except (TaskpitError, OSError) as error:
            self.complain(error)
            return None

    # -- moving ------------------------------------------------------------------------------------

    def action_column(self, name: str) -> None:
        """This column."""
        self._base.remove_class("-reading")
        self._current = name
        for each in COLUMNS:
            self.column(each).set_class(each == name, "-current")
        self.column(name).focus()
        self._say_heads()

    def action_step(self, step: int) -> None:
        """The column beside it."""
        there = self._shown()
        at = there.index(self._current) + step
        self.action_column(there[max(min(at, len(there) - 1), 0)])

    def action_tab(self, tab: str) -> None:
        """This page of the panel; where there is no room for the panel, on the whole screen."""
        self.panel.turn_to(tab)
        if self._base.has_class("-narrow") or self._base.has_class("-low"):
            self.action_read()
        if tab == "crew":
            self.begin(self._show_crew, "crew", exclusive=True)
        if tab == "log":
            self.panel.add_log(self._tail.more())

    def action_read(self) -> None:
        """The panel on the whole screen."""
        self._base.add_class("-reading")
        self.panel.page.focus()
        self._say_keys()

    def action_out(self) -> None:
        """Out of reading, or out of the filter."""
        if self._base.has_class("-reading"):
            self.panel.turn_to("detail")
        else:
            self.clear_filter()
        self.action_column(self._current)
        self._say_keys()

    def clear_filter(self) -> None:
        """All is shown again."""
        self._base.query_one("#words", Input).value = ""
        self._base.query_one("#filter").remove_class("-shown")
        self.show_only(())

    def show_only(self, words: tuple[str, ...]) -> None:
        """Only slips that mention each of these small-letter words."""
        if words != self._words:
            self._words = words
            for name in COLUMNS:
                self._lay(name)
            self._say_heads()

    def action_help(self) -> None:
        """Every key."""
        self.push_screen(Help(keys.HELP))

    def complain(self, error: Exception) -> None:
        """What went wrong and what to do, for a moment in a corner."""
        hint = error.hint if isinstance(error, TaskpitError) else ""
        text = "\n".join(filter(None, (str(error), hint)))
        self.notify(plain(text), severity="error", markup=False, timeout=8)

    # -- looking for something ---------------------------------------------------------------------

    def action_copy(self) -> None:
        """The id is in the clipboard, where the terminal allows it."""
        if self.slip is not None:
            self.copy_to_clipboard(self.slip.id)
            self.notify(f"{self.slip.id} is copied", markup=False, timeout=2)

    def action_filter(self) -> None:
        """Show only what has these words."""
        self.action_column(self._current)
        self._base.query_one("#filter").add_class("-shown")
        self._base.query_one("#words", Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """While it is written."""
        if event.input.id == "words":
            self.show_only(tuple(event.value.casefold().split()))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The filter stays, keys act on tasks again."""
        if event.input.id == "words":
            self._base.query_one("#filter").set_class(bool(self._words), "-shown")
            self.action_column(self._current)

    def action_find(self) -> None:
        """Look for words in everything, and go to what was chosen."""

        def go(task_id: str | None) -> None:
            if task_id:
                self.go_to(task_id)

        self.push_screen(Find(self._find), go)

    async def _find(self, text: str) -> list[Hit]:
        return await self._asked(self.desk.find, text, HITS) or []

    def go_to(self, task_id: str) -> None:
        """This task is picked, wherever it is."""
        self.clear_filter()
        for name in COLUMNS:
            if self.column(name).pick(task_id):
                self.action_column(name)
                return
        self.notify(f"{task_id} is not on the board: `pit show` has it", markup=False)

    # -- what people do to tasks -------------------------------------------------------------------

    def action_act(self, name: str) -> None:
        """Do it to the task that is picked, after asking what is to be asked."""
        act, slip = keys.find(name), self.slip
        if slip is None or not act.fits(slip, self.desk.worker):
            self.notify(_refusal(act), severity="warning", markup=False)
            return
        task_id = slip.id
        if not act.asks or self.desk.read_only:  # refused at once, not after an answer was written
            self._do(lambda: self.desk.act(act, task_id, ""))
            return
        question = slip.question if act.action.asks == "question" else act.asks
        dialog = AskDialog(f"{task_id}  {slip.title}", question, silent=act.silent)
        self._do_after(dialog, lambda text: self.desk.act(act, task_id, text))

    def action_review(self) -> None:
        """The change of the task that is picked, and a person's word on it."""
        slip = self.slip
        if slip is None or slip.asks != "review":
            self.notify("v is for tasks that wait for review", severity="warning", markup=False)
            return
        self.begin(lambda: self._review(slip.id), "act")

    async def _review(self, task_id: str) -> None:
        found = await self._asked(self.desk.change, task_id, MOST)
        if found is not None:
            dialog = VerdictDialog(*found, read_only=self.desk.read_only)
            self._do_after(dialog, lambda word: self.desk.act(keys.find(word[0]), task_id, word[1]))

    def action_add(self) -> None:
        """A form, then a task."""
        if self.desk.read_only:
            self._do(lambda: self.desk.pause(""))  # refuses, and says why
            return
        self._do_after(AddForm(self.desk.templates()), lambda task: f"{self.desk.add(task)} is in the queue")

    def action_pause(self) -> None:
        """Pause the queue after asking why; a paused one goes on."""
        if self.desk.read_only or (self.view is not None and self.view.paused):
            self._do(self.desk.resume)
            return
        self._do_after(AskDialog("Give out no task; running tasks go on", "Why?", silent=True), self.desk.pause)

    def action_undo(self) -> None:
        """Take back what the person did last."""
        self._do(self.desk.undo)

    def action_edit(self) -> None:
        """The task in the person's own editor, which has the terminal meanwhile."""
        slip = self.slip
        if slip is None:
            return
        text, trouble = "", None
        try:
            with self.suspend():
                try:
                    text = self.desk.edit(slip.id)
                except (TaskpitError, OSError) as error:
                    trouble = error
        except SuspendNotSupported:
            text = "an editor cannot be opened in this terminal: use `pit edit`"
        if trouble is not None:
            self.complain(trouble)
        else:
            self.notify(text, markup=False)
        self.begin(self.catch_up, "follow")

    def _do_after(self, dialog: Screen[T], act: Callable[[T], str]) -> None:
        """Do this with what the person answers, unless they leave."""
        self.push_screen(dialog, lambda answer: self._do(lambda: act(answer)) if answer is not None else None)

    def _do(self, act: Callable[[], str]) -> None:
        self.begin(lambda: self._done(act), "act")

    async def _done(self, act: Callable[[], str]) -> None:
        """Do it, say how it went, and show what has become of it."""
        text = await self._asked(act)
        if text is not None:
            self.notify(text, markup=False, timeout=3)
        await self.catch_up()
