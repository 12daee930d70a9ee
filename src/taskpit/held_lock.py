"""Having a name while something runs: waits for it, keeps it, and lets it go. Knows the port's locks, no files.

    with queue.lock("deploy", ttl=1800, wait=60) as held:
        ...                       # renewed meanwhile, by a thread
        held.check()              # before each step that must not happen twice: Lost if it was taken over
        publish(fence=held.number)

A lock is no proof by itself: a holder that is stopped for longer than `ttl` may go on believing in it. So its
number grows with every holder, and what it protects should refuse a smaller one than it has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from taskpit import fs, workers
from taskpit.clock import Clock
from taskpit.errors import Lost, Storage, TaskpitError, Unavailable
from taskpit.model import Lock, Said
from taskpit.store.port import Locks

#: How long a waiting one lets pass before it looks again, at first and at most, in seconds.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
#: A lock is renewed this often in its time, and what the disk refused is tried again this often between two.
RENEWALS = 3


def one_of(worker: str = "") -> str:
    """A holder's name that nobody else has: two commands of one user keep each other out."""
    return f"{workers.base(worker or workers.default_worker())}{workers.MARK}{fs.fresh_name()}"


class NamedLock:
    """One name, held from entering until leaving; renewed by a thread of its own."""

    def __init__(
        self,
        store: Locks,
        clock: Clock,
        name: str,
        worker: str,
        *,
        ttl: float,
        wait: float = 0.0,
        kind: str = "",
        when_lost: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self.name = name
        self.worker = worker
        self.ttl = ttl
        self._wait = wait
        self._kind = kind
        self._when_lost = when_lost
        self._lock: Lock | None = None
        self._turn = threading.Lock()
        self._left = threading.Event()
        self._thread: threading.Thread | None = None
        #: Whether another has the name, as far as we know.
        self.lost = False
        #: Until when it is surely ours, by the monotonic clock: counted from before it was asked for.
        self.deadline = 0.0

    def __enter__(self) -> Self:
        self.acquire()
        self._thread = threading.Thread(target=self._keep, name=f"lock {self.name}", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if kind is None:
            self.release()
        else:
            with suppress(Storage, Lost):  # what went wrong inside is the news; the lock ends by itself
                self.release()

    @property
    def lock(self) -> Lock:
        """All that is known of it; Lost before it was had."""
        if self._lock is None:
            raise Lost(f"{self.name} is not held", id=self.name)
        return self._lock

    @property
    def number(self) -> int:
        """The fencing number: larger than that of everybody who had the name before."""
        return self.lock.number

    def acquire(self) -> Lock:
        """The name is ours; Lost names who has it, once we have waited long enough."""
        until, pause = self._clock.monotonic() + self._wait, FIRST_PAUSE
        while True:
            try:
                return self._ask()
            except (Lost, Unavailable):
                left = until - self._clock.monotonic()
                if left <= 0:
                    raise
                self._clock.sleep(min(left, pause))
                pause = min(pause * 2, LONGEST_PAUSE)

    def _ask(self) -> Lock:
        """The name is ours and still has time: a holder that was stopped while asking looks again."""
        began = self._clock.monotonic()
        self._lock = self._store.lock(self.name, self.worker, self.ttl, self._kind)
        self.deadline, self.lost = began + self.ttl, False
        if self._clock.monotonic() >= self.deadline:
            self.check()
        return self._lock

    def renew(self) -> bool:
        """It lasts another while; False if another has it, or had it."""
        with self._turn:
            began = self._clock.monotonic()
            if not self.lost and self._store.relock(self.lock, self.ttl) is Said.OK:
                self.deadline = began + self.ttl
                return True
            self.lost = True
            return False

    def check(self) -> None:
        """It is ours, now and for a while; Lost if it was taken over."""
        if not self.renew():
            raise self._taken()

    def release(self) -> None:
        """The name is free if it was still ours; Lost if another had it meanwhile."""
        with self._turn:
            if self._lock is not None and (self.lost or self._store.unlock(self._lock) is Said.LOST):
                self.lost = True
                raise self._taken()

    def _taken(self) -> Lost:
        text = f"{self.name} was taken over: {self.worker} no longer has it"
        return Lost(text, hint="`pit lock` shows who has it. Nothing of theirs was changed.", id=self.name)

    def _keep(self) -> None:
        """Renew until we leave or have lost it; what the disk or a gateway refuses is tried again sooner."""
        pause = self.ttl / RENEWALS
        while not self._left.wait(pause):
            try:
                kept = self.renew()
                pause = self.ttl / RENEWALS
            except TaskpitError:
                kept, pause = True, self.ttl / RENEWALS / RENEWALS
            if not kept:
                if self._when_lost is not None:
                    self._when_lost()
                return
