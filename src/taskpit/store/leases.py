"""Which claims have lapsed. Knows leases, clocks and worker records; ends nothing itself.

A claim lapses when its worker is *dead* (a process that stayed no longer holds its record) or its lease
has *expired*: its file has not been stamped for one lease of an observer's own monotonic clock. First
sightings are kept with the boot they were made in, so that commands run one by one add up. Wall clocks
count only where nothing speaks against them: same machine, same boot, and the clock not set since.
"""

from __future__ import annotations

from taskpit import fs, workers
from taskpit.clock import JUMP, say_duration
from taskpit.decode import read_json
from taskpit.layouts import Spot
from taskpit.store.folder import HIDDEN, Folder
from taskpit.store.network_stat import fresh_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

SIGHTINGS = f"{HIDDEN}/sightings"
#: A file's times may be so much older than a clock that was read just before, in seconds: filesystems have a grain.
GRAIN = 0.05
#: Sightings of this many boots are kept.
BOOTS = 8


def lapsed(folder: Folder, orphans: Collection[tuple[str, str]] = ()) -> list[tuple[Spot, str]]:
    """Claimed files whose claim has lapsed, and why; `orphans` (path and holder) are known to be nobody's."""
    # Read before the files are: a judge that stalls after its look must not hold the time that passes against anybody.
    clocks = folder.clock.now(), folder.clock.monotonic()
    claims = list(folder.claims())
    unsure: list[tuple[Spot, fs.Stat, float]] = []
    found: list[tuple[Spot, str]] = []
    noted = _load(folder).get(folder.clock.boot()) if claims else None
    for spot in claims:
        status = fresh_status(folder.at(spot.path))  # a renewal on another machine must be seen
        if status is None:
            continue
        record, offset = _record_of(folder, spot), folder.clock.offset()
        if (spot.path, spot.worker) in orphans:
            found.append((spot, f"an earlier {workers.base(spot.worker)} left it"))
        elif record and workers.lives(_path(folder, spot.worker), record) is False:
            found.append((spot, f"{workers.base(spot.worker)} is dead (process {record.pid})"))
        elif record and _clock_unchanged(folder, record, clocks, offset) and not _set_since(noted, status, offset):
            if clocks[0] > _end(folder, spot, status, record.lease):
                found.append((spot, f"{spot.worker} did not renew within {say_duration(record.lease)}"))
        else:
            lease = record.lease if record else folder.config.abandoned
            unsure.append((spot, status, lease))
    return found + _unchanged(folder, unsure, clocks)


def _path(folder: Folder, worker: str) -> str:
    return folder.worker_path(worker)


def _record(folder: Folder, worker: str) -> workers.WorkerRecord | None:
    return workers.load(_path(folder, worker)) if worker else None


def _record_of(folder: Folder, spot: Spot) -> workers.WorkerRecord | None:
    """The record of whoever made this claim.

    Those who stay put a mark into each of their claims: one without is another program's that has the same name.
    """
    record = _record(folder, spot.worker)
    return None if record and record.stays and workers.MARK not in spot.worker else record


def _stamped(folder: Folder, spot: Spot, status: fs.Stat) -> int:
    """Until when the claim was last stamped, in nanoseconds: by its file, or by its worker's record if that is later.

    Only where they are of different users: a worker that can stamp its claims is judged by each of them.
    """
    try:
        record = fs.status(_path(folder, spot.worker)) if spot.worker else None
    except (OSError, ValueError):
        record = None  # a holder that somebody made up, whom no file can be called after
    if record is None or record.st_uid == status.st_uid:
        return status.st_mtime_ns + int(folder.cleaned_after * 1e9)
    return max(status.st_mtime_ns, record.st_mtime_ns)


def _end(folder: Folder, spot: Spot, status: fs.Stat, lease: float) -> float:
    """When a claim of ours ends.

    Its stamp may not be its worker's: none at all, or a shorter one of another who tried for it. A worker's own tells
    an end that is a lease later than the ctime it leaves.
    """
    until = _stamped(folder, spot, status) / 1e9
    return until if until - status.st_ctime >= lease / 2 else max(until, status.st_ctime + lease)


def _clock_unchanged(folder: Folder, record: workers.WorkerRecord, clocks: tuple[float, float], offset: float) -> bool:
    """Whether the wall clock has run evenly since the worker wrote its record, as far as we can know."""
    return record.boot == folder.clock.boot() and abs(record.offset - offset) < JUMP and _is_even(clocks, offset)


def _is_even(clocks: tuple[float, float], offset: float) -> bool:
    """Whether nobody has set the clock between a look at it and a later one, which told this offset.

    Set back in between, what was stamped since would seem old.
    """
    wall, monotonic = clocks
    return abs(wall - monotonic - offset) < JUMP


def _set_since(noted: dict[str, Any] | None, status: fs.Stat, offset: float) -> bool:
    """Whether the clock was set after this file's last sign, as far as is noted: it may have been set back again."""
    if noted is None:
        return False
    return abs(noted["offset"] - offset) >= JUMP or bool(noted["since"] > status.st_ctime + GRAIN)


