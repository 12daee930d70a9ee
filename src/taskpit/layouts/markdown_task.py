"""Tasks as Markdown with a head of bullets: which bullet is which field. No file names, no disk.

Only known bullets are judged; all else is kept as it is, and what nobody changed is written back byte
for byte. A layout's title is either a bullet of its own (`- **task:**`) or the heading. What bullets have
no words for (a tag with a comma, a title of two lines) stands in one bullet more, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from taskpit import decode
from taskpit.clock import LAST, instant, iso
from taskpit.config import Limit
from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.layouts.layout import Spot
from taskpit.layouts.markdown import Sheet, are_plain, command_in, is_key, is_plain, one_line, quote_command, skim
from taskpit.model import LARGEST, Evidence, Result, State, Task, Verdict

#: How these tasks were read, together with where the title stands.
HEADED = "bullets"
#: Before a value that a bullet carries for another layout.
JSON = "json "
#: The bullet for what the others can't say: `extra`, and `task`: for each field what they say and what is meant.
CARRIED = "carried"


def _whole(text: str, least: int = 0) -> int:
    number = int(text.strip())
    if not least <= number <= LARGEST:
        raise ValueError("the number is too small or too large")
    return number


def _int(text: str) -> int:
    return _whole(text, -LARGEST)


def _count(text: str) -> int:
    return _whole(text)


def _bool(text: str) -> bool:
    if text.lower() in ("true", "yes"):
        return True
    if text.lower() in ("false", "no", ""):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _limits(text: str) -> tuple[str, ...]:
    found = _words(text)
    for limit in found:
        Limit.of(limit)  # a ValueError says what is wrong with it
    return found


def _ids(text: str) -> tuple[str, ...]:
    """Ids, also where a person wrote the whole name of the food."""
    return tuple(word.split("-")[1] if word.startswith("food-") else word for word in _words(text))


def _command(text: str) -> str:
    """The command between backticks, or as JSON where backticks cannot say it."""
    said = _plain_or_json(text) if text.startswith(f'{JSON}"') else text
    return said if isinstance(said, str) and said != text else command_in(text)


def _list(words: tuple[str, ...]) -> str:
    return one_line(", ".join(words))


def _flat(text: str) -> str:
    """The text on one line, otherwise as it is."""
    return text.replace("\n", " ")


#: Field, bullet, how its text is read, how it is written. In the order we write them.
FIELDS: tuple[tuple[str, str, Callable[[str], object], Callable[..., str]], ...] = (
    ("title", "task", one_line, one_line),
    ("check", "done-when", _command, lambda command: f"{quote_command(_flat(command))} is green."),
    ("by", "tossed-by", str, one_line),
    ("created", "created", instant, iso),
    ("priority", "priority", _int, str),
    ("needs", "needs", _ids, _list),
    ("tags", "tags", _words, _list),
    ("touches", "touches", _words, _list),
    ("limits", "limit", _limits, _list),
    ("parent", "parent", lambda text: "".join(_ids(text)), one_line),
    ("not_before", "not-before", instant, iso),
    ("big", "big", _bool, lambda _: "true"),
    ("hold", "hold", one_line, one_line),
    ("last_error", "last-error", one_line, one_line),
)
#: How a field that is not among them is read and written, by its kind; its bullet has its name.
BY_KIND: dict[Any, tuple[Callable[[str], object], Callable[..., str]]] = {
    str: (one_line, one_line),
    int: (_count, str),
    float: (instant, iso),
    bool: (_bool, lambda _: "true"),
    tuple[str, ...]: (_words, _list),
}
#: What is told otherwise: by the file's name, the text below, `attempts`, or not at all.
UNTOLD = frozenset(("id", "slug", "body", "attempts", "max_attempts", "updated", "extra", "source"))
OTHERS = tuple(name for name in Task.kinds() if name not in UNTOLD and name not in {row[0] for row in FIELDS})
FIELDS += tuple((name, name.replace("_", "-"), *BY_KIND[Task.kinds()[name]]) for name in OTHERS)
#: What the bullet `carried` may say of a task: never its name, and never a command that `done-when` does not show.
CARRIES = frozenset({field for field, _, _, _ in FIELDS if field != "check"} | {"body"})
UNKNOWN: tuple[str, Callable[[str], object] | None] = ("", None)
READ: dict[str, tuple[str, Callable[[str], object] | None]] = {
    bullet: (field, read) for field, bullet, read, _ in FIELDS
}
_told_of = attrgetter(*(field for field, _, _, _ in FIELDS))
#: What a plain task leaves blank: all but its name, title and text, who asked for it and when.
RARE = tuple(name for name in Task.kinds() if name not in ("id", "title", "body", "slug", "by", "created", "updated"))
_rare_of = attrgetter(*RARE)
KNOWN = frozenset({bullet for _, bullet, _, _ in FIELDS} | {"attempts"})
PROSE = frozenset({"task", "done-when", "hold", "last-error"})


def _counts(text: str) -> tuple[int, int]:
    """`3` are three attempts; `1 of 3` says that one is spent."""
    spent, of, allowed = text.strip().rpartition(" of ")
    if not allowed.isdecimal() or (of and not spent.isdecimal()):
        raise ValueError("write how many attempts there may be, or `1 of 3`")
    return _whole(spent or "0"), _whole(allowed)


READ["attempts"] = ("attempts", _counts)


def load_task(spot: Spot, data: bytes, *, title_in_heading: bool = False) -> Task:
    """The task in these bytes; Invalid says what is wrong with them."""
    try:
        skimmed = None if b"\x00" in data else skim(data.decode("utf-8"), KNOWN)
    except UnicodeDecodeError:
        skimmed = None
    bullets, heading, body = skimmed or _studied(data)
    fields: dict[str, Any] = {}
    extra: dict[str, object] = {}
    for bullet, value in bullets:
        field, read = READ.get(bullet, UNKNOWN)
        if read is None:
            extra[bullet] = _plain_or_json(value)
        elif field not in fields:  # of two the first counts
            try:
                fields[field] = read(value)
            except ValueError as error:
                raise _unreadable(bullet, value, error) from None
            if field == "check" and value and not fields[field]:
                extra[bullet] = value  # a sentence for people
    if "attempts" in fields:
        fields["attempts"], fields["max_attempts"] = fields["attempts"]
    if title_in_heading or not fields.get("title"):
        bullet = fields.get("title") or ""
        fields["title"] = _title(heading, body, spot, bullet, title_in_heading=title_in_heading)
    fields |= {"id": spot.id, "slug": spot.slug, "body": body, "extra": extra, "source": data}
    task = Task(**fields)
    task = _unpacked(task) if CARRIED in extra else task
    task.mark_read((HEADED, title_in_heading))
    return task


def _studied(data: bytes) -> tuple[list[tuple[str, str]], str, str]:
    sheet = read_sheet(data)
    return sheet.items(), sheet.heading, sheet.body


def dump_task(task: Task, heading: str, *, title_in_heading: bool = False) -> bytes:
    """The task's bytes: the old ones with the bullets that changed, or new ones under this heading."""
    if task.was_read == (HEADED, title_in_heading):
        return task.source
    sure = dump_sure(task, heading, title_in_heading=title_in_heading)
    if sure is not None:
        return sure
    if task.source:
        was = load_task(_spot_of(task), task.source, title_in_heading=title_in_heading)
        if was == task:
            return task.source
        sheet = read_sheet(task.source)
    else:
        was = Task(id=task.id, title=task.title if title_in_heading else "")
        sheet = Sheet(f"# {_flat(heading)}\n", KNOWN, PROSE)
    _set_bullets(sheet, task, was, title_in_heading=title_in_heading)
    _set_extra(sheet, task, was)
    if task.body.strip("\r\n") != was.body.strip("\r\n"):
        sheet.body = task.body
    data = _encode(sheet)
    read = load_task(_spot_of(task), data, title_in_heading=title_in_heading)
    if read.check != task.check:  # what no backticks can say stands there as JSON, for everybody to see
        sheet.set("done-when", _json(task.check))
        data = _encode(sheet)
        read = load_task(_spot_of(task), data, title_in_heading=title_in_heading)
    carried = _unsaid(task, read)
    if carried:
        sheet.set(CARRIED, _json(carried))
        data = _encode(sheet)
    return data


