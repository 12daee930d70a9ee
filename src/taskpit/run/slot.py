"""One claim from its run to its end: run, look whether it is still ours, check, finish. Runs in a thread.

Decides nothing about the task's future, that is policy; only what the run has shown. Always returns.
"""

from __future__ import annotations

import errno
import hashlib
import time
from contextlib import suppress

from taskpit import fs
from taskpit.errors import Invalid, Storage, TaskpitError
from taskpit.hooks import tell
from taskpit.landing.values import SetupFailed, Stopped, Waits
from taskpit.model import Ask, Done, Failed, Outcome, Release, Retry, Said, Split, State, Value
from taskpit.policy import checked, in_vain, pause, question_of
from taskpit.race import parent_of
from taskpit.rules import check_mode
from taskpit.run.allowed import allowed, is_allowed
from taskpit.run.answers import answers
from taskpit.run.budget import GO_ON, Ledger, first_reached
from taskpit.run.checkout import missing_in_clone
from taskpit.run.lessons import Lessons, asked, fitting, learned, quoted
from taskpit.run.process import CannotRun, run_check
from taskpit.run.sandbox import NoSandbox, shut_in
from taskpit.store.run_files import LARGEST_ARTIFACT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from taskpit.model import Card, Claim, End, Evidence, Task, Try
    from taskpit.queue import Queue
    from taskpit.run.pool_options import PoolOptions
    from taskpit.run.runner import Run, Runner

    #: What is done with a claimed task: its outcome, what became of the claim if that is gone, and the details.
    Job = Callable[[Queue, Run, Runner, PoolOptions], tuple[Outcome, str, str]]

#: How often the end of a claim is tried when the disk refuses, and how long the first pause is.
TRIES, FIRST_PAUSE = 6, 0.1
#: What a command has brought is dear: a pool waits this many seconds for room, looking at least this often,
#: and never beyond half the lease, which nobody renews by then.
WAIT_FOR_ROOM, LONGEST_PAUSE = 300.0, 5.0
#: What no time brings: a link, a file or a directory stands where something else should.
IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL)

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
#: Ends of a run that gives its claim back because it has brought what was asked of it.
BROUGHT = ("handed_in", "pull_request", "approved", "sent_back")
#: A set-up, or git, that failed this often in a row waits for a person: it is nothing the task did.
SETUPS = 3
#: How trouble of git's begins, by which it is known again.
NO_CLONE = "git made no clone for it"
#: Why an agent that only talked needs a person.
NOTHING_DONE = "nothing was done: the agent used no tool, changed nothing and left no result"
#: What is asked of a check that proves nothing.
GREEN = "its check is green before anything was done"
#: What an agent in a clone of its own is told below its task.
BRIEF = (
    "You work in a clone of your own. You need not commit: when you are finished, the files as you leave them (but for "
    "those that git ignores) become one commit, the check is run on exactly that, and it is brought onto `{onto}`."
)


class Over(Value, frozen=True, kw_only=True):
    """How a claim of ours ended."""

    claim: Claim
    #: done, failed, cancelled, retry, stuck, released, split, asked, held, handed in, pull request; approved and
    #: sent back: by a reviewer; itself: the command has ended the claim; lost: it was somebody else's by then;
    #: unsaved: the store could not be written.
    word: str
    details: str = ""
    seconds: float = 0.0
    #: Why no further task should be tried, if so.
    fatal: TaskpitError | None = None


