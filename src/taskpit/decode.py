"""Decode what comes from outside: bytes into plain values, plain values into the types of `model`. Pure.

Files, agents, the network, YAML, TOML and rows of a database are decoded here once and never checked again.

| from | by | what is wrong |
|---|---|---|
| JSON text | `read_json` | ValueError |
| TOML text | `read_toml` | ValueError |
| plain values | `convert` into a type | Invalid with the field, the value, and how to write it |

A type forbids unknown fields. A layout that keeps the fields of other programs takes them out before, and writes them
back from the mapping that it read. A lenient conversion takes `1.0` and `"1"` for whole numbers, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import EnumType
from functools import cache
from math import isfinite
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from taskpit.clock import LAST
from taskpit.errors import Invalid
from taskpit.model import LARGEST, LIMIT, NOTE_KIND, NOTE_KINDS, Count, Fields, Texts, Value
from taskpit.text import did_you_mean

T = TypeVar("T")

#: How deeply values of others may be nested, and how many they may be: they are compared, written and shown again.
DEEPEST, MOST_INSIDE = 100, 1_000_000
PLAIN = (str, int, float, dict, list, tuple, type(None))


# -- text to plain values ----------------------------------------------------------------------------


def read_json(data: bytes | str, *, lenient: bool = False) -> Any:
    """Return the value of a JSON text; ValueError if it is none or nested too deeply.

    Numbers without end are refused, or read as None if `lenient`. Half surrogates are read as they are written.
    """
    try:
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeEncodeError):
            # A byte order mark, or half a surrogate; otherwise the complaint of `json` names line and column.
            text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8") if isinstance(data, bytes) else data
            number = _finite_or_none if lenient else _finite
            value = json.loads(text, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if is_deep(value):
        raise ValueError("it is nested too deeply")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:40]} is no number that JSON has")
    return number


def _finite_or_none(text: str) -> float | None:
    number = float(text)
    return number if isfinite(number) else None


def is_deep(value: object) -> bool:
    """Whether lists and objects are nested more than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def read_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; ValueError if it is none, or nested or dotted too deeply."""
    import tomllib  # noqa: PLC0415 - 2 ms that only a command with settings pays for

    if re.search(rf"(?:\.[^.\n=]+){{{DEEPEST}}}", text):  # tomllib would take hours for such a key
        raise ValueError("it has a key with too many parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


# -- plain values to types ---------------------------------------------------------------------------


def convert(fields: object, kind: type[T], name: str = "", *, lenient: bool = False) -> T:
    """Return the fields as a value of this type; Invalid names the field and what to write.

    `name` is the field that `fields` come from, where it is a single one. `lenient` is for other programs' files.
    """
    try:
        if isinstance(fields, dict):
            for key in _mappings(cast("Any", kind)) & fields.keys():
                check_plain(key, fields[key])
        return msgspec.convert(fields, kind, strict=not lenient)
    except msgspec.ValidationError as error:
        raise _explain(str(error), fields, kind, name) from None
    except UnicodeEncodeError:
        raise Invalid("the name of a field is not UTF-8 text") from None


def convert_field(kind: type[Value], name: str, value: object, *, lenient: bool = False) -> Any:
    """Return the value as this field of the type has it; Invalid names the field and what to write."""
    if name in _mappings(kind):
        check_plain(name, value)
    return convert(value, _types(kind)[name], name, lenient=lenient)


def fits(kind: type[Value], name: str, value: object) -> bool:
    """Whether this field of the type may have this value."""
    try:
        convert_field(kind, name, value, lenient=True)
    except Invalid:
        return False
    return True


def _is_value(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Value)


@cache
def _types(kind: type[Value]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _mappings(kind: Any) -> frozenset[str]:
    """Return the fields that may hold any plain values, if this is a type of values."""
    return frozenset(name for name, one in _types(kind).items() if one == Fields) if _is_value(kind) else frozenset()


def check_plain(name: str, value: object) -> None:
    """Raise Invalid unless this is an object of plain values: finite, not too many, not too deep."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Invalid(f"{name!r} is {_shown(value)}: it should be a JSON object", field=name)
    count, level = 0, list(value.values())
    for _ in range(DEEPEST):
        count += len(level)
        if count > MOST_INSIDE:
            raise Invalid(f"{name!r} has too many values inside", field=name)
        for one in level:
            if not isinstance(one, PLAIN):
                raise Invalid(f"{name!r} has {_shown(one)} inside: no text, number, list or object", field=name)
            if isinstance(one, float) and not isfinite(one):
                raise Invalid(f"{name!r} has a number without end", field=name)
        outer: list[Any] = [one for one in level if isinstance(one, dict | list | tuple)]
        if not outer:
            return
        level = [inner for one in outer for inner in (one.values() if isinstance(one, dict) else one)]
    raise Invalid(f"{name!r} is nested too deeply", field=name)


