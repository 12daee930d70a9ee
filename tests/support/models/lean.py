"""The life of a task by one registry and one token: put, claim, end, retry, reopen, reclaim and the slow door.

`ids/T` is whatever bytes stand for the task now: as put, as edited or come back, at last its result. The task's one
token is `ready/T`, `claimed/T~fence` or `sealed/T~nonce~end`, and ends as `ids/T~<verdict>`; `ids/T~put` keeps what was
asked for. A claim compares the file it has with `ids/T`: the same, with no name besides these two, is the task, unless
a name says that it has ended: a result that is put back among the ready tasks is the registered file, too. All else
goes through the door, one at a time under a lock, and so does a keeper before it gives a claim back.

One `yield` is one system call. Left out: fsync, the log, notes. Mutants are subclasses (`lean_broken`).
"""

from __future__ import annotations

from models.disk import (
    await_,
    choose,
    create,
    drop,
    forget,
    link,
    look,
    move,
    move_new,
    names,
    remove,
    stat,
    take,
    tell,
    telling,
    touch,
    unsure,
)
from models.lean_keeping import LeanKeeping

DOOR = "door"
TASK = "T"
#: How a claim can end: what its sealed name says. `n` are the next bytes, `i` a second name of them for the registry.
ENDS = {"done": "done.r", "failed": "failed.r", "retry": "ready.ni", "release": "ready.", "lost": "ready."}


