"""One claim from its run to its end: down a list of steps, through the run, up the list again. Runs in a thread.

    before_run   each step in order; one that returns an outcome settles the task without a run
    the runner   if no step settled it
    after_run    each step that was begun, in reverse order; each may change the outcome
    before_end   each step that was begun, whatever happened, while the claim is held
    on_end       each step that was begun, once the claim has ended

A run that was stopped, or that ended its own claim, skips `after_run`. What the end leads to is policy.

    error in a step               leads to
    Stopped                       the claim is given back
    CannotRun                     no attempt; the pool ends and says why
    TaskpitError, OSError         no attempt; tried again later
    anything else                 no attempt; the task is held with the trace, and the pool goes on
"""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from taskpit.errors import Storage, TaskpitError
from taskpit.landing.values import Stopped
from taskpit.model import (
    Card,
    Claim,
    Done,
    End,
    Evidence,
    Failed,
    Outcome,
    Release,
    Retry,
    Said,
    State,
    Task,
    Try,
    Value,
)
from taskpit.policy import in_vain, pause, question_of
from taskpit.run.allowed import allowed
from taskpit.run.process import CannotRun, run_check

if TYPE_CHECKING:
    from taskpit.queue import Queue
    from taskpit.run.pool_options import PoolOptions
    from taskpit.run.runner import Run, Runner

#: How often the end of a claim is tried when the disk refuses, and how long the first pause is.
TRIES, FIRST_PAUSE = 6, 0.1
#: A pool waits this many seconds for room for a result, looking at least this often, and never beyond half the lease,
#: which is not renewed by then.
WAIT_FOR_ROOM, LONGEST_PAUSE = 300.0, 5.0
#: Errors that no time mends: a link, a file or a directory is where something else should be.
IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL)
#: So much of a hold's reason is kept, and so much of a trace.
LONGEST_HOLD, LONGEST_TRACE = 700, 1500

#: What people call the end of a claim, by the changelog's word for it.
WORDS = {
    "completed_task": "done",
    "failed_task": "failed",
    "cancelled_task": "cancelled",
    "retried_task": "retry",
    "choked_task": "stuck",
    "released_task": "released",
    "split_task": "split",
    "asked": "asked",
    "blocked": "held",
    "handed_in": "handed in",
    "pull_request": "pull request",
    "approved": "approved",
    "sent_back": "sent back",
}


class ClaimEnd(Value, frozen=True, kw_only=True):
    """How a claim of ours ended."""

    claim: Claim
    #: One of WORDS; itself: the command ended the claim; lost: it was another worker's by then; unsaved: the store
    #: could not be written.
    word: str
    details: str = ""
    seconds: float = 0.0
    #: Why no further task should be tried, if so.
    fatal: TaskpitError | None = None
    #: Type and place of an unexpected exception of ours.
    mistake: str = ""


class Step:
    """Something that happens around a run."""

    def before_run(self, attempt: Attempt) -> Outcome | None:
        """Prepare the run, or settle the task without one."""

    def after_run(self, attempt: Attempt, outcome: Outcome) -> Outcome:  # noqa: ARG002 - others read it
        """Change the outcome, or return it as it is."""
        return outcome

    def before_end(self, attempt: Attempt, outcome: Outcome) -> None:
        """Keep what must be kept before the claim ends."""

    def on_end(self, attempt: Attempt, word: str) -> None:
        """Tidy up once the claim has ended, with this word."""


class Attempt:
    """One claim on its way through the steps."""

    def __init__(self, queue: Queue, run: Run, runner: Runner, options: PoolOptions) -> None:
        self.queue = queue
        self.run = run
        self.runner = runner
        self.options = options
        self.began = time.monotonic()
        #: Paragraphs below the task in its prompt.
        self.paragraphs: list[str] = []
        #: The outcome of the run alone; None if a step settled the task.
        self.ran: Outcome | None = None
        #: What became of the claim if it is gone, and the details.
        self.gone, self.details = "", ""
        #: Whether the prompt is read; one that need not be written is half of the cost of a short command.
        self.wants_prompt = bool(getattr(runner, "reads_prompt", True))
        #: Whether its cost is in the ledger.
        self.is_paid = False
        self._tries: Sequence[Try] | None = None

    @property
    def task(self) -> Task:
        """The task."""
        return self.run.claim.task

    @property
    def tries(self) -> Sequence[Try]:
        """What was tried before."""
        if self._tries is None:
            card = self.queue.store.read([self.task.id])[0]
            self._tries = card.tries if card else ()
        return self._tries

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.began

    def hold(self, reason: str) -> Release:
        """Hold the task until a person has looked; no attempt is spent."""
        text = " ".join(reason.split())[:LONGEST_HOLD]
        return Release(reason=text, task=self.task.replace(hold=text), action="blocked")

    def keep_log(self) -> str:
        """Keep the output where the queue keeps logs; return where."""
        try:
            data = self.run.place.read_log()
            if self.run.stream is not None:
                return self.run.stream.end(data)
            return self.queue.store.keep_log(self.run.claim.worker, data) if data else ""
        except (TaskpitError, OSError):
            return ""

    def look(self) -> bool:
        """Whether the claim is still ours; notes what became of it otherwise."""
        self.gone, self.details = what_became(self.queue, self.run)
        return not self.gone


