"""Retention: working logs are summarised before they are pruned, results pruned only when settings say so."""

from __future__ import annotations

import stat

from taskpit import fs
from taskpit.clock import iso
from taskpit.layouts import Spot
from taskpit.store.archive import archived_results
from taskpit.store.folder import Folder
from taskpit.store.port import Mend
from taskpit.task import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["compost", "compost_logs"]

#: Of a log's last words, this many characters go into the digest.
LAST_WORDS = 160
#: A log larger than this is digested by its size and its end.
LOG_READ = 1024 * 1024


def compost(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """What was pruned."""
    return _alone(folder, dry_run, (_logs, _results, _messages))


def compost_logs(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """What was pruned where only logs ever are."""
    return _alone(folder, dry_run, (_logs,))


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
        if not stat.S_ISREG(status.st_mode):
            continue  # no log of ours, and nothing to read
        if not dry_run:
            line = _digest(name, path, status.st_size, now)
            if f"**{name}**".encode() not in fs.tail(digest, LOG_READ):
                fs.append(digest, line.encode("utf-8", "replace"))
            fs.remove(path)
        yield Mend(kind="composted", what=f"{folder.layout.logs}/{name}", details=f"{status.st_size} bytes")


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
    if not folder.config.keep_results and not folder.config.keep_failed:
        return
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
    scratch = folder.tmp(spot.id, fs.fresh_name(), "pruned")
    verdict = folder.outcome(spot.id) or spot.verdict or Verdict.DONE
    fs.replace(folder.outcome_path(spot.id, verdict), b"", scratch, sync=folder.durable)
    fs.remove(folder.at(folder.layout.result_of(spot)))
    fs.remove(folder.at(spot.path))
