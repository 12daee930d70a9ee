"""Directories with very many entries, one entry after the other. Belongs to the fs room; knows no tasks.

A listing tells each entry's name, inode and kind without a look at the entry itself: a million of them are
compared with another million in seconds, where a million looks take minutes.
"""

from __future__ import annotations

import os

from taskpit import fs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["entries"]


def entries(path: str) -> Iterator[os.DirEntry[str]]:
    """What a directory holds, unordered; not a snapshot while others rename. Nothing if it is missing."""
    fs._step("list", path)  # noqa: SLF001 - the same room, and the same place to stop
    try:
        found = os.scandir(path)
    except FileNotFoundError:
        return
    with found:
        yield from found
