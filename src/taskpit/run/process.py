"""Run one command and end it with all it started. Nothing about tasks.

The command has a session of its own, so that a key pressed at the terminal reaches only us; no input, or a file that
ends; and a file for its output, which outlives us and never blocks it. However the command ends (by itself, its limit,
its watcher, the bell), everything it started is gone when `run` returns, and soon after this process is killed
(`reaper`).
"""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import msgspec

from taskpit import fs
from taskpit.clock import say_duration
from taskpit.errors import Storage, TaskpitError
from taskpit.model import Evidence
from taskpit.run import reaper

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A log longer than this loses its beginning; what is kept of it then.
LONGEST_LOG = 10 * 1024 * 1024
KEPT_LOG = 1024 * 1024
#: How often the length of a log is looked at, and how often a watcher looks.
TICK, WATCHED = 0.5, 0.1
#: How long a reaper may take to end a command before it is killed itself.
LAST_CALL = 30.0
#: Open files that a running command costs us, with what starting one takes for a moment.
FILES_EACH = 12
#: The machine has no room for another process just now.
EXHAUSTED = frozenset(reaper.EXHAUSTED)
#: What of our own environment an interpreter needs to begin; the commands have theirs.
NEEDED = ("LD_LIBRARY_PATH",)
#: What runs a check, followed by its command; its exit code if it was stopped at its limit, as `timeout` has it.
SHELL, TIMED_OUT = ("/bin/sh", "-c"), 124
#: How much of the end of a check's output is kept as evidence, in bytes.
TAIL = 4096
#: How long processes that are ended by their mark may take to be gone.
MARKED = 5.0


class CannotRun(TaskpitError):
    """The command cannot be run at all."""

    code = "cannot_run"


class NoProgram(OSError):
    """There is no such command, or it may not be executed."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and for how long."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    #: Where its output goes, appended.
    log: str
    #: Where its stdout goes instead, appended; empty: to the log. Kept short by its reader.
    out: str = ""
    #: The file it reads as its input; empty: none.
    stdin: str = ""
    #: Seconds it may take; 0 is any time.
    limit: float = 0.0
    #: Seconds between asking it to stop and killing it.
    grace: float = 5.0
    #: Descriptors that stay open until all is cleared up, should we be killed: a lock, say.
    keep: tuple[int, ...] = ()

    def replace(self, **fields: object) -> Command:
        """Return the same with other fields."""
        return msgspec.structs.replace(self, **fields)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended."""

    #: As Python has it: negative is the signal that killed it.
    code: int
    seconds: float
    #: `limit`, `bell` or the watcher's reason if we ended it, else empty.
    why: str = ""
    #: Whether there is anything in its log.
    printed: bool = True


class Bell:
    """Wakes the thread that waits for a command. Once rung it stays rung."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._turn = threading.Lock()
        self.rung = False
        #: Seconds a command has to leave, at most; None: as its order says.
        self.grace: float | None = None

    def ring(self, grace: float | None = None) -> None:
        """Wake the waiting thread."""
        with self._turn:
            self.rung, self.grace = True, grace if self.grace is None else self.grace
            if self._write >= 0:
                os.write(self._write, b"!")

    def wait(self, seconds: float, watch: int = -1) -> None:
        """Sleep until it rings, the other descriptor can be read, or that many seconds."""
        poll = select.poll()
        for fd in (self._read, watch):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        poll.poll(max(seconds, 0) * 1000)

    def close(self) -> None:
        """Close its descriptors."""
        with self._turn:
            for fd in (self._read, self._write):
                if fd >= 0:
                    os.close(fd)
            self._read = self._write = -1


# -- reapers ---------------------------------------------------------------------------------------


class Reaper:
    """A reaper process, as the process that started it sees it."""

    def __init__(self) -> None:
        """Start one. OSError: the machine has no room for it."""
        self._socket, theirs = socket.socketpair()
        self._data = b""
        env = {name: os.environ[name] for name in NEEDED if name in os.environ}
        try:
            with theirs:
                self._guard = subprocess.Popen(  # not waited for here: `close` does
                    reaper.COMMAND,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=env,
                    cwd="/",
                    start_new_session=True,
                )
            self.pid = int(self.answer(None)["pid"])
        except BaseException:
            self._socket.close()
            raise
        self.birth = reaper.born(self.pid)

    def fileno(self) -> int:
        """Return a descriptor that can be read once it answers."""
        return self._socket.fileno()

    def send(self, line: bytes, files: Sequence[int] = ()) -> None:
        """Send a line with descriptors. ConnectionError: the reaper is gone."""
        sent = socket.send_fds(self._socket, [line], files)
        self._socket.sendall(line[sent:])

    def answer(self, seconds: float | None) -> dict[str, int]:
        """Return the next answer. ConnectionError: the reaper is gone. TimeoutError: it has not answered."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._data:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0) * 1000
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(left):
                raise TimeoutError
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the reaper is gone")
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        answer: dict[str, int] = json.loads(line)
        return answer

    def close(self) -> None:
        """Close its socket, so that it ends with all it watches over; wait for that."""
        self._socket.close()
        try:
            self._guard.wait(LAST_CALL)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()


