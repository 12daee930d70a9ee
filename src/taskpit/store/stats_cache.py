"""Running totals of the changelog, kept so that nobody has to read all of a long one twice. Derived, never the truth.

The totals lie in `.taskpit/index/tally` with the place in the changelog up to which they count. They may be
deleted at any time: then all is counted anew, and so it is when the changelog is another one.
"""

from __future__ import annotations

import json

from taskpit import fs
from taskpit.clock import iso
from taskpit.decode import read_json
from taskpit.errors import CursorLost
from taskpit.store.changelog import CARRIED_OUT
from taskpit.store.folder import INDEX
from taskpit.store.folder_store import House

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from taskpit.model import Event
    from taskpit.store.port import Looking

HOUR = 3600.0
#: What is told of the last hour.
TOLD = ("added_task", "completed_task", "failed_task")
#: Totals are kept when so many lines were read for them: fewer are read again in no time.
WORTH = 10_000
#: Lines that are read at once, and bytes that totals may have.
AT_ONCE, LARGEST = 10_000, 64 * 1024 * 1024
#: Changes with what is kept.
FORM = 2


class Tally:
    """What a changelog tells up to a place in it, in numbers."""

    def __init__(self) -> None:
        self.cursor = ""
        #: How often each thing happened; and how often of late, by the second.
        self.happened: dict[str, int] = {}
        self.recent: dict[tuple[str, str], int] = {}
        #: Tasks whose worker was lost, and those of them that were claimed again.
        self.given_back: set[str] = set()
        self.twice: set[str] = set()

    def feed(self, events: Iterable[Event], cursor: str, since: str) -> None:
        """These lines count, too; those not older than `since` are of late."""
        for event in events:
            did, about = event.did, event.about
            if did == "released_task" and event.details == CARRIED_OUT:
                continue  # as what it went back nobody knows but its worker, who tells unless it died
            self.happened[did] = self.happened.get(did, 0) + 1
            ends = did == "split_task" and not event.waits  # done, by what it was split into
            told = "completed_task" if ends else did
            if told in TOLD and event.timestamp >= since:
                key = event.timestamp, told
                self.recent[key] = self.recent.get(key, 0) + 1
            if did == "recovered_task":
                self.given_back.add(about)
            elif did == "claimed_task" and about in self.given_back:
                self.twice.add(about)
        self.cursor = cursor

    def since(self, when: str) -> dict[str, int]:
        """How often each of what is told of the last hour happened since then."""
        told = dict.fromkeys(TOLD, 0)
        for (timestamp, did), count in self.recent.items():
            if timestamp >= when:
                told[did] += count
        return told

    def dump(self, since: str) -> bytes:
        """All of it, but of what is of late only what is not older than this."""
        recent = [[*key, count] for key, count in self.recent.items() if key[0] >= since]
        kept = [FORM, self.cursor, self.happened, recent, sorted(self.given_back), sorted(self.twice)]
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"

    @classmethod
    def load(cls, data: bytes) -> Tally:
        """What was kept; nothing at all if it cannot be read."""
        found = cls()
        try:
            form, cursor, happened, recent, given_back, twice = read_json(data)
            found.happened = {str(did): int(count) for did, count in happened.items()}
            found.recent = {(str(at), str(did)): int(count) for at, did, count in recent if did in TOLD}
            found.given_back, found.twice = set(map(str, given_back)), set(map(str, twice))
            found.cursor = str(cursor)
        except (ValueError, TypeError, AttributeError):
            return cls()
        return found if form == FORM else cls()


def tally(store: Looking, now: float) -> Tally:
    """The totals of all that the changelog tells by now."""
    since = iso(now - HOUR)
    path = store.folder.at(f"{INDEX}/tally") if isinstance(store, House) else ""
    found = _kept(path) if path else Tally()
    try:
        lines = _feed(store, found, since)
    except CursorLost:  # somebody began a new changelog
        found = Tally()
        lines = _feed(store, found, since)
    if path and lines >= WORTH:
        _keep(path, found.dump(since))
    return found


def _feed(store: Looking, found: Tally, since: str) -> int:
    """Everything counts that was not counted yet: how many lines."""
    lines = 0
    while True:
        events, cursor = store.events(found.cursor, AT_ONCE)
        found.feed(events, cursor, since)
        lines += len(events)
        if not events:
            return lines


def _kept(path: str) -> Tally:
    try:
        return Tally.load(fs.read(path, LARGEST)[0])
    except OSError:
        return Tally()


def _keep(path: str, data: bytes) -> None:
    """Whoever may not write here, or has no room, counts anew the next time."""
    try:
        fs.make_dir(path.rpartition("/")[0])
        fs.replace(path, data, f"{path}~{fs.fresh_name()}", sync=False)
    except OSError:
        return
