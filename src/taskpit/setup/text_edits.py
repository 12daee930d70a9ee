"""Texts of a project, edited without touching a byte that is not ours: a block, an entry, a file. Pure.

A marked block at the end of a text:

    <!-- taskpit:begin v1 for=claude,codex sum=0a1b2c3d -->
    ...
    <!-- taskpit:end -->

The first marker says whom the block is there for; it goes when the last of them goes. `made` says that the
file was not there before, `sum` is the digest of what we wrote: a block that says something else is a person's.
The block has the newlines of its file, and where the file does not end with one, neither does the block: from
that alone the text can be put back exactly as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from taskpit.errors import Invalid
from taskpit.model import Value

VERSION = "v1"


class CommentStyle(Value, frozen=True, kw_only=True):
    """How a remark is written in this kind of file."""

    opens: str
    closes: str = ""


MARKDOWN = CommentStyle(opens="<!-- ", closes=" -->")
HASH = CommentStyle(opens="# ")


class Block(Value, frozen=True, kw_only=True):
    """What is found between the markers."""

    text: str
    people: tuple[str, ...]
    made: bool
    version: str
    #: The digest of the text as it was written; empty in blocks of old.
    sum: str
    #: Where it begins and ends, markers and all, without the newlines around it; where its text begins.
    start: int
    end: int
    inner: int
    newline: bytes

    def is_one_of(self, *texts: str) -> bool:
        """Whether it is as we wrote it; one of old that has no digest is ours if it says one of these."""
        return self.sum == _digest(self.text) if self.sum else self.text in texts


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
    said = dict(word.split("=", 1) for word in words if "=" in word)
    newline: bytes = begins[0][2]
    text = data[begins[0].end() : ends[0].start()].decode("utf-8", "replace").replace("\r\n", "\n")
    return Block(
        text=text,
        people=tuple(filter(None, said.get("for", "").split(","))),
        made="made" in words,
        version=words[0] if words else "",
        sum=said.get("sum", ""),
        start=begins[0].start(),
        end=ends[0].end(),
        inner=begins[0].end(),
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


def share_block(data: bytes, person: str, comment: CommentStyle) -> bytes:
    """The file with its block as it is, for this one too."""
    found = read_block(data, comment)
    return data if found is None or person in found.people else _named(data, found, (*found.people, person), comment)


def _named(data: bytes, found: Block, people: tuple[str, ...], comment: CommentStyle) -> bytes:
    """The file with its block as it is, for these."""
    marker = _marker(found.version, tuple(sorted(people)), found.made, found.sum, comment)
    return data[: found.start] + marker.encode() + found.newline + data[found.inner :]


def take_block(data: bytes, person: str, comment: CommentStyle) -> bytes | None:
    """The file without the block, or with it for the others only; None if the file should go."""
    found = read_block(data, comment)
    if found is None or person not in found.people:
        return data
    others = tuple(name for name in found.people if name != person)
    if others:
        return _named(data, found, others, comment)
    before, after = data[: found.start], data[found.end :]
    if before:
        twice = 1 if after else 2  # without a newline at its end, the file had none before either
        for _ in range(twice):
            before = before.removesuffix(found.newline)
    left = before + after.removeprefix(found.newline)
    return None if found.made and not left else left


def _spelled(text: str, people: tuple[str, ...], made: bool, comment: CommentStyle, newline: bytes) -> bytes:
    lines = [
        _marker(VERSION, people, made, _digest(text), comment),
        *text.splitlines(),
        f"{comment.opens}taskpit:end{comment.closes}",
    ]
    return newline.join(line.encode() for line in lines)


def _marker(version: str, people: tuple[str, ...], made: bool, digest: str, comment: CommentStyle) -> str:
    words = ["taskpit:begin", version, f"for={','.join(people)}", "made" if made else "", digest and f"sum={digest}"]
    return f"{comment.opens}{' '.join(filter(None, words))}{comment.closes}"


# -- one entry in a JSON text that is not ours -----------------------------------------------------
# Comments and trailing commas are read as editors' settings files have them. The entry goes right behind the
# brace that opens its object, which is a safe place in any such text, and the only thing that is inserted
# there; so taking it out again gives back what was there. Whether we also made the object around it is known by
# the order of the entry's own fields, which means nothing to anybody else.


_STRING = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
#: What JSON has not: comments and a mark at the beginning, and commas behind the last member.
_COMMENTS = re.compile(_STRING + r"|//[^\r\n]*|/\*.*?\*/|\ufeff", re.DOTALL)
_LAST_COMMAS = re.compile(_STRING + r"|,(?=\s*[}\]])")
_SPACE = re.compile(r"\s*")


def _blanked(text: str) -> str:
    """The same text with spaces where JSON has nothing: each letter is where it was."""
    return _without(_LAST_COMMAS, _without(_COMMENTS, text))


def _without(foreign: re.Pattern[str], text: str) -> str:
    return foreign.sub(lambda one: one[0] if one[0][0] == '"' else re.sub(r"[^\r\n]", " ", one[0]), text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise Invalid("it has a key twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def read_object(text: str) -> dict[str, Any]:
    """The object this text is; Invalid if it is none, or says a thing twice."""
    try:
        value = _DECODER.decode(_blanked(text))
    except json.JSONDecodeError as error:
        raise Invalid(f"it is not JSON (line {error.lineno})") from None
    except RecursionError:
        raise Invalid("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise Invalid("it is not a JSON object")
    return value


def _next(text: str, at: int) -> int:
    """Where the next letter is that is no space."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere


