"""Records of pools: when each began and ended, and why. Nothing about tasks.

    .taskpit/pools/<key>.json    one pool; its mtime is a sign of life while it works

A pool that was killed leaves a record without an end; readers call it killed once its process is gone.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import msgspec

from taskpit import fs

#: A pool touches its record this often, in seconds; one on another machine is dead after so long without it.
PULSE, SILENT = 10.0, 120.0
#: So many records are kept, and no record is larger.
KEPT, LARGEST = 50, 65536
#: The reason of a pool that could not write one.
KILLED = "it was killed"


class PoolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One pool."""

    key: str
    host: str
    pid: int
    #: When the process began, as the kernel counts: a number that was given again has another one.
    birth: str
    name: str
    began: float
    ended: float = 0.0
    reason: str = ""
    #: Whether the reason needs a person.
    failed: bool = False
    #: Why it claims nothing now, as sentences; empty if it would.
    closed: tuple[str, ...] = ()
    #: Whether it claims only tasks that declare which paths they touch.
    declared_only: bool = False

    def why_not(self, *, declared: bool) -> list[str]:
        """Why this pool does not claim a ready task now; `declared`: it declares the paths it touches."""
        lines = [f"The pool {self.name} claims nothing now: {one}." for one in self.closed]
        if self.declared_only and not declared:
            lines.append(
                f"The pool {self.name} does not claim it: its agents share one checkout, and the task does not declare "
                "the paths it touches (`pit edit ID --touches GLOB`). With --land merge each task gets a clone."
            )
        return lines

    def sentence(self) -> str:
        """When it worked and why it ended, for people."""
        began, ended = time.localtime(self.began), time.localtime(self.ended)
        day = "%H:%M" if began[:3] == ended[:3] else "%Y-%m-%d %H:%M"
        return f"{self.name}: {time.strftime(day, began)} to {time.strftime(day, ended)}, ended: {self.reason}"


class Recorder:
    """Writes the record of one pool. A disk that refuses costs the record, not the work."""

    def __init__(self, root: str, record: PoolRecord) -> None:
        self._path = f"{root}/.taskpit/pools/{record.key}.json" if root else ""
        self.record = record
        self._touched = 0.0
        if root:
            with suppress(OSError):
                fs.make_dir(f"{root}/.taskpit/pools")
                self._write()

    def change(self, **fields: object) -> None:
        """Set these fields; writes only what is new."""
        changed = msgspec.structs.replace(self.record, **fields)
        if changed != self.record:
            self.record = changed
            self._write()

    def touch(self) -> None:
        """Leave a sign of life now and then."""
        if self._path and time.monotonic() - self._touched >= PULSE:
            self._touched = time.monotonic()
            with suppress(OSError):
                fs.set_times(self._path, None)

    def _write(self) -> None:
        if self._path:
            with suppress(OSError):
                fs.replace(self._path, msgspec.json.encode(self.record), sync=False)


def birth_of(pid: int) -> str:
    """When this process began, as the kernel counts; empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def records(root: str) -> list[PoolRecord]:
    """Every record of this queue, the latest first; those of killed pools with an end and a reason."""
    found = []
    folder = f"{root}/.taskpit/pools"
    for name in fs.names(folder) if root else ():
        with suppress(OSError, msgspec.MsgspecError):
            record = msgspec.json.decode(fs.read(f"{folder}/{name}", LARGEST)[0], type=PoolRecord)
            status = fs.status(f"{folder}/{name}")
            sign = status.st_mtime if status is not None else record.began
            found.append(record if record.ended or _lives(record, sign) else _killed(record, sign))
    return sorted(found, key=lambda record: record.began, reverse=True)


def _lives(record: PoolRecord, sign: float) -> bool:
    if record.host == os.uname().nodename:
        return bool(record.birth) and birth_of(record.pid) == record.birth
    return time.time() - sign < SILENT


def _killed(record: PoolRecord, sign: float) -> PoolRecord:
    return msgspec.structs.replace(record, ended=max(sign, record.began), reason=KILLED, failed=True)


def prune(root: str) -> None:
    """Keep the latest records, with an end in those of killed pools."""
    folder = f"{root}/.taskpit/pools"
    for place, record in enumerate(records(root)):
        with suppress(OSError):
            if place >= KEPT and record.ended:
                fs.remove(f"{folder}/{record.key}.json")
            elif record.reason == KILLED:
                fs.replace(f"{folder}/{record.key}.json", msgspec.json.encode(record), sync=False)


def living(root: str) -> list[PoolRecord]:
    """List the pools that work now."""
    return [record for record in records(root) if not record.ended]


def last_ended(root: str, since: float, most: int = 5) -> list[PoolRecord]:
    """List the last pools that ended since then, the latest first."""
    return [record for record in records(root) if record.ended >= since and record.ended][:most]
