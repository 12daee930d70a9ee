"""Ready files that are not plainly their task, and results that other programs wrote.

A ready file is its task if its inode is that of `open/<id>` and it has no third name. For everything else there is one
row here; the first that fits decides. A file of another program is left alone until it is two seconds old.

ready file                                       what happens to it
not a regular file, or not readable as a task    quarantined
other bytes under an mtime that we set           damaged: quarantined; the task is missing, its id known
empty                                            waits for its writer
its task has a result of another program         the result is learned, the file is quarantined
one more name of the claimed or pending file     that name is removed
one more name of another ready file              the later name is removed
unknown id                                       registered: a new task
id of a task that is claimed or pending          a copy: quarantined; under another name: gets the next id
the registered file is ready elsewhere           a copy: gets the next id
the registered file is nowhere                   saved by an editor: registered instead
id of a task that failed                         tried again
id of a task that is done                        quarantined; under another name: gets the next id
"""

from __future__ import annotations

import stat as modes
from contextlib import suppress
from typing import TYPE_CHECKING

from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.layouts.layout import NEVER, slugify
from taskpit.model import State, Task, Verdict
from taskpit.store.plain import paths
from taskpit.store.plain.changelog import DIGEST, digest
from taskpit.store.plain.files import Stat
from taskpit.store.plain.ids import allot
from taskpit.store.plain.paths import LARGEST_RESULT, SLACK, Token, part_of

if TYPE_CHECKING:
    from taskpit.store.plain.folder import Folder

#: Ends after which a file that is put back means that the task is wanted again.
FAILURES = (Verdict.FAILED, Verdict.CANCELLED)


def settle(folder: Folder, name: str) -> Stat | None:
    """Make a ready file its task, under the lock; its status then, or None if it may not be claimed (yet)."""
    path, spot = folder.ready_path(name), folder.ready_spot(name)
    here = folder.files.stat(path)
    if here is None:
        return None
    if spot is None:
        return _take_in(folder, name, here)
    if not modes.S_ISREG(here.st_mode):
        folder.set_aside(path, "it is not a regular file", here)
        return None
    opened = folder.files.stat(paths.open_path(spot.id))
    mine = opened is not None and opened.st_ino == here.st_ino
    if not here.st_size or (not mine and folder.is_young(here)):
        return None
    end = folder.foreign_end(spot)
    if end is not None and folder.verdict(spot.id) is None and not learn(folder, end):
        return None  # its writer may not be done yet
    if end is not None and folder.verdict(spot.id) is not None:
        return _finished(folder, spot, here)
    if opened is None:
        return _finished(folder, spot, here) if _is_ended(folder, spot.id) else _register(folder, spot, here)
    return _twin(folder, spot, here) if mine else _other(folder, spot, here, opened)


def _twin(folder: Folder, spot: Spot, here: Stat) -> Stat | None:
    """Take away this name of the registered file if it has another one that counts more."""
    with suppress(OSError, Invalid):
        data, read = folder.read(spot.path)
        if folder.is_damaged(spot, data, read):
            folder.set_aside(
                spot.path, f"the bytes of {spot.id} are damaged: they are not those that were written", here
            )
            return None
    if here.st_nlink == 2:
        return here
    tokens = [change.token.path for change in folder.pending.listing()[0]]
    others = [one.path for one in folder.claims_of(spot.id)] + tokens
    ready = [folder.ready_path(name) for name in _names_of(folder, spot.id)]
    for path in (*others, *sorted(one for one in ready if one < spot.path)):
        there = folder.files.stat(path)
        if there is not None and there.st_ino == here.st_ino:
            drop_name(folder, spot.path, here)
            return None
    return here