def fate(claim: Claim, card: Card | None) -> str:
    """What became of a claim that is gone: `itself` if whoever knew its fence ended it, `ours` or `lost`.

    A keeper that takes a claim away leaves a try of kind lost under its fence; what the command does with
    `pit done`, `fail`, `split` or `release` leaves a result, another try, or a task that is back.
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


def work(
    queue: Queue,
    run: Run,
    runner: Runner,
    options: PoolOptions,
    lay_down: Callable[[], None],
    short: Callable[[str], bool] = lambda _why: False,
    job: Job | None = None,
) -> Over:
    """Run it and end its claim. `lay_down` is called once the claim needs no more renewing, before it ends.

    `short` is told why what was brought cannot be written, each time that is tried; whether to go on trying. `job` is
    what is done with the task instead of working on it.
    """
    claim, began = run.claim, time.monotonic()
    fatal: TaskpitError | None = None
    told = ""
    try:
        outcome, gone, told = (job or _build)(queue, run, runner, options)
    except Stopped as error:
        outcome, (gone, told) = Release(reason=str(error)), what_became(queue, run)
    except CannotRun as error:
        fatal, gone, outcome = error, "", Failed(error=error.message, kind="infra")
        if job is not None:  # nothing that the task did: it waits as before
            outcome = Release(reason=error.message)
    seconds = time.monotonic() - began
    if run.stopping != "lost":
        _keep_files(queue, run)
    log = _keep_log(queue, run)
    lay_down()
    gone = "lost" if run.stopping == "lost" else gone
    if gone:
        word, details = gone, told
        _paid(queue, run, Release(), options, seconds)  # whoever has it now: the money is spent
    else:
        if run.stopping == "cancel":
            outcome = Failed(error="cancelled", cancelled=True)
        outcome = _paid(queue, run, outcome, options, seconds)
        if isinstance(outcome, Done | Failed):
            outcome = outcome.replace(
                log=outcome.log or log, seconds=outcome.seconds or seconds, cost=outcome.cost or run.cost
            )
        elif isinstance(outcome, Retry):
            outcome = outcome.replace(log=log)
        word, details = end_claim(queue, claim, outcome, _patience(claim, short))
        _tidy(options, run, word)
        fatal = fatal or (_unsaved(run, details) if word == "unsaved" else None)
    return Over(claim=claim, word=word, details=details, seconds=seconds, fatal=fatal)


def _tidy(options: PoolOptions, run: Run, word: str) -> None:
    """Drop what a run that ended so leaves in the repository: its clone, or what it had handed in."""
    if options.landing is None:
        return
    with suppress(TaskpitError, OSError):
        if word == "done" and run.cwd:  # nothing of it lands
            options.landing.clean(run.claim.task.id)
        if word == "sent back":
            options.landing.forget(run.claim.task.id, approval=True)


def _build(queue: Queue, run: Run, runner: Runner, options: PoolOptions) -> tuple[Outcome, str, str]:
    """It is worked on: the outcome, and what became of the claim if that is gone."""
    run.answers = answers(queue.store, run.claim.task)
    settled = _refused(run, options) or _fenced(run, options)
    settled = settled or _enter(queue, run, options) or _red_first(queue, run, options)
    brought = outcome = settled or _attempt(queue, run, runner, options)
    gone, told = what_became(queue, run)
    if not gone and settled is None:
        outcome = _nothing_done(run, outcome, options) or outcome
    if not gone and settled is None and not isinstance(outcome, Release):
        outcome = _hand_in(queue, run, outcome, options) if run.cwd else _checked(queue, run, outcome, options)
        _learn(queue, run, brought, outcome)
    return outcome, gone, told


def _patience(claim: Claim, short: Callable[[str], bool]) -> Callable[[str], bool]:
    """Whether an end that was refused is tried again."""
    deadline = time.monotonic() + min(WAIT_FOR_ROOM, claim.lease / 2)
    return lambda why: short(why) and time.monotonic() < deadline


def _unsaved(run: Run, why: str) -> Storage:
    """The next task would be worked on in vain, too: so none is begun."""
    hint = f"Mend that, then start the workers again: the task runs again. What this run left is in {run.place.path}."
    return Storage(f"the end of {run.claim.task.id} could not be written: {why}", hint=hint, id=run.claim.task.id)


def _refused(run: Run, options: PoolOptions) -> Outcome | None:
    """A task whose check or own set-up may not be run here is not run either: it waits for a person."""
    task = run.claim.task
    if not options.allow_checks:
        return None
    checks = [] if options.check_in is None or check_mode(task) == "disabled" else [("check", task.check)]
    if setup := task.extra.get("setup"):
        checks.append(("set-up", str(setup)))
    for what, command in checks:
        if not is_allowed(command, options.allow_checks):
            return _hold(task, f"its {what} is not on the list of those allowed here: {command}")
    return None


def _fenced(run: Run, options: PoolOptions) -> Outcome | None:
    """A task may ask for a sandbox where its pool has none, or a wider one; what cannot be had waits for a person."""
    task, pipe = run.claim.task, options.landing
    try:
        before, run.sandbox = run.sandbox, shut_in(run.sandbox, task.extra.get("sandbox"))
        if run.sandbox != before and pipe is not None and pipe.terms.of(task).land != "none":
            told = "it asks for a sandbox, and what lands is checked in that of its pool"
            return _hold(task, f"{told}: start one with --sandbox {task.extra['sandbox']}")
    except (Invalid, NoSandbox) as error:
        return _hold(task, error.message)
    return None


class RunHands:
    """Runs the pipe's commands for one run: its environment, its bell."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def run(self, command: str, directory: str, limit: float, log: str = "", env: Sequence[str] = ()) -> Evidence:
        """A check or a set-up."""
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
        """In the run's log."""
        self._run.place.make()
        self._run.say(text)


