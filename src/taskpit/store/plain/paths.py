"""Names below `.taskpit`: what each folder holds, and how unfinished changes are named.

layout config.toml      which kind of queue this is; its settings
lock                    held by the process that changes the queue; its text names process and verb
next                    the next number for a new id; it never falls
changelog.log           one JSON line for each thing that happened
open/<id>               second name of each open task's file
open/<id>~beside        fields that other programs drop; ~stop: its worker is asked to stop
ended/<id>              second name of an ended task's file
ended/<id>~done         second name of its result (~failed, ~cancelled)
ended/<id>~put          the task as it was put, once its file was changed
pending/                changes under way; normally empty
tries/<id>~<nonce>      attempts that did not finish the task
late/<id>~<nonce>       results that came too late
quarantine/             files that cannot be tasks, each with a reason
workers/                records of workers, locked while they live; what is known of clocks, starts and the pause
notes/<id>.md           notes for people; notes/<id>~files/: files kept with the task
locks/                  named locks and their numbers
reserve                 room for ending a task on a full disk
cache.db                derived; may be removed at any time

In pending/ a part is `<ready name>~<nonce>~<kind>~<size>.<crc>`, and the one file of a task that changes, its token, is
`<ready name>~<nonce>~end~<kind>`. The nonce joins a token with its parts.
"""

from __future__ import annotations

from binascii import crc32
from typing import NamedTuple

from taskpit.ids import path_of
from taskpit.layouts import Spot
from taskpit.layouts.layout import is_worker
from taskpit.model import Task

HIDDEN = ".taskpit"
OPEN = ".taskpit/open"
ENDED = ".taskpit/ended"
PENDING = ".taskpit/pending"
TRIES = ".taskpit/tries"
LATE = ".taskpit/late"
QUARANTINE = ".taskpit/quarantine"
WORKERS = ".taskpit/workers"
NOTES = ".taskpit/notes"
LOCKS = ".taskpit/locks"
LOCK = ".taskpit/lock"
NEXT = ".taskpit/next"
CHANGELOG = ".taskpit/changelog.log"
CONFIG = ".taskpit/config.toml"
LAYOUT = ".taskpit/layout"
RESERVE = ".taskpit/reserve"
CACHE = ".taskpit/cache.db"
PAUSED = f"{WORKERS}/.paused"
STARTS = f"{WORKERS}/.starts"
SIGHTINGS = f"{WORKERS}/.sightings"
#: Folders that every queue has from the beginning.
FOLDERS = (OPEN, ENDED, PENDING, LATE, QUARANTINE)
#: Bytes of a result that are read at most.
LARGEST_RESULT = 64 * 1024 * 1024
#: Attempts, holds and errors that the queue writes into a task may make it so much larger than it may be put.
SLACK = 64 * 1024
#: The kind of a token's name.
END = "end"
#: A ready file with an mtime in the last so many seconds was written by another program, which may not be done yet.
YOUNG = 2.0
#: Files of ours are dated so many seconds back, so that they are never young.
BACK = 10.0
#: A file of ours carries its checksum in the fraction of its mtime, in steps of 10 microseconds: more than a float
#: rounds away. Another fraction means that another program wrote the file, or that the bytes were damaged.
STEPS, STEP = 99_991, 1e-5


class Part(NamedTuple):
    """Bytes written before a change is decided."""

    name: str
    nonce: str
    kind: str
    size: int
    crc: int

    @property
    def path(self) -> str:
        """Where it is until it is used."""
        return f"{PENDING}/{self.name}~{self.nonce}~{self.kind}~{self.size}.{self.crc:08x}"


class Token(NamedTuple):
    """The one file of a task that changes."""

    name: str
    nonce: str
    kind: str

    @property
    def path(self) -> str:
        """Where it is until the change is shown."""
        return f"{PENDING}/{self.name}~{self.nonce}~{END}~{self.kind}"


def parse_pending(file: str) -> Part | Token | None:
    """Read a name in pending/; None if it is not one of ours."""
    words = file.split("~")
    if len(words) != 4:
        return None
    name, nonce, kind, last = words
    if kind == END:
        return Token(name, nonce, last)
    size, _, crc = last.partition(".")
    try:
        return Part(name, nonce, kind, int(size), int(crc, 16))
    except ValueError:
        return None


def part_of(name: str, nonce: str, kind: str, data: bytes) -> Part:
    """Name a part for these bytes."""
    return Part(name, nonce, kind, len(data), crc32(data))


def open_path(task_id: str, mark: str = "") -> str:
    """Return the second name of an open task's file; with a mark (`~put`) what is kept next to it."""
    return path_of(OPEN, task_id, mark)


def ended_path(task_id: str, mark: str = "") -> str:
    """Return the second name of an ended task's file; with a mark (`~done`) that of its result."""
    return path_of(ENDED, task_id, mark)


def worker_path(fence: str) -> str:
    """Return the path of the record of this claim's worker."""
    name = fence.partition("~")[0]
    return f"{WORKERS}/{name if is_worker(name) else '-'}"


def dated(now: float, data: bytes) -> float:
    """Return the mtime that a ready file of ours with these bytes gets now."""
    return int(now - BACK) + crc32(data) % STEPS * STEP


def is_dated(modified: float, data: bytes) -> bool:
    """Tell whether an mtime is one that `dated` gave to these very bytes."""
    return is_dated_by(modified, crc32(data))


def is_dated_by(modified: float, crc: int) -> bool:
    """Tell the same for bytes of which only the checksum is known."""
    return abs(modified % 1 - crc % STEPS * STEP) < STEP / 2


def checksum(data: bytes) -> int:
    """Return the checksum by which bytes are known."""
    return crc32(data)


def claim_nonce(fence: str) -> str:
    """Return the text by which the ends of a claim begin: its nonce, or a checksum of a name that has none."""
    return fence.partition("~")[2] or f"x{crc32(fence.encode('utf-8', 'replace')):08x}"


def stub(spot: Spot) -> Task:
    """Return as much of a task as its file's name tells."""
    return Task(id=spot.id, title="", slug=spot.slug)
