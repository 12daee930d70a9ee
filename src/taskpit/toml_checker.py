"""TOML that people write, checked: what a key may hold, and one way to say what is wrong. Knows no file's meaning.

A checker takes a value as TOML has it and gives it back as the program has it, or raises `Wrong`. The complaint names
the key, what it may be, what was found, and the word that was probably meant; `checked` adds file and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from taskpit.clock import duration
from taskpit.decode import read_toml
from taskpit.errors import Invalid
from taskpit.text import did_you_mean

#: Takes a value as TOML has it; `Wrong` if it may not stand there.
Checker = Callable[[Any], Any]


class Wrong(Exception):
    """What is wrong with a value, as a sentence without a beginning; and with which key, as soon as that is known."""

    def __init__(self, text: str, key: str = "", hint: str = "") -> None:
        super().__init__(text)
        self.key, self.hint = key, hint
        #: What the value should be; empty where it is not about that.
        self.wanted = ""

    @classmethod
    def kind(cls, what: str, value: object, hint: str = "") -> Wrong:
        """It should be this, and is that."""
        wrong = cls(f"is {what}, not {value!r}", hint=hint)
        wrong.wanted = what
        return wrong

    def at(self, key: str) -> Wrong:
        """The same with the key it was found at, if it has none yet."""
        return self if self.key else type(self)(f"{key} {self}", key, self.hint)


# -- what a key may hold -----------------------------------------------------------------------------


def text(value: Any) -> str:
    """Any text; it may be empty."""
    if not isinstance(value, str) or "\0" in value:
        raise Wrong.kind("a text", value)
    return value


def word(value: Any) -> str:
    """A text that says something."""
    if not text(value).strip():
        raise Wrong.kind("a text", value)
    return str(value)


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(one, str) and "\0" not in one for one in value):
        raise Wrong.kind('a list of texts such as ["a", "b"]', value)
    return tuple(value)


def flag(value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise Wrong.kind("true or false", value)
    return value


def count(value: Any) -> int:
    """How many, also none."""
    if type(value) is not int or value < 0:
        raise Wrong.kind("a whole number, 0 or more", value)
    return value


def number(value: Any) -> int:
    """How many, at least one."""
    if type(value) is not int or value < 1:
        raise Wrong.kind("a number, at least 1", value)
    return value


def seconds(value: Any) -> float:
    """How long, in words; more than no time."""
    try:
        found = duration(value) if isinstance(value, str) else 0.0
    except ValueError as error:
        raise Wrong.kind(f'a duration such as "15m" ({error})', value) from None
    if found <= 0:
        raise Wrong.kind('a duration such as "15m"', value)
    return found


def quiet_hours(value: Any) -> str:
    """Spans of hours of the day."""
    from taskpit.schedule import quiet_until

    try:
        quiet_until(text(value), 0.0)
    except Invalid as error:
        raise Wrong.kind('hours of the day such as "09:00-18:00"', value, error.hint) from None
    return str(value)


def one_of(*words: str) -> Checker:
    """One of these words."""

    def check(value: Any) -> str:
        if value not in words:
            shown = ", ".join(one for one in words if one)
            raise Wrong.kind(f"one of {shown}", value, did_you_mean(str(value), words))
        return str(value)

    return check


def table(checkers: Mapping[str, Checker], *needed: str, named: str = "") -> Checker:
    """A table with these keys, some of them needed; a complaint calls it by its name, if it has one."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Wrong.kind("a table", value)
        for key in value:
            if key not in checkers:
                where = f" in {named}" if named else ""
                raise Wrong(f"there is no key {key!r}{where}", key, did_you_mean(key, checkers, "Keys are"))
        for key in needed:
            if key not in value:
                raise Wrong(f"needs `{key}`")
        return {key: _at(key, checkers[key], one) for key, one in value.items()}

    return check


def _at(key: str, check: Checker, value: Any) -> Any:
    try:
        return check(value)
    except Wrong as wrong:
        raise wrong.at(key) from None


def many(check: Checker) -> Checker:
    """A list of such things."""

    def checked(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Wrong.kind("a list", value)
        return [check(one) for one in value]

    return checked


def free(check: Checker, name: Checker = text) -> Checker:
    """A table whose keys are free."""

    def checked(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise Wrong.kind("a table", value)
        return {_at(key, name, key): _at(key, check, one) for key, one in value.items()}

    return checked


# -- where each key stands ---------------------------------------------------------------------------
# Python's own reader knows the values but not their lines. Only as clever as messages need: tables, arrays of tables
# and plain keys; what it misses has no line of its own and is told with the line of its table.

#: Table, which one of that name (0 for plain tables), key; the key is empty for the table's own line.
Place = tuple[str, int, str]

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?\Z")
_KEY = re.compile(r"""\s*([A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*[.=]""")
#: A part of a dotted name.
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
#: What a value is made of, as far as it may go on over several lines.
_PIECE = re.compile(r'''"""|\'\'\'|"(?:[^"\\]|\\.)*"|'[^']*'|\#.*|[\[\]{}]''')


def key_lines(text: str) -> dict[Place, int]:
    """The line of every key, counted from 1."""
    found: dict[Place, int] = {}
    counts: dict[str, int] = {}
    table, index = "", 0
    value = _Value()
    for number, line in enumerate(text.splitlines(), 1):
        if not value.open:
            header = _HEADER.match(line)
            if header:
                table = _bare(header[2])
                index = counts.get(table, 0) if header[1] == "[[" else 0
                counts[table] = index + 1
                found.setdefault((table, index, ""), number)
                continue
            key = _KEY.match(line)
            if key:
                found.setdefault((table, index, _bare(key[1])), number)
        value.read(line)
    return found


def _bare(name: str) -> str:
    return ".".join(part.strip("\"'") for part in _PART.findall(name))


class _Value:
    """Whether a value goes on in the next line."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0

    @property
    def open(self) -> bool:
        return bool(self._quote) or self._depth > 0

    def read(self, line: str) -> None:
        """One more line of it."""
        at = 0
        while at < len(line):
            if self._quote:
                end = line.find(self._quote, at)
                if end < 0:
                    return
                at, self._quote = end + 3, ""
                continue
            piece = _PIECE.search(line, at)
            if piece is None or piece[0].startswith("#"):
                return
            at = piece.end()
            if piece[0] in ('"""', "'''"):
                self._quote = piece[0]
            elif piece[0] in ("[", "{"):
                self._depth += 1
            elif piece[0] in ("]", "}"):
                self._depth = max(self._depth - 1, 0)


# -- a whole file ------------------------------------------------------------------------------------


def parse(text: str, path: str) -> dict[str, Any]:
    """The tables in the text of this file; Invalid names the line that is no TOML."""
    try:
        return read_toml(text)
    except ValueError as error:
        found = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else 1
        what = str(error).replace(found[0], "") if found else str(error)
        raise Invalid(f"{path}:{line}: {what}", path=path, line=line) from None


def checked(check: Checker, fields: object, text: str, path: str) -> Any:
    """The fields as values; Invalid names file, line, key, and what was probably meant."""
    try:
        return check(fields)
    except Wrong as wrong:
        lines = [line for (_, _, name), line in key_lines(text).items() if name == wrong.key]
        line = min(lines, default=1)
        raise Invalid(f"{path}:{line}: {wrong}", hint=wrong.hint, path=path, line=line, key=wrong.key) from None