def _enter(queue: Queue, run: Run, options: PoolOptions) -> Outcome | None:
    """A task that lands has a clone of its own; else the outcome of not getting one."""
    task, pipe = run.claim.task, options.landing
    if pipe is None:
        asked = task.extra.get("land", "none") != "none"
        return _hold(task, "it is to land, and this pool runs in no git checkout") if asked else None
    from taskpit.landing.git import GitTrouble

    try:
        if pipe.terms.of(task).land != "none":
            if (landed := pipe.already(parent_of(task) or task.id)) is not None:
                return landed  # a crash came between landing and its seal, and then somebody let it go on
            tries = _tries(queue, task)
            if (left := pipe.left_by(task, tries)) is not None:
                return left  # a crash came between handing in and the end of the claim: it is paid for
            if run.sandbox is not None:  # its clone borrows the objects of ours
                run.sandbox = run.sandbox.replace(shown=(pipe.git.directory,))
            run.variables["TASKPIT_SLOT"] = str(run.slot)
            run.cwd = pipe.enter(task, RunHands(run), tries, queue.store.read(task.needs))
    except (Waits, Invalid) as error:
        return _hold(task, _advised(error))
    except SetupFailed as error:
        return _again(queue, task, "setup", error.message)
    except GitTrouble as error:
        return _again(queue, task, "infra", f"{NO_CLONE}: {_advised(error)}", NO_CLONE)
    except (TaskpitError, OSError) as error:
        return Failed(error=f"there is no clone for it: {error}", kind="infra")
    return None


def _again(queue: Queue, task: Task, kind: str, told: str, begins: str = "") -> Outcome:
    """It is tried again, and waits for a person once the same kind of trouble has come SETUPS times in a row."""
    before = [one for one in _tries(queue, task)[1 - SETUPS :] if one.kind == kind and one.error.startswith(begins)]
    return _hold(task, told) if len(before) + 1 >= SETUPS else Failed(error=told, kind=kind)


def _advised(error: TaskpitError) -> str:
    """What went wrong, and what to do about it."""
    return f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message


def _tries(queue: Queue, task: Task) -> Sequence[Try]:
    """What was tried before."""
    card = queue.store.read([task.id])[0]
    return card.tries if card else ()


