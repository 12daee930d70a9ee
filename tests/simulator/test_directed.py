"""No verb can be interrupted anywhere so that a rule is broken."""

from __future__ import annotations

import pytest
from directed import INTERRUPTIONS, SCENES, run

ORDERS = {"ordered": {"ordered": True, "tells_ordered": True}, "unordered": {"ordered": False, "tells_ordered": False}}


def broken(layout: str, order: str, scene: str, *, stride: int = 1, first: int = 1) -> list[str]:
    """What breaks in a scene, interrupted before every call, or before every `stride`-th."""
    found = []
    for place, interruption in enumerate(INTERRUPTIONS):
        number = first + place % stride
        while True:
            bench, happened = run(scene, interruption, number, layout=layout, **ORDERS[order])
            if not happened:
                break
            words = f"{scene}, {interruption} before call {number}"
            found += [f"{words}: {rule}: {text}" for rule, text, _, _ in bench.book.broken]
            number += stride
    return found


@pytest.mark.parametrize("layout", ["pit", "mailbox"])
def test_some_interruptions_break_no_rule(layout: str) -> None:
    for place, scene in enumerate(SCENES):
        order = "ordered" if place % 2 else "unordered"
        assert not broken(layout, order, scene, stride=61, first=1 + place)


@pytest.mark.races
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace"])
def test_every_interruption_breaks_no_rule(layout: str, scene: str, order: str) -> None:
    assert not broken(layout, order, scene)
