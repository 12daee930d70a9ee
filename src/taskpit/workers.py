"""Who works here: names, and records that tell whether a worker lives. Nothing about tasks.

A process that stays holds a lock on its record for as long as it lives, so an unlocked record on the
same machine is a dead worker, in this container or another; process numbers are only for showing and
for sending signals. A command that claims and exits leaves its record unlocked and is judged by its
lease alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping

from taskpit import fs, ids
from taskpit.clock import Clock
from taskpit.decode import convert, read_json
from taskpit.errors import Invalid
from taskpit.model import Count, Offset, Seconds, Text, Value

#: Between a worker's name and what makes one claim of it unique.
MARK = "~"
#: How often a worker that does not stay tries to leave its record.
TRIES = 5
#: A record is a few hundred bytes; more is not one of ours.
LIMIT = 64 * 1024
#: Where runs have their files, below the folder of a queue.
RUNS = ".taskpit/runs"
#: By this variable a command knows that a pool runs it.
RUN_DIR = "TASKPIT_RUN_DIR"
#: So begins what the kernel calls the reaper of a run; behind it the descriptor whose name says of what (`reaper`).
NAME_OF_RUN = b"pit-run "
#: More than any process can be given.
LARGEST_TOLD = 1 << 26


class WorkerRecord(Value, frozen=True, kw_only=True):
    """What a worker says of itself before it first claims."""

    worker: Text
    host: Text
    pid: Count
    #: The boot and the clock offset at that time: equal ones later mean that no clock has jumped.
    boot: Text
    offset: Offset
    lease: Seconds
    #: Whether a process holds the lock on this record while it lives.
    stays: bool


def host() -> str:
    """This machine's name."""
    return os.uname().nodename


def default_worker(user: str = "") -> str:
    """`user@host` with only letters a name may have, so that one person's claim and done match."""
    user = user or os.environ.get("LOGNAME") or os.environ.get("USER") or _login()
    text = f"{user}@{host()}"[:64]
    return "".join(c if c.isascii() and (c.isalnum() or c in "@_-") else "-" for c in text)


def _login() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"


def base(worker: str) -> str:
    """The worker's name without what makes one claim unique."""
    return worker.split(MARK, 1)[0]


def run_path(runs: str, task_id: str, attempt: int, fence: str) -> str:
    """Where in the folder of all runs this claim's has its files."""
    return ids.path_of(runs, task_id, f".{attempt}.{fence.partition(MARK)[2] or base(fence)}")


def describe(worker: str, lease: float, clock: Clock, *, stays: bool) -> WorkerRecord:
    """This process as a record."""
    return WorkerRecord(
        worker=worker,
        host=host(),
        pid=os.getpid(),
        boot=clock.boot(),
        offset=clock.offset(),
        lease=lease,
        stays=stays,
    )


