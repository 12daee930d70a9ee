"""Whether a file that was judged a moment ago is still the one that stands there. Decides nothing else."""

from __future__ import annotations

from taskpit import fs

__all__ = ["untouched"]


def untouched(path: str, judged: fs.Stat) -> bool:
    """Whether this very file is still there, as it was when it was looked at.

    The inode's number alone does not tell: when a file goes, its number is given to the next one that is made.
    """
    status = fs.status(path)
    return status is not None and (status.st_ino, status.st_ctime_ns) == (judged.st_ino, judged.st_ctime_ns)
