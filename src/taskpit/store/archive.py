"""Archiving: old results leave the layout's own place for a folder of their month. Decides nothing about tasks.

A result has two names: the one people see, and its outcome in `.taskpit/outcomes/`, by which everything is found.
Archiving renames the first to `.taskpit/archive/<year>-<month>/`; the second stays, and with it the task, its
result and everything that needs it. One rename for each: a crash leaves some archived and the others not.
"""

from __future__ import annotations

import time

from taskpit import fs
from taskpit.clock import LAST, say_duration
from taskpit.errors import Invalid
from taskpit.store.folder import HIDDEN, Folder
from taskpit.store.port import Mend
from taskpit.task import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from taskpit.layouts import Spot

__all__ = ["ARCHIVE", "archive", "archived", "archived_results"]

ARCHIVE = f"{HIDDEN}/archive"


def archive(folder: Folder, older: float, *, dry_run: bool) -> list[Mend]:
    """Results of done tasks that were published so many seconds ago are archived; each, and where to."""
    if not folder.layout.archives:
        raise Invalid(
            f"a {folder.layout.name} keeps its results where its own index says",
            hint="Results can be archived in a pit and in a mailbox.",
        )
    moved = [
        Mend(kind="archived", what=spot.id, details=target)
        for spot, target in list(_old(folder, older))
        if dry_run or _move(folder, spot.path, target)
    ]
    if moved and not dry_run:
        folder.sync(*folder.layout.results, *sorted({mend.details.rpartition("/")[0] for mend in moved}))
        folder.tell("archived", details=f"{len(moved)} results older than {say_duration(older)}")
    return moved


def _old(folder: Folder, older: float) -> Iterator[tuple[Spot, str]]:
    """Results that are old enough and known as outcomes, each with the place it goes to."""
    now = folder.clock.now()
    for spot in folder.finished():
        here = fs.status(folder.at(spot.path)) if spot.verdict is Verdict.DONE else None
        if here is None or now - here.st_mtime < older or not 0 <= here.st_mtime <= LAST:
            continue
        known = fs.status(folder.outcome_path(spot.id, Verdict.DONE))
        if known is not None and known.st_ino == here.st_ino:  # another's is for the sweep to learn first
            month = time.strftime("%Y-%m", time.gmtime(here.st_mtime))
            yield spot, f"{ARCHIVE}/{month}/{spot.path.rpartition('/')[2]}"


def _move(folder: Folder, path: str, to: str) -> bool:
    """It lies there; False if somebody else was faster, or another stands there."""
    source, target = folder.at(path), folder.at(to)
    place = target.rpartition("/")[0]
    if not fs.exists(place):
        fs.make_dir(place)
    try:
        return fs.move_new(source, target)
    except FileExistsError:
        here, there = fs.status(source), fs.status(target)
        if here is None or there is None or here.st_ino != there.st_ino:
            return False
        return fs.remove(source)  # a power loss left both names of one file


def archived(folder: Folder) -> set[int]:
    """The inodes of all that is archived."""
    return {status.st_ino for path in _paths(folder) if (status := fs.status(folder.at(path))) is not None}


def _paths(folder: Folder) -> Iterator[str]:
    for month in fs.names(folder.at(ARCHIVE)):
        for name in fs.names(folder.at(f"{ARCHIVE}/{month}")):
            yield f"{ARCHIVE}/{month}/{name}"


def archived_results(folder: Folder) -> Iterator[Spot]:
    """The results that are archived, and where."""
    for path in _paths(folder):
        for _, found in folder.entries(folder.layout.results[0], among=[path.rpartition("/")[2]]):
            if not isinstance(found, Invalid):
                yield found.replace(path=path)
