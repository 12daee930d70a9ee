"""Which checks may be run where a person has named them. Pure: a check and patterns in, yes or no out.

A check is text for a shell, and `make test; id` is like `make *`. So it is taken apart first: only one plain command
without anything that the shell would act on can be like a pattern, word by word. What is spelled exactly as one of
the patterns is what the person has named, whatever is in it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["is_allowed"]

#: What a shell acts on outside of quotes, and some of it inside of them.
ACTIVE = frozenset(";&|<>()$`\\\n\r*?[]{}~#!")


def is_allowed(check: str, patterns: Iterable[str]) -> bool:
    """Whether this check is one of those that were named."""
    named = list(patterns)
    if check in named:
        return True
    words = _words(check)
    return bool(words) and any(_is_like(words, pattern.split()) for pattern in named)


def _words(check: str) -> list[str]:
    """The words of a plain command; none if it is more than that."""
    import shlex

    if ACTIVE & set(check):
        return []
    try:
        return shlex.split(check)
    except ValueError:  # a quote that does not end
        return []


def _is_like(words: list[str], wanted: list[str]) -> bool:
    """Word by word; a last `*` is any further words."""
    if wanted[-1:] == ["*"] and len(words) >= len(wanted):
        words = [*words[: len(wanted) - 1], "*"]
    return len(words) == len(wanted) and all(fnmatchcase(one, want) for one, want in zip(words, wanted, strict=True))
