"""Every system call that touches the queue's folder, and nothing about tasks.

Each function says what has happened when it returns. Expected refusals (another was first) are return values; surprises
are OSError. Before every single call a hook gives the test suites a place to stop, fail or kill. What lies beneath a
queue's root is reached from its open directories (see `taskpit.held_directories`): no link is followed, no FIFO waited
for, nothing but regular files is read, and never more of them than the caller says. What ends in `_at` takes such a
directory and a name in it, which its caller has made of checked parts; the same by its path is for all else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat as stat_module
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from taskpit import kernel
from taskpit.held_directories import (
    ANYWHERE,
    Dir,
    Foreign,
    NotADirectory,
    NotAFile,
    at,
    directory,
    forget,
    is_held,
    open_again,
    path_in,
    renewed,
    wall,
)
from taskpit.nonces import fresh_name

#: What stands elsewhere and is had from here.
__all__ = ["Dir", "Foreign", "NotADirectory", "NotAFile", "directory", "fresh_name", "path_in", "wall"]

Stat = os.stat_result
_hook: Callable[[str, str], int | None] | None = None


def set_hook(hook: Callable[[str, str], int | None] | None) -> None:
    """Have `hook(call, path)` run before every call here, for tests; from a write its number of bytes is kept."""
    global _hook  # noqa: PLW0603 - one process, one place to stop
    _hook = hook


def step(call: str, what: str) -> int | None:
    """A call of ours, or something else that changes the disk, is about to happen: a place for fault tests."""
    return None if _hook is None else _hook(call, what)


class TooBig(OSError):
    """The file is over the limit."""


#: Never follows a link out of the queue and never waits for the other end of a FIFO.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: A FIFO would take what is written and never give it back; of a regular file O_NONBLOCK changes nothing.
WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Where the kernel shows what this process has open.
OPENED = "/proc/self/fd"


def read(path: str, limit: int) -> tuple[bytes, Stat]:
    """The bytes of a regular file and its status, or NotAFile, TooBig, OSError."""
    return read_at(*at(path), limit)


def read_at(there: Dir, name: str, limit: int) -> tuple[bytes, Stat]:
    """The same of a name in an open directory."""
    if _hook is not None:
        _hook("open", path_in(there, name))
    try:
        fd = os.open(name, READ, dir_fd=there.fd)
    except OSError as error:
        fd = open_again(error, there, name, READ)
    try:
        status = os.fstat(fd)
        if not stat_module.S_ISREG(status.st_mode):
            raise NotAFile(errno.EINVAL, "not a regular file", path_in(there, name))
        size = status.st_size
        if size > limit:
            raise TooBig(errno.EFBIG, f"{size} bytes, the limit is {limit}", path_in(there, name))
        if _hook is not None:
            _hook("read", path_in(there, name))
        data = os.read(fd, size + 1)
        while size < len(data) <= limit and (more := os.read(fd, 65536)):  # it grows under our eyes
            data += more
        return data, status
    finally:
        os.close(fd)


def written(path: str) -> tuple[Stat, bool | None]:
    """The status of a regular file, asked for anew, and whether a program has it open for writing (None: who knows)."""
    fd, status = open_regular(path, READ)
    try:
        return status, kernel.has_writer(fd)
    finally:
        os.close(fd)


def _open(there: Dir, name: str, flags: int, mode: int = 0o666) -> int:
    """The open file of this name in this directory; NotAFile if it is a link or nobody can read or write it."""
    try:
        return os.open(name, flags, mode, dir_fd=there.fd)
    except OSError as error:
        return open_again(error, there, name, flags, mode)


def open_regular(path: str, flags: int, mode: int = 0o666) -> tuple[int, Stat]:
    """The open file and its status; NotAFile if it is not a regular one."""
    if _hook is not None:
        _hook("open", path)
    fd = _open(*at(path), flags, mode)
    try:
        status = os.fstat(fd)
        if not stat_module.S_ISREG(status.st_mode):
            raise NotAFile(errno.EINVAL, "not a regular file", path)
    except OSError:
        os.close(fd)
        raise
    return fd, status


def open_file(path: str, *, empty: bool = False, mode: int = 0o666) -> int:
    """A regular file that others go on with, open to be read and appended to; made if it is not there."""
    fd, _ = open_regular(path, APPEND | os.O_NONBLOCK | empty * os.O_TRUNC, mode)
    os.set_blocking(fd, True)  # whoever inherits it expects an ordinary file
    return fd


def write(path: str, data: bytes, *, mode: int = 0o666) -> None:
    """The file holds these bytes and no others; not in one step, for what nobody else reads meanwhile."""
    fd, _ = open_regular(path, WRITE, mode)
    try:
        os.ftruncate(fd, 0)
        _write_all(fd, data, path)
    finally:
        os.close(fd)


def piece(path: str, start: int, size: int) -> bytes:
    """Up to `size` bytes of a file from `start` on."""
    fd, _ = open_regular(path, READ)
    try:
        return os.pread(fd, size, start)
    finally:
        os.close(fd)


def create(path: str, data: bytes, *, sync: bool, mode: int = 0o666) -> None:
    """A new file with these bytes, on the disk if `sync`; FileExistsError if the name is taken.

    A name that could not be written in full is taken away again.
    """
    create_at(*at(path), data, sync=sync, mode=mode)


def create_at(there: Dir, name: str, data: bytes, *, sync: bool, mode: int = 0o666) -> None:
    """The same in an open directory."""
    if _hook is not None:
        _hook("create", path_in(there, name))
    try:
        fd = os.open(name, CREATE, mode, dir_fd=there.fd)
    except OSError as error:
        fd = open_again(error, there, name, CREATE, mode)
    try:
        written = 0 if _hook is not None or not data else os.write(fd, data)
        if written < len(data):
            _write_all(fd, data[written:], path_in(there, name))
        if sync:
            if _hook is not None:
                _hook("fsync", path_in(there, name))
            os.fsync(fd)
    except OSError:
        os.close(fd)
        remove_at(there, name)
        raise
    os.close(fd)


def _write_all(fd: int, data: bytes, path: str) -> None:
    while True:
        most = None if _hook is None else _hook("write", path)
        written = os.write(fd, data if most is None else data[:most])
        if written == len(data):
            return
        data = data[written:]


def write_once(fd: int, data: bytes, path: str) -> bool:
    """One write; whether all of it was taken."""
    most = None if _hook is None else _hook("write", path)
    return os.write(fd, data if most is None else data[:most]) == len(data)


def replace(path: str, data: bytes, scratch: str = "", *, sync: bool, mode: int = 0o666) -> None:
    """`path` now has these bytes; readers see the old or the new, whole. They are written to `scratch` first, which
    stands beside it unless another place is named.
    """
    scratch = scratch or f"{path}~{fresh_name()}"
    create(scratch, data, sync=sync, mode=mode)
    if _hook is not None:
        _hook("rename", path)
    (here, old), (there, new) = at(scratch), at(path)
    os.rename(old, new, src_dir_fd=here.fd, dst_dir_fd=there.fd)


def overwrite(fd: int, data: bytes, path: str) -> None:
    """The open file now holds these bytes, written in place: for records whose lock is the open file."""
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at:][: step("write", path)], at)
    os.ftruncate(fd, len(data))


def sync_file(fd: int, path: str) -> None:
    """What was written to the open file is on the disk."""
    if _hook is not None:
        _hook("fsync", path)
    os.fsync(fd)


def sync_path(path: str, *, touch: bool = False) -> None:
    """What was written to this file, and the names it has by now, are on the disk; FileNotFoundError if it is gone.

    With `touch`, so is every name that was made or moved before, where the disk keeps their order: an fsync settles a
    journal up to the file's own last change, so the file is changed last. PermissionError if it is another user's.
    """
    fd, _ = open_regular(path, READ)
    try:
        if touch:
            if _hook is not None:
                _hook("utime", path)
            os.utime(fd)
        sync_file(fd, path)
    finally:
        os.close(fd)


def link(source: str, target: str) -> bool:
    """`target` is another name of `source`; False if that name is taken. Never replaces."""
    return link_at(*at(source), *at(target))


def link_at(here: Dir, old: str, there: Dir, new: str) -> bool:
    """The same from one open directory to another."""
    if _hook is not None:
        _hook("link", path_in(there, new))
    try:
        os.link(old, new, src_dir_fd=here.fd, dst_dir_fd=there.fd, follow_symlinks=False)
    except FileExistsError:
        return False
    except FileNotFoundError:
        if not (again := renewed(here, there)):
            raise
        return link_at(again[0], old, again[1], new)
    return True


def move(source: str, target: str) -> bool:
    """`source` is now called `target`, in one step; False if there is no `source`. Replaces."""
    try:
        return move_at(*at(source), *at(target))
    except FileNotFoundError:
        return False


def move_at(here: Dir, old: str, there: Dir, new: str) -> bool:
    """The same from one open directory to another."""
    if _hook is not None:
        _hook("rename", path_in(here, old))
    try:
        os.rename(old, new, src_dir_fd=here.fd, dst_dir_fd=there.fd)
    except FileNotFoundError:
        try:
            if not (again := renewed(here, there)):
                return False
            os.rename(old, new, src_dir_fd=again[0].fd, dst_dir_fd=again[1].fd)
        except FileNotFoundError:
            return False
    return True


def move_new(source: str, target: str) -> bool:
    """Like `move`, but a taken `target` raises FileExistsError instead of being replaced.

    Where the kernel or the filesystem has no such call the target is looked at first: the window
    that leaves is open only to programs outside the protocol.
    """
    try:
        return move_new_at(*at(source), *at(target))
    except FileNotFoundError:
        return False


def move_new_at(here: Dir, old: str, there: Dir, new: str) -> bool:
    """The same from one open directory to another."""
    if _hook is not None:
        _hook("rename", path_in(here, old))
    code = kernel.rename_new(old, new, here.fd, there.fd)
    if code == errno.ENOENT:
        try:
            if not (again := renewed(here, there)):
                return False
        except FileNotFoundError:
            return False
        here, there = again
        code = kernel.rename_new(old, new, here.fd, there.fd)
    if code in (0, errno.ENOENT):
        return code == 0
    if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise OSError(code, os.strerror(code), path_in(here, old), None, path_in(there, new))
    if status_at(there, new) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path_in(there, new))
    return move_at(here, old, there, new)


def remove(path: str) -> bool:
    """The name is gone; False if it was not there."""
    try:
        return remove_at(*at(path))
    except FileNotFoundError:
        return False


def remove_at(there: Dir, name: str) -> bool:
    """The same in an open directory."""
    if _hook is not None:
        _hook("unlink", path_in(there, name))
    try:
        os.unlink(name, dir_fd=there.fd)
    except FileNotFoundError:
        return False
    return True


def remove_dir(path: str) -> None:
    """The empty directory is gone; OSError if it is not empty, or none."""
    step("rmdir", path)
    there, name = at(path)
    os.rmdir(name, dir_fd=there.fd)


def set_times(path: str, modified: float | None) -> bool:
    """The file's mtime is `modified` (None: now), its ctime is now; False if the name is gone.

    By path, never by descriptor: a descriptor would follow the file into somebody else's claim.
    """
    try:
        return set_times_at(*at(path), modified)
    except FileNotFoundError:
        return False


def set_times_at(there: Dir, name: str, modified: float | None) -> bool:
    """The same of a name in an open directory."""
    if _hook is not None:
        _hook("utime", path_in(there, name))
    try:
        times = None if modified is None else (modified, modified)
        os.utime(name, times, dir_fd=there.fd, follow_symlinks=False)
    except FileNotFoundError:
        try:
            again = renewed(there)
        except FileNotFoundError:
            return False
        return bool(again) and set_times_at(again[0], name, modified)
    return True


def set_mode(path: str, mode: int) -> None:
    """Its owner, group and others may do with it what these bits say; it need not be readable before."""
    step("chmod", path)
    fd = _open(*at(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat_module.S_ISLNK(os.fstat(fd).st_mode):
            raise NotAFile(errno.ELOOP, "not a regular file", path)
        os.chmod(f"{OPENED}/{fd}", mode)
    finally:
        os.close(fd)


def status(path: str) -> Stat | None:
    """The status of what stands under this name itself, or None."""
    try:
        return status_at(*at(path))
    except FileNotFoundError:
        return None


def status_at(there: Dir, name: str) -> Stat | None:
    """The same of a name in an open directory."""
    if _hook is not None:
        _hook("stat", path_in(there, name))
    try:
        return os.stat(name, dir_fd=there.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def file_size(path: str) -> int:
    """How many bytes a plain file has; 0 for all that is none."""
    try:
        found = status(path)
    except OSError:
        return 0
    return found.st_size if found is not None and stat_module.S_ISREG(found.st_mode) else 0


def foreign(path: str) -> str:
    """Why what stands under this name is not plainly this user's or root's, in words; empty if it is.

    The one judge of whose something is: by the name itself, whatever a link leads to; by that only as well.
    """
    found, plain = os.lstat(path), (os.geteuid(), 0)
    for owner in (found.st_uid, os.stat(path).st_uid if stat_module.S_ISLNK(found.st_mode) else found.st_uid):
        if owner not in plain:
            return f"belongs to another user (uid {owner})"
    return ""


def exists(path: str) -> bool:
    """Whether anything stands under this name."""
    return status(path) is not None


def names(path: str) -> list[str]:
    """The entries of a directory, unordered; not a snapshot while others rename. Empty if it is missing."""
    step("list", path)
    try:
        found: list[str] = _listing(path, os.listdir)
    except FileNotFoundError:
        return []
    return found


def scan(path: str) -> Iterator[os.DirEntry[str]]:
    """The entries of a directory with what a listing tells of each; FileNotFoundError if it is missing."""
    step("list", path)
    with _listing(path, os.scandir) as found:
        yield from found


def _listing(path: str, how: Callable[[str], Any]) -> Any:
    """A listing opens the directory anew, by the name that the open one has: threads must not share a place in it."""
    there = directory(path)
    if there is ANYWHERE:
        return how(path)
    try:
        return how(f"{OPENED}/{there.fd}")
    except FileNotFoundError:  # this system does not show what is open
        fd = os.open(".", DIRECTORY, dir_fd=there.fd)
        try:
            return how(fd)  # type: ignore[arg-type]
        finally:
            os.close(fd)
    except OSError as error:
        error.filename = path
        raise


def make_dir(path: str) -> None:
    """The directory exists, with its parents; an open queue's folder that is gone is not made again, empty."""
    step("mkdir", path)
    parts, folder = [], path
    forget(path)
    while True:
        try:
            there = directory(folder)
            break
        except FileNotFoundError:
            if folder != path and is_held(folder):
                raise
            folder, _, part = folder.rpartition("/")
            parts.append(part)
    if there is ANYWHERE:
        os.makedirs(path, exist_ok=True)
        return
    for part in reversed(parts):
        there = directory(folder)
        folder = f"{folder}/{part}"
        try:
            os.mkdir(part, dir_fd=there.fd)
        except FileExistsError:  # another was faster: it must be a directory
            directory(folder)


