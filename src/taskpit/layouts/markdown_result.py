"""A finished task as Markdown: verdict, output, evidence, and the task's own text below. No disk.

The parts are told apart by comment lines that Markdown does not show, so that a person reads one page
and a program gets each part back byte for byte, whatever the output looks like.
"""

from __future__ import annotations

from taskpit import schema
from taskpit.clock import LAST, instant, iso
from taskpit.layouts.markdown import Sheet, are_plain, command_in, is_plain, one_line, quote_command
from taskpit.task import Evidence, Result, Verdict
from taskpit.text import read_json

__all__ = ["dump_report", "load_report"]

#: How the line begins and ends before each part.
_MARK, _MARKED = "<!-- taskpit:", " -->"
KEYS = frozenset(("verdict", "reason", "worker", "attempt", "finished", "seconds", "check", "children", "cost", "log"))
KEYS |= {"carried"}


def dump_report(stem: str, result: Result, task: bytes) -> bytes:
    """The page. What one line can't say stands in one bullet more, as JSON."""
    page = _page(stem, result, {}, task)
    told = (result.reason, result.worker, result.log, *result.children, _command(result))
    if are_plain(told) or all(map(is_plain, told)):
        return page  # nothing in it can be read in another way
    read, _, _ = load_report(result.id, result.verdict, page)
    carried = {key: value for key, value in _lines(result).items() if _lines(read)[key] != value}
    return _page(stem, result, carried, task) if carried else page


def _command(result: Result) -> str:
    return result.evidence.command if result.evidence else ""


def _lines(result: Result) -> dict[str, object]:
    """What is written on one line each, as it is meant."""
    told = {"reason": result.reason, "worker": result.worker, "log": result.log, "children": list(result.children)}
    return {**told, "check": _command(result)}


def _page(stem: str, result: Result, carried: dict[str, object], task: bytes) -> bytes:
    evidence = result.evidence
    text = f"# {stem}: {result.verdict}\n- **verdict:** {result.verdict}\n"
    for key, value in (
        ("reason", result.reason and one_line(result.reason)),
        ("worker", result.worker and one_line(result.worker)),
        ("attempt", str(result.attempt)),
        ("finished", result.finished and iso(result.finished)),
        ("seconds", result.seconds and f"{result.seconds:.3f}"),
        ("check", evidence and _say(evidence)),
        ("children", result.children and one_line(", ".join(result.children))),
        ("cost", result.cost and _json(dict(result.cost))),
        ("log", result.log and one_line(result.log)),
        ("carried", carried and _json(carried)),
    ):
        if value:
            text += f"- **{key}:** {value}\n"
    if result.output:
        text += f"\n## Output\n<!-- taskpit:output -->\n{_escape(result.output)}\n"
    if evidence and evidence.tail:
        text += f"\n## What the check printed\n<!-- taskpit:evidence -->\n{_escape(evidence.tail)}\n"
    return f"{text}\n## Task\n<!-- taskpit:task -->\n".encode("utf-8", "replace") + task


def _json(value: object) -> str:
    import json  # most results do without, and it takes as long as the rest of a command

    return json.dumps(value)


def _say(evidence: Evidence) -> str:
    command = quote_command(evidence.command.replace("\n", " "))
    return f"{command} exited {evidence.exit_code} after {evidence.seconds:.3f}s"


def load_report(task_id: str, verdict: Verdict, data: bytes) -> tuple[Result, str, bytes | None]:
    """The result on the page, the task's name and its text; what somebody else wrote is all output."""
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
    return schema.amount(number) if abs(number) <= LAST else default  # also if it is none


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
    told, _, seconds = (text or "").rpartition(" after ")
    code = told.rpartition(" exited ")[2]
    if text is None or not code.removeprefix("-").isdecimal() or not seconds or seconds.split() != [seconds]:
        return None
    return Evidence(
        command=command_in(text),
        exit_code=int(code) if len(code) < 10 else 1,
        seconds=_number(seconds.rstrip("s"), 0.0),
        tail=tail,
    )
