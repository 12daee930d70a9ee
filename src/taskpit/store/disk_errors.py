"""What the disk refuses, in words that say what to do."""

from __future__ import annotations

import errno

from taskpit.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


def verb(method: Callable[P, R]) -> Callable[P, R]:
    """A verb of the port: what the disk refuses becomes a Storage error that says what to do."""

    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except OSError as error:
            # Without the frames that it came through, which would keep directories open: no disk could be unmounted.
            raise storage_error(error) from error.with_traceback(None)

    wrapped.__name__, wrapped.__doc__ = method.__name__, method.__doc__  # as `functools.wraps` does, without its import
    return wrapped


def storage_error(error: OSError) -> Storage:
    """What the disk refused, in words."""
    hints = {
        errno.ENOSPC: "The disk is full; make room, then repeat: nothing was lost.",
        errno.EDQUOT: "Your disk quota is used up; make room, then repeat: nothing was lost.",
        errno.EROFS: "The filesystem is read-only.",
        errno.EACCES: "Check who owns the queue's folder and its permissions.",
        errno.EPERM: "Check who owns the queue's folder and its permissions.",
        errno.ENOENT: "A directory of the queue is missing; `pit init` on the same folder makes it again.",
        errno.ENOTDIR: "Nothing was followed or changed. Look at what stands there and who made it, and move it away.",
        errno.EXDEV: "The queue's folder must lie on one filesystem, .taskpit included.",
    }
    where = error.filename or ""
    message = f"{error.strerror or error}: {where}" if where else str(error.strerror or error)
    return Storage(message, hint=hints.get(error.errno or 0, ""), errno=error.errno, path=str(where))
