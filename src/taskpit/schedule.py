"""When recurring work is due, in plain words or as cron writes it, and what a schedule does when it is due. Pure.

A schedule is a task with the field `every`: it waits until its next time (`not_before`), is claimed like any task, and
its claim ends with one new task in the queue and the next time in its own file. So the store decides that each run
comes exactly once, on every layout and backend, however many pools look. A run's id is the schedule's id and the time
it was due: what a crash repeats is recognised.

    07:00                   every day at that time          mon-fri 07:00     on these days
    mon,thu 9:30 17:00      several days, several times     every 15m         by the clock, from midnight UTC on
    1st 03:00               on the first of each month      */15 8-18 * * 1-5 cron's five fields; @daily and the like

Times are local to a zone, which stands in the task (`zone`), so that all machines agree. A time that a change to summer
time leaves out comes at the end of the gap; one that comes twice comes the first time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from heapq import merge
from itertools import count, islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from taskpit.clock import LAST, duration, iso, local, say_duration, stamp
from taskpit.errors import Invalid
from taskpit.ids import is_word
from taskpit.model import SCHEDULES, Claim, End, State, Task, Value
from taskpit.text import did_you_mean

#: The fields of a schedule; its runs have none of them.
FIELDS = ("every", "zone", "catch-up", "jitter", "last-run")
#: What becomes of runs that were missed: nothing; one for all of them; each of them.
CATCH_UP = ("none", "one", "all")
#: A run that nobody could start for so long is missed.
MISSED = 3600.0
#: So many runs at most enter at once; the others follow.
AT_ONCE = 100

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WORDS = {"daily": "mon-sun", "day": "mon-sun", "weekdays": "mon-fri", "weekday": "mon-fri", "weekends": "sat,sun"}
_CRON = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "hourly": "0 * * * *",
}


class Plan(Value, frozen=True, kw_only=True):
    """The times at which something is due."""

    text: str
    zone: str = "UTC"
    #: Cron's five fields, one line for each time of the day; empty for a plain interval.
    crons: tuple[str, ...] = ()
    #: Seconds between runs, counted from 1970; 0 if it goes by the calendar.
    interval: float = 0.0

    def after(self, moment: float) -> float:
        """Return the first time later than this one; Invalid if there is none before the year 10000."""
        for at in self.times(moment):
            return at
        raise Invalid(f"{self.text!r} is never due again", hint=f"Is there such a day? {_EXAMPLES}")

    def between(self, first: float, last: float) -> Iterator[float]:
        """Yield the times from `first`, which is one of them or none, to `last`."""
        return takewhile(lambda at: at <= last, self.times(first - 1))

    def times(self, moment: float) -> Iterator[float]:
        """Yield the times later than this one, in order."""
        try:
            for at in self._by_interval(moment) if self.interval else self._by_calendar(moment):
                if at > LAST:
                    return
                if at > moment:  # a repeated hour and the end of a gap come once
                    yield at
                    moment = at
        except (OverflowError, ValueError):  # beyond the years that a calendar has
            return

    def _by_interval(self, moment: float) -> Iterator[float]:
        return ((moment // self.interval + number) * self.interval for number in count(1))

    def _by_calendar(self, moment: float) -> Iterator[float]:
        local = datetime.fromtimestamp(moment, ZoneInfo(self.zone))
        return merge(*((at.timestamp() for at in CronSim(cron, local)) for cron in self.crons))


# -- reading ---------------------------------------------------------------------------------------


def parse(text: str, zone: str = "UTC") -> Plan:
    """The plan these words mean; Invalid names the word that means nothing and what could be meant."""
    words = text.lower().replace(" at ", " ").split()
    if words[:1] == ["every"]:
        words = words[1:]
    if not words:
        raise Invalid("the schedule is empty", hint="Write for example `mon-fri 07:00` or `every 15m`.")
    _check_zone(zone)
    cron = _CRON.get(words[0]) if len(words) == 1 else None
    if cron or (len(words) == 5 and all(re.fullmatch(r"[\d*/,a-z-]+", word) for word in words)):
        return _cron(text, cron or " ".join(words), zone)
    if len(words) == 1 and re.fullmatch(r"(\d+[smhdw])+", words[0]):
        return _interval(text, words[0], zone)
    return _plain(text, words, zone)


def _interval(text: str, word: str, zone: str) -> Plan:
    try:
        seconds = duration(word)
    except ValueError as error:
        raise Invalid(str(error), hint=_EXAMPLES) from None
    if seconds < 60:
        raise Invalid(f"{text!r} is more often than once a minute", hint="Write `every 1m` or longer.")
    return Plan(text=text, zone=zone, interval=seconds)


def _plain(text: str, words: list[str], zone: str) -> Plan:
    """Read days and times: `mon-fri 07:00`, `1st,15th 03:00`, `daily 9:00 17:00`."""
    times, weekdays, dates = set[tuple[int, int]](), set[int](), set[int]()
    for word in words:
        if found := re.fullmatch(r"(\d{1,2}):(\d\d)", word):
            hour, minute = int(found[1]), int(found[2])
            if hour > 23 or minute > 59:
                raise Invalid(f"{word!r} in {text!r} is no time of the day", hint="Write 00:00 to 23:59.")
            times.add((minute, hour))
        elif re.fullmatch(r"\d{1,2}(st|nd|rd|th)(,\d{1,2}(st|nd|rd|th))*", word):
            dates |= {_date(part, text) for part in word.split(",")}
        elif word == "monthly":
            dates.add(1)
        elif word == "weekly":
            weekdays.add(0)
        elif "*" in word:
            raise Invalid(f"{text!r} has {len(words)} fields, and cron has five", hint=_EXAMPLES)
        else:
            weekdays |= _weekdays(_WORDS.get(word, word), text)
    if dates and weekdays:  # that both hold is rare, and "the first Monday" is what people mean
        hint = "Write one of the two: `1st 09:00`, or `mon 09:00`."
        raise Invalid(f"{text!r} names days of the month and of the week", hint=hint)
    days = f"{_listed(dates)} * {_listed({(day + 1) % 7 for day in weekdays})}"
    return Plan(text=text, zone=zone, crons=tuple(f"{minute} {hour} {days}" for minute, hour in times or {(0, 0)}))


def _listed(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers))) or "*"


def _cron(text: str, cron: str, zone: str) -> Plan:
    try:
        CronSim(cron, datetime.fromtimestamp(0, timezone.utc))
    except CronSimError as error:
        raise Invalid(f"{text!r} is no line of cron: {str(error).lower()}", hint=_EXAMPLES) from None
    return Plan(text=text, zone=zone, crons=(cron,))


def _date(word: str, text: str) -> int:
    if not 1 <= int(word[:-2]) <= 31:
        raise Invalid(f"{word[:-2]!r} in {text!r} is no day of the month", hint=_EXAMPLES)
    return int(word[:-2])


def _weekdays(field: str, text: str) -> set[int]:
    """Return the days of `mon`, `mon,thu` or `fri-mon`; 0 is Monday."""
    found: set[int] = set()
    for part in field.split(","):
        low, dash, high = part.partition("-")
        first = _weekday(low, text)
        last = _weekday(high, text) if dash else first
        found |= {day % 7 for day in range(first, last + 1 if last >= first else last + 8)}
    return found


def _weekday(word: str, text: str) -> int:
    for number, name in enumerate(_DAYS):
        if len(word) >= 3 and name.startswith(word):
            return number
    hint = did_you_mean(word, [*(name[:3] for name in _DAYS), *_WORDS, "hourly", "weekly", "monthly"]) or _EXAMPLES
    raise Invalid(f"{word!r} in {text!r} is no day", hint=hint)


_EXAMPLES = "Write for example `mon-fri 07:00`, `every 15m`, `1st 03:00` or cron's `0 7 * * 1-5`."


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = did_you_mean(name, available_timezones()) or "Write a name such as Europe/Berlin or UTC."
        raise Invalid(f"{name!r} is no time zone", hint=hint) from None


def quiet_until(text: str, now: float) -> float:
    """When the quiet hours end in which this moment lies, by this machine's clock; 0.0 if it lies in none.

    `22:00-07:00`, several with commas; Invalid names the part that is no such span.
    """
    local, end = datetime.fromtimestamp(now), 0.0  # noqa: DTZ006 - people go by the clock on their wall
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d{1,2}):(\d\d) *- *(\d{1,2}):(\d\d)", part)
        hour, minute, until, past = (int(number) for number in found.groups()) if found else (24, 0, 24, 0)
        if max(hour, until) > 23 or max(minute, past) > 59:
            raise Invalid(f"{part!r} is no span of quiet hours", hint="Write for example 22:00-07:00.")
        at, first, last = (local.hour, local.minute), (hour, minute), (until, past)
        if first <= at < last or (last <= first and (at >= first or at < last)):
            over = local.replace(hour=until, minute=past, second=0, microsecond=0)
            end = max(end, (over if over > local else over + timedelta(days=1)).timestamp())
    return end


def local_zone(env: Mapping[str, str], link: str) -> str:
    """The name of this machine's zone: `TZ`, or what /etc/localtime, here given as the target of that link, is."""
    named = env.get("TZ", "").removeprefix(":") or link.rpartition("zoneinfo/")[2]
    try:
        ZoneInfo(named or "UTC")
    except (KeyError, ValueError, OSError):
        return "UTC"
    return named or "UTC"


