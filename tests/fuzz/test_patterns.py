"""No pattern of ours takes more than its text's length: what others write is searched by them.

A pattern that can go back over a run of letters in several ways takes hours for a megabyte of blanks, and holds the
interpreter meanwhile: leases end that nobody renews. Each pattern of the source is tried on texts made from itself: the
beginning of something that fits, a long run of one of its letters, and an end that does not fit.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import taskpit

SOURCE = Path(taskpit.__file__).parent
#: A run of so many letters. A pattern that goes over it again for each letter takes RUN * RUN / 2 steps or more.
RUN = 60
#: A search may take so many steps for each letter.
STEPS = 32
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


class Slow(Exception):
    """The search takes too many steps."""


class Search:
    """A backtracking search that counts its steps. `re` only tells how long it took, on this machine at this moment."""

    def __init__(self, pattern, flags):
        self.tree = re._parser.parse(pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern, flags)
        self.single, self.fitting = {}, {}

    def run(self, text, how):
        self.text, self.left = text, STEPS * len(text)
        at = 0
        while at <= len(self.text):
            end = next(self.ends(self.tree, 0, at), None)
            if how == "match":
                return
            at = max(at + 1, end or 0)

    def ends(self, nodes, number, at):
        """Where a match of the nodes from `number` on may end, in the order in which `re` tries them."""
        self.left -= 1
        if self.left < 0:
            raise Slow
        if number == len(nodes):
            yield at
            return
        for end in self.ends_of(nodes[number], at):
            yield from self.ends(nodes, number + 1, end)

    def ends_of(self, node, at):
        kind, value = str(node[0]), node[1]
        if kind == "SUBPATTERN":
            yield from self.ends(value[-1], 0, at)
        elif kind == "BRANCH":
            for branch in value[1]:
                yield from self.ends(branch, 0, at)
        elif kind in ("ASSERT", "ASSERT_NOT"):
            start = at if value[0] > 0 else at - value[1].getwidth()[1]
            if (start >= 0 and any(True for _ in self.ends(value[1], 0, start))) is (kind == "ASSERT"):
                yield at
        elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            letter = len(inner) == 1 and inner.getwidth() == (1, 1) and str(inner[0][0]) != "SUBPATTERN"
            yield from (self.letters if letter else self.repeated)(inner, least, most, at, kind == "MIN_REPEAT")
        elif kind == "AT":
            if self.alone(node).match(self.text, at):
                yield at
        elif self.fits(node, at):
            yield at + 1

    def alone(self, node):
        """A pattern of this node alone."""
        if id(node) in self.single:
            return self.single[id(node)]
        tree = re._parser.parse("", self.tree.state.flags & re.MULTILINE)
        tree.append(node)
        self.single[id(node)] = re._compiler.compile(tree)
        return self.single[id(node)]

    def fits(self, node, at):
        """Whether this node matches the letter there."""
        if at >= len(self.text):
            return False
        key = id(node), self.text[at]
        if key not in self.fitting:
            self.fitting[key] = self.alone(node).match(self.text[at]) is not None
        return self.fitting[key]

    def letters(self, inner, least, most, at, lazy):
        """Repetitions of one letter."""
        end = at
        while end - at < most and self.fits(inner[0], end):
            end += 1
            self.left -= 1
        ends = range(at + least, end + 1)
        yield from ends if lazy else reversed(ends)

    def repeated(self, inner, least, most, at, lazy, count=0):
        if lazy and count >= least:
            yield at
        if count < most:
            for end in self.ends(inner, 0, at):
                if end > at:
                    yield from self.repeated(inner, least, most, end, lazy, count + 1)
        if not lazy and count >= least:
            yield at


def test_no_run_of_letters_is_gone_over_again():
    for pattern, flags, how in (patterns := list(found())):
        gone_over(pattern, flags, how)
    assert len(patterns) > 80


def gone_over(pattern, flags, how):
    search = Search(pattern, flags)
    for head, run in runs(pattern):
        try:
            search.run(head + run * (RUN // len(run)) + "\0", how)
        except Slow:
            pytest.fail(f"{pattern!r} takes too many steps for {head[:40]!r} and {run!r} again and again")


@pytest.mark.parametrize("pattern", [r"\s*#", r"(?:a|a)*b", r"(\w+,?)*;", r"x.*?\n#"])
def test_a_pattern_that_goes_back_is_seen(pattern):
    with pytest.raises(pytest.fail.Exception, match="too many steps"):
        gone_over(pattern, 0, "finditer")
