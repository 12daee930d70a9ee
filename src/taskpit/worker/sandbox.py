"""Shutting a command in, by bubblewrap: what it may change, what it may see, whether it has a network.

The directory it works in and its run's directory can be written. The home is hidden, but for what the preset names
(an agent's own settings and sessions); so is /tmp. Everything else can be read and not written. Where bubblewrap is
not installed or may not work, that is an error: nothing is ever run outside in silence. Starts nothing but its trial.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from taskpit.errors import TaskpitError
from taskpit.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NoSandbox", "Sandbox"]

PROGRAM = "bwrap"
#: How long the trial may take.
PATIENCE = 60.0


class NoSandbox(TaskpitError):
    """A sandbox was asked for and cannot be had."""

    code = "no_sandbox"


class Sandbox(Value):
    """How far a command of ours reaches."""

    #: Whether it has a network: `on` or `off`.
    network: str = "on"
    #: What stays visible of the home, and can be written: paths beneath it.
    home: tuple[str, ...] = ()
    #: What can be read wherever it lies: whole paths.
    shown: tuple[str, ...] = ()

    def check(self) -> None:
        """NoSandbox if it cannot be had here."""
        if shutil.which(PROGRAM) is None:
            raise NoSandbox(
                "a sandbox was asked for, and bubblewrap is not installed",
                hint="Install it (apt install bubblewrap, dnf install bubblewrap), or run without --sandbox.",
            )
        try:
            trial = (*self.wrap("/", ()), "true")
            ran = subprocess.run(trial, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoSandbox(f"bubblewrap does not work here: {error}") from None
        if ran.returncode:
            hint = "User namespaces may be forbidden on this machine; run without --sandbox, or allow them."
            raise NoSandbox(f"bubblewrap does not work here: {ran.stderr.strip()[-300:]}", hint=hint)

    def wrap(self, cwd: str, writable: Sequence[str], programs: Sequence[str] = ()) -> tuple[str, ...]:
        """What stands before a command that works in `cwd`; `programs` must be seen even if they lie in the home."""
        home = os.path.expanduser("~")
        words = [PROGRAM, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]  # noqa: S108 - a new one
        words += ["--tmpfs", home] if os.path.isdir(home) and home != "/" else []
        for path in _seen((*programs, sys.executable, __file__)):
            words += ["--ro-bind-try", path, path]
        for name in self.home:
            path = os.path.join(home, name)
            words += ["--bind-try", path, path]
        for path in self.shown:
            words += ["--ro-bind-try", path, path]
        for path in dict.fromkeys((cwd, *writable)):
            words += ["--bind", path, path] if path != "/" else []
        words += ["--unshare-net"] if self.network == "off" else []
        return (*words, "--unshare-pid", "--die-with-parent", "--chdir", cwd, "--")


def _seen(programs: Sequence[str]) -> Iterator[str]:
    """Where these programs and what they need lie: the folder above their `bin`, or their package."""
    for name in dict.fromkeys(programs):
        found = name if "/" in name else shutil.which(name)
        for path in dict.fromkeys((found, os.path.realpath(found))) if found else ():
            head, inside, _ = path.partition("/node_modules/")
            yield f"{head}/node_modules" if inside else os.path.dirname(os.path.dirname(path))
