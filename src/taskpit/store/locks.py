"""Having a name alone, until a time: locks that expire, and their fencing numbers. Knows files, no tasks.

A lock is a visible file anybody can read. Who may change it takes turns under a lock of the kernel on
`fences/<name>`, a file that is never deleted and keeps a number that only grows. A new lock is linked to
its name when it is written in full, so there is never an empty one; an expired one is replaced by one
rename. Whoever was stopped for longer than its lease finds another's name or number when it comes back.

When a lock has expired is told by its own words only where nothing speaks against them. Ours: the clock
must have run evenly since it was written. A stranger's: both our clock and the filesystem's must be past
its end. Where a clock was set meanwhile, the file must lie unchanged for one whole lease by a clock that
cannot be set.

People lock names of their own choosing, in any layout: `.taskpit/locks/<name>.lock`.
"""

from __future__ import annotations

import json
import math
import os
import stat

from taskpit import fs, workers
from taskpit.clock import say_duration
from taskpit.decode import read_json
from taskpit.errors import Invalid, Lost
from taskpit.layouts import lock_text
from taskpit.layouts.layout import check_word
from taskpit.model import Lock, Said, Value, worker_type
from taskpit.store.flock import BoundedLock
from taskpit.store.folder import FENCES, LOCKS, QUARANTINE, Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: Every record is this long, so that it is always replaced whole: one write within one page.
RECORD = 512
#: The largest lock file that makes sense.
LIMIT = 64 * 1024
#: How long a lock may be held that tells nobody's kind, in seconds: as long as a person's.
LONGEST = 8 * 3600.0
#: What the record says before anybody had the name.
EMPTY: dict[str, Any] = {
    "number": 0,
    "holder": "",
    "acquired": 0.0,
    "lease": 0.0,
    "boot": "",
    "offset": 0.0,
    "sight": {},
}
#: Two clock offsets closer than this are the same: nobody has set the clock in between.
JUMP = 1.0


class LockFile(Value, frozen=True, kw_only=True):
    """A lock file as it was seen: what it says, or why it cannot be read, and its status."""

    lock: Lock
    status: fs.Stat
    trouble: str = ""


