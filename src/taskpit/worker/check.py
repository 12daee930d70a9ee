"""Running a task's check. Knows processes; what a red check means is decided elsewhere."""

from __future__ import annotations

import os
import time

from taskpit import fs
from taskpit.clock import say_duration
from taskpit.errors import Storage
from taskpit.model import Evidence
from taskpit.worker.child import Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

    from taskpit.worker.process import Bell

#: How much of the end of a check's output is kept as evidence, in bytes.
TAIL = 4096
#: The exit code of a check that was stopped at its limit, as `timeout` has it.
TIMED_OUT = 124
#: What runs a check, followed by its command.
SHELL = ("/bin/sh", "-c")


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
    """The command has run, by `shell`, for `limit` seconds at most; what it showed.

    It has no input and writes to a file, so nothing it leaves behind can hang us. All it has started is gone when
    this returns, and soon after we are killed. `started` hears the number of its reaper, and when `bell` rings it is
    killed: it has nothing to put away. With `log`, that file holds all of its output afterwards.
    """
    began = time.monotonic()
    with open(fs.open_file(log, empty=True) if log else _unnamed(), "w+b") as output:
        check = _start([*shell, command], cwd, env, output.fileno(), started)
        try:
            in_time = check.wait(began + limit, bell)
        finally:
            code = check.end()
        tail = _tail(output)
    seconds = time.monotonic() - began
    if in_time:
        return Evidence(command=command, exit_code=code, seconds=seconds, tail=tail)
    stopped = f"{tail}\n[stopped after {say_duration(limit)}, the limit of a check]".lstrip()
    return Evidence(command=command, exit_code=TIMED_OUT, seconds=seconds, tail=stopped)


def _start(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str] | None,
    output: int,
    started: Callable[[int], None] | None,
) -> Child:
    if not os.path.isdir(cwd):
        raise Storage(f"the check cannot be run in {cwd}: it is not a directory", path=cwd)
    try:
        return Child(argv, cwd, env, (output, output), started=started)
    except OSError as error:
        raise Storage(f"the check cannot be run in {cwd}: {error.strerror}", path=cwd) from error


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
