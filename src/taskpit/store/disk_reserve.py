"""Room kept back so that a claimed task can be finished on a full disk. Knows files of no meaning, no tasks.

Work that is done must not be lost because a log has filled the disk. So a queue holds a few small files for nothing
else but to be given up when an end finds no room, for their blocks and for their inodes; a sweep makes them again
once there is room. Who fills the disk may take what was given up: then the end is refused as before, and repeated.
"""

from __future__ import annotations

import errno
from contextlib import suppress

from taskpit import fs
from taskpit.store.folder import HIDDEN, Folder

#: An end writes at most five small files, and may need a directory; results longer than all of it must wait for room.
PIECES = 6
SIZE = 16 * 1024
FULL = (errno.ENOSPC, errno.EDQUOT)


def _paths(folder: Folder) -> list[str]:
    return [folder.at(f"{HIDDEN}/ballast.{number}") for number in range(1, PIECES + 1)]


def hold(folder: Folder) -> None:
    """All of it is there, as far as there is room. A power loss may have left a piece that holds nothing."""
    for path in _paths(folder):
        status = fs.status(path)
        if status is not None and status.st_size < SIZE:
            fs.remove(path)
        elif status is not None:
            continue
        try:
            with suppress(FileExistsError):  # another keeper was faster
                fs.create(path, bytes(SIZE), sync=False)
        except OSError as error:
            if error.errno in FULL:
                return
            raise


def make_room(folder: Folder, refused: OSError) -> bool:
    """A step was refused: where there was no room, all that is held back is given up. Whether that made any."""
    return refused.errno in FULL and sum(map(fs.remove, _paths(folder))) > 0
