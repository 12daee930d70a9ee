"""A change to a text that a program would shape otherwise: only the lines that changed are changed. Pure.

A YAML library writes a whole document in a shape of its own: other indents, other spellings of nothing, no
`---`. Here its text before a change is laid beside what people wrote, line by line, and what the change did
to the one is done to the other.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["patched"]

#: How far ours are indented, by the indent of the library's lines and whether they are items of a list.
Indents = dict[tuple[int, bool], int]
#: Longer texts are not compared line by line: that would take too long.
MOST_LINES = 5000


def patched(text: str, shaped: str, after: str) -> str | None:
    """`text` with the change that made `after` of `shaped`; None if its lines are not those of `shaped`."""
    if shaped == text:
        return after
    ours, old, new = (one.split("\n") for one in (text, shaped, after))
    if len(ours) > MOST_LINES:
        return None
    moved = _moved(ours, old, new, _places(old, ours))
    return "\n".join(moved) if moved is not None else None


def _places(old: Sequence[str], ours: Sequence[str]) -> list[tuple[int, int]]:
    """Which of our lines each shaped line stands for: from where to where.

    Where as many lines as these say the same in fewer or more, the first stands for all of them.
    """
    where: list[tuple[int, int]] = []
    for tag, start, end, first, last in _compared([_bare(line) for line in old], [_bare(line) for line in ours]):
        if tag == "equal" or (tag == "replace" and end - start == last - first):
            where += [(at, at + 1) for at in range(first, last)]
        elif tag != "insert":  # a line more in ours, such as `---`, stands for nothing
            where += [(first, last), *[(last, last)] * (end - start - 1)]
    return where


def _moved(
    ours: Sequence[str], old: Sequence[str], new: Sequence[str], where: Sequence[tuple[int, int]]
) -> list[str] | None:
    """Our lines after the change; None if it is about lines that are not the library's, line by line."""
    told: list[str] = []
    at, indents = 0, {(0, False): 0}
    ending = "\r" if ours[0].endswith("\r") else ""
    for tag, start, end, first, last in _compared(_marked(old), _marked(new)):
        for first_of_ours, after in where[start:end]:
            if tag != "equal" and after - first_of_ours != 1:
                return None
        for index in range(start, end):
            here, after = where[index]
            told += ours[at:here]
            at = max(at, after)
            if tag == "equal":
                told += ours[here:after]
            if after - here == 1:
                _learn(indents, old[index], ours[here])
        for line in new[first:last] if tag != "equal" else ():
            told.append(_indented(line, indents) + ending)
            _learn(indents, line, told[-1])
    return told + list(ours[at:])


def _marked(lines: Sequence[str]) -> list[str]:
    """The lines, each key that has something below it told from one that has nothing."""
    told = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        opens = line.partition(" #")[0].rstrip().endswith(":")
        full = _indent(below) > _indent(line) or below.lstrip().startswith("- ")
        told.append(f"{line}\0" if opens and full else line)
    return told


def _learn(indents: Indents, old: str, ours: str) -> None:
    """How far a line is indented here that the library indents so far; what is deeper begins anew."""
    if not old.strip():
        return
    depth, dash = _indent(old), _is_item(old)
    for known in [one for one in indents if one > (depth, dash)]:
        del indents[known]
    indents[depth, dash] = _indent(ours)
    if dash:
        indents[depth + 2, False] = _indent(ours.replace("-", " ", 1))


def _indented(line: str, indents: Indents) -> str:
    depth = _indent(line)
    known = max(one for one in indents if one <= (depth, _is_item(line)))
    return " " * (indents[known] + depth - known[0]) + line[depth:]


def _is_item(line: str) -> bool:
    return line.lstrip(" ").startswith("- ")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _bare(line: str) -> str:
    return "".join(line.split())


def _compared(one: Sequence[str], other: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
