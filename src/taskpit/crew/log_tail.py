"""Logs as they grow: which file it is, and what was added to it, as people read it.

Reads only inside the queue's folder, and what a queue elsewhere keeps of it. Knows no surface: the terminal and the
browser show these words.
"""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.crew.state import CrewFiles
from taskpit.errors import NotFound, TaskpitError
from taskpit.model import Card, Claim, State, Value
from taskpit.run.log_stream import is_elsewhere
from taskpit.run.run_directory import RunDirectory, directory_of
from taskpit.run.transcript import readable
from taskpit.store.port import Store
from taskpit.store.run_files import last_log
from taskpit.text import plain

#: How much of a log is shown to begin with, and read at once afterwards.
END, PIECE = 64 * 1024, 256 * 1024


class StoredLog(Value, frozen=True, kw_only=True):
    """What the run of a task on another machine prints, or printed, as the queue has it."""

    store: Store
    task_id: str
    #: Whose run it is: another one's is another log.
    fence: str

    def read(self, start: int, size: int) -> tuple[bytes, int]:
        """So many bytes of it, and how many there are; nothing while the queue does not answer."""
        try:
            return self.store.read_log(self.task_id, start, size)
        except TaskpitError:
            return b"", start


def log_of_task(store: Store, card: Card, *, printed_first: bool = False) -> str | StoredLog:
    """The log of the worker that has it now, else that of its end; empty if there is none.

    Of an agent that is what it says, or with `printed_first` all that it prints, where there are both.
    """
    root = store.info().papers
    if not root:
        return ""
    if card.state is State.CLAIMED:
        claim = Claim(task=card.task, worker=card.worker, fence=card.worker, attempt=card.task.attempts + 1)
        place = RunDirectory(directory_of(store, claim))
        both = (place.events, place.log) if printed_first else (place.log, place.events)
        here = next((path for path in both if fs.file_size(path)), "")
    else:
        kept = last_log(card)
        here = _inside(root, kept) if kept else ""
    elsewhere = is_elsewhere(store) and (card.state is State.CLAIMED or last_log(card))
    return here or (StoredLog(store=store, task_id=card.task.id, fence=card.worker) if elsewhere else "")


def log_of_agent(store: Store, name: str) -> str:
    """What one of the crew has printed; NotFound if there is nobody of that name."""
    root = store.info().papers
    if root and not name.startswith(".") and f"{name}.log" in fs.names(CrewFiles(root).folder):
        return CrewFiles(root).log(name)
    raise NotFound(f"there is no output of a worker called {name}", hint="`pit status` shows who there is.")


def _inside(root: str, path: str) -> str:
    """Where this leads, if that is a plain file in the queue's folder: a task could name any other."""
    fs.wall(root, keep=True)
    real = os.path.normpath(os.path.join(root, path))
    return real if real.startswith(f"{root}/") and fs.file_size(real) else ""


class Tail:
    """One log, read from near its end on."""

    def __init__(self, path: str | StoredLog) -> None:
        self.path = path
        self._at = max((path.read(0, 0)[1] if isinstance(path, StoredLog) else fs.file_size(path)) - END, 0)
        self._cut = self._at > 0
        #: What was told last ends in the middle of a line.
        self._within = False

    def more(self) -> str:
        """What was added since the last look; letters and events that are not whole yet come with the next."""
        data = self._added()
        *lines, rest = data.split(b"\n")
        message = ""
        for line in lines:
            text = line.decode("utf-8", "replace")
            message += "".join(f"{part}\n" for part in ([plain(text)] if self._within else readable(text)))
            self._within = False
        waits = rest.startswith(b"{") and not self._within and len(data) < PIECE  # an event, as far as it goes
        begun = b"" if waits else _whole(rest)
        self._at += len(data) - len(rest) + len(begun)
        self._within = self._within or bool(begun)
        return message + plain(begun.decode("utf-8", "replace"))

    def _added(self) -> bytes:
        data, size = self._read()
        if size < self._at:  # it was begun again
            self._at, self._within = 0, False
            data, _ = self._read()
        if self._cut:  # begin with a whole line
            skipped = data.find(b"\n") + 1
            self._at, data, self._cut = self._at + skipped, data[skipped:], False
        return data

    def _read(self) -> tuple[bytes, int]:
        """What stands behind the last place, and how long the log is."""
        if isinstance(self.path, StoredLog):
            return self.path.read(self._at, PIECE)
        size = fs.file_size(self.path)
        try:
            return fs.piece(self.path, self._at, PIECE) if size > self._at else b"", size
        except OSError:
            return b"", self._at


def _whole(data: bytes) -> bytes:
    """The data without the beginning of a letter at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:  # a letter begins here; is all of it there?
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= length else data[:-back]
    return data
