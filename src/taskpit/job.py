"""A claimed task in the hands of a program: kept while it works, ended when it leaves. Knows one claim.

    with holding(queue, claim) as job:
        ...                       # renewed meanwhile, by a thread
        job.check()               # where stopping is easy: Lost if another worker has the task by now
        job.output = "what came out of it"

Left in good order the task is done, once its own check is green; left by an exception it has failed, with
the trace; left by an interrupt or a cancellation it goes back as it was.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager

from taskpit.errors import CheckFailed, Lost, Storage, Unknown, Untrusted
from taskpit.rules import check_mode
from taskpit.task import Done, Failed, Release, Said
from taskpit.worker.check import run_check
from taskpit.worker.slot import crashed, end_claim, fate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from taskpit.queue import Queue
    from taskpit.task import Claim, Outcome, Task

__all__ = ["Job", "holding"]

#: A claim is renewed this often in a lease, and after so many seconds at most: a cancelled task stops soon.
RENEWALS, RENEW_AT_MOST = 3, 5.0


class Job:
    """One claim as the program that works on it sees it."""

    def __init__(self, claim: Claim, why: Callable[[], str]) -> None:
        self.claim = claim
        self._why = why
        #: What is published when it is done.
        self.output = ""
        #: How it should end, if not done: Failed, Retry, Release, Split, Ask.
        self.outcome: Outcome | None = None

    @property
    def task(self) -> Task:
        """What is to be done."""
        return self.claim.task

    @property
    def stopping(self) -> str:
        """Why to stop: `lost`, `cancel` (a person takes it back) or `stop` (the pool ends); empty: go on."""
        return self._why()

    @property
    def lost(self) -> bool:
        """Whether another worker has the task by now: what comes out of this work will be kept aside."""
        return self.stopping == "lost"

    def check(self) -> None:
        """Go on, if nothing is said; Lost if there is no use in it."""
        why = self.stopping
        if why:
            raise _over(self.task.id, why)


def _over(task_id: str, why: str) -> Lost:
    facts = {
        "lost": f"another worker holds {task_id} by now; your result is kept aside",
        "cancel": f"{task_id} was cancelled",
        "stop": f"the work on {task_id} is to stop",
    }
    return Lost(facts[why], hint=f"`pit why {task_id}` says more.", id=task_id, why=why)


class _Keeping:
    """Renews one claim until it is told to stop, and knows why the work should."""

    def __init__(self, queue: Queue, claim: Claim) -> None:
        self.why = ""
        self._queue, self._claim = queue, claim
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeps {claim.task.id}", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        period = min((self._claim.lease or self._queue.config.lease) / RENEWALS, RENEW_AT_MOST)
        while not self._left.wait(period):
            try:
                said = self._queue.renew(self._claim)
                if said is Said.LOST and self._fate() == "lost":
                    self.why = "lost"
                    return
            except Storage:
                continue  # the disk refuses for a moment: that is no loss, the next turn will tell
            if said is Said.CANCEL:
                self.why = self.why or "cancel"

    def _fate(self) -> str:
        return fate(self._claim, self._queue.store.read([self._claim.task.id])[0])

    def is_ended_already(self) -> bool:
        """Whether the program itself, or what it started, has ended this very claim."""
        return self._fate() == "itself"

    def stop(self) -> None:
        """No further renewal."""
        self._left.set()
        self._thread.join()


@contextmanager
def holding(queue: Queue, claim: Claim, check_in: str | None = None) -> Iterator[Job]:
    """The claim is kept while the body works and ended when it leaves; `check_in`: where its check is run.

    Leaving raises what went wrong with the end: CheckFailed, Lost, or Unknown if the store could not be written.
    """
    keeping = _Keeping(queue, claim)
    job = Job(claim, lambda: keeping.why)
    try:
        if check_in is not None and check_mode(claim.task) != "disabled":
            queue.need_trust()
        yield job
        outcome = _checked(queue, job, job.outcome or Done(output=job.output), check_in)
    except BaseException as error:
        blamed = isinstance(error, Exception) and not isinstance(error, Untrusted)
        outcome = crashed(error) if blamed else _interrupted(error)
        trouble = _end(queue, keeping, job, outcome)
        if trouble is not None and not isinstance(error, Lost):
            error.add_note(trouble.message)
        raise
    trouble = _end(queue, keeping, job, outcome)
    if trouble is not None:
        raise trouble


def _interrupted(error: BaseException) -> Release:
    return Release(reason=f"its worker was interrupted ({type(error).__name__})")


def _checked(queue: Queue, job: Job, outcome: Outcome, check_in: str | None) -> Outcome:
    """Done counts only once the task's own check is green; the claim is still renewed while it runs."""
    mode = check_mode(job.task)
    if not isinstance(outcome, Done) or check_in is None or mode == "disabled" or job.stopping:
        return outcome
    env = {**os.environ, "TASKPIT_TASK": job.task.id, "TASKPIT_AS": job.claim.fence}
    evidence = run_check(job.task.check, check_in, queue.config.check_limit, env)
    if evidence.green or mode == "lenient":
        return outcome.replace(evidence=evidence)
    text = f"the check is red (exit code {evidence.exit_code}): {evidence.tail[-500:] or job.task.check}"
    return Failed(error=text, kind="check", output=outcome.output, evidence=evidence)


def _end(queue: Queue, keeping: _Keeping, job: Job, outcome: Outcome) -> CheckFailed | Lost | Unknown | None:
    """The claim has ended this way; what the program should hear of it."""
    keeping.stop()
    task_id = job.task.id
    if job.stopping == "cancel" and not isinstance(outcome, Release):
        outcome = Failed(error="cancelled", cancelled=True)
    word, details = end_claim(queue, job.claim, outcome)
    if word == "lost" and not keeping.is_ended_already():
        keeping.why = "lost"
        return _over(task_id, "lost")
    if word == "unsaved":
        return Unknown(f"the end of {task_id} could not be written: {details}", id=task_id)
    if job.stopping == "cancel":
        return _over(task_id, "cancel")
    if isinstance(outcome, Failed) and outcome.kind == "check":
        return CheckFailed(outcome.error, hint=f"`pit why {task_id}` says what is next.", id=task_id)
    return None
