"""What a power loss may leave: operations on a folder, recorded, and the folders that are legal after a crash.

    with recorded(root) as trace:
        queue.finish(claim, Done())
    for disk in trace.states("subset"):
        disk.lay_out(elsewhere)
        ...  # open it, sweep, look

Knows names, bytes and fsync, nothing about tasks. Three models of what a filesystem may do with operations
that no fsync has settled, from the kindest to the meanest:

- `ordered`: names change in the order of the calls, as one journal has it, and an fsync settles them up to the last
  change of what it is asked for, as ext4 and XFS do; the bytes of a file that was not fsynced itself may be missing or
  torn.
- `folders`: each directory has an order of its own, so that a file moved between two directories may be in
  both or in neither; an fsync settles one directory, or one file's bytes.
- `subset`: any of the unsettled operations may have happened, each whole or not at all.

File times are not modelled: after a power loss no lease counts. Where there are more states than LIMIT, a
sample is taken that is the same every time.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import sys
from typing import NamedTuple

from taskpit import fs, kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["MODELS", "Disk", "Op", "Trace", "listed", "recorded"]

MODELS = ("ordered", "folders", "subset")
#: Most choices of unsettled operations that are looked at for one moment of the crash.
LIMIT = 48
#: What an fsync settles that is none of one file or directory, but of all there are.
EVERYTHING = "*"
#: So many callers of an operation are noted.
DEPTH = 6


class Op(NamedTuple):
    """One operation. `names` are the entries it changes: path and file, or None where a name goes."""

    kind: str
    path: str
    names: tuple[tuple[str, int | None], ...] = ()
    file: int = 0
    data: bytes = b""
    #: The functions that called for it, innermost first.
    site: tuple[str, ...] = ()


class Disk(NamedTuple):
    """A folder's content: directories, names with the file behind each, bytes of each file."""

    folders: frozenset[str]
    names: dict[str, int]
    data: dict[int, bytes]

    @classmethod
    def of(cls, root: str) -> Disk:
        """The folder as it is now."""
        folders, names, data, known = {""}, {}, {}, dict[int, int]()
        for folder, _, files in os.walk(root):
            folders.add(os.path.relpath(folder, root) if folder != root else "")
            for file in files:
                path = os.path.join(folder, file)
                inode = known.setdefault(os.lstat(path).st_ino, len(known) + 1)
                names[os.path.relpath(path, root)] = inode
                with open(path, "rb") as stream:
                    data[inode] = stream.read()
        return cls(frozenset(folders), names, data)

    def key(self) -> object:
        """By which two disks are known to be the same."""
        there = frozenset((path, file, self.data.get(file, b"")) for path, file in self.names.items())
        return self.folders, there

    def lay_out(self, root: str) -> None:
        """Make this folder, in a place where there is none."""
        for folder in sorted(self.folders):
            fs.make_dir(f"{root}/{folder}")
        first: dict[int, str] = {}
        for path, file in self.names.items():
            if os.path.dirname(path) not in self.folders:
                continue  # its directory did not make it
            if file in first:
                fs.link(first[file], f"{root}/{path}")
            else:
                first[file] = f"{root}/{path}"
                fs.create(first[file], self.data.get(file, b""), sync=False)


class Trace:
    """What was there, and what was done since. `begin` marks where the verb under test starts."""

    def __init__(self, base: Disk) -> None:
        self.base = base
        self.ops: list[Op] = []
        self.start = 0

    def begin(self) -> None:
        """What was done until now is done; a crash is looked at from here on. What is unsettled stays so."""
        self.start = len(self.ops)

    def without(self, unwanted: Callable[[Op], bool], kind: str = "fsync") -> Trace:
        """The same, had the operations of this kind that are `unwanted` been left out."""
        kept = [op for op in self.ops if op.kind != kind or not unwanted(op)]
        before = [op for op in self.ops[: self.start] if op.kind != kind or not unwanted(op)]
        other = Trace(self.base)
        other.ops, other.start = kept, len(before)
        return other

    def states(self, model: str) -> Iterator[tuple[Disk, bool]]:
        """Every disk a crash may leave, once, and whether the verb may have been acknowledged before it.

        Between two fsyncs only the last moment is looked at: what an earlier one may leave, it may leave too.
        """
        seen = set()
        moments = [n for n, op in enumerate(self.ops) if op.kind == "fsync" and n >= self.start]
        for moment in (len(self.ops), *moments):
            for disk in self._at(model, moment):
                key = disk.key()
                if key not in seen:
                    seen.add(key)
                    yield disk, moment == len(self.ops)

    def undisturbed(self, moment: int) -> Disk:
        """The folder after so many operations, without a crash."""
        done = self.ops[:moment]
        written = {op.file: op.data for op in done if op.kind == "write"}
        return self._disk([change for op in done for change in op.names], written)

    def _at(self, model: str, moment: int) -> Iterator[Disk]:
        done = self.ops[:moment]
        choices = {"ordered": _in_order, "folders": _by_folder, "subset": _any_of}[model]
        for number, changes in enumerate(choices(done)):
            for written in _bytes(done) if not number else itertools.islice(_bytes(done), 3):
                yield self._disk(changes, written)

    def _disk(self, changes: Iterable[tuple[str, int | None]], written: dict[int, bytes]) -> Disk:
        folders, names = set(self.base.folders), dict(self.base.names)
        for path, file in changes:
            if file is None:
                names.pop(path, None)
            elif file < 0:
                folders.add(path)
            else:
                names[path] = file
        return Disk(frozenset(folders), names, {**self.base.data, **written})