def _members(text: str, brace: int) -> list[tuple[str, int, int, int]]:
    """Of the object that begins with this brace in a blanked text: each key, where it begins, where its value begins
    and ends.
    """
    found = []
    at = _next(text, brace + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        start = _next(text, _next(text, end) + 1)
        _, end = _DECODER.raw_decode(text, start)
        found.append((key, at, start, end))
        at = _next(text, end)
        at = _next(text, at + 1) if text[at] == "," else at
    return found


def _group(text: str, group: str) -> tuple[int, int | None]:
    """Where the object begins, and the one of this name in it."""
    blanked = _blanked(text)
    root = _next(blanked, 0)
    return root, next((start for key, _, start, _ in _members(blanked, root) if key == group), None)


def read_entry(text: str, group: str, name: str) -> Any:
    """What the text has under group and name; None if nothing."""
    found = read_object(text).get(group)
    return found.get(name) if isinstance(found, dict) else None


def fresh_text(group: str, name: str, entry: dict[str, Any], head: Mapping[str, str] | None = None) -> str:
    """A file of our own with nothing but the entry, and what its agent would put before it."""
    return json.dumps({**(head or {}), group: {name: entry}}, indent=2) + "\n"


def put_entry(text: str, group: str, name: str, entry: dict[str, Any]) -> str:
    """The text with the entry in it, in a group of its own if there is none."""
    before = read_object(text)
    root, inner = _group(text, group)
    others = before.get(group, {})
    if not isinstance(others, dict):
        raise Invalid(f"its {group} is not an object")
    if inner is None:
        made = _insert(text, root, f"{json.dumps(group)}: {{{_member(name, dict(reversed(entry.items())))}}}")
    else:
        made = _insert(text, inner, _member(name, entry))
    return _checked(made, {**before, group: {**others, name: entry}})


def _checked(made: str, want: dict[str, Any]) -> str:
    """The text, which says this and nothing else."""
    if read_object(made) != want:
        raise Invalid("it cannot be edited safely")
    return made


def _member(name: str, entry: dict[str, Any]) -> str:
    return f"{json.dumps(name)}: {json.dumps(entry)}"


def _insert(text: str, brace: int, member: str) -> str:
    """The member right behind the brace, on a line of its own where the others have theirs."""
    blanked, lead = _blanked(text), ""
    members = _members(blanked, brace)
    between = text[brace + 1 : _next(blanked, brace + 1)]
    if "\n" in between:
        newline = "\r\n" if "\r\n" in between else "\n"
        indent = re.split(r"[\r\n]", between)[-1]
        lead = newline + (indent if members else indent + "  ")
    return text[: brace + 1] + lead + member + ("," if members else "") + text[brace + 1 :]


def drop_entry(text: str, group: str, name: str, entry: dict[str, Any]) -> str:
    """The text without the entry; with it goes the group that was made for it."""
    before, ours = read_object(text), read_entry(text, group, name)
    root, inner = _group(text, group)
    if ours is None or inner is None:
        return text
    rest = {key: value for key, value in before[group].items() if key != name}
    if not rest and list(ours) == list(reversed(entry)):
        return _checked(_drop(text, root, group), {key: value for key, value in before.items() if key != group})
    return _checked(_drop(text, inner, name), {**before, group: rest})


def _drop(text: str, brace: int, name: str) -> str:
    """The text without the member and the one comma that goes with it: its own, or at the end that before it."""
    members = _members(_blanked(text), brace)
    place = next(number for number, member in enumerate(members) if member[0] == name)
    _, start, _, end = members[place]
    bare = _without(_COMMENTS, text)
    comma = _next(bare, end)
    if bare[comma] != ",":
        comma = bare.rindex(",", members[place - 1][3], start) if place else -1
    if comma == end:
        end += 1
    elif comma > end:
        text = text[:comma] + text[comma + 1 :]
    came_with_it = place == 0 and not text[brace + 1 : start].strip()
    start = brace + 1 if came_with_it else _line_start(text, start, end)
    before = text[:start] if comma < 0 or comma > start else text[:comma] + text[comma + 1 : start]
    return before + text[end:]


def _line_start(text: str, start: int, end: int) -> int:
    """From where to cut, so that no empty line stays."""
    before = text[:start].rstrip(" \t")
    if not before.endswith("\n"):
        return len(before)
    alone = re.match(r"[ \t]*\r?\n", text[end:]) is not None
    return len(before.removesuffix("\n").removesuffix("\r")) if alone else start


# -- whole files of ours that show whether they were changed since: by a stamp made of the rest ------


#: Where a template has its stamp.
BLANK = "pit setup v1 00000000"
_STAMP = re.compile(r"pit setup v\d+ ([0-9a-f]{8})")


def stamped(template: str) -> str:
    """The text with its stamp filled in."""
    return template.replace(BLANK, f"{BLANK[:-8]}{_digest(template)}", 1)


def has_stamp(text: str) -> bool:
    """Whether the text was ours once."""
    return _STAMP.search(text) is not None


def is_ours(text: str) -> bool:
    """Whether the text is as some version of ours wrote it."""
    found = _STAMP.search(text)
    return found is not None and found[1] == _digest(text[: found.start(1)] + "00000000" + text[found.end(1) :])


def _digest(text: str) -> str:

    return sha256(text.encode()).hexdigest()[:8]