def sync_dir(path: str) -> None:
    """The directory's entries are on the disk."""
    _sync(path, "fsync", os.fsync)


def sync_all(path: str) -> None:
    """All that was written to this directory's filesystem is on the disk, if `kernel.syncs_filesystems` says so."""
    _sync(path, "syncfs", kernel.sync_filesystem)


def _sync(path: str, call: str, how: Callable[[int], None]) -> None:
    step(call, path)
    there = directory(path)
    fd = os.open(path, DIRECTORY) if there.fd is None else there.fd
    try:
        how(fd)
    finally:
        if there.fd is None:
            os.close(fd)


def look_anew(path: str) -> None:
    """A network filesystem asks again what it remembers of this directory's names: to open it makes it."""
    step("open", path)
    os.close(_open(*at(path), DIRECTORY))


def append(path: str, data: bytes, *, piece: bool = False) -> int:
    """These bytes are at the end of the file, in one write, on a line of their own; made if it is not there.
    A `piece` is no line: it is there as it is, and on the disk. Where the file ended before.

    Writers take turns under a lock; a tail that a killed writer left torn is ended first: it spoils only itself.
    """
    step("open", path)
    fd = _open(*at(path), APPEND | os.O_NONBLOCK)
    try:
        step("flock", path)
        _take_turn(fd)
        end = os.lseek(fd, 0, os.SEEK_END)
        if end and not piece and os.pread(fd, 1, end - 1) != b"\n":
            data = b"\n" + data
        _write_all(fd, data, path)
        if piece:
            os.fsync(fd)
        return end
    finally:
        os.close(fd)