# -- the task that is a schedule -------------------------------------------------------------------


def plan_of(task: Task) -> Plan:
    """When its runs are due; Invalid names the field that is wrong."""
    return parse(str(task.extra["every"]), str(task.extra.get("zone") or "UTC"))


def check_schedule(task: Task) -> None:
    """Whether each field of a schedule can be understood; Invalid says which cannot."""
    following = plan_of(task).after(0.0)
    _catch_up(task)
    _run(task, following, _jitter(task))


def _catch_up(task: Task) -> str:
    word = str(task.extra.get("catch-up") or "one")
    if word not in CATCH_UP:
        raise Invalid(f"catch-up {word!r} is not known", hint=f"Write {', '.join(CATCH_UP)}.", id=task.id)
    return word


def _jitter(task: Task) -> float:
    text = str(task.extra.get("jitter") or "0")
    try:
        return duration(text)
    except ValueError as error:
        raise Invalid(f"jitter: {error}", id=task.id) from None


def facts(task: Task) -> dict[str, object]:
    """What is told of a schedule: when it is due, and next."""
    return {
        "id": task.id,
        "title": task.title,
        "every": task.extra["every"],
        "zone": task.extra.get("zone", "UTC"),
        "next": iso(task.not_before) if task.not_before else None,
        "last_run": task.extra.get("last-run"),
        "held": task.hold or None,
    }