def dump_sure(task: Task, heading: str, *, title_in_heading: bool = False) -> bytes | None:
    """The task's bytes if they are surely read again as they are meant, without having to try."""
    if task.source or not _is_plain(task):
        return None
    return _plain_page(task, heading, title_in_heading=title_in_heading)


def _is_plain(task: Task) -> bool:
    """Whether every field is said by its bullet as it is, so that nobody need read it back to be sure."""
    if task.body and not _is_plain_body(task.body):
        return False
    if any(_rare_of(task)) and not _is_rest_plain(task):
        return False
    words, created = (task.title, task.by), task.created
    if not task.title or not (are_plain(words) or all(map(is_plain, words))):
        return False
    return not created or (0 <= created <= LAST and created == int(created))  # a bullet says seconds


def _is_plain_body(body: str) -> bool:
    """Whether it begins like no head, and is text."""
    if body[:1] in (" ", "\t", "\n", "#", "-", "<") or "\0" in body or "\r" in body:
        return False
    try:
        body.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_rest_plain(task: Task) -> bool:
    """The same of what only some tasks have to say."""
    if task.extra or any(getattr(task, name) for name in OTHERS) or not _are_counts(task):
        return False
    words = (*task.needs, *task.tags, *task.touches, *task.limits)
    values = (*words, task.check, task.parent, task.hold, task.last_error)
    if not all(words) or not (are_plain(values) or all(map(is_plain, values))):
        return False
    for word in (*task.needs, task.parent):
        if "/" in word or word.startswith("food-"):
            return False
    return not task.not_before or (0 <= task.not_before <= LAST and task.not_before == int(task.not_before))


