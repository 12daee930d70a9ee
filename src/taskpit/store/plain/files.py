"""The port to the disk: every call that the folder store makes to the operating system is a method here.

Paths are texts relative to the queue's root, `folder/name`, with `/` between the parts: `food/food-0001-x.md`,
`.taskpit/open/0001`. A folder may have several parts (`.taskpit/open`); the last part is a name in that folder.
No part is empty, `.` or `..`; such a path raises OSError EINVAL before anything is done.

The rules of every call:

- One call is one step: it has happened when it returns, and not at all when it raises, unless its docstring says more.
- No link is followed below the root, no FIFO or device is waited for. A folder of the path that is a link or no
  directory raises NotADirectoryError. A folder that is missing raises FileNotFoundError, also in calls that answer
  False for a missing name of an existing folder, except where the docstring says that it is answered likewise.
- A folder of the path that belongs to another user raises PermissionError, unless the queue is shared: see `_open_dir`.
- What is expected in normal operation is an answer (None, False); all else is an OSError with its errno.
- `stat` results are `os.stat_result` (`st_mode st_ino st_dev st_nlink st_uid st_gid st_size st_mtime st_mtime_ns
  st_ctime st_ctime_ns`). Times of calls are seconds since 1970 as floats.
- Methods may be called from several threads at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import sqlite3
import stat as modes
import struct
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

Stat = os.stat_result

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: renameat2 and openat2 as Linux numbers them; a kernel or library without them answers ENOSYS.
NOREPLACE, EXCHANGE = 1, 2
OPENAT2, BENEATH, NO_SYMLINKS = 437, 0x08, 0x04
UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
#: Filesystems by the number that statfs tells.
EXT4, XFS, BTRFS, TMPFS, OVERLAY, F2FS = 0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010
LOCAL = frozenset((EXT4, XFS, BTRFS, TMPFS, OVERLAY, F2FS, 0x2FC12FC1, 0xCA451A4E))
#: What is no name in a folder.
DOTS = frozenset(("", ".", ".."))
#: A folder that was opened is compared with its path again after this many seconds.
COMPARE_AFTER = 1.0
#: inotify: closed after writing, moved from and to, made, removed; the queue of events overflowed; the folder is gone.
WATCHED = 0x8 | 0x40 | 0x80 | 0x100 | 0x200
OVERFLOW, UNMOUNTED, IGNORED = 0x4000, 0x2000, 0x8000
EVENT = struct.Struct("iIII")


class NotAFile(OSError):
    """A link, directory, FIFO, socket or device is there instead of a regular file."""


class TooBig(OSError):
    """The file is larger than the caller allows."""


class Entry(NamedTuple):
    """One name of a listing, without a look at the file."""

    name: str
    inode: int
    is_file: bool


class Disk(NamedTuple):
    """What is known of the filesystem below the root."""

    #: Names reach the disk in the order in which they were made, and one fsync brings all earlier ones: ext4 with a
    #: journal, XFS.
    ordered: bool
    #: Only programs of this machine write here, so notifications and flock reach all of them.
    local: bool


class Files:
    """The files below one root. One object per store; closed with it."""

    def __init__(self, root: str) -> None:
        """`root` may be reached through links: a person named it. It need not exist before `make_dir("")`."""
        self.root = root
        self._folders: dict[str, _Folder] = {}
        #: Files that were appended to stay open, and are compared with their names like folders.
        self._logs: dict[str, _Log] = {}
        self._logging = threading.Lock()
        self._disk: Disk | None = None
        self._opened = weakref.WeakSet[LockFile | Watch]()
        _all.add(self)

    # -- looking -----------------------------------------------------------------------------------------------------

    def stat(self, path: str, *, fresh: bool = False) -> Stat | None:
        """Return the status of the name itself (a link is not followed), or None if name or folder is missing.

        `fresh`: a network filesystem asks its server again instead of answering from its cache.
        """
        try:
            if fresh and path:
                self._forget(path.rpartition("/")[0])
            there, name = self._at(path)
            return os.stat(name, dir_fd=there.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, path: str, limit: int) -> tuple[bytes, Stat]:
        """Return all bytes of a regular file, and its status when it was opened.

        FileNotFoundError if it is missing, NotAFile if it is something else, TooBig if it has more than `limit` bytes,
        PermissionError if it may not be read. A file that grows during the call is read to the end it has then.
        """
        with self.open(path) as file:
            return file.read(limit), file.stat

    def open(self, path: str) -> OpenFile:
        """Open a regular file for reading. The same errors as `read`.

        Calls on the handle reach this inode, whatever happens to its name. It must be closed; it is a context manager.
        """
        there, name = self._at(path)
        try:
            fd = os.open(name, READ, dir_fd=there.fd)
        except OSError as error:
            raise _named(error, path) from None
        try:
            found = os.fstat(fd)
            if not modes.S_ISREG(found.st_mode):
                raise NotAFile(errno.EINVAL, "not a regular file", path)
        except OSError:
            os.close(fd)
            raise
        return OpenFile(fd, path, found)

    def piece(self, path: str, start: int, size: int) -> tuple[bytes, int]:
        """Return up to `size` bytes from `start` on, and the size of the file; (b"", 0) if name or folder is missing.

        A negative `start` counts from the end, at most to the beginning.
        """
        try:
            with self.open(path) as file:
                total = file.stat.st_size
                begin = max(total + start, 0) if start < 0 else start
                return file.piece(begin, size), total
        except FileNotFoundError:
            return b"", 0

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, in no order; [] if the folder is missing.

        Not a snapshot: a name that is renamed during the call may be missed or seen twice.
        """
        return [entry.name for entry in self.entries(folder)]

    def entries(self, folder: str) -> list[Entry]:
        """List the same with what the listing itself tells: inode number and whether it is a regular file."""
        with self._listing(folder) as found:
            return [Entry(one.name, one.inode(), one.is_file(follow_symlinks=False)) for one in found]

    def scan(self, folder: str) -> list[tuple[str, Stat]]:
        """List the names in a folder, each with its status by a call of its own; names gone by then are left out."""
        rows = []
        with self._listing(folder) as found:
            for one in found:
                with contextlib.suppress(FileNotFoundError):
                    rows.append((one.name, one.stat(follow_symlinks=False)))
        return rows

    @contextlib.contextmanager
    def _listing(self, folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        try:
            fd = os.open(
                ".", DIRECTORY, dir_fd=self.folder(folder).fd
            )  # of its own: threads must not share a place in it
        except FileNotFoundError:
            yield iter(())
            return
        try:
            with os.scandir(fd) as found:
                yield found
        finally:
            os.close(fd)

    def may_write(self, path: str) -> bool:
        """Tell whether this user may read and change the file or folder of this path, as far as permissions tell."""
        try:
            there, name = self._at(path)
            return os.access(name, os.R_OK | os.W_OK, dir_fd=there.fd)
        except OSError:
            return False

    def disk(self) -> Disk:
        """Tell what filesystem this is. Asked once; the answer is kept."""
        if self._disk is None:
            root = self.folder("")
            kind = _filesystem(root.fd)
            self._disk = Disk(ordered=_is_ordered(kind, root.fd), local=kind in LOCAL)
        return self._disk

    # -- bytes -------------------------------------------------------------------------------------------------------

    def create(self, path: str, data: bytes, *, modified: float | None = None, sync: bool = False) -> Stat:
        """Make a new file with these bytes; FileExistsError if the name is taken by anything. Its status afterwards.

        `modified` becomes its mtime, before anything is fsynced; `sync` fsyncs the bytes (not the name). When writing
        fails, the name is removed again and the error raised. A process that is killed can leave a part of the bytes.
        """
        there, name = self._at(path)
        try:
            fd = os.open(name, CREATE, 0o666, dir_fd=there.fd)
        except OSError as error:
            raise _named(error, path) from None
        try:
            _write_all(fd, data)
            if modified is not None:
                os.utime(fd, (modified, modified))
            if sync:
                os.fsync(fd)
            return os.fstat(fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=there.fd)
            raise
        finally:
            os.close(fd)

    def append(self, path: str, data: bytes) -> int:
        """Append these bytes by one write; the file is made if it is missing. Returns where it ended before.

        NotAFile if something else is there. When the write fails, a part of the bytes may be there.
        """
        there, name = self._at(path)
        with self._logging:
            held = self._logs.get(path)
            if held is None or held.folder is not there or held.is_old(name):
                held = self._logs[path] = _Log(self._open_write(path, os.O_APPEND), there)
            end = os.lseek(held.fd, 0, os.SEEK_END)
            _write_all(held.fd, data)
            return end

    def write_at(self, path: str, start: int, data: bytes, *, cut: bool = False) -> None:
        """Overwrite bytes from `start` on, in place; the file is made if it is missing. `cut`: it ends after them.

        Not in one step: for files that only one process reads and writes, and for logs that grow.
        """
        fd = self._open_write(path, 0)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(fd, data[done:], start + done)
            if cut:
                os.ftruncate(fd, start + len(data))
        finally:
            os.close(fd)

    def _open_write(self, path: str, flags: int) -> int:
        there, name = self._at(path)
        try:
            fd = os.open(name, WRITE | flags, 0o666, dir_fd=there.fd)
        except OSError as error:
            raise _named(error, path) from None
        if not modes.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotAFile(errno.EINVAL, "not a regular file", path)
        return fd

    # -- names -------------------------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> bool:
        """Give the file `source` one more name, `target`. False if `target` is taken by anything: never replaces.

        FileNotFoundError if `source` is missing.
        """
        (here, old), (there, new) = self._at(source), self._at(target)
        try:
            os.link(old, new, src_dir_fd=here.fd, dst_dir_fd=there.fd, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            raise _named(error, source) from None
        return True

    def move(self, source: str, target: str) -> bool:
        """Rename `source` to `target`; FileExistsError if `target` is taken by anything: never replaces.

        False if `source` is missing. Anything can be moved, also a link or a directory. Two names of one file: both
        stay and FileExistsError is raised. Where the filesystem cannot refuse to replace, `target` is looked at first.
        """
        (here, old), (there, new) = self._at(source), self._at(target)
        code = _rename(here.fd, old, there.fd, new, NOREPLACE)
        if code in UNSUPPORTED:
            if self.stat(target) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            return self.replace(source, target)
        if code not in (0, errno.ENOENT):
            raise OSError(code, os.strerror(code), source, None, target)
        return code == 0

    def replace(self, source: str, target: str) -> bool:
        """Rename `source` to `target`, replacing a file there in the same step. False if `source` is missing.

        Two names of one file: nothing happens, both stay, and True is returned (POSIX).
        """
        (here, old), (there, new) = self._at(source), self._at(target)
        try:
            os.rename(old, new, src_dir_fd=here.fd, dst_dir_fd=there.fd)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _named(error, source) from None
        return True

    def exchange(self, one: str, other: str) -> bool:
        """Swap what two names name, in one step. False if one is missing, or if the filesystem cannot do it."""
        (here, old), (there, new) = self._at(one), self._at(other)
        code = _rename(here.fd, old, there.fd, new, EXCHANGE)
        if code not in (0, errno.ENOENT, *UNSUPPORTED):
            raise OSError(code, os.strerror(code), one, None, other)
        return code == 0

    def remove(self, path: str) -> bool:
        """Remove a name; False if it was missing. IsADirectoryError or PermissionError for a directory."""
        try:
            there, name = self._at(path)
            os.unlink(name, dir_fd=there.fd)
        except FileNotFoundError:
            return False
        return True

    def make_dir(self, folder: str, mode: int | None = None) -> None:
        """Make a folder with those above it, unless it exists; NotADirectoryError if something else is there.

        "" is the root. Each one that is made gets `mode`, set explicitly: no umask narrows it. None: the umask decides.
        """
        if not folder:
            os.makedirs(self.root, exist_ok=True)
            return
        above, _, name = folder.rpartition("/")
        try:
            there = self.folder(above)
        except FileNotFoundError:
            self.make_dir(above, mode)
            there = self.folder(above)
        try:
            os.mkdir(name, dir_fd=there.fd)
        except FileExistsError:
            self._forget(folder)
            self.folder(folder)
            return
        if mode is not None:
            self.set_mode(folder, mode)

    def remove_dir(self, folder: str) -> None:
        """Remove an empty folder; OSError ENOTEMPTY if it is not empty, FileNotFoundError if it is missing."""
        there, name = self._at(folder)
        self._forget(folder)
        os.rmdir(name, dir_fd=there.fd)

    def set_times(self, path: str, modified: float | None) -> bool:
        """Set the mtime of the name itself to `modified`, or to now if None. False if name or folder is missing.

        PermissionError if the file is another user's; with None it needs only the right to write.
        """
        try:
            there, name = self._at(path)
            os.utime(name, None if modified is None else (modified, modified), dir_fd=there.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or folder. NotAFile for a link."""
        there, name = self._at(path)
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=there.fd)
        try:
            if modes.S_ISLNK(os.fstat(fd).st_mode):
                raise NotAFile(errno.ELOOP, "not a regular file", path)
            os.chmod(f"/proc/self/fd/{fd}", mode)
        finally:
            os.close(fd)

    # -- durability --------------------------------------------------------------------------------------------------

    def sync(self, path: str, *, touch: float | None = None) -> bool:
        """Flush the bytes of the file to the disk (fsync); False if name or folder is missing.

        `touch`: its mtime is set to this first, through the same descriptor. On an ordered disk (`disk`) this is the
        newest change of that inode, so the fsync also commits every name that was made before it.
        """
        try:
            file = self.open(path)
        except FileNotFoundError:
            return False
        with file:
            if touch is not None:
                with contextlib.suppress(PermissionError):  # another user's file: its bytes can be flushed all the same
                    file.set_times(touch)
            file.sync()
        return True

    def sync_dir(self, folder: str) -> None:
        """Flush the names in this folder, as they are now, to the disk."""
        os.fsync(self.folder(folder).fd)

    # -- waiting and turns -------------------------------------------------------------------------------------------

    def lock_file(self, path: str) -> LockFile:
        """Open a file to lock, made if it is missing, open until it is closed. NotAFile if something else is there."""
        fd = self._open_write(path, 0)
        handle = LockFile(self, path, fd)
        self._opened.add(handle)
        return handle

    def is_locked(self, path: str) -> bool:
        """Tell whether a process holds the lock of this file; False if it is missing.

        Takes no lock that another caller of this method could take for a holder.
        """
        try:
            file = self.open(path)
        except FileNotFoundError:
            return False
        with file:
            try:
                fcntl.flock(file.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def watch(self, folders: Sequence[str]) -> Watch | None:
        """Begin to watch these folders; None where the kernel notifies of nothing (then the caller polls)."""
        if not self.disk().local:
            return None
        handle = Watch.begin(self, folders)
        if handle is not None:
            self._opened.add(handle)
        return handle

    def database(self, path: str) -> sqlite3.Connection:
        """Open a SQLite database in this file, made if it is missing; other processes may use it at the same time.

        sqlite3.Error if it is damaged. Derived data only: it may be removed at any time.
        """
        self.folder(path.rpartition("/")[0])
        found = self.stat(path)
        if found is not None and not modes.S_ISREG(found.st_mode):
            raise NotAFile(errno.EINVAL, "not a regular file", path)
        return sqlite3.connect(f"{self.root}/{path}", timeout=1.0, isolation_level=None, check_same_thread=False)

    # -- the process -------------------------------------------------------------------------------------------------

    def process(self) -> int:
        """Return the number of this process: another one in a child that was forked."""
        return os.getpid()

    def host(self) -> str:
        """Return this machine's name."""
        return os.uname().nodename

    def user(self) -> int:
        """Return the effective user's number."""
        return os.geteuid()

    def close(self) -> None:
        """Close everything that this object and its handles hold open. Its methods may still be called afterwards."""
        for handle in list(self._opened):
            handle.close()
        self._logs.clear()
        self._folders.clear()

    # -- folders held open -------------------------------------------------------------------------------------------

    def _at(self, path: str) -> tuple[_Folder, str]:
        folder, _, name = path.rpartition("/")
        if name in DOTS:
            raise OSError(errno.EINVAL, "not a name in the queue", path)
        held = self._folders.get(folder)
        if held is None or time.monotonic() - held.compared >= COMPARE_AFTER:
            held = self._open_dir(folder)
        return held, name

    def folder(self, path: str) -> _Folder:
        """Return the open folder of this path; for this module alone."""
        held = self._folders.get(path)
        if held is not None and time.monotonic() - held.compared < COMPARE_AFTER:
            return held
        return self._open_dir(path)

    def _open_dir(self, folder: str) -> _Folder:
        """Open a folder from the root down, following no link; keep the one that is held if it is still this folder.

        A folder must belong to this user, to root or to the root folder's owner; in a shared queue (its root is
        setgid and writable for its group) also to anybody of that group: another user's folder can be changed under
        us at any time.
        """
        if folder:
            if any(part in ("", ".", "..") for part in folder.split("/")):
                raise OSError(errno.EINVAL, "not a folder of the queue", folder)
            found = _Folder(_open_beneath(self.folder("").fd, folder))
        else:
            found = _Folder(os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        held = self._folders.get(folder)
        if held is not None and held.sign == found.sign:
            held.compared = found.compared
            return held
        if folder and found.stat.st_uid not in (os.geteuid(), 0):
            root = os.fstat(self.folder("").fd)
            shared = root.st_mode & modes.S_IWGRP and root.st_mode & modes.S_ISGID
            if found.stat.st_uid != root.st_uid and not (shared and found.stat.st_gid == root.st_gid):
                message = f"this folder of the queue belongs to another user (uid {found.stat.st_uid})"
                raise PermissionError(errno.EPERM, message, folder)
        if held is not None:
            self._forget(folder)
        self._folders[folder] = found
        return found

    def _forget(self, folder: str) -> None:
        for path in [one for one in self._folders if one == folder or not folder or one.startswith(f"{folder}/")]:
            self._folders.pop(path, None)

    def after_fork(self) -> None:
        """Close, in the child, the parent's locks and watches, which would otherwise live as long as this process."""
        for handle in list(self._opened):
            handle.close()


class _Folder:
    """An open folder; closed when nothing uses it any more, so that no thread loses it within a call."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.stat = os.fstat(fd)
        self.sign = (self.stat.st_dev, self.stat.st_ino)
        #: When it was last compared with its path, by the monotonic clock.
        self.compared = time.monotonic()

    def __del__(self) -> None:
        os.close(self.fd)


class _Log:
    """A file that is open for appending; closed when nothing uses it any more."""

    def __init__(self, fd: int, folder: _Folder) -> None:
        self.fd = fd
        self.folder = folder
        self._inode = os.fstat(fd).st_ino
        self._compared = time.monotonic()

    def is_old(self, name: str) -> bool:
        """Tell whether the name may be another file's by now; looked at once a second."""
        now = time.monotonic()
        if now - self._compared < COMPARE_AFTER:
            return False
        self._compared = now
        try:
            return os.stat(name, dir_fd=self.folder.fd, follow_symlinks=False).st_ino != self._inode
        except FileNotFoundError:
            return True

    def __del__(self) -> None:
        os.close(self.fd)


class OpenFile:
    """A regular file that is open for reading."""

    def __init__(self, fd: int, path: str, stat: Stat) -> None:
        self.fd = fd
        self.path = path
        #: Its status when it was opened.
        self.stat = stat

    def read(self, limit: int) -> bytes:
        """Return all bytes; TooBig if there are more than `limit`."""
        size = self.stat.st_size
        if size > limit:
            raise TooBig(errno.EFBIG, f"{size} bytes; {limit} is the most", self.path)
        data = os.read(self.fd, size + 1)
        while size < len(data) <= limit and (more := os.read(self.fd, 65536)):
            data += more
        if len(data) > limit:
            raise TooBig(errno.EFBIG, f"more than {limit} bytes", self.path)
        return data

    def piece(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start` on."""
        return os.pread(self.fd, size, start)

    def set_times(self, modified: float | None) -> None:
        """Set the mtime of this inode to `modified`, or to now if None. PermissionError as in `Files.set_times`."""
        os.utime(self.fd, None if modified is None else (modified, modified))

    def sync(self) -> None:
        """Flush the bytes to the disk (fsync)."""
        os.fsync(self.fd)

    def close(self) -> None:
        """Close it; nothing happens the second time."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LockFile:
    """A file whose lock this process can hold (flock, exclusive).

    The kernel releases it when the process ends, however it ends, or when every descriptor of this open file is closed.
    A second LockFile of the same path is another holder, also in the same process. Not for two threads at once: the
    caller takes turns.
    """

    def __init__(self, files: Files, path: str, fd: int) -> None:
        self.path = path
        self._files = files
        self._fd = fd
        #: How long its text is, as far as is known; other holders write texts of the same length.
        self._length = -1

    def take(self) -> bool:
        """Take the lock; False at once if another holds it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def drop(self) -> None:
        """Release the lock; the file stays open. Nothing happens if it was not held."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def is_current(self) -> bool:
        """Tell whether the path still names this open file: False if the file was removed or replaced."""
        found = self._files.stat(self.path)
        here = os.fstat(self._fd)
        return found is not None and (found.st_dev, found.st_ino) == (here.st_dev, here.st_ino)

    def read(self) -> bytes:
        """Return its text, at most 4,096 bytes."""
        return os.pread(self._fd, 4096, 0)

    def write(self, text: bytes) -> None:
        """Replace its text: written in place, then cut, so a reader may see a mix of both."""
        os.pwrite(self._fd, text, 0)
        if self._length != len(text):
            os.ftruncate(self._fd, len(text))
            self._length = len(text)

    def close(self) -> None:
        """Release the lock and close the file; nothing happens the second time."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Watch:
    """Notifications of changes in some folders.

    They are hints: one may be missing or come twice, and an overflow or a folder that was replaced is answered with
    None. One thread waits; the caller of `changes` holds the store's mutex.
    """

    def __init__(self, files: Files, fd: int, folders: dict[int, str]) -> None:
        self._files = files
        self._fd = fd
        self._folders = folders
        self._known = [files.folder(folder) for folder in folders.values()]

    @classmethod
    def begin(cls, files: Files, folders: Sequence[str]) -> Watch | None:
        """Begin to watch these folders; None if it cannot be done."""
        begin, add = _library("inotify_init1"), _library("inotify_add_watch")
        if begin is None or add is None:
            return None
        fd = begin(os.O_CLOEXEC | os.O_NONBLOCK)
        if fd < 0:
            return None
        watches = {}
        for folder in dict.fromkeys(folders):
            try:
                number = add(fd, f"/proc/self/fd/{files.folder(folder).fd}".encode(), WATCHED)
            except OSError:
                number = -1
            if number < 0:
                os.close(fd)
                return None
            watches[number] = folder
        return cls(files, fd, watches)

    def _are_current(self) -> bool:
        try:
            return all(
                self._files.folder(path) is one for path, one in zip(self._folders.values(), self._known, strict=True)
            )
        except OSError:
            return False

    def changes(self) -> list[tuple[str, str]] | None:
        """List (folder, name) of each entry made, linked, moved in or out, removed, or closed after writing since then.

        None if some may have been missed: list the folders; if it stays None, begin a new watch.
        """
        if self._fd < 0 or not self._are_current():
            return None
        found: list[tuple[str, str]] = []
        complete = True
        while True:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return found if complete else None
            at = 0
            while at < len(data):
                number, mask, _, length = EVENT.unpack_from(data, at)
                at += EVENT.size
                complete = complete and not mask & (OVERFLOW | UNMOUNTED | IGNORED)
                if not mask & OVERFLOW and number in self._folders:
                    found.append((self._folders[number], os.fsdecode(data[at : at + length].rstrip(b"\0"))))
                at += length

    def wait(self, seconds: float) -> bool:
        """Sleep until `changes` has something to say (True) or for so many seconds (False). Takes nothing from it."""
        if self._fd < 0:
            return True
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(max(seconds, 0) * 1000))

    def close(self) -> None:
        """Stop watching; nothing happens the second time."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


#: Every Files object of this process, for the moment after a fork.
_all = weakref.WeakSet[Files]()


def _after_fork() -> None:
    for files in list(_all):
        files.after_fork()


os.register_at_fork(after_in_child=_after_fork)

_calls = ctypes.CDLL(None, use_errno=True)


def _library(name: str) -> Any:
    try:
        return getattr(_calls, name)
    except AttributeError:
        return None


_renameat2 = _library("renameat2")
_statfs = _library("statfs")
_fstatfs = _library("fstatfs")
_syscall = _library("syscall")


def _rename(here: int, old: str, there: int, new: str, flag: int) -> int:
    """renameat2: 0 or the error's number."""
    if _renameat2 is None:
        return errno.ENOSYS
    if _renameat2(here, os.fsencode(old), there, os.fsencode(new), flag) == 0:
        return 0
    return ctypes.get_errno()


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _open_beneath(root: int, folder: str) -> int:
    # By openat2, or part by part where the kernel has none; either way no link is followed.
    if _syscall is not None and sys.platform == "linux":
        how = _How(flags=DIRECTORY, mode=0, resolve=BENEATH | NO_SYMLINKS)
        fd = _syscall(OPENAT2, root, os.fsencode(folder), ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return int(fd)
        if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EAGAIN):
            raise _folder_error(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder), folder)
    fd = os.dup(root)
    for part in folder.split("/"):
        try:
            below = os.open(part, DIRECTORY, dir_fd=fd)
        except OSError as error:
            raise _folder_error(error, folder) from None
        finally:
            os.close(fd)
        fd = below
    return fd


def _folder_error(error: OSError, folder: str) -> OSError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EMLINK):
        message = "a link or a file is in the place of a folder of the queue"
        return NotADirectoryError(errno.ENOTDIR, message, folder)
    return OSError(error.errno, os.strerror(error.errno or 0), folder)


def _named(error: OSError, path: str) -> OSError:
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
        return NotAFile(errno.ELOOP, "not a regular file", path)
    return OSError(error.errno, os.strerror(error.errno or 0), path)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _filesystem(fd: int) -> int:
    if _fstatfs is None or sys.platform != "linux":
        return 0
    answer = (ctypes.c_long * 64)()
    return int(answer[0]) & 0xFFFFFFFF if _fstatfs(fd, answer) == 0 else 0


def _is_ordered(kind: int, fd: int) -> bool:
    if kind != EXT4:
        return kind == XFS
    device = os.fstat(fd).st_dev
    name = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").rpartition("/")[2]
    return os.path.exists(f"/sys/fs/ext4/{name}/journal_task")
