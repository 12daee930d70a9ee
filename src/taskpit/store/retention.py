"""What becomes of what is old: working logs are digested, results archived or pruned. Decides nothing about tasks.

Logs are summarised before they are pruned; results are pruned only when settings say so. Archiving moves old results
from the layout's own place to a folder of their month: a result has two names, the one people see, and its outcome in
`.taskpit/outcomes/`, by which everything is found. The first is renamed to `.taskpit/archive/<year>-<month>/`; the
second stays, and with it the task, its result and everything that needs it. One rename for each: a crash leaves some
archived and the others not.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from taskpit import fs
from taskpit.clock import LAST, iso, say_duration
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.model import Verdict
from taskpit.store.folder import HIDDEN, Folder
from taskpit.store.port import Mend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from taskpit.layouts import Spot


ARCHIVE = f"{HIDDEN}/archive"


def archive(folder: Folder, older: float, *, dry_run: bool) -> list[Mend]:
    """Results of done tasks that were published so many seconds ago are archived; each, and where to."""
    if not folder.layout.archives:
        raise Invalid(
            f"a {folder.layout.name} keeps its results where its own index says",
            hint="Results can be archived in a pit and in a mailbox.",
        )
    if folder.config.git == "track":
        raise Invalid(
            "git's commits have the results of this queue where they are; in its archive they would not be committed",
            hint="Nothing was moved. Other checkouts would no longer know what is done.",
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


#: Of a log's last words, this many characters go into the digest.
LAST_WORDS = 160
#: A log larger than this is digested by its size and its end.
LOG_READ = 1024 * 1024


def compost(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """What was pruned."""
    return _alone(folder, dry_run, (_logs, _runs, _results, _messages))


def compost_logs(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """What was pruned where only logs ever are."""
    return _alone(folder, dry_run, (_logs, _runs))


def _alone(folder: Folder, dry_run: bool, steps: tuple[Callable[[Folder, bool], Iterator[Mend]], ...]) -> list[Mend]:
    lock = fs.Flock(folder.at(".taskpit/compost.lock"))  # two digests of one log would be one too many
    if not dry_run and not lock.take(wait=False):
        return []  # somebody is at it; who was stopped in the middle must not stop every keeper
    try:
        return [mend for step in steps for mend in step(folder, dry_run)]
    finally:
        lock.drop()


def _logs(folder: Folder, dry_run: bool) -> Iterator[Mend]:
    now, digest = folder.clock.now(), folder.at(folder.layout.digest)
    for name in sorted(fs.names(folder.at(folder.layout.logs))):
        path = folder.at(f"{folder.layout.logs}/{name}")
        status = fs.status(path)
        if not name.endswith(".log") or status is None or now - status.st_mtime < folder.config.compost:
            continue
        if not stat.S_ISREG(status.st_mode) or folder.writing.has_writer(path):
            continue  # nothing to read, or more will come: there are agents that print all they say at their end
        if not dry_run:
            line = _digest(name, path, status.st_size, now).encode("utf-8", "replace")
            before, _, after = line.partition(iso(now).encode())
            lines = fs.tail(digest, LOG_READ).splitlines(keepends=True)
            if not any(one.startswith(before) and one.endswith(after) for one in lines):  # else we were killed here
                fs.append(digest, line)
            fs.remove(path)
        yield Mend(kind="composted", what=f"{folder.layout.logs}/{name}", details=f"{status.st_size} bytes")


def _runs(folder: Folder, dry_run: bool) -> Iterator[Mend]:
    """What runs elsewhere had printed when their worker was lost: as old as a log may become."""
    from taskpit.store.run_files import stale_runs

    for path in stale_runs(folder, folder.clock.now() - folder.config.compost):
        if not dry_run:
            fs.remove(path)
            with suppress(OSError):
                fs.remove_dir(os.path.dirname(path))
        yield Mend(kind="pruned", what=os.path.relpath(path, folder.root), details="of a run that never ended")


def _digest(name: str, path: str, size: int, now: float) -> str:
    text = fs.tail(path, LOG_READ).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = sum(1 for line in lines if any(word in line.lower() for word in ("error", "traceback", "failed")))
    last = lines[-1][:LAST_WORDS] if lines else "(empty)"
    last = "".join(c if c.isprintable() else "?" for c in last)
    troubles = f", {complaints} lines of trouble" if complaints else ""
    return f"- **{name}** {size} bytes, {len(lines)} lines{troubles}, composted {iso(now)}. Last line: {last}\n"


def _results(folder: Folder, dry_run: bool) -> Iterator[Mend]:
    now = folder.clock.now()
    if folder.config.git == "track" or not (folder.config.keep_results or folder.config.keep_failed):
        return  # where git tracks them, other checkouts know by the result alone what is done
    for spot in [*folder.finished(), *archived_results(folder)]:
        keep = folder.config.keep_results if spot.verdict is Verdict.DONE else folder.config.keep_failed
        status = fs.status(folder.at(spot.path))
        if not keep or status is None or now - status.st_mtime < keep:
            continue
        if not dry_run:
            _prune(folder, spot)
        yield Mend(kind="pruned", what=spot.id, details=spot.path)


def _messages(folder: Folder, dry_run: bool) -> Iterator[Mend]:
    """Messages that were read long ago; those nobody has read stay."""
    spools = fs.names(folder.at(".taskpit/pipes")) if folder.layout.pipes and folder.config.keep_messages else []
    for spool in spools:
        for name in fs.names(folder.at(f".taskpit/pipes/{spool}/sent")):
            path = f".taskpit/pipes/{spool}/sent/{name}"
            status = fs.status(folder.at(path))
            if status is None or folder.clock.now() - status.st_ctime < folder.config.keep_messages:
                continue
            if not dry_run:
                fs.remove(folder.at(path))
            yield Mend(kind="pruned", what=path, details=f"{status.st_size} bytes")


def _prune(folder: Folder, spot: Spot) -> None:
    """The result goes; how it ended stays, as an empty outcome, for what needs it and for uniqueness."""
    from taskpit.store.run_files import forget_artifacts

    scratch = folder.tmp(spot.id, fs.fresh_name(), "pruned")
    verdict = folder.outcome(spot.id) or spot.verdict or Verdict.DONE
    fs.replace(folder.outcome_path(spot.id, verdict), b"", scratch, sync=folder.durable)
    fs.remove(folder.at(folder.layout.result_of(spot)))
    forget_artifacts(folder, spot.id)
    fs.remove(folder.at(spot.path))
