"""One command: started, watched, ended with all it started. Nothing about tasks.

The command has a session of its own, so that a key pressed at the terminal reaches only us; no input, or
a file that ends; and a file for what it prints, which outlives us and never stalls it. Whatever ends the
command (itself, its limit, its watcher, the bell), everything it has started is gone when `run` returns,
whatever group or session that made for itself; and soon after we are killed (`reaper`).
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time

from taskpit import fs
from taskpit.errors import Storage, TaskpitError
from taskpit.model import Value
from taskpit.worker import reaper
from taskpit.worker.child import Child, NoProgram, find_program, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: A log longer than this loses its beginning; what is kept of it then.
LONGEST_LOG = 10 * 1024 * 1024
KEPT_LOG = 1024 * 1024
#: How often the length of a log is looked at.
TICK = 0.5
#: How often a command's watcher looks: what an agent says first, its session, must be known soon.
WATCHED = 0.1

#: Open files that a running command costs us, with what starting one takes for a moment.
FILES_EACH = 12
#: The machine has no room for another process just now.
EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM))


class CannotRun(TaskpitError):
    """The command cannot be run at all."""

    code = "cannot_run"


class Command(Value, frozen=True, kw_only=True):
    """What to run and for how long."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    #: Where its output goes, appended.
    log: str
    #: Where what it prints to stdout goes instead, appended; empty: to the log. Kept short by who reads it.
    out: str = ""
    #: The file it reads as its input; empty: none.
    stdin: str = ""
    #: Seconds it may take; 0 is any time.
    limit: float = 0.0
    #: Seconds between asking it to stop and killing it.
    grace: float = 5.0
    #: Descriptors that stay open until all is cleared up, should we be killed: a lock, say.
    keep: tuple[int, ...] = ()


class Ended(Value, frozen=True, kw_only=True):
    """How it ended."""

    #: As Python has it: negative is the signal that killed it.
    code: int
    seconds: float
    #: `limit`, `bell` or what its watcher said if we ended it, else empty.
    why: str = ""
    #: Whether there is anything in its log.
    printed: bool = True


