"""What goes on beside the work: leases are renewed, the folder is watched, the queue is swept.

Two threads. One renews and does nothing else, so that nothing can keep it from it. The other sleeps until
the folder changes and sweeps now and then. Both tell the pool through its inbox.
"""

from __future__ import annotations

import os
import threading
import time

from taskpit import keeper
from taskpit.errors import TaskpitError
from taskpit.model import Said
from taskpit.race import RACER_OF
from taskpit.run.attempt import fate
from taskpit.run.lost import settle
from taskpit.run.pool_options import survey
from taskpit.run.run_directory import prune

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue

    from taskpit.queue import Queue
    from taskpit.run.runner import Run
    from taskpit.store.port import Mend

#: Renewals are this far apart at most, so that a cancelled task stops soon whatever the lease.
RENEW_AT_MOST = 5.0
#: A racer looks this often whether another has won in another pool; and so long it has to leave once it is asked to.
RACE_LOOK, RACE_GRACE = 0.5, 0.5
#: Sweeps are this far apart, at least and at most.
SWEEP_AT_LEAST, SWEEP_AT_MOST = 2.0, 30.0
#: A sweep that looks at everything comes again after so many times as long as it took.
LOOK_SHARE = 150.0
#: How long the watcher sleeps before it looks whether it should end: first, while a pool has just run out of work and
#: may be about to end, and twice as long each time, up to this.
FIRST_NAP, NAP = 0.004, 0.25
#: Surveys for the screen are this far apart, and never take more than a tenth of the time; where nothing happens, this.
SURVEY_EVERY, SURVEY_ANYWAY = 1.0, 60.0


class Heartbeat:
    """Keeps the claims of one pool alive, and its queue in order."""

    def __init__(self, queue: Queue, lease: float, inbox: SimpleQueue[object], *, tags: tuple[str, ...] | None) -> None:
        self._queue = queue
        self._lease = lease
        self._inbox = inbox
        #: Whose survey the pool wants to hear; None if it wants none.
        self._tags = tags
        self._runs: dict[str, Run] = {}
        self._turn = threading.Lock()
        self._quit = threading.Event()
        self._bell = threading.Event()
        self._hungry = threading.Event()
        self._sweep_at = self._next_sweep()
        self._look_at = 0.0
        self._survey_at = 0.0
        #: Whether something has happened since the last survey.
        self._news = True
        self._threads = [
            threading.Thread(target=self._renew, name="renewer", daemon=True),
            threading.Thread(target=self._watch, name="keeper", daemon=True),
        ]

    def start(self) -> None:
        """Both threads run."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Both have ended."""
        self._quit.set()
        self._bell.set()
        self._hungry.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def add(self, worker: str, run: Run) -> None:
        """This run's claim is renewed from now on."""
        with self._turn:
            self._runs[worker] = run
            self._news = True

    def drop(self, worker: str) -> None:
        """No longer."""
        with self._turn:
            self._runs.pop(worker, None)
            self._news = True

    def runs(self) -> dict[str, Run]:
        """What runs now, by worker."""
        with self._turn:
            return dict(self._runs)

    def stop_all(self, why: str) -> None:
        """Everything that runs is asked to stop."""
        for run in self.runs().values():
            run.stop(why)

    def look_at_races(self) -> None:
        """A race may be over: its racers here learn that now."""
        self._bell.set()

    def listen(self, *, hungry: bool) -> None:
        """Whether the pool wants to hear of changes."""
        (self._hungry.set if hungry else self._hungry.clear)()

    # -- renewing ----------------------------------------------------------------------------------

    def _renew(self) -> None:
        period = min(self._lease / 3, RENEW_AT_MOST)
        due = time.monotonic() + period
        while True:
            self._bell.wait(min(period, RACE_LOOK, max(due - time.monotonic(), 0.0)))
            self._bell.clear()
            if self._quit.is_set():
                return
            everybody = time.monotonic() >= due
            due = time.monotonic() + period if everybody else due
            for worker, run in self.runs().items():
                if not everybody and RACER_OF not in run.claim.task.extra:
                    continue
                try:
                    self._renew_one(worker, run)
                except TaskpitError:
                    continue  # the disk refuses for a moment: that is no loss, the next turn will tell
                except Exception as error:
                    self._inbox.put(f"{run.claim.task.id} could not be renewed: {error}")

    def _renew_one(self, worker: str, run: Run) -> None:
        said = self._queue.renew(run.claim, self._lease)
        if said is Said.OK or self.runs().get(worker) is not run:
            return
        if said is Said.CANCEL:
            run.stop("cancel", RACE_GRACE if RACER_OF in run.claim.task.extra else None)
        elif fate(run.claim, self._queue.store.read([run.claim.task.id])[0]) == "lost":
            run.stop("lost")

    # -- watching and sweeping ---------------------------------------------------------------------

    def _watch(self) -> None:
        nap = FIRST_NAP
        while not self._quit.is_set():
            try:
                nap = min(2 * nap, NAP) if self._hungry.is_set() else FIRST_NAP
                if self._hungry.wait(NAP) and self._queue.store.wait(nap):
                    self._inbox.put("changed")
                    self._news = True
                now = time.monotonic()
                if now >= self._sweep_at:
                    for mend in self.sweep():
                        self._inbox.put(mend)
                due = self._survey_at if self._news else self._survey_at + SURVEY_ANYWAY
                if self._tags is not None and now >= due:
                    self._survey(self._tags)
            except Exception as error:  # no trouble may end the watch; the pool goes on looking by itself
                self._inbox.put(f"the keeper had trouble: {error}")
                self._quit.wait(1.0)

    def _next_sweep(self) -> float:
        """Spread, so that many pools don't sweep at once."""
        period = min(max(self._lease / 4, SWEEP_AT_LEAST), SWEEP_AT_MOST)
        return time.monotonic() + period * (0.75 + os.urandom(1)[0] / 510)

    def sweep(self) -> list[Mend]:
        """What was abandoned is given back each time; a look at everything takes no more than a part of the time."""
        began, self._sweep_at = time.monotonic(), self._next_sweep()
        whole = began >= self._look_at
        mends = keeper.sweep(self._queue, whole=whole, ended=settle)
        if whole:
            prune(self._queue.store, max(self._queue.config.compost, 600.0))
            self._look_at = time.monotonic() + LOOK_SHARE * (time.monotonic() - began)
        return mends

    def _survey(self, tags: tuple[str, ...]) -> None:
        began, self._news = time.monotonic(), False
        self._inbox.put(survey(self._queue, tags))
        took = time.monotonic() - began
        self._survey_at = time.monotonic() + max(SURVEY_EVERY, 10 * took)
