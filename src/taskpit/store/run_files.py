"""What runs print and leave: how much of it is kept, and where a folder keeps it.

A log that comes in pieces, from a worker elsewhere, stands where a run of this machine has its own: whoever looks at
running tasks reads both alike. Files that are kept with a task have their digest in their name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress

from taskpit import fs, ids, workers
from taskpit.errors import Invalid, Lost, NotFound, TooLarge
from taskpit.model import State
from taskpit.store.port import Artifact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from taskpit.model import Card, Claim
    from taskpit.store.folder import Folder

#: Bytes of a working log that comes in pieces, and of what is read of one at once.
LARGEST_LOG, LARGEST_PIECE = 64 * 1024 * 1024, 1024 * 1024
#: How many files are kept with a task, and how large one may be.
MOST_ARTIFACTS, LARGEST_ARTIFACT = 32, 16 * 1024 * 1024
ARTIFACTS = ".taskpit/artifacts"
#: Hexadecimal digits of a digest.
DIGITS = 64


# -- what every store asks for ---------------------------------------------------------------------


def check_held(claim: Claim, card: Card | None) -> Card:
    """The task as it stands; Lost unless it is this claim's."""
    if card is None or card.state is not State.CLAIMED or card.worker != claim.fence:
        raise Lost(f"{claim.task.id} is not {workers.base(claim.fence)}'s any more", id=claim.task.id)
    return card


def check_piece(start: int, data: bytes) -> None:
    """TooLarge if a log that has this piece would be."""
    if start < 0 or start + len(data) > LARGEST_LOG:
        raise TooLarge(f"a working log has at most {LARGEST_LOG} bytes", size=start + len(data))


def check_artifact(name: str, data: bytes, sha256: str, known: Sequence[Artifact]) -> None:
    """Invalid or TooLarge unless these bytes can be kept under this name, beside those that are known."""
    if not ids.is_word(name):
        raise Invalid(f"{name[:80]!r} cannot be the name of an artifact", hint="Letters, digits, dot, dash, _: a.txt")
    if len(data) > LARGEST_ARTIFACT:
        raise TooLarge(f"{name} has {len(data)} bytes; {LARGEST_ARTIFACT} is the most", size=len(data), name=name)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Invalid(f"the bytes of {name} are others than its digest says; nothing was kept", name=name)
    if sum(one.name != name for one in known) >= MOST_ARTIFACTS:
        raise TooLarge(f"a task keeps at most {MOST_ARTIFACTS} files; {name} is one more", name=name)


def last_log(card: Card) -> str:
    """Where the log of the run that ended last is kept; empty if nobody says."""
    candidate = card.task.extra.get("candidate")  # its run ended without a try: the change waits
    handed_in = candidate.get("log") if isinstance(candidate, dict) else ""
    kept = card.result.log if card.result else handed_in if isinstance(handed_in, str) else ""
    return kept or next((one.log for one in reversed(card.tries) if one.log), "")


def none_of(task_id: str, name: str = "") -> NotFound:
    """What is said of a task, or of a file of one, that is not there."""
    return NotFound(
        f"{task_id} keeps no file called {name[:80]}" if name else f"there is no task {task_id[:80]}", id=task_id
    )


# -- in a folder -----------------------------------------------------------------------------------


def _run(folder: Folder, card: Card) -> str:
    return workers.run_path(folder.at(workers.RUNS), card.task.id, card.task.attempts + 1, card.worker)


def add_log(folder: Folder, card: Card, start: int, data: bytes) -> int:
    """In the file where a run of this machine would have its log."""
    check_piece(start, data)
    run = _run(folder, card)
    fs.make_dir(run)
    with fs.Flock(f"{run}/log") as log:  # a piece that is sent again may come while the first is written
        if not stat.S_ISREG(os.fstat(log.fd).st_mode):
            raise fs.NotAFile(errno.EINVAL, "not a regular file", log.path)
        size = os.lseek(log.fd, 0, os.SEEK_END)
        if start == 0 and not data:
            fs.overwrite(log.fd, b"", log.path)
        elif start <= size < start + len(data):
            fs.write_once(log.fd, data[size - start :], log.path)
        return os.lseek(log.fd, 0, os.SEEK_END)