def next_run(task: Task, now: float) -> str:
    """When its next run is due, in words."""
    wait = task.not_before - now
    return task.hold or (f"{local(task.not_before)} (in {say_duration(wait)})" if wait > 0 else "due now")


def stray(task: Task, now: float) -> bool:
    """Whether it is out of step: written by hand, or it waits too long since the clock was ahead."""
    try:
        return not task.not_before or SCHEDULES not in task.tags or task.not_before > plan_of(task).after(now)
    except Invalid:
        return True  # firing it holds it for a person


def fire(claim: Claim, now: float, state_of: Callable[[str], State | None]) -> End:
    """The end of a claim of a schedule: its due runs enter, and it waits for the next time.

    While its last run is not finished nothing enters, unless each run is wanted (`catch-up: all`). What cannot be read
    is held for a person.
    """
    task = claim.task
    try:
        plan, catch_up, jitter = plan_of(task), _catch_up(task), _jitter(task)
        due = _due(plan, task, now, catch_up)
        following = plan.after(due[-1] if len(due) == AT_ONCE else now)
        _run(task, following, jitter)  # a run that could never enter is told before it is due
    except Invalid as error:
        reason = f"its schedule cannot be read: {error.message}"
        return End(claim=claim, task=task.replace(hold=reason), action="blocked", details=reason)
    last = str(task.extra.get("last-run") or "")
    if due and catch_up != "all" and last and state_of(last) in (State.READY, State.CLAIMED):
        due, said = [], f"skipped, {last} is not finished"
    else:
        said = f"{len(due)} due" if due else "none due"
    runs = tuple(run for run in (_run(task, at, jitter) for at in due) if state_of(run.id) is None)
    extra = {**task.extra, "last-run": _run(task, due[-1], jitter).id} if due else task.extra
    waiting = task.replace(not_before=following, attempts=0, extra=extra, tags=_tagged(task))
    details = f"{said}; next {iso(following)}"
    return End(claim=claim, task=waiting, children=runs, action="scheduled_task", details=details)


def _due(plan: Plan, task: Task, now: float, catch_up: str) -> list[float]:
    """The times for which a run enters now, in order."""
    if not 0 < task.not_before <= now:
        return []  # written by hand, or by a clock that was ahead: its first time is to come
    if catch_up == "all":
        return list(islice(plan.between(task.not_before, now), AT_ONCE))
    latest = _latest(plan, task.not_before, now)
    late = catch_up == "none" and now - latest > MISSED
    return [latest] if latest and not late else []


def _latest(plan: Plan, first: float, now: float) -> float:
    """The last time from `first` to now; 0 if there is none. Looks at the last hour before the last year."""
    for window in (3600.0, 86400.0, 31 * 86400.0, now):
        times = list(plan.between(max(first, now - window), now))
        if times:
            return times[-1]
    return 0.0


def _run(task: Task, at: float, jitter: float) -> Task:
    """The task that is to be done for this time; Invalid if there cannot be one."""
    name = f"{task.id}.{stamp(at)}"
    if task.id and not is_word(name):
        raise Invalid(f"{task.id} is too long an id for a schedule: its runs are called {name}", id=task.id)
    spread = int.from_bytes(name.encode(), "big") % max(int(jitter), 1)
    if at + spread > LAST:
        raise Invalid(f"jitter: {jitter:g} seconds lead beyond the year 9999", id=task.id)
    extra = {key: value for key, value in task.extra.items() if key not in FIELDS}
    return task.replace(
        id=name,
        tags=tuple(tag for tag in task.tags if tag != SCHEDULES),
        not_before=at + spread if spread else 0.0,
        attempts=0,
        last_error="",
        created=at,
        updated=0.0,
        extra={**extra, "schedule": task.id},
        source=b"",
    )


def first_time(task: Task, now: float) -> Task:
    """The schedule as it is put: checked, with its first time, which is not before the one it has."""
    check_schedule(task)
    return task.replace(not_before=plan_of(task).after(max(now, task.not_before)), tags=_tagged(task))


def _tagged(task: Task) -> tuple[str, ...]:
    return task.tags if SCHEDULES in task.tags else (*task.tags, SCHEDULES)
