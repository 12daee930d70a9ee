"""What is kept with a task: notes, what runs print, and files they leave."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from taskpit import workers
from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.ids import is_word, path_of
from taskpit.model import Card, State
from taskpit.store.plain import paths
from taskpit.store.plain.folder import Folder
from taskpit.store.port import Artifact
from taskpit.store.run_files import (
    DIGITS,
    LARGEST_ARTIFACT,
    LARGEST_PIECE,
    check_artifact,
    check_piece,
    last_log,
    none_of,
)
from taskpit.text import one_line


def note(folder: Folder, task_id: str, text: str, worker: str) -> None:
    """Append a note for people to a task."""
    path = path_of(paths.NOTES, folder.layout.check_id(task_id), ".md")
    line = f"- {iso(folder.clock.now())} {one_line(worker)}: {text.rstrip()}\n"
    folder.make_place(path)
    folder.files.append(path, line.encode("utf-8", "replace"))
    folder.tell("noted", task_id, worker, text)


# -- logs --------------------------------------------------------------------------------------------------------------


def keep_log(folder: Folder, worker: str, data: bytes) -> str:
    """Keep a working log where the layout has them, under the first second from now on that is free."""
    folder.layout.check_worker(worker)
    second = folder.clock.now()
    while True:
        path = folder.layout.log_path(worker, second)
        folder.make_place(path)
        try:
            folder.files.create(path, data)
        except FileExistsError:
            second += 1.0
        else:
            return path


def _run(card: Card) -> str:
    return workers.run_path(workers.RUNS, card.task.id, card.task.attempts + 1, card.worker)


def add_log(folder: Folder, card: Card, start: int, data: bytes) -> int:
    """Add a piece of what a run prints; a piece that would leave a gap is not taken. How long the log is now."""
    check_piece(start, data)
    path = f"{_run(card)}/log"
    folder.make_place(path)
    with folder.lock.hold("log"):  # a piece that is sent again may come while the first is written
        size = folder.files.piece(path, 0, 0)[1]
        if start == 0 and not data:
            folder.files.write_at(path, 0, b"", cut=True)
        elif start <= size < start + len(data):
            folder.files.write_at(path, size, data[size - start :])
        return folder.files.piece(path, 0, 0)[1]


def end_log(folder: Folder, card: Card) -> str:
    """Move the log to where the layout has them; where it is, empty if there was none."""
    run, worker, second = _run(card), workers.base(card.worker), folder.clock.now()
    if not folder.files.piece(f"{run}/log", 0, 0)[1]:
        return ""
    while True:
        path = folder.layout.log_path(worker, second)
        folder.make_place(path)
        try:
            moved = folder.files.move(f"{run}/log", path)
        except FileExistsError:
            second += 1.0
            continue
        with suppress(OSError):
            folder.files.remove_dir(run)
        return path if moved else ""


def read_log(folder: Folder, card: Card, start: int, size: int) -> tuple[bytes, int]:
    """Read what the task's run prints, or its last one printed: only where such files are, whatever a result says."""
    if card.state is State.CLAIMED:
        candidates = [f"{_run(card)}/{name}" for name in ("log", "events")]
    else:
        place, _, name = last_log(card).rpartition("/")
        candidates = [f"{place}/{name}"] if place == folder.layout.logs and name.endswith(".log") else []
    for path in candidates:
        with suppress(OSError):
            data, total = folder.files.piece(path, start, min(size, LARGEST_PIECE))
            if total:
                return data, total
    return b"", 0


# -- files that are kept -----------------------------------------------------------------------------------------------


def _place(task_id: str) -> str:
    return path_of(paths.NOTES, task_id, "~files")


def _kept(folder: Folder, task_id: str) -> dict[str, str]:
    """Return the digest of each file by its name: a file is called `<digest>.<name>`."""
    names = (name.partition(".") for name in folder.files.names(_place(task_id)))
    return {name: digest for digest, _, name in names if len(digest) == DIGITS and is_word(name)}


def keep_artifact(folder: Folder, task_id: str, name: str, data: bytes, sha256: str) -> None:
    """Keep one file, whole; another of the same name goes once it is there."""
    check_artifact(name, data, sha256, artifacts(folder, task_id))
    place = _place(task_id)
    folder.make_place(f"{place}/{name}")
    before = _kept(folder, task_id).get(name)
    if before != sha256:
        scratch = f"{place}/~{folder.nonce()}"
        folder.files.create(scratch, data, sync=folder.durable)
        folder.files.replace(scratch, f"{place}/{sha256}.{name}")
        if before is not None:
            folder.files.remove(f"{place}/{before}.{name}")


def artifacts(folder: Folder, task_id: str) -> list[Artifact]:
    """List the files that are kept with a task, by name."""
    found = []
    for name, digest in sorted(_kept(folder, task_id).items()):
        size = folder.files.piece(f"{_place(task_id)}/{digest}.{name}", 0, 0)[1]
        found.append(Artifact(name=name, size=size, sha256=digest))
    return found


def read_artifact(folder: Folder, task_id: str, name: str) -> bytes:
    """Read one of them. NotFound if there is none; Invalid if its bytes are not those that were kept."""
    digest = _kept(folder, task_id).get(name)
    if digest is None:
        raise none_of(task_id, name)
    data, _ = folder.files.read(f"{_place(task_id)}/{digest}.{name}", LARGEST_ARTIFACT)
    if hashlib.sha256(data).hexdigest() != digest:
        raise damaged(task_id, name)
    return data


def damaged(task_id: str, name: str) -> Invalid:
    """Say that a kept file is not what was kept."""
    return Invalid(f"the bytes of {name} are not those that were kept with {task_id}", id=task_id, name=name)


def forget_artifacts(folder: Folder, task_id: str) -> None:
    """Keep no file with this task any more."""
    place = _place(task_id)
    for name in folder.files.names(place):
        folder.files.remove(f"{place}/{name}")
    with suppress(OSError):
        folder.files.remove_dir(place)
