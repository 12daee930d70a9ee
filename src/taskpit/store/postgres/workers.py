"""Workers that stay, and whether their process still lives as far as this machine can tell."""

from __future__ import annotations

import os
from collections.abc import Callable

from taskpit.clock import boot_id


def here() -> str:
    """Return this machine, this boot, and the namespace of process numbers."""
    try:
        room = os.readlink("/proc/self/ns/pid")
    except OSError:
        room = ""
    return f"{os.uname().nodename} {boot_id()} {room}"


def born(pid: int) -> str:
    """Return when the process began, as the kernel counts; empty if it is gone or cannot be looked at."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else words[19]


def is_dead(host: str, pid: int, birth: str) -> bool:
    """Whether the process is known to be gone: only if it is of this machine and can be looked at."""
    return host == here() and bool(born(os.getpid())) and bool(birth) and born(pid) != birth


class PostgresMember:
    """A worker that stays; the store renews its name while it works."""

    def __init__(self, worker: str, number: int, lease: float, leave: Callable[[PostgresMember], None]) -> None:
        self.worker = worker
        self.number = number
        self.lease = lease
        self._leave = leave

    def leave(self) -> None:
        """Free the name; claims made under it may be given back."""
        self._leave(self)
