"""How one claimed task is run by a command. Knows argv, environment and exit codes; not leases, not policy.

A runner is anything that is called with a claim and its run and returns an outcome:

    exit 0        Done, with the result file's text or the end of the log (the pool runs the check)
    exit 75       Retry: try again later, nobody's fault (EX_TEMPFAIL)
    other exits   Failed, kind crash
    over limit    Failed, kind timeout
    told to stop  Release
    no room       Retry: the machine is out of processes, memory or open files
    no command    CannotRun is raised: no task is to blame
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from taskpit import fs, plugins
from taskpit.errors import TaskpitError
from taskpit.run import process
from taskpit.run.allowed import without_secrets
from taskpit.run.cause import Cause, RunReport, decide
from taskpit.run.process import SHELL, Bell, CannotRun, find_program
from taskpit.run.prompt import make_prompt, task_text
from taskpit.run.traces import traceparent
from taskpit.text import last_lines, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from taskpit.model import Claim, Outcome, Try
    from taskpit.run.agent_limits import Gate
    from taskpit.run.log_stream import LogStream
    from taskpit.run.run_directory import GroupNote, RunDirectory
    from taskpit.run.sandbox import Sandbox

    #: How one task is run.
    Runner = Callable[["Claim", "Run"], "Outcome"]

__all__ = ["CannotRun", "CommandRunner", "PluggedRunner", "Run", "find_plugged"]

#: "Something is not available now": EX_TEMPFAIL of sysexits.h.
TEMPFAIL = 75
#: How much of a log stands for a result that was not written.
OUTPUT_TAIL = 4096
#: The longest prompt that is read back: a task, what people say beside it, and what failed before.
LARGEST_PROMPT = 64 * 1024 * 1024
#: Lines of the log that an error carries.
ERROR_LINES = 8

#: How programs begin that no interpreter reads: ELF, and Mach-O for one processor or several.
BINARIES = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")

_PLACEHOLDER = re.compile(r"\{(task_file|prompt_file|result_file|run_dir|worktree|id)\}")


class Run:
    """One attempt as its runner sees it: its papers, its environment, and whether to stop."""

    def __init__(
        self,
        claim: Claim,
        place: RunDirectory,
        where: str,
        note: GroupNote | None = None,
        seen: Mapping[str, str] | None = None,
    ) -> None:
        """`seen` is our own environment without what opens our own doors, if that is known already."""
        self.claim = claim
        self.place = place
        self._note = note
        self._seen = without_secrets(os.environ) if seen is None else seen
        #: The queue's folder, or its address.
        self.where = where
        self.bell = Bell()
        #: What it has cost so far, as the agent tells.
        self.cost: dict[str, object] = {}
        #: Where the work is done, if this task has a place of its own.
        self.cwd = ""
        #: How far its commands reach, if they are shut in.
        self.sandbox: Sandbox | None = None
        #: A number that no other run of this pool has meanwhile, from 1: for ports and databases of its own.
        self.slot = 1
        #: What people have answered to its questions, by question.
        self.answers: Mapping[str, str] = {}
        #: Further variables for whatever works on this task.
        self.variables: dict[str, str] = {}
        #: What it does with its task unless it works on it: `review`.
        self.role = ""
        #: What the runner's backend shares with others, if it has one.
        self.gate: Gate | None = None
        #: Whether the limit that ended it named its own end in an event.
        self.exact = False
        #: How many tools its agent used, and whether it left a result; None if its events do not tell.
        self.tools: int | None = None
        self.has_result = False
        #: Where what it prints is sent, if the queue is not on this machine.
        self.stream: LogStream | None = None
        #: Why it should stop: `stop`, `cancel`, `lost`; empty while it should not.
        self.stopping = ""

    def prepare(self) -> None:
        """Its directory is there, with its task."""
        self.place.make()
        self.place.write_task(task_text(self.claim))

    def write_prompt(self, tries: Sequence[Try], notes: str = "", *more: str) -> None:
        """What it is told is written, and these paragraphs below it."""
        told = make_prompt(self.claim, tries, self.place.result, notes)
        text = "".join((told, *(f"\n{one}\n" for one in more)))
        fs.write(self.place.prompt, text.encode("utf-8", "replace"))

    def stop(self, why: str, grace: float | None = None) -> None:
        """Ask whatever runs to stop, and end it after its grace, or this one; the first reason stands."""
        self.stopping = self.stopping or why
        self.bell.ring(grace)

    def say(self, text: str) -> None:
        """A line in the log, for runners that are no commands."""
        with suppress(fs.NotAFile, fs.NotADirectory):  # the command has put something else there
            fs.append(self.place.log, (text.rstrip("\n") + "\n").encode("utf-8", "replace"))

    def env(self) -> dict[str, str]:
        """The environment of whatever works on this task: ours, without what opens our own doors, and with `pit`."""
        return {
            **self._seen,
            "PATH": f"{self.place.bin}:{self._seen.get('PATH', os.defpath)}",
            "TASKPIT_TASK": self.claim.task.id,
            "TASKPIT_FILE": self.place.task,
            "TASKPIT_ATTEMPT": str(self.claim.attempt),
            "TASKPIT_AS": self.claim.fence,
            "TASKPIT_RUN_DIR": self.place.path,
            "TASKPIT_DIR": self.where,
            "TRACEPARENT": traceparent(self.where, self.claim.task.id, self.claim.fence),
            **self.variables,
        }

    def placeholders(self) -> dict[str, str]:
        """What the placeholders of a command stand for."""
        return {
            "task_file": self.place.task,
            "prompt_file": self.place.prompt,
            "result_file": self.place.result,
            "run_dir": self.place.path,
            "worktree": self.cwd or ".",
            "id": self.claim.task.id,
        }

    def fill(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command with its placeholders filled in; other braces are left alone."""
        known = self.placeholders()
        return tuple(_PLACEHOLDER.sub(lambda found: known[found[1]], word) for word in argv)

    def started(self, group: int) -> None:
        """A command of ours runs; should we hang, it is ended before its task is given to another worker."""
        if self._note is not None:
            with suppress(OSError, TaskpitError):
                self._note.write(self.place.path, group)

    def ended(self) -> None:
        """It is gone."""
        if self._note is not None:
            with suppress(OSError):
                self._note.strike()

    def execute(
        self,
        order: process.Command,
        watch: Callable[[], str] | None = None,
        parting: Callable[[], None] | None = None,
    ) -> process.Ended:
        """The command has run, stopped by this run's bell if need be."""
        if self.sandbox is not None:
            order = order.replace(argv=(*self._shut_in(order.cwd, order.argv[0]), *order.argv))
        try:
            return process.run(order, self.bell, self.started, watch, parting)
        finally:
            self.ended()

    def _shut_in(self, cwd: str, *programs: str) -> tuple[str, ...]:
        """What stands before a command of this run, if it has a sandbox."""
        if self.sandbox is None:
            return ()
        shown = self.sandbox.replace(shown=(*self.sandbox.shown, self.place.bin))
        return shown.wrap(cwd, (self.place.path,), programs)

    def shell(self, cwd: str) -> tuple[str, ...]:
        """What runs a check of this run."""
        return (*self._shut_in(cwd), *SHELL)


