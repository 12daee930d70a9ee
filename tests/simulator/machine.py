"""The ports of the store on the simulated disk and clock: `Files` and `Clock` of one process.

Each method is made of the calls that the real one makes, with a step of the scheduler before each. A name that
the real port does not have raises AttributeError.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import random
import sqlite3
from typing import TYPE_CHECKING, Self

from disk import CLOSE_WRITE, CREATE, DELETE, IGNORED, MOVED_FROM, MOVED_TO, OVERFLOW, Notifications, failure
from scheduler import SECOND, Mutex

from taskpit.clock import Clock
from taskpit.store.plain.files import CREATE as CREATE_FLAGS
from taskpit.store.plain.files import READ, WRITE, Entry, Files, NotAFile, TooBig
from taskpit.store.plain.files import Disk as DiskKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disk import Disk, Node, OpenFile
    from scheduler import Process, World

ROOT = "/q"
LOCK = ".taskpit/lock"
WATCHED = CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def status(node: Node) -> os.stat_result:
    """What stat tells of a node."""
    uid, gid = os.geteuid(), os.getegid()
    row = (node.mode, node.number, 1, node.links, uid, gid, node.size, 0, node.mtime // SECOND, node.ctime // SECOND)
    times = (("st_mtime", node.mtime), ("st_ctime", node.ctime))
    more = {name: value // SECOND + 1e-9 * (value % SECOND) for name, value in times}
    return os.stat_result(row, {**more, "st_mtime_ns": node.mtime, "st_ctime_ns": node.ctime})


def nanoseconds(seconds: float | None) -> int | None:
    """The time as `os.utime` stores it."""
    if seconds is None:
        return None
    whole = math.floor(seconds)
    return whole * SECOND + math.floor((seconds - whole) * 1e9)


class Machine:
    """One simulated computer: a disk, the world's clock, and what the seed decides about both."""

    def __init__(self, world: World, disk: Disk, seed: object) -> None:
        self.world, self.disk, self.seed = world, disk, seed
        #: Seconds that an fsync takes; one in fifty takes a hundred times as long.
        self.latency = 0.0
        #: Whether a listing may miss names that are renamed during it, and whether notifications arrive.
        self.halves, self.notifies = False, True
        #: Whether the port tells the store that the disk is ordered.
        self.tells_ordered = disk.ordered
        self.names: dict[str, random.Random] = {}
        self.latencies = random.Random(f"{seed}:latency")
        disk.mkdir(ROOT)

    def chance(self, process: Process) -> random.Random:
        return self.names.setdefault(process.name, random.Random(f"{self.seed}:names:{process.name}"))

    def kill(self, process: Process) -> None:
        """End a process as the kernel does: its files are closed, its locks are free."""
        process.alive = False
        for opened in process.files.values():
            self.disk.close(opened)
        process.files.clear()
        for instance in process.watchers:
            self.disk.unwatch(instance)
        process.watchers.clear()

    def power_off(self, processes: Sequence[Process], chance: random.Random) -> None:
        """Every process dies, and the disk continues with what is on the platter."""
        for process in processes:
            process.alive = False
            process.files.clear()
            process.watchers.clear()
        self.disk.lose_power(chance)
        self.world.boots += 1
        self.world.monotonic += 20 * SECOND


