"""Directories with very many entries, one entry after the other. Belongs to the fs room; knows no tasks.

A listing tells each entry's name, inode and kind without a look at the entry itself: a million of them are
compared with another million in seconds, where a million looks take minutes.
"""

from __future__ import annotations

from taskpit import fs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["entries"]


def entries(path: str) -> Iterator[os.DirEntry[str]]:
    """What a directory holds, unordered; not a snapshot while others rename. Nothing if it is missing."""
    try:
        yield from fs.scan(path)
    except FileNotFoundError:
        return
