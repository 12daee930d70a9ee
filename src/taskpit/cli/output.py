"""What reaches a terminal, and how. Knows colours, columns and envelopes; nothing about the queue.

Task files come from anywhere, and a terminal obeys what it is sent. So everything written for people
passes through `Screen.write`, which takes out control characters and escape sequences; our own colours
are put in after that. They travel as marks that Unicode reserves for a program's inner use, so that the
worst a task can do is to be green.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from taskpit.errors import TaskpitError
from taskpit.text import fit, is_plain, plain, width_of

#: The number in every envelope; grows when what programs rely on changes.
SCHEMA = 1

_END = "\ufdd0"
_COLOURS = {
    "bold": ("\ufdd1", "1"),
    "dim": ("\ufdd2", "2"),
    "red": ("\ufdd3", "31"),
    "green": ("\ufdd4", "32"),
    "yellow": ("\ufdd5", "33"),
    "blue": ("\ufdd6", "34"),
}
_CODES = {mark: f"\x1b[{code}m" for mark, code in _COLOURS.values()} | {_END: "\x1b[0m"}
_UNSAFE_IN_JSON = "[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


def paint(colour: str, text: str) -> str:
    """The text in this colour, where there are colours. Pad first: marks have no width."""
    return f"{_COLOURS[colour][0]}{text}{_END}" if text else text


class Screen:
    """Where text goes: colour on a terminal unless NO_COLOR asks for none."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._no_colour = bool(env.get("NO_COLOR")) or env.get("TERM") == "dumb"

    def write(self, text: str, stream: TextIO) -> None:
        """The text is out, on lines of its own."""
        bare = text
        for mark in _CODES:
            bare = bare.replace(mark, "")
        text = (text if is_plain(bare) else plain(text)).rstrip("\n")
        colour = not self._no_colour and stream.isatty()
        for mark, code in _CODES.items():
            text = text.replace(mark, code if colour else "")
        _put(text + "\n", stream)


def _put(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding, "replace"))
    stream.flush()


def envelope(data: object, stream: TextIO | None = None) -> None:
    """What went right, as the one line a program reads."""
    _print_json({"schema": SCHEMA, "ok": True, "data": data}, stream or sys.stdout)


def failure(error: TaskpitError, stream: TextIO | None = None) -> None:
    """What went wrong, likewise; `details` are facts a program can use."""
    facts = {"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}
    _print_json({"schema": SCHEMA, "ok": False, "error": facts}, stream or sys.stdout)


def _print_json(value: object, stream: TextIO) -> None:
    _put(harmless(_json(value, readable=(stream.encoding or "").lower() in ("utf-8", "utf8"))) + "\n", stream)


def _json(value: object, *, readable: bool) -> str:
    """The JSON of a value; what is not plain is said in words."""
    return json.dumps(value, ensure_ascii=not readable, default=_plain)


def harmless(text: str) -> str:
    """The same JSON without a letter that a terminal would obey: they stand only inside strings, as escapes now."""
    if text.isascii() and "\x7f" not in text:
        return text

    return re.sub(_UNSAFE_IN_JSON, lambda letter: f"\\u{ord(letter[0]):04x}", text)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, set | frozenset) else str(value)


def terminal_width() -> int:
    """How many letters fit a line; no end if nobody is looking."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 1 << 20


def pad(text: str, width: int) -> str:
    """The text, filled up with spaces to this width as a terminal counts it."""
    return text + " " * (width - width_of(text))


def cut(text: str, width: int) -> str:
    """As much of a painted line as fits; unlike `fit` it knows that marks have no width."""
    kept, used = "", 0
    for letter in text:
        used += 0 if letter in _CODES else width_of(letter)
        if used <= width or letter in _CODES:
            kept += letter
    return kept


def aligned(rows: Sequence[tuple[str, str, str]], width: int, colour: str) -> list[str]:
    """Id, title and reason of tasks, each in its column; long titles leave their reasons two thirds of the line."""
    ids = max((len(one) for one, _, _ in rows), default=0)
    room = max(width - ids - 6, 30)
    wide = max((width_of(fit(title, 1 << 20)) for _, title, _ in rows), default=0)
    wide = min(wide, max(room - max((width_of(why) for _, _, why in rows), default=0), room // 3))
    cells = [(pad(one, ids), pad(fit(title, wide), wide), fit(why, room - wide)) for one, title, why in rows]
    return [f"  {paint('bold', one)}  {title}  {paint(colour, why)}".rstrip() for one, title, why in cells]


def quoted(text: str) -> str:
    """The word as a shell reads it."""
    safe = text and all(letter.isalnum() or letter in "/._-+@%:," for letter in text)
    return text if safe else "'" + text.replace("'", "'\\''") + "'"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[Sequence[str]] = (), *, spills: bool = False
) -> str:
    """Aligned columns; the last one is cut at the terminal's edge. Columns that are empty all the way are left out.

    Where not all fits and the last but one `spills`, it leaves the last half of their room, and has all of it where
    that is empty.
    """
    cells = [[fit(cell, 1 << 20) for cell in row] for row in rows]
    shown = [column for column in range(len(head)) if any(row[column] for row in cells)]
    widths = [max(width_of(row[column]) for row in (head, *cells)) for column in shown]
    left = max(terminal_width() - sum(width + 2 for width in widths[:-2]), 20)
    spills = spills and shown[-2:] == [len(head) - 2, len(head) - 1] and sum(widths[-2:]) + 2 > left
    if spills:
        longest = max(width_of(row[-2]) for row in (head, *cells) if row[-1])
        widths[-2] = min(longest, max(left // 2 - 2, left - widths[-1] - 2, 16))
    room = max(terminal_width() - sum(width + 2 for width in widths[:-1]), 20)
    lines = [paint("dim", "  ".join(map(pad, (head[column] for column in shown), widths)).rstrip())]
    for index, row in enumerate(cells):
        whole = shown[:-1] if spills and not row[-1] else shown
        parts = []
        for place, column in enumerate(whole):
            text = row[column]
            if spills and place == len(shown) - 2:
                text = fit(text, widths[place] if row[-1] else left)
            text = fit(text, room) if place == len(shown) - 1 else pad(text, widths[place])
            colour = colours[index][column] if colours else ""
            parts.append(paint(colour, text) if colour else text)
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)
