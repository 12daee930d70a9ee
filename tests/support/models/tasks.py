"""The life of a task in a pit: the commit table as it stands in `taskpit.store`, one `yield` for each system call.

Each method of `Pit` is the program of one function there, call by call in the same order:

    admit, enter          entering.py          claim, renew, finish   claims.py
    seal, give_up, roll   ending.py            register               folder.py (and set_aside)
    keepers' repairs      keeping.py here

Left out, since nothing is decided by them: fsync (a crash here is a process's; power loss is tried elsewhere), the
changelog, notes, records of workers. Listings are one step, as if they were snapshots; what is done with an entry
comes later. Not here: files that others make, layouts other than the pit (`mailbox` has its own), reopening.
Mutants are subclasses that do one method differently (`broken`).
"""

from __future__ import annotations

from models.disk import (
    await_,
    choose,
    create,
    create_numbered,
    forget,
    link,
    look,
    move,
    move_new,
    names,
    remove,
    sign,
    tell,
    touch,
)
from models.keeping import Keeping, words
from models.promises import CHILDREN, TASK

#: How a claim can end: what the sealed file's name says. Parts are written in this order; `c` are the children.
ENDS = {
    "done": "done.r",
    "failed": "failed.rt",
    "retry": "ready.nt",
    "release": "ready.",
    "lost": "ready.t",
    "split": "done.rc",
    "split and wait": "ready.nc",
}


