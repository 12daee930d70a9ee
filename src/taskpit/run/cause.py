"""Decide what a run leads to: a typed cause in, an outcome out. Pure.

    cause                             whose     attempt   leads to
    done                                        -         Done; the check decides
    failed silent crashed unfinished  task      1         Failed
    limit stalled                     task      1         Failed, unless its check is green
    quota outage mute                 backend   0         Retry; the backend rests (`blame` has the exception)
    login misuse                      us        0         CannotRun: the pool ends and says why
    later no_room                     us        0         Retry
    stopped                           us        0         Release

A runner reports the cause; what a backend's trouble is, its preset says (`transcript.judge`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from taskpit.clock import say_duration
from taskpit.model import Done, Failed, Outcome, Release, Retry, Value
from taskpit.run.process import CannotRun, say_exit


class Cause(StrEnum):
    """How a run went."""

    DONE = "done"
    FAILED = "failed"  #: it says so
    SILENT = "silent"  #: it ended well, and left nothing
    CRASHED = "crashed"
    UNFINISHED = "unfinished"  #: it never said that it was done
    LIMIT = "limit"  #: we ended it at its limit
    STALLED = "stalled"  #: we ended it because it was silent for too long
    QUOTA = "quota"
    OUTAGE = "outage"
    MUTE = "mute"  #: silent from its start: its model does not answer
    LOGIN = "login"
    MISUSE = "misuse"
    LATER = "later"  #: it asks to be tried again
    NO_ROOM = "no-room"
    STOPPED = "stopped"
    NO_SESSION = "no-session"  #: it does not know the session it was to go on with


class RunReport(Value, frozen=True, kw_only=True):
    """What a runner reports of one run."""

    cause: Cause
    #: The agent's name, and its program.
    name: str = ""
    program: str = ""
    #: The last words, or those that show the cause.
    words: str = ""
    output: str = ""
    code: int = 0
    seconds: float = 0.0
    #: How long it was allowed to take, or to be silent.
    allowed: float = 0.0
    #: Seconds until a limit ends; 0 if that is not known.
    after: float = 0.0
    cost: Mapping[str, object] = {}


#: The kind of failure for each cause that is the task's own.
KINDS = {
    Cause.FAILED: "task",
    Cause.SILENT: "task",
    Cause.CRASHED: "crash",
    Cause.UNFINISHED: "crash",
    Cause.LIMIT: "timeout",
    Cause.STALLED: "timeout",
}


def decide(report: RunReport) -> Outcome:
    """Return the outcome. CannotRun: no task should be tried with this agent."""
    match report.cause:
        case Cause.DONE:
            return Done(output=report.output, seconds=report.seconds, cost=report.cost)
        case Cause.STOPPED:
            return Release(reason="its worker was asked to stop")
        case Cause.QUOTA | Cause.OUTAGE | Cause.MUTE | Cause.LATER | Cause.NO_ROOM:
            return _retry(report)
        case Cause.LOGIN | Cause.MISUSE:
            raise _cannot_run(report)
        case Cause.NO_SESSION:
            return Failed(error=f"{report.name} does not know its own session", kind="crash")
    error = _with(_head(report), report.words)
    return Failed(error=error, kind=KINDS[report.cause], seconds=report.seconds, output=report.output)


def _retry(report: RunReport) -> Retry:
    """Return the outcome of trouble that is not the task's."""
    name, words = report.name, report.words
    reasons = {
        Cause.QUOTA: f"{name} has reached a limit: {words}",
        Cause.OUTAGE: f"{name} has trouble: {words}",
        Cause.MUTE: f"{name} had no answer from its model for {say_duration(report.allowed)}",
        Cause.LATER: _with("the command asks to be tried again later", words),
        Cause.NO_ROOM: f"the machine has no room for it: {words}",
    }
    kinds = {Cause.QUOTA: "quota", Cause.NO_ROOM: "room"}
    return Retry(reason=reasons[report.cause], after=report.after, kind=kinds.get(report.cause, "infra"))


def _cannot_run(report: RunReport) -> CannotRun:
    """Return why no task should be tried with this agent."""
    name, program = report.name, report.program
    if report.cause is Cause.LOGIN:
        hint = f"Run {program} once by hand and log in, then start again."
        return CannotRun(f"{name} is not logged in: {report.words}", hint=hint, command=program)
    hint = f"Its preset can be changed in .taskpit/presets/{name}.toml; `pit work --dry-run` shows the command."
    return CannotRun(f"{name} does not take this command: {report.words}", hint=hint, command=program)


def _head(report: RunReport) -> str:
    """Say how a task failed by itself."""
    heads = {
        Cause.FAILED: "it says that it failed",
        Cause.SILENT: "it ended without a word",
        Cause.CRASHED: say_exit(report.code),
        Cause.UNFINISHED: "it ended without saying that it was done",
        Cause.LIMIT: f"it took longer than {say_duration(report.allowed)}",
        Cause.STALLED: f"it printed nothing for {say_duration(report.allowed)}",
    }
    return heads[report.cause]


def _with(head: str, words: str) -> str:
    return f"{head}\n{words}" if words else head
