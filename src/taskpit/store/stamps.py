"""Signs on files: whether one is still what was judged, and stamping what may be another user's. Decides nothing."""

from __future__ import annotations

from taskpit import fs

__all__ = ["freshen", "stamp", "untouched"]


def untouched(path: str, judged: fs.Stat) -> bool:
    """Whether this very file is still there, as it was when it was looked at.

    The inode's number alone does not tell: when a file goes, its number is given to the next one that is made.
    """
    status = fs.status(path)
    return status is not None and (status.st_ino, status.st_ctime_ns) == (judged.st_ino, judged.st_ctime_ns)


def freshen(path: str) -> bool:
    """Its mtime is now; False if the name is gone. What another user's modes keep from us stays as it is."""
    try:
        return fs.set_times(path, None)
    except PermissionError:
        return fs.exists(path)


def stamp(path: str, until: float, record: str) -> bool:
    """The claim lasts until then; False if its name is gone.

    Only its owner may set a file's times. What another user put is claimed all the same: then the worker's own
    record is stamped. If that is another's too, there must at least be a sign of life on the file.
    """
    try:
        return fs.set_times(path, until)
    except PermissionError:
        if not fs.exists(path):
            return False
    try:
        return fs.set_times(record, until) or fs.set_times(path, None)
    except PermissionError:
        return fs.set_times(path, None)
