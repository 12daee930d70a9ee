"""What runs print goes to the queue while they print it, where the queue is not on this machine: in pieces.

A store knows by the place of a piece whether it is there already, so one that was sent and not answered is sent again.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress

from taskpit import fs
from taskpit.errors import TaskpitError, TooLarge
from taskpit.store.run_files import LARGEST_PIECE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from taskpit.run.runner import Run
    from taskpit.store.port import Store

#: How often it is looked for more, in seconds.
EVERY = 2.0


def is_elsewhere(store: Store) -> bool:
    """Whether people who look at this queue may be on another machine than its runs."""
    return store.info().kind in ("postgres", "remote")


class LogStream:
    """The log of one run."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self._run = run
        self._turn = threading.Lock()
        self._sent = 0
        #: Of what was sent: by it the log at the end is known as the one that was begun.
        self._digest = hashlib.sha256()
        self._full = False
        self._over = False
        self._kept = ""

    def step(self) -> None:
        """What was printed since the last look is sent."""
        with self._turn:
            if self._over:
                return
            with suppress(OSError):  # nothing was printed yet, or something else stands there
                while not self._full and (data := self._more()):
                    self._send(data)

    def _more(self) -> bytes:
        place = self._run.place
        for path in (place.log, place.events):
            found = fs.status(path)
            if found is not None and found.st_size:
                if found.st_size < self._sent:  # its beginning was cut
                    self._again()
                return fs.piece(path, self._sent, LARGEST_PIECE)
        return b""

    def _again(self) -> None:
        self._store.add_log(self._run.claim, 0, b"")
        self._sent, self._digest = 0, hashlib.sha256()

    def _send(self, data: bytes) -> None:
        try:
            there = self._store.add_log(self._run.claim, self._sent, data)
        except TooLarge:
            self._full = True  # its end is kept when it is over
            return
        if there < self._sent:  # a store that was restored, or lost its last moments
            self._again()
            return
        self._sent += len(data)
        self._digest.update(data)

    def end(self, data: bytes) -> str:
        """This is all of it; where it is kept. Only what is not there yet is sent."""
        with self._turn:
            if not self._over:
                self._over = True
                self._kept = self._end(data)
            return self._kept

    def _end(self, data: bytes) -> str:
        if not self._sent or self._full:
            return self._store.keep_log(self._run.claim.worker, data) if data else ""
        if hashlib.sha256(data[: self._sent]).digest() != self._digest.digest():
            self._again()
        while self._sent < len(data) and not self._full:
            self._send(data[self._sent : self._sent + LARGEST_PIECE])
        if self._full:
            return self._store.keep_log(self._run.claim.worker, data)
        return self._store.end_log(self._run.claim)


class LogStreams(threading.Thread):
    """Looks after the logs of all that runs; a gateway that does not answer holds up nobody else."""

    def __init__(self, runs: Callable[[], Mapping[str, Run]]) -> None:
        super().__init__(name="logs", daemon=True)
        self._runs = runs
        self._quit = threading.Event()

    def run(self) -> None:
        """Until it is closed."""
        while not self._quit.wait(EVERY):
            for one in self._runs().values():
                with suppress(TaskpitError):  # the next look sends what this one could not
                    if one.stream is not None:
                        one.stream.step()

    def close(self) -> None:
        """It looks no more."""
        self._quit.set()
