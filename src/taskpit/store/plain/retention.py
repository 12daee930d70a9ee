"""What is kept for how long: working logs are summarised and pruned, results pruned or archived by the settings."""

from __future__ import annotations

import stat as modes
import time
from collections.abc import Iterator
from contextlib import suppress

from taskpit.clock import LAST, iso, say_duration
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.model import State, Task, Verdict
from taskpit.store.plain import paths
from taskpit.store.plain.attachments import forget_artifacts
from taskpit.store.plain.folder import Folder
from taskpit.store.port import Mend
from taskpit.workers import RUNS

ARCHIVE = ".taskpit/archive"
#: Characters of a log's last line that its summary has, and bytes of the log that are read for it.
LAST_WORDS, LOG_READ = 160, 1 << 20


def compost(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """Prune old logs and results."""
    steps = (_logs, _runs, _results, _messages)
    if dry_run:
        return [mend for step in steps for mend in step(folder, dry_run=True)]
    with folder.lock.hold("compost"):  # two summaries of one log would be one too many
        return [mend for step in steps for mend in step(folder, dry_run=False)]


def _logs(folder: Folder, *, dry_run: bool) -> Iterator[Mend]:
    now, layout = folder.clock.now(), folder.layout
    for name in sorted(folder.files.names(layout.logs)):
        path = f"{layout.logs}/{name}"
        status = folder.files.stat(path)
        if not name.endswith(".log") or status is None or not modes.S_ISREG(status.st_mode):
            continue
        if now - status.st_mtime < folder.config.compost:
            continue
        if not dry_run:
            line = _summary(folder, name, path, status.st_size, now)
            before, _, after = line.partition(iso(now).encode())
            known = folder.files.piece(layout.digest, -LOG_READ, LOG_READ)[0].splitlines(keepends=True)
            if not any(one.startswith(before) and one.endswith(after) for one in known):  # else a process died here
                folder.make_place(layout.digest)
                folder.files.append(layout.digest, line)
            folder.files.remove(path)
        yield Mend(kind="composted", what=path, details=f"{status.st_size} bytes")


def _summary(folder: Folder, name: str, path: str, size: int, now: float) -> bytes:
    text = folder.files.piece(path, -LOG_READ, LOG_READ)[0].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = sum(1 for line in lines if any(word in line.lower() for word in ("error", "traceback", "failed")))
    last = "".join(c if c.isprintable() else "?" for c in (lines[-1][:LAST_WORDS] if lines else "(empty)"))
    troubles = f", {complaints} lines of trouble" if complaints else ""
    line = f"- **{name}** {size} bytes, {len(lines)} lines{troubles}, composted {iso(now)}. Last line: {last}\n"
    return line.encode("utf-8", "replace")


def _runs(folder: Folder, *, dry_run: bool) -> Iterator[Mend]:
    """Prune logs of runs elsewhere whose worker was lost: as old as a log may become."""
    before = folder.clock.now() - folder.config.compost
    for name in folder.files.names(RUNS):
        run = f"{RUNS}/{name}"
        with suppress(NotADirectoryError):
            status = folder.files.stat(f"{run}/log")
            if status is None or status.st_mtime >= before or folder.files.names(run) != ["log"]:
                continue
            if not dry_run:
                folder.files.remove(f"{run}/log")
                with suppress(OSError):
                    folder.files.remove_dir(run)
            yield Mend(kind="pruned", what=f"{run}/log", details="of a run that never ended")


def _messages(folder: Folder, *, dry_run: bool) -> Iterator[Mend]:
    """Prune messages that were read long ago; unread ones stay."""
    keep, now = folder.config.keep_messages, folder.clock.now()
    for spool in folder.files.names(".taskpit/pipes") if folder.layout.pipes and keep else []:
        for name in folder.files.names(f".taskpit/pipes/{spool}/sent"):
            path = f".taskpit/pipes/{spool}/sent/{name}"
            status = folder.files.stat(path)
            if status is not None and now - status.st_ctime >= keep:
                if not dry_run:
                    folder.files.remove(path)
                yield Mend(kind="pruned", what=path, details=f"{status.st_size} bytes")


# -- results -----------------------------------------------------------------------------------------------------------


def _results(folder: Folder, *, dry_run: bool) -> Iterator[Mend]:
    """Prune results older than the settings say, and the second names; never of a task that an open one needs."""
    config, now = folder.config, folder.clock.now()
    if config.git == "track" or not (config.keep_results or config.keep_failed):
        return
    needed = _needed(folder)
    for name in sorted(folder.files.names(paths.ENDED)):
        task_id, _, said = name.partition("~")
        if said not in tuple(Verdict) or task_id in needed:
            continue
        keep = config.keep_results if said == Verdict.DONE else config.keep_failed
        status = folder.files.stat(f"{paths.ENDED}/{name}")
        if keep and status is not None and now - status.st_mtime >= keep:
            spot = Spot(state=Verdict(said).state, id=task_id, verdict=Verdict(said))
            place = _shown(folder, spot)
            if not dry_run:
                _prune(folder, spot, place)
            yield Mend(kind="pruned", what=task_id, details=place or f"{paths.ENDED}/{name}")


def _needed(folder: Folder) -> set[str]:
    needed: set[str] = set()
    for name in folder.files.names(paths.OPEN):
        if "~" not in name:
            with suppress(FileNotFoundError, Invalid):
                needed.update(folder.load(Spot(state=State.READY, id=name), paths.open_path(name)).needs)
    return needed


def _shown(folder: Folder, spot: Spot) -> str:
    """Return where the result is visible, or archived; empty if nowhere."""
    kept = folder.files.stat(paths.ended_path(spot.id, f"~{spot.verdict}"))
    task = folder.original(spot.id) or Task(id=spot.id, title="")
    path = folder.layout.result_path(folder.layout.named(task), spot.verdict or Verdict.DONE)
    there = folder.files.stat(path)
    if there is not None and (folder.in_place or (kept is not None and there.st_ino == kept.st_ino)):
        return path
    return next((one for one, inode in archived(folder).items() if kept is not None and inode == kept.st_ino), "")


def _prune(folder: Folder, spot: Spot, place: str) -> None:
    verdict = spot.verdict or Verdict.DONE
    if place:
        folder.files.remove(place)
    entry = folder.layout.ended_path(spot, verdict)
    if entry:
        folder.files.remove(entry)
    forget_artifacts(folder, spot.id)
    for name in folder.files.names(paths.TRIES):
        if name.startswith(f"{spot.id}~"):
            folder.files.remove(f"{paths.TRIES}/{name}")
    for mark in (f"~{verdict}", "~put", ""):  # the id last: without a result it would be open again
        folder.files.remove(paths.ended_path(spot.id, mark))


def archive(folder: Folder, older: float, *, dry_run: bool) -> list[Mend]:
    """Move results that were published so many seconds ago to the folder of their month; the second name stays."""
    if not folder.layout.archives:
        hint = "Results can be archived in a pit and in a mailbox."
        raise Invalid(f"a {folder.layout.name} keeps its results where its own index says", hint=hint)
    if folder.config.git == "track":
        message = (
            "git's commits have the results of this queue where they are; in its archive they would not be committed"
        )
        raise Invalid(message, hint="Nothing was moved. Other checkouts would no longer know what is done.")
    with folder.lock.hold("archive"):
        moved = [mend for mend in _old(folder, older) if dry_run or _archive_one(folder, mend)]
        if moved and not dry_run:
            folder.tell("archived", details=f"{len(moved)} results older than {say_duration(older)}")
    return moved


def _old(folder: Folder, older: float) -> Iterator[Mend]:
    now = folder.clock.now()
    kept = {entry.inode: entry.name for entry in folder.files.entries(paths.ENDED)}
    for place in folder.layout.results:
        for file, status in folder.files.scan(place):
            spot = folder.spot(place, file)
            if spot is None or spot.verdict is not Verdict.DONE or kept.get(status.st_ino) != f"{spot.id}~done":
                continue
            if now - status.st_mtime >= older and 0 <= status.st_mtime <= LAST:
                month = time.strftime("%Y-%m", time.gmtime(status.st_mtime))
                yield Mend(kind="archived", what=spot.id, details=f"{ARCHIVE}/{month}/{place}/{file}")


def _archive_one(folder: Folder, mend: Mend) -> bool:
    path = mend.details.split("/", 3)[3]
    with suppress(FileExistsError):
        return folder.move(path, mend.details)
    return False


def archived(folder: Folder) -> dict[str, int]:
    """Return the paths of all that is archived, with their inodes."""
    found = {}
    for month in folder.files.names(ARCHIVE):
        for place in folder.files.names(f"{ARCHIVE}/{month}"):
            for entry in folder.files.entries(f"{ARCHIVE}/{month}/{place}"):
                found[f"{ARCHIVE}/{month}/{place}/{entry.name}"] = entry.inode
    return found
