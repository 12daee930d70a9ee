"""A disk in memory: names, links, times, locks, notifications, and the loss of power.

`test_disk.py` compares it with a real filesystem, call by call. Two kinds of journal decide which state a
loss of power leaves:

    ordered     the journal is cut at one place; fsync makes durable everything up to the file's last change
    unordered   each directory is cut at its own place; only fsync of the directory makes its names durable.
                A rename between directories can leave both names, never none.

Bytes that were not flushed are as before, absent, cut short or complete. What is a minute old is durable.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

CLOSE_WRITE = 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
OVERFLOW, IGNORED, IS_DIR = 0x4000, 0x8000, 0x40000000
#: The kernel writes everything back that is older than this.
WRITEBACK = 60_000_000_000
BLOCK = 4096


def failure(number: int, path: str) -> OSError:
    """An error as the operating system raises it."""
    return OSError(number, os.strerror(number), path)


class Node:
    """A file or directory."""

    __slots__ = (
        "base", "changed", "ctime", "data", "durable", "entries", "links", "locks", "mode", "mtime", "number", "opens",
        "synced", "synced_times", "watches", "written",
    )  # fmt: skip

    def __init__(self, number: int, mode: int, now: int) -> None:
        self.number, self.mode = number, mode
        self.links = 2 if stat.S_ISDIR(mode) else 1
        self.mtime = self.ctime = now
        self.entries: dict[str, Node] | None = {} if stat.S_ISDIR(mode) else None
        self.base: dict[str, Node] = {}
        self.data = b""
        #: The bytes that are on the platter, and since when newer ones are not.
        self.synced, self.written = b"", 0
        self.synced_times = (now, now)
        #: The places in the log after this node's last change, and up to which a directory's names are durable.
        self.changed = self.durable = 0
        self.opens: list[OpenFile] = []
        self.locks: dict[OpenFile, bool] = {}
        self.watches: list[tuple[Notifications, int, int]] = []

    @property
    def size(self) -> int:
        return len(self.data) if self.entries is None else BLOCK


@dataclass(eq=False)
class OpenFile:
    """An open description: its own position, its own lock, and the name under which it was opened."""

    node: Node
    flags: int
    folder: Node
    name: str
    position: int = 0

    @property
    def writable(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_RDONLY


@dataclass(eq=False)
class Notifications:
    """The queue of one inotify instance."""

    limit: int
    queue: list[tuple[int, int, str]] = field(default_factory=list)
    watched: dict[int, Node] = field(default_factory=dict)
    numbers: int = 0

    def add(self, number: int, mask: int, name: str) -> None:
        if self.queue and self.queue[-1] in ((number, mask, name), (-1, OVERFLOW, "")):
            return
        if len(self.queue) >= self.limit:
            self.queue.append((-1, OVERFLOW, ""))
        else:
            self.queue.append((number, mask, name))


@dataclass(slots=True)
class Entry:
    """One step of the log: names of one directory that change together."""

    when: int
    folder: Node
    changes: tuple[tuple[str, Node | None], ...]
    #: The place of the step without which this one cannot become durable.
    needs: int | None = None


class Disk:
    """The filesystem. Paths are absolute; the clock is in nanoseconds."""

    def __init__(self, clock: Callable[[], int], *, ordered: bool = True, reuse: bool = True) -> None:
        self.clock, self.ordered, self.reuse = clock, ordered, reuse
        #: Times are multiples of this.
        self.grain = 1
        #: Free bytes, the order of listings, and the events that one instance keeps.
        self.room, self.salt, self.events = 1 << 40, 0, 16384
        self._next, self._free = 2, list[int]()
        self.log: list[Entry] = []
        self.committed = 0
        self._dirty: dict[Node, None] = {}
        self.root = Node(1, stat.S_IFDIR | 0o755, self.now())

    def now(self) -> int:
        """The time that files get."""
        return self.clock() // self.grain * self.grain

    # Names

    def find(self, path: str) -> Node:
        """The node of a path."""
        node = self.root
        for name in path.split("/"):
            if name:
                if node.entries is None:
                    raise failure(errno.ENOTDIR, path)
                if len(name) > 255:
                    raise failure(errno.ENAMETOOLONG, path)
                try:
                    node = node.entries[name]
                except KeyError:
                    raise failure(errno.ENOENT, path) from None
        return node

    def place(self, path: str) -> tuple[Node, dict[str, Node], str]:
        """The directory of a path, its entries, and the name in it."""
        head, _, name = path.rpartition("/")
        folder = self.find(head)
        if folder.entries is None:
            raise failure(errno.ENOTDIR, path)
        if len(name.encode()) > 255:
            raise failure(errno.ENAMETOOLONG, path)
        return folder, folder.entries, name

    def _make(self, mode: int) -> Node:
        if self._free:
            number = self._free.pop()
        else:
            number, self._next = self._next, self._next + 1
        return Node(number, mode, self.now())

    def _step(self, folder: Node, *changes: tuple[str, Node | None], needs: int | None = None) -> None:
        assert folder.entries is not None
        for name, node in changes:
            if node is None:
                folder.entries.pop(name, None)
            else:
                folder.entries[name] = node
        self.log.append(Entry(self.clock(), folder, changes, needs))
        folder.changed = len(self.log)
        folder.mtime = folder.ctime = self.now()

    def _touch(self, node: Node) -> None:
        """The node's own record changed: it becomes durable with the log as it is now."""
        node.ctime = self.now()
        node.changed = len(self.log)

    def _drop(self, node: Node) -> None:
        if node.entries is None:
            node.links -= 1
            self._touch(node)
        else:
            node.links = 0
            for instance, number, _ in node.watches:
                instance.add(number, IGNORED, "")
                instance.watched.pop(number, None)
            node.watches.clear()
        self._forget(node)

    def _forget(self, node: Node) -> None:
        if not node.links and not node.opens:
            self.room += self._blocks(len(node.data))
            if self.reuse:
                self._free.append(node.number)

    def link(self, old: str, new: str) -> None:
        node = self.find(old)
        folder, entries, name = self.place(new)
        if name in entries:
            raise failure(errno.EEXIST, new)
        if node.entries is not None:
            raise failure(errno.EPERM, old)
        node.links += 1
        self._step(folder, (name, node))
        self._touch(node)
        self._tell(folder, CREATE, name)

    def rename(self, old: str, new: str, *, replace: bool = True) -> None:
        source, names, name = self.place(old)
        target, others, other = self.place(new)
        node = names.get(name)
        if node is None:
            raise failure(errno.ENOENT, old)
        there = others.get(other)
        if there is not None and not replace:
            raise failure(errno.EEXIST, new)
        if node.entries is not None and (new + "/").startswith(old + "/") and new != old:
            raise failure(errno.EINVAL, old)
        if there is not None:
            if there.entries is not None and (old + "/").startswith(new + "/") and new != old:
                raise failure(errno.ENOTEMPTY, new)
            if there is node:
                return
            if node.entries is None and there.entries is not None:
                raise failure(errno.EISDIR, new)
            if node.entries is not None and there.entries is None:
                raise failure(errno.ENOTDIR, new)
            if there.entries:
                raise failure(errno.ENOTEMPTY, new)
        self._move(source, name, node, target, other, there)

    def _move(self, source: Node, name: str, node: Node, target: Node, other: str, there: Node | None) -> None:
        if source is target:
            self._step(source, (name, None), (other, node))
        else:
            self._step(target, (other, node))
            self._step(source, (name, None), needs=len(self.log) - 1)
            if node.entries is not None:
                source.links -= 1
                target.links += 1
        self._touch(node)
        if there is not None:
            self._drop(there)
            if there.entries is not None:
                target.links -= 1
        self._follow(((node, source, name, target, other),))

    def _follow(self, moves: tuple[tuple[Node, Node, str, Node, str], ...]) -> None:
        """Open files learn their new names, watchers both."""
        for node, source, name, target, other in moves:
            for opened in node.opens:
                if (opened.folder, opened.name) == (source, name):
                    opened.folder, opened.name = target, other
            kind = 0 if node.entries is None else IS_DIR
            self._tell(source, MOVED_FROM | kind, name)
            self._tell(target, MOVED_TO | kind, other)

    def exchange(self, one: str, two: str) -> None:
        source, names, name = self.place(one)
        target, others, other = self.place(two)
        for entries, key, path in ((names, name, one), (others, other, two)):
            if key not in entries:
                raise failure(errno.ENOENT, path)
        first, second = names[name], others[other]
        for node, inner, outer in ((first, two, one), (second, one, two)):
            if node.entries is not None and (inner + "/").startswith(outer + "/") and inner != outer:
                raise failure(errno.EINVAL, one)
        if first is second:
            return
        if source is target:
            self._step(source, (name, second), (other, first))
        else:
            self._step(target, (other, first))
            self._step(source, (name, second), needs=len(self.log) - 1)
            change = (first.entries is not None) - (second.entries is not None)
            source.links, target.links = source.links - change, target.links + change
        self._touch(first)
        self._touch(second)
        self._follow(((first, source, name, target, other), (second, target, other, source, name)))

    def unlink(self, path: str) -> None:
        folder, entries, name = self.place(path)
        node = entries.get(name)
        if node is None:
            raise failure(errno.ENOENT, path)
        if node.entries is not None:
            raise failure(errno.EISDIR, path)
        self._step(folder, (name, None))
        self._drop(node)
        self._tell(folder, DELETE, name)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        folder, entries, name = self.place(path)
        if not name or name in entries:
            raise failure(errno.EEXIST, path)
        self._room(BLOCK, path)
        node = self._make(stat.S_IFDIR | mode)
        self._step(folder, (name, node))
        folder.links += 1
        self._tell(folder, CREATE | IS_DIR, name)

    def rmdir(self, path: str) -> None:
        folder, entries, name = self.place(path)
        node = entries.get(name)
        if node is None:
            raise failure(errno.ENOENT, path)
        if node.entries is None:
            raise failure(errno.ENOTDIR, path)
        if node.entries:
            raise failure(errno.ENOTEMPTY, path)
        self._step(folder, (name, None))
        folder.links -= 1
        self._drop(node)
        self._tell(folder, DELETE | IS_DIR, name)

    def listing(self, path: str) -> list[str]:
        """The names in a directory, in an order of the disk's own."""
        node = self.find(path)
        if node.entries is None:
            raise failure(errno.ENOTDIR, path)
        return sorted(node.entries, key=lambda name: zlib.crc32(name.encode(), self.salt))

    # Open files

    def open(self, path: str, flags: int, mode: int = 0o666) -> OpenFile:
        folder, entries, name = self.place(path)
        node = entries.get(name) if name else folder
        if node is None:
            if not flags & os.O_CREAT:
                raise failure(errno.ENOENT, path)
            if flags & os.O_DIRECTORY:
                raise failure(errno.EINVAL, path)
            node = self._make(stat.S_IFREG | mode)
            self._step(folder, (name, node))
            self._touch(node)
            self._tell(folder, CREATE, name)
            opened = OpenFile(node, flags, folder, name)
        else:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise failure(errno.EEXIST, path)
            opened = OpenFile(node, flags, folder, name)
            if node.entries is not None and (opened.writable or flags & os.O_CREAT):
                raise failure(errno.EISDIR, path)
            if node.entries is None and flags & os.O_DIRECTORY:
                raise failure(errno.ENOTDIR, path)
            if flags & os.O_TRUNC and opened.writable:
                self._write(opened, b"")
        node.opens.append(opened)
        return opened

    def _blocks(self, size: int) -> int:
        return -(-size // BLOCK) * BLOCK

    def _room(self, size: int, path: str) -> None:
        if size > 0 and self.room < size:
            raise failure(errno.ENOSPC, path)
        self.room -= size

    def _write(self, opened: OpenFile, data: bytes) -> None:
        node = opened.node
        self._room(self._blocks(len(data)) - self._blocks(len(node.data)), opened.name)
        self._soil(node)
        node.data = data
        node.mtime = self.now()
        self._touch(node)

    def _soil(self, node: Node) -> None:
        """From now on the platter has an older version of the file."""
        if node not in self._dirty:
            self._dirty[node] = None
            node.written = self.clock()

    def write(self, opened: OpenFile, data: bytes) -> int:
        if data:
            old = opened.node.data
            if opened.flags & os.O_APPEND:
                opened.position = len(old)
            start = opened.position
            head = old[:start].ljust(start, b"\0")
            self._write(opened, head + data + old[start + len(data) :])
            opened.position = start + len(data)
        return len(data)

    def truncate(self, opened: OpenFile, size: int) -> None:
        self._write(opened, opened.node.data[:size].ljust(size, b"\0"))

    def close(self, opened: OpenFile) -> None:
        node = opened.node
        node.opens.remove(opened)
        node.locks.pop(opened, None)
        if opened.writable:
            self._tell(opened.folder, CLOSE_WRITE, opened.name)
        self._forget(node)

    def lock(self, opened: OpenFile, *, shared: bool = False) -> bool:
        """Take the lock of an open description at once, or return False."""
        others = [is_shared for other, is_shared in opened.node.locks.items() if other is not opened]
        if others and not (shared and all(others)):
            return False
        opened.node.locks[opened] = shared
        return True

    def unlock(self, opened: OpenFile) -> None:
        opened.node.locks.pop(opened, None)

    def utime(self, node: Node, mtime: int | None) -> None:
        """Set the time of a file, or the present one."""
        self._soil(node)
        node.mtime = self.now() if mtime is None else mtime
        self._touch(node)

    def chmod(self, node: Node, mode: int) -> None:
        node.mode = stat.S_IFMT(node.mode) | mode
        self._touch(node)

    # Notifications

    def watch(self, instance: Notifications, path: str, mask: int) -> int:
        node = self.find(path)
        for number, watched in instance.watched.items():
            if watched is node:
                node.watches = [entry for entry in node.watches if entry[0] is not instance]
                node.watches.append((instance, number, mask))
                return number
        number = instance.numbers = instance.numbers + 1
        instance.watched[number] = node
        node.watches.append((instance, number, mask))
        return number

    def unwatch(self, instance: Notifications) -> None:
        for node in instance.watched.values():
            node.watches = [entry for entry in node.watches if entry[0] is not instance]
        instance.watched.clear()
        instance.queue.clear()

    def _tell(self, folder: Node, mask: int, name: str) -> None:
        for instance, number, wanted in folder.watches:
            if mask & wanted:
                instance.add(number, mask, name)

    # Flushing, and the loss of power

    def flush(self, node: Node) -> Callable[[], None]:
        """Begin to flush the bytes of a file or the names of a directory; they are durable after the second call."""
        data, times, changed, end = node.data, (node.mtime, node.ctime), node.changed, len(self.log)

        def finish() -> None:
            if node.entries is not None:
                node.durable = max(node.durable, end)
            else:
                node.synced, node.synced_times = data, times
                if node.data is data:
                    self._dirty.pop(node, None)
            if self.ordered:
                self.committed = max(self.committed, changed)

        return finish

    def flush_all(self) -> None:
        """All that there is becomes durable."""
        for node in (self.root, *self._nodes()):
            self.flush(node)()
        self.committed = len(self.log)

    def lose_power(self, chance: random.Random) -> None:
        """Continue with one of the states that may be on the platter."""
        old = self.clock() - WRITEBACK
        aged = next((place for place, entry in enumerate(self.log) if entry.when > old), len(self.log))
        kept = self._ordered_cut(chance, aged) if self.ordered else self._directory_cuts(chance, aged)
        folders = {id(self.root): self.root} | {id(entry.folder): entry.folder for entry in self.log}
        for node in [*self._nodes()]:
            folders[id(node)] = node
        for folder in folders.values():
            folder.entries = None if folder.entries is None else dict(folder.base)
        for entry in kept:
            assert entry.folder.entries is not None
            for name, node in entry.changes:
                if node is None:
                    entry.folder.entries.pop(name, None)
                else:
                    entry.folder.entries[name] = node
        self._recover_bytes(chance, old)
        self.log.clear()
        self.committed = 0
        self._dirty.clear()
        self._count_links()

    def _ordered_cut(self, chance: random.Random, aged: int) -> list[Entry]:
        cut = chance.randint(max(self.committed, aged), len(self.log))
        if cut < len(self.log) and self.log[cut].needs is not None:
            cut += 1
        return self.log[:cut]

    def _directory_cuts(self, chance: random.Random, aged: int) -> list[Entry]:
        cuts: dict[Node, int] = {}
        for entry in self.log:
            if entry.folder not in cuts:
                cuts[entry.folder] = chance.randint(max(entry.folder.durable, aged), len(self.log))
        changed = True
        while changed:
            changed = False
            for place, entry in enumerate(self.log):
                if entry.needs is not None and place < cuts[entry.folder]:
                    added = self.log[entry.needs].folder
                    if cuts[added] <= entry.needs:
                        cuts[added], changed = entry.needs + 1, True
        return [entry for place, entry in enumerate(self.log) if place < cuts[entry.folder]]

    def _recover_bytes(self, chance: random.Random, old: int) -> None:
        for node in self._dirty:
            if node.written > old:
                part = node.data[: chance.randint(0, len(node.data))]
                if node.data is not node.synced:
                    node.data = chance.choice((node.synced, b"", part, node.data))
                node.mtime, node.ctime = chance.choice((node.synced_times, (node.mtime, node.ctime)))
            node.synced = node.data

    def _nodes(self) -> Iterator[Node]:
        """Every node that has a name, each once for each name."""
        rest = [self.root]
        while rest:
            folder = rest.pop()
            for node in (folder.entries or {}).values():
                yield node
                if node.entries is not None:
                    rest.append(node)

    def _count_links(self) -> None:
        nodes = {id(node): node for node in (self.root, *self._nodes())}
        used: set[int] = set()
        for node in nodes.values():
            if node.number in used:
                node.number, self._next = self._next, self._next + 1
            used.add(node.number)
        self._free = [number for number in self._free if number not in used]
        for node in nodes.values():
            node.links = 0 if node.entries is None else 2
            node.opens, node.watches, node.locks = [], [], {}
            node.changed = node.durable = 0
            node.synced, node.synced_times = node.data, (node.mtime, node.ctime)
        for node in nodes.values():
            node.base = dict(node.entries or {})
            for child in (node.entries or {}).values():
                if child.entries is None:
                    child.links += 1
                else:
                    node.links += 1
