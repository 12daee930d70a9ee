"""The keys of a preset file: which there are, what each may hold, and what is said about a wrong one.

Knows TOML and spelling; not what the keys are for.
"""

from __future__ import annotations

import re

from taskpit.agents.acp import PERMISSIONS
from taskpit.clock import duration
from taskpit.errors import Invalid, Storage
from taskpit.text import read_toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Checker = Callable[[Any], Any]

__all__ = ["MEANINGS", "PLACEHOLDERS", "convert", "nearest", "read"]

#: What an event, an exit code or some words can mean.
MEANINGS = ("done", "failed", "quota", "auth", "usage", "infra", "no-session", "goes-on")
#: What a command may ask for.
PLACEHOLDERS = (
    *("bin", "prompt", "prompt_file", "task_file", "result_file", "run_dir", "worktree", "queue"),
    *("session", "model", "id", "title", "flags", "hook", "extra"),
)
_WORD = re.compile(r"\{([a-z_]+)\}")


class Wrong(Exception):
    """What is wrong, without saying where; the key, if it is not the one being looked at."""

    def __init__(self, told: str, key: str = "", hint: str = "") -> None:
        super().__init__(told)
        self.key, self.hint = key, hint


def nearest(word: str, known: Iterable[str]) -> str:
    """What was probably meant; empty if nothing comes near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:100], list(known), n=1)), "")


def read(path: str) -> dict[str, Any]:
    """What the file says, checked key by key but not yet converted."""
    try:
        with open(path, encoding="utf-8") as file:
            fields = read_toml(file.read())
    except ValueError as error:
        raise Invalid(f"{path}: {error}", path=path) from None
    except OSError as error:
        raise Storage(f"{path} cannot be read: {error.strerror}", path=path) from None
    convert(path, fields)
    return fields


def convert(path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as values; Invalid names file, line, key, and what was probably meant."""
    made: dict[str, Any] = {}
    for key, value in fields.items():
        try:
            made |= _table(_KEYS)({key: value})
        except Wrong as wrong:
            told = str(wrong) if wrong.key else f"{key}: {wrong}"
            where = _line(path, wrong.key or key)
            raise Invalid(f"{where}: {told}", hint=wrong.hint, path=path, key=wrong.key or key) from None
    made.pop("extends", None)
    return made


def _suggest(key: str, known: Iterable[str]) -> str:
    known = list(known)
    near = nearest(key, known)
    return f"Did you mean {near!r}?" if near else f"Keys are: {', '.join(known)}."


def _line(path: str, key: str) -> str:
    """The file, and the first line that has this key."""
    pattern = re.compile(rf"""(?:^|[\[{{,\s])["']?{re.escape(key)}["']?\s*(?:=|\])""")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if pattern.search(line):
                    return f"{path}, line {number}"
    except OSError:
        pass
    return path


# -- what a key may hold ---------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise Wrong(f"this is a text, not {value!r}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Wrong(f"this is a list of texts, not {value!r}")
    return tuple(map(_text, value))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Wrong(f"this is a whole number, 0 or more, not {value!r}")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    try:
        return duration(_text(value))
    except (Wrong, ValueError):
        raise Wrong(f'this is a duration such as "30s" or "15m", not {value!r}') from None


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"this is true or false, not {value!r}")
    return value


def _one_of(*words: str) -> Checker:
    def check(value: Any) -> str:
        if value not in words:
            near = nearest(str(value), words)
            raise Wrong(
                f"this is {', '.join(words[:-1])} or {words[-1]}, not {value!r}",
                hint=f"Did you mean {near!r}?" if near else "",
            )
        return str(value)

    return check


