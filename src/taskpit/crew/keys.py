"""What may stand in `agents.toml`: every key of every table, and what its value must be. Pure."""

from __future__ import annotations

from taskpit.clock import duration
from taskpit.errors import Invalid
from taskpit.landing.values import LANDS, REVIEWS
from taskpit.worker.budget import parse as parse_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["KEYS", "nearest"]

WATCHES = ("none", "heal", "heal+stall")
DELIVERIES = ("file", "stdin", "argument")
MERGES = ("none", "ff")
#: As many agents of one kind as one machine could ever run; more is a slip of the pen.
LARGEST_CROWD = 10_000


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError("a text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError('a list of texts such as ["a", "b"]')
    return tuple(value)


def _command(value: object) -> tuple[str, ...]:
    words = _texts(value)
    if not words or not words[0]:
        raise ValueError("a command with at least one word")
    return words


def _number(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("a number, at least 1")
    return value


def _crowd(value: object) -> int:
    if _number(value) > LARGEST_CROWD:
        raise ValueError(f"a number from 1 to {LARGEST_CROWD}")
    return _number(value)


def _seconds(value: object) -> float:
    try:
        seconds = duration(value) if isinstance(value, str) else 0.0
    except ValueError as error:
        raise ValueError(f'a duration such as "15m": {error}') from None
    if seconds <= 0:
        raise ValueError('a duration such as "15m"')
    return seconds


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004 - told as one sentence with the others
    return value


def _one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return str(value)

    return read


def _budget(value: object) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else _texts(value)
    for word in words:
        try:
            parse_budget(word)
        except Invalid as error:
            raise ValueError(f'a limit such as "$5/day", or a list of them: {error.message}') from None
    return words


_SHARED: dict[str, Callable[[object], Any]] = {
    "role": _text,
    "backend": _text,
    "model": _text,
    "prompt": _text,
    "tags": _texts,
    "lease": _seconds,
    "limit": _seconds,
    "stall": _seconds,
    "every": _seconds,
    "budget": _budget,
    "land": _one_of(LANDS),
    "onto": _text,
    "setup": _text,
    "setup_key": _texts,
    "copy": _texts,
    "env": _texts,
    "land_check": _text,
    "pr_command": _text,
    "review": _one_of(REVIEWS),
    "frozen": _texts,
    "red_first": _flag,
    "review_limit": _number,
    "worktree": _flag,
    "merge": _one_of(MERGES),
    "sandbox": _one_of(("on", "off")),
    "watch": _one_of(WATCHES),
    "cwd": _text,
}
KEYS: dict[str, dict[str, Callable[[object], Any]]] = {
    "defaults": _SHARED,
    "agent": {"name": _text, "count": _crowd, **_SHARED},
    "service": {
        "name": _text,
        "command": _command,
        "watch": _one_of(WATCHES),
        "stall": _seconds,
        "cwd": _text,
    },
    "backend": {
        "preset": _text,
        "command": _command,
        "bin": _text,
        "flags": _texts,
        "model": _text,
        "prompt": _one_of(DELIVERIES),
        "limit": _number,
        "stagger": _seconds,
    },
}


def nearest(word: str, known: Iterable[str]) -> str:
    """What was probably meant, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word[:100], list(known), n=1, cutoff=0.5)
    return near[0] if near else ""
