"""Where in a TOML text each key stands. Python's own reader knows the values but not their lines.

Only as clever as messages need: tables, arrays of tables and plain keys; what it misses has no line of its own
and is told with the line of its table.
"""

from __future__ import annotations

import re

__all__ = ["key_lines"]

#: Table, which one of that name (0 for plain tables), key; the key is empty for the table's own line.
Place = tuple[str, int, str]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?\Z")
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