class SimClock(Clock):
    """The clocks and the chance of one process."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine, self._process, self._world = machine, process, machine.world

    def now(self) -> float:
        return self._world.now() / 1e9

    def monotonic(self) -> float:
        return self._world.monotonic / 1e9

    def sleep(self, seconds: float) -> None:
        self._world.step(self._process, "sleep", f"{seconds:.6f}")
        self._world.sleep(seconds)

    def boot(self) -> str:
        return f"boot-{self._world.boots}"

    def chance(self, letters: int) -> str:
        draw = self._machine.chance(self._process)
        return "".join(LETTERS[int(draw.random() * 32)] for _ in range(letters))

    def mutex(self) -> Mutex:
        return Mutex(self._world)

    def offset(self) -> float:
        return self._world.offset / 1e9


class SimFiles:
    """The files port of one process."""

    def __init__(self, machine: Machine, process: Process, root: str = ROOT) -> None:
        self.root, self._machine, self._process = root, machine, process
        self._disk, self._world = machine.disk, machine.world
        self._handles: list[SimLockFile | SimWatch] = []

    def _step(self, call: str, path: str = "", *, changes: bool = False) -> None:
        self._world.step(self._process, call, path, changes=changes)

    def _at(self, path: str) -> str:
        """The absolute path, once its folder is known to exist."""
        for part in path.split("/"):
            if part in ("", ".", ".."):
                raise failure(errno.EINVAL, path)
        whole = f"{self.root}/{path}"
        self._disk.place(whole)
        return whole

    def _folder(self, folder: str) -> str:
        whole = f"{self.root}/{folder}" if folder else self.root
        if self._disk.find(whole).entries is None:
            raise failure(errno.ENOTDIR, folder)
        return whole

    # Looking

    def stat(self, path: str, *, fresh: bool = False) -> os.stat_result | None:
        self._step("stat", path)
        try:
            return status(self._disk.find(self._at(path)))
        except FileNotFoundError:
            return None

    # What is made of other methods of the port is the real one.
    read, piece, names, sync = Files.read, Files.piece, Files.names, Files.sync

    def open(self, path: str) -> SimOpenFile:
        self._step("open", path)
        opened = self._open(path, READ)
        return SimOpenFile(self, opened, path)

    def _open(self, path: str, flags: int) -> OpenFile:
        whole = self._at(path)
        try:
            node = self._disk.find(whole)
        except FileNotFoundError:
            node = None
        if node is not None and node.entries is not None:
            number = errno.EINVAL if flags == READ else errno.ELOOP
            raise NotAFile(number, "not a regular file", path)
        return self._disk.open(whole, flags)

    def entries(self, folder: str) -> list[Entry]:
        return [Entry(name, node.number, node.entries is None) for name, node in self._listing(folder)]

    def _listing(self, folder: str) -> Iterator[tuple[str, Node]]:
        self._step("list", folder)
        try:
            whole = self._folder(folder)
            names = self._disk.listing(whole)
        except FileNotFoundError:
            return
        entries = self._disk.find(whole).entries or {}
        half = len(names) // 2 if self._machine.halves else len(names)
        first = [(name, entries[name]) for name in names[:half]]
        yield from first
        if half < len(names):
            self._step("list", f"{folder}, second half")
            yield from [(name, entries[name]) for name in names[half:] if name in entries]

    def scan(self, folder: str) -> list[tuple[str, os.stat_result]]:
        rows = []
        for name, _ in [*self._listing(folder)]:
            self._step("stat", f"{folder}/{name}")
            with contextlib.suppress(FileNotFoundError):
                rows.append((name, status(self._disk.find(f"{self.root}/{folder}/{name}"))))
        return rows

    def may_write(self, path: str) -> bool:
        try:
            return self.stat(path) is not None
        except OSError:
            return False

    def disk(self) -> DiskKind:
        return DiskKind(ordered=self._machine.tells_ordered, local=self._machine.notifies)

    # Bytes

    def create(self, path: str, data: bytes, *, modified: float | None = None, sync: bool = False) -> os.stat_result:
        self._step("create", path, changes=True)
        whole = self._at(path)
        opened = self._disk.open(whole, CREATE_FLAGS)
        number = self._process.give(opened)
        try:
            half = len(data) // 2
            for piece in (data[:half], data[half:]):
                if piece:
                    self._step("write", path, changes=True)
                    self._disk.write(opened, piece)
            if modified is not None:
                self._step("futime", path, changes=True)
                self._disk.utime(opened.node, nanoseconds(modified))
            if sync:
                self._flush(opened.node, path)
            return status(opened.node)
        except OSError:
            self._step("unlink", path, changes=True)
            with contextlib.suppress(OSError):
                self._disk.unlink(whole)
            raise
        finally:
            self._close(number)

    def _close(self, number: int) -> None:
        opened = self._process.files.pop(number, None)
        if opened is not None:  # a dead process has none
            self._disk.close(opened)

    def append(self, path: str, data: bytes) -> int:
        self._step("append", path, changes=True)
        number = self._process.give(self._open(path, WRITE | os.O_APPEND))
        opened = self._process.files[number]
        try:
            end = len(opened.node.data)
            self._step("write", path, changes=True)
            self._disk.write(opened, data)
            return end
        finally:
            self._close(number)

    def write_at(self, path: str, start: int, data: bytes, *, cut: bool = False) -> None:
        self._step("open to write", path, changes=True)
        number = self._process.give(self._open(path, WRITE))
        opened = self._process.files[number]
        try:
            if data:
                self._step("write", path, changes=True)
                opened.position = start
                self._disk.write(opened, data)
            if cut:
                self._step("truncate", path, changes=True)
                self._disk.truncate(opened, start + len(data))
        finally:
            self._close(number)

    # Names

    def link(self, source: str, target: str) -> bool:
        self._step("link", f"{source} {target}", changes=True)
        one, two = self._at(source), self._at(target)
        try:
            self._disk.link(one, two)
        except FileExistsError:
            return False
        return True

    def move(self, source: str, target: str) -> bool:
        return self._rename("move", source, target, replace=False)

    def replace(self, source: str, target: str) -> bool:
        return self._rename("replace", source, target, replace=True)

    def _rename(self, call: str, source: str, target: str, *, replace: bool) -> bool:
        self._step(call, f"{source} {target}", changes=True)
        one, two = self._at(source), self._at(target)
        try:
            self._disk.rename(one, two, replace=replace)
        except FileNotFoundError:
            return False
        except IsADirectoryError:
            raise NotAFile(errno.ELOOP, "not a regular file", source) from None
        return True

    def exchange(self, one: str, other: str) -> bool:
        self._step("exchange", f"{one} {other}", changes=True)
        first, second = self._at(one), self._at(other)
        try:
            self._disk.exchange(first, second)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):
                return False
            raise
        return True

    def remove(self, path: str) -> bool:
        self._step("unlink", path, changes=True)
        try:
            self._disk.unlink(self._at(path))
        except FileNotFoundError:
            return False
        return True

    def make_dir(self, folder: str, mode: int | None = None) -> None:
        self._step("mkdir", folder, changes=True)
        if not folder:
            return
        above = folder.rpartition("/")[0]
        try:
            whole = self._at(folder)
        except FileNotFoundError:
            self.make_dir(above, mode)
            whole = self._at(folder)
        try:
            self._disk.mkdir(whole)
        except FileExistsError:
            self._folder(folder)
            return
        if mode is not None:
            self.set_mode(folder, mode)

    def remove_dir(self, folder: str) -> None:
        self._step("rmdir", folder, changes=True)
        self._disk.rmdir(self._at(folder))

    def set_times(self, path: str, modified: float | None) -> bool:
        self._step("utime", f"{path} {modified}", changes=True)
        try:
            self._disk.utime(self._disk.find(self._at(path)), nanoseconds(modified))
        except FileNotFoundError:
            return False
        return True

    def set_mode(self, path: str, mode: int) -> None:
        self._step("chmod", path, changes=True)
        self._disk.chmod(self._disk.find(self._at(path)), mode)

    # Durability

    def _flush(self, node: Node, path: str) -> None:
        self._step("fsync", path, changes=True)
        finish = self._disk.flush(node)
        if self._machine.latency:
            slow = self._machine.latencies.random() < 0.02
            self._world.sleep(self._machine.latency * (100 if slow else 1))
        finish()

    def sync_dir(self, folder: str) -> None:
        self._flush(self._disk.find(self._folder(folder)), folder)

    # Waiting and turns

    def lock_file(self, path: str) -> SimLockFile:
        self._step("open to lock", path, changes=True)
        handle = SimLockFile(self, path, self._process.give(self._open(path, WRITE)))
        self._handles.append(handle)
        return handle

    def is_locked(self, path: str) -> bool:
        try:
            file = self.open(path)
        except FileNotFoundError:
            return False
        with file:
            self._step("is locked", path)
            return not self._disk.lock(file.opened, shared=True)

    def watch(self, folders: Sequence[str]) -> SimWatch | None:
        self._step("watch", " ".join(folders))
        if not self._machine.notifies:
            return None
        handle = SimWatch(self, folders)
        self._handles.append(handle)
        return handle

    def database(self, path: str) -> sqlite3.Connection:
        raise sqlite3.OperationalError("the simulator has no databases")

    # The process

    def process(self) -> int:
        return self._process.number

    def host(self) -> str:
        return "here"

    def user(self) -> int:
        return os.geteuid()

    def close(self) -> None:
        for handle in [*self._handles]:
            handle.close()
        self._handles.clear()


class SimOpenFile:
    """A regular file that is open for reading."""

    def __init__(self, files: SimFiles, opened: OpenFile, path: str) -> None:
        self._files, self.opened, self.path = files, opened, path
        self.stat = status(opened.node)
        self._number = files._process.give(opened)

    def read(self, limit: int) -> bytes:
        self._files._step("read", self.path)
        if self.stat.st_size > limit or len(self.opened.node.data) > limit:
            raise TooBig(errno.EFBIG, f"{limit} is the most", self.path)
        return self.opened.node.data

    def piece(self, start: int, size: int) -> bytes:
        self._files._step("pread", self.path)
        return self.opened.node.data[start : start + size]

    def set_times(self, modified: float | None) -> None:
        self._files._step("futime", self.path, changes=True)
        self._files._disk.utime(self.opened.node, nanoseconds(modified))

    def sync(self) -> None:
        self._files._flush(self.opened.node, self.path)

    def close(self) -> None:
        self._files._close(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SimLockFile:
    """A file whose lock this process can hold."""

    def __init__(self, files: SimFiles, path: str, number: int) -> None:
        self._files, self.path, self._number = files, path, number
        self._opened = files._process.files[number]
        self._length = -1

    def take(self) -> bool:
        files = self._files
        files._step("flock", self.path)
        taken = files._disk.lock(self._opened)
        actor = files._world.actor
        if actor is None:
            files._world.polls = not taken
        elif self.path == LOCK:
            if taken:
                actor.holds += 1
            else:
                node, mine = self._opened.node, self._opened
                actor.refused = lambda: not any(other is not mine for other in node.locks)
        return taken

    def drop(self) -> None:
        self._files._step("unlock", self.path)
        held = self._opened in self._opened.node.locks
        self._files._disk.unlock(self._opened)
        actor = self._files._world.actor
        if held and actor is not None and self.path == LOCK:
            actor.holds -= 1

    def is_current(self) -> bool:
        self._files._step("stat", self.path)
        try:
            return self._files._disk.find(self._files._at(self.path)) is self._opened.node
        except FileNotFoundError:
            return False

    def read(self) -> bytes:
        self._files._step("pread", self.path)
        return self._opened.node.data[:4096]

    def write(self, text: bytes) -> None:
        disk = self._files._disk
        self._files._step("write", self.path, changes=True)
        self._opened.position = 0
        disk.write(self._opened, text)
        if self._length != len(text):
            self._files._step("truncate", self.path, changes=True)
            disk.truncate(self._opened, len(text))
            self._length = len(text)

    def close(self) -> None:
        self._files._close(self._number)


class SimWatch:
    """Notifications of changes in some folders."""

    def __init__(self, files: SimFiles, folders: Sequence[str]) -> None:
        self._files = files
        self._instance = Notifications(files._disk.events)
        files._process.watchers.append(self._instance)
        self._folders: dict[int, str] = {}
        for folder in dict.fromkeys(folders):
            self._folders[files._disk.watch(self._instance, files._folder(folder), WATCHED)] = folder
        self._inodes = self._signs()
        self._closed = False

    def _signs(self) -> list[Node | None]:
        found: list[Node | None] = []
        for folder in self._folders.values():
            try:
                found.append(self._files._disk.find(self._files._folder(folder)))
            except OSError:
                found.append(None)
        return found

    def changes(self) -> list[tuple[str, str]] | None:
        self._files._step("read events")
        if self._closed or self._signs() != self._inodes:
            return None
        events, self._instance.queue[:] = [*self._instance.queue], []
        if any(mask & (OVERFLOW | IGNORED) for _, mask, _ in events):
            return None
        return [(self._folders[number], name) for number, _, name in events]

    def wait(self, seconds: float) -> bool:
        self._files._step("wait", f"{seconds:.3f}")
        if self._closed:
            return True
        return self._files._world.wait(lambda: bool(self._instance.queue), max(seconds, 0))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._files._disk.unwatch(self._instance)
