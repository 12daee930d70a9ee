"""One board for all: each change is told once and to everybody, who was away misses nothing, nobody costs nothing."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest
from pits import task
from waits import PATIENCE

from taskpit.board import COMPARE
from taskpit.errors import Unavailable
from taskpit.model import Done
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore
from taskpit.testing import FakeClock
from taskpit.web import shared as hubs
from taskpit.web.shared import Hub


class Paper:
    """Counts what it writes."""

    def __init__(self):
        self.written = []

    def card(self, slip, now):
        self.written.append(slip.id)
        return f"<li>{slip.id}</li>"


@pytest.fixture
def queue():
    clock = FakeClock()
    return Queue(MemoryStore(clock), clock=clock)


@pytest.fixture
def made(queue):
    """Runs a story with a hub, which it closes afterwards."""

    def run(story):
        async def whole():
            hub = Hub(queue, Paper())
            await hub.look(lambda board: board.version)
            try:
                return await asyncio.wait_for(story(hub), PATIENCE)
            finally:
                await hub.close()

        return asyncio.run(whole())

    return run


class Ear:
    """Somebody who listens."""

    def __init__(self, hub, after):
        self.source = hub.messages(after)

    async def hear(self):
        """The next message: its event, data and id."""
        while True:
            lines = dict(line.partition(": ")[::2] for line in (await anext(self.source)).decode().strip().split("\n"))
            if "data" in lines:
                return lines["event"], json.loads(lines["data"]), lines["id"]

    async def close(self):
        await self.source.aclose()


async def until(true):
    """Others have their turn until this is so."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0)


def test_everybody_hears_what_was_written_once(queue, made):
    async def story(hub):
        ears = [Ear(hub, hub.place) for _ in range(5)]
        hearing = [asyncio.create_task(ear.hear()) for ear in ears]
        await until(lambda: hub.listeners == 5)
        queue.put([task(1), task(2)])
        await hub.step()
        heard = await asyncio.gather(*hearing)
        assert all(one == heard[0] for one in heard)
        event, data, _ = heard[0]
        assert event == "board"
        assert [card["id"] for card in data["set"]] == ["0001", "0002"]
        assert data["counts"]["ready"] == 2
        assert hub.paper.written == ["0001", "0002"]
        for ear in ears:
            await ear.close()
        assert hub.listeners == 0

    made(story)


def test_who_was_away_gets_what_was_missed(queue, made):
    async def story(hub):
        place = hub.place
        for number in (1, 2, 3):
            queue.put([task(number)])
            await hub.step()
        ear = Ear(hub, place)
        heard = [await ear.hear() for _ in range(3)]
        assert [[card["id"] for card in data["set"]] for _, data, _ in heard] == [["0001"], ["0002"], ["0003"]]
        again = Ear(hub, heard[1][2])
        assert (await again.hear())[1]["set"][0]["id"] == "0003"
        await ear.close()
        await again.close()

    made(story)


@pytest.mark.parametrize("after", ["", "x", "other-5", "-1", "other-", "\u00b2-\u00b2"])
def test_who_comes_from_elsewhere_looks_at_everything(queue, made, after):
    async def story(hub):
        ear = Ear(hub, after)
        event, _, place = await ear.hear()
        assert (event, place) == ("anew", hub.place)
        await ear.close()

    made(story)


def test_who_has_fallen_too_far_behind_looks_at_everything(queue, made, monkeypatch):
    async def story(hub):
        ear = Ear(hub, hub.place)
        await anext(ear.source)
        for number in range(1, hubs.RING + 3):
            queue.put([task(number)])
            await hub.step()
        event, _, place = await ear.hear()
        assert (event, place) == ("anew", hub.place)
        await ear.close()

    monkeypatch.setattr(hubs, "RING", 4)
    made(story)


def test_a_flood_is_told_in_one_word(queue, made, monkeypatch):
    async def story(hub):
        ear = Ear(hub, hub.place)
        queue.put([task(number) for number in range(1, 8)])
        await hub.step()
        _, data, _ = await ear.hear()
        assert data["anew"] is True
        assert data["counts"]["ready"] == 7
        assert hub.paper.written == []
        await ear.close()

    monkeypatch.setattr(hubs, "MOST", 6)
    made(story)


def test_reading_everything_anew_is_told_only_where_it_differs(queue, made):
    """A stranger moves one task without telling; the board reads all of it, its listeners hear of one."""

    async def story(hub):
        queue.put([task(number) for number in range(1, 6)])
        await hub.step()
        ear, events = Ear(hub, hub.place), queue.store.events
        queue.store.events = lambda after="", limit=1000: ([], after)
        queue.finish(queue.claim("stranger", ids=["0003"])[0], Done())
        queue.clock.advance(COMPARE + 1)
        await hub.step()
        queue.store.events = events
        _, data, _ = await ear.hear()
        assert [(card["id"], card["column"]) for card in data["set"]] == [("0003", "done")]
        await ear.close()

    made(story)


