"""No pattern of ours takes more than its text's length: what others write is searched by them.

A pattern that can go back over a run of letters in several ways takes hours for a megabyte of blanks, and holds the
interpreter meanwhile: leases end that nobody renews. Each pattern of the source is tried on texts made from itself: the
beginning of something that fits, a long run of one of its letters, and an end that does not fit.
"""

from __future__ import annotations

import ast
import gc
import re
import signal
from pathlib import Path

import pytest

import taskpit

SOURCE = Path(taskpit.__file__).parent
#: A run of so many letters. Twice as long takes twice as long, or a pattern that goes over it again for each letter.
RUN = 10_000
#: Seconds of this process's own time that one search may take; a good one takes a thousandth of it.
LIMIT = 0.1
CALLS = ("compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split")


def found():
    """Every pattern that stands in the source as one piece, and how it is used."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\bre\.", text) else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in CALLS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                flags = re.MULTILINE if "MULTILINE" in ast.dump(node) else 0
                named = re.search(rf"^(\w+) = {re.escape(ast.get_source_segment(text, node))}$", text, re.MULTILINE)
                uses = set(re.findall(rf"\b{named[1]}\.(\w+)\(", text)) if named else {node.func.attr}
                how = "match" if uses and uses <= {"match", "fullmatch"} else "finditer"
                yield node.args[0].value, flags, how


def sample(parsed):
    """A text that fits, as far as that is easy to tell."""
    text = ""
    for kind, value in parsed:
        name = str(kind)
        if name == "LITERAL":
            text += chr(value)
        elif name in ("NOT_LITERAL", "ANY"):
            text += "x"
        elif name == "IN":
            text += letter(value)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, _, inner = value
            text += sample(inner) * min(max(least, 1), 4)
        elif name == "SUBPATTERN":
            text += sample(value[-1])
        elif name == "BRANCH":
            text += sample(value[1][0])
    return text


def letter(choices):
    """A letter of a class."""
    for kind, value in choices:
        name = str(kind)
        if name == "LITERAL":
            return chr(value)
        if name == "RANGE":
            return chr(value[0])
        if name == "CATEGORY":
            return {"SPACE": " ", "DIGIT": "1", "WORD": "a"}.get(str(value).rpartition("_")[2], "x")
    return "x"


def runs(pattern):
    """What could be repeated: its letters, pairs of them, and blanks."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    whole = sample(re._parser.parse(text))  # type: ignore[attr-defined]
    letters = list(dict.fromkeys([" ", "\n", "x", "1", *whole]))[:12]
    pairs = [whole[at : at + 2] for at in range(min(len(whole) - 1, 8))]
    for cut in sorted({0, 1, 2, 3, len(whole) // 2, len(whole) - 1, len(whole)}):
        if 0 <= cut <= len(whole):
            yield from ((whole[:cut], run) for run in dict.fromkeys((*letters, *pairs, whole)) if run)


class Slow(BaseException):
    """It took too long."""


def _slow(*_):
    raise Slow


def test_no_run_of_letters_is_gone_over_again():
    for pattern, flags, how in (patterns := list(found())):
        gone_over(pattern, flags, how)
    assert len(patterns) > 80


def gone_over(pattern, flags, how):
    compiled = re.compile(pattern, flags)
    before = signal.signal(signal.SIGVTALRM, _slow)
    tried = ""
    gc.disable()  # an alarm that rings in a finaliser is lost
    try:
        for head, run in runs(pattern):
            tried = f"{head[:40]!r} and {run!r} again and again"
            text = head + run * (RUN // len(run)) + "\0"
            signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
            data = text.encode("latin-1", "replace") if isinstance(pattern, bytes) else text
            list(compiled.finditer(data)) if how == "finditer" else compiled.match(data)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except Slow:
        pytest.fail(f"{pattern!r} takes too long for {tried}")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        gc.enable()


def test_a_control_that_goes_back_is_seen():
    with pytest.raises(pytest.fail.Exception):
        gone_over(r"\s*#", 0, "finditer")
