"""The mailbox: claimed files have a fixed name, so what is unique stands inside, and a lock guards the looking.

As in `taskpit.store.claim` where a layout is `guarded` and `rewritten`: every claim, renewal and seal of a task runs
under `flock(guard)`; a claim renames the file to its fixed name and then replaces it by one that names the holder, if
it is still the same inode; renewal and seal compare the holder first. Next bytes are always written, since others
write into the files, and the registry keeps a copy of its own.
"""

from __future__ import annotations

from models.disk import ages, create, drop, link, look, move, remove, take, tell, touch
from models.tasks import ENDS, Pit

HAS = " has "


class Mailbox(Pit):
    """One task in a mailbox."""

    spelled = {end: how.replace("ready.", "ready.n") if "n" not in how else how for end, how in ENDS.items()}

    def claimed(self, task, fence):
        """The same for everybody."""
        return f"claimed/{task}~"

    def holder(self, name, file):
        """Whose claim this is, by what stands inside; nobody's until that is written."""
        return file.partition(HAS)[0] if file and HAS in file else ""

    # -- put: the registry has a file of its own ------------------------------------------------------------

    def admit(self, task, nonce):
        """The row *put*."""
        tmp, original = f"tmp/{task}~{nonce}~put", f"tmp/{task}~{nonce}~id"
        yield create(original, f"{task} as put by {nonce}")
        yield create(tmp, f"{task}.{nonce}")
        created = yield link(original, f"ids/{task}")
        if created:
            yield from self.enter(tmp, task)
        elif created is not None:
            yield remove(tmp)
        if created is not None:
            yield remove(original)
        return created

    def let_in(self, found, task):
        """A task whose id was taken but which had not entered."""
        original = found.removesuffix("put") + "id"
        known = yield look(f"ids/{task}")
        here = yield look(original)
        if here is None:
            original = found.removesuffix("put") + "gone"
            here = yield look(original)
        if here is not None and known == here:
            yield from self.enter(found, task)
            yield remove(original)

    def clear(self, found, task, nonce):
        """As in a pit; the copy for the registry goes with the put it belongs to."""
        if found.endswith(("~id", "~gone")) and (yield look(found.rpartition("~")[0] + "~put")) is not None:
            return
        if found.endswith("~id"):
            yield move(found, found.removesuffix("id") + "gone")
        else:
            yield from super().clear(found, task, nonce)

    def clear_put(self, found, task, nonce):
        """Take the copy's name away, so that nobody links it any more; then it is registered or never will be."""
        gone = found.removesuffix("put") + "gone"
        yield move(found.removesuffix("put") + "id", gone)
        known = yield look(f"ids/{task}")
        if known is not None and known == (yield look(gone)):
            yield from self.enter(found, task)
        else:
            yield remove(found)
        yield remove(gone)

    def _coming(self, disk, task):
        """Whether its file is still about to enter: both are there."""
        files = {name: file for name, file in disk.items() if name.startswith(f"tmp/{task}~")}
        originals = [name for name, file in files.items() if file == disk[f"ids/{task}"]]
        return any(name.rpartition("~")[0] + "~put" in files for name in originals)

    # -- what runs under the guard ----------------------------------------------------------------------------

    def guarded(self, me, work):
        """Run this alone; None if somebody stands still in the middle and our patience ends."""
        if not (yield take("guard", me)):
            return None
        answer = yield from work
        yield drop("guard")
        return answer

    def claim(self, task, fence):
        """Row *claim*, under the guard."""
        if self.careful and not (yield from self.register(task, fence)):
            return False
        return (yield from self.guarded(actor(fence), self.take_and_sign(task, fence)))

    def take_and_sign(self, task, fence):
        """Take the file, then write inside who has it."""
        target = self.claimed(task, fence)
        if not (yield touch(f"ready/{task}")) or not (yield move(f"ready/{task}", target)):
            return False
        before = yield look(target)
        scratch = f"tmp/{task}~{fence}~claim"
        yield create(scratch, f"{fence}{HAS}{task}")
        yield touch(scratch)
        if before is not None and before == (yield look(target)):
            yield move(scratch, target)
        else:
            yield remove(scratch)
        return True

    def is_ours(self, task, fence):
        """Whether what stands under the fixed name is this claim's."""
        return self.holder("", (yield look(self.claimed(task, fence)))) == fence

    def renew(self, task, fence):
        """Row *renew*; who can't get a turn doesn't know, and tries again."""
        return (yield from self.guarded(actor(fence), self.renew_ours(task, fence))) is not False

    def renew_ours(self, task, fence):
        """Stamp what is ours."""
        return (yield from self.is_ours(task, fence)) and (yield touch(self.claimed(task, fence)))

    def seal(self, task, fence, sealed):
        """The commit, for whoever ends the claim: its holder, or a keeper in its name."""
        me = actor(sealed.split("~")[1])
        return (yield from self.guarded(me, self.seal_ours(task, fence, sealed)))

    def seal_ours(self, task, fence, sealed):
        """Seal what is the claim's."""
        return (yield from self.is_ours(task, fence)) and (yield move(self.claimed(task, fence), sealed))

    def give_up(self, me, task, nonce, parts):
        """Too late, or no turn to be had; only a claim that is gone was robbed."""
        if me in self.punctual and (yield from self.is_ours(task, nonce)):
            for part in parts:
                yield remove(f"tmp/{task}~{nonce}~{part}")
            yield tell(f"no turn/{me}")
            return
        yield from super().give_up(me, task, nonce, parts)

    def judge(self, claimed):
        """Whose claim has lapsed: the holder is read first, then the times."""
        holder = self.holder(claimed, (yield look(claimed)))
        return holder if (yield ages(claimed)) == "mc" else None


def actor(fence):
    """Who acts under this fence or nonce."""
    return fence.partition(".")[0]


# -- controls --------------------------------------------------------------------------------------------------


class WithoutGuard(Mailbox):
    """The holder is compared, but nobody is kept out between the look and the rename."""

    def guarded(self, me, work):
        return (yield from work)


class WithoutHolder(Mailbox):
    """A fixed name with nothing unique behind it."""

    def take_and_sign(self, task, fence):
        target = self.claimed(task, fence)
        if not (yield touch(f"ready/{task}")) or not (yield move(f"ready/{task}", target)):
            return False
        return (yield touch(target))

    def is_ours(self, task, fence):
        return (yield look(self.claimed(task, fence))) is not None
