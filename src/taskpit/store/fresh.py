"""A file's status as it is now, also where another machine has just changed it. Knows caches, nothing about tasks."""

from __future__ import annotations

from taskpit import fs

__all__ = ["fresh_status"]


def fresh_status(path: str) -> fs.Stat | None:
    """The status, or None if the name is gone.

    A network filesystem believes for a while what it saw of a name; it looks again when the file is opened.
    """
    try:
        return fs.read(path, 0)[1]
    except OSError:  # more in it than nothing, gone, or not a file: to open it was the point
        return fs.status(path)