def _pattern(value: Any) -> re.Pattern[str]:
    import warnings

    try:
        with warnings.catch_warnings():  # what may mean another thing in a later Python means this here
            warnings.simplefilter("ignore")
            return re.compile(_text(value), re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise Wrong(f"this is no regular expression: {error}") from None


def _resets(value: Any) -> re.Pattern[str]:
    pattern = _pattern(value)
    if not {"at", "in", "unix"} & pattern.groupindex.keys():
        raise Wrong("this pattern needs a group `(?P<at>...)`, `(?P<in>...)` or `(?P<unix>...)`")
    return pattern


def _argv(value: Any) -> tuple[str | tuple[str, ...], ...]:
    """Words; a list among them is left out as a whole when what it asks for is empty."""
    if not isinstance(value, list) or not value:
        raise Wrong(f"this is a list of words, not {value!r}")
    made = tuple(_texts(part) if isinstance(part, list) else _text(part) for part in value)
    for part in made:
        for word in (part,) if isinstance(part, str) else part:
            for name in _WORD.findall(word):
                if name not in PLACEHOLDERS:
                    raise Wrong(f"there is no {{{name}}}", hint=_suggest(name, PLACEHOLDERS))
    return made


def _flags(value: Any) -> tuple[str | tuple[str, ...], ...]:
    """The same, but there may be none."""
    return _argv(value) if value != [] else ()


def _one_file(value: Any) -> str:
    name = _text(value)
    if "/" in name or name.startswith("."):
        raise Wrong(f"this is the name of a file in the run directory, not {value!r}")
    return name


def _path(value: Any) -> tuple[str, ...]:
    return tuple(_text(value).split("."))


def _when(value: Any) -> tuple[tuple[tuple[str, ...], tuple[object, ...]], ...]:
    if not isinstance(value, dict):
        raise Wrong(f"this is a table of paths and values, not {value!r}")
    for want in value.values():
        for one in want if isinstance(want, list) else [want]:
            if isinstance(one, str) and one.startswith("~"):
                _pattern(one[1:])
    return tuple((_path(path), tuple(want) if isinstance(want, list) else (want,)) for path, want in value.items())


def _table(checkers: Mapping[str, Checker], *needed: str) -> Checker:
    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Wrong(f"this is a table, not {value!r}")
        for key in value:
            if key not in checkers:
                raise Wrong(f"there is no key {key!r}", key, _suggest(key, checkers))
        for key in needed:
            if key not in value:
                raise Wrong(f"it needs `{key}`")
        return {key: checkers[key](one) for key, one in value.items()}

    return check


def _many(check: Checker) -> Checker:
    def many(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Wrong(f"this is a list of tables, not {value!r}")
        return [check(one) for one in value]

    return many


def _named(check: Checker, name: Checker = _text) -> Checker:
    """A table whose keys are free."""

    def named(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise Wrong(f"this is a table, not {value!r}")
        return {name(key): check(one) for key, one in value.items()}

    return named


def _code(value: Any) -> int:
    if not value.isdecimal() or len(value) > 3:
        raise Wrong(f"this is an exit code, not {value!r}", value)
    return int(value)


def _sources(value: Any) -> list[dict[str, Any]]:
    one = _table({"when": _when, "path": _path, "how": _one_of("last", "first", "sum", "join", "count", "total")})
    found: list[dict[str, Any]] = _many(one)(value if isinstance(value, list) else [value])
    if any("path" not in source and source.get("how") != "count" for source in found):
        raise Wrong("it needs `path`")
    return found


_MEANS = _one_of(*MEANINGS)
_KEYS: dict[str, Checker] = {
    "about": _text,
    "extends": _text,
    "bin": _text,
    "argv": _argv,
    "resume": _argv,
    "prompt": _one_of("stdin", "argument", "file"),
    "session": _one_of("ours", "theirs", "none"),
    "flags": _flags,
    "env": _texts,
    "home": _texts,
    "steer": _one_of("", "hook"),
    "protocol": _one_of("", "acp"),
    "permissions": _one_of(*PERMISSIONS),
    "set_env": _named(_text),
    "events": _one_of("stdout", "stderr", "both", "none"),
    "usage": _one_file,
    "event": _many(
        _table({"when": _when, "means": _MEANS, "ends": _flag, "loops": _count, "resets": _path}, "when", "means")
    ),
    "take": _named(_sources),
    "exit": _named(_MEANS, _code),
    "message": _many(
        _table({"pattern": _pattern, "means": _MEANS, "resets": _resets, "always": _flag}, "pattern", "means")
    ),
    "empty": _one_of("failed", "done"),
    "grace": _seconds,
    "stall": _seconds,
    "limit": _count,
    "stagger": _seconds,
    "pause": _seconds,
}
