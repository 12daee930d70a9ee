"""Protocols that do not hold, each for one reason: the models must find it, or they prove nothing.

`Original` is how such folders are usually run: rename to claim, rename to publish, rename back what looks old.
All others are the pit's protocol with one thing done differently.
"""

from __future__ import annotations

from models.disk import ages, create, link, look, move, names, remove, sign, tell, touch
from models.keeping import sealed_under, words
from models.tasks import Pit


def task_of(claimed):
    """Whose claimed file this is."""
    return claimed.partition("/")[2].partition("~")[0]


class Original(Pit):
    """Claim by a plain rename to a fixed name, publish by rename, judge by age alone."""

    #: Between publishing and removing the claim it is so by design.
    forgiven = ("can be run again",)

    def claimed(self, task, fence):
        return f"claimed/{task}~"

    def holder(self, name, file):
        return ""

    def claim(self, task, fence):
        return (yield move(f"ready/{task}", self.claimed(task, fence)))

    def finish(self, me, task, fence, nonce, end, following=None):
        yield create(f"tmp/{task}~{nonce}~r", f"{end} {nonce}")
        yield move(f"tmp/{task}~{nonce}~r", f"done/{task}")
        yield remove(self.claimed(task, fence))
        return following

    def repair(self, me, nonce, found, ending):
        if found.startswith("claimed/") and "m" in ((yield ages(found)) or ""):
            yield move(found, f"ready/{task_of(found)}")

    def recovery(self):
        return None


class OriginalThatLooks(Original):
    """The same, and before it publishes it looks whether the claim is still there."""

    def finish(self, me, task, fence, nonce, end, following=None):
        if (yield look(self.claimed(task, fence))) is not None:
            yield from super().finish(me, task, fence, nonce, end)
        return following


class OriginalPut(Original):
    """Putters rename onto the ready name, whatever stands there."""

    def put(self, me):
        if (yield look("ready/T")) is None:
            yield create(f"tmp/T~{me}~put", f"T.{me}")
            yield move(f"tmp/T~{me}~put", "ready/T")
            yield tell(f"put {me}")

    def wrong(self, disk):
        acknowledged = [name for name in disk if name.startswith("told/put ")]
        return "two puts of one id were acknowledged" if len(acknowledged) > 1 else super().wrong(disk)


class SealSkipped(Pit):
    """Who has lost the claim goes on all the same."""

    def seal(self, task, fence, sealed):
        yield from super().seal(task, fence, sealed)
        return True


class PublishBeforeSeal(Pit):
    """The result has its name before the claim is known to be ours."""

    def seal(self, task, fence, sealed):
        _, nonce, kind, parts = words(sealed)
        if "r" in parts:
            yield link(f"tmp/{task}~{nonce}~r", f"{kind}/{task}")
        return (yield from super().seal(task, fence, sealed))


class SealByLink(Pit):
    """For a moment the token has two names."""

    def seal(self, task, fence, sealed):
        if not (yield link(self.claimed(task, fence), sealed)):
            return False
        return (yield remove(self.claimed(task, fence)))


class ReclaimByLink(Pit):
    """A keeper links the claimed file back to ready and removes it afterwards."""

    def repair(self, me, nonce, found, ending):
        if not found.startswith("claimed/"):
            yield from super().repair(me, nonce, found, ending)
        elif (yield from self.judge(found)) is not None and (yield link(found, f"ready/{task_of(found)}")):
            yield remove(found)


class NextStraightToReady(Pit):
    """The next bytes are moved to ready, and the sealed file is removed afterwards."""

    def back_to_ready(self, sealed):
        task, nonce, _, parts = words(sealed)
        if "n" in parts and (yield move(f"tmp/{task}~{nonce}~n", f"ready/{task}")):
            yield remove(sealed)
            return True
        return (yield move(sealed, f"ready/{task}"))


class HuskToReady(NextStraightToReady):
    """The same, judged only by what comes of it."""

    forgiven = ("two tokens",)


class TokenBeforeResult(Pit):
    """The sealed file is removed before the result has its name."""

    def publish(self, me, sealed, *, mine):
        yield remove(sealed)
        return (yield from super().publish(me, sealed, mine=mine))


class SecondLink(Pit):
    """A task enters by a second link of its file instead of a rename."""

    def enter(self, source, task):
        if source.startswith("sealed/"):
            return (yield from super().enter(source, task))
        entered = yield link(source, f"ready/{task}")
        yield remove(source)
        return entered


class FixedFence(Pit):
    """Every claim of a worker has the same name."""

    def fence(self, me, number):
        return f"{me}.0"


class ComparedInode(FixedFence):
    """The same, every return a new file, and the inode compared with the one that was judged just before the seal."""

    spelled = {**Pit.spelled, "lost": "ready.nt"}

    def judge(self, claimed):
        judged = yield sign(claimed)
        fence = yield from super().judge(claimed)
        return f"{fence}#{judged}" if fence else None

    def claimed(self, task, fence):
        return super().claimed(task, fence.partition("#")[0])

    def seal(self, task, fence, sealed):
        judged = fence.partition("#")[2]
        if judged and (yield sign(self.claimed(task, fence))) != judged:
            return False
        return (yield from super().seal(task, fence, sealed))


class JudgedByMtime(Pit):
    """A rename leaves the mtime alone: what waited long is abandoned as soon as it is claimed."""

    def claim(self, task, fence):
        if not (yield move(f"ready/{task}", self.claimed(task, fence))):
            return False
        return (yield touch(self.claimed(task, fence)))

    def judge(self, claimed):
        return self.holder(claimed, "") if "m" in ((yield ages(claimed)) or "") else None


class ChildrenBeforeSeal(Pit):
    """The children enter before the split is known to count."""

    def seal(self, task, fence, sealed):
        if "c" in words(sealed)[3]:
            yield from self.admit_children("early", sealed)
        return (yield from super().seal(task, fence, sealed))


class ChildrenForgotten(Pit):
    """Only the worker itself lets its children in."""

    def admit_children(self, me, sealed):
        return me.startswith("k") or (yield from super().admit_children(me, sealed))


class ClearedByAge(Pit):
    """What is old and was not under seal a moment ago is removed."""

    def repair(self, me, nonce, found, ending):
        yield from super().repair(me, nonce, found, ending)
        if found.startswith("tmp/") and not sealed_under(found, ending):
            yield remove(found)

    def clear(self, found, task, nonce):
        yield names()


class KnownByNumber(Pit):
    """A file that is to be set aside is known by its inode's number, which may be another file's by then."""

    def set_aside(self, name, judged, me):
        if (yield look(name)) == judged.partition("@")[0]:
            yield move(name, f"quarantine/{name.replace('/', '~')}~{me}")
