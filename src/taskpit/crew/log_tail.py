"""Logs as they grow: which file it is, and what was added to it, as people read it.

Reads only inside the queue's folder. Knows no surface: the terminal and the browser show these words.
"""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.crew.state import CrewFiles
from taskpit.errors import NotFound
from taskpit.store.port import Store
from taskpit.task import Card, Claim, State
from taskpit.text import plain
from taskpit.worker.run_directory import RunDirectory, directory_of
from taskpit.worker.transcript import readable

#: How much of a log is shown to begin with, and read at once afterwards.
END, PIECE = 64 * 1024, 256 * 1024


def log_of_task(store: Store, card: Card, *, printed_first: bool = False) -> str:
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
        return next((path for path in both if fs.file_size(path)), "")
    kept = card.result.log if card.result else next((one.log for one in reversed(card.tries) if one.log), "")
    return _inside(root, kept) if kept else ""


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

    def __init__(self, path: str) -> None:
        self.path = path
        self._at = max(fs.file_size(path) - END, 0)
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
        size = fs.file_size(self.path)
        if size < self._at:  # it was begun again
            self._at, self._within = 0, False
        if size == self._at:
            return b""
        try:
            data = fs.piece(self.path, self._at, PIECE)
        except OSError:
            return b""
        if self._cut:  # begin with a whole line
            skipped = data.find(b"\n") + 1
            self._at, data, self._cut = self._at + skipped, data[skipped:], False
        return data


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
