"""The queue and its board, asked from threads: one question at a time, and values come back. Knows no screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from taskpit import access
from taskpit.actions import undo
from taskpit.board import COLUMNS, Board, BoardChange, Slip
from taskpit.crew.log_tail import StoredLog
from taskpit.crew.status import MemberRow
from taskpit.errors import Invalid
from taskpit.landing.diff import FilePatch, read_hunks
from taskpit.landing.values import HandIn
from taskpit.model import Card, Event, Task, Value
from taskpit.queue import Queue
from taskpit.run.manual import need_ids
from taskpit.search import Hit, search
from taskpit.task_templates import put_filled, templates
from taskpit.tui.keys import Act


class BoardView(Value, frozen=True, kw_only=True):
    """The board at one instant. A column that did not change is the same list as before."""

    columns: Mapping[str, Sequence[Slip]]
    counts: Mapping[str, int]
    paused: str
    change: BoardChange
    events: Sequence[Event] = ()


class QueueAccess:
    """What the screen may ask. Every answer is a value; every question may be asked from any thread."""

    def __init__(
        self,
        queue: Queue,
        worker: str,
        *,
        read_only: bool = False,
        edit: Callable[[str], str] | None = None,
        crew: Callable[[], list[MemberRow]] | None = None,
    ) -> None:
        self.queue = queue
        self.worker = worker
        self.read_only = read_only
        self._edit = edit
        self._crew = crew
        self._board = Board(queue)
        self._lock = Lock()
        self.where = queue.store.info().where

    def now(self) -> float:
        """What time it is for the queue."""
        return self.queue.clock.now()

    # -- looking -----------------------------------------------------------------------------------

    def load(self, progress: Callable[[int], None] | None = None) -> BoardView:
        """All is read."""
        with self._lock:
            self._board.load(progress)
            return self._view(self._board.follow().replace(anew=True), list(self._board.recent))

    def follow(self) -> BoardView:
        """What is new since the last look."""
        with self._lock:
            change = self._board.follow()
            return self._view(change, change.events)

    def _view(self, change: BoardChange, events: Sequence[Event]) -> BoardView:
        board = self._board
        columns = {name: board.column(name) for name in COLUMNS}
        return BoardView(columns=columns, counts=dict(board.counts), paused=board.paused, change=change, events=events)

    def card(self, task_id: str) -> Card | None:
        """All about one task."""
        with self._lock:
            return self.queue.store.read([task_id])[0]

    def change(self, task_id: str, most: int) -> tuple[HandIn, list[FilePatch]]:
        """What was handed in for it and waits, and its diff with at most so many rows."""
        from taskpit.landing import review

        with self._lock:
            pipe, handed = review.find(self.queue, task_id)
        return handed, read_hunks(review.diff(pipe, handed.base, handed.commit), most)

    def find(self, text: str, limit: int) -> list[Hit]:
        """Tasks that mention these words anywhere."""
        with self._lock:
            return search(self.queue, text, limit)

    def crew(self) -> list[MemberRow]:
        """Who of the crew does what."""
        with self._lock:
            return self._crew() if self._crew is not None else []

    def log_of(self, card: Card) -> str | StoredLog:
        """Where what its worker prints goes, or went; empty if nobody knows."""
        from taskpit.crew.log_tail import log_of_task

        return log_of_task(self.queue.store, card, printed_first=True)

    # -- changing ----------------------------------------------------------------------------------

    def act(self, act: Act, task_id: str, text: str = "") -> str:
        """It is done; what to tell."""
        self._writable()
        with self._lock:
            message = act.action.do(self.queue, task_id, self.worker, text)
        act.action.begin_rest(self.queue, task_id, self.worker)
        return message

    def undo(self) -> str:
        """The last thing this person did is taken back; what to tell."""
        self._writable()
        with self._lock:
            return undo(self.queue, self.worker)[1]

    def templates(self) -> list[str]:
        """Names of the queue's templates."""
        try:
            return templates(self.queue)
        except OSError:
            return []

    def add(self, task: Task | list[str]) -> str:
        """The task, or what a template makes of these fields, is in the queue; its id, or theirs."""
        self._writable()
        with self._lock:
            if isinstance(task, list):
                made, _ = put_filled(self.queue, task[0], task[1:], lambda one: one.replace(by=self.worker))
                return ", ".join(one.id for one in made)
            meant = task.replace(by=self.worker, needs=need_ids(self.queue, task.needs))
            return self.queue.put([meant])[0][0]

    def edit(self, task_id: str) -> str:
        """A person has changed it in an editor; what to tell. The screen must be theirs meanwhile."""
        self._writable()
        if self._edit is None:
            raise Invalid("there is no editor here", hint="Use `pit edit`.")
        with self._lock:
            return self._edit(task_id)

    def pause(self, reason: str) -> str:
        """Nobody is given anything; what to tell."""
        self._writable()
        access.need_verb("pause", os.environ)
        with self._lock:
            self.queue.store.pause(" ".join(reason.split()) or "no reason given", 0.0, self.worker)
            return "no task is given out until you resume"

    def resume(self) -> str:
        """Tasks are given out again, as they may have been all the time; what to tell."""
        self._writable()
        access.need_verb("resume", os.environ)
        with self._lock:
            self.queue.store.resume(self.worker)
            return "tasks are given out again"

    def _writable(self) -> None:
        if self.read_only:
            raise Invalid("this board is read-only", hint="Start it without --read-only.")
