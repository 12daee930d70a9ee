"""The simulated port to the disk does what the real one does, on each filesystem.

Random calls go to both. After each one the errors, links, sizes, bytes, times, notifications and locks are compared.
The whole simulator rests on this: the store, and the strangers, reach the simulated disk by this port only.
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from disk import Disk
from disks import Unable, mounted
from machine import Machine, SimFiles
from scheduler import World

from taskpit.store.plain.files import Files

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS, NAMES = ("food", "claimed", ".taskpit/open"), ("x", "y", "z")
CHANGES = (
    *("create", "create", "create", "append", "write_at", "link", "link", "move", "move", "replace", "exchange"),
    *("remove", "remove", "make_dir", "remove_dir", "set_times", "set_mode", "sync", "sync_dir"),
)


class Ports:
    """One real and one simulated port that get the same calls."""

    def __init__(self, root: str, chance: random.Random, *, timed: bool) -> None:
        self.chance, self.timed = chance, timed
        self.world = World(0, tick=1000, burst=1, limit=1 << 40)
        machine = Machine(self.world, Disk(self.world.now), 0)
        self.ports: tuple[Any, Any] = (SimFiles(machine, self.world.process("p")), Files(root))
        self.history: list[str] = []
        for port in self.ports:
            for folder in FOLDERS:
                port.make_dir(folder)
            port.create("text", b"")
        self.watches = [port.watch(["food", "claimed"]) for port in self.ports]
        self.locks = [[port.lock_file("lock") for _ in range(2)] for port in self.ports]

    def path(self, *whole: str) -> str:
        """A name in a folder; the port may know a folder that is moved under its old name for a second."""
        chance = self.chance
        if chance.random() < 0.08:
            return chance.choice(("none/x", "text/y", "food/../x", "lock", *whole))
        return f"{chance.choice(FOLDERS)}/{chance.choice(NAMES)}"

    def choose(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        chance = self.chance
        looks = ("stat", "read", "piece", "names", "scan", "entries", "may_write", "is_locked", "open")
        call = chance.choice((*CHANGES, *looks, "take", "drop", "is_current", "text", "changes"))
        data = chance.choice((b"", b"short", b"long" * 2000))
        options: dict[str, dict[str, Any]] = {
            "create": {"modified": chance.choice((None, 1.5e9)), "sync": chance.random() < 0.3},
            "write_at": {"cut": chance.random() < 0.5},
            "sync": {"touch": chance.choice((None, 1.4e9))},
        }
        more: dict[str, tuple[Any, ...]] = {
            "create": (data,),
            "append": (data,),
            "write_at": (chance.choice((0, 3, 9000)), data),
            "set_times": (chance.choice((None, 1.6e9 + 0.123)),),
            "set_mode": (0o640,),
            "read": (chance.choice((100, 100_000)),),
            "piece": (chance.choice((0, 4, -4, -9000)), 6),
            **dict.fromkeys(("link", "move", "replace", "exchange"), (self.path(),)),
        }
        if call in ("names", "scan", "entries", "sync_dir"):
            args: tuple[Any, ...] = (chance.choice((*FOLDERS, "none", "text", "")),)
        elif call == "append":  # the port keeps the file open for a second
            args = ("log", data)
        elif call in ("take", "drop", "is_current", "text"):
            args = (chance.randrange(2), data[:7])
        elif call == "changes":
            args = ()
        else:
            whole = () if call in more or call == "remove_dir" else ("food", ".taskpit")
            args = (self.path(*whole), *more.get(call, ()))
        return call, args, options.get(call, {})

    def carry_out(self, side: int, call: str, args: tuple[Any, ...], options: dict[str, Any]) -> object:
        port = self.ports[side]
        try:
            if call in ("take", "drop", "is_current"):
                return getattr(self.locks[side][args[0]], call)()
            if call == "text":
                self.locks[side][args[0]].write(args[1])
                return self.locks[side][args[0]].read()
            if call == "changes":
                return self.watches[side].changes()
            return plain(call, getattr(port, call)(*args, **options))
        except OSError as error:
            return type(error).__name__, error.errno

    def act(self) -> None:
        call, args, options = self.choose()
        self.history.append(f"{call} {args} {options}".replace("long" * 2000, "..."))
        if self.timed:
            time.sleep(0.006)  # longer than the grain of the times of any filesystem here
            self.world.monotonic += 10**9
        before = [self.rows(side) for side in (0, 1)] if self.timed else []
        simulated, real = (self.carry_out(side, call, args, options) for side in (0, 1))
        if (
            call == "changes" and real is None
        ):  # the port may always say that it does not know: here of a folder made again
            self.watches = [port.watch(["food", "claimed"]) for port in self.ports]
            return
        assert simulated == real, "\n".join(self.history[-15:])
        after = [self.rows(side) for side in (0, 1)]
        plainly = [sorted((name, plain("stat", row)) for name, row in rows.items()) for rows in after]
        assert plainly[0] == plainly[1], "\n".join(self.history[-15:])
        if self.timed and call not in ("open", "take", "drop", "text", "exchange"):  # XFS: an exchange keeps the ctime
            changed = [changes(before[side], after[side]) for side in (0, 1)]
            assert changed[0] == changed[1], "\n".join(self.history[-15:])

    def rows(self, side: int) -> dict[str, os.stat_result]:
        """Every name with its status."""
        port = self.ports[side]
        return {f"{folder}/{name}": row for folder in FOLDERS for name, row in port.scan(folder)}


def changes(before: dict[str, os.stat_result], after: dict[str, os.stat_result]) -> dict[str, tuple[bool, bool]]:
    """Which files have another mtime or ctime."""
    same = [name for name, row in before.items() if name in after and after[name].st_ino == row.st_ino]
    return {
        name: (
            before[name].st_mtime_ns != after[name].st_mtime_ns,
            before[name].st_ctime_ns != after[name].st_ctime_ns,
        )
        for name in same
    }


def plain(call: str, answer: Any) -> object:
    """What must be the same of an answer."""
    if isinstance(answer, os.stat_result):
        is_folder = answer.st_mode & 0o40000
        seconds = answer.st_mtime_ns if answer.st_mtime < 1.7e9 else "now"
        return ("folder",) if is_folder else (answer.st_nlink, answer.st_size, seconds)
    if call == "names":
        return sorted(answer)
    if call in ("entries", "scan"):
        rows = [(row[0], row[2] if call == "entries" else plain("stat", row[1])) for row in answer]
        return sorted(rows, key=str)
    if call == "read":
        return answer[0], plain("stat", answer[1])
    if call == "open":
        with answer:
            answer.set_times(1.3e9)
            return answer.piece(2, 5), plain("stat", answer.stat)
    return answer


def compare(place: str, sequences: int, *, timed: bool) -> None:
    for seed in range(sequences):
        root = f"{place}/{'timed' if timed else 'port'}-{seed}"
        os.mkdir(root)
        ports = Ports(root, random.Random(f"port:{seed}"), timed=timed)
        try:
            for _ in range(120):
                ports.act()
        finally:
            ports.ports[1].close()


@pytest.mark.parametrize("timed", [False, True])
def test_random_calls_of_the_port_answer_the_same(tmp_path: Path, *, timed: bool) -> None:
    compare(str(tmp_path), 5 if timed else 60, timed=timed)


@pytest.mark.races
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs"])
def test_random_calls_answer_the_same_on_this_filesystem(kind: str) -> None:
    try:
        with mounted(kind) as place:
            if kind != "xfs":  # its exchange changes other times
                compare(place, 15, timed=True)
            compare(place, 200, timed=False)
    except Unable as error:
        pytest.skip(str(error))


def test_the_simulated_port_has_the_methods_of_the_real_one() -> None:
    """A new method of the port needs a simulated one."""
    internal = {"after_fork", "folder"}
    methods = {name for name in vars(Files) if not name.startswith("_")} - internal
    assert methods == {name for name in vars(SimFiles) if not name.startswith("_")}
