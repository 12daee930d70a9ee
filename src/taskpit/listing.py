"""Directories with very many entries, one entry after the other. Belongs to the fs room; knows no tasks.

A listing tells each entry's name, inode and kind without a look at the entry itself: a million of them are
compared with another million in seconds, where a million looks take minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from taskpit import fs

#: Which database is a directory's catalogue (each has a name of its own: others may still have the last one open).
POINTER = "catalog"


def has_catalog(folder: str) -> bool:
    """Whether there is a catalogue: only then is its module needed."""
    return fs.exists(f"{folder}/{POINTER}")


def entries(path: str) -> Iterator[os.DirEntry[str]]:
    """What a directory holds, unordered; not a snapshot while others rename. Nothing if it is missing."""
    try:
        yield from fs.scan(path)
    except FileNotFoundError:
        return
