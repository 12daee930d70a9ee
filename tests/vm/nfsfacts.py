"""What NFS does differently from a local disk, measured between two clients. Guest side; touches no queue."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from taskpit import fs, kernel

#: Longer than any cache here keeps what it has seen, in seconds.
LONGEST = 70.0
LINES = 100


def look(one, other):
    """Sentences, each with what was measured."""
    for name in ("facts",):
        os.mkdir(f"{one}/{name}")
    one, other = f"{one}/facts", f"{other}/facts"
    return [_speed(one), _no_replace(one), _locks(one, other), *_stale(one, other), _appends(one, other)]


def _make(path):
    with open(path, "w", encoding="ascii") as file:
        file.write("x")


def _speed(one):
    begun = time.monotonic()
    for number in range(20):
        _make(f"{one}/speed-{number}")
        os.rename(f"{one}/speed-{number}", f"{one}/moved-{number}")
    return f"20 files written and renamed in {time.monotonic() - begun:.2f} s"


def _no_replace(one):
    _make(f"{one}/free")
    code = kernel.rename_new(f"{one}/free", f"{one}/target")
    return f"rename that must not replace: {'works' if code == 0 else errno.errorcode[code]}"


def _locks(one, other):
    with open(f"{one}/lock", "w", encoding="ascii") as held, open(f"{other}/lock", "w", encoding="ascii") as wanted:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            fcntl.flock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "flock excludes the other client"
    return "flock does not exclude the other client"


def _stale(one, other):
    """How long a client believes what it saw: of a name that was not there, and of a file's times."""
    seen = [os.path.lexists(f"{other}/{name}") for name in ("late", "gone")]
    _make(f"{one}/late")
    _make(f"{one}/stamped")
    os.lstat(f"{other}/stamped")
    os.utime(f"{one}/stamped", (5, 5))
    stale = os.lstat(f"{other}/stamped").st_mtime != 5
    with open(f"{other}/stamped", encoding="ascii") as file:
        fresh = os.fstat(file.fileno()).st_mtime == 5
    listed = "late" in os.listdir(other)
    refused = not fs.link(f"{other}/stamped", f"{other}/late")
    begun = time.monotonic()
    _make(f"{one}/missing-{seen[0]}")
    name = f"{other}/unseen"
    os.path.lexists(name)
    _make(f"{one}/unseen")
    while not os.path.lexists(name) and time.monotonic() - begun < LONGEST:
        time.sleep(0.1)
    yield f"a name made by one client was not there for the other's stat for {time.monotonic() - begun:.1f} s"
    yield f"a listing showed a new name at once: {listed}; link refused a name that was taken: {refused}"
    yield f"stat was behind a utime of the other client: {stale}; open and fstat were up to date: {fresh}"


def _appends(one, other):
    """Lines that two clients append at once without a lock."""
    _make(f"{one}/log")
    children = []
    for place in (one, other):
        pid = os.fork()
        if pid == 0:
            for _ in range(LINES):
                fd = os.open(f"{place}/log", os.O_WRONLY | os.O_APPEND)
                os.write(fd, b"line\n")
                os.close(fd)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    with open(f"{one}/log", "rb") as file:
        kept = file.read().count(b"line\n")
    return f"two clients appending without a lock lost {2 * LINES - kept} of {2 * LINES} lines"
