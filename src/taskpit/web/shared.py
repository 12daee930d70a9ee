"""What all pages of one server share: the board, a queue of their own, the past, the paper. Knows no address."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread

from taskpit.errors import NotFound
from taskpit.task_templates import templates
from taskpit.web.changelog_cache import Past

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from starlette.requests import Request

    from taskpit.queue import Queue
    from taskpit.web.html import Paper
    from taskpit.web.live import Hub

    T = TypeVar("T")
    #: Brings in the tasks of a file, given its name and its bytes; the ids of those that are in now.
    Bring = Callable[[Queue, str, bytes], list[str]]

__all__ = ["Desk"]

IDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Desk:
    """One thread has the board; another, with a queue of its own, does what people ask for."""

    def __init__(self, queue: Queue, hub: Hub, paper: Paper, worker: str, bring: Bring) -> None:
        self.queue = queue
        self.hub = hub
        self.paper = paper
        #: In whose name things are done here.
        self.worker = worker
        self.bring = bring
        self.past = Past(queue)
        self._thread = ThreadPoolExecutor(1, "desk")

    @property
    def largest_task(self) -> int:
        """The most bytes of one task."""
        return self.queue.config.largest_task

    async def dismiss(self) -> None:
        """Everybody who listens goes home."""
        await self.hub.dismiss()

    async def do(self, work: Callable[[], T]) -> T:
        """This, in the desk's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def begin(self, work: Callable[[Queue, str, str], None], task_id: str) -> None:
        """This, beside what others ask for: it may take as long as a check. If we are ended first, a pool goes on."""
        Thread(target=work, args=(self.queue, task_id, self.worker), name="lander", daemon=True).start()

    def write(self, request: Request, template: str, **values: object) -> str:
        """This page for whoever asked."""
        told = {"now": self.queue.clock.now(), "csrf": request.scope["csrf"], "needs_you": self.hub.needs_you}
        with suppress(OSError):
            told["templates"] = templates(self.queue)
        return self.paper.write(template, **{**told, **values})

    def task_id(self, text: str) -> str:
        """The id an address means; NotFound for what can be none."""
        if not IDS.fullmatch(text):
            raise NotFound("there is no such task", hint="The board shows what there is.")
        return self.queue.resolve(text)

    async def close(self) -> None:
        """Nothing more is done here."""
        await self.hub.close()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self.queue.close()