def test_trouble_is_told_once_and_so_is_its_end(queue, made):
    async def story(hub):
        ear, events = Ear(hub, hub.place), queue.store.events

        def broken(after="", limit=1000):
            raise Unavailable("the disk is gone")

        queue.store.events = broken
        for _ in range(3):
            await hub.step()
        assert hub.sent == 1
        assert (await ear.hear())[1]["trouble"] == "the disk is gone"
        queue.store.events = events
        await hub.step()
        assert (await ear.hear())[1]["trouble"] == ""
        assert hub.sent == 2
        await ear.close()

    made(story)


def test_how_it_is_is_looked_at_also_while_nobody_follows(queue, made, monkeypatch):
    async def story(hub):
        events, asked = queue.store.events, []

        def broken(after="", limit=1000):
            asked.append(after)
            raise Unavailable("the disk is gone")

        assert await hub.health() == ""
        queue.store.events = broken
        assert (await hub.health(), asked) == ("", []), "each second at most"
        monkeypatch.setattr(hubs, "SECOND", 0.0)
        assert await hub.health() == "the disk is gone"
        queue.store.events = events
        assert await hub.health() == ""

    monkeypatch.setattr(hubs, "SECOND", 3600.0)
    made(story)


def test_nobody_looks_nobody_follows(queue, made, monkeypatch):
    async def story(hub):
        looked = []
        monkeypatch.setattr(hubs, "STEP", 0.0)
        original = hub.step

        async def step():
            looked.append(hub.listeners)
            await original()

        hub.step = step
        following = asyncio.create_task(hub.follow())
        await until(lambda: looked)
        for _ in range(50):
            await asyncio.sleep(0)
        assert looked == [0]  # it is read once, so that the first page need not wait
        ear = Ear(hub, hub.place)
        hearing = asyncio.create_task(ear.hear())
        queue.put([task(1)])
        await hearing
        await ear.close()
        count = len(looked)
        assert count > 1
        await until(lambda: not hub.listeners)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(looked) <= count + 2  # the look that had begun
        following.cancel()

    made(story)


def test_what_happened_while_nobody_looked_is_on_the_next_page(queue, made):
    async def story(hub):
        queue.put([task(1)])
        place = hub.place
        assert await hub.look(lambda board: list(board.slips)) == ["0001"]
        ear = Ear(hub, place)
        assert (await ear.hear())[1]["set"][0]["id"] == "0001"  # told again rather than not at all
        await ear.close()

    made(story)


def test_the_end_sends_everybody_home(queue, made):
    async def story(hub):
        ear = Ear(hub, hub.place)
        hearing = asyncio.create_task(ear.hear())
        await until(lambda: hub.listeners == 1)
        await hub.dismiss()
        with pytest.raises(StopAsyncIteration):
            await hearing

    made(story)


def test_a_page_does_not_wait_long_for_a_large_queue(queue, monkeypatch):
    """While the board is read for the first time it can be told so; whoever listens is told when it is there."""
    gate = threading.Event()
    page = queue.store.page

    def slow(*args):
        assert gate.wait(PATIENCE)
        return page(*args)

    async def story():
        hub = Hub(queue, Paper())
        following = asyncio.create_task(hub.follow())
        assert not await hub.is_read()
        ear = Ear(hub, "")
        hearing = asyncio.create_task(ear.hear())
        gate.set()
        assert (await hearing)[0] == "anew"
        assert await hub.look(lambda board: list(board.slips)) == ["0001"]
        await ear.close()
        following.cancel()
        await hub.close()

    queue.put([task(1)])
    monkeypatch.setattr(hubs, "FIRST", 0.01)
    monkeypatch.setattr(queue.store, "page", slow)
    asyncio.run(story())


def test_a_queue_that_cannot_be_read_is_told_not_waited_for(queue, monkeypatch):
    counts = queue.store.counts

    def broken(*_):
        raise KeyError("whatever")

    async def story():
        hub = Hub(queue, Paper())
        with pytest.raises(Unavailable, match="whatever"):
            await hub.look(lambda board: board)
        monkeypatch.setattr(queue.store, "counts", counts)
        assert await hub.look(lambda board: board.counts["ready"]) == 0
        await hub.close()

    monkeypatch.setattr(hubs, "FIRST", PATIENCE)
    monkeypatch.setattr(queue.store, "counts", broken)
    asyncio.run(story())