def _other(folder: Folder, spot: Spot, here: Stat, opened: Stat) -> Stat | None:
    """Another file than the registered one: a copy, or what an editor saved."""
    claims = folder.claims_of(spot.id)
    if claims or folder.pending.is_pending(spot.id):
        why = f"is claimed by {claims[0].worker}" if claims else "is just being finished or put back"
        return _copy(folder, spot, here, f"{spot.id} {why}")
    names = sorted(_names_of(folder, spot.id))
    for name in names:
        there = folder.files.stat(folder.ready_path(name))
        if there is not None and there.st_ino == opened.st_ino:
            return renumber(folder, spot, here, f"{spot.id} is {folder.ready_path(name)}")
    if folder.layout.slugged and len(names) > 1:  # of several the one of the registered name, else the first
        original = folder.original(spot.id)
        mine = folder.ready_name(folder.layout.named(original)) if original is not None else ""
        first = mine if mine in names else names[0]
        if folder.ready_path(first) != spot.path:
            settle(folder, first)
            return renumber(folder, spot, here, f"{spot.id} is {folder.ready_path(first)}")
    return _register(folder, spot, here, edited=True)


def _copy(folder: Folder, spot: Spot, here: Stat, why: str) -> Stat | None:
    if is_another_task(folder, spot):
        return renumber(folder, spot, here, why)
    folder.set_aside(spot.path, f"{why}; this is a copy that was saved later", here)
    return None


def _register(folder: Folder, spot: Spot, here: Stat, *, edited: bool = False) -> Stat | None:
    """Make this file the task's own. Its bytes are on the disk before they replace acknowledged ones."""
    try:
        data, read = folder.read(spot.path)
        folder.parse(spot, data)
    except FileNotFoundError:
        return None
    except Invalid as error:
        if folder.set_aside(spot.path, error.message, here) and edited:  # the version before comes back
            folder.files.link(paths.open_path(spot.id), spot.path)
        return None
    if read.st_ino != here.st_ino:
        return None  # replaced since; the next look sees the new one
    if folder.durable:
        folder.files.sync(spot.path)
    opened = paths.open_path(spot.id)
    name = f"{paths.PENDING}/{folder.nonce()}.edit" if edited else opened
    try:
        linked = folder.files.link(spot.path, name)
    except FileNotFoundError:
        linked = False
    now = folder.files.stat(name)
    if not linked or now is None or now.st_ino != here.st_ino:
        if edited:
            folder.files.remove(name)
        return None
    if edited:  # the id is never free: another process could put it again
        with suppress(FileNotFoundError):
            folder.files.link(opened, paths.ended_path(spot.id, "~put"))
        folder.files.replace(name, opened)
    details = "saved by another program" if edited else "found in the folder"
    folder.tell("edited_task" if edited else "added_task", spot.id, details=details, **{DIGEST: digest(data)})
    return now


def keep_wish(folder: Folder, task_id: str) -> None:
    """Free the name open/<id> for other bytes; how the task was put stays known."""
    opened = paths.open_path(task_id)
    with suppress(FileExistsError):
        folder.files.move(opened, paths.ended_path(task_id, "~put"))
    folder.files.remove(opened)


def _is_ended(folder: Folder, task_id: str) -> bool:
    return folder.files.stat(paths.ended_path(task_id)) is not None


def _finished(folder: Folder, spot: Spot, here: Stat) -> Stat | None:
    """Settle a ready file of a task that has ended."""
    verdict = folder.verdict(spot.id)
    ended = folder.files.stat(paths.ended_path(spot.id))
    tried_again = folder.in_place and verdict in FAILURES  # there the name is the state
    if ended is not None and ended.st_ino == here.st_ino and verdict is not None and not tried_again:
        _show_ended(folder, spot, verdict)
        drop_name(folder, spot.path, here)  # an old name that a power loss left, or `_done` renamed back
        return None
    if verdict is None:  # a death while a result was learned that was taken back since
        folder.keep_late(paths.ended_path(spot.id), spot.id, folder.nonce())
        return _register(folder, spot, here)
    if is_another_task(folder, spot):
        return renumber(folder, spot, here, f"{spot.id} is finished ({verdict})")
    # What a power loss brings back was not touched since the machine started; what a person put there was.
    if verdict in FAILURES and here.st_size and here.st_ctime > folder.clock.offset():
        return _toss(folder, spot, verdict)
    folder.set_aside(spot.path, f"{spot.id} is finished ({verdict}); this is a copy that was saved later", here)
    return None


