"""The queue's lock: our own processes change the queue one at a time.

The lock is there for plain code, not for safety: every decision is one link or rename, so programs that do not know the
lock can never make two claims or two results.

Its text is `busy <boot> <pid> <verb> <count>` while it is held, then `idle <boot> <count>`. A holder that reads
anything but `idle` and the current boot completes what its predecessor left in pending/ before its own work. The count
grows with each hold: a reader that finds the same count before and after has seen a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from taskpit.clock import Clock
from taskpit.errors import Invalid, Unavailable
from taskpit.store.plain.files import Files, LockFile
from taskpit.store.plain.paths import LOCK

#: How long a holder is waited for, in seconds, and the pauses between two tries.
PATIENCE, FIRST_PAUSE, LONGEST_PAUSE = 10.0, 0.00005, 0.002
#: Bytes of its text: always as many, so that it is replaced whole.
LENGTH = 128
#: How often the file is compared with its name, in seconds.
COMPARE = 1.0


class QueueLock:
    """The lock of one store. Threads of the process take turns at it."""

    def __init__(self, files: Files, clock: Clock, recover: Callable[[], object]) -> None:
        self._files = files
        self._clock = clock
        self._recover = recover
        self._mutex = clock.mutex()
        self._process = files.process()
        self._boot = clock.boot().replace(" ", "-")
        self._handle: LockFile | None = None
        self._compared = 0.0
        self._count = 0
        #: How often a hold began with a recovery: a listing made before it is out of date.
        self.recoveries = 0

    def check_process(self) -> None:
        """Invalid in a child that inherited the open queue by a fork."""
        if self._files.process() != self._process:
            raise Invalid("this queue was opened before a fork", hint="Open it in the child.")

    @contextmanager
    def hold(self, verb: str) -> Iterator[None]:
        """Change the queue alone. Unavailable after 10 seconds; nothing was changed then.

        An error inside leaves `busy` in the text, so that the next holder completes what was decided.
        """
        self.check_process()
        with self._mutex:
            handle = self._take()
            try:
                self._begin(handle, verb)
                yield
                handle.write(self._text(f"idle {self._boot} {self._count}"))
            finally:
                handle.drop()

    def read_count(self) -> int:
        """Return the count of the last hold, or of the one under way."""
        try:
            words = self._files.read(LOCK, 4096)[0].split()
            return int(words[-1])
        except (OSError, ValueError, IndexError):
            return -1

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _begin(self, handle: LockFile, verb: str) -> None:
        words = handle.read().decode("utf-8", "replace").split()
        clean = words[:2] == ["idle", self._boot]
        self._count = (int(words[-1]) if words and words[-1].isdecimal() else 0) + 1
        handle.write(self._text(f"busy {self._boot} {self._process} {verb} {self._count}"))
        if not clean:
            self.recoveries += 1
            self._recover()

    def _text(self, words: str) -> bytes:
        return words.encode().ljust(LENGTH - 1) + b"\n"

    def _take(self) -> LockFile:
        deadline, pause = self._clock.monotonic() + PATIENCE, FIRST_PAUSE
        while True:
            handle = self._open()
            if handle.take():
                now = self._clock.monotonic()
                if now - self._compared < COMPARE or handle.is_current():
                    self._compared = now if now - self._compared >= COMPARE else self._compared
                    return handle
                self.close()  # another program replaced the file: its new file is the lock
                continue
            if self._clock.monotonic() >= deadline:
                raise self._refusal(handle)
            self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _open(self) -> LockFile:
        if self._handle is None:
            self._handle = self._files.lock_file(LOCK)
            self._compared = -COMPARE
        return self._handle

    def _refusal(self, handle: LockFile) -> Unavailable:
        words = handle.read().decode("utf-8", "replace").split()
        if len(words) != 5:
            return Unavailable("another process has held the queue's lock for more than 10 s; nothing was changed")
        _, _, pid, verb, _ = words
        return Unavailable(
            f"process {pid} ({verb}) has held the queue's lock for more than 10 s; nothing was changed",
            hint=f"If it is stopped, continue it (kill -CONT {pid}) or end it.",
            pid=pid,
        )
