"""Having a name alone until a time: locks that expire, and their fencing numbers.

`locks/<name>.lock` is a visible file that anybody can read; `locks/<name>.fence` keeps a number that only grows, and by
which clock the lock was written. Our processes take turns under the queue's lock; a new lock is linked to its name
when it is whole, an expired one replaced in one step. A worker that was stopped for longer than its lock finds
another's name or number when it comes back.

A lock of ours has expired by its own words if the clock has run evenly since it was written. Else, and a stranger's,
the file must be unchanged for a whole lease of a clock that cannot be set.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any, NamedTuple

from taskpit.clock import JUMP, say_duration
from taskpit.decode import read_json
from taskpit.errors import Invalid, Lost
from taskpit.layouts import lock_text
from taskpit.layouts.layout import check_word
from taskpit.model import Lock, Said, worker_type
from taskpit.store.plain import paths
from taskpit.store.plain.files import NotAFile, Stat, TooBig
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.leases import introduce, lives, load_record
from taskpit.store.plain.upkeep_files import replace
from taskpit.workers import base

#: Bytes of a lock file that makes sense.
LIMIT = 64 * 1024
#: How long a lock may be held whose holder has no known kind, in seconds: as long as a person's.
LONGEST = 8 * 3600.0
#: What a fence says before anybody had the name.
EMPTY: dict[str, Any] = {
    "number": 0,
    "holder": "",
    "acquired": 0.0,
    "lease": 0.0,
    "boot": "",
    "offset": 0.0,
    "sight": {},
}


class Seen(NamedTuple):
    """A lock file as it was seen, or why it cannot be read."""

    lock: Lock
    status: Stat
    trouble: str = ""

    @property
    def sign(self) -> list[int]:
        """Return what changes when anybody touches the file."""
        return [self.status.st_ino, self.status.st_mtime_ns, self.status.st_ctime_ns]


class Named:
    """One name; changed under the queue's lock."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self.name = check_word(name, "name of a lock")
        self._path = f"{paths.LOCKS}/{name}.lock"
        self._fence = f"{paths.LOCKS}/{name}.fence"

    def look(self) -> Seen | None:
        """Return the lock as it is now; None if the name is free."""
        files = self._folder.files
        try:
            data, status = files.read(self._path, LIMIT)
            return Seen(lock_text.load(self.name, data), status)
        except FileNotFoundError:
            return None
        except (NotAFile, TooBig, PermissionError, Invalid) as error:
            found = files.stat(self._path)
            trouble = error.message if isinstance(error, Invalid) else str(error.strerror)
            return Seen(Lock(name=self.name, holder="", kind=""), found, trouble) if found is not None else None

    @property
    def record(self) -> dict[str, Any]:
        """Return the last acquisition: its number, whose, for how long, by which clock; and what was seen since."""
        data = self._folder.files.piece(self._fence, 0, LIMIT)[0]
        if not data:
            return dict(EMPTY)
        try:
            fields = read_json(data)
            return {**EMPTY, **{key: fields[key] for key in EMPTY if isinstance(fields[key], type(EMPTY[key]))}}
        except (ValueError, TypeError, KeyError):  # damaged: the seconds since 1970 are more than any count so far
            return {**EMPTY, "number": int(self._folder.clock.now())}

    def until(self, seen: Seen) -> float:
        """Return when a lock ends by its own words, or as long as its kind of holder may have it."""
        lock = seen.lock
        if lock.expires:
            return lock.expires
        start = lock.acquired or max(seen.status.st_mtime, seen.status.st_ctime)
        return start + (self._folder.config.lease_of(lock.kind) if lock.kind else LONGEST)

    def expired(self, seen: Seen) -> bool:
        """Tell whether a lock no longer counts; what was seen is noted for the next look."""
        record, until, clock = self.record, self.until(seen), self._folder.clock
        known = load_record(self._folder, seen.lock.holder) if seen.lock.holder else None
        if known is not None and lives(self._folder, known) is False:
            return True
        ours = _is_of(record, seen.lock)
        if ours and self._is_even(record):
            return clock.now() > until
        if not ours and until < clock.now() and record["sight"].get("sign") != seen.sign:
            return True
        start = seen.lock.acquired or seen.status.st_mtime
        lease = record["lease"] if ours else until - start
        return self._was_watched(record, seen, lease if lease > 0 else LONGEST)

    def _was_watched(self, record: dict[str, Any], seen: Seen, lease: float) -> bool:
        clock, sight = self._folder.clock, record["sight"]
        if sight.get("sign") == seen.sign and sight["boot"] == clock.boot():
            return bool(clock.monotonic() - sight["first"] >= lease)
        self._write({**record, "sight": {"sign": seen.sign, "first": clock.monotonic(), "boot": clock.boot()}})
        return False

    def _is_even(self, record: dict[str, Any]) -> bool:
        clock = self._folder.clock
        return record["boot"] == clock.boot() and bool(abs(record["offset"] - clock.offset()) < JUMP)

    def _write(self, record: dict[str, Any]) -> None:
        replace(self._folder, self._fence, json.dumps(record, ensure_ascii=False).encode())
        if self._folder.durable:
            self._folder.files.sync(self._fence)

    def set(self, wanted: Lock, number: int, before: Seen | None) -> Lock:
        """Write the lock with this number, in place of what was judged. Lost if another program was faster."""
        folder, clock = self._folder, self._folder.clock
        times = {"acquired": float(int(wanted.acquired)), "expires": float(math.ceil(wanted.expires))}
        lock = wanted.replace(number=number, **times)
        fields = {"number": number, "holder": lock.holder, "acquired": lock.acquired}
        lease = wanted.expires - clock.now()
        self._write({**EMPTY, **fields, "lease": lease, "boot": clock.boot(), "offset": clock.offset()})
        scratch = f"{paths.LOCKS}/{self.name}~{folder.nonce()}"
        folder.files.create(scratch, lock_text.dump(lock), sync=folder.durable)
        if before is None:
            won = folder.files.link(scratch, self._path)
            folder.files.remove(scratch)
        else:
            here = folder.files.stat(self._path)
            won = (
                here is not None and Seen(lock, here).sign == before.sign and folder.files.replace(scratch, self._path)
            )
            if not won:
                folder.files.remove(scratch)
        if not won:
            now = self.look()
            raise self.refusal(now) if now else Lost(f"{self.name} was taken by another program", id=self.name)
        folder.sync_dirs(paths.LOCKS)
        return lock

    def set_aside(self, seen: Seen) -> None:
        """Keep a lock that cannot be read before it is replaced."""
        self._folder.set_aside(self._path, f"lock of {self.name}: {seen.trouble}", seen.status)

    def free(self, seen: Seen) -> bool:
        """Free the name; its number stays. False if another program has changed it."""
        here = self._folder.files.stat(self._path)
        if here is None or Seen(seen.lock, here).sign != seen.sign:
            return False
        self._folder.files.remove(self._path)
        self._folder.sync_dirs(paths.LOCKS)
        return True

    def mine(self, lock: Lock) -> Seen | None:
        """Return the lock if it is still this one; a number of 0 stands for any."""
        seen = self.look()
        if seen is None or seen.lock.holder != lock.holder:
            return None
        return None if lock.number and lock.number != self.record["number"] else seen

    def refusal(self, seen: Seen) -> Lost:
        """Say who has it, and until when."""
        holder = seen.lock.holder or "a holder whose lock cannot be read"
        left = self.until(seen) - self._folder.clock.now()
        until = f"for another {say_duration(left)}" if left > 0 else "though its time is up"
        hint = "Wait for it, or choose something else."
        return Lost(f"{self.name} is held by {holder} {until}", hint=hint, id=self.name, holder=seen.lock.holder)