def _are_counts(task: Task) -> bool:
    """Whether its whole numbers are read as they are written."""
    spent = (task.attempts, task.max_attempts)
    return all(type(one) is int and abs(one) <= LARGEST for one in (task.priority, *spent)) and min(spent) >= 0


def _plain_page(task: Task, heading: str, *, title_in_heading: bool) -> bytes:
    """A new task that needs no care."""
    flat = heading.replace("\n", " ")
    text = f"# {flat}\n"
    for value, (field, bullet, _, write) in zip(_told_of(task), FIELDS, strict=True):
        if value and not (title_in_heading and field == "title"):
            text += f"- **{bullet}:** {value if write is one_line else write(value)}\n"  # plain words as they are
    if task.attempts or task.max_attempts:
        text += f"- **attempts:** {_spent(task)}\n"
    body = task.body.strip("\n")
    return f"{text}\n{body}\n".encode("utf-8", "replace") if body else text.encode("utf-8", "replace")


def _spent(task: Task) -> str:
    """`3` are three attempts; `1 of 3` says that one is spent."""
    return f"{task.attempts} of {task.max_attempts}" if task.attempts else str(task.max_attempts)


def _encode(sheet: Sheet) -> bytes:
    return sheet.text().replace("\0", "\ufffd").encode("utf-8", "replace")


def _set_extra(sheet: Sheet, task: Task, was: Task) -> None:
    sheet.drop(CARRIED)
    for key in was.extra:
        if key not in task.extra and (key not in KNOWN or (key == "done-when" and not task.check)):
            sheet.drop(key)
    for key, value in task.extra.items():
        sayable = key.lower() not in KNOWN and key != CARRIED and is_key(key)
        changed = key not in was.extra or was.extra[key] != value
        sentence = key == "done-when" and not task.check and isinstance(value, str) and not value.startswith(JSON)
        if changed and (sayable or sentence):
            sheet.set(key, _carry(value))