def _show_ended(folder: Folder, spot: Spot, verdict: Verdict) -> None:
    """Give an ended task its visible name again, where it keeps one."""
    visible = folder.layout.ended_path(spot, verdict)
    if visible and folder.files.stat(visible) is None:
        folder.files.link(paths.ended_path(spot.id), visible)


def _toss(folder: Folder, spot: Spot, verdict: Verdict) -> Stat | None:
    """Try a failed task again that was put back by hand: its file, or the report of its failure."""
    kept = paths.ended_path(spot.id, f"~{verdict}")
    try:
        data, here = folder.files.read(spot.path, LARGEST_RESULT)
        failure = folder.files.read(kept, LARGEST_RESULT)[0]
        if data == failure:
            return _toss_failure(folder, spot, verdict, failure, here)
        folder.parse(spot, data)
    except (OSError, Invalid):
        return None
    token = Token(spot.path.rpartition("/")[2], folder.nonce(), f"tossed.{verdict}")
    if not folder.files.move(paths.ended_path(spot.id, f"~{verdict}"), token.path):
        return None
    folder.pending.complete(token, f"{spot.path} was put there again")
    return folder.files.stat(spot.path)


def _toss_failure(folder: Folder, spot: Spot, verdict: Verdict, failure: bytes, here: Stat) -> Stat | None:
    """Put the report back to where it was; the task in it is tried again with all its attempts."""
    report = Spot(state=verdict.state, id=spot.id, verdict=verdict)
    task = _ended_task(folder, spot.id) or folder.layout.load_result(report, failure)[1] or folder.original(spot.id)
    if task is None:
        return None
    task = task.replace(id=spot.id, slug=spot.slug, attempts=0, last_error="", hold="", not_before=0.0)
    place = folder.layout.result_path(task, verdict)
    if folder.files.stat(place) is not None or not move_judged(folder, spot.path, place, here):
        drop_name(folder, spot.path, here)
    nonce, data = folder.nonce(), folder.spell(task, SLACK)
    name = spot.path.rpartition("/")[2]
    part = part_of(name, nonce, "next", data)
    token = Token(name, nonce, f"reopen.{verdict}")
    folder.pending.write([(part, data)])
    if not folder.files.move(paths.ended_path(spot.id, f"~{verdict}"), token.path):
        folder.pending.remove([part])
        return None
    folder.pending.complete(token, f"{spot.path} was put there again", part)
    return folder.files.stat(spot.path)


def _ended_task(folder: Folder, task_id: str) -> Task | None:
    with suppress(OSError, Invalid):
        return folder.load(Spot(state=State.READY, id=task_id), paths.ended_path(task_id))
    return None


def renumber(folder: Folder, spot: Spot, here: Stat, why: str) -> Stat | None:
    """Another task whose writer could not know that its number is taken goes on under the next free one."""
    new = allot(folder, 1)[0]
    path = folder.layout.ready_path(Task(id=new, title="", slug=spot.slug))
    if not move_judged(folder, spot.path, path, here):
        return None
    folder.tell("renumbered_task", new, details=f"it was {spot.path}, but {why}")
    return _register(folder, Spot(state=State.READY, id=new, slug=spot.slug, path=path), here)


def push_aside(folder: Folder, name: str, there: Stat) -> None:
    """Free the name of a registered file that another one has."""
    spot = folder.ready_spot(name)
    if spot is not None and modes.S_ISREG(there.st_mode) and there.st_size and folder.layout.slugged:
        renumber(folder, spot, there, f"{spot.id} was put")
    else:
        folder.set_aside(folder.ready_path(name), "a task of this name was put", there)


