"""`taskpit.aio`: the same names, awaited; and nothing is lost when somebody is cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest
from waits import PATIENCE

from taskpit import Done, Queue, State, Task
from taskpit.aio import AsyncQueue
from taskpit.errors import Nothing
from taskpit.watch import Watch


def run(body, root):
    async def main():
        async with AsyncQueue.open(root) as queue:
            return await body(queue)

    return asyncio.run(main())


def test_a_whole_life(root):
    async def body(queue):
        first = await queue.add("one", body="text")
        ((second, said),) = await queue.put([Task(id="", title="two")])
        async with queue.take("ada") as job:
            job.output = "did it"
        (claim,) = await queue.claim("bob")
        await queue.renew(claim)
        await queue.finish(claim, Done(output="bob did"))
        cards = [await queue.card(one) for one in (first, second)]
        return said, [card.result.output.strip() for card in cards], [event.action async for event in queue.events()]

    said, outputs, actions = run(body, root)

    assert (said, outputs) == ("created", ["did it", "bob did"])
    assert actions == ["added_task"] * 2 + ["claimed_task", "completed_task"] * 2


def test_a_queue_is_made(tmp_path):
    async def body():
        async with AsyncQueue.create(tmp_path / "new", "mailbox") as queue:
            return await queue.add("first")

    assert asyncio.run(body())


def test_an_exception_fails_it(root):
    async def body(queue):
        task_id = await queue.add("break", max_attempts=1)
        with pytest.raises(ValueError, match="mine"):
            async with queue.take():
                raise ValueError("mine")
        with pytest.raises(Nothing):
            async with queue.take():
                pass
        return await queue.card(task_id)

    assert run(body, root).tries[-1].error.startswith("ValueError: mine")


def test_the_loop_goes_on_while_somebody_waits(root):
    async def body(queue):
        async def taker():
            async with queue.take(wait=60) as job:
                return job.task.title

        taking = [asyncio.create_task(taker()) for _ in range(40)]  # more than any pool of threads has
        for number in range(40):
            await queue.add(f"task {number:02}")
        return sorted(await asyncio.gather(*taking))

    assert run(body, root) == [f"task {number:02}" for number in range(40)]


def test_cancelled_while_it_works_it_goes_back(root):
    async def body(queue):
        task_id = await queue.add("stop")
        begun = asyncio.Event()

        async def taker():
            async with queue.take():
                begun.set()
                await asyncio.Event().wait()

        taking = asyncio.create_task(taker())
        await begun.wait()
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        return await queue.card(task_id)

    card = run(body, root)
    assert (card.state, card.task.attempts) == (State.READY, 0)


@pytest.mark.parametrize("way", ["take", "claim"])
def test_cancelled_while_it_is_claimed_it_goes_back(root, monkeypatch, way):
    """The thread has the task when nobody waits for it any more."""
    claimed, go_on, back = threading.Event(), threading.Event(), threading.Event()
    claim, finish = Queue.claim, Queue.finish

    def slow(self, *given, **named):
        claims = claim(self, *given, **named)
        claimed.set()
        go_on.wait(PATIENCE)
        return claims

    def noted(self, *given):
        said = finish(self, *given)
        back.set()
        return said

    monkeypatch.setattr(Queue, "claim", slow)
    monkeypatch.setattr(Queue, "finish", noted)

    async def taker(queue):
        if way == "claim":
            await queue.claim("ada")
        async with queue.take():
            pytest.fail("it was cancelled")

    async def body(queue):
        task_id = await queue.add("contested")
        taking = asyncio.create_task(taker(queue))
        await asyncio.to_thread(claimed.wait, 60)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        assert (await queue.card(task_id)).state is State.CLAIMED
        go_on.set()
        await asyncio.to_thread(back.wait, 60)
        return await queue.card(task_id)

    card = run(body, root)
    assert (card.state, card.task.attempts) == (State.READY, 0)


def test_an_end_that_was_begun_is_carried_out(root, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    finish = Queue.finish

    def slow(self, *given):
        begun.set()
        go_on.wait(PATIENCE)
        return finish(self, *given)

    monkeypatch.setattr(Queue, "finish", slow)

    async def body(queue):
        task_id = await queue.add("slow end")

        async def taker():
            async with queue.take() as job:
                job.output = "kept"

        taking = asyncio.create_task(taker())
        await asyncio.to_thread(begun.wait, 60)
        taking.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await taking
        return await queue.card(task_id)

    assert run(body, root).result.output.strip() == "kept"


def test_coroutines_are_run_on_every_task(root):
    async def body(queue):
        for number in range(8):
            await queue.add(f"task {number}")
        together = asyncio.Barrier(4)  # four at once, or nothing goes on

        async def handler(job):
            await together.wait()
            return job.task.title

        return await queue.work(handler, n=4, until_empty=True)

    assert run(body, root).tally == {"done": 8}


def test_a_coroutine_that_throws_is_a_failure(root):
    async def body(queue):
        await queue.add("throws", max_attempts=1)

        async def handler(_job):
            raise TimeoutError("its own")

        return await queue.work(handler, until_empty=True)

    assert run(body, root).tally == {"failed": 1}


def test_a_pool_that_is_cancelled_gives_back_what_runs(root):
    async def body(queue):
        ids = [await queue.add(f"task {number}") for number in range(2)]
        begun, ended = asyncio.Barrier(3), []

        async def handler(job):
            await begun.wait()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(job.stopping)

        working = asyncio.create_task(queue.work(handler, n=2))
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        return ended, [await queue.card(one) for one in ids]

    ended, cards = run(body, root)
    assert ended == ["stop", "stop"]
    assert [(card.state, card.task.attempts) for card in cards] == [(State.READY, 0)] * 2


def test_watching(root, monkeypatch):
    """It sleeps until the folder changes: looking again by itself is put out of reach."""
    monkeypatch.setattr("taskpit.library.LOOK_AGAIN", 1000.0)

    async def body(queue):
        await queue.add("before")
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(
            Watch,
            "wait",
            lambda one, seconds, wait=Watch.wait: loop.call_soon_threadsafe(begun.set) or wait(one, seconds),
        )

        async def first():
            async for event in queue.watch():
                return event.details
            return None

        watching = asyncio.create_task(first())
        await begun.wait()
        await queue.add("after")
        return await watching

    assert run(body, root) == "after"


def test_watching_ends_in_silence_and_when_it_is_cancelled(root):
    async def body(queue):
        assert [event async for event in queue.watch(timeout=0.0)] == []

        async def listen():
            async for _ in queue.watch():
                pass

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening

    run(body, root)
