"""Whole files of ours that tell whether somebody has changed them since. Pure: a text carries a stamp made from
the rest of itself.
"""

from __future__ import annotations

import re

__all__ = ["is_ours", "stamped"]

#: Where a template has its stamp.
BLANK = "pit setup v1 00000000"
_STAMP = re.compile(r"pit setup v\d+ ([0-9a-f]{8})")


def stamped(template: str) -> str:
    """The text with its stamp filled in."""
    return template.replace(BLANK, f"{BLANK[:-8]}{_digest(template)}", 1)


def is_ours(text: str) -> bool:
    """Whether the text is as some version of ours wrote it."""
    found = _STAMP.search(text)
    return found is not None and found[1] == _digest(text[: found.start(1)] + "00000000" + text[found.end(1) :])


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()[:8]
