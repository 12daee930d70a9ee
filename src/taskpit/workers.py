"""Who works here: names, and records that tell whether a worker lives. Nothing about tasks.

A process that stays holds a lock on its record for as long as it lives, so an unlocked record on the
same machine is a dead worker, in this container or another; process numbers are only for showing and
for sending signals. A command that claims and exits leaves its record unlocked and is judged by its
lease alone.
"""

from __future__ import annotations

import os
import time

from taskpit import fs, jsontext, schema
from taskpit.errors import Invalid
from taskpit.records import Value
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskpit.clock import Clock

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
#: More than any process can be given.
LARGEST_TOLD = 1 << 26


class WorkerRecord(Value):
    """What a worker says of itself before it first claims."""

    worker: str
    host: str
    pid: int
    #: The boot and the clock offset at that time: equal ones later mean that no clock has jumped.
    boot: str
    offset: float
    lease: float
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
    return schema.path_of(runs, task_id, f".{attempt}.{fence.partition(MARK)[2] or base(fence)}")


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
    return jsontext.dumps(record.as_dict()).encode("utf-8", "replace") + b"\n"


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
        return schema.load(WorkerRecord, read_json(fs.read(path, LIMIT)[0]))
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


def run_around(env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of the run that this process is part of; empty if of none.

    A command that forgets its variables is still a child of its run: nothing leaves that tree. Where there is no
    /proc, the variables are all there is.
    """
    if env.get(RUN_DIR):
        return env
    number = os.getppid()
    while number > 0:  # each is older than its child: this ends
        try:
            pairs = os.fsdecode(_kernel_file(f"/proc/{number}/environ")).split("\0")
            theirs = dict(pair.partition("=")[::2] for pair in pairs)
            if theirs.get(RUN_DIR):
                return theirs
        except OSError:
            pass  # another user's, or one that hides what it has: its parents are asked all the same
        try:
            number = int(_kernel_file(f"/proc/{number}/stat").rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return {}
