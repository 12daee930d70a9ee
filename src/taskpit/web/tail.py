"""Logs as they grow: which file it is, and what was added to it. Reads only inside the queue's folder."""

from __future__ import annotations

import os
import stat

from taskpit import fs
from taskpit.errors import NotFound
from taskpit.task import State
from taskpit.text import plain
from taskpit.worker.crew import Papers
from taskpit.worker.place import Place, directory_of
from taskpit.worker.spoken import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.queue import Queue

__all__ = ["Tail", "log_of_agent", "log_of_task"]

#: A file of events, one on each line: what it says is shown, not how it is written.
EVENTS = "/events"
#: How much of a log is shown to begin with, and read at once afterwards.
END, PIECE = 32 * 1024, 256 * 1024


def log_of_task(queue: Queue, task_id: str) -> str:
    """The log of whoever works on it now, else that of its end; empty if there is none."""
    info = queue.store.info()
    card = queue.card(task_id)
    if info.kind != "files":
        return ""
    if card.state is State.CLAIMED:
        place = Place(directory_of(queue.store, queue.holding(task_id, card.worker)))
        return next((path for path in (place.log, place.events) if _size(path)), "")  # its words, else what it prints
    kept = card.result.log if card.result else next((one.log for one in reversed(card.tries) if one.log), "")
    return inside(info.where, kept) if kept else ""


def log_of_agent(queue: Queue, name: str) -> str:
    """What one of the crew has printed; NotFound if there is nobody of that name."""
    info = queue.store.info()
    if info.kind == "files" and not name.startswith(".") and f"{name}.log" in fs.names(Papers(info.where).folder):
        return Papers(info.where).log(name)
    raise NotFound(f"nobody called {name} has printed anything here", hint="`pit status` shows who there is.")


def inside(root: str, path: str) -> str:
    """Where this leads, if that is a plain file in the queue's folder: a task could name any other."""
    real, home = os.path.realpath(os.path.join(root, path)), os.path.realpath(root)
    return real if real.startswith(home + os.sep) and _size(real) else ""


def _size(path: str) -> int:
    """How many bytes a plain file has; 0 for all that is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


class Tail:
    """One log, read from near its end on."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._at = max(_size(path) - END, 0)
        self._cut = self._at > 0

    def more(self) -> str:
        """What was added since the last look; letters and events that are not whole yet come with the next."""
        size = _size(self.path)
        if size < self._at:  # somebody began it anew
            self._at = 0
        if size == self._at:
            return ""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._at)
                data = file.read(PIECE)
        except OSError:
            return ""
        if self._cut:  # begin with a whole line
            skipped = data.find(b"\n") + 1
            self._at, data, self._cut = self._at + skipped, data[skipped:], False
        if self.path.endswith(EVENTS):
            whole = data[: data.rfind(b"\n") + 1]
            lines = whole.decode("utf-8", "replace").splitlines()
            text = "".join(f"{told}\n" for line in lines for told in readable(line))
        else:
            whole = _whole(data)
            text = plain(whole.decode("utf-8", "replace"))
        self._at += len(whole)
        return text


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
