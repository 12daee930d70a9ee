"""Who works here, and which claims have lapsed. Ends nothing itself.

A claim lapses when its worker is *dead* (a process that stayed holds its record's lock no longer) or when its lease has
*expired*: by the wall clock only where nothing speaks against it (same machine, same boot, the clock not set since the
worker wrote its record), else when its file was not stamped for one lease of an observer's monotonic clock. What was
seen is kept with the boot it was seen in, so that sweeps run one by one add up.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

from taskpit.clock import JUMP, say_duration
from taskpit.decode import convert, read_json
from taskpit.errors import Invalid, Lost
from taskpit.layouts import Spot
from taskpit.store.plain import paths
from taskpit.store.plain.files import LockFile, Stat
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.upkeep_files import replace
from taskpit.workers import MARK, WorkerRecord, base

#: File times may be so much older than a clock that was read before, in seconds: filesystems have a grain.
GRAIN = 0.05
#: What was seen in so many boots is kept.
BOOTS = 8
#: Bytes of a record, and of what was seen.
LARGEST_RECORD, LARGEST_SIGHTINGS = 64 * 1024, 1 << 26


# -- records -----------------------------------------------------------------------------------------------------------


def describe(folder: Folder, worker: str, lease: float, *, stays: bool) -> bytes:
    """Spell the record of this process as a worker."""
    clock, files = folder.clock, folder.files
    record = WorkerRecord(
        worker=worker,
        host=files.host(),
        pid=files.process(),
        boot=clock.boot(),
        offset=clock.offset(),
        lease=lease,
        stays=stays,
    )
    return json.dumps(record.as_dict(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def introduce(folder: Folder, worker: str, lease: float) -> None:
    """Leave the record of a worker that does not stay; one that stays under this name keeps its own.

    A record of this boot and clock stays as it is: it vouches for claims that are older than this process.
    """
    folder.layout.check_worker(worker)
    path = paths.worker_path(worker)
    folder.make_place(path)
    with suppress(PermissionError):  # another user's, who shares the name: judged by age alone
        handle = folder.files.lock_file(path)
        try:
            if handle.take() and not _holds(folder, load_record(folder, worker), lease):
                handle.write(describe(folder, worker, lease, stays=False))
        finally:
            handle.close()


def _holds(folder: Folder, record: WorkerRecord | None, lease: float) -> bool:
    """Tell whether a record describes this process, too."""
    if record is None or record.stays or (record.host, record.lease) != (folder.files.host(), lease):
        return False
    return record.boot == folder.clock.boot() and abs(record.offset - folder.clock.offset()) < JUMP


class Member:
    """A worker that stays: holds the lock of its record until `leave`."""

    def __init__(self, worker: str, handle: LockFile, names: set[str]) -> None:
        self.worker = worker
        self._handle = handle
        self._names = names

    def leave(self) -> None:
        """Release the name."""
        self._names.discard(self.worker)
        self._handle.close()


def join(folder: Folder, worker: str, lease: float, patience: float, names: set[str]) -> Member:
    """Begin to work under a name. Lost if a living process has it."""
    folder.layout.check_worker(worker)
    path = paths.worker_path(worker)
    folder.make_place(path)
    handle = folder.files.lock_file(path)
    member = Member(worker, handle, names)
    deadline, mine = folder.clock.monotonic() + patience, False
    try:
        while not mine and folder.clock.monotonic() < deadline:
            mine = handle.take()  # a judge that looks whether the last owner lives has it for an instant
            if not mine:
                folder.clock.sleep(0.02)
        if mine:
            handle.write(describe(folder, worker, lease, stays=True))
    except BaseException:
        handle.close()
        raise
    if not mine:
        handle.close()
        raise Lost(f"a living process already works here as {worker}", worker=worker)
    names.add(worker)
    return member


def load_record(folder: Folder, fence: str) -> WorkerRecord | None:
    """Read the record of a claim's worker; None if there is none that can be read."""
    try:
        data = folder.files.read(paths.worker_path(fence), LARGEST_RECORD)[0]
        return convert(read_json(data), WorkerRecord)
    except (OSError, ValueError, Invalid):
        return None


def lives(folder: Folder, record: WorkerRecord) -> bool | None:
    """Tell whether a worker lives; None if this machine cannot tell."""
    if not record.stays or record.host != folder.files.host():
        return None
    try:
        return folder.files.is_locked(paths.worker_path(record.worker))
    except OSError:
        return None


def _record_of(folder: Folder, spot: Spot) -> WorkerRecord | None:
    """Read the record of who made this claim: one without a nonce is another program's that has the same name."""
    record = load_record(folder, spot.worker) if spot.worker else None
    return None if record and record.stays and MARK not in spot.worker else record


# -- lapsed claims -----------------------------------------------------------------------------------------------------


class Clocks(NamedTuple):
    """The clocks, read before the files: the time that a stalled judge needs must not count against a worker."""

    wall: float
    monotonic: float

    def is_even(self, offset: float) -> bool:
        """Tell whether the wall clock was not set since."""
        return abs(self.wall - self.monotonic - offset) < JUMP


