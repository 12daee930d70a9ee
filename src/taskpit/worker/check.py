"""Running a task's check. Knows processes; what a red check means is decided elsewhere."""

from __future__ import annotations

import os
import sys
import time

from taskpit import fs
from taskpit.clock import say_duration
from taskpit.errors import Storage
from taskpit.task import Evidence
from taskpit.worker.reaper import BEGIN, COMMAND, KILL, LAST_CALL, MOST_FILES
from taskpit.worker.reaper import main as reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

#: How much of the end of a check's output is kept as evidence, in bytes.
TAIL = 4096
#: The exit code of a check that was stopped at its limit, as `timeout` has it.
TIMED_OUT = 124
#: What runs a check, followed by its command.
SHELL = ("/bin/sh", "-c")
#: How often a running check is looked at, at most and at least.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.1


def run_check(
    command: str,
    cwd: str,
    limit: float,
    env: Mapping[str, str] | None = None,
    started: Callable[[int], None] | None = None,
    log: str = "",
    shell: Sequence[str] = SHELL,
) -> Evidence:
    """The command has run, by `shell`, for `limit` seconds at most; what it showed.

    It has no input and writes to a file, so nothing it leaves behind can hang us. All it has started is gone when
    this returns, and soon after we are killed. `started` is told the number of its reaper, which ends it when it is
    told to (SIGTERM). With `log`, that file holds all of its output afterwards.
    """
    began = time.monotonic()
    with open(fs.open_file(log, empty=True) if log else _unnamed(), "w+b") as output:
        check = _Running([*shell, command], cwd, env, output.fileno())
        try:
            if started is not None:
                started(check.pid)
            check.tell(BEGIN)
            in_time = check.wait(began + limit)
        finally:
            code = check.end()
        tail = _tail(output)
    seconds = time.monotonic() - began
    if in_time:
        return Evidence(command=command, exit_code=code, seconds=seconds, tail=tail)
    stopped = f"{tail}\n[stopped after {say_duration(limit)}, the limit of a check]".lstrip()
    return Evidence(command=command, exit_code=TIMED_OUT, seconds=seconds, tail=stopped)


class _Running:
    """A check and its reaper. Without `subprocess`, which brings thirty modules to a `pit done`."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str] | None, output: int) -> None:
        if not os.path.isdir(cwd):
            raise Storage(f"the check cannot be run in {cwd}: it is not a directory", path=cwd)
        self._status: int | None = None
        hears, self._pipe = os.pipe()
        order = ("0", os.devnull, cwd, *argv)
        try:
            # A process without threads is its own copy's reaper, at once; another needs a new interpreter.
            start = _spawn if env is not None or "threading" in sys.modules else _fork
            self.pid = start(order, os.environ if env is None else env, (hears, output, output))
        except OSError as error:
            os.close(self._pipe)
            raise Storage(f"the check cannot be run in {cwd}: {error.strerror}", path=cwd) from error
        finally:
            os.close(hears)

    def tell(self, word: bytes) -> None:
        """The reaper has been told."""
        try:
            os.write(self._pipe, word)
        except OSError:
            return  # it was ended before

    def _has_ended(self) -> bool:
        """Where possible it is left unreaped: until then nobody else gets its number."""
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        if self._status is None:
            number, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if number else None
        return self._status is not None

    def wait(self, deadline: float) -> bool:
        """True once it has ended, False at the deadline."""
        pause = SHORTEST_PAUSE
        while not self._has_ended():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 2, LONGEST_PAUSE)
        return True

    def end(self) -> int:
        """Nothing of it is left; its exit code."""
        if not self._has_ended():
            self.tell(KILL)
            if not self.wait(time.monotonic() + LAST_CALL):
                os.kill(self.pid, 9)
        os.close(self._pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1] if self._status is None else self._status)


def _spawn(order: tuple[str, ...], env: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """A reaper with a session and an interpreter of its own."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]
    return os.posix_spawn(sys.executable, (*COMMAND, *order), env, file_actions=actions, setsid=True)


def _fork(order: tuple[str, ...], _: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """A reaper with a session of its own, which is a copy of this process."""
    number = os.fork()
    if number:
        return number
    try:
        os.setsid()
        for here, fd in enumerate(streams):
            os.dup2(fd, here)
        os.closerange(3, MOST_FILES)
        reap(*order)
    finally:
        os._exit(1)


def _unnamed() -> int:
    """A new file without a name."""
    try:
        return os.open(os.environ.get("TMPDIR") or "/tmp", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)  # noqa: S108
    except (AttributeError, OSError):  # not on every filesystem
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            return os.dup(file.fileno())


def _tail(output: IO[bytes]) -> str:
    """The end of what it printed, from the start of a letter."""
    end = output.seek(0, os.SEEK_END)
    output.seek(max(end - TAIL, 0))
    text = output.read().decode("utf-8", "replace")
    return (text.lstrip("\ufffd") if end > TAIL else text).strip("\r\n")
