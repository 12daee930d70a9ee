"""What can be a task, which comes next, and which may not be taken yet. Pure: values in, values out.

Every store answers to these rules; the conformance suite holds it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from msgspec.structs import astuple

from taskpit.clock import iso, say_duration
from taskpit.config import Limit
from taskpit.decode import convert_field
from taskpit.errors import Invalid
from taskpit.model import LINES, LISTS, State, Task, Value, Want
from taskpit.text import is_count

Order = tuple[int, float, int, str]
#: The seconds of `/min`.
MINUTE = 60.0
#: So many holders of a key are named.
NAMED = 3
#: The whole numbers of a task.
COUNTS = ("priority", "attempts", "max_attempts")
#: What its other fields are; the types of one that a program made as it should; and what must be looked at then, too.
KINDS = {name: kind for name, kind in Task.kinds().items() if name not in ("source", *COUNTS)}
SORTS = tuple(map(type, astuple(Task(id="", title=""))))
ODD = (*LISTS, *COUNTS, "not_before", "extra")
#: The values of these, all at once.
_odd_of, _lines_of = attrgetter(*ODD), attrgetter(*LINES)


def order(task: Task) -> Order:
    """Sorts by priority, then age: when it was asked for, then its number."""
    task_id = task.id
    number = int(task_id) if is_count(task_id) else 0
    return (-task.priority, task.created, number, task_id if number else natural(task_id))


def natural(text: str) -> str:
    """The text with its numbers made long, so that `a-10` comes after `a-9`."""
    message, digits = "", ""
    for letter in text:
        if "0" <= letter <= "9":
            digits += letter
        else:
            message, digits = message + (digits and digits.zfill(12)) + letter, ""
    return message + (digits and digits.zfill(12))


def suits(task: Task, want: Want) -> bool:
    """Whether it is of the sort this worker asks for."""
    tagged = not want.tags or bool(set(want.tags) & set(task.tags))
    return tagged and want.big in (None, task.big)


def held(task: Task, now: float, state_of: Callable[[str], State | None]) -> str:
    """Why this ready task may not be taken yet; empty if it may."""
    if task.hold:
        return task.hold
    if task.not_before > now:
        when = f"{iso(task.not_before)} (in {say_duration(task.not_before - now)})"
        return f"a schedule, {task.extra['every']}: next {when}" if "every" in task.extra else f"not before {when}"
    for need in task.needs:
        state = state_of(need)
        if state is not State.DONE:
            return _unmet(need, state)
    return ""


#: How a task that another needs stands, as the end of a sentence; one that is ready may itself wait, or for a person.
_STANDS = {State.READY: "is not done yet", State.CLAIMED: "is running", State.FAILED: "failed or was cancelled"}


def _unmet(need: str, state: State | None) -> str:
    return f"needs {need}, which {'does not exist' if state is None else _STANDS[state]}"


def check_mode(task: Task) -> str:
    """How much a check counts: `strict`, `lenient` (red is told, not held against it) or `disabled`."""
    if not task.check or task.extra.get("test_scope") == "skip":
        return "disabled"
    mode = task.extra.get("test_mode", "strict")
    return str(mode) if mode in ("lenient", "disabled") else "strict"


def overlap(one: str, other: str) -> bool:
    """Whether two path globs may mean the same file: one's literal beginning is a path prefix of the other's."""
    (short, open_end), (long, _) = sorted((_literal(one), _literal(other)), key=lambda pair: len(pair[0]))
    rest = long[len(short) :]
    return long.startswith(short) and (open_end or not rest or rest[0] == "/" or short.endswith("/") or not short)


def _literal(glob: str) -> tuple[str, bool]:
    """What stands before the first wildcard, and whether there is one."""
    glob = glob.removeprefix("./")
    end = min((glob.find(letter) for letter in "*?[" if letter in glob), default=len(glob))
    return glob[:end], end < len(glob)


def in_the_way(task: Task, running: Iterable[Task]) -> str:
    """Why this task may not run beside those: it would change the same files. Empty if it may."""
    ways = [
        (other.id, mine)
        for other in (running if task.touches else ())
        for mine in task.touches
        for theirs in other.touches
        if other.id != task.id and overlap(mine, theirs)
    ]
    if not ways:
        return ""
    other, mine = min(ways)  # in whatever order a directory has them
    return f"touches {mine}, which {other} is changing"


class Use(Value, frozen=True, kw_only=True):
    """What is in use: the tasks that run, when each key was last used, and what the queue's settings allow."""

    running: tuple[Task, ...] = ()
    #: Unix seconds of recent claims, by key; only of keys that are limited by the minute.
    starts: Mapping[str, tuple[float, ...]] = {}
    #: Settings: key and what is allowed, as in `config.toml`.
    settings: Mapping[str, str] = {}
    now: float = 0.0


def keys_of(task: Task) -> tuple[str, ...]:
    """The keys of what it uses."""
    return tuple(dict.fromkeys(limit.partition("=")[0] for limit in task.limits))


def limits_of(task: Task, settings: Mapping[str, str]) -> list[Limit]:
    """What it must keep to: its own words and the queue's settings; one at once of a key that neither says more of."""
    found = []
    for key in keys_of(task):
        said = [text for text in task.limits if text.startswith(f"{key}=")]
        said += [f"{key}={settings[key]}"] if key in settings else []
        for text in said or [f"{key}=1"]:
            try:
                found.append(Limit.of(text))
            except ValueError:  # nobody let it in: the strictest there is
                found.append(Limit(key=key))
    return found