class Reapers:
    """The reapers of this process. While `serving` is entered they stay from one command to the next."""

    def __init__(self) -> None:
        self._idle: list[Reaper] = []
        self._users = 0
        self._turn = threading.Lock()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Keep reapers."""
        with self._turn:
            self._users += 1
        try:
            yield
        finally:
            with self._turn:
                self._users -= 1
                idle, self._idle = (self._idle, []) if not self._users else ([], self._idle)
            for one in idle:
                one.close()

    def take(self) -> Reaper:
        """Return a reaper that waits for an order. OSError: there is no room for it."""
        with self._turn:
            if self._idle:
                return self._idle.pop()
        return Reaper()

    def give_back(self, one: Reaper) -> None:
        """Keep it for another order, or end it."""
        with self._turn:
            if self._users:
                self._idle.append(one)
                return
        one.close()


_reapers = Reapers()
serving = _reapers.serving
#: When each of our reapers began; a number that a new one has by now is the new one's.
_births: dict[int, int] = {}


def birth_of(number: int) -> int:
    """When this reaper began, in the kernel's own count."""
    return _births.get(number) or reaper.born(number)


class Child:
    """A command and its reaper."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str] | None,
        streams: tuple[int, int],
        *,
        stdin: str = "",
        grace: float = 0.0,
        keep: tuple[int, ...] = (),
        started: Callable[[int], None] | None = None,
    ) -> None:
        """Start it. NoProgram: there is no such command. OSError: the machine has no room for it.

        Its output goes to the two `streams`, and it reads the file `stdin`. What it leaves behind has `grace` seconds
        to end by itself. The reaper keeps the descriptors `keep` open until all is gone, should we be killed.
        `started` gets the reaper's number before anything begins: if we are killed before, nothing does.
        """
        self._answer: dict[str, int] | None = None
        seen = os.environ if env is None else env
        self._mark = seen.get(reaper.RUN_DIR, "")
        program = find_program(argv[0], cwd, seen)
        if not program:
            raise NoProgram(errno.ENOENT, "there is no such command, or it may not be executed", argv[0])
        if any("\0" in word for word in (*argv, *seen.keys(), *seen.values())):
            raise ValueError("there is a NUL in its words or its environment")
        files = 2 + bool(stdin) + len(keep)
        fields = {"argv": [*argv], "program": program, "cwd": cwd, "env": dict(seen)}
        order = json.dumps({**fields, "grace": grace, "stdin": bool(stdin), "files": files}).encode() + b"\n"
        source = [os.open(os.path.join(cwd, stdin), os.O_RDONLY | os.O_CLOEXEC)] if stdin else []
        try:
            self._reaper = _order(order, (*streams, *source, *keep), started)
        finally:
            for fd in source:
                os.close(fd)

    @property
    def pid(self) -> int:
        """The number of its reaper."""
        return self._reaper.pid

    @property
    def waker(self) -> int:
        """A descriptor that can be read once it has ended."""
        return self._reaper.fileno()

    def tell(self, word: bytes) -> None:
        """Send `stop` or `kill` to the reaper."""
        with suppress(OSError):  # it was ended before
            self._reaper.send(word + b"\n")

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether it has ended, after waiting so long for that."""
        if self._answer is None:
            try:
                self._answer = self._reaper.answer(seconds)
            except TimeoutError:
                return False
            except (ConnectionError, ValueError):
                self._answer = {"status": signal.SIGKILL, "leaves": True, "killed": True}
        return True

    def wait(self, deadline: float, bell: Bell | None = None) -> bool:
        """Wait until it has ended, the deadline, or the bell; whether it has ended."""
        while (left := deadline - time.monotonic()) > 0 and not (bell and bell.rung):
            pause = min(left, TICK)  # a look at the clock, which may leap
            if bell is not None:
                bell.wait(pause, self.waker)
            if self.ended(pause if bell is None else 0.0):
                return True
        return self.ended()

    def end(self) -> int:
        """End it and all it started; its exit code: negative is the signal that killed it.

        OSError: the machine had no room for it.
        """
        if not self.ended():
            self.tell(b"kill")
            if not self.wait(time.monotonic() + LAST_CALL):
                os.kill(self._reaper.pid, signal.SIGKILL)
                self.ended(LAST_CALL)
        answer = self._answer or {"status": signal.SIGKILL, "leaves": True, "killed": True}
        if answer.get("leaves"):
            self._reaper.close()
            _births.pop(self._reaper.pid, None)
        else:
            _reapers.give_back(self._reaper)
        if answer.get("killed") and self._mark:
            end_marked(self._mark)  # the guard may have been killed as well
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        return os.waitstatus_to_exitcode(answer["status"])


