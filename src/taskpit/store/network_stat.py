"""What is true where another machine may just have changed it. Knows caches and links, nothing about tasks."""

from __future__ import annotations

from taskpit import fs


def fresh_status(path: str) -> fs.Stat | None:
    """The status, or None if the name is gone.

    A network filesystem believes for a while what it saw of a name; it looks again when the file is opened.
    """
    try:
        return fs.read(path, 0)[1]
    except OSError:  # more in it than nothing, gone, or not a file: to open it was the point
        return fs.status(path)


def has_twin(file: fs.Stat, original: fs.Stat | None) -> bool:
    """Whether a task's file stands under a second name, besides its entry among the ids if it is that very file.

    The file itself counts its names. To look at both proves nothing: a network filesystem shows, even opens, a name
    that another machine has moved away since, and whoever removed the other one then would remove the last.
    """
    return file.st_nlink > (1 if original is not None and original.st_ino != file.st_ino else 2)
