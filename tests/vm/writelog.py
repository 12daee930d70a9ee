"""A disk's write log (dm-log-writes) and the disks a power loss could have left. Knows blocks, not files.

What was written before the last flush is on the disk. What was completed after it may be there or not, each
write by itself: a crash state is everything up to a flush and any part of what follows up to some point.
"""

from __future__ import annotations

import hashlib
import os
import struct
from array import array

BLOCK = 512
#: How much of a disk is looked at as one piece.
PIECE = 1 << 15
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
_SUPER = struct.Struct("<QQQI")
_ENTRY = struct.Struct("<QQQQ")
MAGIC = 0x6A736677736872


class Write:
    """One entry: a write, a discard, a bare flush or a mark."""

    __slots__ = ("at", "flags", "length", "mark", "place")

    def __init__(self, at, length, flags, *, place=0, mark=""):
        self.at = at
        self.length = length
        self.flags = flags
        #: Where in the log its bytes are.
        self.place = place
        self.mark = mark


def read(path):
    """The entries of a log, in order."""
    entries = []
    with open(path, "rb") as file:
        magic, _, count, sector = _SUPER.unpack(file.read(_SUPER.size))
        if magic != MAGIC:
            raise ValueError(f"{path} is no write log")
        place = sector
        for _ in range(count):
            file.seek(place)
            head = file.read(sector)
            start, sectors, flags, size = _ENTRY.unpack_from(head)
            place += sector
            if flags & MARK:
                entries.append(Write(0, 0, flags, mark=head[_ENTRY.size : _ENTRY.size + size].decode()))
                continue
            entries.append(Write(start * sector, sectors * sector, flags, place=place))
            place += 0 if flags & DISCARD else sectors * sector
    return entries


def last_flush(entries, cut):
    """The entry before `cut` up to which everything is surely on the disk; 0 if there is none."""
    return next((at for at in range(cut - 1, -1, -1) if entries[at].flags & FLUSH), 0)


def kept(entries, cut, choose=None):
    """Which of the first `cut` entries a power loss leaves: all, or with `choose` any part of what is not flushed.

    `choose()` says of each write after the last flush whether it reached the disk; one that had to (FUA) did.
    """
    if choose is None:
        return range(cut)
    sure = last_flush(entries, cut)
    return [at for at in range(cut) if at < sure or entries[at].flags & (FUA | MARK) or choose()]


class Disk:
    """What a disk holds after some of a log's entries, over what it held before."""

    def __init__(self, base, log, entries):
        self._size, self._base = written(base)
        self._log = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        self._entries = entries
        self._digests = [self._blocks(entry) for entry in entries]

    def _data(self, entry):
        return bytes(entry.length) if entry.flags & DISCARD else os.pread(self._log, entry.length, entry.place)

    def _blocks(self, entry):
        """A number for each block of a write, by its content."""
        data = self._data(entry) if entry.length else b""
        blocks = (data[place : place + BLOCK] for place in range(0, len(data), BLOCK))
        return array("Q", (int.from_bytes(hashlib.blake2b(block, digest_size=8).digest(), "big") for block in blocks))

    def digest(self, chosen):
        """A name for what the disk holds: equal disks have equal names, whatever wrote them."""
        found = {}
        for at in chosen:
            first = self._entries[at].at // BLOCK
            found.update(enumerate(self._digests[at], first))
        places = sorted(found)
        name = hashlib.sha256(array("Q", places))
        name.update(array("Q", map(found.__getitem__, places)))
        return name.digest()

    def write(self, fd, chosen):
        """The open file now is this disk."""
        os.ftruncate(fd, 0)
        os.ftruncate(fd, self._size)
        for place, piece in self._base:
            os.pwrite(fd, piece, place)
        for entry in reversed(self._seen(chosen)):
            os.pwrite(fd, self._data(entry), entry.at)

    def _seen(self, chosen):
        """Those of which something is not written over by a later one, the last first."""
        over, seen = set(), []
        for at in reversed(chosen):
            entry = self._entries[at]
            blocks = range(entry.at // BLOCK, (entry.at + entry.length) // BLOCK)
            if not over.issuperset(blocks):
                over.update(blocks)
                seen.append(entry)
        return seen


def written(path):
    """A sparse file's size, and its pieces that are not empty: place and bytes."""
    with open(path, "rb") as file:
        pieces, place = [], 0
        while piece := file.read(PIECE):
            if piece.count(0) != len(piece):
                pieces.append((place, piece))
            place += len(piece)
    return place, pieces