class RunHands:
    """Runs set-ups and checks for one run: its environment, its bell."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def run(self, command: str, directory: str, limit: float, log: str = "", env: Iterable[str] = ()) -> Evidence:
        """Run a command and return its evidence. Stopped: the run is to stop."""
        run, seen = self._run, allowed(self._run.env(), *env)
        try:
            evidence = run_check(
                command, directory, limit, seen, run.started, log=log, shell=run.shell(directory), bell=run.bell
            )
        finally:
            run.ended()
        if run.stopping:
            raise Stopped
        return evidence

    def say(self, text: str) -> None:
        """Write a line to the run's log."""
        self._run.place.make()
        self._run.say(text)


# -- down and up -----------------------------------------------------------------------------------


def perform(
    attempt: Attempt,
    steps: Sequence[Step],
    lay_down: Callable[[], None],
    may_wait: Callable[[str], bool] = lambda _why: False,
) -> ClaimEnd:
    """Run the task and end its claim. `lay_down` stops the heartbeat before the claim ends.

    `may_wait` hears why a result cannot be written, each time that is tried, and decides whether to go on trying.
    """
    run = attempt.run
    begun: list[Step] = []
    fatal: TaskpitError | None = None
    mistake = ""
    try:
        outcome = _down_and_up(attempt, steps, begun)
    except Stopped as error:
        outcome = Release(reason=str(error))
        attempt.look()
    except CannotRun as error:
        fatal, outcome = error, Failed(error=error.message, kind="infra")
        if run.role:  # a reviewer: the task waits as before
            outcome = Release(reason=error.message)
    except (TaskpitError, OSError) as error:
        outcome = Failed(error=str(error), kind="infra")
    except Exception as error:
        mistake, outcome = place_of(error), attempt.hold(f"taskpit failed on this task: {in_words(error)}")
    attempt.gone = "lost" if run.stopping == "lost" else attempt.gone
    if run.stopping == "cancel" and not attempt.gone:
        outcome = Failed(error="cancelled", cancelled=True)
    seconds = attempt.seconds
    for step in reversed(begun):
        _try(attempt, step, lambda step: step.before_end(attempt, outcome))
    log = attempt.keep_log()
    lay_down()
    if attempt.gone:
        word, details = attempt.gone, attempt.details
    else:
        word, details = end_claim(attempt.queue, run.claim, _completed(attempt, outcome, log), _patience(run, may_wait))
        fatal = fatal or (_unsaved(run, details) if word == "unsaved" else None)
    for step in reversed(begun):
        _try(attempt, step, lambda step: step.on_end(attempt, word))
    return ClaimEnd(claim=run.claim, word=word, details=details, seconds=seconds, fatal=fatal, mistake=mistake)


def _down_and_up(attempt: Attempt, steps: Sequence[Step], begun: list[Step]) -> Outcome:
    settled = None
    for step in steps:
        begun.append(step)
        settled = step.before_run(attempt)
        if settled is not None:
            if not attempt.gone:
                attempt.look()
            return settled
    outcome = attempt.ran = execute(attempt)
    if not attempt.look() or attempt.run.stopping:
        return Release(reason="its worker was asked to stop") if isinstance(outcome, Done) else outcome
    for step in reversed(steps):
        outcome = step.after_run(attempt, outcome)
    return outcome


def _try(attempt: Attempt, step: Step, call: Callable[[Step], None]) -> None:
    """Let a step end; trouble there changes no outcome."""
    try:
        call(step)
    except (TaskpitError, OSError) as error:
        with suppress(OSError):
            attempt.run.say(f"[{type(step).__name__}: {error}]")


def execute(attempt: Attempt) -> Outcome:
    """Run the runner. An exception of a runner is a crash of this attempt and of nothing else."""
    queue, run = attempt.queue, attempt.run
    began = run.gate.starting(attempt.task.id) if run.gate is not None else 0.0
    try:
        outcome = attempt.runner(run.claim, run)
    except CannotRun:
        raise
    except BaseException as error:  # a callable may throw anything, and the slot goes on
        return crashed(error)
    if isinstance(outcome, Failed) and outcome.kind in ("crash", "task") and run.place.is_handed_in():
        outcome = Done(output=run.place.read_result() or "", seconds=outcome.seconds)  # it called `pit done` before
    if not isinstance(outcome, Outcome):
        return Failed(error=f"the runner returned {outcome!r}, which is no outcome", kind="crash")
    if run.gate is not None:
        longest = queue.config.backoff_longest  # a pool that ends when it is empty waits no longer for a task
        outcome = run.gate.judge(attempt.task.id, began, outcome, exact=run.exact, longest=longest)
    if not isinstance(outcome, Retry) or outcome.after:
        return outcome
    return outcome.replace(after=pause(queue.config, in_vain(attempt.tries) + 1))


