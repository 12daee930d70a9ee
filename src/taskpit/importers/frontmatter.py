"""Front matter: the few lines of YAML above a Markdown text, as trackers write them. Needs no YAML library.

Reads `key: value`, quoted values, lists in brackets or one item a line, and texts that go on indented
(`|` and `>`). What is more than that is refused with its line.
"""

from __future__ import annotations

import re

from taskpit.errors import Invalid

__all__ = ["split"]

_KEY = re.compile(r"([A-Za-z_][\w .-]*?)\s*:(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*-\s+(.*)$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "r": "\r", "0": "\0"}


def split(text: str) -> tuple[dict[str, str | list[str]], str]:
    """The fields and the text below; Invalid names a line that can't be read."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise Invalid("it does not begin with ---", line=1)
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if not end:
        raise Invalid("its front matter does not end", line=1)
    return _fields(lines[:end]), "\n".join(lines[end + 1 :]).strip("\n")


def _fields(lines: list[str]) -> dict[str, str | list[str]]:
    fields: dict[str, str | list[str]] = {}
    at = 1
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.lstrip().startswith("#"):
            at += 1
            continue
        found = _KEY.match(line)
        if found is None:
            raise Invalid(f"line {at + 1} is not `key: value`", line=at + 1)
        below = _below(lines, at + 1)
        fields[found[1]] = _value(found[2] or "", below, at + 1)
        at += 1 + len(below)
    return fields


def _below(lines: list[str], at: int) -> list[str]:
    """The lines that belong to the key above them: indented ones, and items of a list."""
    end = at
    while end < len(lines) and (lines[end][:1] in (" ", "\t") or _ITEM.match(lines[end]) or not lines[end].strip()):
        end += 1
    return lines[at:end]


def _value(text: str, below: list[str], line: int) -> str | list[str]:
    text = text.strip()
    if text[:1] in ("|", ">"):
        return _block(text, below)
    inside = [one for one in below if one.strip() and not one.lstrip().startswith("#")]
    if not text and inside and _ITEM.match(inside[0]):
        return _items(inside, line)
    whole = " ".join([text, *(one.strip() for one in inside)]).strip()
    if whole.startswith("["):
        if not whole.endswith("]"):
            raise Invalid(f"the list in line {line} does not end", line=line)
        return [_scalar(part, line) for part in _parts(whole[1:-1]) if part.strip()]
    if whole.startswith("{"):
        raise Invalid(f"line {line} has a map, which no task has", line=line)
    return _scalar(whole, line)


def _items(lines: list[str], line: int) -> list[str]:
    items: list[str] = []
    for one in lines:
        found = _ITEM.match(one)
        if found:
            items.append(found[1])
        else:
            items[-1] += f" {one.strip()}"
    return [_scalar(one, line) for one in items]


def _block(mark: str, below: list[str]) -> str:
    """`|` keeps its lines, `>` makes one line of those that follow each other."""
    indent = min((len(one) - len(one.lstrip()) for one in below if one.strip()), default=0)
    lines = [one[indent:] for one in below]
    if mark[0] == "|":
        return "\n".join(lines).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(lines).strip("\n")).replace("\n\n", "\n")


def _parts(text: str) -> list[str]:
    """The parts between commas, but not those inside quotes."""
    return re.findall(r"""(?:"(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^,])+""", text)


def _scalar(text: str, line: int) -> str:
    text = text.strip()
    if text[:1] in ('"', "'"):
        quote = text[0]
        found = re.match(r'"((?:\\.|[^"\\])*)"\s*(?:#.*)?$' if quote == '"' else r"'((?:''|[^'])*)'\s*(?:#.*)?$", text)
        if found is None:
            raise Invalid(f"the quoted text in line {line} does not end", line=line)
        if quote == "'":
            return found[1].replace("''", "'")
        return re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[0]), found[1])
    plain = re.sub(r"\s+#.*$", "", text)
    return "" if plain in ("null", "~") else plain
