"""What an agent says of itself, checked before anything is done with it: sessions, models, amounts. Pure.

A session becomes an argument of the next run and a model one of a command; an amount is added to what was spent.
All of them come from a program that reads the internet: what is not plainly one of these is as good as unsaid.
"""

from __future__ import annotations

import math
import re

__all__ = ["amount", "model_name", "session_name"]

_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_MODEL = re.compile(r"[A-Za-z0-9<][A-Za-z0-9._:/@<>\[\] -]{0,99}")
#: Nothing that is counted here comes near it.
MOST = 1e12


def session_name(said: object) -> str:
    """The name of a session; empty if this is none: it never begins with a dash."""
    return said if isinstance(said, str) and _SESSION.fullmatch(said) else ""


def model_name(said: object) -> str:
    """The name of a model; empty if this is none."""
    return said.strip() if isinstance(said, str) and _MODEL.fullmatch(said) else ""


def amount(said: object) -> float | None:
    """A number of dollars, tokens or seconds: finite and not negative; None if this is none."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    try:
        number = float(said)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0.0 <= number <= MOST else None
