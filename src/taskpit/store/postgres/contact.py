"""Contact with the server: for how long this process has had it, and noting it for all others.

A lease that expired while its holder could not renew it must not be taken away. So every claim lasts at least one
lease after an outage: a gap in the contact of all (a row in the queue's schema), or a break in that of this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from taskpit.errors import TaskpitError

#: Shorter gaps break no contact: the tenth of a lease of one second. See also `note_contact` in the SQL.
SHORTEST = 0.1
#: A break counts for leases that are shorter than so many times its length.
SHARE = 10
#: Contact is noted so often for each lease, and at least this often, in seconds.
NOTES_PER_LEASE, NOTE_AT_LEAST, NOTE_AT_MOST = 20, 5.0, 0.05


class Contact:
    """Breaks in the contact of this process, on its own monotonic clock."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._failed = False
        #: End and length of each break; each is shorter than the one before.
        self._breaks: list[tuple[float, float]] = []
        self._turn = threading.Lock()

    def failed(self) -> None:
        """The server was not reached."""
        self._failed = True

    def succeeded(self, began: float) -> None:
        """A statement that began then was answered now."""
        now = time.monotonic()
        with self._turn:
            silence = now - (min(self._last, began) if self._failed else began)
            self._last, self._failed = now, False
            if silence > SHORTEST:
                self._breaks = [each for each in self._breaks if each[1] > silence]
                self._breaks.append((now, silence))

    def lasts(self, seconds: float) -> bool:
        """Whether it has lasted for a lease of so many seconds, or since this process began."""
        ends = [end for end, silence in self._breaks if SHARE * silence > seconds]
        return not ends or time.monotonic() - ends[-1] >= seconds


class ContactKeeper:
    """Notes contact again and again while workers have joined, so that every gap in the notes is an outage."""

    def __init__(self, note: Callable[[], object], leases: Callable[[], list[float]]) -> None:
        self._note = note
        self._leases = leases
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._run, name="contact keeper", daemon=True)

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """Stop the thread. One that waits for the server ends with the process."""
        self._quit.set()

    def _run(self) -> None:
        while not self._quit.wait(self._pause()):
            if self._leases():
                try:
                    self._note()
                except TaskpitError:
                    continue  # the gap is noted once the server is back

    def _pause(self) -> float:
        shortest = min(self._leases(), default=NOTE_AT_LEAST)
        return max(min(shortest / NOTES_PER_LEASE, NOTE_AT_LEAST), NOTE_AT_MOST)
