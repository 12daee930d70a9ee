"""What is explored: protocols that must hold, in a small and a large version, and controls that must not."""

from __future__ import annotations

from models import broken, lean_broken, locks, mailbox
from models.lean import Lean
from models.locks import Lock
from models.mailbox import Mailbox
from models.tasks import Pit

BACK = ("done", "failed", "retry", "release")

#: Each a name and a way to make the world: together some seconds.
SMALL = {
    "two putters, a keeper, a worker": lambda: Pit(putters=2, crashes=1),
    "a worker, two keepers": lambda: Pit(putters=0, keepers=2, ends=("done", "retry"), crashes=1),
    "every end but a split, renewals": lambda: Pit(putters=0, workers=1, rounds=2, ends=BACK, renews=True, crashes=1),
    "a split": lambda: Pit(putters=0, ends=("split",), crashes=1),
    "a split that waits": lambda: Pit(putters=0, ends=("split and wait",), crashes=1),
    "a worker that renews in time": lambda: Pit(
        putters=0, workers=2, keepers=1, sweeps=2, renews=True, punctual=("w0",)
    ),
    "clearing up after putters": lambda: Pit(putters=1, sweeps=2, ends=("done", "retry"), clears=True),
    "clearing up after a split": lambda: Pit(putters=0, ends=("split",), clears=True),
    "files that are looked at first": lambda: Pit(
        putters=0, workers=2, rounds=3, keepers=0, ends=("retry",), careful=True
    ),
    "clearing up after a mailbox's putter": lambda: Mailbox(putters=1, sweeps=2, workers=0, keepers=2, clears=True),
    "a mailbox": lambda: Mailbox(putters=0, workers=2, crashes=1),
    "lean: two putters, a worker, a keeper": lambda: Lean(putters=2, crashes=1),
    "lean: two putters over a network": lambda: Lean(putters=2, lossy=True, clears=True),
    "lean: a worker, two keepers": lambda: Lean(keepers=2, ends=("done", "retry"), crashes=1),
    "lean: every end": lambda: Lean(rounds=2, ends=BACK, crashes=1),
    "lean: failed, reopened, failed again": lambda: Lean(reopeners=1, rounds=2, ends=("failed",), crashes=1),
    "lean: two editors": lambda: Lean(workers=2, editors=2, keepers=0),
    "lean: a stranger publishes": lambda: Lean(strangers=1, careful=True, crashes=1),
    "lean: a stranger has published": lambda: Lean(published=True, crashes=1),
    "lean: a result is put back among the tasks": lambda: Lean(movers=1, rounds=2, crashes=1),
    "lean: processes that share a name, and an editor": lambda: Lean(workers=2, named=True, editors=1, keepers=0),
    "lean: a worker that renews in time": lambda: Lean(workers=2, renews=True, punctual=("w0",)),
    "lean: clearing up after putters": lambda: Lean(putters=1, sweeps=2, clears=True, ends=("done", "retry")),
    "a lock": lambda: Lock(holders=2, rounds=2, crashes=1),
    "a lock, and a stranger": lambda: Lock(holders=2, rounds=1, foreign=1),
}

