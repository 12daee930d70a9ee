"""Workers that stay, and whether their process still lives as far as this machine can tell."""

from __future__ import annotations

import os

from taskpit.clock import boot_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def here() -> str:
    """This machine, this boot, and the room in which process numbers count."""
    try:
        room = os.readlink("/proc/self/ns/pid")
    except OSError:
        room = ""
    return f"{os.uname().nodename} {boot_id()} {room}"


def born(pid: int) -> str:
    """When the process began, as the kernel counts; empty if it is gone or nobody can tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else words[19]


def is_dead(host: str, pid: int, birth: str) -> bool:
    """Whether this machine knows that the process is gone: only of its own, and only where it can look."""
    return host == here() and bool(born(os.getpid())) and bool(birth) and born(pid) != birth


class PostgresMember:
    """A worker that stays; the store renews its name while it works."""

    def __init__(self, worker: str, number: int, lease: float, leave: Callable[[PostgresMember], None]) -> None:
        self.worker = worker
        self.number = number
        self.lease = lease
        self._leave = leave

    def leave(self) -> None:
        """The name is free; claims made under it may be given to somebody else."""
        self._leave(self)