def note_jump(folder: Folder) -> bool:
    """Kept for those who judge later that somebody has set the clock: what was stamped before tells them nothing.

    False if another is just writing there.
    """
    lock = fs.Flock(folder.at(f"{SIGHTINGS}.lock"))
    if not lock.take(wait=False):
        return False
    try:
        boots, offset = _load(folder), folder.clock.offset()
        mine = boots.pop(folder.clock.boot(), {"offset": offset + 2 * JUMP, "claims": {}})
        if abs(mine["offset"] - offset) >= JUMP:
            _keep(folder, boots, {**mine, "offset": offset, "since": folder.clock.now()})
    finally:
        lock.drop()
    return True


def _unchanged(
    folder: Folder, claims: Iterable[tuple[Spot, fs.Stat, float]], clocks: tuple[float, float]
) -> list[tuple[Spot, str]]:
    """Claims we have watched for a whole lease without a sign of life."""
    claims = list(claims)
    if not claims and not fs.exists(folder.at(SIGHTINGS)):
        return []
    lock = fs.Flock(folder.at(f"{SIGHTINGS}.lock"))
    try:
        alone = lock.take(wait=False)  # who was stopped in the middle must not stop every keeper
    except OSError:
        alone = False  # no room for it: what was seen can be judged all the same
    try:
        return _compare(folder, claims, clocks, keep=alone)
    finally:
        lock.drop()


def _compare(
    folder: Folder, claims: Iterable[tuple[Spot, fs.Stat, float]], clocks: tuple[float, float], *, keep: bool
) -> list[tuple[Spot, str]]:
    """What was seen for a lease by `clocks`, read before the look; what is new was first seen after it."""
    boots = _load(folder)
    wall, monotonic = clocks
    seen_now, offset = folder.clock.monotonic(), folder.clock.offset()
    even = _is_even(clocks, offset)
    mine = boots.pop(folder.clock.boot(), {})
    before, even_since = mine.get("claims", {}), mine.get("since", folder.clock.now())
    if abs(mine.get("offset", offset) - offset) >= JUMP:
        even_since = folder.clock.now()  # somebody set the clock; older times mean nothing
    now: dict[str, list[float]] = {}
    found = []
    for spot, status, lease in claims:
        sign = [_stamped(folder, spot, status), status.st_ctime_ns]
        seen = before.get(spot.path)
        first = seen[2] if seen and seen[:2] == sign else seen_now
        now[spot.path] = [*sign, first]
        last_sign = max(sign) / 1e9
        if monotonic - first >= lease or (even and even_since <= last_sign < wall - lease):
            found.append((spot, f"{spot.worker or 'its worker'} gave no sign for {say_duration(lease)}"))
    if keep:
        _keep(folder, boots, {"offset": offset, "since": even_since, "claims": now})
    return found


def _keep(folder: Folder, others: dict[str, Any], mine: dict[str, Any]) -> None:
    """What was seen in this boot, and in some before."""
    import json  # commands that judge nothing do without

    kept = {**dict(list(others.items())[-BOOTS:]), folder.clock.boot(): mine}
    scratch = folder.tmp("sightings", fs.fresh_name(), "new")
    try:
        fs.replace(folder.at(SIGHTINGS), json.dumps(kept).encode(), scratch, sync=False)
    except OSError:
        return  # no place or room to write it: what is not remembered is only judged later


def _load(folder: Folder) -> dict[str, Any]:
    try:
        boots = read_json(fs.read(folder.at(SIGHTINGS), 1 << 26)[0])
        return {boot: _checked(mine) for boot, mine in boots.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return {}  # derived: what cannot be read is seen again


def _checked(mine: Any) -> dict[str, Any]:
    """What was seen in one boot, with nothing in it that cannot be compared."""
    claims = {path: [int(mtime), int(ctime), float(first)] for path, (mtime, ctime, first) in mine["claims"].items()}
    return {"offset": float(mine["offset"]), "since": float(mine["since"]), "claims": claims}


def begin(folder: Folder) -> None:
    """Note that the clock runs evenly from now on: what is claimed later can be judged at once."""
    _compare(folder, [], (0.0, 0.0), keep=True)


def alive(folder: Folder, worker: str) -> str:
    """Whether a holder lives: yes, no or unknown."""
    record = _record(folder, worker)
    lives = workers.lives(_path(folder, worker), record) if record else None
    return "unknown" if lives is None else "yes" if lives else "no"


def standing(folder: Folder, spot: Spot, status: fs.Stat) -> tuple[str, float]:
    """Whether the holder lives (yes, no or unknown), and when the claim ends unless renewed, by the wall clock."""
    record = _record_of(folder, spot)
    if record is None:
        return "unknown", max(status.st_mtime, status.st_ctime) + folder.config.abandoned
    lives = workers.lives(_path(folder, spot.worker), record)
    until = _stamped(folder, spot, status) / 1e9
    return "unknown" if lives is None else "yes" if lives else "no", until
