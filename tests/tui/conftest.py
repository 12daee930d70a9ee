"""A board without a terminal, driven by hand: nothing moves unless it is told to."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

pytest.importorskip("textual", reason="the terminal board needs textual: pip install 'taskpit[tui]'")

from textual import app as textual_app
from textual import pilot as textual_pilot
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.css.stylesheet import Stylesheet
from textual.notifications import Notification
from textual.pilot import Pilot
from textual.worker import WorkerCancelled
from waits import PATIENCE

from taskpit.model import Ask, Done, Evidence, Failed, Task
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore
from taskpit.testing import FakeClock
from taskpit.tui.app import PitBoard
from taskpit.tui.queue_access import QueueAccess

Pilot._wait_for_screen.__defaults__ = (PATIENCE,)
Notification.has_expired = False  # what was said is there until it is read, however long the next step takes
NOON = 1_800_000_000.0


_updates = itertools.count()
_parsed = {}
_parse = Stylesheet._parse_rules


def _not_painted(compositor, full=False, screen_stack=None, simplify=False) -> None:
    """There is no terminal to bring up to date at each step: what a test reads is painted for it (`Driver.lines`)."""
    visible_screen_stack.set(screen_stack or [])
    compositor._dirty_regions.clear()
    next(_updates)


def _parsed_once(sheet, css, read_from, **how) -> list:
    """Each board has the same style sheets in the same colours."""
    key = (css, read_from, *how.items(), *sorted(sheet._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse(sheet, css, read_from, **how)
    return _parsed[key]


async def _handed_over(*_) -> None:
    """Textual waits until its process is idle, for as long as others keep the machine busy: `settle` knows better."""
    for _ in range(5):  # a key is handed over by a callback, a task and a queue
        await asyncio.sleep(0)


Compositor.render_update = _not_painted
Stylesheet._parse_rules = _parsed_once
textual_app.wait_for_idle = textual_pilot.wait_for_idle = _handed_over


class Driver:
    """One board, what it shows, and the keys."""

    def __init__(self, app, pilot) -> None:
        self.app = app
        self.pilot = pilot

    async def settle(self) -> None:
        """Wait for all that was begun, also for what overtook something else, until nothing moves any more."""
        before = None
        while True:
            try:
                await self.app.workers.wait_for_complete()
            except WorkerCancelled:
                continue
            await self.pilot._wait_for_screen()
            await self.app.animator.wait_until_complete()
            if not self.app.is_running:
                return
            self.app.screen._on_timer_update()
            now = (repr(_updates), len(self.app.screen_stack))
            if now == before:
                return
            before = now

    async def until(self, met) -> None:
        """Settle until this holds. Textual lays out a new size by a timer, which `settle` does not know."""
        deadline = time.monotonic() + PATIENCE
        await self.settle()
        while not met():
            assert self.app.is_running, "The board ended."
            assert time.monotonic() < deadline, self.text
            await asyncio.sleep(0.01)
            await self.settle()

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def write(self, text: str) -> None:
        await self.pilot.press(*("space" if letter == " " else letter for letter in text))
        await self.settle()

    async def follow(self) -> None:
        await self.app.catch_up()
        await self.settle()

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def toasts(self) -> list[str]:
        return [note.message for note in self.app._notifications]

    def ids(self, column: str) -> list[str]:
        return [slip.id for slip in self.app.column(column).slips]

    @property
    def picked(self) -> str:
        return self.app.slip.id if self.app.slip else ""


@pytest.fixture
def clock():
    return FakeClock(NOON)


@pytest.fixture
def queue(clock):
    return Queue(MemoryStore(clock), clock=clock)


@pytest.fixture
def full(queue, clock):
    """Something in every column."""
    tasks = [
        Task(id=f"000{number}", title=f"Piece {number} of the work", body="Write *it*.", tags=("web",), by="ann")
        for number in range(1, 9)
    ]
    queue.put([task.replace(created=NOON - 600) for task in tasks])
    (claim,) = queue.claim("snake-1", ids=["0001"])
    proof = Evidence(command="make test", exit_code=0, seconds=2.0, tail="42 passed")
    queue.finish(claim, Done(output="All **is** well.", evidence=proof, seconds=65.0, cost={"usd": 0.5}))
    (claim,) = queue.claim("snake-1", ids=["0002"])
    queue.finish(claim, Failed(error="the pipe broke", final=True))
    (claim,) = queue.claim("snake-2", ids=["0003"])
    queue.finish(claim, Ask(question="tabs or spaces?"))
    queue.block("0004", "ann", "not before Friday")
    queue.claim("snake-2", ids=["0005"])
    queue.claim("me@here", ids=["0006"], verbatim=True)
    clock.advance(120)
    return queue


@pytest.fixture(autouse=True)
def _colours(monkeypatch):
    """A terminal that has them all."""
    monkeypatch.setenv("COLORTERM", "truecolor")


@pytest.fixture
def drive():
    """`drive(queue, scenario)`: the scenario is given a Driver of a board that has been read."""

    def drive(queue, scenario, size=(100, 24), desk=None, **options) -> None:
        async def run() -> None:
            app = PitBoard(desk or QueueAccess(queue, "me@here", **options), pace=0)
            app.animation_level = "none"
            async with app.run_test(size=size) as pilot:
                driver = Driver(app, pilot)
                await driver.settle()
                await driver.press("2")  # tests begin at what is ready; a person at what needs them
                await scenario(driver)

        asyncio.run(run())

    return drive