def rated(task: Task, settings: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of what it may begin only so often in a minute: each of its claims counts."""
    return tuple(dict.fromkeys(limit.key for limit in limits_of(task, settings) if limit.per_minute))


def over_limit(task: Task, use: Use) -> tuple[str, float]:
    """Why a limit keeps this task waiting, and until when if that is known (0: until another task ends)."""
    for limit in limits_of(task, use.settings) if task.limits else ():
        if limit.per_minute:
            recent = sorted(at for at in use.starts.get(limit.key, ()) if use.now - MINUTE < at <= use.now + MINUTE)
            if len(recent) >= limit.count:
                due = recent[-limit.count] + MINUTE
                return f"limit {limit}, next at {iso(due)} (in {say_duration(max(due - use.now, 0.0))})", due
            continue
        holders = [one.id for one in use.running if one.id != task.id and limit.key in keys_of(one)]
        if len(holders) >= limit.count:
            more = f" and {len(holders) - NAMED} more" if len(holders) > NAMED else ""
            return f"limit {limit}, held by {', '.join(sorted(holders)[:NAMED])}{more}", 0.0
    return "", 0.0


def find_cycle(start: str, needs_of: Callable[[str], Iterable[str]]) -> list[str]:
    """The ids of a circle of needs through `start`, in order, or nothing. Goes as deep as it has to."""
    trail: list[str] = [start]
    open_needs = [iter(needs_of(start))]
    seen = {start}
    while open_needs:
        need = next(open_needs[-1], None)
        if need is None:
            open_needs.pop()
            trail.pop()
        elif need == start:
            return [*trail, start]
        elif need not in seen:
            seen.add(need)
            trail.append(need)
            open_needs.append(iter(needs_of(need)))
    return []


def tangled(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """The tasks that no order of working could free: those in a circle of needs, and those that wait for one."""
    open_needs = {key: {need for need in task.needs if need in tasks} for key, task in tasks.items()}
    waiting: dict[str, list[str]] = {}
    for key, needs in open_needs.items():
        for need in needs:
            waiting.setdefault(need, []).append(key)
    free = [key for key, needs in open_needs.items() if not needs]
    while free:
        done = free.pop()
        for key in waiting.pop(done, ()):
            open_needs[key].discard(done)
            if not open_needs[key]:
                free.append(key)
    return {key: tasks[key] for key, needs in open_needs.items() if needs}


def held_in_circle(task: Task, tasks: Mapping[str, Task]) -> str:
    """The reason of a task that waits for itself, or nothing."""
    circle = find_cycle(task.id, lambda key: tasks[key].needs if key in tasks else ())
    return f"its needs go round in a circle: {' -> '.join(circle)}" if circle else ""


def check_task(task: Task) -> None:
    """Whether this can be a task; Invalid says why not."""
    odd = any(_odd_of(task))
    if odd or tuple(map(type, astuple(task))) != SORTS:
        _check_kinds(task)
    if not task.title.strip():
        raise Invalid("a task needs a title", id=task.id)
    lines = "".join(_lines_of(task))
    if "\n" in lines or "\r" in lines or "\0" in lines:
        raise _no_line(task)
    if "\0" in task.body:
        raise Invalid("the body is binary, not text", id=task.id)
    try:
        lines.encode()
        task.body.encode()
        if odd:
            _check_lists(task)
    except UnicodeEncodeError:
        raise Invalid("the task is not UTF-8 text", id=task.id) from None


def _no_line(task: Task) -> Invalid:
    """Which of its fields is more than one line."""
    for name in LINES:
        text = getattr(task, name)
        if "\n" in text or "\r" in text or "\0" in text:
            break
    hint = "Put it into a script and name that." if name == "check" else "Use the body for long text."
    return Invalid(f"the {name} must be one line", hint=hint, id=task.id)


def _check_lists(task: Task) -> None:
    """Whether each of its words can stand in a list, and it can ever run."""
    for name in LISTS:
        for word in getattr(task, name):
            word.encode()
            if not word or word != " ".join(word.split()) or "," in word or "#" in word:
                raise Invalid(f"{word!r} cannot stand in {name}: no commas, # or line breaks", id=task.id)
    if task.id in task.needs:
        raise Invalid(f"{task.id} needs itself", hint="Leave out that need.", id=task.id)


#: The share of all tasks together, whatever their tags.
ANY = "*"


def drawn(shares: Mapping[str, int], draw: Callable[[], float]) -> list[str]:
    """The tags in the order in which they are asked for, each drawn by its share, up to `*`: that has the others, too.

    A lottery: nobody keeps count, so it is the same for one worker and for a thousand on many machines, and a
    tag that has a share is first in every so many claims.
    """
    left = {**shares, ANY: shares.get(ANY, 1)}
    order: list[str] = []
    while ANY in left:
        ticket = draw() * sum(left.values())
        chosen = ANY
        for tag, share in left.items():
            ticket -= share
            if ticket < 0:
                chosen = tag
                break
        del left[chosen]
        order.append(chosen)
    return order


def _check_kinds(task: Task) -> None:
    """Fields of their kind, numbers that every file can say, and limits that can be kept."""
    for name in COUNTS:
        value = getattr(task, name)
        try:
            convert_field(Task, name, value)
        except Invalid as error:
            raise Invalid(f"the {name} is none that a task can have: {error.message}", id=task.id) from None
    source: object = task.source
    limits: object = task.limits
    if not isinstance(source, bytes):
        raise Invalid("the source of a task is the bytes that it was read from", hint="Leave it out.", id=task.id)
    for limit in limits if isinstance(limits, list | tuple) else ():
        try:
            Limit.of(limit)
        except ValueError as error:
            hint = "Write staging=1 for one at once, api=10/min for ten a minute, or a key of the table [limits]."
            raise Invalid(str(error), hint=hint, id=task.id) from None
    for name in KINDS:
        value = getattr(task, name)
        convert_field(Task, name, dict(value) if isinstance(value, Mapping) else value)