class Judge:
    """Finds lapsed claims of one queue."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        #: Claims that an earlier owner of one of our names left.
        self.orphans: set[str] = set()

    def lapsed(self) -> list[tuple[Spot, str, Stat]]:
        """Return the claimed files whose claim has lapsed, with the reason, and as they were judged."""
        folder, clock = self._folder, self._folder.clock
        clocks = Clocks(clock.now(), clock.monotonic())
        claims = folder.claims()
        noted = self._load().get(clock.boot()) if claims else None
        found, unsure = [], []
        for spot in claims:
            status = folder.files.stat(spot.path, fresh=True)  # a renewal on another machine must be seen
            if status is None:
                continue
            record = _record_of(folder, spot)
            if spot.worker in self.orphans:
                found.append((spot, f"an earlier {base(spot.worker)} left it", status))
            elif record is not None and lives(folder, record) is False:
                found.append((spot, f"{base(spot.worker)} is dead (process {record.pid})", status))
            elif record is not None and self._is_sure(record, clocks, noted, spot, status):
                if clocks.wall > self._end(spot, status, record.lease):
                    why = f"{spot.worker} did not renew within {say_duration(record.lease)}"
                    found.append((spot, why, status))
            else:
                unsure.append((spot, status, record.lease if record else folder.config.abandoned))
        if unsure or folder.files.stat(paths.SIGHTINGS) is not None:
            found += self._watched(unsure, clocks)
        return found

    def begin(self) -> None:
        """Note that the clock runs evenly from now on."""
        self._watched([], Clocks(0.0, 0.0))

    def _is_sure(
        self, record: WorkerRecord, clocks: Clocks, noted: dict[str, Any] | None, spot: Spot, status: Stat
    ) -> bool:
        """Tell whether the wall clock has run evenly since the claim was stamped, as far as can be known.

        A record that was written after the claim does not know: a later process of the same name wrote it.
        """
        offset = self._folder.clock.offset()
        even = abs(record.offset - offset) < JUMP and clocks.is_even(offset)
        if record.boot != self._folder.clock.boot() or not even:
            return False
        written = self._folder.files.stat(paths.worker_path(spot.worker))
        if written is None or not written.st_mtime - GRAIN <= status.st_ctime <= clocks.wall + GRAIN:
            return False
        if noted is None:
            return True
        return abs(noted["offset"] - offset) < JUMP and not noted["since"] > status.st_ctime + GRAIN

    def _stamped(self, spot: Spot, status: Stat) -> float:
        """Return until when a claim was stamped; where file and record have different users, by the later one."""
        until = status.st_mtime + self._folder.cleaned_after
        record = self._folder.files.stat(paths.worker_path(spot.worker)) if spot.worker else None
        if record is None or record.st_uid == status.st_uid:
            return until
        return max(status.st_mtime, record.st_mtime)

    def _end(self, spot: Spot, status: Stat, lease: float) -> float:
        """Return when a claim of ours ends. A stamp may be missing, or another's: then a lease after the ctime."""
        until = self._stamped(spot, status)
        return until if until - status.st_ctime >= lease / 2 else max(until, status.st_ctime + lease)

    def _last_sign(self, spot: Spot, status: Stat, lease: float) -> float:
        """Return when a claim was last touched.

        A foreign `mv` keeps the mtime of an old task; a worker that may not stamp a file of others stamps its record.
        """
        last = max(status.st_mtime, status.st_ctime)
        record = self._folder.files.stat(paths.worker_path(spot.worker)) if spot.worker else None
        return last if record is None or record.st_uid == status.st_uid else max(last, record.st_mtime - lease)

    def _watched(self, claims: Collection[tuple[Spot, Stat, float]], clocks: Clocks) -> list[tuple[Spot, str, Stat]]:
        """Compare with what was seen before; what is new was first seen after the look."""
        clock, boots = self._folder.clock, self._load()
        seen_now, offset = clock.monotonic(), clock.offset()
        mine = boots.pop(clock.boot(), {})
        before, even_since = mine.get("claims", {}), mine.get("since", clock.now())
        if abs(mine.get("offset", offset) - offset) >= JUMP:
            even_since = clock.now()  # the clock was set: older times mean nothing
        now: dict[str, list[float]] = {}
        found = []
        for spot, status, lease in claims:
            sign = [self._stamped(spot, status), status.st_ctime]
            seen = before.get(spot.path)
            first = seen[2] if seen and seen[:2] == sign else seen_now
            now[spot.path] = [*sign, first]
            last = self._last_sign(spot, status, lease)
            expired = clocks.is_even(offset) and even_since <= last < clocks.wall - lease
            if clocks.monotonic - first >= lease or expired:
                found.append((spot, f"{spot.worker or 'its worker'} gave no sign for {say_duration(lease)}", status))
        kept = {**dict(list(boots.items())[-BOOTS:])}
        kept[clock.boot()] = {"offset": offset, "since": even_since, "claims": now}
        with suppress(OSError):  # without room what was seen is only judged later
            replace(self._folder, paths.SIGHTINGS, json.dumps(kept).encode())
        return found

    def _load(self) -> dict[str, Any]:
        try:
            boots = read_json(self._folder.files.read(paths.SIGHTINGS, LARGEST_SIGHTINGS)[0])
            return {boot: _checked(mine) for boot, mine in boots.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return {}  # derived: what cannot be read is seen again

    def standing(self, spot: Spot, status: Stat) -> tuple[str, float]:
        """Return whether the holder lives (yes, no, unknown), and when the claim ends unless renewed."""
        record = _record_of(self._folder, spot)
        if record is None:
            return "unknown", max(status.st_mtime, status.st_ctime) + self._folder.config.abandoned
        alive = lives(self._folder, record)
        return "unknown" if alive is None else "yes" if alive else "no", self._stamped(spot, status)


def _checked(mine: Any) -> dict[str, Any]:
    claims = {
        path: [float(mtime), float(ctime), float(first)] for path, (mtime, ctime, first) in mine["claims"].items()
    }
    return {"offset": float(mine["offset"]), "since": float(mine["since"]), "claims": claims}