def _completed(attempt: Attempt, outcome: Outcome, log: str) -> Outcome:
    """Return the outcome with its log, time and cost."""
    if isinstance(outcome, Done | Failed):
        return outcome.replace(
            log=outcome.log or log, seconds=outcome.seconds or attempt.seconds, cost=outcome.cost or attempt.run.cost
        )
    return outcome.replace(log=log) if isinstance(outcome, Retry) else outcome


# -- whose the claim is ----------------------------------------------------------------------------


def fate(claim: Claim, card: Card | None) -> str:
    """Explain why a claim no longer exists: `itself` (finished by its own command), `ours` (it does) or `lost`.

    A sweep that takes a claim away leaves a try of kind lost under its fence; `pit done`, `fail`, `split` and
    `release` leave a result, another try, or a task that is back.
    """
    if card is None:
        return "lost"
    mine = [one for one in card.tries if one.worker == claim.fence]
    if mine:
        return "lost" if mine[-1].kind == "lost" else "itself"
    if card.result is not None:
        return "itself" if card.result.worker == claim.fence else "lost"
    if card.state is State.CLAIMED and card.worker == claim.fence:
        return "ours"
    return "lost" if card.state is State.CLAIMED and "(" not in card.worker else "itself"


def what_became(queue: Queue, run: Run) -> tuple[str, str]:
    """Renew the claim: empty while it is ours, else what became of it, and the details."""
    if run.stopping == "lost":
        return "lost", ""
    try:
        answer = queue.renew(run.claim)
        if answer is Said.CANCEL:
            run.stop("cancel")
        if answer is not Said.LOST:
            return "", ""
        card = queue.store.read([run.claim.task.id])[0]
    except TaskpitError:
        return "", ""  # finishing will tell
    found = fate(run.claim, card)
    if found == "itself" and card is not None and question_of(card.task):
        return "asked", card.held
    if found == "itself" and card is not None:
        return found, (card.result.reason or card.result.verdict) if card.result else card.held or "back in the queue"
    return ("", "") if found == "ours" else (found, "")


# -- the end ---------------------------------------------------------------------------------------


def end_claim(
    queue: Queue, claim: Claim, outcome: Outcome, go_on: Callable[[str], bool] = lambda _why: False
) -> tuple[str, str]:
    """End the claim; return the word for it and the details.

    A refusal is tried against TRIES times, and then, if time may bring what is missing, for as long as `go_on`, which
    hears the reason, says yes.
    """
    wait, tries = FIRST_PAUSE, 0
    while True:
        tries += 1
        try:
            answer, end = queue.finish(claim, outcome)
            break
        except TaskpitError as error:
            if not isinstance(error, Storage) and type(error) is not TaskpitError:  # the latter is a gateway's trouble
                if tries >= TRIES:
                    return "unsaved", error.message
                outcome = Failed(error=error.message)  # a runner's split with impossible children
                continue
            stuck = error.details.get("errno") in IN_THE_WAY
            if tries >= TRIES and (stuck or not go_on(error.message)):
                return "unsaved", error.message
            time.sleep(wait)  # repeating a finish is safe, whatever became of the first
            wait = min(2 * wait, LONGEST_PAUSE)
    if answer is Said.LOST:
        return "lost", "its result came too late and is kept aside"
    return word_of(end), end.details


def word_of(end: End) -> str:
    """Return what people call this end of a claim."""
    return WORDS.get(end.action, end.action)


def _patience(run: Run, may_wait: Callable[[str], bool]) -> Callable[[str], bool]:
    """Decide whether an end that was refused is tried again."""
    deadline = time.monotonic() + min(WAIT_FOR_ROOM, run.claim.lease / 2)
    return lambda why: may_wait(why) and time.monotonic() < deadline


def _unsaved(run: Run, why: str) -> Storage:
    """Return why no further task is begun: it would be worked on in vain, too."""
    hint = f"Mend that, then start the workers again: the task runs again. What this run left is in {run.place.path}."
    return Storage(f"the end of {run.claim.task.id} could not be written: {why}", hint=hint, id=run.claim.task.id)


# -- exceptions ------------------------------------------------------------------------------------


def in_words(error: BaseException) -> str:
    """Describe an exception in one line, and the end of its trace."""
    trace = "".join(traceback.format_exception(error)).strip()
    return f"{type(error).__name__}: {error}\n{trace[-LONGEST_TRACE:]}"


def place_of(error: BaseException) -> str:
    """Return type and line of an exception, by which the same one is known again."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__


def crashed(error: BaseException) -> Failed:
    """Return the failure of an attempt whose runner raised this."""
    return Failed(error=in_words(error), kind="crash")
