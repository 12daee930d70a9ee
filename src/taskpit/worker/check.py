"""Running a task's check. Knows processes; what a red check means is decided elsewhere."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from taskpit import fs
from taskpit.clock import say_duration
from taskpit.errors import Storage
from taskpit.task import Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

__all__ = ["SHELL", "TIMED_OUT", "run_check"]

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
    import subprocess
    from tempfile import TemporaryFile

    from taskpit.worker.process import BEGIN, REAPER, end_reaper

    began = time.monotonic()
    with open(fs.open_file(log, empty=True), "w+b") if log else TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [*REAPER, "0", os.devnull, *shell, command],
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise Storage(f"the check cannot be run in {cwd}: {error.strerror}", path=cwd) from error
        try:
            if started is not None:
                started(process.pid)
            if process.stdin is not None:
                with suppress(OSError):  # it was ended before it began
                    os.write(process.stdin.fileno(), BEGIN)
            in_time = _wait(process, began + limit)
        finally:
            end_reaper(process)
        tail = _tail(output)
    seconds = time.monotonic() - began
    if in_time:
        return Evidence(command=command, exit_code=process.returncode, seconds=seconds, tail=tail)
    stopped = f"{tail}\n[stopped after {say_duration(limit)}, the limit of a check]".lstrip()
    return Evidence(command=command, exit_code=TIMED_OUT, seconds=seconds, tail=stopped)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """True once it has ended, False at the deadline."""
    pause = SHORTEST_PAUSE
    while not _ended(process):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(pause * 2, LONGEST_PAUSE)
    return True


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended. Where possible it is left unreaped: until then nobody else gets its number."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return process.poll() is not None


def _tail(output: IO[bytes]) -> str:
    """The end of what it printed, from the start of a letter."""
    end = output.seek(0, os.SEEK_END)
    output.seek(max(end - TAIL, 0))
    text = output.read().decode("utf-8", "replace")
    return (text.lstrip("\ufffd") if end > TAIL else text).strip("\r\n")