def _settled(ops: Sequence[Op], folder: str) -> int:
    """How many operations are before the last fsync of this directory."""
    last = (n for n in range(len(ops) - 1, -1, -1) if ops[n].kind == "fsync" and ops[n].path in (folder, EVERYTHING))
    return next(last, 0)


def _in_order(ops: Sequence[Op]) -> Iterator[list[tuple[str, int | None]]]:
    """Names as they were at any moment since the last change that an fsync has settled."""
    last = max((_reached(ops, n) for n, op in enumerate(ops) if op.kind == "fsync"), default=0)
    for moment in range(len(ops), last - 1, -1):
        yield [change for op in ops[:moment] for change in op.names]


def _reached(ops: Sequence[Op], fsync: int) -> int:
    """How many operations this fsync has settled: a journal is written up to the last change of what is asked for."""
    asked = ops[fsync]
    if asked.path == EVERYTHING:
        return fsync
    for n in range(fsync - 1, -1, -1):
        op = ops[n]
        if asked.file and (op.file == asked.file or any(file == asked.file for _, file in op.names)):
            return n + 1
        if not asked.file and any(os.path.dirname(path) == asked.path for path, _ in op.names):
            return n + 1
    return 0


def _by_folder(ops: Sequence[Op]) -> Iterator[list[tuple[str, int | None]]]:
    """Each directory at any moment since its own last fsync."""
    changes = [(n, path, file) for n, op in enumerate(ops) for path, file in op.names]
    folders = sorted({os.path.dirname(path) for _, path, _ in changes})
    moments = [
        [len(ops), *sorted({n for n, path, _ in changes if os.path.dirname(path) == folder} - set(range(since)))[::-1]]
        for folder, since in ((folder, _settled(ops, folder)) for folder in folders)
    ]
    for ends in _some(moments):
        end = dict(zip(folders, ends, strict=True))
        yield [(path, file) for n, path, file in changes if n < end[os.path.dirname(path)]]


def _any_of(ops: Sequence[Op]) -> Iterator[list[tuple[str, int | None]]]:
    """Each unsettled operation as a whole or not at all; a directory's fsync settles all that concern it."""
    settled: dict[str, int] = {}
    choices: list[list[bool]] = []
    for n, op in enumerate(ops):
        folders = {os.path.dirname(path) for path, _ in op.names}
        for folder in folders - settled.keys():
            settled[folder] = _settled(ops, folder)
        choices.append([True] if not op.names or any(n < settled[folder] for folder in folders) else [True, False])
    for kept in _some(choices):
        yield [change for op, keep in zip(ops, kept, strict=True) if keep for change in op.names]


def _some(choices: Sequence[Sequence[T]]) -> Iterator[tuple[T, ...]]:
    """Every choice of one each; if there are too many: those next to the first and the last, and a sample."""
    count = 1
    for options in choices:
        count *= len(options)
    if count <= LIMIT:
        yield from itertools.product(*choices)
        return
    first, last = [options[0] for options in choices], [options[-1] for options in choices]
    yield tuple(first)
    yield tuple(last)
    for place, options in enumerate(choices):
        for option in options:
            for start in (first, last):
                if option != start[place]:
                    yield (*start[:place], option, *start[place + 1 :])
    chance = random.Random(count)
    for _ in range(LIMIT):
        yield tuple(chance.choice(options) for options in choices)


def _bytes(ops: Sequence[Op]) -> Iterator[dict[int, bytes]]:
    """What the files may hold: all of it, no unsettled byte, all torn; then one file missing its bytes or torn."""
    latest: dict[int, bytes] = {}
    safe: dict[int, bytes] = {}
    for op in ops:
        if op.kind == "write":
            latest[op.file] = op.data
        elif op.kind == "fsync" and op.path == EVERYTHING:
            safe.update(latest)
        elif op.kind == "fsync" and op.file:
            safe[op.file] = latest.get(op.file, b"")
    yield latest
    loose = [file for file, data in latest.items() if safe.get(file) != data]
    torn = {file: _torn(safe.get(file, b""), latest[file]) for file in loose}
    yield {**latest, **{file: safe.get(file, b"") for file in loose}}
    yield {**latest, **torn}
    for file in loose:
        yield {**latest, file: safe.get(file, b"")}
        yield {**latest, file: torn[file]}
        yield {**latest, file: bytes(len(latest[file]))}


