"""The protocols hold in every order of events that a small world has; those that should not, don't."""

from __future__ import annotations

import pytest
from models.cases import CONTROLS, SMALL
from models.disk import create, link, look, move, remove
from models.explorer import World, explore
from rotation import part


@pytest.mark.parametrize("name", part(SMALL, 3))
def test_it_holds(name):
    found = explore(SMALL[name]())
    assert found.violation == "", str(found)
    assert found.whole


@pytest.mark.parametrize("name", part(CONTROLS, 4))
def test_the_control_breaks(name):
    """A shortest way to a broken promise, the one that this protocol is known to break."""
    make, words = CONTROLS[name]
    found = explore(make(), limit=200_000)
    assert words in found.violation, str(found)
    assert found.trace


class Counters(World):
    """Two actors that count to two by themselves: 3 x 3 places."""

    def __init__(self, crashes=0):
        self.crashes = crashes
        self.actors = {"a": (self.count, "a"), "b": (self.count, "b")}

    def count(self, me):
        yield create(f"{me}1", me)
        yield create(f"{me}2", me)


def test_the_explorer_sees_every_order():
    found = explore(Counters())
    assert (found.states, found.steps, found.whole) == (9, 12, True)


def test_the_explorer_sees_every_crash():
    """Besides the 9: one of both dead in any of the 2 places before its end, the other anywhere."""
    assert explore(Counters(crashes=1)).states == 9 + 2 * 2 * 3


class Swap(Counters):
    """Whoever links second finds the name taken."""

    def count(self, me):
        yield create(me, me)
        if (yield link(me, "goal")):
            yield remove(me)
        elif (yield look("goal")) is not None:
            yield move(me, "goal")

    def wrong(self, disk):
        return "b has it" if disk.get("goal") == "b" else ""


def test_a_violation_has_a_shortest_trace():
    found = explore(Swap())
    assert (found.violation, list(found.trace)) == ("b has it", ["b: create b b -> True", "b: link b goal -> True"])


def test_a_limit_is_told():
    found = explore(Counters(), limit=4)
    assert not found.whole
    assert "stopped at the limit" in str(found)
