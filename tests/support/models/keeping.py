"""What keepers do with what others left: the repairs of `mend.py`, lapsed claims by `judge.py` and `keeper.py`.

Needs the verbs of `tasks`: a keeper carries ends out, lets tasks in and ends claims as their workers would.
"""

from __future__ import annotations

from models.disk import ages, link, links, look, move, names, pick, remove
from models.promises import Promises


class Keeping(Promises):
    """A world with keepers in it."""

    #: How often each comes.
    sweeps = 1
    #: Whether they look closely at what is ready.
    careful = False

    def keep(self, me, number):
        """A keeper finds something to do, and does it, from what it saw when it came."""
        if number > self.sweeps:
            return None
        ending = yield names("sealed/")
        found = yield pick("sealed/", "tmp/", "claimed/", *self.looked_at())
        return self.job, me, number, found, ending

    def looked_at(self):
        """Places where a repair is needed only if somebody looks closely, or clears up."""
        return (("ready/",) if self.careful else ()) + (("done/", "failed/") if self.clears else ())

    def job(self, me, number, found, ending):
        """One repair, or the reclaim of one claim."""
        yield from self.repair(me, f"{me}.{number}", found, ending)
        return self.keep, me, number + 1

    def repair(self, me, nonce, found, ending):
        """The repair that is right for this name."""
        place, _, rest = found.partition("/")
        task, part = rest.partition("~")[0], rest.rpartition("~")[2]
        if place == "sealed":
            yield from self.roll(me, found, mine=False)
        elif place == "claimed":
            fence = yield from self.judge(found)
            if fence is not None:
                yield from self.finish(me, task, fence, nonce, "lost")
        elif place == "ready":
            yield from self.register(task, nonce)
        elif place in ("done", "failed"):
            yield from self.learn(found, task)
        elif part == "put":
            yield from self.let_in(found, task)
        elif part == "r":
            yield from self.settle_result(found, task, ending)
        if place == "tmp" and self.clears:
            yield from self.clear(found, task, nonce)

    def judge(self, claimed):
        """Whose claim has lapsed, neither stamped nor renamed for a lease; None if it has not."""
        return self.holder(claimed, "") if (yield ages(claimed)) == "mc" else None

    def let_in(self, found, task):
        """A task whose id was taken but which had not entered."""
        known = yield look(f"ids/{task}")
        here = yield look(found)
        if here is not None and known == here:
            yield from self.enter(found, task)

    def settle_result(self, found, task, ending):
        """A published result that is not yet the outcome."""
        if not sealed_under(found, ending) and (yield links(found)) > 1:
            verdict = "failed" if (yield look(f"failed/{task}")) else "done"
            yield move(found, f"outcomes/{task}~{verdict}")

    def learn(self, found, task):
        """A result that nobody is about to make the outcome becomes it."""
        if (yield look(f"outcomes/{task}~{found.partition('/')[0]}")) is None:
            coming = yield names(f"tmp/{task}~")
            if not any(name.endswith("~r") for name in coming):
                yield link(found, f"outcomes/{task}~{found.partition('/')[0]}")

    def clear(self, found, task, nonce):
        """What a verb left that never came to its commit, once it no longer can."""
        if found.endswith("~put"):
            yield from self.clear_put(found, task, nonce)
        elif not (yield names(f"claimed/{task}~")) and not sealed_under(found, (yield names("sealed/"))):
            yield remove(found)

    def clear_put(self, found, task, nonce):
        """Take the name away, so that nobody links it any more; then it is registered or never will be."""
        aside = f"tmp/{task}~{nonce}~put"
        if (yield move(found, aside)):
            known = yield look(f"ids/{task}")
            if known is not None and known == (yield look(aside)):
                yield from self.enter(aside, task)
            else:
                yield remove(aside)

    def recovery(self):
        """Two sweeps; the second is for what the first could only begin."""
        return self.sweep, 2

    def sweep(self, times):
        """A whole sweep: each kind of repair over what is there, then lapsed claims."""
        for place in ("sealed/", "tmp/", *self.looked_at(), "claimed/"):
            ending = yield names("sealed/")
            for found in (yield names(place)):
                yield from self.repair("keeper", f"keeper.{times}", found, ending)
        return (self.sweep, times - 1) if times > 1 else None


def words(sealed):
    """What a sealed name says: task, nonce, kind, parts."""
    task, nonce, end = sealed.partition("/")[2].split("~")
    kind, _, parts = end.partition(".")
    return task, nonce, kind, parts


def sealed_under(part, ending):
    """Whether the end that this part belongs to was among those under way."""
    nonce = part.split("~")[1]
    return any(words(sealed)[1] == nonce for sealed in ending)