def move_judged(folder: Folder, path: str, target: str, judged: Stat) -> bool:
    """Move this very file; another one that came in its place goes back. False if it was not moved."""
    try:
        if not folder.files.move(path, target):
            return False
        moved = folder.files.stat(target)
        if moved is None or moved.st_ino == judged.st_ino:
            return True
        folder.files.move(target, path)
    except FileExistsError:
        return False
    return False


def drop_name(folder: Folder, path: str, judged: Stat) -> None:
    """Remove one of several names of a file, unless another file has it by now."""
    scratch = f"{paths.PENDING}/{folder.nonce()}.twin"
    if move_judged(folder, path, scratch, judged):
        folder.files.remove(scratch)


def _names_of(folder: Folder, task_id: str) -> list[str]:
    if not folder.layout.slugged:
        return [folder.ready_name(Spot(state=State.READY, id=task_id))]
    spots = folder.spots(folder.layout.ready, State.READY)
    return [spot.path.rpartition("/")[2] for spot in spots if spot.id == task_id]


def is_another_task(folder: Folder, spot: Spot) -> bool:
    """Tell whether the task that has this number is called otherwise."""
    if not folder.layout.slugged or not spot.slug:
        return False
    known = folder.original(spot.id)
    return known is not None and bool(known.slug) and known.slug != spot.slug


def _take_in(folder: Folder, name: str, here: Stat) -> Stat | None:
    """Give a file that was dropped in under no task's name an id."""
    layout = folder.layout
    if not layout.takes_in or not name.endswith(layout.takes_in) or name.startswith(NEVER):
        return None
    if not modes.S_ISREG(here.st_mode) or not here.st_size or folder.is_young(here):
        return None
    new = Task(id=allot(folder, 1)[0], title="", slug=slugify(name[: -len(layout.takes_in)]))
    path = layout.ready_path(new)
    if not move_judged(folder, folder.ready_path(name), path, here):
        return None
    return _register(folder, Spot(state=State.READY, id=new.id, slug=new.slug, path=path), here)


# -- results of other programs -----------------------------------------------------------------------------------------


def learn(folder: Folder, spot: Spot, *, patient: bool = True) -> bool:
    """Know a task as ended by the entry that another program made. False if that is younger than two seconds, or gone.

    The task leaves open/ first: a result without an ended task would leave its id open.
    """
    verdict = spot.verdict or Verdict.DONE
    place = folder.layout.result_of(spot)
    result, entry = folder.files.stat(place), folder.files.stat(spot.path)
    seen = result if result is not None and modes.S_ISREG(result.st_mode) else entry
    if entry is None or seen is None or not modes.S_ISREG(seen.st_mode):
        return False
    if patient and folder.is_young(seen):
        return False
    if folder.durable:
        folder.files.sync(spot.path)
        if place != spot.path and result is not None:
            folder.files.sync(place)
        if not folder.ordered:
            folder.sync_dirs(*(path.rpartition("/")[0] for path in (spot.path, place)))
    ended = paths.ended_path(spot.id)
    if not folder.supersede(paths.open_path(spot.id), ended) and not _is_ended(folder, spot.id):
        with suppress(FileNotFoundError):
            folder.files.link(spot.path, ended)
    kept = paths.ended_path(spot.id, f"~{verdict}")
    data = _keep_result(folder, place if result is not None else "", kept)
    if data is None:
        return False
    action = "completed_task" if verdict is Verdict.DONE else "failed_task"
    more = {DIGEST: digest(data)} if data else {}
    folder.tell(action, spot.id, details=f"another program wrote {spot.path}", **more)
    return True


def _keep_result(folder: Folder, place: str, kept: str) -> bytes | None:
    """Give a foreign result its second name; where agents overwrite results in place, keep a copy."""
    try:
        data = folder.files.read(place, LARGEST_RESULT)[0] if place else b""
        if not place or folder.in_place:
            folder.files.create(kept, data, sync=folder.durable)
        else:
            folder.files.link(place, kept)
    except FileExistsError:
        return data
    except OSError:
        return None
    return data
