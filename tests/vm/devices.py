"""A disk that keeps a log of every write, and disks made of a file. Guest side; knows device-mapper and loop."""

from __future__ import annotations

import fcntl
import os
import struct

from guest import load, mount, run, unmount

#: What makes each filesystem, and how it is mounted: what is not synced goes to the disk every second.
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
OPTIONS = {"ext4": "commit=1", "xfs": "", "btrfs": "commit=1"}
#: The smallest disks these make without being asked twice.
MEGABYTES = {"ext4": 32, "xfs": 320, "btrfs": 128}

_TARGET_MESSAGE = 0xC138FD0E
_HEAD = struct.Struct("<3I2IIiIIIQ128s129s7s")
_LOOP_SET_FD, _LOOP_CLR_FD = 0x4C00, 0x4C01


class Logged:
    """A disk with a filesystem whose every write is kept in a log, with marks between them."""

    def __init__(self, disk, log, kind):
        self._disk, self._log, self._kind = disk, log, kind
        self._control = -1

    def format(self, base, prepare, where):
        """A new filesystem with what `prepare` puts there; a copy of the disk is kept in the file `base`."""
        run(*MAKE[self._kind], self._disk)
        mount(self._disk, where, self._kind, OPTIONS[self._kind])
        prepare()
        unmount(where)
        run("cp", "--sparse=always", self._disk, base)

    def attach(self, where):
        """From here on every write is logged."""
        load("dm-mod", "dm-log-writes")
        sectors = int(run("blockdev", "--getsz", self._disk))
        run("dmsetup", "create", "logged", "--table", f"0 {sectors} log-writes {self._disk} {self._log}")
        run("dmsetup", "mknodes")
        self._control = os.open("/dev/mapper/control", os.O_RDWR | os.O_CLOEXEC)
        mount("/dev/mapper/logged", where, self._kind, OPTIONS[self._kind])

    def mark(self, word):
        """The log has this word here: after every write that was on the disk before, before any that comes."""
        message = struct.pack("<Q", 0) + f"mark {word}".encode() + b"\0"
        size = _HEAD.size + len(message)
        head = _HEAD.pack(4, 0, 0, size, _HEAD.size, 0, 0, 0, 0, 0, 0, b"logged", b"", b"")
        fcntl.ioctl(self._control, _TARGET_MESSAGE, bytearray(head + message))

    def detach(self, where):
        """The log is complete."""
        unmount(where)
        os.close(self._control)
        run("dmsetup", "remove", "logged")


class Loop:
    """A block device that is a file."""

    def __init__(self, file):
        self.fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        load("loop")
        self.device = "/dev/loop0"

    def mounted(self, where, kind):
        """Mount what the file holds now, as after a boot."""
        device = os.open(self.device, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(device, _LOOP_SET_FD, self.fd)
            mount(self.device, where, kind, OPTIONS[kind])
        finally:
            os.close(device)

    def free(self, where):
        """Unmount it and forget what the kernel knew of it."""
        try:
            unmount(where)
        finally:
            device = os.open(self.device, os.O_RDWR | os.O_CLOEXEC)
            fcntl.ioctl(device, _LOOP_CLR_FD)
            os.close(device)
