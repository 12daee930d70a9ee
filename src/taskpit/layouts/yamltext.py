"""YAML that people write, changed without losing what they wrote: comments, order, quotes. Needs `taskpit[yaml]`.

Lines that say what they said stay as they are, byte for byte. Only a text that the library reads line by line
otherwise than it was written (keys spelled `? key`) comes back in the library's own shape.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from taskpit.errors import Invalid, MissingExtra, install_hint

# -- a change to a text that a program would shape otherwise ---------------------------------------
# A change to a text that a program would shape otherwise: only the lines that changed are changed. Pure.
# A YAML library writes a whole document in a shape of its own: other indents, other spellings of nothing, no
# `---`. Here its text before a change is laid beside what people wrote, line by line, and what the change did
# to the one is done to the other.

#: How far ours are indented, by the indent of the library's lines and whether they are items of a list.
Indents = dict[tuple[int, bool], int]
#: How people spell that there is nothing; the library leaves it out.
NOTHING = frozenset(("null", "Null", "NULL", "~"))
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
    lines: list[str] = []
    at, indents = 0, {(0, False): 0}
    ending = "\r" if ours[0].endswith("\r") else ""
    for tag, start, end, first, last in _compared(_marked(old), _marked(new)):
        for first_of_ours, after in where[start:end]:
            if tag != "equal" and after - first_of_ours != 1:
                return None
        for index in range(start, end):
            here, after = where[index]
            lines += ours[at:here]
            at = max(at, after)
            if tag == "equal":
                lines += ours[here:after]
            if after - here == 1:
                _learn(indents, old[index], ours[here])
        for line in new[first:last] if tag != "equal" else ():
            lines.append(_indented(line, indents) + ending)
            _learn(indents, line, lines[-1])
    return lines + list(ours[at:])


def _marked(lines: Sequence[str]) -> list[str]:
    """The lines, each key that has something below it told from one that has nothing."""
    marked = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        opens = line.partition(" #")[0].rstrip().endswith(":")
        full = _indent(below) > _indent(line) or below.lstrip().startswith("- ")
        marked.append(f"{line}\0" if opens and full else line)
    return marked


def _learn(indents: Indents, old: str, ours: str) -> None:
    """How far a line is indented here that the library indents so far; what is deeper begins again."""
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
    """What a line says, however it is spaced and whatever it calls nothing."""
    text = "".join(line.split())
    key, colon, value = text.rpartition(":")
    return key + colon if value in NOTHING else text


def _compared(one: Sequence[str], other: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


# -- YAML that people write ------------------------------------------------------------------------


#: How large a document may be with every alias written out, in letters: a few lines of aliases can be endless.
LARGEST = 32 * 1024 * 1024
#: How many brackets may be open on one line: the library looks back over all of them at each, three times over.
BRACKETS = 32
#: The library takes about 0.1 ms for each value, so a small file could keep a command busy for minutes.
MOST_NODES = 20_000
#: Where a value may begin: counted before the text is parsed, so it may count too many, never too few.
NODE = re.compile(r"[\[{,]|:(?=\s|$)|^[ ]*-(?=\s|$)|(?<!\w)[&*]\w", re.MULTILINE)
MARK = "\ufeff"

#: A list under a key, and how far each of them is indented.
LIST = re.compile(r"^( *)[^\s#-][^\n#]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)- ", re.MULTILINE)


def _yaml(text: str) -> Any:
    try:
        from ruamel.yaml import YAML
    except ImportError:
        raise MissingExtra(
            "activities need the YAML library, which is not installed",
            hint=install_hint("yaml"),
        ) from None
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # never fold anybody's line
    yaml.allow_unicode = True
    found = LIST.search(text)
    if found is None or len(found[2]) > len(found[1]):  # as the file has it, else as most people write
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def load(data: bytes) -> Any:
    """The document, as a mapping that remembers how it was written; Invalid says what is wrong and where."""
    try:
        text = data.decode("utf-8").removeprefix(MARK).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Invalid(f"it is not UTF-8 text: {error.reason} at byte {error.start}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count("[") + line.count("{") > BRACKETS and _depth(line) > BRACKETS:
            raise Invalid(f"line {number} is nested more than {BRACKETS} deep", line=number)
    nodes = sum(1 for _ in NODE.finditer(text))
    if nodes > MOST_NODES:
        raise Invalid(f"it has about {nodes} values; {MOST_NODES} is the most", nodes=nodes)
    yaml = _yaml(text)
    from ruamel.yaml.error import YAMLError

    try:
        document = yaml.load(text)
    except (YAMLError, ValueError, RecursionError, AttributeError, TypeError) as error:
        raise Invalid(f"it is not YAML that can be read: {_short(error)}") from None
    if not isinstance(document, dict):
        raise Invalid("it is not a YAML mapping")
    _refuse_endless(document)
    return document


def _depth(line: str) -> int:
    """How many brackets are open at once on this line."""
    depth = deepest = 0
    for letter in line:
        depth += (letter in "[{") - (letter in "]}")
        deepest = max(deepest, depth)
    return deepest


def _refuse_endless(document: Any) -> None:
    """Whether it is small with every alias written out; what contains itself is not."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[Any, bool]] = [(document, False)]
    while waiting:
        one, counted = waiting.pop()
        inside = [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list | tuple | set) else []
        if counted:
            size = 1 + sum(sizes[id(item)] for item in inside)
            if size > LARGEST:
                raise Invalid("its aliases make it endless")
            sizes[id(one)] = size
        elif not inside:
            sizes[id(one)] = 1 + (len(one) if isinstance(one, str | bytes) else 0)
        elif sizes.get(id(one)) is None:
            sizes[id(one)] = LARGEST + 1  # until it is counted: it must not be inside itself
            waiting.append((one, True))
            waiting += [(item, False) for item in inside]


def _short(error: BaseException) -> str:
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem and mark is not None:
        return f"line {mark.line + 1}: {problem}"
    return " ".join(str(error).split())[:200] or type(error).__name__


def dump(document: Any, before: bytes = b"") -> bytes:
    """The document's text, with lists indented as they were."""
    yaml = _yaml(before.decode("utf-8", "replace"))
    _readable(document)
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue().encode()


def changed(document: Any, before: bytes, shaped: bytes) -> bytes:
    """The text `before` with what was changed in its document; `shaped` is what `dump` made of it unchanged."""
    after = dump(document, before)
    text = before.decode("utf-8", "replace").removeprefix(MARK)
    patch = patched(text, shaped.decode(), after.decode())
    if patch is None:
        return after
    if patch != after.decode():
        try:
            if _without_columns(dump(load(patch.encode()), before)) != _without_columns(after):
                return after
        except Invalid:
            return after
    return (MARK if before.startswith(MARK.encode()) else "").encode() + patch.encode()


def _without_columns(text: bytes) -> bytes:
    """Comments stand in columns that depend on indents; what they say does not."""
    return re.sub(rb"(?<! ) +#", b" #", text)


def _readable(value: Any) -> None:
    """Long texts that we put in are written as blocks, as people would."""
    from ruamel.yaml.scalarstring import LiteralScalarString

    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        pairs = list(one.items()) if isinstance(one, dict) else list(enumerate(one)) if isinstance(one, list) else []
        for key, item in pairs:
            if type(item) is str and "\n" in item and "\r" not in item:
                one[key] = LiteralScalarString(item)
            elif isinstance(item, dict | list):
                waiting.append(item)