def end_log(folder: Folder, card: Card) -> str:
    """It moves to where the layout keeps logs, under the first second from now on that is free."""
    run, worker, second = _run(folder, card), workers.base(card.worker), folder.clock.now()
    if not fs.file_size(f"{run}/log"):
        return ""
    folder.make_place(folder.at(folder.layout.log_path(worker, second)))
    while True:
        path = folder.layout.log_path(worker, second)
        try:
            moved = fs.move_new(f"{run}/log", folder.at(path))
        except FileExistsError:
            second += 1.0
            continue
        with suppress(OSError):
            fs.remove_dir(run)
        return path if moved else ""


def read_log(folder: Folder, card: Card, start: int, size: int) -> tuple[bytes, int]:
    """Of the run that has it now, or of the last: a plain file where such files are, whatever a result says."""
    if card.state is State.CLAIMED:
        both = [f"{_run(folder, card)}/{name}" for name in ("log", "events")]
    else:
        place, _, name = last_log(card).rpartition("/")
        both = [folder.at(f"{place}/{name}")] if place == folder.layout.logs and name.endswith(".log") else []
    path = next((path for path in both if fs.file_size(path)), "")
    return (fs.piece(path, start, min(size, LARGEST_PIECE)), fs.file_size(path)) if path else (b"", 0)


def _kept(folder: Folder, task_id: str) -> dict[str, str]:
    """The digest of each file that is kept with a task, by its name."""
    names = (name.partition(".") for name in fs.names(folder.at(ids.path_of(ARTIFACTS, task_id))))
    return {name: digest for digest, _, name in names if len(digest) == DIGITS and ids.is_word(name)}


def keep_artifact(folder: Folder, task_id: str, name: str, data: bytes, sha256: str) -> None:
    """One file, whole; another of the same name goes once it is there."""
    known = artifacts(folder, task_id)
    check_artifact(name, data, sha256, known)
    place = folder.at(ids.path_of(ARTIFACTS, task_id))
    fs.make_dir(place)
    before = _kept(folder, task_id).get(name)
    if before != sha256:
        fs.replace(f"{place}/{sha256}.{name}", data, sync=folder.durable)
        if before is not None:
            fs.remove(f"{place}/{before}.{name}")


def artifacts(folder: Folder, task_id: str) -> list[Artifact]:
    """By their names in the task's own directory."""
    place = folder.at(ids.path_of(ARTIFACTS, task_id))
    found = sorted(_kept(folder, task_id).items())
    return [Artifact(name=name, size=fs.file_size(f"{place}/{digest}.{name}"), sha256=digest) for name, digest in found]


def read_artifact(folder: Folder, task_id: str, name: str) -> bytes:
    """Its bytes, if they are still those that were kept."""
    digest = _kept(folder, task_id).get(name)
    if digest is None:
        raise none_of(task_id, name)
    data, _ = fs.read(folder.at(f"{ids.path_of(ARTIFACTS, task_id)}/{digest}.{name}"), LARGEST_ARTIFACT)
    if hashlib.sha256(data).hexdigest() != digest:
        raise Invalid(f"the bytes of {name} are not those that were kept with {task_id}", id=task_id, name=name)
    return data


def forget_artifacts(folder: Folder, task_id: str) -> None:
    """Nothing is kept with this task any more."""
    place = folder.at(ids.path_of(ARTIFACTS, task_id))
    for name in fs.names(place):
        fs.remove(f"{place}/{name}")
    with suppress(OSError):
        fs.remove_dir(place)


def stale_runs(folder: Folder, before: float) -> Iterable[str]:
    """Logs of runs elsewhere that were never ended: their workers are gone. Each is removed once it is asked for."""
    runs = folder.at(workers.RUNS)
    for name in fs.names(runs):
        path = f"{runs}/{name}/log"
        with suppress(fs.NotADirectory):  # what a run put beside its directory is nobody's run
            found = fs.status(path)
            if found is not None and found.st_mtime < before and fs.names(f"{runs}/{name}") == ["log"]:
                yield path
