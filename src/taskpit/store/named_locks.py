"""Locks on names of people's own choosing, in any layout: `.taskpit/locks/<name>.lock`."""

from __future__ import annotations

from taskpit import fs, workers
from taskpit.errors import Invalid, Lost
from taskpit.layouts.layout import check_word
from taskpit.store.folder import LOCKS, Folder
from taskpit.store.lock_file import Grip
from taskpit.task import Lock, Said, worker_type

__all__ = ["lock", "locks", "relock", "unlock"]

SUFFIX = ".lock"


def _grip(folder: Folder, name: str) -> Grip:
    return Grip(folder, check_word(name, "name of a lock"), f"{LOCKS}/{name}{SUFFIX}")


def lock(folder: Folder, name: str, worker: str, seconds: float, kind: str) -> Lock:
    """The name is the worker's; whoever has it already keeps its number."""
    folder.layout.check_worker(worker)
    if seconds <= 0:
        raise Invalid("a lock must last some time", name=name)
    _alive(folder, workers.base(worker), seconds)
    now = folder.clock.now()
    wanted = Lock(name=name, holder=worker, kind=kind or worker_type(worker), acquired=now, expires=now + seconds)
    with _grip(folder, name) as grip:
        mine = grip.mine(wanted)
        if mine is None:
            return grip.acquire(wanted)
        return grip.rewrite(mine.replace(expires=now + seconds))


def _alive(folder: Folder, worker: str, seconds: float) -> None:
    """The last process that stayed here under this name is dead; whoever locks now is not."""
    path = folder.worker_path(worker)
    told = workers.load(path)
    if told is not None and workers.lives(path, told) is False:
        workers.introduce(path, workers.describe(worker, seconds, folder.clock, stays=False))


def relock(folder: Folder, held: Lock, seconds: float) -> Said:
    """It lasts for so long from now on."""
    with _grip(folder, held.name) as grip:
        mine = grip.mine(held)
        if mine is None:
            return Said.LOST
        try:
            grip.rewrite(mine.replace(expires=folder.clock.now() + seconds))
        except Lost:
            return Said.LOST
        return Said.OK


def unlock(folder: Folder, held: Lock) -> Said:
    """The name is free."""
    with _grip(folder, held.name) as grip:
        if grip.mine(held) is None:
            return Said.LOST
        try:
            grip.let_go()
        except Lost:
            return Said.LOST
        return Said.OK


def locks(folder: Folder) -> list[Lock]:
    """What is held, by name; where a lock cannot be read its holder is empty."""
    found = []
    for file in sorted(fs.names(folder.at(LOCKS))):
        name = file.removesuffix(SUFFIX)
        if file == name or file.startswith("."):
            continue
        grip = Grip(folder, name, f"{LOCKS}/{file}")
        seen = grip.look()
        if seen is not None:
            found.append(seen.lock.replace(number=grip.number, expires=grip.until(seen)))
    return found