def _bytes(record: WorkerRecord) -> bytes:
    return json.dumps(record.as_dict(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def introduce(path: str, record: WorkerRecord) -> None:
    """Leave the record of a worker that does not stay; one that stays under this name keeps its own.

    A judge looking whether the name's last holder lives has the lock for an instant: try again, or our
    claims would be judged by the record of a dead worker.
    """
    lock = fs.Flock(path)
    for _ in range(TRIES):
        if lock.take(wait=False):
            try:
                fs.overwrite(lock.fd, _bytes(record), path)
            finally:
                lock.drop()
            return
        time.sleep(0.002)


def load(path: str) -> WorkerRecord | None:
    """The record, or None if there is none that can be read."""
    try:
        return convert(read_json(fs.read(path, LIMIT)[0]), WorkerRecord)
    except (OSError, ValueError, Invalid):
        return None


def lives(path: str, record: WorkerRecord) -> bool | None:
    """Whether the worker lives; None if this machine can't tell."""
    if not record.stays or record.host != host():
        return None
    lock = fs.Flock(path)
    try:
        if not lock.take(wait=False):
            return True
    except PermissionError:
        return None  # another user's, who lets nobody near it: only its leases tell
    lock.drop()
    return False


class LocalMember:
    """A worker that stays: holds the lock on its record until `leave`."""

    def __init__(self, path: str) -> None:
        self._lock = fs.Flock(path)

    def join(self, record: WorkerRecord, clock: Clock, *, patience: float = 1.0) -> bool:
        """Ours is the record of this name; False if a living process has it.

        A judge looking whether the name's last holder lives has the lock for an instant: be patient.
        """
        deadline = clock.monotonic() + patience
        while not self._lock.take(wait=False):
            if clock.monotonic() >= deadline:
                return False
            clock.sleep(0.02)
        self.update(record)
        return True

    def update(self, record: WorkerRecord) -> None:
        """Say something new of ourselves: another lease, or that the clock was set."""
        fs.overwrite(self._lock.fd, _bytes(record), self._lock.path)

    @property
    def fd(self) -> int:
        """The open file whose lock is the name."""
        return self._lock.fd

    def leave(self) -> None:
        """Let go of the name."""
        self._lock.drop()


def _kernel_file(path: str) -> bytes:
    """What the kernel tells there, of whatever length; with fewer calls than an open file, for every `done` asks."""
    return fs.read(path, LARGEST_TOLD)[0]


class Around(Value, frozen=True, kw_only=True):
    """The run that a process is part of: the outermost one, if runs have pools of their own."""

    #: Its task and its claim; empty if they can't be told.
    task: str
    fence: str
    #: The task that the process itself says it works on.
    says: str
    #: The process that all of it is below; 0 if only its variables tell of it.
    top: int
    #: The role of the crew member that runs; empty for a worker. Only a reaper tells it, never a variable.
    role: str = ""


def run_around(env: Mapping[str, str]) -> Around | None:
    """The run that this process is part of, if it is.

    A command that forgets its variables, or changes them, is still below the reaper of its run, and so is one that
    loses its parent: nothing leaves that tree. What stands highest counts, for a run makes what is below it as it
    likes. Where there is no /proc, the variables are all there is.
    """
    says, top = env.get("TASKPIT_TASK", ""), 0
    found = (says, env.get("TASKPIT_AS", ""), "") if env.get(RUN_DIR) else None
    for number, name in _line(os.getppid):
        said = _run_said_by(number, name)
        if said is not None:
            found, top = said, number
    return None if found is None else Around(task=found[0], fence=found[1], says=says, top=top, role=found[2])


def is_below(number: int, top: int) -> bool:
    """Whether the first process descends from the second."""
    return top in [parent for parent, _ in _line(lambda: number)[1:]]


def _line(first: Callable[[], int]) -> list[tuple[int, bytes]]:
    """This process, its parent, and so on, with what the kernel calls them; as many as it tells of."""
    before = None
    while True:
        found, number = [], first()
        while number > 0:  # each is older than its child: this ends
            try:
                head, _, tail = _kernel_file(f"/proc/{number}/stat").rpartition(b")")
                parent = int(tail.split()[1])
            except (OSError, ValueError, IndexError):
                break
            found.append((number, head.partition(b"(")[2]))
            number = parent
        if number <= 0 or (found, number) == before:
            return found
        before = (found, number)  # it may have ended just now, and its children have another parent


def _run_said_by(number: int, name: bytes) -> tuple[str, str, str] | None:
    """Return task, claim and role of the run that this process watches over or has the variables of, or None."""
    if name.startswith(NAME_OF_RUN):
        try:
            said = os.readlink(f"/proc/{number}/fd/{int(name.removeprefix(NAME_OF_RUN))}")
        except (OSError, ValueError):
            return "", "", ""  # another user's, or the system has no such names
        words = [*said.removeprefix("/memfd:").removesuffix(" (deleted)").split(" "), "", "", ""]
        return words[0], words[1], words[2]
    try:
        pairs = os.fsdecode(_kernel_file(f"/proc/{number}/environ")).split("\0")
    except OSError:
        return None  # another user's, or one that hides what it has: its parents are asked all the same
    theirs = dict(pair.partition("=")[::2] for pair in pairs)
    return (theirs.get("TASKPIT_TASK", ""), theirs.get("TASKPIT_AS", ""), "") if theirs.get(RUN_DIR) else None
