"""Less of the same in `make test`: a third of the examples, layouts in turn. `make test-all` tries all of it.

The verbs are the same code in every layout, so what breaks one shows in the first, which is tried in full; what only
another layout does has cases of its own. TASKPIT_TURN=1 gives each case the layout after the one it has without.
"""

from __future__ import annotations

import os

LONG = bool(os.environ.get("TASKPIT_LONG"))
TURN = int(os.environ.get("TASKPIT_TURN", "0"))


def examples(count):
    """How many examples to try: a third where there is no time."""
    return count if LONG else count // 3


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
