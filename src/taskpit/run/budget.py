"""What work may cost, and what it has cost: a ledger beside the queue, and limits per task and per day.

A limit that is reached fails nothing. A task that has cost too much asks whether to go on; a day that has
cost too much pauses the queue until tomorrow, or until a person says go on. Each machine has a ledger of its own;
a person may say so on any: it stands in the changelog, and is entered by the pool that would stop spending.
"""

from __future__ import annotations

import json
import re

from taskpit import decode, fs
from taskpit.clock import duration, instant, iso, say_duration
from taskpit.decode import read_json
from taskpit.errors import Denied, Invalid
from taskpit.hooks import tell
from taskpit.logfile import lines
from taskpit.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from taskpit.queue import Queue
    from taskpit.store.port import Looking

DAY = 86400.0
#: How the question ends whether a task may cost more.
GO_ON = "; go on?"
#: The changelog's word for it when a person says go on, of a task or of the day.
ALLOWED = "allowed_budget"
#: So many of its newest lines are read for that at first.
LINES = 1000
#: How the reason of a pause begins that a day has brought which may cost no more.
SPENT = "the budget is spent"
_MONEY = re.compile(r"\$?(\d+(?:\.\d+)?)(?:usd)?\Z", re.IGNORECASE)
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)([km]?) ?tok(?:ens?)?\Z", re.IGNORECASE)


class BudgetLimit(Value, frozen=True, kw_only=True):
    """One limit: this much of this for each task, or for each day."""

    amount: float
    #: usd, tokens or seconds.
    unit: str
    #: task or day.
    scope: str

    def reached(self, spent: Spent) -> bool:
        """Whether no more may be spent."""
        return float(getattr(spent, self.unit)) >= self.amount

    def told(self, spent: Spent) -> str:
        """How it stands, in words."""
        return f"{say(self.unit, getattr(spent, self.unit))} of {say(self.unit, self.amount)} for this {self.scope}"


class Spent(Value, frozen=True, kw_only=True):
    """What was spent."""

    usd: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0


def say(unit: str, amount: float) -> str:
    """An amount as people write it."""
    if unit == "usd":
        return f"${amount:.2f}"
    return say_duration(amount) if unit == "seconds" else f"{int(amount)} tokens"


def parse(text: str) -> BudgetLimit:
    """`$5/day`, `0.50/task`, `200k tokens/task`, `2h/day`; Invalid says what it should look like."""
    amount, slash, scope = text.strip().partition("/")
    if not slash or scope not in ("task", "day"):
        raise Invalid(f"budget {text!r} does not read AMOUNT/task or AMOUNT/day", hint="Write $5/day or 30m/task.")
    money, tokens = _MONEY.match(amount.strip()), _TOKENS.match(amount.strip())
    if money:
        return BudgetLimit(amount=float(money[1]), unit="usd", scope=scope)
    if tokens:
        many = {"": 1.0, "k": 1e3, "m": 1e6}[tokens[2].lower()]
        return BudgetLimit(amount=float(tokens[1]) * many, unit="tokens", scope=scope)
    try:
        return BudgetLimit(amount=duration(amount), unit="seconds", scope=scope)
    except ValueError:
        raise Invalid(f"budget {text!r}: {amount!r} is no amount", hint="Write $5, 200k tokens or 30m.") from None


class Ledger:
    """What was spent in one queue: lines that are only ever added to."""

    def __init__(self, queue: str) -> None:
        self._path = f"{queue}/.taskpit/spend.log"

    def enter(
        self,
        task_id: str,
        worker: str,
        cost: Mapping[str, object],
        seconds: float,
        now: float,
        *,
        done: bool | None = None,
    ) -> None:
        """One attempt was paid for."""
        line = {
            "at": round(now, 3),
            "task": task_id,
            "worker": worker,
            "usd": _number(cost, "usd", "total_cost_usd", "cost"),
            "tokens": _number(cost, "tokens", "total_tokens"),
            "seconds": round(seconds, 3),
            **{key: str(cost[key]) for key in ("agent", "model") if cost.get(key)},
            **({"done": done} if done is not None else {}),
            **({"unknown": True} if cost.get("agent") and "usd" not in cost else {}),
        }
        self._append(line)

    def allow(self, scope: str, when: float, task_id: str = "") -> None:
        """A person said go on: what was spent until then no longer counts."""
        self._append({"at": round(when, 3), "allow": scope, "task": task_id})

    def _append(self, line: Mapping[str, object]) -> None:
        fs.append(self._path, json.dumps(line).encode() + b"\n")

    def of_task(self, task_id: str) -> Spent:
        """What this task has cost since a person last said go on."""
        return _sum(_since_allowed(self._of_task(task_id), "task"))

    def of_day(self, now: float) -> Spent:
        """What was spent today (UTC) since a person last said go on."""
        return _sum(_since_allowed(self._of_day(now), "day"))

    def today(self, now: float) -> Spent:
        """What was spent today (UTC)."""
        return _sum(self._of_day(now))

    def hear(self, store: Looking, now: float, task_id: str = "") -> bool:
        """Whether a person has said go on of this task, or of the day, anywhere, and it is entered only now."""
        scope, lines = ("task", self._of_task(task_id)) if task_id else ("day", self._of_day(now))
        counted = _since_allowed(lines, scope)
        said = _last_allowed(store, task_id, min(map(_at, counted), default=now), now)
        if said <= max((_at(line) for line in lines if line.get("allow") == scope), default=0.0):
            return False
        self.allow(scope, said, task_id)
        return True

    def _of_task(self, task_id: str) -> list[dict[str, object]]:
        return [line for line in self._lines() if line.get("task") == task_id]

    def _of_day(self, now: float) -> list[dict[str, object]]:
        return [line for line in self._lines() if _at(line) >= now - now % DAY]

    def total(self) -> Spent:
        """What was spent ever."""
        return _sum(self._lines())

    def by_model(self) -> dict[str, dict[str, float]]:
        """What each agent with each model has cost, in how many runs, and how many of them were done."""
        found: dict[str, dict[str, float]] = {}
        for line in self._lines():
            if "agent" in line:
                name = f"{line['agent']} {line.get('model', '')}".strip()
                row = found.setdefault(name, {"runs": 0, "done": 0, "usd": 0.0, "tokens": 0.0})
                row["runs"] += 1
                row["done"] += 1 if line.get("done") is True else 0
                row["usd"] += _number(line, "usd")
                row["tokens"] += _number(line, "tokens")
        return found

    def entries(self) -> list[tuple[float, str, float]]:
        """When, by whom and how many dollars: each attempt that was paid for, oldest first."""
        paid = [line for line in self._lines() if "allow" not in line]
        return [(_at(line), str(line.get("worker", "")), _number(line, "usd")) for line in paid]

    def since(self, when: float) -> list[tuple[str, str, float, float]]:
        """The task, the model (else the agent), seconds and dollars of each run of an agent since then."""
        runs = [line for line in self._lines() if "agent" in line and _at(line) >= when]
        return [
            (
                str(line.get("task", "")),
                str(line.get("model") or line["agent"]),
                _number(line, "seconds"),
                _number(line, "usd"),
            )
            for line in runs
        ]

    def unknown(self, when: float) -> list[tuple[str, int, float]]:
        """The model (else the agent), runs and tokens of the runs since then whose cost in dollars is not known."""
        found: dict[str, tuple[int, float]] = {}
        for line in self._lines():
            if line.get("unknown") and _at(line) >= when:
                name = str(line.get("model") or line.get("agent"))[:60]
                runs, tokens = found.get(name, (0, 0.0))
                found[name] = (runs + 1, tokens + _number(line, "tokens"))
        return [(name, runs, tokens) for name, (runs, tokens) in sorted(found.items())]

    def _lines(self) -> list[dict[str, object]]:
        found = []
        for _, line in lines(self._path):
            try:
                fields = read_json(line)
            except ValueError:
                continue  # torn by a crash; the others count
            if isinstance(fields, dict):
                found.append(fields)
        return found