def _red_first(queue: Queue, run: Run, options: PoolOptions) -> Outcome | None:
    """A check that is green before anything was done proves nothing: a person is asked, once."""
    task, where = run.claim.task, run.cwd or options.check_in
    wanted = task.extra.get("red-first") in (True, "yes", "true") or options.red_first
    if not wanted or where is None or check_mode(task) == "disabled" or run.claim.attempt > 1:
        return None
    if any(question.startswith(GREEN) for question in run.answers):
        return None
    try:
        evidence = RunHands(run).run(task.check, where, queue.config.check_limit, env=options.env)
    except (TaskpitError, OSError) as error:
        return Failed(error=str(error), kind="infra")
    if not evidence.green:
        return None
    return Ask(question=f"{GREEN}: {task.check}", wanted="whether to go on, or what would prove it")


def _hold(task: Task, reason: str) -> Release:
    """A person must look; no attempt is spent."""
    told = " ".join(reason.split())[:700]
    return Release(reason=told, task=task.replace(hold=told), action="blocked")


def _nothing_done(run: Run, outcome: Outcome, options: PoolOptions) -> Release | None:
    """A hold for an agent that used no tool, changed nothing and left no result, whatever it says; else None."""
    if not isinstance(outcome, Done) or run.stopping or run.tools != 0 or run.has_result or run.place.is_handed_in():
        return None
    if run.cwd and options.landing is not None and not options.landing.is_unchanged(run.claim.task):
        return None
    words = f" It answered: {outcome.output}" if outcome.output else ""
    return _hold(run.claim.task, f"{NOTHING_DONE}.{words}")


def _explained(queue: Queue, run: Run, failed: Failed, options: PoolOptions) -> Outcome:
    """A failed hand-in, with what a check lacked in the clone; an empty one is tried only once more."""
    if failed.evidence is not None and options.landing is not None:
        why = missing_in_clone(failed.evidence, run.cwd, options.landing.repository.top)
        return failed.replace(error=f"{why}. {failed.error}") if why else failed
    return _twice_empty(queue, run, failed)


def _twice_empty(queue: Queue, run: Run, failed: Failed) -> Outcome:
    """A run without a change and without a result is tried once more; after the second one a person looks."""
    counted = [one for one in _tries(queue, run.claim.task) if one.counted or one.kind == "reset"]
    if failed.kind != "empty" or not counted or counted[-1].kind != "empty":
        return failed
    return _hold(run.claim.task, f"two runs in a row changed nothing and left no result: {failed.error}")


def _hand_in(queue: Queue, run: Run, outcome: Outcome, options: PoolOptions) -> Outcome:
    """What was done becomes a candidate, is checked as such, and waits to be landed; the slot is free."""
    cut = outcome if isinstance(outcome, Failed) and _is_cut_short(run, outcome, options) else None
    outcome = outcome if cut is None else _green_nevertheless(run, cut)
    if options.landing is None or not isinstance(outcome, Done) or run.stopping:
        return cut or outcome
    done = outcome.replace(log=_keep_log(queue, run), seconds=outcome.seconds, cost=outcome.cost or run.cost)
    answered = run.place.read_result() is not None
    for pause_ in (FIRST_PAUSE, 10 * FIRST_PAUSE, 0.0):
        try:
            checks = options.check_in is not None
            ended = options.landing.hand_in(run.claim, done, RunHands(run), check=checks, answered=answered)
            if cut and isinstance(ended, Failed):
                return cut.replace(evidence=ended.evidence)
            return _explained(queue, run, ended, options) if isinstance(ended, Failed) else ended
        except SetupFailed as error:
            return cut or Failed(error=f"on what it committed {error.message}", kind="check", output=outcome.output)
        except (TaskpitError, OSError) as error:
            told = str(error)
        time.sleep(pause_)
    # What was paid for is not run again for git's sake.
    return _hold(run.claim.task, f"its work could not be handed in: {told}; it is kept in {run.cwd}")


