"""A lock that ends by itself: one file that says who holds it, and a number that only grows.

Taking, renewing and giving back run under `flock(fences/<name>)`, whose file is never removed and keeps the number:
the number is raised first, then one link or one replacing rename gives the lock (`taskpit.store.locks`). Before
each write it protects the holder looks, under the same flock, whether the lock is still its own, and then writes.

Strangers know only the file: `open('x')` where there is none, and the original's way with one that has expired. With
them nobody can promise that only one *believes* to hold the lock (a stranger may delete the lock that has just
replaced the expired one it saw), nor that a stranger keeps its own; what holds is that none of ours writes after a
higher number was given out.
"""

from __future__ import annotations

from models.disk import (
    ages,
    choose,
    create,
    drop,
    forget,
    given_back,
    granted,
    link,
    look,
    move,
    remove,
    take,
    tell,
    touch,
    write,
)
from models.explorer import World

LOCK = "lock"


class Lock(World):
    """Several who want one lock, each several times."""

    def __init__(self, *, holders=2, rounds=2, foreign=0, crashes=0):
        self.rounds, self.crashes = rounds, crashes
        self.actors = {f"h{n}": (self.want, f"h{n}", 1) for n in range(holders)}
        self.actors |= {f"f{n}": (self.want_as_stranger, f"f{n}", 1) for n in range(foreign)}
        #: Without strangers nobody even believes wrongly to hold the lock.
        self.strict = not foreign

    def aging(self, disk, alive):
        """Any lease may run out at any instant: that of the file, and that of whoever believes to have one."""
        files = {disk[LOCK]} if LOCK in disk else set()
        files |= {name.removeprefix("told/holds/") for name in disk if name.startswith("told/holds/")}
        return sorted(file for file in files if f"mtime/{file}" not in disk)

    # -- the programs ------------------------------------------------------------------------------------------

    def want(self, me, number):
        """Take the lock, use it, give it back, again."""
        if number > self.rounds:
            return None
        if not (yield take("fence", me)):
            return self.want, me, number
        mine = yield from self.acquire(me, number)
        yield drop("fence")
        return (self.use, me, mine, number) if mine else (self.want, me, number)

    def acquire(self, me, number):
        """Under the flock: raise the number, then link our file where there is none, or rename it over one that ended.

        Who we are; None if it is live, or a stranger came in between.
        """
        seen = yield look(LOCK)
        if seen is not None and (yield ages(LOCK)) != "mc":
            return None
        fence = 1 + int((yield look("fence")) or 0)
        yield create(f"tmp/fence~{me}~{number}", str(fence))
        yield move(f"tmp/fence~{me}~{number}", "fence")
        mine = f"{me}#{fence}"
        scratch = f"tmp/lock~{me}~{number}"
        yield create(scratch, mine)
        if seen is None:
            won = yield granted(link(scratch, LOCK), mine)
            yield remove(scratch)
        else:
            won = (yield look(LOCK)) == seen and (yield granted(move(scratch, LOCK), mine))
            if not won:
                yield remove(scratch)
        return mine if won else None

    def use(self, me, mine, number):
        """Write what the lock protects, renew, or give it back; for as long as we like."""
        action = yield choose("write", "renew", "release")
        if action == "release":
            yield forget(f"holds/{mine}")
        if not (yield take("fence", me)):
            return (self.use, me, mine, number) if action != "release" else (self.release, me, mine, number)
        ours = yield from self.verify(mine)
        if ours and action == "write":
            yield write("work", mine)
        elif ours and action == "renew":
            yield touch(LOCK)
        elif ours:
            yield given_back(LOCK, mine)
        yield drop("fence")
        return (self.use, me, mine, number) if ours and action != "release" else (self.leave, me, mine, number)

    def release(self, me, mine, number):
        """Give it back, when our turn comes."""
        if not (yield take("fence", me)):
            return self.release, me, mine, number
        if (yield from self.verify(mine)):
            yield given_back(LOCK, mine)
        yield drop("fence")
        return self.want, me, number + 1

    def leave(self, me, mine, number):
        """It is over, and we know."""
        yield forget(f"holds/{mine}")
        return self.want, me, number + 1

    def verify(self, mine):
        """Whether the lock is still ours: its holder, and the number, which nobody has raised since."""
        return (yield look(LOCK)) == mine and (yield look("fence")) == mine.partition("#")[2]

    def want_as_stranger(self, me, number):
        """`open('x')`; a lock that has expired is deleted first."""
        if number > self.rounds:
            return None
        if (yield look(LOCK)) is not None:
            if (yield ages(LOCK)) != "mc":
                return self.want_as_stranger, me, number
            yield remove(LOCK)
        if not (yield create(LOCK, f"{me}#0{number}")):
            return self.want_as_stranger, me, number
        yield choose("work")
        if (yield look(LOCK)) == f"{me}#0{number}":
            yield remove(LOCK)
        return self.want_as_stranger, me, number + 1

    # -- what must be true -------------------------------------------------------------------------------------

    def wrong(self, disk):
        """Nobody writes late, takes another's lock away, or is given a number twice; only one believes."""
        for fact in ("stale", "number", *(("theft",) if self.strict else ())):
            if f"told/{fact}" in disk:
                return f"{fact}: {disk[f'told/{fact}']}"
        believing = [name.rpartition("/")[2] for name in disk if name.startswith("told/holds/")]
        living = sorted(holder for holder in believing if f"mtime/{holder}" not in disk)
        if self.strict and len(living) > 1:
            return f"{' and '.join(living)} both hold the lock"
        if "fence" in disk and int(disk["fence"]) < int(disk.get("ever/number", "0")):
            return "the number fell"
        return ""

    def recovery(self):
        """Whoever comes next, when all leases have run out, has the lock at once."""
        return (self.come_late,)

    def come_late(self):
        """A newcomer, alone."""
        yield take("fence", "late")
        if not (yield from self.acquire("late", 1)):
            yield create("told/shut out", "")
        yield drop("fence")

    def aged_for_recovery(self, disk):
        """Every lease has run out, and nobody believes anything."""
        left = {name: file for name, file in disk.items() if not name.startswith("told/holds/")}
        return {**left, f"mtime/{disk[LOCK]}": "old", f"ctime/{disk[LOCK]}": "old"} if LOCK in disk else left

    def unfinished(self, disk):
        """The lock can always be had again."""
        return "nobody can have the lock any more" if "told/shut out" in disk else ""


