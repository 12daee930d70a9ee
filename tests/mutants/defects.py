"""Defects that are put back into the store: a name, and texts of modules that are replaced."""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    """One defect."""

    name: str
    #: What goes wrong with it.
    meaning: str
    changes: tuple[tuple[str, str, str], ...]
    layout: str = "pit"
    #: Histories that it takes, as measured; 0: it is not found, and `why` says what the model lacks.
    median: int = 0
    why: str = ""


_ALL: tuple[Defect, ...] = ()
DEFECTS = {defect.name: defect for defect in _ALL}