def _attempt(queue: Queue, run: Run, runner: Runner, options: PoolOptions) -> Outcome:
    """What the runner says; what it throws is a crash of this attempt and of nothing else."""
    try:
        run.prepare()
        if run.cwd or getattr(runner, "reads_prompt", True):
            _write_prompt(queue, run, options)
    except (Storage, OSError) as error:
        return Retry(reason=f"its run directory could not be written: {error}", after=pause(queue.config, 1))
    began = run.gate.starting(run.claim.task.id) if run.gate is not None else 0.0
    try:
        outcome = runner(run.claim, run)
    except CannotRun:
        raise
    except BaseException as error:  # a callable may throw anything, and the slot goes on
        return crashed(error)
    if isinstance(outcome, Failed) and outcome.kind in ("crash", "task") and run.place.is_handed_in():
        outcome = Done(output=run.place.read_result() or "", seconds=outcome.seconds)  # it said done; the check decides
    if not isinstance(outcome, Outcome):
        return Failed(error=f"the runner returned {outcome!r}, which is no outcome", kind="crash")
    return _told_backend(queue, run, outcome, began)


def _lessons(queue: Queue) -> Lessons | None:
    """Where this queue keeps its lessons; None if it keeps none."""
    root, most = queue.store.info().papers, queue.config.lessons
    return Lessons(root, most) if root and most else None


def _write_prompt(queue: Queue, run: Run, options: PoolOptions) -> None:
    """The task as one would tell it, what helped others, what is asked should it find out itself, where it works."""
    card, known = queue.store.read([run.claim.task.id])[0], _lessons(queue)
    tries, more = card.tries if card else (), []
    if known is not None:
        more = [quoted(fitting(known.read(), run.claim.task, tries)), asked(tries)]
    if run.cwd and options.landing is not None:
        more.append(BRIEF.format(onto=options.landing.target_of(run.claim.task)))
    run.write_prompt(tries, card.notes if card else "", *filter(None, more))


def _learn(queue: Queue, run: Run, brought: Outcome, outcome: Outcome) -> None:
    """A check that was red and is green now is a lesson, if the result says what helped."""
    green = isinstance(outcome, Done) and outcome.evidence is not None and outcome.evidence.green
    if not isinstance(brought, Done) or not (green or getattr(outcome, "action", "") == "handed_in"):
        return
    known = _lessons(queue)
    if known is None:
        return
    try:
        tries = _tries(queue, run.claim.task)
        found = learned(run.claim.task, tries, brought.output, queue.clock.now(), agent="agent" in run.cost)
        if found is not None:
            known.keep(found)
    except (TaskpitError, OSError) as error:  # what was done is done, whether somebody learns of it or not
        run.say(f"its lesson could not be kept: {error}")


def crashed(error: BaseException) -> Failed:
    """What was thrown, in one line, and the end of its trace."""
    import traceback

    told = "".join(traceback.format_exception(error)).strip()
    return Failed(error=f"{type(error).__name__}: {error}\n{told[-1500:]}", kind="crash")


def _told_backend(queue: Queue, run: Run, outcome: Outcome, began: float) -> Outcome:
    """Report the run to its backend, which rests after an error of its own; set when a retry may begin."""
    if run.gate is not None:
        longest = queue.config.backoff_longest  # a pool that ends when it is empty waits no longer for a task
        outcome = run.gate.judge(run.claim.task.id, began, outcome, exact=run.exact, longest=longest)
    if not isinstance(outcome, Retry) or outcome.after:
        return outcome
    return outcome.replace(after=pause(queue.config, in_vain(_tries(queue, run.claim.task)) + 1))


def what_became(queue: Queue, run: Run) -> tuple[str, str]:
    """Empty while the claim is ours; else what became of it, and the details."""
    if run.stopping == "lost":
        return "lost", ""
    try:
        said = queue.renew(run.claim)
        if said is Said.CANCEL:
            run.stop("cancel")
        if said is not Said.LOST:
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


def _is_cut_short(run: Run, outcome: Outcome, options: PoolOptions) -> bool:
    """Whether it was ended by us, so that only its check can tell how far it was."""
    strict = check_mode(run.claim.task) == "strict" and options.check_in is not None
    return isinstance(outcome, Failed) and outcome.kind == "timeout" and strict


