"""What can be a task, which comes next, and which may not be taken yet. Pure: values in, values out.

Every store answers to these rules; the conformance suite holds it to them.
"""

from __future__ import annotations

from taskpit.clock import iso, say_duration
from taskpit.errors import Invalid
from taskpit.task import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from taskpit.task import Task, Want

__all__ = [
    "check_mode",
    "check_task",
    "find_cycle",
    "held",
    "in_the_way",
    "natural",
    "order",
    "overlap",
    "suits",
    "tangled",
]

Order = tuple[int, float, int, str]


def order(task: Task) -> Order:
    """Sorts by priority, then age: when it was asked for, then its number."""
    number = int(task.id) if task.id.isascii() and task.id.isdecimal() else 0
    return (-task.priority, task.created, number, task.id if number else natural(task.id))


def natural(text: str) -> str:
    """The text with its numbers made long, so that `a-10` comes after `a-9`."""
    told, digits = "", ""
    for letter in text:
        if "0" <= letter <= "9":
            digits += letter
        else:
            told, digits = told + (digits and digits.zfill(12)) + letter, ""
    return told + (digits and digits.zfill(12))


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


def _unmet(need: str, state: State | None) -> str:
    if state is None:
        return f"needs {need}, which does not exist"
    if state is State.FAILED:
        return f"needs {need}, which failed"
    return f"needs {need}, which is {state}"


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
    for other in running if task.touches else ():
        for mine in task.touches:
            for theirs in other.touches:
                if other.id != task.id and overlap(mine, theirs):
                    return f"touches {mine}, which {other.id} is changing"
    return ""


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
    if not task.title.strip():
        raise Invalid("a task needs a title", id=task.id)
    for name in ("title", "check", "by", "hold", "parent", "slug"):
        text = getattr(task, name)
        if "\n" in text or "\r" in text or "\0" in text:
            hint = "Put it into a script and name that." if name == "check" else "Use the body for long text."
            raise Invalid(f"the {name} must be one line", hint=hint, id=task.id)
    if "\0" in task.body:
        raise Invalid("the body is binary, not text", id=task.id)
    try:
        "".join((task.title, task.body, task.check, task.by, *task.tags, *task.touches)).encode()
    except UnicodeEncodeError:
        raise Invalid("the task is not UTF-8 text", id=task.id) from None
    for word in (*task.tags, *task.touches, *task.needs):
        if not word or word != " ".join(word.split()) or "," in word or "#" in word:
            raise Invalid(f"{word!r} cannot be a tag, need or path: no commas, # or line breaks", id=task.id)
    if task.id in task.needs:
        raise Invalid(f"{task.id} needs itself", hint="Leave out that need.", id=task.id)