class CommandRunner:
    """Runs one command for every task."""

    def __init__(self, argv: Sequence[str], *, cwd: str, limit: float = 0.0, grace: float = 5.0) -> None:
        self.argv = tuple(argv)
        self.cwd = cwd
        self.limit = limit
        self.grace = grace
        #: Whether it may read the prompt; one that need not be written is half of what a short command costs.
        self.reads_prompt = _may_read_prompt(self.argv, cwd)

    def check(self, env: Mapping[str, str]) -> None:
        """CannotRun if there is no such command, before any task is taken for it."""
        process.check_command(self.argv[0], self.cwd, env)

    def command(self, run: Run, prompt: str = "") -> tuple[str, ...]:  # noqa: ARG002 - as other runners have it
        """The command for this run; one in the folder where the pool was started is that, also in another place, and
        so is a file beside that folder.
        """
        program, *rest = run.fill(self.argv)
        if not run.cwd:
            return program, *rest
        meant = [word if not word.startswith("../") else self._found(run.cwd, word) for word in rest]
        return self._found(run.cwd, program) if "/" in program else program, *meant

    def _found(self, place: str, word: str) -> str:
        """A path as it is meant from here, if there is nothing so called in the other place."""
        here = os.path.join(self.cwd, word)
        return word if os.path.exists(os.path.join(place, word)) or not os.path.exists(here) else here

    def __call__(self, claim: Claim, run: Run) -> Outcome:  # noqa: ARG002 - the run knows its claim
        """The command has run on this task."""
        order = process.Command(
            argv=self.command(run),
            cwd=run.cwd or self.cwd,
            env=run.env(),
            log=run.place.log,
            limit=self.limit,
            grace=self.grace,
        )
        try:
            ended = run.execute(order)
        except OSError as error:
            return decide(RunReport(cause=Cause.NO_ROOM, words=str(error)))
        return decide(self._report(run, ended))

    def _report(self, run: Run, ended: process.Ended) -> RunReport:
        """What the run shows."""
        log = run.place.last_words(8 * OUTPUT_TAIL) if ended.printed else b""
        causes = {"bell": Cause.STOPPED, "limit": Cause.LIMIT}
        by_code = {0: Cause.DONE, TEMPFAIL: Cause.LATER}
        cause = causes.get(ended.why) or by_code.get(ended.code, Cause.CRASHED)
        output = run.place.read_result() if cause is Cause.DONE else ""
        if output is None:
            output = plain(log[-OUTPUT_TAIL:].decode("utf-8", "replace")).strip("\ufffd\n")
        words = last_lines(log, ERROR_LINES) if cause is not Cause.DONE else ""
        return RunReport(
            cause=cause, words=words, output=output, code=ended.code, seconds=ended.seconds, allowed=self.limit
        )