def _green_nevertheless(run: Run, outcome: Failed) -> Done:
    """What a run that was cut short is if its check is green."""
    told = f"{outcome.error.splitlines()[0]}; its check is green nevertheless"
    return Done(output=outcome.output, reason=told, seconds=outcome.seconds, cost=run.cost)


def _checked(queue: Queue, run: Run, outcome: Outcome, options: PoolOptions) -> Outcome:
    """Done counts only once the task's own check is green. A run that was cut short is done only by its check."""
    command, mode = run.claim.task.check, check_mode(run.claim.task)
    if not (isinstance(outcome, Done) or _is_cut_short(run, outcome, options)):
        return outcome
    if mode == "disabled" or options.check_in is None or run.stopping:
        return outcome
    try:
        evidence = RunHands(run).run(command, run.cwd or options.check_in, queue.config.check_limit, env=options.env)
    except TaskpitError as error:
        return Failed(error=error.message, kind="infra")
    if isinstance(outcome, Failed):
        green = evidence.green
        return (_green_nevertheless(run, outcome) if green else outcome).replace(evidence=evidence)
    return checked(outcome, evidence, mode) if isinstance(outcome, Done) else outcome


def _paid(queue: Queue, run: Run, outcome: Outcome, options: PoolOptions, seconds: float) -> Outcome:
    """What it cost is in the ledger. A task that has cost too much asks before it is tried again."""
    cost = outcome.cost if isinstance(outcome, Done) and outcome.cost else run.cost
    root, claim = queue.store.info().papers if cost or options.budget else "", run.claim
    if not root:
        return outcome
    ledger = Ledger(root)
    try:
        good = isinstance(outcome, Done | Split) or (isinstance(outcome, Release) and outcome.action in BROUGHT)
        ledger.enter(claim.task.id, claim.worker, cost, seconds, queue.clock.now(), done=good)
        reached = first_reached(queue, ledger, options.budget, claim.task.id)
    except (OSError, TaskpitError):
        return outcome  # a full disk must not change the verdict
    if reached is None or not isinstance(outcome, Failed) or outcome.final or outcome.cancelled:
        return outcome
    told = " ".join(outcome.error.split())[:200]
    question = f"it has cost {reached[0].told(reached[1])} and failed ({told}){GO_ON}"
    tell(queue.store, queue.config.hooks, "budget", claim=claim, details=question)
    return Ask(question=question, wanted="yes, or what to change")


def _keep_log(queue: Queue, run: Run) -> str:
    """What was printed is kept where the queue keeps logs; where."""
    try:
        data = run.place.read_log()
        if run.stream is not None:
            return run.stream.end(data)
        return queue.store.keep_log(run.claim.worker, data) if data else ""
    except (TaskpitError, OSError):
        return ""


def _keep_files(queue: Queue, run: Run) -> None:
    """What the run left to be kept is kept with its task; what cannot be is told in its log, and stays where it is."""
    for name, path in run.place.left():
        try:
            data = fs.read(path, LARGEST_ARTIFACT)[0]
            queue.store.keep_artifact(run.claim, name, data, hashlib.sha256(data).hexdigest())
            fs.remove(path)
        except (TaskpitError, OSError) as error:
            run.say(f"[artifacts/{name} was not kept: {error}]")


def end_claim(
    queue: Queue, claim: Claim, outcome: Outcome, go_on: Callable[[str], bool] = lambda _why: False
) -> tuple[str, str]:
    """The claim has ended this way; the word for it and its details.

    A refusal is tried against TRIES times, and then, if time may bring what is missing, for as long as `go_on`, which
    hears the reason, says yes.
    """
    wait, tries = FIRST_PAUSE, 0
    while True:
        tries += 1
        try:
            said, end = queue.finish(claim, outcome)
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
    if said is Said.LOST:
        return "lost", "its result came too late and is kept aside"
    return word_of(end), end.details


def word_of(end: End) -> str:
    """What people call this end of a claim."""
    return WORDS.get(end.action, end.action)
