"""Locks to try things on: queues by clocks of our choosing, hand-written locks, and broken variants of the protocol."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time

from taskpit import fs, layouts
from taskpit.clock import Clock, instant, iso
from taskpit.config import Config
from taskpit.errors import Lost, Unavailable
from taskpit.model import Said
from taskpit.store import locks
from taskpit.store.files import FileStore
from taskpit.store.folder import FENCES, LOCKS
from taskpit.store.opening import init

NAME = "deploy"
LEASE = 600.0
FAST = Config(durability="process")
#: How far the clocks are moved that make a lock old.
LONG = 100_000.0


def start(*command):
    """Somebody who contends: it is here, and reads what to do."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
    )
    assert process.stdout.readline() == "here\n"
    return process


class Shifted(Clock):
    """The machine's clocks, both moved by so much: what passes between them is time, not a jump."""

    def __init__(self, seconds):
        self._by = seconds

    def now(self):
        return time.time() + self._by

    def monotonic(self):
        return time.monotonic() + self._by


def make(root, clock=None, config=FAST, layout="pit"):
    """A store in a new folder."""
    init(str(root), layout, clock)
    return store(root, clock, config, layout)


def store(root, clock=None, config=FAST, layout="pit"):
    """The store in a folder, as another process has it."""
    return FileStore(str(root), layouts.get(layout), config, clock or Clock(), grace=0.0)


def path_of(found, name=NAME):
    """The lock's file."""
    return found.folder.at(f"{LOCKS}/{name}.lock")


def gripped(found, name=NAME):
    """What the engine makes of it."""
    return locks.Grip(found.folder, name, f"{LOCKS}/{name}.lock")


def spelled(holder, acquired, expires, **more):
    """A lock as people and other tools write it."""
    fields = {"holder": holder, "holder_type": "agent", "acquired": iso(acquired), "expires": iso(expires), **more}
    return (json.dumps(fields, indent=2) + "\n").encode()


def write(path, data):
    """Write a file as others do, over whatever is there."""
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def holder_of(path):
    """Whom the file names."""
    return json.loads(read(path))["holder"]


# -- who contends: each returns the number it got (0: it has none to tell), or None if it was refused ----


def ours(found, worker):
    """Our own way."""
    try:
        return found.lock(NAME, worker, LEASE).number
    except (Lost, Unavailable):
        return None


def _stale(path):
    """Whether the original would take it over: unreadable or past its end. None if there is none."""
    try:
        text = json.loads(fs.read(path, 1 << 16)[0])["expires"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError):
        return False  # half-written: the kinder reading
    return instant(text, 0.0) < time.time()


def delete_and_create(found, worker):
    """The original's way: delete what has expired, then create exclusively."""
    path = path_of(found)
    stale = _stale(path)
    if stale is False:
        return None
    if stale:
        fs.remove(path)
    try:
        fs.create(path, spelled(worker, time.time(), time.time() + LEASE), sync=False)
    except FileExistsError:
        return None
    return 0


def write_and_read_again(found, worker):
    """The original's way for tools without exclusive creation: write, read again, compare."""
    path = path_of(found)
    if _stale(path) is False:
        return None
    mine = spelled(worker, time.time(), time.time() + LEASE)
    fs.replace(path, mine, found.folder.tmp("x", fs.fresh_name(), "lock"), sync=False)
    return 0 if fs.read(path, 1 << 16)[0] == mine else None


PROTOCOLS = {one.__name__: one for one in (ours, delete_and_create, write_and_read_again)}


def pauses(seed, longest=0.001, share=0.5):
    """A hook that stands still before calls, at random: as the scheduler does, only more often."""
    chance = random.Random(seed)

    def hook(call, path):
        if chance.random() < share:
            time.sleep(chance.random() * longest)

    return hook


def dies_at(number):
    """A hook that kills this process before its call of this number, not counting those that wait for a turn."""
    count = 0

    def hook(call, path):
        nonlocal count
        count += call != "flock"
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


# -- broken variants: each takes something with pytest's `setattr` and breaks one thing ------------------


def no_turns(patch):
    """Who changes a lock does not take the kernel's lock first."""
    real = locks.Grip.take

    def take(self, *, wait=True):
        with_lock = fs.fcntl
        fs.fcntl = _NoFlock
        try:
            return real(self, wait=wait)
        finally:
            fs.fcntl = with_lock

    patch.setattr(locks.Grip, "take", take)