class Grip(BoundedLock):
    """One name's turn: while it is entered, nobody else of ours takes, renews or lets go of the name."""

    __slots__ = ("_folder", "_held", "_path", "name")

    def __init__(self, folder: Folder, name: str, path: str) -> None:
        super().__init__(folder.at(f"{FENCES}/{name}"))
        self._folder = folder
        self._path = folder.at(path)
        #: The file that was last found or made to be ours, or judged to be over: nothing else is changed.
        self._held: LockFile | None = None
        self.name = name

    # -- looking (no turn needed) ------------------------------------------------------------------

    def look(self) -> LockFile | None:
        """The lock file as it is now; None if the name is free."""
        try:
            data, status = fs.read(self._path, LIMIT)
        except FileNotFoundError:
            return None
        except (fs.NotAFile, fs.TooBig, PermissionError) as error:
            found = fs.status(self._path)
            return self._unread(found, error.strerror or "it cannot be read") if found else None
        try:
            return LockFile(lock=lock_text.load(self.name, data), status=status)
        except Invalid as error:
            return self._unread(status, error.message)

    def _unread(self, status: fs.Stat, trouble: str) -> LockFile:
        return LockFile(lock=Lock(name=self.name, holder="", kind=""), status=status, trouble=trouble)

    def until(self, seen: LockFile) -> float:
        """When the lock ends by its own words: told, or as long as its kind of holder may have it."""
        lock = seen.lock
        if lock.expires:
            return lock.expires
        start = lock.acquired or max(seen.status.st_mtime, seen.status.st_ctime)
        if not lock.kind:
            return start + LONGEST
        return start + self._folder.config.lease_of(lock.kind)

    def over(self, seen: LockFile) -> str:
        """Why this lock no longer counts; empty while it may be live. Notes what it saw, for the next who asks."""
        reason = self._dead(seen.lock.holder) or self._expired(seen)
        if reason:
            self._held = seen
        return reason

    def _expired(self, seen: LockFile) -> str:
        record, until, now = self._record(), self.until(seen), self._folder.clock.now()
        ours = _tells(record, seen.lock)
        if ours and self._even(record):
            return self._told(seen, until) if now > until else ""
        if not ours and until < now and not self._jumped(record, seen) and until < self._kernel_now():
            return self._told(seen, until)
        start = seen.lock.acquired or seen.status.st_mtime
        told = record["lease"] if ours else until - start
        return self._watched(record, seen, told if told > 0 else LONGEST)

    def _dead(self, holder: str) -> str:
        """Whether the holder is a process that stayed here, and died: its name is free at once."""
        path = self._folder.worker_path(holder)
        told = workers.load(path)
        if told is None or workers.lives(path, told) is not False:
            return ""
        return f"{workers.base(holder)} is dead (process {told.pid})"

    def _told(self, seen: LockFile, until: float) -> str:
        ago = max(self._folder.clock.now() - until, 0.0)
        return f"the lock of {seen.lock.holder or 'an unknown holder'} expired {say_duration(ago)} ago"

    def _even(self, record: dict[str, Any]) -> bool:
        """Whether the clock has run evenly since the record was written."""
        clock = self._folder.clock
        return record.get("boot") == clock.boot() and abs(record.get("offset", 0.0) - clock.offset()) < JUMP

    def _jumped(self, record: dict[str, Any], seen: LockFile) -> bool:
        """Whether the clock was set while somebody watched this very lock."""
        sight = record["sight"]
        return sight.get("sign") == _sign(seen) and (sight["set"] or not self._even(sight))

    def _kernel_now(self) -> float:
        """What time it is where the files lie: the time the filesystem gives a file made now."""
        scratch = self._folder.tmp("now", fs.fresh_name(), "lock")
        fs.create(scratch, b"", sync=False)
        status = fs.status(scratch)
        fs.remove(scratch)
        return status.st_ctime if status else 0.0

    def _watched(self, record: dict[str, Any], seen: LockFile, lease: float) -> str:
        """Expired if it lay unchanged for a whole lease of a clock that nobody can set."""
        clock, sign, sight = self._folder.clock, _sign(seen), record["sight"]
        if sight.get("sign") == sign and sight["boot"] == clock.boot():
            watched = clock.monotonic() - sight["first"]
            if watched < lease:
                return ""
            return f"{seen.lock.holder or 'its holder'} gave no sign for {say_duration(watched)}"
        noted = {
            "sign": sign,
            "first": clock.monotonic(),
            "boot": clock.boot(),
            "offset": clock.offset(),
            "set": self._jumped(record, seen),
        }
        self._note(noted, record["number"])
        return ""

    # -- the record (in one's turn) ----------------------------------------------------------------

    def _record(self) -> dict[str, Any]:
        """The last acquisition: its number, whose, for how long, by which clock; and who was seen since when."""
        try:
            data = fs.read(self.path, LIMIT)[0]
        except FileNotFoundError:
            return dict(EMPTY)
        try:
            record = read_json(data)
            return {**EMPTY, **{key: record[key] for key in EMPTY if isinstance(record[key], type(EMPTY[key]))}}
        except (ValueError, TypeError, KeyError):
            # Made and not yet written; or damaged, and then the seconds since 1970 are more than any count so far.
            return {**EMPTY, "number": int(self._folder.clock.now()) if data else 0}

    def _write(self, record: dict[str, Any]) -> None:
        fs.overwrite(self.fd, json.dumps(record).encode().ljust(RECORD - 1) + b"\n", self.path)
        if self._folder.durable:
            fs.sync_file(self.fd, self.path)

    def _enter(self, lock: Lock, number: int, lease: float) -> None:
        """The lock about to be written is in the record first, with the clock it is written by."""
        clock = self._folder.clock
        told = {"number": number, "holder": lock.holder, "acquired": lock.acquired, "lease": lease}
        self._write({**EMPTY, **told, "boot": clock.boot(), "offset": clock.offset()})

    def _note(self, sight: dict[str, Any], number: int) -> None:
        """Keep a sighting: in our turn at once, otherwise only if nobody else is at it."""
        if self._fd is not None:
            self._write({**self._record(), "sight": sight})
        elif self.take(wait=False):
            try:
                if self.number == number:
                    self._write({**self._record(), "sight": sight})
            finally:
                self.drop()

    @property
    def number(self) -> int:
        """The number of the last acquisition; 0 if there was none."""
        number: int = self._record()["number"]
        return number

    # -- changing (in one's turn) ------------------------------------------------------------------

    def acquire(self, wanted: Lock) -> Lock:
        """The name is ours, with the next number. Lost says who has it.

        A stranger who takes no turns may link or delete between our look and our step: a link tells, and
        before a rename the file must still be the one that was judged.
        """
        seen = self.look()
        if seen is not None:
            if not self.over(seen):
                raise self.refusal(seen)
            if seen.trouble:
                seen = self._keep(seen)
        lock = _as_written(wanted, self.number + 1)
        self._enter(lock, lock.number, wanted.expires - wanted.acquired)
        scratch = self._scratch(lock)
        if seen is None:
            won = fs.link(scratch, self._path)
            fs.remove(scratch)
        else:
            here = fs.status(self._path)
            won = here is not None and _same(here, seen.status) and fs.move(scratch, self._path)
            if not won:
                fs.remove(scratch)
        if not won:
            now = self.look()
            raise (
                self.refusal(now)
                if now
                else Lost(f"{self.name} could not be taken: another worker was faster", id=self.name)
            )
        self._settle(lock)
        return lock

    def _keep(self, seen: LockFile) -> LockFile | None:
        """A lock that could not be read is kept aside before it is replaced: it is somebody's words.

        None: it stands there no more, since it was a directory and had to be moved.
        """
        aside = self._folder.at(f"{QUARANTINE}/{self.name}.lock~{fs.fresh_name()}")
        reason = f"lock of {self.name}: {seen.trouble}\n".encode("utf-8", "replace")
        fs.create(f"{aside}.reason", reason, sync=False)
        if stat.S_ISDIR(seen.status.st_mode):
            fs.move(self._path, aside)
            return None
        fs.link(self._path, aside)
        now = fs.status(self._path)  # the link has changed its ctime; anything else is somebody at work
        changed = now is None or _sign(seen)[:2] != [now.st_ino, now.st_mtime_ns]
        return seen if now is None or changed else seen.replace(status=now)

    def refusal(self, seen: LockFile) -> Lost:
        """Who has it, and until when."""
        holder = seen.lock.holder or "a holder whose lock cannot be read"
        left = self.until(seen) - self._folder.clock.now()
        until = f"for another {say_duration(left)}" if left > 0 else "though its time is over"
        return Lost(
            f"{self.name} is held by {holder} {until}",
            hint="Wait for it, or choose something else.",
            id=self.name,
            holder=seen.lock.holder,
        )

    def mine(self, lock: Lock) -> Lock | None:
        """The lock as it stands, if it is still this one; None if another has it, or nobody.

        A number of 0 stands for any: then the holder's name alone tells.
        """
        seen = self.look()
        self._held = None
        if seen is None or seen.lock.holder != lock.holder:
            return None
        if lock.number and lock.number != self.number:
            return None
        self._held = seen
        return seen.lock.replace(number=self.number)

    def rewrite(self, lock: Lock) -> Lock:
        """The lock says this now; only in our turn, and after `mine`. Lost if somebody was at it since.

        What a stranger has written in our name, or somebody who died before the name was its own, has no
        number of ours: it gets the next one.
        """
        record = self._record()
        known = self._held is not None and _tells(record, self._held.lock)
        kept = _as_written(lock, record["number"] + (not known))
        self._enter(kept, kept.number, lock.expires - self._folder.clock.now())
        scratch = self._scratch(kept)
        if not self._untouched():
            fs.remove(scratch)
            raise self._gone()
        fs.move(scratch, self._path)
        self._settle(kept)
        return kept

    def let_go(self) -> None:
        """The name is free; only in our turn, and after `mine` or `over`. Its number stays. Lost as in `rewrite`."""
        if not self._untouched():
            raise self._gone()
        fs.remove(self._path)
        self._held = None
        self._sync()

    def leave(self) -> None:
        """The name is free of us: what a stranger has put there meanwhile is theirs, and stays."""
        try:
            self.let_go()
        except Lost:
            self._held = None

    def _untouched(self) -> bool:
        """Whether what stands there is what `mine` saw: strangers take no turns."""
        now = fs.status(self._path)
        return now is not None and self._held is not None and _same(now, self._held.status)

    def _gone(self) -> Lost:
        return Lost(f"{self.name} was changed by another program", hint="Look at it with `pit lock`.", id=self.name)

    def _scratch(self, lock: Lock) -> str:
        scratch = self._folder.tmp(self.name, fs.fresh_name(), "lock")
        fs.create(scratch, lock_text.dump(lock), sync=self._folder.durable)
        return scratch

    def _settle(self, lock: Lock) -> None:
        """The name says what it should, for good, and is ours until somebody touches it."""
        status = fs.status(self._path)
        self._held = LockFile(lock=lock, status=status) if status else None
        self._sync()

    def _sync(self) -> None:
        if self._folder.durable:
            fs.sync_dir(os.path.dirname(self._path))


