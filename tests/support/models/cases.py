"""What is explored: protocols that must hold, in a small and a large version, and controls that must not."""

from __future__ import annotations

from models import broken, locks, mailbox
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
