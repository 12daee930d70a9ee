"""What is found on the disk, what it means and what a keeper does about it; and what must be true of every disk."""

from __future__ import annotations

from models.disk import age, ages, link, look, move, names, pick, remove, stat
from models.explorer import World

KINDS = ("done", "failed")


class LeanKeeping(World):
    """A world with keepers in it, and the promises."""

    clears = careful = renews = named = published = backed_up = taken_away = False
    punctual = ()
    sweeps = 1
    #: Broken promises that a control is not held to: what it breaks shows later, too.
    forgiven = ()

    def aging(self, disk, alive):
        """Claims whose worker may be late; where it matters, also what waits to be claimed."""
        on_time = {name.rpartition("/")[2] for name in disk if name.startswith("told/on time/")} & alive
        for name, file in disk.items():
            if name.startswith("claimed/"):
                if name.rpartition("~")[2].partition(".")[0] in on_time:
                    continue
            elif not (self.renews and name == "ready/T"):
                continue
            if f"mtime/{file}" not in disk or f"ctime/{file}" not in disk:
                yield file

    # -- keepers ---------------------------------------------------------------------------------------------

    def keep(self, me, number):
        """Find something to do, and do it."""
        if number > self.sweeps:
            return None
        found = yield pick("sealed/", "tmp/", "claimed/", *self.looked_at())
        return self.job, me, number, found

    def looked_at(self):
        """Places where a repair is needed only if somebody looks closely."""
        return ("done/", "ready/") if self.careful else ()

    def job(self, me, number, found):
        """One repair."""
        yield from self.repair(me, f"{me}.{number}", found)
        return self.keep, me, number + 1

    def repair(self, me, nonce, found):
        """The rule for what was found."""
        place, part = found.partition("/")[0], found.rpartition("~")[2]
        if place == "sealed":
            yield from self.roll(me, found)
        elif place == "claimed":
            yield from self.reclaim(me, nonce, found)
        elif place == "done":
            yield from self.learn(me)
        elif part == "put":
            yield from self.let_in(me, found)
        elif part == "aside":
            yield from self.judge_aside(me, found)
        if place == "tmp" and self.clears:
            yield from self.clear(me, nonce, found)

    def reclaim(self, me, nonce, claimed):
        """A claim that has lapsed goes back; what it has is judged as by a claimer."""
        if me == "keeper" or (yield from self.has_lapsed(claimed)):
            here = yield stat(claimed)
            known = yield look("ids/T")
            if here is not None and (yield from self.is_the_task(me, claimed, here, known)):
                if (yield look("done/T")) is not None:
                    yield from self.learn_with(me, claimed)
                else:
                    yield from self.finish(me, claimed.rpartition("~")[2], nonce, "lost")

    def has_lapsed(self, claimed):
        """Neither stamped nor renamed for a lease."""
        return (yield ages(claimed)) == "mc"

    def is_the_task(self, me, claimed, here, known):
        """The registered file, or one the door lets through."""
        if here == (known, 2) and not (yield from self.has_ended()):
            return True
        return (yield from self.at_the_door(me, claimed))

    def let_in(self, me, found):
        """A put that came to its commit."""
        if (yield from self.is_own(found)):
            yield from self.enter(found, me)

    def judge_aside(self, me, found):
        """Moved out of the way by one that died: back with it, if it is the task."""
        if (yield from self.at_the_door(me, found)):
            yield from self.enter(found, me)

    def learn(self, me):
        """A stranger's result: with the token, if it waits; if nobody has it, the registered bytes are the token."""
        if (yield look("ready/T")) is not None and (yield from self.claim(me, f"{me}.l")):
            yield from self.finish(me, f"{me}.l", f"{me}.back", "release")
        known = yield stat("ids/T")
        theirs = yield look("done/T")
        if known is None or theirs in (None, known[0]) or not (yield from self.lock(me)):
            return
        if (yield from self.is_without_token(known)):
            yield link("ids/T", "ids/T~done")
            yield link("done/T", f"tmp/T~{me}~known")
            yield move(f"tmp/T~{me}~known", "ids/T")
        yield from self.unlock()

    def is_without_token(self, known):
        """Nobody has it: the registered file has no other name, or we came so far before."""
        before = yield stat("ids/T")
        ended = yield look("ids/T~done")
        others = ((yield look("ids/T~put")) == known[0]) + (ended == known[0])
        return before == known and known[1] == 1 + others and not (yield names("ready/T", "claimed/T~", "sealed/T~"))

    def clear(self, me, nonce, found):
        """What a verb left that never came to its commit, as if any time had gone by."""
        part = found.rpartition("~")[2]
        if part == "put":
            aside = f"tmp/T~{nonce}~put"
            if (yield move(found, aside)):  # nobody links it any more
                if (yield from self.is_own(aside)):
                    yield from self.enter(aside, me)
                else:
                    yield remove(aside)
        elif part in ("r", "n", "i", "theirs"):
            if not (yield names("claimed/T~")) and not (yield from self.is_sealed(found)):
                yield remove(found)
        elif part == "known":
            yield remove(found)

    def is_sealed(self, part):
        """Whether its end is under way."""
        return any(name.split("~")[1] == part.split("~")[1] for name in (yield names("sealed/T~")))

    def recovery(self):
        """Two sweeps."""
        return self.sweep, 2

    def sweep(self, times):
        """Each kind of repair over what is there."""
        for place in ("sealed/", "tmp/", "claimed/", "done/"):
            for found in (yield names(place)):
                yield from self.repair("keeper", f"keeper.{times}", found)
        return (self.sweep, times - 1) if times > 1 else None

    # -- promises --------------------------------------------------------------------------------------------

    def aged_for_recovery(self, disk):
        """Every lease has run out."""
        for name, file in list(disk.items()):
            if name.startswith("claimed/"):
                disk = age(disk, file)
        return disk

    def wrong(self, disk):
        """On any disk at any moment."""
        broken = (said for said in self._broken(disk) if not any(words in said for words in self.forgiven))
        return next(broken, "")

    def _broken(self, disk):
        tokens = list(self.tokens(disk))
        if len(tokens) > 1:
            yield f"two tokens: {' and '.join(tokens)}"
        for name in disk:
            if name.startswith("told/robbed/"):
                yield f"{name.rpartition('/')[2]} renewed in time and lost its claim"
            elif name.startswith("told/runs/") and disk.get(claimed := name.removeprefix("told/runs/")) is not None:
                if disk[claimed] != disk["ids/T"] and not self.published:
                    yield f"{claimed} is run, and is another file by now"
            elif name.startswith("told/ended/"):
                yield from self._broken_end(disk, name.rpartition("/")[2])
        if self.published and any(name.startswith("told/runs/") for name in disk):
            yield "it is run although its result stands there"
        if len([name for name in disk if name.startswith("told/created/")]) > 1:
            yield "two puts of one id were acknowledged"
        done = [name for name in disk if name.startswith("ever/done/T/")]
        if len(done) > 1:
            yield "two results"
        if ("told/put" in disk or "ids/T" in disk) and not self._somewhere(disk):
            yield "it is known and nowhere"

    def _broken_end(self, disk, result):
        kind = result.partition(" ")[0]
        if disk.get(f"{kind}/T", result if self.taken_away else None) != result:
            yield f"acknowledged as {result}, and there stands {disk.get(f'{kind}/T')}"
        if any(token.startswith(("ready/", "claimed/")) for token in self.tokens(disk)):
            yield f"acknowledged as {result}, and it can be run again"

    def tokens(self, disk):
        """Where the task is, or can be run from; what nobody has judged yet is not counted."""
        known = disk.get("ids/T")
        for name, file in sorted(disk.items()):
            if name == "ready/T" or (name.startswith("tmp/T~") and name.endswith("~put")):
                yield from [name] if file == known and not (self.backed_up or self.taken_away) else []
            elif name.startswith(("sealed/T~", "ids/T~done", "ids/T~failed")) or f"told/runs/{name}" in disk:
                yield name

    def _somewhere(self, disk):
        living = ("ready/T", "claimed/T~", "sealed/T~", "ids/T~done", "ids/T~failed", "done/T")
        return any(name.startswith(living) or name.endswith(("~put", "~aside")) for name in disk)

    def unfinished(self, disk):
        """After recovery it is ready or finished, wholly."""
        left = [name for name in disk if name.startswith(("sealed/", "claimed/"))]
        left += [name for name in disk if name.startswith("tmp/") and (self.clears or "~aside" in name)]
        if left:
            return f"nobody carries this out: {left[0]}"
        if "ids/T" not in disk:
            return ""
        for kind in KINDS:
            token, result = f"ids/T~{kind}" in disk, disk.get(f"{kind}/T")
            if token and result is None and not self.taken_away:
                return f"it is {kind} and the result is gone"
            if result is not None and (disk["ids/T"] != result or not token):
                return f"the result under {kind} is not registered"
        if not any(name in disk for name in ("ready/T", "ids/T~done", "ids/T~failed")):
            return "it is known and nowhere"
        return ""