class Lean(LeanKeeping):
    """One task among putters, workers, keepers, people who reopen, editors, strangers and backups."""

    def __init__(self, *, crashes=0, ends=("done",), rounds=1, sweeps=1, **more):
        self.crashes, self.ends, self.rounds, self.sweeps = crashes, ends, rounds, sweeps
        #: Whether keepers clear up, and look at what is ready; whether answers to a link may get lost; whether files
        #: age while they wait and workers renew; whose last claim is renewed in time; who shares one name.
        self.clears = more.pop("clears", False)
        self.careful = more.pop("careful", False)
        self.lossy = more.pop("lossy", False)
        self.renews = more.pop("renews", False)
        self.punctual = more.pop("punctual", ())
        self.named = more.pop("named", False)
        #: How it begins: ready unless somebody puts it, or failed; a copy where it will be put; a result by hand.
        self.failed_at_first = more.pop("failed", False)
        self.saved_at_first = more.pop("saved", False)
        self.published = more.pop("published", False)
        programs = {"p": self.put, "r": self.reopen, "e": self.edit, "f": self.publish_by_hand, "b": self.restore}
        programs["m"] = self.put_result_back
        counts = {letter: more.pop(word, 0) for letter, word in zip(programs, ACTORS, strict=True)}
        workers, keepers = more.pop("workers", 1), more.pop("keepers", 1)
        if more:
            raise TypeError(f"unknown: {more}")
        self.actors = {
            f"{letter}{n}": (programs[letter], f"{letter}{n}") for letter in programs for n in range(counts[letter])
        }
        self.actors |= {f"w{n}": (self.work, f"w{n}", 1) for n in range(workers)}
        self.actors |= {f"k{n}": (self.keep, f"k{n}", 1) for n in range(keepers)}
        self.already_there = not counts["p"]
        self.backed_up = bool(counts["b"])
        self.taken_away = bool(counts["m"])

    def start(self):
        """Nothing; or the task ready, or failed."""
        if not self.already_there:
            return {"ready/T": "T.copy"} if self.saved_at_first else {}
        if self.failed_at_first:
            return {"ids/T": "failed 0", "failed/T": "failed 0", "ids/T~failed": "T.0", "told/put": ""}
        kept = {"backup/T": "T.0"} if self.backed_up else {}
        kept |= {"done/T": "done f", "ever/done/T/done f": ""} if self.published else {}
        return {"ids/T": "T.0", "ready/T": "T.0", "told/put": "", **kept}

    # -- put -------------------------------------------------------------------------------------------------

    def put(self, me):
        """Create, link to the registry, rename to ready."""
        tmp = f"tmp/T~{me}~put"
        yield create(tmp, f"T.{me}")
        registers = link(tmp, "ids/T")
        registered = yield unsure(registers) if self.lossy else registers
        if registered is False and (yield from self.link_was_ours(tmp)):
            registered = True
        if registered:
            yield from self.enter(tmp, me)
            yield tell("put", f"created/{me}")
        elif registered is False:
            yield remove(tmp)

    def link_was_ours(self, tmp):
        """A name that is taken may be taken by this very link, whose answer got lost."""
        return (yield from self.is_own(tmp))

    def is_own(self, tmp):
        """Whether the id is taken by this very file."""
        ours = yield look(tmp)
        return ours is not None and ours == (yield look("ids/T"))

    def enter(self, source, me):
        """The token is ready under its name. What stands there without right is moved out of the way, and looked at:

        if the token has left `source` meanwhile, another has carried it on, and it may be what was moved.
        """
        while (moved := (yield move_new(source, "ready/T"))) is None:
            if (yield look(source)) is None:
                return False
            aside = f"tmp/T~{me}+~aside"
            if (yield move("ready/T", aside)):
                if (yield from self.look_at_moved(source)):
                    yield move(aside, f"quarantine/{aside.replace('/', '~')}")
                else:
                    yield from self.judge_aside(f"{me}+", aside)
        return moved

    def look_at_moved(self, source):
        """Whether the token is where it was, so that it was not moved."""
        return (yield look(source)) is not None

    # -- claim -----------------------------------------------------------------------------------------------

    def work(self, me, number):
        """Wait for the task, claim it, end the claim."""
        if number > self.rounds:
            return None
        yield await_("ready/T")
        on_time = me in self.punctual and number == self.rounds
        if on_time:
            yield tell(f"on time/{me}")
        if (yield from self.claim(me, self.fence(me, number))):
            return self.hold, me, number
        if on_time:
            yield forget(f"on time/{me}")
        return self.work, me, number + (0 if on_time else 1)

    def fence(self, me, number):
        """What a claim is known by; processes that share a name share it."""
        return "w.0" if self.named else f"{me}.{number}"

    def hold(self, me, number):
        """Renew as often as we like, then end it somehow."""
        renewing = self.renews and me not in self.punctual
        end = yield choose(*(("renew",) if renewing else ()), *self.ends)
        if end == "renew":
            renewed = yield touch(f"claimed/T~{self.fence(me, number)}")
            return (self.hold, me, number) if renewed else (self.work, me, number + 1)
        return self.finish, me, self.fence(me, number), self.nonce(me, number), end, (self.work, me, number + 1)

    def nonce(self, me, number):
        """What nobody else has."""
        return f"{me}.{number}"

    def claim(self, me, fence):
        """Stamp, rename never replacing, compare with the registry, look at the visible result."""
        claimed = f"claimed/T~{fence}"
        if not (yield touch("ready/T")) or not (yield from self.take_it(claimed)):
            return False
        here = yield stat(claimed)
        known = yield look("ids/T")
        if here is None:
            return False
        if here == (known, 2) and not (yield from self.has_ended()):
            return (yield from self.accept(me, fence))
        if not (yield from self.at_the_door(me, claimed)):
            return False
        return (yield from self.accept(me, fence))

    def has_ended(self):
        """Whether a name says so: then the registered file is its result."""
        return bool((yield names("ids/T~done", "ids/T~failed")))

    def take_it(self, claimed):
        """The commit of a claim."""
        return (yield move_new("ready/T", claimed))

    def accept(self, me, fence):
        """The last look: unless somebody has published it, it is ours to run."""
        claimed = f"claimed/T~{fence}"
        if (yield self.if_unpublished(claimed)) is None:
            return True
        yield from self.learn_with(me, claimed)
        return False

    def if_unpublished(self, claimed):
        """One look at the visible result."""
        return telling(look("done/T"), None, tell=(f"runs/{claimed}",))

    def learn_with(self, me, claimed):
        """A stranger's result, and we have the token: end the claim with it."""
        nonce = f"{me}.{claimed.rpartition('~')[2]}.l"
        if (yield link("done/T", f"tmp/T~{nonce}~r")):
            sealed = f"sealed/T~{nonce}~done.r"
            if (yield from self.seal(claimed, sealed)):
                yield from self.roll(me, sealed)
            else:
                yield remove(f"tmp/T~{nonce}~r")

    # -- the slow door ---------------------------------------------------------------------------------------

    def at_the_door(self, me, claimed):
        """Whether this file, which is not the registered one, is the task. Else it is set aside, or put back."""
        if not (yield from self.lock(me)):
            yield move_new(claimed, "ready/T")
            return False
        said = yield from self.judge_at_the_door(me, claimed)
        if said == "copy":
            yield move(claimed, f"quarantine/{claimed.replace('/', '~')}")
        yield from self.unlock()
        return said == "task"

    def lock(self, me):
        """One at a time."""
        return (yield take(DOOR, me.rstrip("+")))

    def unlock(self):
        """The next."""
        yield drop(DOOR)

    def judge_at_the_door(self, me, claimed):
        """ "task", "copy" or "gone"; a hand-made or edited task is registered."""
        while True:
            here = yield stat(claimed)
            if here is None:
                return "gone"
            if (yield names("sealed/T~")) or (yield names("ids/T~done", "ids/T~failed")):
                return "copy"
            put = yield look("ids/T~put")  # before the names are counted: it may just get this one
            known = yield stat("ids/T")
            if known is None:
                if (yield link(claimed, "ids/T")):
                    return "task"
                continue
            if known[0] == here[0]:
                return (yield from self.judge_twin(claimed, here))
            if known[1] > 1 + (put == known[0]):
                return "copy"  # the registered file stands elsewhere
            yield link("ids/T", "ids/T~put")
            yield from self.register(me, claimed)
            return "task"

    def judge_twin(self, claimed, here):
        """The registered file itself: it is the task, unless it stands elsewhere, too."""
        if here[1] > 2:
            for name in (yield names("ready/T", "claimed/T~", "tmp/T~")):
                if name != claimed and (yield look(name)) == here[0]:
                    return "copy"
            if (yield names("sealed/T~")) or (yield look("ids/T")) != here[0]:
                return "copy"
        return "task"

    def register(self, me, claimed):
        """From now on these are the bytes that stand for the task."""
        second = f"tmp/T~{me}~known"
        while (yield link(claimed, second)) is not None and not (yield move(second, "ids/T")):
            continue  # swept from under us

    # -- the end of a claim ----------------------------------------------------------------------------------

    def finish(self, me, fence, nonce, end, following=None):
        """Write the parts, seal, carry out."""
        claimed, sealed = f"claimed/T~{fence}", f"sealed/T~{nonce}~{ENDS[end]}"
        parts = ENDS[end].partition(".")[2]
        yield from self.write_parts(nonce, end, parts)
        if not (yield from self.seal(claimed, sealed)):
            yield from self.give_up(me, nonce, parts)
            return following
        if (yield from self.roll(me, sealed)) and end == "done":
            yield tell(f"ended/{end} {nonce}")
        return following

    def write_parts(self, nonce, end, parts):
        """What follows, before the commit."""
        if "r" in parts:
            yield create(f"tmp/T~{nonce}~r", f"{end} {nonce}")
        if "n" in parts:
            yield create(f"tmp/T~{nonce}~n", f"T.{nonce}")
        if "i" in parts:
            yield link(f"tmp/T~{nonce}~n", f"tmp/T~{nonce}~i")

    def seal(self, claimed, sealed):
        """The commit."""
        return (yield telling(move(claimed, sealed), True, forget=(f"runs/{claimed}",)))

    def give_up(self, me, nonce, parts):
        """Too late."""
        if me in self.punctual and nonce == f"{me}.{self.rounds}":
            yield tell(f"robbed/{me}")
        for part in parts:
            name = f"tmp/T~{nonce}~{part}"
            yield move(name, f"late/T~{nonce}") if part == "r" else remove(name)

    def roll(self, me, sealed):
        """Carry an end out, as far as it is not yet. True: what was ended is so."""
        nonce, kind, parts = words(sealed)
        if kind == "ready":
            return (yield from self.back_to_ready(me, sealed, nonce, parts))
        linked = yield link(f"tmp/T~{nonce}~r", f"{kind}/T")
        if linked is None:
            return (yield from self.without_result(me, sealed, kind))
        said = True
        if linked is False:
            ours = yield look(f"tmp/T~{nonce}~r")
            theirs = yield look(f"{kind}/T")
            if ours is None:
                return (yield from self.without_result(me, sealed, kind))
            if theirs not in (None, ours):
                said = False
                yield link(f"{kind}/T", f"tmp/T~{nonce}~theirs")
        yield from self.retire(sealed, nonce, kind, said=said)
        return said

    def retire(self, sealed, nonce, kind, *, said):
        """The result over the registered bytes, then the token beside it: one token always."""
        yield move(f"tmp/T~{nonce}~{'r' if said else 'theirs'}", "ids/T")
        if not said:
            yield move(f"tmp/T~{nonce}~r", f"late/T~{nonce}")
        failed = (f"ended/{kind} {nonce}",) if kind == "failed" else ()
        yield telling(move(sealed, f"ids/T~{kind}"), True, tell=failed)

    def without_result(self, me, sealed, kind):
        """The temporary result is gone: the registry has it, or a power loss took it and the task was not done."""
        token = yield look(sealed)
        if (yield look("ids/T")) != token:
            yield move(sealed, f"ids/T~{kind}")
            return (yield look(f"late/T~{words(sealed)[0]}")) is None  # else a stranger's stands, and ours is kept
        yield from self.enter(sealed, me)
        return False

    def back_to_ready(self, me, sealed, nonce, parts):
        """What was asked for is kept, the registry has the next bytes, then the token, which then is ready."""
        if "o" in parts and not (yield from self.withdraw(me, nonce)):
            return False  # the verb ends with an error; whoever comes next carries on
        if "n" in parts:
            yield link(sealed, "ids/T~put")
            yield from self.second_name(me, nonce)
            yield move(f"tmp/T~{nonce}~n", sealed)
            if not (yield from self.register_sealed(me, sealed)):
                return False
        if not (yield touch(sealed)):
            return False
        yield from self.enter(sealed, me)
        return True

    def second_name(self, me, nonce):
        """The sealer has made it: it is consumed once."""
        yield move(f"tmp/T~{nonce}~i", "ids/T")

    def register_sealed(self, me, sealed):
        """Where the next bytes were lost or swept, the token is what it was: the registry says so before it goes on."""
        token = yield look(sealed)
        if token is None or token == (yield look("ids/T")):
            return True
        if not (yield from self.lock(me)):
            return False
        token = yield look(sealed)
        if token is not None and token != (yield look("ids/T")):
            yield from self.register(me, sealed)
        yield from self.unlock()
        return True

    # -- people, strangers, backups --------------------------------------------------------------------------

    def reopen(self, me):
        """A failed task is ready again; whoever renames its token away reopens it."""
        yield await_("ids/T~failed")
        nonce, sealed = f"{me}.1", f"sealed/T~{me}.1~ready.nio"
        yield from self.write_parts(nonce, "retry", "ni")
        failures = tuple(f"ended/failed {actor}.{n}" for actor in self.actors for n in range(1, self.rounds + 1))
        if (yield telling(move("ids/T~failed", sealed), True, forget=failures)):
            yield from self.roll(me, sealed)
        else:
            yield remove(f"tmp/T~{nonce}~i")
            yield remove(f"tmp/T~{nonce}~n")

    def withdraw(self, me, nonce):
        """The result that was registered leaves its place; one at a time, so that it is not a later one that goes."""
        yield link("ids/T", f"late/T~{nonce}")
        if not (yield from self.lock(me)):
            return False
        kept = yield look(f"late/T~{nonce}")
        if (yield look("failed/T")) == kept:
            yield remove("failed/T")
        yield from self.unlock()
        return True

    def edit(self, me):
        """An editor saves the task it has open, under the name it had, wherever that is by now."""
        yield await_("ids/T")
        yield create(f"edit/{me}", f"T.{me}")
        yield move(f"edit/{me}", "ready/T")

    def publish_by_hand(self, me):
        """A worker of the old kind: rename, write the result, remove the claim."""
        yield await_("ready/T")
        if (yield move_new("ready/T", f"claimed/T~{me}.0")):
            yield create("done/T", f"done {me}")
            yield remove(f"claimed/T~{me}.0")

    def restore(self, me):
        """A backup made of hard links is put back."""
        yield await_("claimed/T~w0.1")
        yield link("backup/T", "ready/T")

    def put_result_back(self, me):
        """A person moves a result to where tasks wait."""
        yield await_("ids/T~done")
        yield move("done/T", "ready/T")


#: Who may take part, by the words of the constructor.
ACTORS = ("putters", "reopeners", "editors", "strangers", "backups", "movers")


def words(sealed):
    """What a sealed name says: nonce, kind, parts."""
    _, nonce, end = sealed.split("~")
    kind, _, parts = end.partition(".")
    return nonce, kind, parts