#: The same at length.
LARGE = {
    "tasks: two workers, two keepers, a crash": lambda: Pit(putters=0, workers=2, keepers=2, crashes=1),
    "tasks: three workers, a keeper twice, a crash": lambda: Pit(putters=0, workers=3, keepers=1, sweeps=2, crashes=1),
    "tasks: every end but a split, renewals, two crashes": lambda: Pit(
        putters=0, workers=2, sweeps=2, ends=BACK, renews=True, crashes=2
    ),
    "tasks: two putters, a worker, clearing up, a crash": lambda: Pit(
        putters=2, sweeps=2, ends=("done", "retry"), clears=True, crashes=1
    ),
    "tasks: both splits, a child that is done at once, clearing up, a crash": lambda: Pit(
        putters=0, ends=("split", "split and wait"), nurses=1, clears=True, crashes=1
    ),
    "tasks: files that are looked at first, a crash": lambda: Pit(
        putters=0, workers=2, sweeps=2, ends=("retry", "done"), careful=True, crashes=1
    ),
    "tasks: a worker that renews in time among others": lambda: Pit(
        putters=0, workers=2, keepers=2, renews=True, punctual=("w0",), ends=("done", "release")
    ),
    "mailbox: two putters, a worker, clearing up": lambda: Mailbox(putters=2, sweeps=2, clears=True),
    "mailbox: two workers, a keeper, renewals, a crash": lambda: Mailbox(
        putters=0, workers=2, ends=("done", "release"), renews=True, crashes=1
    ),
    "mailbox: a worker that renews in time, a crash": lambda: Mailbox(
        putters=0, workers=2, sweeps=2, renews=True, punctual=("w0",), crashes=1
    ),
    "lean: a put over a copy, two keepers, a crash": lambda: Lean(putters=1, keepers=2, saved=True, crashes=1),
    "lean: two workers, two keepers, a crash": lambda: Lean(workers=2, keepers=2, ends=("done", "retry"), crashes=1),
    "lean: two reopeners, a keeper, a crash": lambda: Lean(failed=True, reopeners=2, ends=("failed",), crashes=1),
    "lean: a reopener, two keepers, clearing up": lambda: Lean(
        reopeners=1, keepers=2, failed=True, clears=True, ends=("failed", "done")
    ),
    "lean: two workers, an editor, a keeper": lambda: Lean(workers=2, editors=1, ends=("done", "retry")),
    "lean: an editor, two keepers": lambda: Lean(editors=1, keepers=2, ends=("done", "retry")),
    "lean: a reopener and an editor": lambda: Lean(failed=True, reopeners=1, editors=1, ends=("failed",)),
    "lean: a stranger and an editor": lambda: Lean(strangers=1, editors=1, careful=True),
    "lean: a backup by hard links is put back": lambda: Lean(workers=2, backups=1),
    "locks: three holders, two rounds": lambda: Lock(holders=3, rounds=2),
    "locks: three holders, two crashes": lambda: Lock(holders=3, rounds=1, crashes=2),
    "locks: two holders, three rounds, two crashes": lambda: Lock(holders=2, rounds=3, crashes=2),
    "locks: two holders, a stranger, a crash": lambda: Lock(holders=2, rounds=1, foreign=1, crashes=1),
    "locks: two holders, two strangers": lambda: Lock(holders=2, rounds=1, foreign=2),
}

