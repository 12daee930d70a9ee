"""Tasks go in: the row *put* of the protocol (see `pending`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from taskpit.errors import Conflict
from taskpit.layouts import Spot
from taskpit.model import Said, State, Task
from taskpit.store.plain import conflicts, paths
from taskpit.store.plain.changelog import CHANGE, DIGEST, digest
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.ids import by_hand
from taskpit.store.plain.paths import Part, part_of

#: So many tasks are put in one hold of the lock.
CHUNK = 64
#: Settings of a task that decide what is run for it and where its change goes: changelog lines have their digest.
SETTINGS = ("test_mode", "test_scope", "land", "onto", "review", "reviewers", "setup", "every", "race")


class Entrant(NamedTuple):
    """A task about to be put."""

    task: Task
    part: Part
    data: bytes
    line: bytes
    #: What is kept next to the task, for layouts whose programs drop fields; empty if nothing.
    beside: bytes


def settings_digest(task: Task) -> str:
    """Return a checksum of the check, landing and review settings of a task; empty if it has none."""
    chosen = {key: task.extra[key] for key in SETTINGS if key in task.extra}
    if not task.check and not chosen:
        return ""
    return digest(msgspec.json.encode([task.check, chosen], order="sorted", enc_hook=str)).partition("-")[2]


def marks(task: Task, data: bytes, nonce: str) -> dict[str, str]:
    """Return what a line of the changelog says of the bytes of a task."""
    return {DIGEST: digest(data), "settings": settings_digest(task), CHANGE: nonce}


def vet(folder: Folder, tasks: Sequence[Task]) -> list[tuple[Task, bytes]]:
    """Name and spell tasks. Invalid or TooLarge if one cannot be carried; nothing is changed."""
    named = [folder.layout.named(task) for task in tasks]
    return [(task, folder.spell(task)) for task in named]


def put(folder: Folder, spelt: Sequence[tuple[Task, bytes]]) -> list[Said]:
    """Put tasks with their bytes, as `vet` returned them; each is CREATED, EXISTS (the same wish) or CONFLICT."""
    said: list[Said] = []
    rest = iter(spelt)
    while chunk := list(islice(rest, CHUNK)):
        said += _put_chunk(folder, [_entrant(folder, task, data) for task, data in chunk])
    return said


def _entrant(folder: Folder, task: Task, data: bytes) -> Entrant:
    nonce = folder.nonce()
    part = part_of(folder.ready_name(task), nonce, "put", data)
    line = folder.line("added_task", task.id, task.by or "keeper", task.title, **marks(task, data, nonce))
    return Entrant(task, part, data, line, folder.layout.beside(task) if folder.layout.rewritten else b"")


def _put_chunk(folder: Folder, entrants: Sequence[Entrant]) -> list[Said]:
    pending, parts = folder.pending, [(one.part, one.data) for one in entrants]
    more = [(beside_part(one.part, one.beside), one.beside) for one in entrants if one.beside]
    parts = [*more, *parts]
    since = pending.clocks()
    pending.write(parts)
    with folder.lock.hold("put"):
        pending.write_missing(parts, since)
        admitted = {one.part for one in entrants if _admit(folder, one)}
        mine = [one for one in entrants if one.part in admitted]
        known = [one for one in entrants if one.part not in admitted]
        pending.remove(one.part for one in known)
        pending.remove(beside_part(one.part, one.beside) for one in known if one.beside)
        for one in known:
            _restore(folder, one.task.id)
        if not folder.durable and mine:
            folder.log.append(b"".join(one.line for one in mine))
            for one in mine:
                _show_one(folder, one)
    if folder.durable and mine:
        mine_too = {beside_part(one.part, one.beside) for one in mine if one.beside}
        pending.settle([row for row in parts if row[0] in admitted | mine_too])
        with folder.lock.hold("put"):
            _show(folder, mine)
    return [Said.CREATED if one.part in admitted else _compared(folder, one) for one in entrants]


def _admit(folder: Folder, entrant: Entrant) -> bool:
    """Take the id, unless another program has finished a task of this id before."""
    end = folder.foreign_end(entrant.task)
    if end is not None and folder.verdict(end.id) is None:
        conflicts.learn(folder, end)
    return folder.pending.admit(entrant.part)


def _show(folder: Folder, entrants: Sequence[Entrant]) -> None:
    here = [one for one in entrants if folder.files.stat(one.part.path) is not None]  # else completed by another
    if here:
        folder.log.append(b"".join(one.line for one in here))
    for one in here:
        _show_one(folder, one)


def _show_one(folder: Folder, entrant: Entrant) -> None:
    if entrant.beside:
        folder.pending.show_beside(beside_part(entrant.part, entrant.beside))
    folder.pending.show_put(entrant.part, logged=True)


def beside_part(part: Part, data: bytes) -> Part:
    """Name the part with what is kept next to the task of another part."""
    return part_of(part.name, part.nonce, "beside", data)


def _restore(folder: Folder, task_id: str) -> None:
    """Make a task ready again whose file was removed by hand: it is asked for once more."""
    opened = folder.files.stat(paths.open_path(task_id))
    if opened is None or opened.st_nlink > 1 or folder.claims_of(task_id) or folder.pending.is_pending(task_id):
        return
    original = folder.original(task_id)
    if original is not None:
        folder.files.link(paths.open_path(task_id), folder.layout.ready_path(folder.layout.named(original)))
        folder.tell("restored_task", task_id, details="its file was gone, and it was put again")


def _compared(folder: Folder, entrant: Entrant) -> Said:
    """Compare with what is there; that is on the disk before it is acknowledged once more."""
    task_id = entrant.task.id
    if folder.durable:
        for path in (paths.open_path(task_id), paths.ended_path(task_id)):
            folder.files.sync(path)
        folder.sync_dirs(paths.OPEN)
    known = folder.original(task_id)
    mine = folder.layout.load(Spot(state=State.READY, id=task_id, slug=entrant.task.slug), entrant.data)
    return Said.EXISTS if known is not None and known.wish() == mine.wish() else Said.CONFLICT


def make_known(folder: Folder, task: Task) -> None:
    """Register what another program has under the very name of a task. Conflict if it has the id in another way."""
    if folder.is_known(task.id) or task.id not in by_hand(folder):
        return
    with folder.lock.hold("put"):
        conflicts.settle(folder, folder.ready_name(task))
    if not folder.is_known(task.id):
        message = f"{task.id} exists already: another program has a file of this name"
        raise Conflict(message, hint="Choose another id.", id=task.id)
