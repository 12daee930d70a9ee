"""What agents print, made readable: a line of JSON becomes what it says. Pure, and knows no agent by name."""

from __future__ import annotations

from taskpit.text import fit, plain, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["readable"]

#: Keys under which events say something.
SAYS = frozenset(("text", "thinking", "command", "file_path", "path", "query", "pattern", "result", "error", "message"))
#: So much of one event is shown, and so many lines of it.
LONGEST, MOST = 400, 6
#: What kind of event it is stands before, so wide.
LABEL = 12


def readable(line: str) -> list[str]:
    """The line as people read it: itself, or what the event on it says."""
    text = plain(line).replace("\t", "    ").rstrip()
    if not text.startswith("{"):
        return [text]
    try:
        event = read_json(text)
    except ValueError:
        return [text]
    if not isinstance(event, dict):
        return [text]
    said = [part for words in _said(event) for part in plain(words).splitlines() if part.strip()]
    kind = next((str(event[key]) for key in ("type", "event", "kind") if isinstance(event.get(key), str)), "")
    name = fit(next(_names(event), kind), LABEL)
    if not said:
        return [name or fit(text, LONGEST)]
    heads = [f"{name:<{LABEL}}", *[" " * LABEL] * MOST]
    lines = [f"{head}  {fit(part, LONGEST)}" for head, part in zip(heads, said[:MOST], strict=False)]
    more = len(said) - MOST
    return [*lines, *([f"{heads[1]}  … {more} more lines"] if more > 0 else [])]


def _said(value: object) -> Iterator[str]:
    """Every text in it that is said, in order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                if key in SAYS or (key == "content" and inner):
                    yield inner
            else:
                yield from _said(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _said(inner)


def _names(value: object) -> Iterator[str]:
    """What tools it speaks of."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        for inner in value.values():
            yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)
