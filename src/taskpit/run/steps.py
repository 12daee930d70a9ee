"""What happens around a run, as a list of small steps. Read it beside `attempt.py`, which runs the list.

    step          before the run               after the run              else
    Record        answers, run directory                                  files and log are kept
    Spend                                      over budget: ask           ledger
    Learn         lessons for the prompt       a lesson is kept
    HandIn        landed or handed in before?  hand in, or hold
    Allowed       check not allowed: hold
    Check         green already: ask           run the check
    NothingDone                                hold
    Workspace     clone, set-up, copies                                   clean
    Shut          the narrower sandbox
    Prompt        the prompt is written

After the run the list is gone up: the gate for doing nothing comes before the check, so that doing nothing costs none;
the ledger comes last. A step reads the attempt and the run, never another step.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from taskpit import fs
from taskpit.errors import Invalid, Storage, TaskpitError
from taskpit.hooks import tell
from taskpit.landing.git import GitTrouble
from taskpit.landing.values import SetupFailed, Waits
from taskpit.model import Ask, Done, Failed, Outcome, Release, Retry, Split
from taskpit.policy import checked, pause
from taskpit.race import parent_of
from taskpit.rules import check_mode
from taskpit.run.allowed import is_allowed
from taskpit.run.answers import answers
from taskpit.run.attempt import FIRST_PAUSE, Attempt, RunHands, Step
from taskpit.run.budget import GO_ON, Ledger, first_reached
from taskpit.run.checkout import missing_in_clone
from taskpit.run.lessons import Lessons, asked, fitting, learned, quoted
from taskpit.run.sandbox import NoSandbox, shut_in
from taskpit.store.run_files import LARGEST_ARTIFACT

if TYPE_CHECKING:
    from taskpit.run.review_thread import Reviews

#: Ends that give a claim back although the run did its work.
WORKED = ("handed_in", "pull_request", "approved", "sent_back")
#: A set-up, or git, that failed this often in a row waits for a person: the task is not to blame.
SETUPS = 3
#: How trouble with git begins, by which it is known again.
NO_CLONE = "git made no clone for it"
#: Why an agent that only talked needs a person.
NOTHING_DONE = "nothing was done: the agent used no tool, changed nothing and left no result"
#: The question about a check that proves nothing.
GREEN = "its check is green before anything was done"
#: The part of the prompt about a clone.
BRIEF = (
    "You work in a clone of your own. You need not commit: when you are finished, the files as you leave them (but for "
    "those that git ignores) become one commit, the check is run on exactly that, and it is brought onto `{onto}`."
)
#: The part of the prompt about frozen paths.
FROZEN = (
    "Frozen paths ({globs}) are checked and landed as they are on `{onto}`: changes that you make there are left out."
)


class Record(Step):
    """Keep what the run left: files, and answers to earlier questions for its agent."""

    def before_run(self, attempt: Attempt) -> None:
        """Read the answers."""
        attempt.run.answers = answers(attempt.queue.store, attempt.task)

    def before_end(self, attempt: Attempt, outcome: Outcome) -> None:  # noqa: ARG002 - whatever it is
        """Keep artifacts with the task. One that cannot be kept is named in the log, and stays where it is."""
        run = attempt.run
        for name, path in run.place.left() if run.stopping != "lost" else ():
            try:
                data = fs.read(path, LARGEST_ARTIFACT)[0]
                attempt.queue.store.keep_artifact(run.claim, name, data, hashlib.sha256(data).hexdigest())
                fs.remove(path)
            except (TaskpitError, OSError) as error:
                run.say(f"[artifacts/{name} was not kept: {error}]")


class Spend(Step):
    """Enter the cost into the ledger, and ask before a task that has cost too much is tried again."""

    def after_run(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """Ask whether a failed task may cost more."""
        if not isinstance(outcome, Failed) or outcome.final or outcome.cancelled or not attempt.options.budget:
            return outcome
        self._enter(attempt, outcome)
        root = attempt.queue.store.info().papers
        reached = None
        with suppress(OSError, TaskpitError):  # a full disk must not change the verdict
            reached = (
                first_reached(attempt.queue, Ledger(root), attempt.options.budget, attempt.task.id) if root else None
            )
        if reached is None:
            return outcome
        failure = " ".join(outcome.error.split())[:200]
        question = f"it has cost {reached[0].told(reached[1])} and failed ({failure}){GO_ON}"
        tell(attempt.queue.store, attempt.queue.config.hooks, "budget", claim=attempt.run.claim, details=question)
        return Ask(question=question, wanted="yes, or what to change")

    def before_end(self, attempt: Attempt, outcome: Outcome) -> None:
        """Enter the cost."""
        self._enter(attempt, outcome)

    def _enter(self, attempt: Attempt, outcome: Outcome) -> None:
        run = attempt.run
        cost = outcome.cost if isinstance(outcome, Done) and outcome.cost else run.cost
        root = attempt.queue.store.info().papers if cost or attempt.options.budget else ""
        if not root or attempt.is_paid:
            return
        attempt.is_paid = True
        done = isinstance(outcome, Done | Split) or (isinstance(outcome, Release) and outcome.action in WORKED)
        with suppress(OSError, TaskpitError):
            now = attempt.queue.clock.now()
            Ledger(root).enter(attempt.task.id, run.claim.worker, cost, attempt.seconds, now, done=done)


class Learn(Step):
    """Add lessons of earlier tasks to the prompt; keep one if a check that was red is green now."""

    def before_run(self, attempt: Attempt) -> None:
        """Add the lessons that fit, and the request for one."""
        known = self._lessons(attempt)
        if known is not None and attempt.wants_prompt:
            lessons = quoted(fitting(known.read(), attempt.task, attempt.tries))
            attempt.paragraphs += filter(None, (lessons, asked(attempt.tries)))

    def after_run(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """Keep what helped, if the result says so."""
        green = isinstance(outcome, Done) and outcome.evidence is not None and outcome.evidence.green
        handed = isinstance(outcome, Release) and outcome.action == "handed_in"
        known = self._lessons(attempt) if isinstance(attempt.ran, Done) and (green or handed) else None
        if known is None or not isinstance(attempt.ran, Done):
            return outcome
        try:
            now = attempt.queue.clock.now()
            found = learned(attempt.task, attempt.tries, attempt.ran.output, now, agent="agent" in attempt.run.cost)
            if found is not None:
                known.keep(found)
        except (TaskpitError, OSError) as error:
            attempt.run.say(f"its lesson could not be kept: {error}")
        return outcome

    def _lessons(self, attempt: Attempt) -> Lessons | None:
        root, most = attempt.queue.store.info().papers, attempt.queue.config.lessons
        return Lessons(root, most) if root and most else None


class HandIn(Step):
    """Hand in the change of a task that lands; end one that a killed run had handed in without running it again."""

    def before_run(self, attempt: Attempt) -> Outcome | None:
        """End a task that has landed, or was handed in."""
        pipe, task = attempt.options.landing, attempt.task
        if pipe is None:
            lands = task.extra.get("land", "none") != "none"
            return attempt.hold("it is to land, and this pool runs in no git checkout") if lands else None
        try:
            if pipe.terms.of(task).land == "none":
                return None
            return pipe.already(parent_of(task) or task.id) or pipe.left_by(task, attempt.tries)
        except (TaskpitError, OSError) as error:
            return no_clone(attempt, error)

    def after_run(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """Make a candidate of the files and hand it in; the slot is free then."""
        run, pipe = attempt.run, attempt.options.landing
        if pipe is None or not run.cwd:
            return outcome
        cut = outcome if isinstance(outcome, Failed) and is_cut_short(attempt, outcome) else None
        outcome = outcome if cut is None else _green_nevertheless(attempt, cut)
        if not isinstance(outcome, Done):
            return cut or outcome
        done = outcome.replace(log=attempt.keep_log(), seconds=outcome.seconds, cost=outcome.cost or run.cost)
        checks, answered = attempt.options.check_in is not None, run.place.read_result() is not None
        why = ""
        for pause_ in (FIRST_PAUSE, 10 * FIRST_PAUSE, 0.0):
            try:
                ended = pipe.hand_in(run.claim, done, RunHands(run), check=checks, answered=answered)
                if cut and isinstance(ended, Failed):
                    return cut.replace(evidence=ended.evidence)
                return self._explained(attempt, ended) if isinstance(ended, Failed) else ended
            except SetupFailed as error:
                return cut or Failed(error=f"on what it committed {error.message}", kind="check", output=done.output)
            except (TaskpitError, OSError) as error:
                why = str(error)
            time.sleep(pause_)
        # Work that was paid for is not repeated for git's sake.
        return attempt.hold(f"its work could not be handed in: {why}; it is kept in {run.cwd}")

    def _explained(self, attempt: Attempt, failed: Failed) -> Outcome:
        """Add what a check lacked in the clone; hold a task whose runs changed nothing twice in a row."""
        pipe = attempt.options.landing
        if failed.evidence is not None and pipe is not None:
            why = missing_in_clone(failed.evidence, attempt.run.cwd, pipe.repository.top)
            return failed.replace(error=f"{why}. {failed.error}") if why else failed
        counted = [one for one in attempt.tries if one.counted or one.kind == "reset"]
        if failed.kind != "empty" or not counted or counted[-1].kind != "empty":
            return failed
        return attempt.hold(f"two runs in a row changed nothing and left no result: {failed.error}")


class Allowed(Step):
    """Hold a task whose check or own set-up may not be run here."""

    def before_run(self, attempt: Attempt) -> Outcome | None:
        """Hold it."""
        options, task = attempt.options, attempt.task
        if not options.allow_checks:
            return None
        commands = [] if options.check_in is None or check_mode(task) == "disabled" else [("check", task.check)]
        if setup := task.extra.get("setup"):
            commands.append(("set-up", str(setup)))
        for what, command in commands:
            if not is_allowed(command, options.allow_checks):
                return attempt.hold(f"its {what} is not on the list of those allowed here: {command}")
        return None


class Check(Step):
    """Run the task's own check where nothing lands. A run that was cut short is done only by its check."""

    def after_run(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """Done counts only once the check is green."""
        task, options, run = attempt.task, attempt.options, attempt.run
        mode = check_mode(task)
        if run.cwd or not (isinstance(outcome, Done) or is_cut_short(attempt, outcome)):
            return outcome
        if mode == "disabled" or options.check_in is None:
            return outcome
        try:
            limit = attempt.queue.config.check_limit
            evidence = RunHands(run).run(task.check, options.check_in, limit, env=options.env)
        except TaskpitError as error:
            return Failed(error=error.message, kind="infra")
        if isinstance(outcome, Failed):
            ended = _green_nevertheless(attempt, outcome) if evidence.green else outcome
            return ended.replace(evidence=evidence)
        return checked(outcome, evidence, mode) if isinstance(outcome, Done) else outcome


class RedFirst(Step):
    """Ask about a check that is green before anything was done: it proves nothing."""

    def before_run(self, attempt: Attempt) -> Outcome | None:
        """Run the check, at the first attempt."""
        task, run, options = attempt.task, attempt.run, attempt.options
        wanted = task.extra.get("red-first") in (True, "yes", "true") or options.red_first
        where = run.cwd or options.check_in
        if not wanted or where is None or check_mode(task) == "disabled" or run.claim.attempt > 1:
            return None
        if any(question.startswith(GREEN) for question in run.answers):
            return None
        evidence = RunHands(run).run(task.check, where, attempt.queue.config.check_limit, env=options.env)
        if not evidence.green:
            return None
        return Ask(question=f"{GREEN}: {task.check}", wanted="whether to go on, or what would prove it")


class NothingDone(Step):
    """Hold a task whose agent used no tool, changed nothing and left no result, whatever it says.

    A plain command, and an agent whose preset maps no tools, has `run.tools` None and passes.
    """

    def after_run(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """Hold it, with the agent's last words."""
        run, pipe = attempt.run, attempt.options.landing
        if not isinstance(outcome, Done) or run.tools != 0 or run.has_result or run.place.is_handed_in():
            return outcome
        if run.cwd and pipe is not None and not pipe.is_unchanged(attempt.task):
            return outcome
        words = f" It answered: {outcome.output}" if outcome.output else ""
        return attempt.hold(f"{NOTHING_DONE}.{words}")


class Workspace(Step):
    """Give a task that lands a clone of its own."""

    def before_run(self, attempt: Attempt) -> Outcome | None:
        """Make the clone, or find that of an earlier attempt."""
        run, task, pipe = attempt.run, attempt.task, attempt.options.landing
        try:
            if pipe is None or pipe.terms.of(task).land == "none":
                return None
            if run.sandbox is not None:  # its clone borrows the objects of ours
                run.sandbox = run.sandbox.replace(shown=(pipe.git.directory,))
            run.variables["TASKPIT_SLOT"] = str(run.slot)
            run.cwd = pipe.enter(task, RunHands(run), attempt.tries, attempt.queue.store.read(task.needs))
            onto = pipe.target_of(task)
            attempt.paragraphs.append(BRIEF.format(onto=onto))
            if frozen := pipe.terms.of(task).frozen:
                attempt.paragraphs.append(FROZEN.format(globs=", ".join(f"`{glob}`" for glob in frozen), onto=onto))
        except (TaskpitError, OSError) as error:
            return no_clone(attempt, error)
        return None

    def on_end(self, attempt: Attempt, word: str) -> None:
        """Remove the clone of a task that is done without a landing."""
        if word == "done" and attempt.run.cwd and attempt.options.landing is not None:
            attempt.options.landing.clean(attempt.task.id)


class Shut(Step):
    """Use the narrower sandbox of pool and task."""

    def before_run(self, attempt: Attempt) -> Outcome | None:
        """Hold a task whose sandbox cannot be had."""
        run, task, pipe = attempt.run, attempt.task, attempt.options.landing
        try:
            before, run.sandbox = run.sandbox, shut_in(run.sandbox, task.extra.get("sandbox"))
            if run.sandbox != before and pipe is not None and pipe.terms.of(task).land != "none":
                why = "it asks for a sandbox, and what lands is checked in that of its pool"
                return attempt.hold(f"{why}: start one with --sandbox {task.extra['sandbox']}")
        except (Invalid, NoSandbox) as error:
            return attempt.hold(error.message)
        return None


class Prompt(Step):
    """Write the run's directory and its prompt."""

    def before_run(self, attempt: Attempt) -> Outcome | None:
        """Write them; a disk that refuses spends no attempt."""
        run = attempt.run
        try:
            run.prepare()
            if run.cwd or attempt.wants_prompt:
                card = attempt.queue.store.read([attempt.task.id])[0]
                run.write_prompt(attempt.tries, card.notes if card else "", *attempt.paragraphs)
        except (Storage, OSError) as error:
            why = f"its run directory could not be written: {error}"
            return Retry(reason=why, after=pause(attempt.queue.config, 1))
        return None


class SentBack(Step):
    """Forget the hand-in of a change that its reviewer sent back."""

    def on_end(self, attempt: Attempt, word: str) -> None:
        """Forget it."""
        if word == "sent back" and attempt.options.landing is not None:
            attempt.options.landing.forget(attempt.task.id, approval=True)


class Judge(Step):
    """Judge a change instead of working on the task."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    def before_run(self, attempt: Attempt) -> Outcome:
        """Ask the reviewer for its verdict."""
        judged = self._reviews.judge(attempt.queue, attempt.run, attempt.runner, attempt.options)
        outcome, attempt.gone, attempt.details = judged
        return outcome


#: The steps of work, in order.
WORK: tuple[Step, ...] = (
    *(Record(), Spend(), Learn(), Allowed(), Shut(), HandIn(), Check(), NothingDone(), Workspace(), RedFirst()),
    Prompt(),
)


def review_steps(reviews: Reviews) -> tuple[Step, ...]:
    """Return the steps of a review."""
    return Record(), Spend(), SentBack(), Judge(reviews)


def is_cut_short(attempt: Attempt, outcome: Outcome) -> bool:
    """Whether we ended the run, so that only its check can tell how far it came."""
    strict = check_mode(attempt.task) == "strict" and attempt.options.check_in is not None
    return isinstance(outcome, Failed) and outcome.kind == "timeout" and strict


def _green_nevertheless(attempt: Attempt, failed: Failed) -> Done:
    """Return the end of a run that was cut short if its check is green."""
    why = f"{failed.error.splitlines()[0]}; its check is green nevertheless"
    return Done(output=failed.output, reason=why, seconds=failed.seconds, cost=attempt.run.cost)


def no_clone(attempt: Attempt, error: TaskpitError | OSError) -> Outcome:
    """Return the outcome of a task that got no clone: a person must act, or it is tried again without an attempt."""
    if isinstance(error, Waits | Invalid):
        return attempt.hold(_advised(error))
    if isinstance(error, SetupFailed):
        return _again(attempt, "setup", error.message)
    if isinstance(error, GitTrouble):
        return _again(attempt, "infra", f"{NO_CLONE}: {_advised(error)}", NO_CLONE)
    return Failed(error=f"there is no clone for it: {error}", kind="infra")


def _again(attempt: Attempt, kind: str, why: str, begins: str = "") -> Outcome:
    """Try again; hold the task once the same kind of trouble came SETUPS times in a row."""
    last = attempt.tries[1 - SETUPS :]
    before = [one for one in last if one.kind == kind and one.error.startswith(begins)]
    return attempt.hold(why) if len(before) + 1 >= SETUPS else Failed(error=why, kind=kind)


def _advised(error: TaskpitError) -> str:
    """Return the message with its hint."""
    return f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message