class _NoFlock:
    """The module, with a lock that everybody gets."""

    LOCK_EX = LOCK_NB = 0

    @staticmethod
    def flock(fd, how):
        return None


def unlink_and_link(patch):
    """An expired lock is removed before the new one has its name."""
    real = fs.move

    def move(source, target):
        if f"/{LOCKS}/" not in target:
            return real(source, target)
        fs.remove(target)
        done = fs.link(source, target)
        fs.remove(source)
        return done

    patch.setattr(fs, "move", move)


def number_stands_still(patch):
    """A takeover keeps the number of the one it replaces."""
    real = locks.Grip._enter

    def enter(self, lock, number, lease):
        real(self, lock, self.number or number, lease)

    patch.setattr(locks.Grip, "_enter", enter)
    acquire = locks.Grip.acquire
    patch.setattr(locks.Grip, "acquire", lambda self, wanted: acquire(self, wanted).replace(number=self.number))


def anybodys(patch):
    """Whose lock it is, is not compared."""

    def mine(self, lock):
        self._held = self.look()
        return self._held and lock

    patch.setattr(locks.Grip, "mine", mine)


def freed_unseen(patch):
    """Release removes whatever is there, as the original does: "simply delete the lock file"."""

    def unlock(folder, held):
        with locks._grip(folder, held.name):
            fs.remove(folder.at(f"{LOCKS}/{held.name}.lock"))
        return Said.OK

    patch.setattr(locks, "unlock", unlock)


def number_not_compared(patch):
    """The holder's name alone tells whose lock it is."""
    real = locks.Grip.mine
    patch.setattr(locks.Grip, "mine", lambda self, lock: real(self, lock.replace(number=0)))


def not_looked_at_again(patch):
    """What stands there is replaced or removed without a last look."""
    patch.setattr(locks.Grip, "_untouched", lambda self: True)


def kernel_not_asked(patch):
    """Only the observer's own clock tells the time."""
    patch.setattr(locks.Grip, "_kernel_now", lambda self: float("inf"))


def clock_believed(patch):
    """Nobody looks whether the clock was set meanwhile."""
    patch.setattr(locks.Grip, "_even", lambda self, record: True)


def own_clock_only(patch):
    """A lock ends when the observer's clock says so."""
    patch.setattr(locks.Grip, "_even", lambda self, record: True)
    kernel_not_asked(patch)


def never_watched(patch):
    """What cannot be told from the clock is never over."""
    patch.setattr(locks.Grip, "_watched", lambda self, record, seen, lease: "")


def unreadable_is_stale(patch):
    """A lock that cannot be read counts as expired."""
    real = locks.Grip.over
    patch.setattr(locks.Grip, "over", lambda self, seen: seen.trouble or real(self, seen))


def unreadable_is_dropped(patch):
    """A lock that cannot be read is replaced, and nothing is kept of it."""
    patch.setattr(locks.Grip, "_keep", lambda self, seen: seen)


def fence_forgotten(patch):
    """The number's file goes with the lock."""
    real = locks.Grip.let_go

    def let_go(self):
        real(self)
        fs.remove(self._folder.at(f"{FENCES}/{self.name}"))

    patch.setattr(locks.Grip, "let_go", let_go)


def unread_count_begins_anew(patch):
    """A count that cannot be read now is taken for none."""
    real = locks.Grip._record

    def record(self):
        try:
            return real(self)
        except OSError:
            return dict(locks.EMPTY)

    patch.setattr(locks.Grip, "_record", record)


def the_dead_count(patch):
    """Whoever locks is judged by the record of the last process of that name."""
    patch.setattr(locks, "_alive", lambda folder, worker, seconds: None)


def watched_since_the_beginning(patch):
    """After a jump of the clock a lock is watched as long as it was held, not for its last lease."""
    real = locks.Grip._enter

    def enter(self, lock, number, lease):
        real(self, lock, number, lock.expires - lock.acquired)

    patch.setattr(locks.Grip, "_enter", enter)


MUTANTS = {one.__name__: one for one in (no_turns, unlink_and_link, number_stands_still)}


class Patch:
    """Breaks things for good: for a process that has no other purpose."""

    setattr = staticmethod(setattr)
