"""The changelog: one JSON line for each thing that happened. Never the source of truth.

Other programs append to it, too, so a line may be torn or foreign; such lines are passed over.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Iterator, Sequence

from taskpit.clock import iso
from taskpit.decode import read_json
from taskpit.errors import CursorLost
from taskpit.model import Event, worker_type
from taskpit.store.plain.files import Files
from taskpit.store.plain.paths import CHANGELOG
from taskpit.text import is_count

#: Bytes at the end in which a line is looked for that a crash may have swallowed.
TAIL = 64 * 1024
#: Bytes read at once, and the longest line that is read.
BLOCK, LONGEST = 1 << 18, 1 << 26
#: The field with size and checksum of the bytes that a line tells of, and the one with the nonce of its change.
DIGEST, CHANGE = "digest", "change"
#: The keys of a line, in their order.
KEYS = ("timestamp", "worker", "worker_type", "action", "activity_id", "task_id", "details")


#: The JSON of a text, every letter as it is.
quote = json.JSONEncoder(ensure_ascii=False).encode


def digest(data: bytes) -> str:
    """Return size and checksum, by which an edit or damage is noticed. Not a signature: an editor may also log."""
    return f"{len(data)}-{crc32(data):08x}"


def line(
    seconds: float, action: str, task_id: str = "", worker: str = "keeper", details: str = "", **more: str
) -> bytes:
    """Spell one line; empty fields are left out."""
    text = f'{{"timestamp":"{iso(seconds)}","worker":{quote(worker)},"worker_type":"{worker_type(worker)}"'
    text += f',"action":{quote(action)}'
    for key, value in (("task_id", task_id), ("details", details), *more.items()):
        if value:
            text += f',"{key}":{quote(value)}'
    return f"{text}}}\n".encode("utf-8", "replace")


def encode(event: Event) -> bytes:
    """Spell an event that came from outside, without the digest of bytes that are not here."""
    fields = {key: value for key in KEYS if (value := getattr(event, key))}
    fields |= {key: value for key, value in event.extra.items() if value and key not in (DIGEST, CHANGE)}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def decode(data: bytes) -> Event | None:
    """Read one line; None if it is torn or foreign."""
    try:
        return Event.of(read_json(data))
    except (ValueError, TypeError, AttributeError):
        return None


class Changelog:
    """The changelog of one queue."""

    def __init__(self, files: Files) -> None:
        self._files = files
        #: Whether the last line may be torn: until this process has written one, and after a death.
        self.doubtful = True

    def append(self, lines: bytes) -> None:
        """Append whole lines. A line that a killed writer left torn is ended first."""
        torn = self.doubtful and self.is_torn()
        self._files.append(CHANGELOG, b"\n" + lines if torn else lines)
        self.doubtful = False

    def is_torn(self) -> bool:
        """Tell whether the last line has no end."""
        last, size = self._files.piece(CHANGELOG, -1, 1)
        return bool(size) and last != b"\n"

    def lines(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Read whole lines from a place on, each with the place after it."""
        rest = b""
        while True:
            data, _ = self._files.piece(CHANGELOG, start + len(rest), BLOCK)
            *whole, rest = (rest + data).split(b"\n")
            for one in whole:
                start += len(one) + 1
                yield start, one
            if len(data) < BLOCK or len(rest) > LONGEST:
                return

    def recent(self, task_id: str) -> list[Event]:
        """Return the lines of one task near the end, oldest first."""
        needle = quote(task_id).encode("utf-8", "replace")
        data, _ = self._files.piece(CHANGELOG, -TAIL, TAIL)
        events = (decode(one) for one in data.split(b"\n") if needle in one)
        return [event for event in events if event is not None and event.task_id == task_id]

    def is_logged(self, change: str) -> bool:
        """Tell whether a line near the end tells of this change."""
        return quote(change).encode() in self._files.piece(CHANGELOG, -TAIL, TAIL)[0]

    def read(self, after: str, limit: int) -> tuple[list[Event], str]:
        """Read events after a cursor, and the next cursor: an inode, a place and a word for what is before it."""
        status = self._files.stat(CHANGELOG)
        inode, size = (status.st_ino, status.st_size) if status else (0, 0)
        start = 0
        if after:
            known, place, mark = (*after.split(":"), "", "")[:3]
            start = int(place) if is_count(place) else -1
            if start < 0 or start > size or (start and known != str(inode)):
                raise CursorLost(cursor=after)
            if mark and mark != self._mark(start):  # a new file may get the number of the old one
                raise CursorLost(cursor=after)
        events: list[Event] = []
        for place_after, data in self.lines(start):
            event = decode(data)
            if event is not None:
                events.append(event)
            start = place_after
            if len(events) >= limit:
                break
        return events, f"{inode}:{start}:{self._mark(start)}"

    def latest(self, limit: int) -> tuple[list[Event], str]:
        """Read the last events, oldest first, and the cursor after them; from the end, as far back as they reach."""
        status = self._files.stat(CHANGELOG)
        inode, size = (status.st_ino, status.st_size) if status else (0, 0)
        span = 16 * 1024
        while True:
            begin = max(size - span, 0)
            found = list(self.lines(begin))
            whole = found[1:] if begin else found  # the first one may be the rest of a line
            events = [event for _, data in whole if (event := decode(data)) is not None]
            if not begin or len(events) >= limit:
                break
            span *= 4
        place = found[-1][0] if found else begin
        return events[max(len(events) - limit, 0) :], f"{inode}:{place}:{self._mark(place)}"

    def record(self, events: Sequence[Event]) -> None:
        """Append lines that came from elsewhere."""
        self.append(b"".join(map(encode, events)))

    def _mark(self, place: int) -> str:
        start = max(place - 64, 0)
        return f"{crc32(self._files.piece(CHANGELOG, start, place - start)[0]):x}" if place else "0"