class Pit(Keeping):
    """One task, and two children if it is split."""

    spelled = ENDS

    def __init__(self, *, workers=1, rounds=1, keepers=1, sweeps=1, putters=1, crashes=0, ends=("done",), **more):
        #: Whether claims look if the file is the task's own, and keepers too.
        self.careful = more.pop("careful", False)
        #: Whether keepers clear up what verbs left behind, as if any time had gone by.
        self.clears = more.pop("clears", False)
        #: Workers whose last claim is renewed in time, always.
        self.punctual = more.pop("punctual", ())
        #: Workers of the first child: it may be finished while others still carry out the split.
        nurses = more.pop("nurses", 0)
        #: Whether claims are renewed by those who are not punctual, and files age while they are ready.
        self.renews = more.pop("renews", False)
        if more:
            raise TypeError(f"unknown: {more}")
        self.ends = ends
        self.rounds, self.sweeps, self.crashes = rounds, sweeps, crashes
        self.tasks = (TASK, *CHILDREN) if any(ENDS[end].endswith("c") for end in ends) else (TASK,)
        self.actors = {f"p{n}": (self.put, f"p{n}") for n in range(putters)}
        self.actors |= {f"w{n}": (self.work, f"w{n}", TASK, 1) for n in range(workers)}
        self.actors |= {f"n{n}": (self.work, f"n{n}", CHILDREN[0], 1) for n in range(nurses)}
        self.actors |= {f"k{n}": (self.keep, f"k{n}", 1) for n in range(keepers)}
        self.already_there = not putters

    def start(self):
        """Nothing, or the task ready."""
        return {f"ids/{TASK}": "T.0", f"ready/{TASK}": "T.0", f"told/put/{TASK}": ""} if self.already_there else {}

    def aging(self, disk, alive):
        """Claims whose worker may be late; where it matters, also what waits to be claimed."""
        on_time = {name.rpartition("/")[2] for name in disk if name.startswith("told/on time/")} & alive
        for name, file in disk.items():
            if name.startswith("claimed/"):
                holder = self.holder(name, file).partition(".")[0]
                if holder in on_time or (on_time and not holder):
                    continue
            elif not (self.renews and name.startswith("ready/")):
                continue
            if f"mtime/{file}" not in disk or f"ctime/{file}" not in disk:
                yield file

    # -- put ---------------------------------------------------------------------------------------------

    def put(self, me):
        """A putter."""
        if (yield from self.admit(TASK, me)):
            yield tell(f"put/{TASK}")

    def admit(self, task, nonce):
        """The row *put*; True if it is we who made it, None if it was swept from under us and nothing has happened."""
        tmp = f"tmp/{task}~{nonce}~put"
        yield create(tmp, f"{task}.{nonce}")
        created = yield link(tmp, f"ids/{task}")
        if created:
            yield from self.enter(tmp, task)
        elif created is not None:
            yield remove(tmp)
        return created

    def enter(self, source, task):
        """Move a file to its ready name; what stands there without right is set aside."""
        while (moved := (yield move_new(source, f"ready/{task}"))) is None:
            yield move(f"ready/{task}", f"quarantine/{task}~{source.replace('/', '~')}")
        return moved

    # -- claim, renew --------------------------------------------------------------------------------------

    def work(self, me, task, number):
        """A worker waits for the task, claims it, works."""
        if number > self.rounds:
            return None
        yield await_(f"ready/{task}")
        on_time = me in self.punctual and number == self.rounds
        if on_time:
            yield tell(f"on time/{me}")
        if (yield from self.claim(task, self.fence(me, number))):
            return self.hold, me, task, number
        if on_time:
            yield forget(f"on time/{me}")
        return self.work, me, task, number

    def fence(self, me, number):
        """What makes a claim unique."""
        return f"{me}.{number}"

    def claimed(self, task, fence):
        """What a claimed file is called."""
        return f"claimed/{task}~{fence}"

    def holder(self, name, file):
        """Whose claim this is, by its name."""
        return name.rpartition("~")[2]

    def claim(self, task, fence):
        """The row *claim*; whether we have it."""
        if self.careful and not (yield from self.register(task, fence)):
            return False
        if not (yield touch(f"ready/{task}")):
            return False
        return (yield move(f"ready/{task}", self.claimed(task, fence)))

    def hold(self, me, task, number):
        """Work: renew for as long as we like, then end the claim somehow."""
        renewing = self.renews and me not in self.punctual
        end = yield choose(*(("renew",) if renewing else ()), *(self.ends if task == TASK else ("done",)))
        fence, following = self.fence(me, number), (self.work, me, task, number + 1)
        if end != "renew":
            return self.finish, me, task, fence, f"{me}.{number}", end, following
        return (self.hold, me, task, number) if (yield from self.renew(task, fence)) else following

    def renew(self, task, fence):
        """The row *renew*."""
        return (yield touch(self.claimed(task, fence)))

    def register(self, task, me):
        """Whether this ready file is the task itself; a copy or a finished one is set aside."""
        known = yield look(f"ids/{task}")
        judged = yield sign(f"ready/{task}")
        if judged is None:
            return True  # the claim finds nothing
        here = judged.partition("@")[0]
        conflict = yield from self.is_finished(task)
        if not conflict and known != here:
            conflict = yield from self.is_elsewhere(task, here)
        if conflict:
            yield from self.set_aside(f"ready/{task}", judged, me)
        return not conflict

    def is_finished(self, task):
        """Whether it has an outcome, or a result stands in the layout's own place."""
        for place in (f"outcomes/{task}~done", f"outcomes/{task}~failed", f"done/{task}"):
            if (yield look(place)) is not None:
                return True
        return False

    def is_elsewhere(self, task, here):
        """Whether the task itself is another file than this."""
        for place in ("claimed", "sealed"):
            for name in (yield names(f"{place}/{task}~")):
                token = yield look(name)
                if token is not None and token != here:
                    return True
        return False

    def set_aside(self, name, judged, me):
        """Take this very file out of the way."""
        if (yield sign(name)) == judged:
            yield move(name, f"quarantine/{name.replace('/', '~')}~{me}")

    # -- the end of a claim ----------------------------------------------------------------------------------

    def finish(self, me, task, fence, nonce, end, following=None):
        """The row *end of a claim*: write the parts, seal, carry out."""
        kind, _, parts = self.spelled[end].partition(".")
        sealed = f"sealed/{task}~{nonce}~{self.spelled[end]}"
        for part in parts:
            yield from self.write_part(task, nonce, part, end)
        if not (yield from self.seal(task, fence, sealed)):
            yield from self.give_up(me, task, nonce, parts)
            return following
        if (yield from self.roll(me, sealed, mine=True)) and kind != "ready":
            yield tell(f"ended/{task}/{end} {nonce}")
        return following

    def write_part(self, task, nonce, part, end):
        """A part before the commit; the task's next bytes are a new inode, with any number that is free."""
        name = f"tmp/{task}~{nonce}~{part}"
        if part == "n":
            yield create_numbered(name, task)
        else:
            yield create(name, f"{end if part == 'r' else part} {nonce}")

    def seal(self, task, fence, sealed):
        """The commit."""
        return (yield move(self.claimed(task, fence), sealed))

    def give_up(self, me, task, nonce, parts):
        """Too late: the result is kept aside, the rest dropped."""
        if me in self.punctual and nonce == f"{me}.{self.rounds}":
            yield tell(f"robbed/{me}")
        for part in parts:
            name = f"tmp/{task}~{nonce}~{part}"
            yield move(name, f"late/{task}~{nonce}") if part in "rt" else remove(name)

    def roll(self, me, sealed, *, mine):
        """Carry an end out. True: what was ended is so."""
        task, nonce, kind, parts = words(sealed)
        if "c" in parts and not (yield from self.admit_children(me, sealed)):
            return False
        if "t" in parts:
            yield move(f"tmp/{task}~{nonce}~t", f"tries/{task}~{nonce}")
        if kind == "ready":
            return (yield from self.back_to_ready(sealed))
        return (yield from self.publish(me, sealed, mine=mine))

    def admit_children(self, me, sealed):
        """Each child by the row *put*, unless another roller has done it and gone on."""
        task, nonce, _, _ = words(sealed)
        if (yield look(f"tmp/{task}~{nonce}~c")) is not None:
            for child in CHILDREN:
                if (yield from self.admit(child, f"{me}.{nonce}")) is None:
                    return False  # the verb ends with an error; whoever comes next carries on
        return True

    def back_to_ready(self, sealed):
        """The next bytes over the token, then the token to ready."""
        task, nonce, _, parts = words(sealed)
        if "n" in parts:
            yield move(f"tmp/{task}~{nonce}~n", sealed)
        if not (yield touch(sealed)):
            return False
        yield from self.finish_up(sealed)
        yield from self.enter(sealed, task)
        return True

    def publish(self, me, sealed, *, mine):
        """The result gets its name, once; then the token goes, then the result becomes the outcome."""
        task, nonce, kind, _ = words(sealed)
        said = yield from self.link_result(sealed)
        if said is None and mine:
            return (yield from self.publish_again(me, sealed))
        if said is None:  # there is no result to publish: the task was not done
            yield from self.enter(sealed, task)
            return False
        yield from self.finish_up(sealed)
        yield remove(sealed)
        yield move(f"tmp/{task}~{nonce}~r", f"outcomes/{task}~{kind}" if said else f"late/{task}~{nonce}")
        return said

    def link_result(self, sealed):
        """True: it stands. False: another's does. None: there is none."""
        task, nonce, kind, _ = words(sealed)
        source, target = f"tmp/{task}~{nonce}~r", f"{kind}/{task}"
        linked = yield link(source, target)
        if linked:
            return True
        if linked is None:
            for verdict in ("done", "failed"):
                if (yield look(f"outcomes/{task}~{verdict}")) is not None:
                    return True
            return None
        ours = yield look(source)
        return ours is None or ours == (yield look(target))

    def publish_again(self, me, sealed):
        """The result was swept from under us; we still know it."""
        task, nonce, kind, parts = words(sealed)
        again = f"sealed/{task}~{nonce}+~{kind}.r"
        yield create(f"tmp/{task}~{nonce}+~r", f"{'split' if 'c' in parts else kind} {nonce}")
        if (yield move(sealed, again)):
            return (yield from self.publish(me, again, mine=False))
        yield from self.give_up("", task, f"{nonce}+", "r")
        return False

    def finish_up(self, sealed):
        """What must be done before the token's last move."""
        task, nonce, _, parts = words(sealed)
        if "c" in parts:
            yield remove(f"tmp/{task}~{nonce}~c")