def _torn(old: bytes, new: bytes) -> bytes:
    """Half of what was added, or of all if it was written anew."""
    same = len(old) if new.startswith(old) else 0
    return new[: same + (len(new) - same) // 2]


@contextlib.contextmanager
def recorded(root: str) -> Iterator[Trace]:
    """The operations that `fs` makes below `root` meanwhile. For one thread; nobody else may work there."""
    trace = Trace(Disk.of(root))
    here = vars(fs)
    real = here["os"], here["kernel"]
    here["os"] = here["kernel"] = _Scribe(root, trace)
    try:
        yield trace
    finally:
        here["os"], here["kernel"] = real


@contextlib.contextmanager
def listed(*, backwards: bool = False) -> Iterator[None]:
    """Every listing of `fs` is in this order. Each filesystem has another, and some have one by chance."""
    here = vars(fs)
    real, here["os"] = here["os"], _Listing(backwards)
    try:
        yield
    finally:
        here["os"] = real


class _Listing:
    """`os` as `fs` sees it, whose listings are sorted."""

    def __init__(self, backwards: bool) -> None:
        self._backwards = backwards

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def listdir(self, path: str | int) -> list[str]:
        return sorted(os.listdir(path), reverse=self._backwards)

    @contextlib.contextmanager
    def scandir(self, path: str | int) -> Iterator[Iterator[os.DirEntry[str]]]:
        with os.scandir(path) as found:
            yield iter(sorted(found, key=lambda entry: entry.name, reverse=self._backwards))


class _Scribe:
    """`os` and `kernel` as `fs` sees them: every call is made, those that change something are written down."""

    def __init__(self, root: str, trace: Trace) -> None:
        self._root = root
        self._trace = trace
        self._names = dict(trace.base.names)
        self._new = itertools.count(len(self._names) + 1)
        self._open: dict[int, tuple[str, int]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(os if hasattr(os, name) else kernel, name)

    def _below(self, path: str, fd: int | None = None) -> str:
        path = path if fd is None else f"{os.readlink(f'/proc/self/fd/{fd}')}/{path}"
        return "" if path == self._root else os.path.relpath(path, self._root)

    def _note(self, kind: str, path: str, **fields: object) -> None:
        site: list[str] = []
        frame: FrameType | None = sys._getframe(2)
        while frame and len(site) < DEPTH:
            site.append(frame.f_code.co_name)
            frame = frame.f_back
        self._trace.ops.append(Op(kind, path, site=tuple(site), **fields))  # type: ignore[arg-type]

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        below = self._below(path, dir_fd)
        new = not os.path.lexists(f"{self._root}/{below}")
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
        if new:
            self._names[below] = file = next(self._new)
            self._note("create", below, names=((below, file),), file=file)
        self._open[fd] = (below, self._names.get(below, 0))
        return fd

    def _held(self, fd: int) -> tuple[str, int]:
        """What is open there, perhaps since before we began to look."""
        if fd not in self._open:
            below = self._below(os.readlink(f"/proc/self/fd/{fd}"))
            self._open[fd] = (below, self._names.get(below, 0))
        return self._open[fd]

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        os.close(fd)

    def _wrote(self, fd: int) -> None:
        path, file = self._held(fd)
        with open(f"{self._root}/{path}", "rb") as stream:
            self._note("write", path, file=file, data=stream.read())

    def write(self, fd: int, data: bytes) -> int:
        count = os.write(fd, data)
        self._wrote(fd)
        return count

    def ftruncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)
        self._wrote(fd)

    def utime(self, target: str | int, times: object = None, *, dir_fd: int | None = None, **how: bool) -> None:
        os.utime(target, times, dir_fd=dir_fd, **how)  # type: ignore[call-overload]
        file = self._held(target)[1] if isinstance(target, int) else self._names.get(self._below(target, dir_fd), 0)
        self._note("touch", "", file=file)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)
        path, file = self._held(fd)
        self._note("fsync", path, file=file)

    def sync_filesystem(self, fd: int) -> None:
        kernel.sync_filesystem(fd)
        self._note("fsync", EVERYTHING)

    def rename_new(self, *_: object) -> int:
        return errno.ENOSYS  # by a plain call, which is seen

    def rename(self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None) -> None:
        os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        old, new = self._below(source, src_dir_fd), self._below(target, dst_dir_fd)
        if self._names[old] != self._names.get(new):  # of two names of one file, both stay
            self._names[new] = file = self._names.pop(old)
            self._note("rename", old, names=((old, None), (new, file)), file=file)

    def link(
        self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None, follow_symlinks: bool
    ) -> None:
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        new, file = self._below(target, dst_dir_fd), self._names[self._below(source, src_dir_fd)]
        self._names[new] = file
        self._note("link", new, names=((new, file),), file=file)

    def unlink(self, path: str, *, dir_fd: int | None) -> None:
        os.unlink(path, dir_fd=dir_fd)
        below = self._below(path, dir_fd)
        del self._names[below]
        self._note("unlink", below, names=((below, None),))

    def mkdir(self, path: str, *, dir_fd: int | None) -> None:
        os.mkdir(path, dir_fd=dir_fd)
        below = self._below(path, dir_fd)
        self._note("mkdir", below, names=((below, -1),))
