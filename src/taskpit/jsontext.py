"""JSON for hot commands: the same text as `json` writes and reads, without what importing it costs.

The standard library's `json` loads regular expressions, which take as long as everything else a claim does.
Its C parts need none of that. Where they are missing, `json` itself is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    encode_basestring: Any
    make_scanner: Any
else:
    try:
        from _json import encode_basestring, make_scanner
    except ImportError:  # another Python: correct, only slower to start
        encode_basestring = make_scanner = None

__all__ = ["dumps", "loads"]


#: Words that are numbers; always the same object, since one of them does not equal itself.
_CONSTANTS = {word: float(word) for word in ("NaN", "Infinity", "-Infinity")}


class _Plain:
    """How the scanner is to read: no hooks, nothing special."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__
    memo: dict[str, str] = {}


_scan: Any = make_scanner(_Plain()) if make_scanner is not None else None


def loads(data: bytes | str) -> Any:
    """The value of a JSON text; ValueError if it is none."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8") if isinstance(data, bytes) else data
    if _scan is None:
        import json

        return json.loads(text)
    text = text.strip(" \t\n\r")
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("this is not JSON") from None
    if end != len(text):
        raise ValueError(f"more than one JSON value: at character {end}")
    return value


def dumps(value: object, *, tight: bool = False) -> str:
    """The JSON text of plain values, every letter as it is; `tight` leaves out the blanks."""
    if encode_basestring is None:
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if tight else None)
    comma, colon = (",", ":") if tight else (", ", ": ")
    return _text(value, comma, colon)


def _text(value: Any, comma: str, colon: str) -> str:
    if isinstance(value, str):
        return str(encode_basestring(str(value)))
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        pairs = (f"{encode_basestring(str(key))}{colon}{_text(item, comma, colon)}" for key, item in value.items())
        return f"{{{comma.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{comma.join(_text(item, comma, colon) for item in value)}]"
    raise TypeError(f"{type(value).__name__} is not plain enough for JSON")


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - only NaN differs from itself
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return float.__repr__(value)
