"""The lean protocol with one thing done differently: each must be found. Numbers are those of the list of mutants."""

from __future__ import annotations

from models.disk import ages, link, look, move, names, remove, tell, touch
from models.lean import Lean


class VerdictBeforeSealIsGone(Lean):
    """1: the token has its last name before it has lost the one under seal."""

    def retire(self, sealed, nonce, kind, *, said):
        yield move(f"tmp/T~{nonce}~r", "ids/T")
        yield link(sealed, f"ids/T~{kind}")
        yield remove(sealed)

    def without_result(self, me, sealed, kind):
        if (yield look("ids/T")) != (yield look(sealed)):
            yield link(sealed, f"ids/T~{kind}")
            return (yield remove(sealed))
        return (yield from self.enter(sealed, me))


class SealedTwiceNamed(VerdictBeforeSealIsGone):
    """The same, judged by what a reopening makes of it."""

    forgiven = ("two tokens: ids/T~failed and sealed",)


class RegistryKeepsTheTask(Lean):
    """2: the registry goes on naming the task's own file after its end."""

    def recovery(self):
        return None

    def retire(self, sealed, nonce, kind, *, said):
        yield remove(f"tmp/T~{nonce}~r")
        yield move(sealed, f"ids/T~{kind}")

    def without_result(self, me, sealed, kind):
        return (yield move(sealed, f"ids/T~{kind}"))

    def at_the_door(self, me, claimed):
        here = yield look(claimed)
        if here is not None and here == (yield look("ids/T")):
            return True  # the registered file: nobody looks further
        return (yield from super().at_the_door(me, claimed))

    def accept(self, me, fence):
        yield tell(f"runs/claimed/T~{fence}")
        return True


class DemotedUnseen(Lean):
    """3: a sealed task without its temporary result goes back to ready, whatever the registry says."""

    def without_result(self, me, sealed, kind):
        yield from self.enter(sealed, me)
        return False


class PublishedUnseen(Lean):
    """4: a claim does not look at the visible result."""

    def recovery(self):
        return None

    def accept(self, me, fence):
        yield tell(f"runs/claimed/T~{fence}")
        return True


class EndUnseen(Lean):
    """28: the registered file with two names is the task, whatever the names beside it say."""

    def has_ended(self):
        yield names()
        return False


class ReclaimUnjudged(Lean):
    """5: a keeper gives back whatever a dead claimer had."""

    def is_the_task(self, me, claimed, here, known):
        yield names()
        return True


class DoorWithoutLock(Lean):
    """6: two at once at the door."""

    def lock(self, me):
        yield names()
        return True

    def unlock(self):
        yield names()


class DoorWithoutRegistering(Lean):
    """6: an edited task is let through, and the registry does not know it."""

    def register(self, me, claimed):
        yield names()


class SecondNameByRoller(Lean):
    """7: each roller makes the name that it then moves over the registry's."""

    def second_name(self, me, nonce):
        yield link(f"tmp/T~{nonce}~n", f"tmp/T~{nonce}~{me}")
        yield move(f"tmp/T~{nonce}~{me}", "ids/T")


class ClaimReplaces(Lean):
    """8: a plain rename, which puts a copy over one's own live claim."""

    def take_it(self, claimed):
        return (yield move("ready/T", claimed))


class EnterUnseen(Lean):
    """9: what stood at the ready name is put away, and nobody looks what it was."""

    def look_at_moved(self, source):
        yield names()
        return True


class WithdrawByLook(Lean):
    """10: looked at, then unlinked, by as many at once as come."""

    def lock(self, me):
        yield names()
        return True

    def unlock(self):
        yield names()


class JudgedByMtime(Lean):
    """17: a rival's shorter stamp, or one that waited long, ends a lease that has just begun."""

    def has_lapsed(self, claimed):
        return "m" in ((yield ages(claimed)) or "")

    def claim(self, me, fence):
        if not (yield move("ready/T", f"claimed/T~{fence}")):
            return False
        return (yield touch(f"claimed/T~{fence}"))


class OwnLinkTakenForAnothers(Lean):
    """21: a link that has happened, and whose answer got lost, is taken for another's task of this id."""

    def link_was_ours(self, tmp):
        yield names()
        return False
