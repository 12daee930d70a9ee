"""Less of the same in `make test`: a part of each long sweep, another with each seed. `make test-all` tries all of it.

The verbs are the same code in every layout, so what breaks one shows in the first, which is tried in full; what only
another layout does has cases of its own. The seed is pytest-randomly's: a run tells it, `--randomly-seed=7` gives it.
"""

from __future__ import annotations

import os
from zlib import crc32

LONG = bool(os.environ.get("TASKPIT_LONG"))
#: Which part is tried: told by the world, before any test is read.
TURN = 0


def examples(count, less=3):
    """How many examples to try: a third, or another part, where there is no time."""
    return count if LONG else count // less


def part(things, step):
    """Every `step`th of them; which is first follows from the turn, for each sweep anew."""
    things = list(things)
    return things if LONG else things[crc32(f"{TURN} {len(things)}".encode()) % step :: step]


def turn_of(name, *things):
    """One of them, another with each turn and each name; in the long run all."""
    return things if LONG else [_one(things, name)]


def kinds(of, name):
    """Kinds of store by which this promise of the contract is tried: those that are ALWAYS, and one other in turn."""
    if LONG:
        return of.KINDS
    others = of.KINDS[of.ALWAYS :]
    return (*of.KINDS[: of.ALWAYS], others[(crc32(name.encode()) + TURN) % len(others)])


def layouts(items, full="pit"):
    """Of tests that are there for each layout: those of the layout `full` and of one other in turn.

    Of a class of tests with TURNS, whose parts are tried in full by others, one in so many.
    """
    places: dict[str, list[str]] = {}
    for item in items:
        layout, name = _layout(item)
        if layout and layout not in places.setdefault(name, []):
            places[name].append(layout)
    kept = set()
    for item in items:
        layout, name = _layout(item)
        if not LONG and (crc32(name.encode()) + TURN) % getattr(item.cls, "TURNS", 1):
            continue
        others = sorted(set(places.get(name, ())) - {full})
        if LONG or layout in (None, full) or len(others) == len(places[name]) or layout == _one(others, name):
            kept.add(item)
    return kept


def _layout(item):
    """The layout by which a test is tried, and the name it has with all of them."""
    layout = getattr(item, "callspec", None) and item.callspec.params.get("layout")
    return (layout if isinstance(layout, str) else None), item.nodeid.partition("[")[0]


def _one(others, name):
    return others[(crc32(name.encode()) + TURN) % len(others)]


def in_turn(cases, full="pit", key=repr):
    """Of pairs of a layout and a thing: all with the layout `full`, and each thing with one other that it has."""
    if LONG:
        return list(cases)
    others: dict[str, list[str]] = {}
    for layout, thing in cases:
        places = others.setdefault(key(thing), [])
        if layout != full:
            places.append(layout)
    turn = {
        name: places[(number + TURN) % len(places)] for number, (name, places) in enumerate(others.items()) if places
    }
    return [(layout, thing) for layout, thing in cases if layout in (full, turn.get(key(thing)))]
