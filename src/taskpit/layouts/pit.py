"""The snake pit: `food/`, `claimed/`, `done/`, `scraps/`, `waste/`. Names and Markdown, no disk.

food/food-<id>-<slug>.md                 ready
claimed/<snake-id>.food-<id>-<slug>.md   claimed
done/food-<id>-<slug>.result.md          done; .plan.md if a planner took it apart
scraps/food-<id>-<slug>-needs-keeper.md  failed, for a person to look at
waste/<snake-id>-<ts>.log                working logs
"""

from __future__ import annotations

import re

from taskpit.clock import instant, iso, stamp
from taskpit.errors import Invalid
from taskpit.layouts.layout import LONGEST_NAME, Layout, Spot, check_word
from taskpit.layouts.report import dump_report, load_report
from taskpit.layouts.sheet import Sheet, command_in, one_line, quote_command
from taskpit.task import State, Task, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from taskpit.task import Result

__all__ = ["Pit"]

_FOOD = re.compile(r"food-([A-Za-z0-9][A-Za-z0-9._]*)(?:-([^/\x00-\x1f\x7f~]+))?\.md\Z")
_SNAKE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@+-]*(?:~[a-z0-9]+)?\Z")
_COUNT = re.compile(r"(?:(\d+) of )?(\d+)\Z")

#: What failed results are called, by verdict.
_SCRAPS = {Verdict.FAILED: "needs-keeper", Verdict.CANCELLED: "cancelled"}


def _int(text: str) -> int:
    return int(text.strip())


def _bool(text: str) -> bool:
    if text.lower() in ("true", "yes"):
        return True
    if text.lower() in ("false", "no", ""):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _ids(text: str) -> tuple[str, ...]:
    """Ids, also where somebody wrote the whole name of the food."""
    return tuple(word.split("-")[1] if word.startswith("food-") else word for word in _words(text))


def _time(text: str) -> float:
    return instant(text, 0.0)


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(words)


#: Field, bullet, how its text is read, how it is written. In the order we write them.
FIELDS: tuple[tuple[str, str, Callable[[str], object], Callable[..., str]], ...] = (
    ("title", "task", one_line, one_line),
    ("check", "done-when", command_in, lambda command: f"{quote_command(one_line(command))} is green."),
    ("by", "tossed-by", str, one_line),
    ("created", "created", _time, iso),
    ("priority", "priority", _int, str),
    ("needs", "needs", _ids, _list),
    ("tags", "tags", _words, _list),
    ("touches", "touches", _words, _list),
    ("parent", "parent", lambda text: "".join(_ids(text)), str),
    ("not_before", "not-before", _time, iso),
    ("big", "big", _bool, lambda _: "true"),
    ("hold", "hold", one_line, one_line),
)
KNOWN = frozenset({bullet for _, bullet, _, _ in FIELDS} | {"attempts"})
PROSE = frozenset({"task", "done-when", "hold"})