# -- controls ----------------------------------------------------------------------------------------------------


class Original(Lock):
    """No flock, no number in a file: the numbers here only tell holders apart."""

    def want(self, me, number):
        if number > self.rounds:
            return None
        mine = f"{me}#{number}"
        if not (yield from self.get(me, mine)):
            return self.want, me, number
        yield choose("work")
        yield forget(f"holds/{mine}")
        yield from self.give_back(mine)
        return self.want, me, number + 1

    def recovery(self):
        return None

    def wrong(self, disk):
        spared = ("told/number", "told/stale", "told/theft")
        return super().wrong({name: file for name, file in disk.items() if name not in spared})

    def give_back(self, mine):
        if (yield look(LOCK)) == mine:
            yield given_back(LOCK, mine)


class DeleteAndCreate(Original):
    """An expired lock is deleted, then whoever creates it first has it."""

    def get(self, me, mine):
        if (yield look(LOCK)) is not None:
            if (yield ages(LOCK)) != "mc":
                return False
            yield remove(LOCK)
        return (yield granted(create(LOCK, mine), mine))


class WriteAndReread(Original):
    """Write the lock, read it again, and believe what it says."""

    def get(self, me, mine):
        if (yield look(LOCK)) is not None and (yield ages(LOCK)) != "mc":
            return False
        yield create(f"tmp/{mine}", mine)
        yield move(f"tmp/{mine}", LOCK)
        return (yield look(LOCK)) == mine and (yield granted(tell(), mine))


class AsideAndBack(Original):
    """An expired lock is renamed to a unique name and looked at there; put back if it is not the one that expired."""

    def get(self, me, mine):
        seen = yield look(LOCK)
        if seen is not None:
            if (yield ages(LOCK)) != "mc":
                return False
            if not (yield move(LOCK, f"aside/{mine}")):
                return False
            if (yield look(f"aside/{mine}")) != seen:
                yield move(f"aside/{mine}", LOCK)
                return False
            yield remove(f"aside/{mine}")
        return (yield granted(create(LOCK, mine), mine))


class UnverifiedWrite(Lock):
    """The holder writes without looking whether the lock is still its own."""

    def use(self, me, mine, number):
        yield write("work", mine)
        return self.release, me, mine, number


class VerifiedOutside(Lock):
    """The holder looks under the flock, and writes after it has let go."""

    def use(self, me, mine, number):
        if not (yield take("fence", me)):
            return self.use, me, mine, number
        ours = yield from self.verify(mine)
        yield drop("fence")
        if ours:
            yield write("work", mine)
        return self.release, me, mine, number


class ReleasedUnseen(Lock):
    """Whoever gives a lock back removes whatever stands there."""

    def use(self, me, mine, number):
        yield forget(f"holds/{mine}")
        yield given_back(LOCK, mine)
        return self.want, me, number + 1


class NumberOfTheFile(Lock):
    """The number is that of the lock file, and starts anew when it is given back."""

    def verify(self, mine):
        return (yield look(LOCK)) == mine

    def acquire(self, me, number):
        held = yield look(LOCK)
        if held is not None and (yield ages(LOCK)) != "mc":
            return None
        mine = f"{me}#{int(held.partition('#')[2]) + 1 if held else 1}"
        yield create(f"tmp/lock~{me}~{number}", mine)
        yield granted(move(f"tmp/lock~{me}~{number}", LOCK), mine)
        return mine