def _unsaid(task: Task, read: Task) -> dict[str, object]:
    """What is not read again as it was meant."""
    extra = {key: value for key, value in task.extra.items() if key not in read.extra or read.extra[key] != value}
    fields = {
        field: [getattr(read, field), getattr(task, field)]
        for field in CARRIES
        if not _same(field, getattr(read, field), getattr(task, field))
    }
    return {name: part for name, part in (("extra", extra), ("task", fields)) if part}


def _same(field: str, one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return int(one) == int(other)  # bullets tell seconds
    if field == "body":
        return str(one).strip("\r\n") == str(other).strip("\r\n")
    return one == other


def _check_carried(field: str, value: object) -> None:
    if field not in CARRIES:
        raise Invalid(f"{field!r} cannot be carried", field=field)
    decode.convert_field(Task, field, value)


def _unpacked(task: Task) -> Task:
    """The task with what its other bullets could not say, where they have not been changed since."""
    carried = task.extra[CARRIED]
    if not isinstance(carried, dict) or not carried or not carried.keys() <= {"extra", "task"}:
        return task  # another program's bullet
    extra, fields = carried.get("extra", {}), carried.get("task", {})
    if not isinstance(extra, dict) or not isinstance(fields, dict):
        return task
    meant: dict[str, Any] = {"extra": {key: task.extra[key] for key in task.extra if key != CARRIED} | extra}
    pairs = {field: pair for field, pair in fields.items() if isinstance(pair, list) and len(pair) == 2}
    try:
        for place in (0, 1):
            for field, pair in pairs.items():
                _check_carried(field, pair[place])
        decode.check_plain("extra", meant["extra"])
    except Invalid as error:
        message = f"**{CARRIED}:** {error.message}; write it in a bullet of its own, and take it out of {CARRIED!r}"
        raise Invalid(message, field=CARRIED) from None
    for field, pair in pairs.items():
        said, value = (tuple(one) if isinstance(one, list) else one for one in pair)
        if _same(field, getattr(task, field), said) and type(value) is type(said):
            meant[field] = value
    return task.replace(**meant)


def with_bullet(task: Task, key: str, text: str) -> Task:
    """The task with one bullet set from text, as if it had stood in the file."""
    for field, bullet, read, _ in FIELDS:
        if bullet == key and field != "check":
            return task.replace(**{field: _read(bullet, text, read)})
    if key == "done-when":
        return task.replace(check=command_in(text) or text)
    if key == "attempts":
        return task.replace(max_attempts=_read(key, text, _counts)[1])
    return task.replace(extra={**task.extra, key: text})


def _carry(value: object) -> str:
    """Any value as the text of a bullet: plain text as it is, everything else as JSON that says so."""
    plain = isinstance(value, str) and value == one_line(value) and value.isprintable() and " #" not in value
    if isinstance(value, str) and value and plain and not value.startswith(JSON):
        return value
    return _json(value)


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return JSON + text
    return JSON + json.dumps(value)


def _plain_or_json(text: str) -> object:
    if text.startswith(JSON):
        try:
            return read_json(text[len(JSON) :])
        except ValueError:
            return text
    return text


def _set_bullets(sheet: Sheet, task: Task, was: Task, *, title_in_heading: bool) -> None:
    for field, bullet, _, write in FIELDS:
        value = getattr(task, field)
        if value == getattr(was, field):
            continue
        if field == "title" and title_in_heading:
            sheet.heading = _flat(value)
        elif value:
            sheet.set(bullet, write(value))
        else:
            sheet.drop(bullet)
    if (task.attempts, task.max_attempts) != (was.attempts, was.max_attempts):
        sheet.set("attempts", _spent(task))


def _spot_of(task: Task) -> Spot:
    from taskpit.layouts.layout import Spot

    return Spot(state=State.READY, id=task.id, slug=task.slug)


def read_sheet(data: bytes) -> Sheet:
    """The text of a task file; Invalid if it is not text."""
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
        raise _unreadable(bullet, text, error) from None


def _unreadable(bullet: str, text: str, error: ValueError) -> Invalid:
    return Invalid(f"**{bullet}:** {text[:80]!r} cannot be read: {error}", field=bullet)


def _title(heading: str, body: str, spot: Spot, bullet: str, *, title_in_heading: bool) -> str:
    """The heading if it is a title, else the first words there are."""
    if heading and (title_in_heading or not heading.startswith("food-")):
        return heading
    first = next((line.strip() for line in body.split("\n") if line.strip()), "")
    return bullet or one_line(first.lstrip("#").strip())[:200] or spot.slug or spot.id


# -- A finished task as Markdown -------------------------------------------------------------------
# A finished task as Markdown: verdict, output, evidence, and the task's own text below. No disk.
# The parts are told apart by comment lines that Markdown does not show, so that a person reads one page
# and a program gets each part back byte for byte, whatever the output looks like.


#: How the line begins and ends before each part.
_MARK, _MARKED = "<!-- taskpit:", " -->"
KEYS = frozenset(("verdict", "reason", "worker", "attempt", "finished", "seconds", "check", "children", "cost", "log"))
KEYS |= {"carried"}


def dump_report(stem: str, result: Result, task: bytes) -> bytes:
    """The page. What one line can't say stands in one bullet more, as JSON."""
    page = _page(stem, result, {}, task)
    checked = result.evidence.command if result.evidence else ""
    values = (result.reason, result.worker, result.log, *result.children, checked)
    if are_plain(values) or all(map(is_plain, values)):
        return page  # nothing in it can be read in another way
    read, _, _ = load_report(result.id, result.verdict, page)
    carried = {key: value for key, value in _lines(result).items() if _lines(read)[key] != value}
    return _page(stem, result, carried, task) if carried else page


def _lines(result: Result) -> dict[str, object]:
    """What is written on one line each, as it is meant."""
    facts = {"reason": result.reason, "worker": result.worker, "log": result.log, "children": list(result.children)}
    return {**facts, "check": result.evidence.command if result.evidence else ""}


def _page(stem: str, result: Result, carried: dict[str, object], task: bytes) -> bytes:
    evidence = result.evidence
    verdict = result.verdict.value
    text = f"# {stem}: {verdict}\n- **verdict:** {verdict}\n"
    if result.reason:
        text += f"- **reason:** {one_line(result.reason)}\n"
    if result.worker:
        text += f"- **worker:** {one_line(result.worker)}\n"
    text += f"- **attempt:** {result.attempt}\n"
    if result.finished:
        text += f"- **finished:** {iso(result.finished)}\n"
    if result.seconds:
        text += f"- **seconds:** {result.seconds:.3f}\n"
    if evidence or result.children or result.cost or result.log or carried:
        text += _more_lines(result, carried)
    if result.output:
        text += f"\n## Output\n<!-- taskpit:output -->\n{_escape(result.output)}\n"
    if evidence and evidence.tail:
        text += f"\n## What the check printed\n<!-- taskpit:evidence -->\n{_escape(evidence.tail)}\n"
    return f"{text}\n## Task\n<!-- taskpit:task -->\n".encode("utf-8", "replace") + task


def _more_lines(result: Result, carried: dict[str, object]) -> str:
    """What only some results have to say."""
    said = {
        "check": result.evidence and _say(result.evidence),
        "children": one_line(", ".join(result.children)),
        "cost": result.cost and _json_text(dict(result.cost)),
        "log": one_line(result.log),
        "carried": carried and _json_text(carried),
    }
    return "".join(f"- **{key}:** {value}\n" for key, value in said.items() if value)


def _json_text(value: object) -> str:

    return json.dumps(value)


def _say(evidence: Evidence) -> str:
    command = quote_command(evidence.command.replace("\n", " "))
    return f"{command} exited {evidence.exit_code} after {evidence.seconds:.3f}s"


def load_report(task_id: str, verdict: Verdict, data: bytes) -> tuple[Result, str, bytes | None]:
    """The result on the page, the task's name and its text; what another program wrote is all output."""
    text = data.decode("utf-8", "replace")
    head, _, rest = text.partition("\n<!-- taskpit:task -->\n")
    sheet = Sheet(head, KEYS, KEYS)
    said = sheet.get("verdict")
    if not rest or said not in tuple(Verdict):
        return Result(id=task_id, verdict=verdict, output=text), "", None
    parts = _parts(head)
    result = Result(
        id=task_id,
        verdict=Verdict(said),
        reason=sheet.get("reason") or "",
        output=parts.get("output", ""),
        worker=sheet.get("worker") or "",
        attempt=int(_number(sheet.get("attempt"), 1)),
        finished=_when(sheet.get("finished")),
        seconds=_number(sheet.get("seconds"), 0.0),
        evidence=_evidence(sheet.get("check"), parts.get("evidence", "")),
        cost=_mapping(sheet.get("cost")),
        children=tuple(child.strip() for child in (sheet.get("children") or "").split(",") if child.strip()),
        log=sheet.get("log") or "",
    )
    _, _, task = data.partition(b"\n<!-- taskpit:task -->\n")
    result = _with_lines(result, _mapping(sheet.get("carried")))
    return result, sheet.heading.rpartition(":")[0], task


def _with_lines(result: Result, carried: dict[str, object]) -> Result:
    for key, value in carried.items():
        if key == "check" and result.evidence:
            result = result.replace(evidence=result.evidence.replace(command=str(value)))
        elif key == "children" and isinstance(value, list):
            result = result.replace(children=tuple(map(str, value)))
        elif key in ("reason", "worker", "log"):
            result = result.replace(**{key: str(value)})
    return result


def _parts(head: str) -> dict[str, str]:
    found: dict[str, list[str]] = {"": []}
    lines = found[""]
    for line in head.split("\n"):
        name = line.removeprefix(_MARK).removesuffix(_MARKED)
        if line == f"{_MARK}{name}{_MARKED}" and name.isidentifier():
            lines = found[name] = []
        else:
            lines.append(line)
    # After the mark: the content, an empty line, the title of the next part.
    return {name: _unescape("\n".join(lines).rpartition("\n\n## ")[0]) for name, lines in found.items()}


def _escape(text: str) -> str:
    """What looks like the mark of a part is moved to the right by one blank."""
    if _MARK not in text:
        return text
    return "\n".join(f" {line}" if line.lstrip(" ").startswith(_MARK) else line for line in text.split("\n"))


def _unescape(text: str) -> str:
    if _MARK not in text:
        return text
    lines = text.split("\n")
    return "\n".join(line.removeprefix(" ") if line.lstrip(" ").startswith(_MARK) else line for line in lines)


def _number(text: str | None, default: float) -> float:
    try:
        number = float(text) if text else default
    except ValueError:
        return default
    return decode.amount(number) if abs(number) <= LAST else default  # also if it is none


def _when(text: str | None) -> float:
    try:
        return instant(text, 0.0) if text else 0.0
    except ValueError:
        return 0.0


def _mapping(text: str | None) -> dict[str, object]:
    try:
        value = read_json(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _evidence(text: str | None, tail: str) -> Evidence | None:
    ended, _, seconds = (text or "").rpartition(" after ")
    code = ended.rpartition(" exited ")[2]
    if text is None or not code.removeprefix("-").isdecimal() or not seconds or seconds.split() != [seconds]:
        return None
    return Evidence(
        command=command_in(text),
        exit_code=int(code) if len(code) < 10 else 1,
        seconds=_number(seconds.rstrip("s"), 0.0),
        tail=tail,
    )