class Pit(Layout):
    """The layout of seeds 000 and 001."""

    name = "pit"
    folders = ("food", "claimed", "done", "scraps", "waste")
    ready = "food"
    claimed = "claimed"
    results = ("done",)
    logs = "waste"
    digest = "waste/COMPOST.md"
    reclaims = "scraps/reclaims.md"

    def check_id(self, text: str) -> str:
        """An id without a dash: the first dash of a name ends the id."""
        if "-" in check_word(text, "id"):
            raise Invalid(f"id {text!r} has a dash; in a pit the first dash of a file name ends the id", text=text)
        return text

    def check_worker(self, text: str) -> str:
        """A name without a dot: the first dot of a claimed file's name ends it."""
        if len(text) > 72 or _SNAKE.match(text) is None:
            raise Invalid(
                f"worker name {text!r} is not allowed",
                hint="Use letters, digits, dash, underscore and @, beginning with a letter or digit; no dot.",
                text=text,
            )
        return text

    def new_id(self, number: int) -> str:
        """Numbers of at least four digits."""
        return f"{number:04d}"

    def number(self, text: str) -> int:
        """The number behind an id like `0007`."""
        return int(text) if text.isdecimal() and text.isascii() else 0

    def spot(self, folder: str, file: str) -> Spot | None:
        """What a directory entry is, by its name alone."""
        if folder == "food":
            return self._food(file, State.READY, f"food/{file}") if file.startswith("food-") else None
        if folder == "claimed":
            worker, dot, name = file.partition(".")
            if not dot or not name.startswith("food-") or _SNAKE.match(worker) is None:
                return None
            spot = self._food(name, State.CLAIMED, f"claimed/{file}")
            return spot and spot.replace(worker=worker)
        if folder == "done":
            for suffix in (".result.md", ".plan.md"):
                if file.startswith("food-") and file.endswith(suffix):
                    spot = self._food(file[: -len(suffix)] + ".md", State.DONE, f"done/{file}")
                    return spot and spot.replace(verdict=Verdict.DONE)
        return None

    def _food(self, file: str, state: State, path: str) -> Spot | None:
        if not file.endswith(".md"):
            return None  # an editor's swap or backup file
        match = _FOOD.match(file)
        if match is None or len(file.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
            why = f"is longer than {LONGEST_NAME} bytes" if match else "does not read food-<id>-<slug>.md"
            raise Invalid(f"the name {file[:80]!r} {why}")
        try:
            file.encode("utf-8")
        except UnicodeEncodeError:
            raise Invalid(f"the name {file!r} is not UTF-8") from None
        return Spot(state=state, id=self.check_id(match[1]), slug=match[2] or "", path=path)

    def _stem(self, task: Task) -> str:
        return f"food-{task.id}-{task.slug}" if task.slug else f"food-{task.id}"

    def ready_path(self, task: Task) -> str:
        """`food/food-0007-reverse-string.md`."""
        return f"food/{self._stem(task)}.md"

    def claimed_path(self, task: Task, worker: str) -> str:
        """`claimed/snake-2.food-0007-reverse-string.md`."""
        return f"claimed/{worker}.{self._stem(task)}.md"

    def result_path(self, task: Task, verdict: Verdict, again: str = "") -> str:
        """`done/food-0007-reverse-string.result.md`, or the scraps for what did not work."""
        stem = self._stem(task) + (f"-{again}" if again else "")
        if verdict is Verdict.DONE:
            return f"done/{stem}.{'plan' if task.big else 'result'}.md"
        return f"scraps/{stem}-{_SCRAPS[verdict]}.md"

    def ended_path(self, task: Task, verdict: Verdict) -> str:  # noqa: ARG002 - the text lives on in the result
        """Nowhere: a finished task keeps its text in its result."""
        return ""

    def note_path(self, task: Task, kind: str) -> str:
        """`scraps/food-0007-reverse-string-choked.md`."""
        return f"scraps/{self._stem(task)}-{kind}.md"

    def log_path(self, worker: str, when: float) -> str:
        """`waste/snake-2-20260614T175042Z.log`."""
        return f"waste/{worker}-{stamp(when)}.log"

    def load(self, spot: Spot, data: bytes) -> Task:
        """The food in these bytes. Only known bullets are judged; all else is kept as it is."""
        sheet = _sheet(data)
        fields: dict[str, Any] = {}
        for field, bullet, read, _ in FIELDS:
            value = sheet.get(bullet)
            if value is not None:
                fields[field] = _read(bullet, value, read)
        count = sheet.get("attempts")
        if count is not None:
            fields["attempts"], fields["max_attempts"] = _read("attempts", count, _counts)
        extra: dict[str, object] = {key: value for key, value in sheet.items() if key not in KNOWN}
        done_when = sheet.get("done-when")
        if done_when and not fields.get("check"):
            extra["done-when"] = done_when  # a sentence for people
        if not fields.get("title"):
            fields["title"] = _title(sheet, spot)
        slug = spot.slug or _slug_in(sheet.heading, spot.id)
        return Task(**{"id": spot.id, "slug": slug, "body": sheet.body, "extra": extra, "source": data, **fields})

    def dump(self, task: Task) -> bytes:
        """The food's bytes: the old ones with the bullets that changed, or new ones as the seed draws them."""
        if task.source:
            was = self.load(Spot(state=State.READY, id=task.id, slug=task.slug), task.source)
            sheet = _sheet(task.source)
        else:
            was = Task(id=task.id, title="")
            sheet = Sheet(f"# {self._stem(task)}\n", KNOWN, PROSE)
        for field, bullet, _, write in FIELDS:
            value = getattr(task, field)
            if value != getattr(was, field):
                if value:
                    sheet.set(bullet, write(value))
                else:
                    sheet.drop(bullet)
        if (task.attempts, task.max_attempts) != (was.attempts, was.max_attempts):
            sheet.set(
                "attempts", f"{task.attempts} of {task.max_attempts}" if task.attempts else str(task.max_attempts)
            )
        for key, text in task.extra.items():
            if was.extra.get(key) != text:
                sheet.set(key, one_line(str(text)))
        if task.body.strip("\r\n") != was.body.strip("\r\n"):
            sheet.body = task.body
        return sheet.text().encode("utf-8", "surrogateescape")

    def load_result(self, spot: Spot, data: bytes) -> tuple[Result, Task | None]:
        """The result in these bytes; a text somebody else wrote is all output."""
        result, stem, text = load_report(spot.id, spot.verdict or Verdict.DONE, data)
        if text is None:
            return result, None
        return result, self.load(spot.replace(state=State.READY, slug=spot.slug or _slug_in(stem, spot.id)), text)

    def dump_result(self, task: Task, result: Result) -> bytes:
        """Verdict first, then output and evidence, then the task's own text."""
        return dump_report(self._stem(task), result, self.dump(task))


def _sheet(data: bytes) -> Sheet:
    if b"\x00" in data:
        raise Invalid("it is binary, not Markdown")
    try:
        return Sheet(data.decode("utf-8"), KNOWN, PROSE)
    except UnicodeDecodeError as error:
        raise Invalid(f"it is not UTF-8 (byte {error.start})") from None


def _read(bullet: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise Invalid(f"**{bullet}:** {text[:80]!r} cannot be read: {error}", field=bullet) from None


def _counts(text: str) -> tuple[int, int]:
    """`3` are three attempts; `1 of 3` says that one is spent."""
    match = _COUNT.match(text.strip())
    if match is None:
        raise ValueError("write how many attempts there may be, or `1 of 3`")
    return int(match[1] or 0), int(match[2])


def _slug_in(heading: str, task_id: str) -> str:
    """The slug in `food-0007-reverse-string`, if that is this task's name."""
    prefix = f"food-{task_id}-"
    return heading[len(prefix) :] if heading.startswith(prefix) and _FOOD.match(f"{heading}.md") else ""


def _title(sheet: Sheet, spot: Spot) -> str:
    if sheet.heading and not sheet.heading.startswith("food-"):
        return sheet.heading
    first = next((line.strip() for line in sheet.body.split("\n") if line.strip()), "")
    return one_line(first.lstrip("#").strip())[:200] or spot.slug or spot.id
