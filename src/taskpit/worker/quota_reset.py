"""When a limit ends, read from what an agent says about it. Pure: text and the time now in, seconds out.

1778565600, 1778565600000         unix seconds, or milliseconds
13872, "20s", "2 days 3 hours"    so long from now
"3pm (Europe/Berlin)", "15:05"    the next time a clock there shows this; without a zone, the clock here
"Oct 6 at 2pm", "Aug 20, 2026, 7:38 AM", "2026-08-20T07:38:00Z"
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = ["LONGEST", "moment", "seconds_in"]

#: No limit is longer: whatever says so was misread.
LONGEST = 32 * 86400.0
#: Nobody needs more letters to say when a limit ends.
LONGEST_TEXT = 1000
#: Smaller numbers are no time of day since 1970 but a number of seconds.
FIRST_UNIX = 1e9
#: Larger ones are milliseconds.
FIRST_MILLIS = 1e11

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d|w)[a-z]*", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(rf"\b({'|'.join(_MONTHS)})[a-z]*\.? (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (20\d\d))?", re.IGNORECASE)
_TIME = re.compile(r"\b(\d{1,2})(?::(\d\d))?(?::\d\d)?\s*(am|pm)\b|\b(\d{1,2}):(\d\d)\b", re.IGNORECASE)
_ZONE = re.compile(r"\(([A-Za-z]+(?:/[A-Za-z_+-]+)*)\)|\b(UTC|GMT)\b")
_ISO = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?")


def seconds_in(text: str) -> float:
    """How long `20s`, `11.054s`, `2 days 17 hours 14 minutes`, `2h39m52s` are; 0 if it says nothing."""
    total = 0.0
    for number, unit in _SPAN.findall(text):
        total += float(number) * _UNITS["ms" if unit.lower() in ("ms", "milli") else unit[0].lower()]
    return total


def moment(said: object, now: float) -> float:
    """The unix seconds meant; 0 if nobody can tell, or it is past or too far away to be true."""
    if isinstance(said, bool) or said is None:
        return 0.0
    text = str(said)[:LONGEST_TEXT].strip()
    if text.replace(".", "", 1).isdecimal():
        return _sane(_from_number(float(text), now), now)
    found = _ISO.search(text)
    if found:
        from taskpit.clock import instant

        try:
            return _sane(instant(found[0], now), now)
        except ValueError:
            return 0.0
    at = _from_clock(text, now)
    span = 0.0 if at else seconds_in(text)
    return _sane(at or (now + span if span else 0.0), now)


def _sane(at: float, now: float) -> float:
    return at if now < at <= now + LONGEST else 0.0


def _from_number(number: float, now: float) -> float:
    if number < FIRST_UNIX:
        return now + number
    return number / 1000 if number >= FIRST_MILLIS else number


def _from_clock(text: str, now: float) -> float:
    """The next moment at which the date and the clock are as it says; 0 if it names neither."""
    from datetime import datetime, timedelta

    date, time = _DATE.search(text), _TIME.search(text)
    if not date and not time:
        return 0.0
    here = datetime.fromtimestamp(now, tz=_zone(text))
    if here.tzinfo is None:
        here = here.astimezone()
    try:
        hour, minute = _clock(time)
        at = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if not date:
            return (at if at > here else at + timedelta(days=1)).timestamp()
        at = at.replace(month=_MONTHS.index(date[1].lower()) + 1, day=int(date[2]))
        if date[3]:
            return at.replace(year=int(date[3])).timestamp()
        return (at if at > here else at.replace(year=at.year + 1)).timestamp()
    except ValueError:  # the 31st of February, 25 o'clock
        return 0.0


def _clock(time: re.Match[str] | None) -> tuple[int, int]:
    """Hour and minute; midnight if it says none."""
    if time is None:
        return 0, 0
    if time[4]:
        return int(time[4]), int(time[5])
    return int(time[1]) % 12 + (12 if time[3].lower() == "pm" else 0), int(time[2] or 0)


def _zone(text: str) -> tzinfo | None:
    """The time zone it names; None is the one here."""
    from zoneinfo import ZoneInfo

    found = _ZONE.search(text)
    if found is None:
        return None
    try:
        return ZoneInfo(found[1] or found[2])
    except (OSError, ValueError, KeyError):
        return None
