"""What time it is, and how times and durations are written. Knows nothing about tasks.

`now` is the wall clock, which people set and daemons correct; `monotonic` only ever counts. Their
difference is constant until the clock is set, so keeping it tells a jump from passing time.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager
from datetime import datetime, timezone

#: A letter or digit for each byte; those that look alike are left out.
_LETTERS = b"0123456789abcdefghjkmnpqrstvwxyz" * 8


#: Two clock offsets closer than this, in seconds, are the same: nobody has set the clock in between.
JUMP = 1.0


class Clock:
    """The machine's clocks; tests hand in one that stands still."""

    def now(self) -> float:
        """Return the seconds since 1970, as the wall clock has it."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never jump; they stop while the machine sleeps."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        time.sleep(seconds)

    def boot(self) -> str:
        """Which boot this is: monotonic clocks of different boots don't compare."""
        return boot_id()

    def chance(self, letters: int) -> str:
        """So many random letters and digits: a name that no other process has."""
        return os.urandom(letters).translate(_LETTERS).decode()

    def mutex(self) -> AbstractContextManager[object]:
        """A lock between the threads of this process, taken by `with`. Not reentrant."""
        return threading.Lock()

    def offset(self) -> float:
        """Wall clock minus monotonic: changes only when the clock is set."""
        return self.now() - self.monotonic()


_boot: list[str] = []


def boot_id() -> str:
    """A name for this boot of this machine."""
    if not _boot:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
                _boot.append(file.read().strip())
        except OSError:  # not Linux: the boot time, to the minute, is as good as we can tell
            _boot.append(f"boot-{int((time.time() - time.monotonic()) // 60)}")
    return _boot[0]


#: How long each letter of a duration is, in seconds.
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def duration(text: str) -> float:
    """Seconds in `30s`, `15m`, `1h30m`, `8h`, `2d`; a bare number is seconds.

    Raises ValueError for anything else, also for zero units (`h`) and negative values.
    """
    text = text.strip().lower()
    if text.replace(".", "", 1).isdecimal():
        return _in_time(float(text), text)
    total, number = 0.0, ""
    for letter in text:
        if letter.isdecimal() or (letter == "." and "." not in number):
            number += letter
        elif letter in UNITS and number not in ("", "."):
            total, number = total + float(number) * UNITS[letter], ""
        else:
            number = "?"
            break
    if number or not text:
        raise ValueError(f"{text[:40]!r} is not a duration; write 30s, 15m, 1h30m or 8h")
    return _in_time(total, text)


def _in_time(seconds: float, text: str) -> float:
    """The seconds, if they lead to a time that can be written."""
    if not FIRST <= seconds <= LAST:
        raise ValueError(f"{text[:40]!r} is before the year 1 or after the year 9999")
    return seconds


def say_duration(seconds: float) -> str:
    """Seconds as a person writes them: `0.4s`, `45s`, `15m`, `1h30m`, `3d4h`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s".replace(".0s", "s")
    rest, parts = int(seconds), []
    for letter in ("d", "h", "m", "s"):
        count, rest = divmod(rest, int(UNITS[letter]))
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts[:2])


def say_age(seconds: float) -> str:
    """How old something is, in four letters at most, as boards have it: `4s`, `12m`, `3h`, `9d`, `41w`."""
    left = max(seconds, 0.0)
    for size, letter, until in ((1, "s", 60), (60, "m", 6000), (3600, "h", 172_800), (86_400, "d", 8_640_000)):
        if left < until:
            return f"{int(left // size)}{letter}"
    return f"{min(int(left // 604_800), 999)}w"


#: The last second that can be written: the year 9999 ends.
LAST = 253402300799.0


#: The first one: the year 1 begins.
FIRST = -62135596800.0


def iso(seconds: float) -> str:
    """Write `2026-01-24T10:00:00Z`, as the changelog and the task files have it."""
    at = datetime.fromtimestamp(seconds // 1, timezone.utc)
    return f"{at.replace(tzinfo=None).isoformat()}Z"


def local(seconds: float) -> str:
    """Write `2026-01-24 11:00:00` in the zone of this machine, for people."""
    return datetime.fromtimestamp(seconds // 1).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - local on purpose


def stamp(seconds: float) -> str:
    """Write `20260614T175042Z`, as file names carry it."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


def instant(text: str, now: float = 0.0) -> float:
    """Read `2026-01-24T10:00:00Z`, `+30m`, or unix seconds as seconds since 1970.

    Offsets (`+01:00`) are honoured; a time without one is UTC. Raises ValueError.
    """
    text = text.strip()
    if text.startswith("+"):
        return _in_time(now + duration(text[1:]), text)
    if text.replace(".", "", 1).isdecimal():
        return _in_time(float(text), text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a time; write 2026-01-24T10:00:00Z or +30m") from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=timezone.utc)
    return _in_time(parsed.timestamp(), text)