class Bell:
    """Wakes whoever waits for a command. Once rung it stays rung."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._turn = threading.Lock()
        self.rung = False
        #: Seconds a command has to leave, at most; None: what its order says.
        self.grace: float | None = None

    def ring(self, grace: float | None = None) -> None:
        """Whoever waits wakes up."""
        with self._turn:
            self.rung, self.grace = True, grace if self.grace is None else self.grace
            if self._write >= 0:
                os.write(self._write, b"!")

    def wait(self, seconds: float, watch: int = -1) -> None:
        """Sleep until it rings, the other descriptor can be read, or that many seconds."""
        sleep(seconds, self._read, watch)

    def close(self) -> None:
        """Nobody waits any more."""
        with self._turn:
            for fd in (self._read, self._write):
                if fd >= 0:
                    os.close(fd)
            self._read = self._write = -1


def run(
    order: Command,
    bell: Bell,
    started: Callable[[int], None] | None = None,
    watch: Callable[[], str] | None = None,
    parting: Callable[[], None] | None = None,
) -> Ended:
    """The command has run and its group is gone. CannotRun: there is no such command, or it is none.

    OSError: the machine has no room for it just now. `watch` is called now and then while it runs; once it
    gives a reason, the command is ended for it. `parting` tells it so in its own words, if it has any: it then has its
    grace to leave by itself before it is asked by a signal.
    """
    began = time.monotonic()
    log = fs.open_file(order.log)
    try:
        child = _start(order, log, started)
        try:
            why = _attend(child, order, bell, log, watch, parting)
        finally:
            code = child.end()
        trim(log)
        printed = os.fstat(log).st_size > 0
    finally:
        os.close(log)
    return Ended(code=code, seconds=time.monotonic() - began, why=why, printed=printed)


def _start(order: Command, log: int, started: Callable[[int], None] | None) -> Child:
    if not os.path.isdir(order.cwd):
        raise _cannot_run(order.argv[0], f"{order.argv[0]!r} cannot be run: there is no directory {order.cwd}")
    out = fs.open_file(order.out) if order.out else log
    try:
        return Child(
            order.argv,
            order.cwd,
            order.env,
            (out, log),
            stdin=order.stdin,
            grace=min(order.grace, 1.0),
            keep=order.keep,
            started=started,
        )
    except NoProgram:
        raise _no_command(order.argv[0]) from None
    except (OSError, ValueError) as error:
        if getattr(error, "errno", 0) in EXHAUSTED:
            raise  # the machine's trouble, not the command's
        told = getattr(error, "strerror", None) or str(error)
        raise _cannot_run(order.argv[0], f"{order.argv[0]!r} cannot be run: {told}") from error
    finally:
        if out != log:
            os.close(out)


def is_program(name: str, cwd: str, env: Mapping[str, str]) -> bool:
    """Whether a command that begins with this word and runs there has a program."""
    return bool(find_program(name, cwd, env))


def check_command(name: str, cwd: str, env: Mapping[str, str]) -> None:
    """CannotRun if there is no such command."""
    if not is_program(name, cwd, env):
        raise _no_command(name)


def _no_command(name: str) -> CannotRun:
    return _cannot_run(name, f"there is no command {name!r}, or it may not be executed")


def _cannot_run(name: str, told: str) -> CannotRun:
    hint = "Check the command after `--`: its name, its path and that it may be executed."
    return CannotRun(told, hint=hint, command=name)


def _attend(
    child: Child,
    order: Command,
    bell: Bell,
    log: int,
    watch: Callable[[], str] | None,
    parting: Callable[[], None] | None,
) -> str:
    """Wait until it has ended, or ask it to; why we did."""
    deadline = time.monotonic() + order.limit if order.limit else float("inf")
    pause = WATCHED if watch else TICK
    while True:
        bell.wait(min(deadline - time.monotonic(), pause), child.waker)
        if child.ended():
            return ""
        trim(log)
        why = watch() if watch is not None else ""
        if bell.rung or why or time.monotonic() >= deadline:
            grace = order.grace if bell.grace is None else min(bell.grace, order.grace)
            if parting is not None:
                parting()
                child.wait(time.monotonic() + grace)
            child.tell(reaper.STOP)
            child.wait(time.monotonic() + grace)
            return "bell" if bell.rung else why or "limit"


def tell_group(group: int, number: int) -> bool:
    """Every process of the group has this signal; False if there is none."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says of the dead that it is not permitted
        return False
    return True


def anybody(group: int) -> bool:
    """Whether somebody of the group lives. Those that nobody has reaped are dead, whatever `kill` says."""
    if not tell_group(group, 0):
        return False
    known = reaper.processes().values()  # none on macOS, where there is no such place to look
    return not known or any(int(told[2]) == group and told[0] not in reaper.DEAD for told in known)


def say_exit(code: int) -> str:
    """An exit code in words."""
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def trim(log: int) -> int:
    """A log that has grown too long keeps its end; how much shorter it is. Its writers append, so they go on behind."""
    size = os.fstat(log).st_size
    if size <= LONGEST_LOG:
        return 0
    tail = os.pread(log, KEPT_LOG, size - KEPT_LOG)
    os.ftruncate(log, 0)
    kept = b"[... %d bytes were cut here ...]\n" % (size - len(tail)) + tail[tail.find(b"\n") + 1 :]
    return size - os.write(log, kept)


def make_room(commands: int) -> None:
    """This process may open as many files as so many commands at once need."""
    import resource

    need = FILES_EACH * commands + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        raise Storage(
            f"{commands} tasks at once need {need} open files; the limit here is {hard}",
            hint="Use a smaller -n, several pools, or a higher `ulimit -n`.",
        )
    if soft != resource.RLIM_INFINITY and soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