def _order(order: bytes, files: Sequence[int], started: Callable[[int], None] | None) -> Reaper:
    """Give the order to a reaper; one that was killed while it waited is replaced."""
    while True:
        one = _reapers.take()
        _births[one.pid] = one.birth
        try:
            if started is not None:
                started(one.pid)
            one.send(order, files)
        except ConnectionError:
            one.close()
        except BaseException:
            one.close()
            raise
        else:
            return one


def end_marked(run_directory: str) -> bool:
    """End every process of a run whose reaper and guard are gone, found by the directory of the run in its environment.

    False if one is left. This process and those above it are left alone.
    """
    mark = os.fsencode(f"{reaper.RUN_DIR}={run_directory}")
    deadline, above = time.monotonic() + MARKED, _above()
    while found := [number for number in reaper.processes() if number not in above and _is_marked(number, mark)]:
        if time.monotonic() >= deadline:
            return False
        reaper.send_signal(signal.SIGKILL, found)
        time.sleep(reaper.LOOK)
    return True


def _is_marked(number: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{number}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def _above() -> set[int]:
    """List this process and those that it descends from."""
    found, number = set(), os.getpid()
    while number > 0:
        found.add(number)
        stat = reaper.stat_of(number)
        number = int(stat[1]) if stat else 0
    return found


# -- commands --------------------------------------------------------------------------------------


def run(
    order: Command,
    bell: Bell,
    started: Callable[[int], None] | None = None,
    watch: Callable[[], str] | None = None,
    parting: Callable[[], None] | None = None,
) -> Ended:
    """Run a command until nothing of it is left. CannotRun: there is no such command, or it is none.

    OSError: the machine has no room for it just now. `watch` is called now and then while it runs; once it gives a
    reason, the command is ended for it. `parting` asks it to leave in its own protocol, if it has one; it then has its
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
        why = getattr(error, "strerror", None) or str(error)
        raise _cannot_run(order.argv[0], f"{order.argv[0]!r} cannot be run: {why}") from error
    finally:
        if out != log:
            os.close(out)


def _attend(
    child: Child,
    order: Command,
    bell: Bell,
    log: int,
    watch: Callable[[], str] | None,
    parting: Callable[[], None] | None,
) -> str:
    """Wait until it has ended, or ask it to; the reason if we did."""
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
            child.tell(b"stop")
            child.wait(time.monotonic() + grace)
            return "bell" if bell.rung else why or "limit"


def trim(log: int) -> int:
    """Cut a log that has grown too long to its end; by how much. Its writers append, so they go on behind."""
    size = os.fstat(log).st_size
    if size <= LONGEST_LOG:
        return 0
    tail = os.pread(log, KEPT_LOG, size - KEPT_LOG)
    os.ftruncate(log, 0)
    kept = b"[... %d bytes were cut here ...]\n" % (size - len(tail)) + tail[tail.find(b"\n") + 1 :]
    return size - os.write(log, kept)


def make_room(commands: int) -> None:
    """Let this process open as many files as so many commands at once need."""
    need = FILES_EACH * commands + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        raise Storage(
            f"{commands} tasks at once need {need} open files; the limit here is {hard}",
            hint="Use a smaller -n, several pools, or a higher `ulimit -n`.",
        )
    if soft != resource.RLIM_INFINITY and soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


def say_exit(code: int) -> str:
    """Write an exit code in words."""
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def tell_group(group: int, number: int) -> bool:
    """Signal every process of the group; False if there is none."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_group_alive(group: int) -> bool:
    """Whether a process of the group lives. Those that were not collected yet are dead, whatever `kill` reports."""
    if not tell_group(group, 0):
        return False
    return any(int(stat[2]) == group and stat[0] not in reaper.DEAD for stat in reaper.processes().values())


# -- programs --------------------------------------------------------------------------------------

#: So many programs are remembered.
MOST_FOUND = 64
_found: dict[tuple[str, str], str] = {}


def find_program(name: str, cwd: str, env: Mapping[str, str]) -> str:
    """Find the file of a command that begins with this word and runs there; empty if there is none."""
    if "/" in name:
        return name if _is_program(os.path.join(cwd, name)) else ""
    path = env.get("PATH", os.defpath)
    known = _found.get((name, path), "")
    if known and _is_program(known):
        return known
    for folder in path.split(os.pathsep):
        file = os.path.join(cwd, folder, name)
        if _is_program(file):
            if folder.startswith("/"):
                if len(_found) >= MOST_FOUND:  # each run may have a path of its own
                    _found.clear()
                _found[name, path] = file
            return file
    return ""


def _is_program(file: str) -> bool:
    return os.access(file, os.X_OK) and not os.path.isdir(file)


def check_command(name: str, cwd: str, env: Mapping[str, str]) -> None:
    """Raise CannotRun if there is no such command."""
    if not find_program(name, cwd, env):
        raise _no_command(name)


def _no_command(name: str) -> CannotRun:
    return _cannot_run(name, f"there is no command {name!r}, or it may not be executed")


def _cannot_run(name: str, message: str) -> CannotRun:
    hint = "Check the command after `--`: its name, its path and that it may be executed."
    return CannotRun(message, hint=hint, command=name)


# -- checks ----------------------------------------------------------------------------------------


def run_check(
    command: str,
    cwd: str,
    limit: float,
    env: Mapping[str, str] | None = None,
    started: Callable[[int], None] | None = None,
    log: str = "",
    shell: Sequence[str] = SHELL,
    bell: Bell | None = None,
) -> Evidence:
    """Run a task's check by `shell`, for `limit` seconds at most, and return its evidence.

    It has no input and writes to a file, so nothing it leaves behind can block us. `started` gets the number of its
    reaper, and when `bell` rings it is killed: a check has nothing to put away. With `log`, that file holds all of its
    output afterwards.
    """
    if not os.path.isdir(cwd):
        raise Storage(f"the check cannot be run in {cwd}: it is not a directory", path=cwd)
    began = time.monotonic()
    with open(fs.open_file(log, empty=True), "w+b") if log else TemporaryFile() as output:
        try:
            child = Child([*shell, command], cwd, env, (output.fileno(), output.fileno()), started=started)
        except OSError as error:
            raise Storage(f"the check cannot be run in {cwd}: {error.strerror}", path=cwd) from error
        try:
            in_time = child.wait(began + limit, bell)
        finally:
            code = child.end()
        tail = _tail(output)
    seconds = time.monotonic() - began
    if in_time:
        return Evidence(command=command, exit_code=code, seconds=seconds, tail=tail)
    stopped = f"{tail}\n[stopped after {say_duration(limit)}, the limit of a check]".lstrip()
    return Evidence(command=command, exit_code=TIMED_OUT, seconds=seconds, tail=stopped)


def _tail(output: IO[bytes]) -> str:
    """Return the end of its output, from the start of a letter."""
    end = output.seek(0, os.SEEK_END)
    output.seek(max(end - TAIL, 0))
    text = output.read().decode("utf-8", "replace")
    return (text.lstrip("\ufffd") if end > TAIL else text).strip("\r\n")
