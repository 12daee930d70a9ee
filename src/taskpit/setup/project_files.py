"""Reading and writing in one project, atomically and never out of it. Knows files, nothing of what stands in them."""

from __future__ import annotations

import os
import stat

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.records import Value

__all__ = ["ProjectFolder", "ReadFile"]

#: Settings and notes are smaller than this.
LARGEST = 4 * 1024 * 1024


class ReadFile(Value):
    """A file as it was when it was read."""

    #: As people call it, and where it really is.
    name: str
    path: str
    #: None if it is not there.
    data: bytes | None
    mode: int = 0o644
    mark: tuple[int, int, int] = (0, 0, 0)


class ProjectFolder:
    """One project's folder."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def see(self, name: str) -> ReadFile:
        """The file of this name, or that there is none; Invalid if it is nothing we could write."""
        path = os.path.realpath(os.path.join(self.root, name))
        if os.path.commonpath((self.root, path)) != self.root:
            raise Invalid(f"{name} leads out of the project, to {path}", path=name)
        if not os.path.lexists(path):
            if os.path.islink(os.path.join(self.root, name)):
                raise Invalid(f"{name} is a link that leads nowhere", path=name)
            return ReadFile(name=name, path=path, data=None)
        try:
            data, status = fs.read(path, LARGEST)
        except OSError as error:
            raise Invalid(f"{name} cannot be read: {error.strerror or error}", path=name) from error
        mode = stat.S_IMODE(status.st_mode)
        return ReadFile(name=name, path=path, data=data, mode=mode, mark=_mark(status))

    def refuse_read_only(self, seen: ReadFile) -> None:
        """Invalid if its owner does not want it changed."""
        if seen.data is not None and not (seen.mode & 0o222 and os.access(seen.path, os.W_OK)):
            raise Invalid(f"{seen.name} is read-only", path=seen.name)

    def write(self, seen: ReadFile, data: bytes | None) -> None:
        """The file holds these bytes now, or is gone; readers see the old or the new, whole."""
        status = fs.status(seen.path)
        if (_mark(status) if status else None) != (seen.mark if seen.data is not None else None):
            raise Invalid(f"{seen.name} was changed by another program meanwhile", hint="Repeat the command.")
        if data is None:
            fs.remove(seen.path)
            self._tidy(os.path.dirname(seen.path))
            return
        fs.make_dir(os.path.dirname(seen.path))
        scratch = f"{seen.path}.{fs.fresh_name()}.tmp"
        fs.create(scratch, data, sync=True)
        try:
            if seen.data is not None:
                fs.set_mode(scratch, seen.mode)
            fs.move(scratch, seen.path)
        except OSError:
            fs.remove(scratch)
            raise

    def _tidy(self, folder: str) -> None:
        """Folders that hold nothing any more go with what they held."""
        while folder != self.root and folder.startswith(self.root + os.sep):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)


def _mark(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
