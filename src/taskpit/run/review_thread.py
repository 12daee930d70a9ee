"""Reviews by an agent: a pool's reviewer takes a change that waits for one, is asked, and its verdict ends the claim.

    approve      noted in our own repository; it waits for nothing but landing
    send-back    the builder's, with the reviewer's words below the task; no attempt is spent
    no verdict   asked once more; then it waits for a person
    trouble      the agent has reached a limit, there is no clone: it waits as before and is tried again later

The task is claimed as any other, under the reviewer's own name: it shows as running, and a reviewer that dies gives it
back. It is the same task, so nothing that a reviewer does is an attempt of the builder's.
"""

from __future__ import annotations

import time

from taskpit import fs
from taskpit.errors import Invalid, Storage, TaskpitError
from taskpit.landing import reviewer
from taskpit.landing.repository import remove
from taskpit.landing.values import held
from taskpit.model import Done, Failed, Release, Retry, Want
from taskpit.run.agent_limits import gate_for
from taskpit.run.attempt import RunHands, crashed, what_became
from taskpit.run.process import CannotRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.landing.pipe import LandingPipe
    from taskpit.landing.values import HandIn
    from taskpit.model import Claim, Outcome
    from taskpit.queue import Queue
    from taskpit.run.pool_options import PoolOptions
    from taskpit.run.runner import Run, Runner

#: How often a reviewer is asked for one verdict, and how often a review that cannot begin is tried.
ASKED, TRIES = 2, 3
#: Fields by which a task says who builds it.
BUILDERS = ("agent", "model")
#: Seconds until a review that met with trouble is tried again.
LATER = 30.0


class Reviews:
    """The reviews of one pool, by one runner."""

    def __init__(self, queue: Queue, pipe: LandingPipe, runner: Runner, tags: Sequence[str]) -> None:
        self.runner = runner
        self.gate = gate_for(queue, runner)
        self._queue = queue
        self._pipe = pipe
        self._tags = tuple(tags)
        #: What waits for our reviewer, as last seen.
        self.known: frozenset[str] = frozenset()
        self._later: dict[str, float] = {}
        self._trouble: dict[str, int] = {}

    def take(self, worker: str, lease: float) -> Claim | None:
        """A change to judge, claimed; None if none waits for this worker."""
        try:
            waiting = reviewer.to_review(self._queue, self._pipe, worker, self._tags)
        except (Storage, OSError):
            return None
        self.known = frozenset(one.task for one in waiting)
        for handed in waiting:
            if self._later.get(handed.task, 0.0) > time.monotonic():
                continue
            want = Want(worker=worker, lease=lease, ids=(handed.task,), even_held=True)
            for claim in self._queue.store.claim(want):
                if reviewer.fits(claim.task, handed, worker):
                    return claim
                self._queue.finish(claim, Release(reason="it does not wait for a reviewer any more"))
        return None

    def judge(self, queue: Queue, run: Run, runner: Runner, options: PoolOptions) -> tuple[Outcome, str, str]:
        """The change is judged; how the claim ends. In the run's thread."""
        del options
        claim, handed = run.claim, None
        try:
            handed = self._pipe.hand_in_of(claim.task.id)
            if handed is None or not reviewer.fits(claim.task, handed, claim.worker):
                return Release(reason="it does not wait for a reviewer any more"), "", ""
            if handed.approved:  # a reviewer died after its verdict was noted
                return held(claim.task, handed), "", ""
            self._prepare(run)
            run.cwd = self._pipe.clones.for_review(handed, RunHands(run))
        except (TaskpitError, OSError) as error:
            return self._troubled(claim, handed, str(error)), "", ""
        try:
            return self._verdict(queue, run, runner, handed)
        finally:
            remove(run.cwd)

    def _prepare(self, run: Run) -> None:
        run.role = "review"
        if run.sandbox is not None:  # its clone borrows the objects of ours
            run.sandbox = run.sandbox.replace(shown=(self._pipe.git.directory,))
        # Its name without what ends the claim: a verdict is all that a reviewer has to say about the task.
        run.variables |= {"TASKPIT_SLOT": str(run.slot), "TASKPIT_AS": run.claim.worker, "TASKPIT_ROLE": "reviewer"}
        run.prepare()

    def _verdict(self, queue: Queue, run: Run, runner: Runner, handed: HandIn) -> tuple[Outcome, str, str]:
        claim, refused = run.claim, ""
        for _ in range(ASKED):
            question = reviewer.ask(self._pipe, claim.task, handed, run.place.result, refused)
            fs.remove(run.place.result)
            fs.write(run.place.prompt, question.encode("utf-8", "replace"))
            outcome = _run(runner, run)
            gone, details = what_became(queue, run)
            if gone or run.stopping:
                return Release(reason="its worker was asked to stop"), gone, details
            if isinstance(outcome, Retry):
                return self._put_off(claim, outcome), "", ""
            if isinstance(outcome, Done):
                self.gate.worked()
            try:
                answer = reviewer.read_answer(self._pipe, handed, _said(run, outcome))
                most = queue.config.choke
                return reviewer.conclude(self._pipe, claim, handed, answer, run.cost, most), "", ""
            except Invalid as error:
                refused = error.message
                run.say(f"no verdict: {refused}")
            except (TaskpitError, OSError) as error:
                return self._troubled(claim, handed, str(error)), "", ""
        return reviewer.asks_person(claim.task, handed, refused), "", ""

    def _put_off(self, claim: Claim, retry: Retry) -> Release:
        """Nobody's fault: the backend rests if it knows how, the change waits as before."""
        after = self.gate.put_off(retry).after
        self._later[claim.task.id] = time.monotonic() + (after or LATER)
        return Release(reason=retry.reason)

    def _troubled(self, claim: Claim, handed: HandIn | None, why: str) -> Release:
        """Tried again later, and then told to a person, the candidate kept."""
        task_id = claim.task.id
        count = self._trouble[task_id] = self._trouble.get(task_id, 0) + 1
        if count < TRIES or handed is None:
            self._later[task_id] = time.monotonic() + LATER
            return Release(reason=why)
        del self._trouble[task_id]
        return reviewer.asks_person(claim.task, handed, why)


def _run(runner: Runner, run: Run) -> Outcome:

    task = run.claim.task
    extra = {key: value for key, value in task.extra.items() if key not in BUILDERS}
    try:
        return runner(run.claim.replace(task=task.replace(extra=extra)), run)
    except CannotRun:
        raise
    except Exception as error:  # a callable may throw anything, and the slot goes on
        return crashed(error)


def _said(run: Run, outcome: Outcome) -> str:
    """The reviewer's words; Invalid if it has none that count."""
    if isinstance(outcome, Failed):
        raise Invalid(f"the reviewer ended without one: {outcome.error}")
    if not isinstance(outcome, Done):
        raise Invalid("the reviewer gave it back without one")
    if run.tools == 0 and not run.has_result:
        raise Invalid("you have looked at nothing: read the files and run something before you judge")
    return outcome.output
