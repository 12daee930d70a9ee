"""Change values in a YAML text that people write, and leave every other byte as it is. Needs `taskpit[yaml]`.

A YAML library writes a whole document in its own shape: other indents, other spellings of null, no trailing blanks.
Here the text is composed into nodes, each of which knows where it begins and ends. The changed document is compared
with them, and only the spans of changed values are replaced:

| change | edit |
|---|---|
| a scalar | its span |
| a new key, a new item | lines after the last line of its mapping or list; inside the brackets of a flow |
| a key that is gone | its lines |
| a scalar or `[]` that becomes a mapping or a list | its span is removed, lines follow |

Whatever does not fit raises Unpatchable, and the caller lets the library write the whole document.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: What stands between a value and a comment on its line.
COMMENT = re.compile(r"( +)#")
#: Writes a value in the library's own shape.
Dump = Callable[[Any], str]


class Unpatchable(Exception):
    """This change cannot be made by replacing spans of the text."""


def patched(text: str, root: Any, before: Any, after: Any, dump: Dump) -> str:
    """Return the text with the document `after`. `root` is its composed node, `before` the document it has now."""
    patch = _Patch(text, dump)
    patch.compare(root, before, after)
    return patch.result()


class _Patch:
    def __init__(self, text: str, dump: Dump) -> None:
        self._text = text
        self._dump = dump
        self._newline = "\r\n" if "\r\n" in text else "\n"
        # Nodes count characters of a text with plain line ends.
        self._returns = [at for at, letter in enumerate(text) if letter == "\r" and text[at + 1 : at + 2] == "\n"]
        self._plain = text.replace("\r\n", "\n")
        self._edits: dict[tuple[int, int], str] = {}

    def result(self) -> str:
        """The text with all edits."""
        parts, at = [], 0
        for (start, end), new in sorted(self._edits.items()):
            first, last = self._original(start), self._original(end)
            if first < at:
                raise Unpatchable
            parts += [self._text[at:first], new.replace("\n", self._newline)]
            at = last
        return "".join([*parts, self._text[at:]])

    def _original(self, plain: int) -> int:
        """Where a character of the plain text is in the original one."""
        low, high = 0, len(self._returns)
        while low < high:
            middle = (low + high) // 2
            if self._returns[middle] - middle < plain:
                low = middle + 1
            else:
                high = middle
        return plain + low

    def compare(self, node: Any, before: Any, after: Any, key: Any = None) -> None:
        """Note the edits that turn the value of this node into another one."""
        if same(before, after):
            return
        kind = node.id
        if kind == "mapping" and isinstance(after, Mapping) and isinstance(before, Mapping):
            self._compare_mapping(node, before, after)
        elif kind == "sequence" and _is_list(after) and _is_list(before) and len(after) >= len(before):
            for item, old, new in zip(node.value, before, after, strict=False):
                self.compare(item, old, new)
            if len(after) > len(before):
                self._append(node, after[len(before) :], key)
        else:
            self._replace(node, after, key)

    def _compare_mapping(self, node: Any, before: Mapping[Any, Any], after: Mapping[Any, Any]) -> None:
        places = {str(key.value): (key, value) for key, value in node.value}
        if len(places) != len(node.value) or "<<" in places:
            raise Unpatchable
        for word, value in after.items():
            if word in before:
                if str(word) not in places:
                    raise Unpatchable
                key, inner = places[str(word)]
                self.compare(inner, before[word], value, key)
        for word in before:
            if word not in after:
                self._remove(node, *places[str(word)])
        more = {word: value for word, value in after.items() if word not in before}
        if more:
            self._extend(node, more)

    def _replace(self, node: Any, value: Any, key: Any) -> None:
        if (value and not _is_scalar(value)) or (isinstance(value, str) and "\n" in value):
            self._replace_by_lines(node, value, key)
            return
        if node.id != "scalar" or node.style in ("|", ">"):
            raise Unpatchable
        start, end = node.start_mark.index, _last(node, self._plain)
        new = "null" if value is None else self._flow(value)
        if end <= start:  # there is nothing behind the colon or the dash
            start, new = end, f" {new}"
        blanks = COMMENT.match(self._plain, end)
        if blanks:  # the comment stays in its column, if there is room
            new += " " * max(1, len(blanks[1]) - len(new) + end - start)
            end = blanks.end(1)
        self._edits[start, end] = new

    def _replace_by_lines(self, node: Any, value: Any, key: Any) -> None:
        """Write the value on lines of its own below its key; a comment stays on the line of the key."""
        if key is None or (node.id != "scalar" and node.value):
            raise Unpatchable
        colon = self._plain.index(":", key.end_mark.index) + 1
        end = max(_last(node, self._plain), colon)
        first, _, lines = self._block({key.value: value}, key.start_mark.column).partition("\n")
        self._edits[colon, end] = first.strip().removeprefix(f"{key.value}:")
        self._insert(self._end_of_line(end), lines)

    def _append(self, node: Any, items: Sequence[Any], key: Any) -> None:
        if node.flow_style:
            if not node.value and key is not None and any(not _is_scalar(item) for item in items):
                self._replace_by_lines(node, items, key)
                return
            self._into_flow(node, ", ".join(self._flow(item) for item in items))
            return
        column = node.start_mark.column
        self._insert(
            self._end_of_line(_last(node, self._plain)), "".join(self._block([item], column) for item in items)
        )

    def _extend(self, node: Any, more: Mapping[Any, Any]) -> None:
        if node.flow_style:
            self._into_flow(node, ", ".join(f"{word}: {self._flow(value)}" for word, value in more.items()))
            return
        if not node.value:
            raise Unpatchable
        column = node.value[0][0].start_mark.column
        self._insert(self._end_of_line(_last(node, self._plain)), self._block(dict(more), column))

    def _remove(self, node: Any, key: Any, value: Any) -> None:
        line = self._plain.rfind("\n", 0, key.start_mark.index) + 1
        if node.flow_style or self._plain[line : key.start_mark.index].strip():
            raise Unpatchable
        end = self._end_of_line(max(_last(value, self._plain), key.end_mark.index))
        self._edits[line, min(end + 1, len(self._plain))] = ""

    def _into_flow(self, node: Any, words: str) -> None:
        at = node.end_mark.index - 1
        self._edits[at, at] = f", {words}" if node.value else words

    def _insert(self, at: int, lines: str) -> None:
        if at == len(self._plain):  # the last line has no end
            lines = "\n" + lines.rstrip("\n")
        else:
            at += 1
        self._edits[at, at] = self._edits.get((at, at), "") + lines

    def _end_of_line(self, at: int) -> int:
        end = self._plain.find("\n", at)
        return len(self._plain) if end < 0 else end

    def _block(self, value: Any, column: int) -> str:
        lines = textwrap.dedent(self._dump(value))
        return textwrap.indent(lines, " " * column)

    def _flow(self, value: Any) -> str:
        """The value in one line."""
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{word}: {self._flow(item)}" for word, item in value.items()) + "}"
        if _is_list(value):
            return "[" + ", ".join(self._flow(item) for item in value) + "]"
        line = self._dump({"x": value}).removeprefix("x:").strip()
        if "\n" in line or line.startswith(("|", ">")):
            raise Unpatchable
        return "null" if value is None else line


def _last(node: Any, text: str) -> int:
    """Where a node's own content ends, before the comments and blank lines after it.

    An empty value has its mark where the next one begins, behind all of these.
    """
    if node.id == "scalar" or node.flow_style or not node.value:
        end = int(node.end_mark.index)
        if end == node.start_mark.index:
            return _end_of_words(text, end)
        while text[end - 1].isspace():
            end -= 1
        return end
    last = node.value[-1]
    return max(_last(part, text) for part in last) if isinstance(last, tuple) else _last(last, text)


def _end_of_words(text: str, at: int) -> int:
    """The end of the last line before this place that says something, without its comment."""
    while True:
        start = text.rfind("\n", 0, at) + 1
        words = re.sub(r"(^|\s)#.*", "", text[start:at]).rstrip()
        if words or not start:
            return start + len(words)
        at = start - 1


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Mapping) and not _is_list(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def same(one: Any, other: Any) -> bool:
    """Whether two documents say the same, in the same order."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(same(one[word], other[word]) for word in one)
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other) if isinstance(one, bool) else bool(one == other)
