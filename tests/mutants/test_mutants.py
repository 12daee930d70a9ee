"""Broken variants of the protocol: each must be caught by a test that is there to catch it.

A fault test counts only once it has killed its mutants. Each mutant is one change to the code, each
victim the test that must not survive it; unchanged, the same tests pass where they are.
"""

from __future__ import annotations

import pytest
from kills import CASES, NAMED, TESTS, name_of
from models.cases import CONTROLS
from rotation import part

from taskpit import fs
from taskpit.errors import NotFound, Storage


@pytest.mark.parametrize("case", part(CASES, 3), ids=name_of)
def test_the_mutant_is_caught(case, tmp_path, monkeypatch):
    monkeypatch.setattr(fs, "TURN", 0.005)
    case.mutant(monkeypatch)
    with pytest.raises((AssertionError, ValueError, NotFound, Storage)):
        case.victim(tmp_path)


def test_there_are_enough():
    assert len({case.mutant.__name__ for case in CASES}) >= 25


def test_what_kills_the_named_ones_is_here():
    mutants = {case.mutant.__name__.replace("_", " ") for case in CASES}
    for _, _, *kills in NAMED:
        for kind, _, name in (kill.partition(" ") for kill in kills):
            if kind == "test":
                file, _, test = name.partition(" ")
                with open(f"{TESTS}/{file}", encoding="utf-8") as source:
                    assert f"def test_{test}(" in source.read()
            else:
                assert name in mutants if kind == "mutant" else any(one.startswith(f"{name}: ") for one in CONTROLS)
