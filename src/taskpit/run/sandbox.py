"""Shutting a command in, by bubblewrap: what it may change, what it may see, whether it has a network.

The directory it works in and its run's directory can be written. The home is hidden, but for what the preset names
(an agent's own settings and sessions); so are /tmp and /run. Everything else can be read and not written. Where
bubblewrap is not installed or may not work, that is an error: nothing is ever run outside in silence. Starts nothing
but its trial.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from taskpit.errors import Invalid, TaskpitError
from taskpit.model import Value

PROGRAM = "bwrap"
#: Ourselves, for commands that call `pit` in there.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: How long the trial may take.
PATIENCE = 60.0
#: Where programs listen that do what they are told as this user or as root (session bus, systemd, Docker, screen): a
#: socket can be used although nothing there can be written. What is needed of it to find hosts and programs is shown.
SOCKETS = ("/run", "/var/run")
NEEDED = (
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd"),
    *("/run/current-system", "/run/wrappers", "/run/opengl-driver"),
)
#: Nothing of other processes, and none of root's powers: with them a read-only mount is made writable again.
ALONE = ("--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL", "--die-with-parent")
#: Where our own state (tokens, what is trusted) and settings are, if that is not the home.
KEPT = ("XDG_STATE_HOME", "XDG_CONFIG_HOME")
#: Folders of a home in which a program's `bin` stands beside what is not that program's.
SHARED = (".local", ".config", ".cache", ".local/share", ".local/state")


class NoSandbox(TaskpitError):
    """A sandbox was asked for and cannot be had."""

    code = "no_sandbox"


class Sandbox(Value, frozen=True, kw_only=True):
    """How far a command of ours reaches."""

    #: Whether it has a network: `on` or `off`.
    network: str = "on"
    #: What stays visible of the home, and can be written: paths beneath it.
    home: tuple[str, ...] = ()
    #: What can be read wherever it lies: whole paths.
    shown: tuple[str, ...] = ()

    def check(self) -> None:
        """NoSandbox if it cannot be had here."""
        import subprocess
        from shutil import which

        if which(PROGRAM) is None:
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
        kept = (os.path.realpath(f"{os.environ[name]}/taskpit") for name in KEPT if os.environ.get(name))
        above = ("/tmp/", *(f"{one}/" for one in (*SOCKETS, home)))  # noqa: S108 - hidden anyway
        for hidden in (*SOCKETS, home, *(path for path in kept if not path.startswith(above))):
            words += (
                ["--tmpfs", hidden] if os.path.isdir(hidden) and not os.path.islink(hidden) and hidden != "/" else []
            )
        for path in NEEDED:
            words += ["--ro-bind-try", path, path]
        for path in (PACKAGE, *_seen((*programs, sys.executable), home)):
            words += ["--ro-bind-try", path, path]
        for name in self.home:
            path = os.path.join(home, name)
            words += ["--bind-try", path, path]
        for path in self.shown:
            words += ["--ro-bind-try", path, path]
        for path in dict.fromkeys((cwd, *writable)):
            words += ["--bind", path, path] if path != "/" else []
        words += ["--unshare-net"] if self.network == "off" else []
        words += (
            ["--remount-ro", "/proc"] if os.geteuid() == 0 else []
        )  # root writes the kernel's settings as their owner
        return (*words, *ALONE, "--chdir", cwd, "--")


def shut_in(pool: Sandbox | None, asked: object) -> Sandbox | None:
    """The sandbox of a task that asks for one in a pool that has this one: the narrower of both.

    Invalid if it asks for something else; NoSandbox if it cannot be had.
    """
    if asked in (None, "") or (pool is not None and asked in ("on", pool.network)):
        return pool
    if asked not in ("on", "off"):
        raise Invalid(f"sandbox is on or off, which says whether it has a network, not {asked!r:.40}")
    made = (pool or Sandbox()).replace(network=asked)
    made.check()
    return made


def _seen(programs: Sequence[str], home: str) -> Iterator[str]:
    """Where these programs and what they need lie: the folder above their `bin`, their package, or the file alone.

    Never the home, what is above it, or a folder in it that many programs share: that would show what is hidden.
    """
    from shutil import which

    shared = {home, *(os.path.join(home, name) for name in SHARED)}
    for name in dict.fromkeys(programs):
        found = name if "/" in name else which(name)
        for path in dict.fromkeys((found, os.path.realpath(found))) if found else ():
            head, inside, _ = path.partition("/node_modules/")
            folder = os.path.dirname(path)
            whole = os.path.dirname(folder) if os.path.basename(folder) in ("bin", "sbin") else folder
            if inside:
                yield f"{head}/node_modules"
            elif whole not in shared and not f"{home}/".startswith(f"{whole.rstrip('/')}/"):
                yield whole
            elif os.path.basename(folder) == "bin" and whole in shared:
                yield from (folder, f"{whole}/lib")
            else:
                yield path
