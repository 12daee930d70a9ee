"""The simulated disk does what the real filesystem does: errors, links, sizes, bytes, times, events and locks."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest
from disk import ATTRIB, CLOSE_WRITE, CREATE, DELETE, MODIFY, MOVED_FROM, MOVED_TO, Disk, Node, Notifications
from real_disk import RealDisk, RealNotifications

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE
FOLDERS, NAMES = ("", "/a", "/b", "/a/c"), ("x", "y", "z")
SEQUENCES = int(os.environ.get("TASKPIT_DISK_SEQUENCES", "60"))
#: Where the random calls run; `make faults` names mounted filesystems here.
PLACES = [place for place in os.environ.get("TASKPIT_DISK_PLACES", "").split(":") if place] or [""]
FLAGS = (
    os.O_RDONLY,
    os.O_RDWR,
    os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    os.O_RDWR | os.O_CREAT,
    os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    os.O_RDONLY | os.O_DIRECTORY,
)


class Pair:
    """One real and one simulated disk that get the same calls."""

    def __init__(self, root: str, chance: random.Random, *, timed: bool) -> None:
        self.chance, self.timed = chance, timed
        self.simulated, self.real = Disk(time.time_ns), RealDisk(root)
        self.opened: list[tuple[object, object]] = []
        self.history: list[str] = []
        for disk in (self.simulated, self.real):
            for folder in FOLDERS[1:]:
                disk.mkdir(folder)
        self.watchers = Notifications(16384), RealNotifications()
        for folder in ("/a", "/b"):
            numbers = [disk.watch(one, folder, EVENTS) for disk, one in zip(self.disks, self.watchers, strict=True)]
            assert numbers[0] == numbers[1]
        self.times = self.facts()

    @property
    def disks(self) -> tuple[Disk, RealDisk]:
        return self.simulated, self.real

    def path(self) -> str:
        chance = self.chance
        if chance.random() < 0.08:
            return chance.choice(("/a", "/a/c", "/none/x", "/a/x/y", "/b"))
        return f"{chance.choice(FOLDERS)}/{chance.choice(NAMES)}"

    def choose(self) -> tuple[str, tuple[object, ...]]:
        chance = self.chance
        call = chance.choice(
            (
                *("open", "open", "close", "read", "write", "write", "truncate", "link", "link", "rename", "rename"),
                *("noreplace", "exchange", "unlink", "mkdir", "rmdir", "utime", "futime", "lock", "unlock", "chmod"),
            )
        )
        if call in ("close", "read", "write", "truncate", "futime", "lock", "unlock"):
            if not self.opened:
                return "open", (self.path(), chance.choice(FLAGS))
            place = chance.randrange(len(self.opened))
            more: dict[str, tuple[object, ...]] = {
                "read": (chance.choice((0, 3, 100)),),
                "write": (chance.choice((b"", b"one", b"longer than that" * 300)),),
                "truncate": (chance.choice((0, 2, 5000)),),
                "futime": (chance.choice((None, 10**18)),),
                "lock": (chance.random() < 0.3,),
            }
            return call, (place, *more.get(call, ()))
        if call == "open":
            return call, (self.path(), chance.choice(FLAGS))
        if call in ("link", "rename", "noreplace", "exchange"):
            return call, (self.path(), self.path())
        if call == "utime":
            return call, (self.path(), chance.choice((None, 10**18)))
        if call == "chmod":
            return call, (self.path(), 0o644)
        return call, (self.path(),)

    def carry_out(self, side: int, call: str, args: tuple[object, ...]) -> object:
        disk = self.disks[side]
        values = list(args)
        if isinstance(values[0], int):
            values[0] = self.opened[values[0]][side]
        options = {}
        if call == "noreplace":
            call, options = "rename", {"replace": False}
        if call == "lock":
            options = {"shared": values.pop()}
        try:
            return getattr(disk, call)(*values, **options)
        except OSError as error:
            return f"errno {error.errno}"

    def act(self) -> None:
        call, args = self.choose()
        self.history.append(f"{call} {args}")
        if self.timed:
            time.sleep(0.006)  # longer than the grain of the times of any filesystem here
        simulated, real = (self.carry_out(side, call, args) for side in (0, 1))
        if call == "open" and not isinstance(simulated, str) and not isinstance(real, str):
            self.opened.append((simulated, real))
        else:
            assert simulated == real, self.recent()
        if call == "close":
            del self.opened[args[0]]
        self.compare()

    def recent(self) -> str:
        return "\n".join(self.history[-30:])

    def facts(self) -> list[dict[str, tuple[object, ...]]]:
        found: list[dict[str, tuple[object, ...]]] = [{}, {}]
        folders = ["", *(folder for folder in FOLDERS[1:])]
        paths = [f"{folder}/{name}" for folder in folders for name in (*NAMES, "c", "a", "b")]
        for path in paths:
            for side in (0, 1):
                try:
                    found[side][path] = self.stat(side, path)
                except OSError as error:
                    found[side][path] = (f"errno {error.errno}",)
        return found

    def stat(self, side: int, path: str) -> tuple[object, ...]:
        if side:
            number, links, size, mtime, ctime = self.real.facts(path)
            if os.path.isdir(self.real.root + path):
                return number, "directory", 0, mtime, ctime
            return number, links, size, mtime, ctime
        node: Node = self.simulated.find(path)
        if node.entries is not None:
            return node.number, "directory", 0, node.mtime, node.ctime
        return node.number, node.links, node.size, node.mtime, node.ctime

    def compare(self) -> None:
        now = self.facts()
        for path in now[0]:
            simulated, real = now[0][path], now[1][path]
            assert len(simulated) == len(real), (path, simulated, real, self.recent())
            if len(simulated) == 1:
                assert simulated == real, (path, self.recent())
                continue
            assert simulated[1:3] == real[1:3], (path, self.recent())
            if self.timed:
                before = [self.times[side][path] for side in (0, 1)]
                if all(len(one) > 1 and one[0] == now[side][path][0] for side, one in enumerate(before)):
                    changed = [[now[side][path][n] != before[side][n] for n in (3, 4)] for side in (0, 1)]
                    assert changed[0] == changed[1], (path, changed, self.recent())
        assert same_files(now[0]) == same_files(now[1]), self.recent()
        self.times = now
        for simulated, real in self.opened:
            links, size = self.real.open_facts(real)
            node = simulated.node
            if node.entries is None:
                assert (node.links, node.size) == (links, size), self.recent()
        events = list(self.watchers[0].queue), self.watchers[1].drain()
        self.watchers[0].queue.clear()
        assert events[0] == events[1], self.recent()


def same_files(facts: dict[str, tuple[object, ...]]) -> list[list[str]]:
    """Which names are of one file."""
    by_number: dict[object, list[str]] = {}
    for path, fact in facts.items():
        if len(fact) > 1:
            by_number.setdefault(fact[0], []).append(path)
    return sorted(by_number.values())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("timed", [False, True])
def test_random_calls_do_the_same_on_both_disks(tmp_path: Path, place: str, timed: bool) -> None:
    folder = place or str(tmp_path)
    for seed in range(6 if timed else SEQUENCES):
        root = f"{folder}/{'timed' if timed else 'random'}-{seed}"
        os.mkdir(root)
        pair = Pair(root, random.Random(f"disk:{seed}"), timed=timed)
        try:
            for _ in range(60 if timed else 120):
                pair.act()
        finally:
            for _, real in pair.opened:
                pair.real.close(real)
            os.close(pair.watchers[1].number)