def _is_of(record: dict[str, Any], lock: Lock) -> bool:
    return bool(lock.holder) and (record["holder"], record["acquired"]) == (lock.holder, lock.acquired)


def lock(folder: Folder, name: str, worker: str, seconds: float, kind: str) -> Lock:
    """Take a name; who has it already keeps its number. Lost says who has it."""
    folder.layout.check_worker(worker)
    named = Named(folder, name)
    if seconds <= 0:
        raise Invalid("a lock must last some time", name=name)
    known = load_record(folder, worker)
    if known is not None and lives(folder, known) is False:  # the last process of this name is dead, this one is not
        introduce(folder, base(worker), seconds)
    now = folder.clock.now()
    wanted = Lock(name=name, holder=worker, kind=kind or worker_type(worker), acquired=now, expires=now + seconds)
    folder.make_place(f"{paths.LOCKS}/{name}")
    with folder.lock.hold("lock"):
        seen, record = named.look(), named.record
        if seen is not None and seen.lock.holder == worker:
            number = record["number"] + (not _is_of(record, seen.lock))
            return named.set(seen.lock.replace(expires=now + seconds), number, seen)
        if seen is not None and not named.expired(seen):
            raise named.refusal(seen)
        if seen is not None and seen.trouble:
            named.set_aside(seen)
            seen = None
        return named.set(wanted, named.record["number"] + 1, seen)


def relock(folder: Folder, held: Lock, seconds: float) -> Said:
    """Keep a name for so long from now on."""
    named = Named(folder, held.name)
    with folder.lock.hold("lock"):
        seen = named.mine(held)
        if seen is None:
            return Said.LOST
        try:
            named.set(seen.lock.replace(expires=folder.clock.now() + seconds), named.record["number"], seen)
        except Lost:
            return Said.LOST
        return Said.OK


def unlock(folder: Folder, held: Lock) -> Said:
    """Free a name."""
    named = Named(folder, held.name)
    with folder.lock.hold("unlock"):
        seen = named.mine(held)
        return Said.OK if seen is not None and named.free(seen) else Said.LOST


def every(folder: Folder) -> list[Lock]:
    """List what is held, by name; where a lock cannot be read its holder is empty."""
    found = []
    for file in sorted(folder.files.names(paths.LOCKS)):
        if file.endswith(".lock") and not file.startswith("."):
            with suppress(Invalid):
                named = Named(folder, file.removesuffix(".lock"))
                seen = named.look()
                if seen is not None:
                    found.append(seen.lock.replace(number=named.record["number"], expires=named.until(seen)))
    return found