def _as_written(lock: Lock, number: int) -> Lock:
    """The lock as its file will tell it, in whole seconds: never from later on, never for too short."""
    whole = {"acquired": float(int(lock.acquired)), "expires": float(math.ceil(lock.expires))}
    return lock.replace(number=number, **whole)


def _tells(record: dict[str, Any], lock: Lock) -> bool:
    """Whether the record speaks of this very lock."""
    return bool(lock.holder) and (record["holder"], record["acquired"]) == (lock.holder, lock.acquired)


def _sign(seen: LockFile) -> list[int]:
    """What changes when anybody touches the file."""
    return [seen.status.st_ino, seen.status.st_mtime_ns, seen.status.st_ctime_ns]


def _same(one: fs.Stat, other: fs.Stat) -> bool:
    return (one.st_ino, one.st_mtime_ns, one.st_ctime_ns) == (other.st_ino, other.st_mtime_ns, other.st_ctime_ns)


SUFFIX = ".lock"


def _grip(folder: Folder, name: str) -> Grip:
    return Grip(folder, check_word(name, "name of a lock"), f"{LOCKS}/{name}{SUFFIX}")


def lock(folder: Folder, name: str, worker: str, seconds: float, kind: str) -> Lock:
    """The name is the worker's; whoever has it already keeps its number."""
    folder.layout.check_worker(worker)
    if seconds <= 0:
        raise Invalid("a lock must last some time", name=name)
    _alive(folder, workers.base(worker), seconds)
    now = folder.clock.now()
    wanted = Lock(name=name, holder=worker, kind=kind or worker_type(worker), acquired=now, expires=now + seconds)
    with _grip(folder, name) as grip:
        mine = grip.mine(wanted)
        if mine is None:
            return grip.acquire(wanted)
        return grip.rewrite(mine.replace(expires=now + seconds))


