"""A marked block at the end of a text that belongs to somebody else. Pure: bytes in, bytes out.

    <!-- taskpit:begin v1 for=claude,codex -->
    ...
    <!-- taskpit:end -->

The first marker says whom the block is there for; it goes when the last of them goes. `made` says that the
file was not there before. The block speaks the newlines of its file, and where the file does not end with
one, neither does the block: from that alone the text can be put back exactly as it was.
"""

from __future__ import annotations

import re

from taskpit.errors import Invalid
from taskpit.records import Value

__all__ = ["HASH", "MARKDOWN", "Block", "Comment", "put_block", "read_block", "take_block"]

VERSION = "v1"


class Comment(Value):
    """How a remark is written in this kind of file."""

    opens: str
    closes: str = ""


MARKDOWN = Comment(opens="<!-- ", closes=" -->")
HASH = Comment(opens="# ")


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


def read_block(data: bytes, comment: Comment) -> Block | None:
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


def put_block(data: bytes | None, text: str, person: str, comment: Comment) -> bytes:
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


def take_block(data: bytes, person: str, comment: Comment) -> bytes | None:
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


def _spelled(text: str, people: tuple[str, ...], made: bool, comment: Comment, newline: bytes) -> bytes:
    words = " ".join(["taskpit:begin", VERSION, f"for={','.join(people)}", *(["made"] if made else [])])
    lines = [
        f"{comment.opens}{words}{comment.closes}",
        *text.splitlines(),
        f"{comment.opens}taskpit:end{comment.closes}",
    ]
    return newline.join(line.encode() for line in lines)