#: How long an append waits for its turn, in seconds.
TURN = 0.5


def _take_turn(fd: int) -> None:
    """Wait for the lock, but not for ever for a writer that was stopped with it: one write is whole without, too."""
    deadline, pause = time.monotonic() + TURN, 0.0002
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return
        time.sleep(pause)
        pause = min(pause * 2, 0.01)


def above(folder: str, name: str) -> str:
    """Return the nearest directory, this one or one above it, in which something has this name.

    Empty if there is none. An empty directory does not count: an empty `.git` is no checkout.
    """
    while not _is_something(f"{folder}/{name}"):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return ""
    return folder


def _is_something(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except NotADirectoryError:
        return True
    except FileNotFoundError:
        return False
    except OSError:
        return os.path.lexists(path)


class Flock:
    """An exclusive lock on a file that is never deleted, held from `take` until `drop`.

    The kernel lets go when the process ends, however it ends: holding one is proof of life.
    """

    __slots__ = ("_fd", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd: int | None = None

    def take(self, *, wait: bool = True) -> bool:
        """The lock is ours; False if somebody has it and we don't wait."""
        step("flock", self.path)
        fd = _open(*at(self.path), WRITE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BaseException as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._fd = fd
        return True

    @property
    def fd(self) -> int:
        """The open file behind a lock that is held."""
        if self._fd is None:
            raise RuntimeError(f"{self.path} is not held")
        return self._fd

    def drop(self) -> None:
        """Let go; nothing happens if it was not held."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()


def tail(path: str, size: int) -> bytes:
    """The last `size` bytes of a file, from the start of a line; empty if it is missing."""
    try:
        fd, status = open_regular(path, READ)
    except FileNotFoundError:
        return b""
    try:
        data = os.pread(fd, size, max(status.st_size - size, 0))
    finally:
        os.close(fd)
    return data if status.st_size <= size else data[data.find(b"\n") + 1 :]
