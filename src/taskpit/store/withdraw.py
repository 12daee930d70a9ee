"""The result of a failed task that is to be tried anew leaves the place where people read it."""

from __future__ import annotations

from taskpit import fs
from taskpit.model import Verdict
from taskpit.store.flock import BoundedLock
from taskpit.store.folder import DOOR, LATE, stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.store.finish import Sealed


def withdraw(sealed: Sealed) -> None:
    """The result of a task that was reopened leaves its place; the same file is kept with the late ones.

    Until the next bytes are moved over it, the token of such a task is its old result.
    """
    folder, late = sealed.folder, sealed.folder.of(LATE, sealed.spot.id, f"~{sealed.nonce}")
    try:
        fs.link(sealed.path, late)
    except FileNotFoundError:
        return  # another roller has carried it out
    folder.sync(LATE)
    with BoundedLock(folder.at(DOOR)):  # one at a time: a later result at the same name is not this one
        kept = fs.status(late)
        for verdict in (Verdict.FAILED, Verdict.CANCELLED):
            _withdraw_one(sealed, verdict, kept)


def _withdraw_one(sealed: Sealed, verdict: Verdict, kept: fs.Stat | None) -> None:
    """The result goes last: while it stands there, nobody has withdrawn it, and what tells of it is of this end."""
    folder, late = sealed.folder, sealed.folder.of(LATE, sealed.spot.id, f"~{sealed.nonce}.task")
    path = folder.layout.result_path(stub(sealed.spot), verdict)
    ended = folder.layout.ended_path(sealed.spot, verdict)
    status = fs.status(folder.at(path))
    stands = kept is not None and status is not None and status.st_ino == kept.st_ino
    if ended and (stands or (status is None and fs.exists(sealed.path))):
        fs.move(folder.at(ended), late)
    if stands:
        fs.remove(folder.at(path))
    # Where it told that the task has failed, it must not come back and tell so again.
    folder.sync(*{(ended or path).rpartition("/")[0]}.intersection(folder.layout.results))
