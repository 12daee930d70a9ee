"""JSON for hot commands: the same text as `json` writes and reads, without what importing it costs.

The standard library's `json` loads regular expressions, which take as long as everything else a claim does.
Its C parts need none of that. Where they are missing, or want other words than those of today, `json` itself is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    encode_basestring: Any
    make_encoder: Any
    make_scanner: Any
else:
    try:
        from _json import encode_basestring, make_encoder, make_scanner
    except ImportError:  # another Python: correct, only slower to start
        encode_basestring = make_encoder = make_scanner = None


def _finite(text: str) -> float:
    """The number; ValueError for one without end, which could be neither compared nor written as JSON again."""
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text[:40]} is no number that JSON has")
    return number


def _finite_or_none(text: str) -> float | None:
    try:
        return _finite(text)
    except ValueError:
        return None


class _Plain:
    """How the scanner is to read: no hooks, nothing special."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float: Any = staticmethod(_finite)
    parse_int = int
    parse_constant: Any = staticmethod(_finite)
    memo: dict[str, str] = {}


class _Lenient(_Plain):
    parse_float = staticmethod(_finite_or_none)
    parse_constant = staticmethod(_finite_or_none)


def _built(make: Any, *words: object) -> Any:
    """What the C parts make of these words; None where they do not: they promise nothing to others."""
    try:
        return make(*words)
    except (AttributeError, TypeError):
        return None


_scan: Any = _built(make_scanner, _Plain())
_scan_leniently: Any = _built(make_scanner, _Lenient())


def loads(data: bytes | str, *, lenient: bool = False) -> Any:
    """The value of a JSON text; ValueError if it is none. `lenient`: a number that JSON does not have is None."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8") if isinstance(data, bytes) else data
    if _scan is None:
        import json

        finite: Any = _finite_or_none if lenient else _finite
        return json.loads(text, parse_float=finite, parse_constant=finite)
    text = text.strip(" \t\n\r")
    try:
        value, end = (_scan_leniently if lenient else _scan)(text, 0)
    except (StopIteration, SystemError):
        # Python 3.11's scanner raises SystemError for a syntax error unless `json.decoder` has been imported.
        raise ValueError("this is not JSON") from None
    if end != len(text):
        raise ValueError(f"more than one JSON value: at character {end}")
    return value


def dumps(value: object, *, tight: bool = False, ordered: bool = False) -> str:
    """The JSON text of plain values, every letter as it is; `tight` without blanks, `ordered` by key and tight, too."""
    if _tight is None:
        import json

        separators = (",", ":") if tight or ordered else None
        return json.dumps(value, ensure_ascii=False, separators=separators, sort_keys=ordered)
    return "".join((_ordered if ordered else _tight if tight else _loose)(value, 0))


#: The JSON text of a string, every letter as it is.
quote: Callable[[str], str] = dumps if encode_basestring is None else encode_basestring


def indented(value: object, step: str = "  ", line: str = "\n") -> str:
    """The JSON text of plain values, one to a line, each level in by a `step`: as `json` does it, which writes letter
    by letter in Python where this asks its C parts.
    """
    inner = line + step
    if isinstance(value, str) and encode_basestring is not None:
        return str(encode_basestring(value))
    if isinstance(value, dict) and value:
        rows = [f"{inner}{dumps(str(key))}: {indented(one, step, inner)}" for key, one in value.items()]
        return f"{{{','.join(rows)}{line}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{','.join([inner + indented(one, step, inner) for one in value])}{line}]"
    return dumps(value)


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} is not plain enough for JSON")


def _writer(comma: str, colon: str, *, ordered: bool = False) -> Any:
    """How to write: nothing is looked for that comes back to itself, NaN as it is."""
    return _built(make_encoder, None, _refuse, encode_basestring, None, colon, comma, ordered, False, True)


_loose: Any = _writer(", ", ": ")
_tight: Any = _writer(",", ":")
_ordered: Any = _writer(",", ":", ordered=True)