#: Name to a world that breaks, and words of the promise it breaks.
CONTROLS = {
    "the original: rename to claim, rename to publish": (
        lambda: broken.Original(putters=0, workers=2),
        "two results of T",
    ),
    "the original that looks before it publishes": (
        lambda: broken.OriginalThatLooks(putters=0, workers=2),
        "two results of T",
    ),
    "the original put: look, then rename": (lambda: broken.OriginalPut(putters=2, workers=0), "two puts of one id"),
    "the seal is skipped": (lambda: broken.SealSkipped(putters=0), "finished and can be run again"),
    "publish before the seal": (lambda: broken.PublishBeforeSeal(putters=0), "can be run again"),
    "seal by link and unlink": (lambda: broken.SealByLink(putters=0), "two tokens of T"),
    "reclaim by link and unlink": (lambda: broken.ReclaimByLink(putters=0), "two tokens of T"),
    "the next bytes straight to ready": (
        lambda: broken.NextStraightToReady(putters=0, ends=("retry",)),
        "two tokens of T",
    ),
    "the next bytes straight to ready, and a second roller moves the husk": (
        lambda: broken.HuskToReady(putters=0, workers=2, keepers=2, ends=("retry", "done")),
        "finished and can be run again",
    ),
    "the token goes before the result is there": (lambda: broken.TokenBeforeResult(putters=0), "known and nowhere"),
    "put by a second link": (lambda: broken.SecondLink(putters=1), "two tokens of T"),
    "every claim of a worker has one name": (
        lambda: broken.FixedFence(putters=0, rounds=2, keepers=2, punctual=("w0",)),
        "w0 renewed in time",
    ),
    "every claim of a worker has one name, and the inode is compared before the seal": (
        lambda: broken.ComparedInode(putters=0, rounds=2, keepers=2, punctual=("w0",)),
        "w0 renewed in time",
    ),
    "judged by the mtime alone": (
        lambda: broken.JudgedByMtime(putters=0, renews=True, punctual=("w0",)),
        "w0 renewed in time",
    ),
    "children before the seal": (
        lambda: broken.ChildrenBeforeSeal(putters=0, ends=("split",)),
        "no split was committed",
    ),
    "children forgotten by the keeper": (
        lambda: broken.ChildrenForgotten(putters=0, ends=("split",)),
        "not all of its",
    ),
    "cleared up by age alone, put": (lambda: broken.ClearedByAge(putters=1, clears=True), "known and nowhere"),
    "cleared up by age alone, split": (
        lambda: broken.ClearedByAge(putters=0, ends=("split",), clears=True),
        "not all of its children",
    ),
    "a file known by its inode's number": (
        lambda: broken.KnownByNumber(putters=0, workers=2, rounds=3, keepers=0, ends=("retry",), careful=True),
        "known and nowhere",
    ),
    "lean 1: the verdict before sealed is gone": (
        lambda: lean_broken.VerdictBeforeSealIsGone(ends=("failed",), reopeners=1),
        "two tokens: ids/T~failed and sealed",
    ),
    "lean 1: the verdict before sealed is gone, and a reopening": (
        lambda: lean_broken.SealedTwiceNamed(ends=("failed",), reopeners=1),
        "two tokens: sealed/T~r0.1",
    ),
    "lean 2: the registry keeps the task's file": (
        lambda: lean_broken.RegistryKeepsTheTask(workers=2, backups=1, keepers=0),
        "two tokens: claimed",
    ),
    "lean 3: demoted unseen": (lean_broken.DemotedUnseen, "the result under done is not registered"),
    "lean 4: a visible result unseen": (lambda: lean_broken.PublishedUnseen(published=True), "its result stands there"),
    "lean 5: a reclaim that does not judge": (
        lambda: lean_broken.ReclaimUnjudged(workers=2, editors=1),
        "two tokens: claimed/T~w0.1 and sealed/T~k0.1",
    ),
    "lean 6: the door without its lock": (
        lambda: lean_broken.DoorWithoutLock(workers=2, editors=2, keepers=0),
        "is run, and is another file",
    ),
    "lean 6: the door without registering": (
        lambda: lean_broken.DoorWithoutRegistering(workers=2, editors=2, keepers=0),
        "is run, and is another file",
    ),
    "lean 7: a second name by each roller": (
        lambda: lean_broken.SecondNameByRoller(rounds=2, ends=("retry", "done")),
        "known and nowhere",
    ),
    "lean 8: a claim that replaces": (
        lambda: lean_broken.ClaimReplaces(workers=2, named=True, editors=1, keepers=0),
        "is run, and is another file",
    ),
    "lean 9: moved out of the way unseen": (
        lambda: lean_broken.EnterUnseen(putters=1, workers=0, saved=True),
        "known and nowhere",
    ),
    "lean 10: a result withdrawn by look and unlink": (
        lambda: lean_broken.WithdrawByLook(failed=True, reopeners=1, ends=("failed",)),
        "it is failed and the result is gone",
    ),
    "lean 17: judged by the mtime alone": (
        lambda: lean_broken.JudgedByMtime(renews=True, punctual=("w0",)),
        "w0 renewed in time",
    ),
    "lean 21: one's own link taken for another's": (
        lambda: lean_broken.OwnLinkTakenForAnothers(putters=1, lossy=True, workers=0),
        "known and nowhere",
    ),
    "lean 28: a result put back is taken for the task": (
        lambda: lean_broken.EndUnseen(movers=1, rounds=2, keepers=0),
        "two tokens: claimed",
    ),
    "a mailbox without its guard": (
        lambda: mailbox.WithoutGuard(putters=0, workers=2, keepers=1),
        "two tokens of T",
    ),
    "a mailbox that does not say who holds a task": (
        lambda: mailbox.WithoutHolder(putters=0, rounds=2, keepers=2, punctual=("w0",)),
        "w0 renewed in time",
    ),
    "lock: delete the expired one, create another": (lambda: locks.DeleteAndCreate(holders=3, rounds=1), "both hold"),
    "lock: write, read again, compare": (lambda: locks.WriteAndReread(holders=2, rounds=1), "both hold the lock"),
    "lock: rename aside, look, put back": (lambda: locks.AsideAndBack(holders=3, rounds=1), "both hold"),
    "lock: written without a look": (locks.UnverifiedWrite, "stale"),
    "lock: a look, then the write outside": (locks.VerifiedOutside, "stale"),
    "lock: given back unseen": (locks.ReleasedUnseen, "theft"),
    "lock: a number that begins anew": (locks.NumberOfTheFile, "number"),
}
