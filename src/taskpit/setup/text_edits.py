"""Texts of a project, edited without touching a byte that is not ours: a block, an entry, a file. Pure.

A marked block at the end of a text:

    <!-- taskpit:begin v1 for=claude,codex -->
    ...
    <!-- taskpit:end -->

The first marker says whom the block is there for; it goes when the last of them goes. `made` says that the
file was not there before. The block has the newlines of its file, and where the file does not end with
one, neither does the block: from that alone the text can be put back exactly as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from taskpit.errors import Invalid
from taskpit.records import Value

VERSION = "v1"


class CommentStyle(Value):
    """How a remark is written in this kind of file."""

    opens: str
    closes: str = ""


MARKDOWN = CommentStyle(opens="<!-- ", closes=" -->")
HASH = CommentStyle(opens="# ")


class Block(Value):
    """What is found between the markers."""

    text: str
    people: tuple[str, ...]
    made: bool
    version: str
    #: Where it begins and ends, markers and all, without the newlines around it.
    start: int
    end: int
    newline: bytes


def read_block(data: bytes, comment: CommentStyle) -> Block | None:
    """The block in this text, if there is one; Invalid if its markers are out of order."""
    opens, closes = re.escape(comment.opens.encode()), re.escape(comment.closes.encode())
    begins = list(
        re.finditer(rb"^" + opens + rb"taskpit:begin( [^\r\n]*?)?" + closes + rb"(\r?\n)", data, re.MULTILINE)
    )
    ends = list(re.finditer(rb"^" + opens + rb"taskpit:end" + closes + rb"(?=\r?$|\Z)", data, re.MULTILINE))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0].end() > ends[0].start():
        raise Invalid("the markers taskpit:begin and taskpit:end don't stand once and in this order")
    words = (begins[0][1] or b"").decode("utf-8", "replace").split()
    people = next((word.removeprefix("for=") for word in words if word.startswith("for=")), "")
    newline: bytes = begins[0][2]
    text = data[begins[0].end() : ends[0].start()].decode("utf-8", "replace").replace("\r\n", "\n")
    return Block(
        text=text,
        people=tuple(filter(None, people.split(","))),
        made="made" in words,
        version=words[0] if words else "",
        start=begins[0].start(),
        end=ends[0].end(),
        newline=newline,
    )


def put_block(data: bytes | None, text: str, person: str, comment: CommentStyle) -> bytes:
    """The file with the block in it, for this one too; None is a file that is not there."""
    found = read_block(data or b"", comment)
    if data and found:
        people = tuple(sorted({*found.people, person}))
        return data[: found.start] + _spelled(text, people, found.made, comment, found.newline) + data[found.end :]
    newline = b"\r\n" if data and b"\r\n" in data[: data.find(b"\n") + 1] else b"\n"
    block = _spelled(text, (person,), data is None, comment, newline)
    if not data:
        return block + newline
    if data.endswith(b"\n"):
        return data + newline + block + newline
    return data + newline + newline + block


def take_block(data: bytes, person: str, comment: CommentStyle) -> bytes | None:
    """The file without the block, or with it for the others only; None if the file should go."""
    found = read_block(data, comment)
    if found is None or person not in found.people:
        return data
    others = tuple(name for name in found.people if name != person)
    if others:
        return (
            data[: found.start] + _spelled(found.text, others, found.made, comment, found.newline) + data[found.end :]
        )
    before, after = data[: found.start], data[found.end :]
    if before:
        twice = 1 if after else 2  # without a newline at its end, the file had none before either
        for _ in range(twice):
            before = before.removesuffix(found.newline)
    left = before + after.removeprefix(found.newline)
    return None if found.made and not left else left


def _spelled(text: str, people: tuple[str, ...], made: bool, comment: CommentStyle, newline: bytes) -> bytes:
    words = " ".join(["taskpit:begin", VERSION, f"for={','.join(people)}", *(["made"] if made else [])])
    lines = [
        f"{comment.opens}{words}{comment.closes}",
        *text.splitlines(),
        f"{comment.opens}taskpit:end{comment.closes}",
    ]
    return newline.join(line.encode() for line in lines)


# -- one entry in a JSON text that is not ours -----------------------------------------------------
# One entry in a JSON text that is not ours, put in and taken out without touching another byte. Pure.
# Comments and trailing commas are read as editors' settings files have them. The entry goes right behind the
# brace that opens its object, which is a safe place in any such text, and the only thing that is inserted
# there; so taking it out again gives back what was there. Whether we also made the object around it is known by
# the order of the entry's own fields, which means nothing to anybody else.


_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?\d[0-9.eE+-]*|true|false|null")
#: Deeper than any settings file is.
DEEPEST = 100


class Node(Value):
    """A value and where it stands."""

    start: int
    end: int
    #: Of an object: key, where the key begins, and its value, in order.
    members: tuple[tuple[str, int, Node], ...] = ()
    is_object: bool = False
    value: Any = None

    def child(self, key: str) -> Node | None:
        """The value under this key."""
        return next((node for name, _, node in self.members if name == key), None)


def read_tree(text: str) -> Node:
    """The object this text is; Invalid if it is none, or says a thing twice."""
    root = _value(text, _skip(text, 0), 0)
    if _skip(text, root.end) != len(text):
        raise Invalid("there is something after its end")
    if not root.is_object:
        raise Invalid("it is not a JSON object")
    return root


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEEPEST:
        raise Invalid("it is nested too deeply")
    if text[at : at + 1] in ("{", "["):
        return _several(text, at, depth)
    found = _STRING.match(text, at) or _PLAIN.match(text, at)
    if not found:
        line = text.count("\n", 0, at) + 1
        raise Invalid(f"it is not JSON (line {line})")
    try:
        return Node(start=at, end=found.end(), value=json.loads(found[0]))
    except ValueError:
        raise Invalid(f"it is not JSON: {found[0][:40]}") from None


def _several(text: str, start: int, depth: int) -> Node:
    """An object or a list."""
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    members: list[tuple[str, int, Node]] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        key, key_at = "", at
        if is_object:
            name = _value(text, at, depth + 1)
            at = _skip(text, name.end)
            if not isinstance(name.value, str) or text[at : at + 1] != ":":
                raise Invalid(f"it is not JSON (line {text.count(chr(10), 0, at) + 1})")
            key, at = name.value, _skip(text, at + 1)
        node = _value(text, at, depth + 1)
        members.append((key, key_at, node))
        at = _skip(text, node.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise Invalid(f"it is not JSON (line {text.count(chr(10), 0, at) + 1})")
    value: Any = [node.value for _, _, node in members]
    if is_object:
        value = {key: node.value for key, _, node in members}
        if len(value) != len(members):
            raise Invalid("it has a key twice")
    return Node(start=start, end=at + 1, members=tuple(members), is_object=is_object, value=value)


def read_entry(text: str, group: str, name: str) -> Any:
    """What the text has under group and name; None if nothing."""
    found = read_tree(text).child(group)
    entry = found.child(name) if found and found.is_object else None
    return entry.value if entry else None


def fresh_text(group: str, name: str, entry: dict[str, Any], head: Mapping[str, str] | None = None) -> str:
    """A file of our own with nothing but the entry, and what its agent would put before it."""
    return json.dumps({**(head or {}), group: {name: entry}}, indent=2) + "\n"


def put_entry(text: str, group: str, name: str, entry: dict[str, Any]) -> str:
    """The text with the entry in it, in a group of its own if there is none."""
    root = read_tree(text)
    outer = root.child(group)
    if outer is None:
        ours = f"{json.dumps(group)}: {{{_member(name, dict(reversed(entry.items())))}}}"
        made = _insert(text, root, ours)
    elif outer.is_object:
        made = _insert(text, outer, _member(name, entry))
    else:
        raise Invalid(f"its {group} is not an object")
    want = {**root.value, group: {**(outer.value if outer else {}), name: entry}}
    if read_tree(made).value != want:
        raise Invalid("it cannot be edited safely")
    return made


def _member(name: str, entry: dict[str, Any]) -> str:
    return f"{json.dumps(name)}: {json.dumps(entry)}"


def _insert(text: str, into: Node, member: str) -> str:
    """The member right behind the brace, on a line of its own where the others have theirs."""
    at = into.start + 1
    lead = ""
    first = into.members[0][1] if into.members else into.end - 1
    between = text[at:first]
    if "\n" in between:
        newline = "\r\n" if "\r\n" in between else "\n"
        indent = re.split(r"[\r\n]", between)[-1]
        lead = newline + (indent if into.members else indent + "  ")
    return text[:at] + lead + member + ("," if into.members else "") + text[at:]


def drop_entry(text: str, group: str, name: str, entry: dict[str, Any]) -> str:
    """The text without the entry; with it goes the group that was made for it."""
    root = read_tree(text)
    outer = root.child(group)
    ours = outer.child(name) if outer else None
    if outer is None or ours is None:
        return text
    alone = len(outer.members) == 1 and list(ours.value) == list(reversed(entry))
    made = _drop(text, root, group) if alone else _drop(text, outer, name)
    rest = {key: value for key, value in outer.value.items() if key != name}
    want = {**root.value, group: rest}
    if alone:
        del want[group]
    if read_tree(made).value != want:
        raise Invalid("it cannot be edited safely")
    return made


def _drop(text: str, parent: Node, key: str) -> str:
    place = next(number for number, member in enumerate(parent.members) if member[0] == key)
    _, start, node = parent.members[place]
    end = node.end
    if text[end : end + 1] == ",":
        end += 1
    if place == 0 and not text[parent.start + 1 : start].strip():
        start = parent.start + 1  # what stands before it came with it
    elif place == len(parent.members) - 1:  # it was moved to the end: the comma before it goes, too
        start = parent.members[place - 1][2].end
    return text[:start] + text[end:]


# -- whole files of ours that show whether they were changed since -------------------------
# Whole files of ours that show whether they were changed since. Pure: a text carries a stamp made from
# the rest of itself.


#: Where a template has its stamp.
BLANK = "pit setup v1 00000000"
_STAMP = re.compile(r"pit setup v\d+ ([0-9a-f]{8})")


def stamped(template: str) -> str:
    """The text with its stamp filled in."""
    return template.replace(BLANK, f"{BLANK[:-8]}{_digest(template)}", 1)


def is_ours(text: str) -> bool:
    """Whether the text is as some version of ours wrote it."""
    found = _STAMP.search(text)
    return found is not None and found[1] == _digest(text[: found.start(1)] + "00000000" + text[found.end(1) :])


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()[:8]
