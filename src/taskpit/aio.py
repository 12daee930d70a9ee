"""The same queue for programs built on asyncio: the same names, to be awaited.

    async with AsyncQueue.open("pit") as queue:
        await queue.work(solve, n=8)

Every verb runs in a thread of its own, so that none waits for another and the loop for none. Cancelling is
safe: a task that was being claimed for a caller that no longer waits goes back, an end that was begun is
carried out. What has no name here is reached by `queue.sync`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import wraps
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, Unpack

from taskpit.errors import Lost
from taskpit.library import Job, Queue, Watcher, called
from taskpit.model import Claim, Event, Outcome, Release
from taskpit.run.pool_options import PoolReport

if TYPE_CHECKING:
    from taskpit.run.runner import Run, Runner

#: Works on a job; a text is the output of a task that is done, nothing is the job's own output.
AsyncHandler = Callable[[Job], Awaitable[str | Outcome | None]]


class Working(TypedDict, total=False):
    """What `work` may be given."""

    until_empty: bool
    worker: str
    tags: Sequence[str]
    big: bool | None
    lease: float
    max_tasks: int
    checks: str | None


P = ParamSpec("P")
T = TypeVar("T")
#: What takes the same as a verb of the queue.
Like = Callable[[Callable[..., T]], Callable[Concatenate["AsyncQueue", P], T]]

__all__ = ["AsyncQueue"]

#: What a coroutine may take, in seconds: the bell rings when it has ended, and when it should.
FOR_EVER = 1e6


def _verb(verb: Callable[Concatenate[Queue, P], T]) -> Callable[Concatenate[AsyncQueue, P], Coroutine[Any, Any, T]]:
    """The same verb of the same queue, in a thread of its own."""

    @wraps(verb)
    async def call(queue: AsyncQueue, /, *args: P.args, **named: P.kwargs) -> T:
        return await _surely(getattr(queue.sync, verb.__name__), *args, **named)

    return call


def _like(_: Callable[Concatenate[Queue, P], object]) -> Like[T, P]:
    """What is decorated takes what this verb of the queue takes; for type checkers."""
    return lambda method: method


class AsyncQueue:
    """A queue whose verbs are awaited."""

    def __init__(self, queue: Queue) -> None:
        #: The queue itself, for verbs that have no name here; they block.
        self.sync = queue

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """The queue in this folder, or at this address."""
        return cls(Queue.open(path))

    @classmethod
    def create(cls, path: str | PathLike[str], layout: str | None = None) -> Self:
        """The queue in this folder, made if there is none."""
        return cls(Queue.create(path, layout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of what is held open."""
        await _surely(self.sync.close)

    add = _verb(Queue.add)
    put = _verb(Queue.put)
    card = _verb(Queue.card)
    renew = _verb(Queue.renew)
    finish = _verb(Queue.finish)

    @_like(Queue.claim)
    async def claim(self, *given: Any, **wish: Any) -> list[Claim]:
        """Up to `count` tasks for this worker; the wish is that of `Queue.claim`."""
        return await _unless_left(_start(self.sync.claim, *given, **wish), self._give_back)

    def _give_back(self, claims: list[Claim]) -> None:
        for claim in claims:
            self.sync.finish(claim, Release(reason="the code that waited for it was cancelled"))

    @_like(Queue.take)
    def take(self, *given: Any, **wish: Any) -> AbstractAsyncContextManager[Job]:
        """The next task, for an `async with` block: done when it is left, failed if it throws, renewed meanwhile.

        The wish is that of `Queue.take`.
        """
        return _taking(self.sync.take(*given, **wish))

    async def work(self, handler: AsyncHandler, n: int = 1, **options: Unpack[Working]) -> PoolReport:
        """Run this coroutine function on task after task, `n` at once; cancelled, it gives back what runs.

        Its options are those of `Queue.work`.
        """
        pool = self.sync.pool(_awaited(handler, asyncio.get_running_loop()), n, **options)
        running = asyncio.wrap_future(_start(pool.run))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            for _ in range(2):  # the second one does not wait for what runs
                pool.inbox.put(signal.SIGTERM)
            await _to_the_end(running)
            raise

    async def events(self) -> AsyncIterator[Event]:
        """The changelog from its beginning, line by line."""
        cursor = ""
        while True:
            events, cursor = await _surely(self.sync.store.events, cursor)
            for event in events:
                yield event
            if not events:
                return

    async def watch(self, timeout: float | None = None) -> AsyncIterator[Event]:  # noqa: ASYNC109 - of silence
        """What happens from now on, as it happens; ends after `timeout` seconds in which nothing did.

        Being cancelled it ends within a second.
        """
        watcher = await _surely(Watcher, self.sync)
        try:
            while True:
                for event in await _surely(watcher.look):
                    yield event
                left = watcher.patience(timeout)
                if left <= 0:
                    return
                await _surely(watcher.sleep, left)
        finally:
            watcher.close()


# -- threads ---------------------------------------------------------------------------------------


def _start(call: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
    """The call runs in a thread of its own: none has to wait until others have ended."""
    future: Future[T] = Future()

    def run() -> None:
        future.set_running_or_notify_cancel()
        try:
            future.set_result(call(*given, **named))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=f"await {call.__name__}", daemon=True).start()
    return future


async def _to_the_end(running: asyncio.Future[T]) -> T:
    """What came of it, however often we are cancelled meanwhile."""
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue
    return running.result()


async def _surely(call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What the call says; if we are cancelled it is carried out all the same before we go."""
    running = asyncio.wrap_future(_start(call, *given, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.gather(asyncio.shield(running), return_exceptions=True)
        raise


async def _unless_left(started: Future[T], undo: Callable[[T], object]) -> T:
    """What was started says this; if we are cancelled it is undone as soon as it has happened."""

    def undone(future: Future[T]) -> None:
        if future.exception() is None:
            undo(future.result())

    try:
        return await asyncio.shield(asyncio.wrap_future(started))
    except asyncio.CancelledError:
        started.add_done_callback(undone)
        raise


@asynccontextmanager
async def _taking(block: AbstractContextManager[Job]) -> AsyncIterator[Job]:
    """A `with` block that is entered and left in threads."""
    gone = asyncio.CancelledError("the code that waited for it was cancelled")
    job = await _unless_left(_start(block.__enter__), lambda _: _left_by(block, gone))
    try:
        yield job
    except BaseException as error:
        await _to_the_end(asyncio.wrap_future(_start(_left_by, block, error)))
        raise
    await _surely(block.__exit__, None, None, None)


def _left_by(block: AbstractContextManager[Job], error: BaseException) -> None:
    """The block is left by this error, which its body keeps."""
    try:
        block.__exit__(type(error), error, error.__traceback__)
    except BaseException as other:
        if other is not error:
            raise


def _awaited(handler: AsyncHandler, loop: asyncio.AbstractEventLoop) -> Runner:
    """A runner that has the loop run this coroutine, and cancels it if it is to stop."""

    def wait_for(job: Job, run: Run) -> str | Outcome | None:
        running = asyncio.run_coroutine_threadsafe(_call(handler, job), loop)
        running.add_done_callback(lambda _: run.bell.ring())
        run.bell.wait(FOR_EVER)
        if run.stopping:
            running.cancel()
        return running.result()

    return called(wait_for, stopped=(asyncio.CancelledError, CancelledError, Lost))


async def _call(handler: AsyncHandler, job: Job) -> str | Outcome | None:
    return await handler(job)
