"""Crash states from a write log: what a flush made sure, what it did not, and which states are the same."""

from __future__ import annotations

import importlib.util
import os
import struct

import pytest

SPEC = importlib.util.spec_from_file_location("writelog", os.path.join(os.path.dirname(__file__), "writelog.py"))
writelog = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(writelog)

BLOCK = writelog.BLOCK


def make(tmp_path, steps):
    """A disk of eight blocks, and a log of these: letters, one for each block, their place, and flags."""
    log = struct.pack("<QQQI", writelog.MAGIC, 1, len(steps), BLOCK).ljust(BLOCK, b"\0")
    for letters, place, flags in steps:
        mark = b"done:1" if flags & writelog.MARK else b""
        log += (struct.pack("<QQQQ", place, len(letters), flags, len(mark)) + mark).ljust(BLOCK, b"\0")
        log += b"".join(letter.encode() * BLOCK for letter in letters)
    (tmp_path / "log").write_bytes(log)
    (tmp_path / "base").write_bytes(b"-" * 8 * BLOCK)
    entries = writelog.read(tmp_path / "log")
    return writelog.Disk(tmp_path / "base", tmp_path / "log", entries), entries


@pytest.fixture
def disk(tmp_path):
    """A, B, flush with C, mark, D forced, E: each one block; E writes what B wrote."""
    steps = [("A", 0, 0), ("B", 1, 0), ("C", 2, writelog.FLUSH), ("", 0, writelog.MARK)]
    return make(tmp_path, [*steps, ("D", 3, writelog.FUA), ("B", 1, 0)])


def content(disk, chosen, tmp_path):
    fd = os.open(tmp_path / "state", os.O_RDWR | os.O_CREAT)
    disk.write(fd, chosen)
    data = os.pread(fd, 1 << 16, 0)
    os.close(fd)
    return data[::BLOCK].decode()


def test_a_prefix_is_everything_before_a_point(disk, tmp_path):
    disk, entries = disk
    assert content(disk, writelog.kept(entries, 0), tmp_path) == "--------"
    assert content(disk, writelog.kept(entries, 2), tmp_path) == "AB------"
    assert content(disk, writelog.kept(entries, 6), tmp_path) == "ABCD----"


def test_what_was_flushed_or_forced_is_never_lost(disk, tmp_path):
    disk, entries = disk
    assert content(disk, writelog.kept(entries, 6, lambda: False), tmp_path) == "AB-D----"
    assert content(disk, writelog.kept(entries, 2, lambda: False), tmp_path) == "--------"


def test_a_later_write_is_over_an_earlier_one(tmp_path):
    disk, entries = make(tmp_path, [("ABC", 1, 0), ("DE", 3, 0), ("F", 2, 0), ("GH", 2, 0)])
    assert content(disk, writelog.kept(entries, 3), tmp_path) == "-AFDE---"
    assert content(disk, writelog.kept(entries, 4), tmp_path) == "-AGHE---"
    assert content(disk, [0, 2, 3], tmp_path) == "-AGH----"


def test_equal_disks_are_one_state_and_others_are_not(disk):
    disk, entries = disk
    same = {disk.digest(writelog.kept(entries, cut)) for cut in (5, 6)}
    assert len(same) == 1
    assert len({disk.digest(writelog.kept(entries, cut)) for cut in range(6)}) == 5  # the mark writes nothing


def test_marks_tell_what_was_promised(disk):
    assert [entry.mark for entry in disk[1] if entry.mark] == ["done:1"]