def _at(line: Mapping[str, object]) -> float:
    return _number(line, "at")


def _since_allowed(lines: Sequence[dict[str, object]], scope: str) -> Sequence[dict[str, object]]:
    last = max((index for index, line in enumerate(lines) if line.get("allow") == scope), default=-1)
    until = _at(lines[last]) if last >= 0 else 0.0  # it may have been entered some time after it was said
    return [line for index, line in enumerate(lines) if index > last or _at(line) > until]


def _last_allowed(store: Looking, task_id: str, since: float, now: float) -> float:
    """The end of the second in which a person last said go on, by the changelog; 0 if nobody has since then."""
    many, enough = LINES, False
    while not enough:
        events, _ = store.latest(many)
        said = [event.timestamp for event in events if event.action == ALLOWED and event.about == task_id]
        if said:
            try:
                return instant(said[-1], now) + 1.0
            except ValueError:
                return 0.0
        enough = len(events) < many or events[0].timestamp < iso(since)
        many *= 8
    return 0.0


def _sum(lines: Iterable[Mapping[str, object]]) -> Spent:
    usd = tokens = seconds = 0.0
    for line in lines:
        usd += _number(line, "usd")
        tokens += _number(line, "tokens")
        seconds += _number(line, "seconds")
    return Spent(usd=usd, tokens=tokens, seconds=seconds)


def _number(fields: Mapping[str, object], *keys: str) -> float:
    """The first of these that is one. Nothing below zero pays back, and what has no end is more than any limit."""
    return next((decode.amount(fields[key]) for key in keys if decode.is_number(fields.get(key))), 0.0)


def allow(queue: Queue, worker: str, task_id: str = "") -> None:
    """A person said go on: this task, or the day, may cost as much again, on whatever machine it is paid for."""
    queue.tell(ALLOWED, task_id, worker, "it may cost as much again")


def first_reached(
    queue: Queue, ledger: Ledger, limits: Sequence[BudgetLimit], task_id: str = ""
) -> tuple[BudgetLimit, Spent] | None:
    """The first limit that this task, or the day, has reached, and what was spent; None if more may be."""
    now, mine = queue.clock.now(), [limit for limit in limits if limit.scope == ("task" if task_id else "day")]

    def found() -> tuple[BudgetLimit, Spent] | None:
        spent = ledger.of_task(task_id) if task_id else ledger.of_day(now)
        return next(((limit, spent) for limit in mine if limit.reached(spent)), None)

    reached = found() if mine else None
    return found() if reached and ledger.hear(queue.store, now, task_id) else reached


def pause_if_spent(queue: Queue, limits: Sequence[BudgetLimit], worker: str) -> str:
    """Why the day may cost no more, if so: the queue is paused until tomorrow, or until a person says go on. Where
    it is not ours to pause, this is said each time that is asked: who asks begins nothing.
    """
    root = queue.store.info().papers if any(limit.scope == "day" for limit in limits) else ""
    if not root or queue.store.paused():
        return ""
    reached = first_reached(queue, Ledger(root), limits)
    if reached is None:
        return ""
    reason = f"{SPENT}: {reached[0].told(reached[1])}; `pit answer budget yes` goes on"
    try:
        queue.store.pause(reason, DAY - queue.clock.now() % DAY, worker)
    except Denied:  # a worker's token
        return reason
    tell(queue.store, queue.config.hooks, "budget", details=reason, worker=worker)
    return reason