def _alive(folder: Folder, worker: str, seconds: float) -> None:
    """The last process that stayed here under this name is dead; whoever locks now is not."""
    path = folder.worker_path(worker)
    told = workers.load(path)
    if told is not None and workers.lives(path, told) is False:
        workers.introduce(path, workers.describe(worker, seconds, folder.clock, stays=False))


def relock(folder: Folder, held: Lock, seconds: float) -> Said:
    """It lasts for so long from now on."""
    with _grip(folder, held.name) as grip:
        mine = grip.mine(held)
        if mine is None:
            return Said.LOST
        try:
            grip.rewrite(mine.replace(expires=folder.clock.now() + seconds))
        except Lost:
            return Said.LOST
        return Said.OK


def unlock(folder: Folder, held: Lock) -> Said:
    """The name is free."""
    with _grip(folder, held.name) as grip:
        if grip.mine(held) is None:
            return Said.LOST
        try:
            grip.let_go()
        except Lost:
            return Said.LOST
        return Said.OK


def locks(folder: Folder) -> list[Lock]:
    """What is held, by name; where a lock cannot be read its holder is empty."""
    found = []
    for file in sorted(fs.names(folder.at(LOCKS))):
        name = file.removesuffix(SUFFIX)
        if file == name or file.startswith("."):
            continue
        grip = Grip(folder, name, f"{LOCKS}/{file}")
        seen = grip.look()
        if seen is not None:
            found.append(seen.lock.replace(number=grip.number, expires=grip.until(seen)))
    return found