# -- complaints --------------------------------------------------------------------------------------

_ERROR = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?(?: in `(?P<inside>[^`]*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]*)`(?:, got .*| (?P<bound>.*))?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
_PATTERNS = {LIMIT: "a limit: KEY, KEY=N or KEY=N/min", NOTE_KIND: f"one of {', '.join(NOTE_KINDS)}"}


def _explain(error: str, fields: object, kind: Any, name: str) -> Invalid:
    """Return the complaint of msgspec as ours: the field, its value, and what to write."""
    found = _ERROR.fullmatch(error)
    what, path = (found["what"], found["inside"] or found["path"] or "") if found else (error, "")
    steps = [key or int(number) for key, number in _STEP.findall(path)]
    value, kind = _follow(fields, kind, steps)
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    field = f"{name}{field}".lstrip(".")
    of = f" of {field!r}" if field else ""
    if what.startswith("Object contains unknown field"):
        key = what.partition("`")[2].rstrip("`")
        known = kind.__struct_fields__ if _is_value(kind) else ()
        return Invalid(f"there is no field {key!r:.80}{of}", hint=did_you_mean(key, known, "Fields are"), field=key)
    if what.startswith("Object missing required field"):
        key = what.partition("`")[2].rstrip("`")
        return Invalid(f"the field {key!r}{of} is missing", field=key)
    if found and found["inside"] and found["path"] == "key":
        return Invalid(f"{field or 'it'!r} has a key that is no text", field=field)
    hint, wanted = "", what
    if what.startswith("Invalid enum value"):
        words = list(map(str, kind.__members__.values())) if isinstance(kind, EnumType) else []
        wanted, hint = f"it should be one of {', '.join(words)}", did_you_mean(str(value), words)
    elif expected := _EXPECTED.fullmatch(what):
        wanted = _wanted(expected["kinds"], expected["bound"] or "")
    shown = f"{field!r} is {_shown(value)}" if field else f"it is {_shown(value)}"
    return Invalid(f"{shown}: {wanted}", hint=hint, **({"field": field} if field else {}))


def _follow(value: Any, kind: Any, steps: Iterable[str | int]) -> tuple[Any, Any]:
    """Return what is at the end of this path, and its type if that is a value or a set of words."""
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):  # inside a mapping with keys of its own, which has no path
            return None, None
        hint = _types(kind).get(str(step)) if _is_value(kind) else kind
        inner = [one for one in getattr(hint, "__args__", (hint,)) if isinstance(one, type) and one is not type(None)]
        kind = inner[0] if inner else None
    return value, kind


def _wanted(kinds: str, bound: str) -> str:
    """Return what msgspec expects as a phrase."""
    if bound.startswith(("<=", ">=", "<", ">")):
        return "the number is too small or too large"
    if bound.startswith("of length <="):
        return f"it has more than {bound[12:].strip()} entries" if kinds == "array" else "it is too long"
    if bound.startswith("matching regex"):
        return f"it should be {_PATTERNS.get(bound[15:].strip(chr(39)), 'spelled otherwise')}"
    words = [_WORDS.get(one, one) for one in kinds.split(" | ")]
    return f"it should be {' or '.join(words)} {bound}".strip()


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a very large number"  # Python writes no number of more than 4300 digits
    text = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


# -- single values -----------------------------------------------------------------------------------


def amount(value: object, most: float = LAST) -> float:
    """Return a number that counts something, at most `most`; 0 for a value that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0.0
    return float(value) if value <= most else most


def is_number(value: object) -> bool:
    """Whether this is a number, also an infinite one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124 - NaN


def several(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return a caller's texts as a tuple; a single text, which is a sequence of letters, is Invalid."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise Invalid(f"{name} is several texts, not one", hint=f"Write {name}=[{given!r}].")
    return convert(tuple(given), Texts, name)


def read_cursor(cursor: str, *shapes: Any) -> tuple[int, Any]:
    """Return the rank and the key that a cursor of a listing names; each rank has a key of its own type."""
    try:
        rank, key = msgspec.convert(read_json(cursor), tuple[Count, list[Any]])
        return rank, list(msgspec.convert(key, shapes[rank]))
    except (ValueError, IndexError):
        raise Invalid(f"{cursor[:40]!r} is not a place in a listing", hint="Begin again without it.") from None
