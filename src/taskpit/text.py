"""Text that came from somewhere, made fit to be shown and stored. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Compiled when first used: a command that prints JSON never pays for it.
#: Escape sequences as a whole; then every control character but tab and newline, and those that turn
#: the direction of writing around, by which a line can be made to read as another.
_UNSAFE = (
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


#: How a report of ours begins: with how a command ended.
_ENDS = ("exit code ", "killed by ", "it took longer than ", "the check is red", "after the merge the check is red")
#: Words by which a line tells of an error.
_ERRORS = (
    *("error", "exception", "fatal", "panic", "fail", "cannot", "can't", "could not", "denied", "refused", "not found"),
    *("no such", "does not exist", "unknown", "invalid", "abort", "assert", "killed", "timed out"),
)


def plain(text: str) -> str:
    """The text without anything a terminal would obey."""
    if is_plain(text):
        return text  # as most are: nobody need pay for a search

    return re.sub(_UNSAFE, "", text.replace("\r\n", "\n"))


def fence_after(line: str, fence: str) -> str:
    """The fence that is open after this line of Markdown, if `fence` was open before it; empty is none.

    Only one of the same letter, and of at least that length, closes it.
    """
    text = line.strip()
    run = text[: len(text) - len(text.lstrip(text[:1]))] if text[:1] in ("`", "~") else ""
    if len(run) < 3:
        return fence
    if fence:
        return "" if text == run and run.startswith(fence) else fence
    return "" if "`" in run and "`" in text[len(run) :] else run  # code inside a line is no fence


def revealed(text: str) -> str:
    """The same with everything to be seen: what a terminal would obey, and letters that nobody sees, as escapes.

    For what a person judges. `plain` leaves such letters out, and with an escape sequence whatever stands in it: to a
    shell that is a part of the command like any other.
    """
    if is_plain(text):
        return text
    return "".join(one if one in "\n\t" or one.isprintable() else _escape(one) for one in text)


def _escape(letter: str) -> str:
    number = ord(letter)
    if letter.isspace() and number > 0x9F and letter not in "\u2028\u2029":
        return letter  # a blank of another width
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def is_plain(text: str) -> bool:
    """Whether it has nothing but printable letters and ends of lines."""
    return text.replace("\n", "").isprintable()


def one_line(text: str) -> str:
    """The text on one line, without what a terminal would obey."""
    return " ".join(plain(text).split())


def headline(text: str) -> str:
    """What went wrong, out of a longer report: how it ended, and the last line that speaks of an error (else the last).

    Programs print their steps first and their error last; a line cut from the left would show the steps.
    """
    lines = [line.strip() for line in plain(text).splitlines() if line.strip()]
    if len(lines) < 2:
        return "".join(lines)
    head, _, rest = lines[0].partition(": ")
    if not head.startswith(_ENDS):
        head, rest = "", lines[0]
    body = [*filter(None, [rest]), *lines[1:]]
    body = [line for line in body if not line.startswith("hint:")] or body
    telling = [line for line in body if any(word in line.lower() for word in _ERRORS)]
    last = (telling or body)[-1]
    return f"{head}: {last}" if head else last


def words_in(text: str) -> tuple[str, ...]:
    """The words of a field that a person filled in, each once; commas may stand between them."""
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def width_of(text: str) -> int:
    """How wide a terminal shows it."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def fit(text: str, width: int) -> str:
    """The text on one line of at most this width, as a terminal counts it; what is cut off ends in a mark."""
    text = one_line(text)
    room = max(width, 0)
    if len(text) <= room and text.isascii():
        return text
    used = 0
    for place, letter in enumerate(text):
        used += width_of(letter)
        if used > room:
            return _shorten(text[:place], room) if room else ""
    return text


def _shorten(text: str, room: int) -> str:
    """This text fits: make room for the mark at its end."""
    while width_of(text) > room - 1:
        text = text[:-1]
    return text + "…"


def last_lines(data: bytes, count: int, longest: int = 2000) -> str:
    """The last few lines that say something, as plain text."""
    text = plain(data[-8 * longest :].decode("utf-8", "replace"))
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:])[-longest:]


def is_count(text: str) -> bool:
    """Whether these are digits that make a number which can be kept anywhere, a database included."""
    return text.isascii() and text.isdecimal() and len(text) <= 18


# -- words that were probably meant ----------------------------------------------------------------


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; empty if none comes near."""
    from difflib import get_close_matches  # only mistakes pay for it

    return next(iter(get_close_matches(word[:100], list(known), n=1)), "")


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The hint for a word that does not exist: the nearest one, else all there are after `otherwise`, if it says so."""
    known = list(known)
    near = nearest(word, known)
    if near:
        return f"Did you mean {near!r}?"
    return f"{otherwise}: {', '.join(known)}." if otherwise else ""
