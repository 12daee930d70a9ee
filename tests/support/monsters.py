"""Input that nobody means well with: what is put into texts, and texts of a megabyte."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager

from hypothesis import strategies as st

#: Pieces by which parsers are known to stumble.
BITS = (
    *(b"\0", b"\xff", b"\r\n", b"\xef\xbb\xbf", b"\n", b" ", b"\t", b"\\", b"\x1b[31m", b"\xc2\x9b", b"\xe2\x80\xae"),
    *(
        b"[",
        b"{",
        b'"',
        b"'",
        b"'''",
        b'"""',
        b"=",
        b"`",
        b"``",
        b"  # x",
        b"- **task:** ",
        b"json ",
        b"json [",
        b"<!-- ",
    ),
    *(b"null", b"true", b"[]", b"{}", b'"x"', b"inf", b"nan", b"NaN", b"1e999", b"-Infinity", b"-1", b"0", b"1.5"),
    *(b"9" * 30, b"9" * 500, b"9" * 5000, b"\xd9\xa3", b"\xc2\xb2", b"\\ud800", b"\\u0000", b"+", b":", b"-", b"."),
    *(b"[" * 500, b'{"a":' * 500, b"[" * 5000, b"json " + b"[" * 5000, b"9" * 20 + b"w"),
    *(b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59", b"exited 9999999999999999999 after xs", b"../../x"),
)
_WORD = re.compile(rb'"[^"\n]*"|[-\w.:+]+')


#: What is put in the place of every single word.
PUNGENT = (
    b"null",
    b"[]",
    b"{}",
    b"true",
    b'"x"',
    b"-1",
    b"1e999",
    b"NaN",
    b"inf",
    b"9" * 500,
    b"9" * 5000,
    b'"\\ud800"',
)


def one_word_wrong(seed: bytes):
    """The text with each of its words replaced by each of the pungent ones."""
    for found in _WORD.finditer(seed):
        for bit in PUNGENT:
            yield seed[: found.start()] + bit + seed[found.end() :]


@st.composite
def spoilt(draw, seeds):
    """A text that was understood, cut, doubled, overwritten and stuffed in one to four places."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(("insert", "cut", "byte", "word", "end", "double")))
        if how == "insert":
            data = data[:at] + draw(st.sampled_from(BITS)) + data[at:]
        elif how == "cut":
            data = data[:at] + data[at + draw(st.integers(1, 8)) :]
        elif how == "byte":
            data = data[:at] + draw(st.binary(min_size=1, max_size=2)) + data[at + 1 :]
        elif how == "end":
            data = data[:at]
        elif how == "double":
            data = data[:at] + data[at : at + 200] + data[at:]
        elif words := [found.span() for found in _WORD.finditer(data)]:
            start, end = draw(st.sampled_from(words))
            data = data[:start] + draw(st.sampled_from(BITS)) + data[end:]
    return data


def anything(seeds):
    """Spoilt texts most of the time, any bytes now and then."""
    return st.one_of(spoilt(seeds), spoilt(seeds), st.binary(max_size=200), st.text(max_size=100).map(str.encode))


#: What is repeated until it is a megabyte, with what stands before it.
SHAPES = (
    (b"", b"9"),
    (b"", b" "),
    (b"", b"\n"),
    (b"", b"["),
    (b"", b'{"a":'),
    (b"", b"x"),
    (b"", b"`"),
    (b"", b"` "),
    (b"", b"\x1b["),
    (b"", b"\x1b]0;"),
    (b"", b"\x1b[0"),
    (b"", b"1h "),
    (b"", b"# \n"),
    (b"", b"- **task:** x\n"),
    (b"- **task:** ", b"x\n  "),
    (b"- **task:** `", b"a` #"),
    (b"- **done-when:** ", b"`"),
    (b"- **done-when:** ", b"``a`"),
    (b"- **done-when:** ", b"  # "),
    (b"- **check:** ", b" exited 1 after "),
    (b"- **needs:** ", b"food-,"),
    (b"- **x:** json ", b"["),
    (b"- **not-before:** ", b"9"),
    (b"- **verdict:** done\n\n<!-- taskpit:task -->\n", b"<!-- taskpit:task -->\n"),
    (b"- **verdict:** done\n\n<!-- taskpit:output -->\n", b"\n\n## "),
    (b"- **verdict:** done\n", b"\n<!-- taskpit:output -->\n\n\n## "),
    (b'{"title": "', b"\\ud800"),
    (b'{"x": [', b"[],"),
    (b'{"x": "', b"y"),
    (b"lease = ", b"["),
    (b"a = [", b" "),
    (b"[", b" a"),
    (b"[agent]\n", b"[[agent]]\nname = 'x'\n"),
    (b"x = '''", b"'' "),
    (b"", b"a."),
    (b"a", b".a"),
)


def huge(head: bytes, piece: bytes, size: int) -> bytes:
    """So many bytes of it."""
    return head + piece * ((size - len(head)) // len(piece))


class Late(BaseException):
    """It should have been over long ago; not an error that anybody could take for one of the disk."""


@contextmanager
def patience(seconds):
    """Late if it is not over by then: the guard against what would never end."""

    def late(_number, frame):
        # The garbage collector swallows what is thrown while it calls back: the next ring, a moment later, is heard.
        if frame is None or frame.f_code.co_name != "gc_callback":
            raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.01)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
