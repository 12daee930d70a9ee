"""A unified diff of git's as values: files, and rows with line numbers. Pure; whatever a line says is only text."""

from __future__ import annotations

import re

from taskpit.model import Value
from taskpit.text import revealed

#: Rows are shown up to this width.
WIDEST = 1000
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class DiffLine(Value, frozen=True, kw_only=True):
    """One line of a diff."""

    #: A space, + or -; @ is the head of a hunk.
    kind: str
    #: Its numbers before and after; 0 is none.
    old: int = 0
    new: int = 0
    text: str = ""


class FilePatch(Value, frozen=True, kw_only=True):
    """What a diff says of one file."""

    path: str
    rows: tuple[DiffLine, ...] = ()
    added: int = 0
    removed: int = 0
    #: What there is to say besides: new, gone, renamed, binary.
    notes: tuple[str, ...] = ()
    #: So many rows are not in `rows`.
    left: int = 0


def read_hunks(diff: str, most: int) -> list[FilePatch]:
    """Every file of it; together they have at most so many rows."""
    parts: list[FilePatch] = []
    lines = diff.split("\n")
    starts = [at for at, line in enumerate(lines) if line.startswith("diff --git ")]
    at = 0
    for start in starts:
        if start < at:
            continue  # it stands inside a hunk: a line of a file, no head
        part, at = _file(lines, start, most)
        most -= len(part.rows)
        parts.append(part)
    return parts


def _file(lines: list[str], at: int, most: int) -> tuple[FilePatch, int]:
    """The file whose part begins here, and where that ends."""
    end = at + 1
    while end < len(lines) and not lines[end].startswith(("@@ ", "diff --git ")):
        end += 1
    path, notes = _head(lines[at:end])
    rows: list[DiffLine] = []
    while end < len(lines) and (head := _HUNK.match(lines[end])):
        hunk, end = _hunk(lines, end, head)
        rows += hunk
    found = FilePatch(
        path=path,
        rows=tuple(rows[: max(most, 0)]),
        added=sum(row.kind == "+" for row in rows),
        removed=sum(row.kind == "-" for row in rows),
        notes=notes,
        left=max(len(rows) - max(most, 0), 0),
    )
    return found, end


#: What lines of a file's head say in words.
_NOTES = {"new file mode ": "new", "deleted file mode ": "deleted", "Binary files ": "binary"}


def _head(lines: list[str]) -> tuple[str, tuple[str, ...]]:
    """The file's name, and what else is said before its first hunk."""
    path, notes = _named(lines[0]), []
    for line in lines[1:]:
        if line.startswith(("+++ b/", '+++ "b/')):
            path = _unquoted(line[4:].rstrip("\t"))[2:]
        elif line.startswith("rename to "):
            path = _unquoted(line[10:])
        elif line.startswith("rename from "):
            notes.append(f"renamed from {revealed(_unquoted(line[12:]))}")
        elif line.startswith(("old mode ", "new mode ")):
            notes.append(line)
        notes += [word for begin, word in _NOTES.items() if line.startswith(begin)]
    return revealed(path), tuple(notes)


def _hunk(lines: list[str], at: int, head: re.Match[str]) -> tuple[list[DiffLine], int]:
    """The rows of the hunk with this head, which counts them: whatever they look like, they are no heads."""
    old, new = int(head[1]), int(head[3])
    last_old, last_new = old + int(head[2] or "1"), new + int(head[4] or "1")
    rows = [DiffLine(kind="@", text=_shown(lines[at]))]
    at += 1
    while at < len(lines) and (old < last_old or new < last_new or lines[at].startswith("\\")):
        kind, text = lines[at][:1], _shown(lines[at][1:])
        at += 1
        if kind in ("+", "-", " "):  # else: no newline at the end of the file
            rows.append(DiffLine(kind=kind, old=old * (kind != "+"), new=new * (kind != "-"), text=text))
            old, new = old + (kind != "+"), new + (kind != "-")
    return rows, at


def _shown(line: str) -> str:
    """All of a line, or it says that there is more: the person who approves it has seen it."""
    text = revealed(line.removesuffix("\r"))
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}… [{len(text) - WIDEST} more letters]"


def _named(line: str) -> str:
    """The name in `diff --git a/NAME b/NAME`; a renamed file says its name again below."""
    rest = line.removeprefix("diff --git ")
    if rest.endswith('"'):
        return _unquoted(rest[rest.rfind('"b/') :])[2:]
    return rest[(len(rest) - 5) // 2 + 5 :]


def _unquoted(name: str) -> str:
    """A name as git writes it, by its letters."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    return _ESCAPE.sub(_letter, name[1:-1].encode("utf-8", "replace")).decode("utf-8", "replace")


def _letter(found: re.Match[bytes]) -> bytes:
    """What stands behind a backslash: three octal digits, or a letter."""
    digits = found[1]
    return bytes((int(digits, 8) & 255,)) if len(digits) == 3 else _LETTERS.get(digits, digits)