def _may_read_prompt(argv: Sequence[str], cwd: str) -> bool:
    """Whether this command names the prompt or where it lies, or a script, in which anything may stand."""
    if any(name in word for word in argv for name in ("{prompt_file}", "{run_dir}", "RUN_DIR")):
        return True
    for word in (find_program(argv[0], cwd, os.environ), *argv[1:]):
        with suppress(OSError, ValueError), open(os.path.join(cwd, word), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(4) not in BINARIES:
                return True
    return False


# -- runners that other packages bring -------------------------------------------------------------
# An entry point in `taskpit.runners` names what makes a runner when it is called with the arguments of `pit work`:
#
#     def make(*, cwd: str, model: str, limit: float, args: Sequence[str]) -> Runner


class PluggedRunner:
    """Somebody else's runner, as the command line wants one."""

    def __init__(self, name: str, runner: Runner, cwd: str) -> None:
        self.name = name
        self.runner = runner
        self.cwd = cwd

    def check(self, env: Mapping[str, str]) -> None:
        """It can run: it was made."""

    def command(self, run: Run, prompt: str = "") -> tuple[str, ...]:  # noqa: ARG002 - there is no command
        """What stands for the command it does not have."""
        return (self.name, run.claim.task.id)

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """It has run."""
        return self.runner(claim, run)


def find_plugged(name: str, *, cwd: str, model: str, limit: float, args: Sequence[str]) -> PluggedRunner | None:
    """The runner of this name; None if no package brings one."""
    make = plugins.find("runners", name)
    if make is None:
        return None
    if not callable(make):
        raise TaskpitError(f"the runner {name!r} is {make!r}, which cannot be called", hint="Mend its package.")
    return PluggedRunner(name, make(cwd=cwd, model=model, limit=limit, args=tuple(args)), cwd)
