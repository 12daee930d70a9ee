"""Which claims have lapsed. Knows leases, clocks and worker records; ends nothing itself.

A claim lapses when its worker is *dead* (a process that stayed no longer holds its record) or its lease
has *expired*: its file has not been stamped for one lease of an observer's own monotonic clock. First
sightings are kept with the boot they were made in, so that commands run one by one add up. Wall clocks
count only where nothing speaks against them: same machine, same boot, and the clock not set since.
"""

from __future__ import annotations

import json

from taskpit import fs, owner
from taskpit.clock import say_duration
from taskpit.layouts import Spot
from taskpit.store.folder import HIDDEN, WORKERS, Folder
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

__all__ = ["alive", "begin", "lapsed", "lease_end"]

SIGHTINGS = f"{HIDDEN}/sightings"
#: Two clock offsets closer than this are the same: nobody has set the clock in between.
JUMP = 1.0
#: Sightings of this many boots are kept.
BOOTS = 8


def lapsed(folder: Folder, orphans: Collection[tuple[str, str]] = ()) -> list[tuple[Spot, str]]:
    """Claimed files whose claim has lapsed, and why; `orphans` (path and holder) are known to be nobody's."""
    claims = list(folder.claims())
    unsure: list[tuple[Spot, fs.Stat, float]] = []
    found: list[tuple[Spot, str]] = []
    for spot in claims:
        status = fs.status(folder.at(spot.path))
        if status is None:
            continue
        record = _record(folder, spot.worker)
        if (spot.path, spot.worker) in orphans:
            found.append((spot, f"an earlier {owner.base(spot.worker)} left it"))
        elif record and owner.lives(_path(folder, spot.worker), record) is False:
            found.append((spot, f"{owner.base(spot.worker)} is dead (process {record.pid})"))
        elif record and _clock_unchanged(folder, record):
            # Not stamped since its last rename: only the ctime is fresh, just now or because `mv` claimed it.
            grace = record.lease if status.st_mtime < status.st_ctime else min(folder.grace, record.lease)
            if folder.clock.now() > max(status.st_mtime, status.st_ctime + grace):
                found.append((spot, f"{spot.worker} did not renew within {say_duration(record.lease)}"))
        else:
            lease = record.lease if record else folder.config.abandoned
            unsure.append((spot, status, lease))
    return found + _unchanged(folder, unsure)


def _path(folder: Folder, worker: str) -> str:
    return folder.at(f"{WORKERS}/{owner.base(worker)}")


def _record(folder: Folder, worker: str) -> owner.Record | None:
    return owner.load(_path(folder, worker)) if worker else None


def _clock_unchanged(folder: Folder, record: owner.Record) -> bool:
    """Whether the wall clock has run evenly since the worker wrote its record, as far as we can know."""
    clock = folder.clock
    return record.boot == clock.boot() and abs(record.offset - clock.offset()) < JUMP


def _unchanged(folder: Folder, claims: Iterable[tuple[Spot, fs.Stat, float]]) -> list[tuple[Spot, str]]:
    """Claims we have watched for a whole lease without a sign of life."""
    claims = list(claims)
    if not claims and not fs.exists(folder.at(SIGHTINGS)):
        return []
    lock = fs.Flock(folder.at(f"{SIGHTINGS}.lock"))
    alone = lock.take(wait=False)  # who was stopped in the middle must not stop every keeper
    try:
        return _compare(folder, claims, keep=alone)
    finally:
        lock.drop()


def _compare(folder: Folder, claims: Iterable[tuple[Spot, fs.Stat, float]], *, keep: bool) -> list[tuple[Spot, str]]:
    boots = _load(folder)
    boot, monotonic, offset = folder.clock.boot(), folder.clock.monotonic(), folder.clock.offset()
    mine = boots.pop(boot, {})
    before, even_since = mine.get("claims", {}), mine.get("since", folder.clock.now())
    if abs(mine.get("offset", offset) - offset) >= JUMP:
        even_since = folder.clock.now()  # somebody set the clock; older times mean nothing
    now: dict[str, list[float]] = {}
    found = []
    for spot, status, lease in claims:
        sign = [status.st_mtime_ns, status.st_ctime_ns]
        seen = before.get(spot.path)
        first = seen[2] if seen and seen[:2] == sign else monotonic
        now[spot.path] = [*sign, first]
        last_sign = max(status.st_mtime, status.st_ctime)
        if monotonic - first >= lease or even_since <= last_sign < folder.clock.now() - lease:
            found.append((spot, f"{spot.worker or 'its worker'} gave no sign for {say_duration(lease)}"))
    if not keep:
        return found
    kept = dict(list(boots.items())[-BOOTS:])
    kept[boot] = {"offset": offset, "since": even_since, "claims": now}
    scratch = folder.tmp("sightings", fs.fresh_name(), "new")
    fs.replace(folder.at(SIGHTINGS), json.dumps(kept).encode(), scratch, sync=False)
    return found


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
    _compare(folder, [], keep=True)


def alive(folder: Folder, worker: str) -> str:
    """Whether a holder lives: yes, no or unknown."""
    record = _record(folder, worker)
    lives = owner.lives(_path(folder, worker), record) if record else None
    return "unknown" if lives is None else "yes" if lives else "no"


def lease_end(folder: Folder, spot: Spot, status: fs.Stat) -> float:
    """When the claim ends unless renewed, by the wall clock: for showing."""
    if _record(folder, spot.worker):
        return status.st_mtime
    return max(status.st_mtime, status.st_ctime) + folder.config.abandoned
