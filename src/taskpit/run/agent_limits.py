"""Who may start on an agent CLI now: limits it has told us of, and how many at once.

.taskpit/backends/
    <name>.json     paused_until, reason, strikes, rest: it has had enough until then
    <name>.history  what its errors were, by task: whether they are the backend's or the task's
    <name>.<n>      locked by the run that has place n of its limit
    <name>.window   when the window of its quota ends that has begun

Shared by all pools of a queue on this host. In a queue that is no folder each pool knows only of itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading

import msgspec

from taskpit import fs
from taskpit.clock import local
from taskpit.decode import read_json
from taskpit.errors import Invalid, NotFound
from taskpit.model import Done, Failed, Release, Retry
from taskpit.run.blame import History
from taskpit.run.preset import Backend
from taskpit.run.process import CannotRun
from taskpit.run.usage import model_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo
    from typing import Any

    from taskpit.clock import Clock
    from taskpit.model import Claim, Outcome, Task
    from taskpit.queue import Queue
    from taskpit.run.agent_runner import AgentRunner
    from taskpit.run.budget import BudgetLimit
    from taskpit.run.runner import Run

__all__ = ["LONGEST", "Backend", "Choosing", "Gate", "Pass", "gate_for", "moment", "resting", "seconds_in"]

# -- when a limit ends -----------------------------------------------------------------------------
# Read from what an agent says about it. Pure: text and the time now in, seconds out.
# 1778565600, 1778565600000         unix seconds, or milliseconds
# 13872, "20s", "2 days 3 hours"    so long from now
# "3pm (Europe/Berlin)", "15:05"    the next time a clock there shows this; without a zone, the clock here
# "Oct 6 at 2pm", "Aug 20, 2026, 7:38 AM", "2026-08-20T07:38:00Z"

#: No limit is longer: whatever says so was misread.
LONGEST = 32 * 86400.0
#: Nobody needs more letters to say when a limit ends.
LONGEST_TEXT = 1000
#: Smaller numbers are no time of day since 1970 but a number of seconds.
FIRST_UNIX = 1e9
#: Larger ones are milliseconds.
FIRST_MILLIS = 1e11

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SPAN = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d|w)[a-z]*", re.IGNORECASE)
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


# -- who may start on an agent CLI now -------------------------------------------------------------


#: Rests that nobody has set the length of are no longer than this.
LONGEST_GUESS = 3600.0
#: How long it rests after a limit that names no end, and after other trouble, at first and at most.
QUOTA = (300.0, LONGEST_GUESS)
TROUBLE = (10.0, 300.0)
#: For how long before the end of a window spare tasks may begin.
SPARE_LEFT = 3600.0
#: A task whose errors are in doubt begins so many seconds after its backend's rest, so that another one goes first.
LAST = 2.0


class Pass:
    """The right to start one agent, and the place it takes."""

    def __init__(self, place: fs.Flock | None = None, gate: Gate | None = None) -> None:
        self._place = place
        self._gate = gate

    def started(self, now: float) -> None:
        """It starts now: a window of its quota begins if none has."""
        if self._gate is not None:
            self._gate.begin_window(now)

    def leave(self) -> None:
        """Its place is free."""
        if self._place is not None:
            self._place.drop()


class Gate:
    """Lets through the runs that may start. Without a backend: all of them."""

    def __init__(self, backend: Backend | None, root: str, clock: Clock) -> None:
        self.backend = backend
        self._clock = clock
        self._root = f"{root}/.taskpit" if root and backend else ""
        self._held: dict[str, Any] = {}
        self._last_said = ""
        self._window = 0.0
        self._history, self._turn = History(), threading.Lock()
        if self._root:
            fs.make_dir(f"{self._root}/backends")

    def enter(self) -> Pass | None:
        """A pass; None if it rests, is full, or has just started one."""
        backend = self.backend
        if backend is None:
            return Pass()
        if self.rests():
            return None
        place = None
        if backend.limit and self._root:
            place = self._take_place(backend)
            if place is None:
                return None
        return Pass(place, self)

    def _take_place(self, backend: Backend) -> fs.Flock | None:
        for number in range(1, backend.limit + 1):
            place = fs.Flock(self._path(str(number)))
            if place.take(wait=False):
                return place
        return None

    # -- resting -----------------------------------------------------------------------------------

    def rests(self) -> str:
        """Until when it rests and why, as a person reads it; empty if it does not."""
        held = self._read()
        left = held.get("paused_until", 0.0) - self._clock.now()
        if not 0 < left <= LONGEST or self.backend is None:
            return ""
        message = f"{self.backend.name} rests until {local(held['paused_until'])}"
        return f"{message}: {held['reason']}" if held.get("reason") else message

    def news(self) -> str:
        """What has changed since it was last asked, for the person who watches; empty if nothing has."""
        rests = self.rests()
        if rests == self._last_said:
            return ""
        self._last_said = rests
        if rests:
            return f"{rests}; nothing is claimed for it until then"
        return f"{self.backend.name} goes on" if self.backend else ""

    # -- whose error it is -------------------------------------------------------------------------

    def starting(self, task_id: str) -> float:
        """A run of this task begins now; when that is."""
        now = self._clock.now()
        self._change(lambda history: history.starting(task_id, now))
        return now

    def judge(
        self, task_id: str, began: float, outcome: Outcome, *, exact: bool = False, longest: float = LONGEST_GUESS
    ) -> Outcome:
        """What the run's end means for the backend: it works, or it rests, or the error is charged to the task.

        `exact`: the limit named its end in an event; `longest`: the longest time to put a task off.
        """
        if self.backend is None:
            return outcome
        now = self._clock.now()
        if isinstance(outcome, Done):
            self.worked()
            self._change(lambda history: history.succeeded(task_id, began, now))
        if isinstance(outcome, Failed):
            self._change(lambda history: history.ended(task_id))
        if not isinstance(outcome, Retry) or outcome.kind not in ("quota", "infra"):
            return outcome
        rested = self._read().get("rest", 0.0) >= self._lengths(outcome.kind)[1]
        history = self._change(lambda history: history.failed(task_id, began, now, exact=exact, rested=rested))
        if history.is_charged(task_id):
            return Failed(error=outcome.reason, log=outcome.log)
        put_off = self.put_off(outcome)
        if put_off.after or not history.lets_others_go_first(task_id):
            return put_off
        rest = max(self._read().get("paused_until", 0.0) - now, 0.0)
        return put_off.replace(after=min(rest + LAST, longest))

    def _change(self, change: Callable[[History], History]) -> History:
        """The history after this change. A disk that refuses costs memory, not the run."""
        if self.backend is None:
            return self._history
        with self._turn, contextlib.ExitStack() as held:
            if self._root:
                with contextlib.suppress(OSError):
                    held.enter_context(fs.Flock(self._path("lock")))
                with contextlib.suppress(OSError, msgspec.MsgspecError):
                    self._history = msgspec.json.decode(fs.read(self._path("history"), 1 << 20)[0], type=History)
            before, self._history = self._history, change(self._history)
            if self._root and self._history != before:
                with contextlib.suppress(OSError):
                    fs.replace(self._path("history"), msgspec.json.encode(self._history), sync=False)
            return self._history

    def _lengths(self, kind: str) -> tuple[float, float]:
        """The first and the longest rest after an error of this kind that names no time."""
        return QUOTA if kind == "quota" else TROUBLE

    def put_off(self, retry: Retry) -> Retry:
        """The backend rests as the outcome says; the task itself may go to another one soon."""
        if self.backend is None or retry.kind not in ("quota", "infra"):
            return retry
        now, held = self._clock.now(), self._read()
        resting = held.get("paused_until", 0.0) > now
        strikes = held.get("strikes", 0) + (0 if resting else 1)
        first, most = self._lengths(retry.kind)
        seconds = retry.after or min(first * 2.0 ** min(strikes - 1, 20), most)
        until = max(now + seconds, held.get("paused_until", 0.0) if resting else 0.0)
        reason = " ".join(retry.reason.split())[:200]
        if retry.kind == "quota" and retry.after:
            self._end_window(until)
        rest = held.get("rest", 0.0) if resting else seconds
        written = self._write({"paused_until": until, "reason": reason, "strikes": strikes, "rest": rest})
        return retry.replace(after=0.0) if written else retry.replace(after=seconds)

    # -- windows -----------------------------------------------------------------------------------

    def begin_window(self, now: float) -> None:
        """Something starts: a window begins unless one has."""
        if self.backend is not None and self.backend.window and not 0 < self.window_left(now) <= LONGEST:
            self._end_window(now + self.backend.window)

    def window_left(self, now: float) -> float:
        """Seconds until the window ends that has begun; 0 or less if none has."""
        ends = self._window
        if self._root:
            try:
                ends = float(fs.read(self._path("window"), 64)[0])
            except (OSError, ValueError):
                ends = 0.0
        return ends - now if 0 < ends - now <= LONGEST else 0.0

    def is_lost_soon(self) -> str:
        """Why a spare task may begin: what is left of this window would soon be lost. Empty if it would not."""
        if self.backend is None or not self.backend.window or self.rests():
            return ""
        left = self.window_left(now := self._clock.now())
        if not 0 < left <= SPARE_LEFT:
            return ""
        return f"the window of {self.backend.name} ends at {local(now + left)}"

    def _end_window(self, at: float) -> None:
        self._window = at
        if self._root and self.backend is not None and self.backend.window:
            with contextlib.suppress(OSError):  # then spare tasks wait for the next one
                fs.replace(self._path("window"), f"{at:.3f}\n".encode(), sync=False)

    def worked(self) -> None:
        """It works: what it suffered before is forgotten."""
        if self._read().get("strikes") and not self.rests():
            self.wake()

    def wake(self) -> None:
        """It rests no longer."""
        self._held = {}
        if self._root:
            fs.remove(self._path("json"))

    def _path(self, kind: str) -> str:
        return f"{self._root}/backends/{self.backend.name if self.backend else ''}.{kind}"

    def _read(self) -> dict[str, Any]:
        if not self._root:
            return self._held
        try:
            fields = read_json(fs.read(self._path("json"), 65536)[0])
            return {
                "paused_until": float(fields.get("paused_until", 0)),
                "reason": str(fields.get("reason", "")),
                "strikes": int(fields.get("strikes", 0)),
                "rest": float(fields.get("rest", 0.0)),
            }
        except (OSError, ValueError, TypeError, AttributeError, OverflowError):
            return {}

    def _write(self, fields: dict[str, Any]) -> bool:
        self._held = fields
        if not self._root:
            return True
        try:
            data = (json.dumps(fields, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
            fs.replace(self._path("json"), data, sync=False)
        except OSError:
            return False
        return True


def gate_for(queue: Queue, runner: object) -> Gate:
    """The gate before this runner: of its backend, if it has one."""
    info = queue.store.info()
    backend = None
    while runner is not None and not isinstance(backend, Backend):  # a runner may be wrapped in others
        runner, backend = getattr(runner, "runner", None), getattr(runner, "backend", None)
    known = backend if isinstance(backend, Backend) else None
    return Gate(known, info.papers, queue.clock)


def resting(root: str, clock: Clock) -> list[str]:
    """Every backend of the queue in this folder that rests now, in words."""
    files = sorted(name for name in fs.names(f"{root}/.taskpit/backends") if name.endswith(".json"))
    gates = (Gate(Backend(name=name.removesuffix(".json")), root, clock) for name in files)
    return [message for message in (gate.rests() for gate in gates) if message]


# -- which agent a task gets -----------------------------------------------------------------------
# The one it names, else the first of the pool's that does not rest. Knows gates, no CLI.
# A task may say `agent: codex` or `agent: claude, codex`, and `model: opus`. A pool may have several agents
# (`--agent claude,codex`): where the first has reached a limit, the task goes to the next within the same claim, and no
# attempt is spent. A task that names what there is not, or what the budget cannot count, waits for a person.


#: How long a task waits that found every agent busy, in seconds.
BUSY = 5.0


class Choosing:
    """Runs each task by the agent that it names, or by the first of these that can.

    `make` gives the runner of an agent's name and a model; `root` is the queue's folder.
    """

    def __init__(
        self,
        names: Sequence[str],
        make: Callable[[str, str], AgentRunner],
        *,
        root: str,
        clock: Clock,
        budget: Sequence[BudgetLimit] = (),
    ) -> None:
        self.names = tuple(names)
        self._make = make
        self._root = root
        self._clock = clock
        self._budget = tuple(budget)
        self._runners = {name: make(name, "") for name in self.names}
        self._gates: dict[str, Gate] = {}
        #: With one agent the pool itself waits at its gate before it claims.
        self.backend: Backend | None = self._runners[self.names[0]].backend if len(self.names) == 1 else None

    def check(self, env: Mapping[str, str]) -> None:
        """CannotRun if a program is not there, or a budget could not be kept, before any task is taken."""
        for runner in self._runners.values():
            runner.check(env)
            runner.check_budget(self._budget, self._root)

    def command(self, run: Run, prompt: str) -> tuple[str, ...]:
        """The command for this run by the agent that comes first."""
        return self._runner(self._named(run.claim.task)[0], run.claim.task).command(run, prompt)

    def _named(self, task: Task) -> tuple[str, ...]:
        """The agents for this task, best first."""
        said = task.extra.get("agent", "")
        return tuple(str(said).replace(",", " ").split()) if isinstance(said, str) and said.strip() else self.names

    def _runner(self, name: str, task: Task) -> AgentRunner:
        """The runner of this agent with the model that the task names; Invalid if it names what there is not."""
        said = task.extra.get("model", "")
        model = model_name(said)
        if said and not model:
            raise Invalid(f"model: {str(said)[:80]!r} cannot be the name of a model")
        if name in self._runners and not model:
            return self._runners[name]
        runner = self._make(name, model)
        runner.check_budget(self._budget, self._root)
        return runner

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """One of them has run on this task."""
        task, message, soonest = claim.task, "", BUSY
        names = self._named(task)
        for name in names:
            try:
                runner = self._runner(name, task)
            except (Invalid, NotFound, CannotRun) as error:
                return Release(reason=error.message, task=task.replace(hold=error.message[:400]), action="blocked")
            if self.backend is not None and name == self.names[0]:
                return runner(claim, run)  # the pool has asked its gate, and hears how it went
            gate = self._gates.setdefault(name, Gate(runner.backend, self._root, self._clock))
            way = gate.enter()
            if way is None:
                message = gate.rests() or f"{name} is busy"
                continue
            way.started(self._clock.now())
            began = gate.starting(task.id)
            try:
                outcome = gate.judge(task.id, began, runner(claim, run), exact=run.exact)
            except CannotRun as error:
                if name == names[-1]:
                    raise
                message = error.message
                continue
            finally:
                way.leave()
            if not isinstance(outcome, Retry):
                return outcome
            message, soonest = outcome.reason, outcome.after or soonest
            run.say(f"{name}: {message}")
        return Retry(reason=message, after=soonest, kind="infra")
