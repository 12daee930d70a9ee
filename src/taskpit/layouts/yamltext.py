"""YAML that people write, changed without losing what they wrote: comments, order, quotes. Needs `taskpit[yaml]`.

A change replaces the spans of changed values and leaves every other byte as it is (`yamlpatch`).
"""

from __future__ import annotations

import io
import re
from typing import Any

from taskpit.errors import Invalid, MissingExtra, install_hint
from taskpit.layouts import yamlpatch

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


def changed(document: Any, before: bytes) -> bytes:
    """Return the text `before` with what was changed in its document, every other byte as it was.

    Where that cannot be done, the library writes the document in its own shape.
    """
    whole = before.decode("utf-8", "replace")
    text = whole.removeprefix(MARK)
    _readable(document)
    yaml = _yaml(text)

    def spelled(value: Any) -> str:
        stream = io.StringIO()
        yaml.dump(value, stream)
        return stream.getvalue()

    try:
        root = _yaml(text).compose(text.replace("\r\n", "\n"))
        new = yamlpatch.patched(text, root, load(before), document, spelled).encode()
        if yamlpatch.same(load(new), document):
            return whole[: len(whole) - len(text)].encode() + new
    except (yamlpatch.Unpatchable, Invalid):
        pass
    return dump(document, before)


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
