"""Row *put* of the commit table, from top to bottom, for one or many; and its last step by itself.

    write     tmp/<id>~<nonce>.<digest>~put~<name>
    decide    link to ids/<id>
    settle    one fsync: bytes, tmp and ids; nothing is visible yet
    tell      one line of the log, with the row of the catalogue
    enter     rename, never replacing, to the ready name

Where the filesystem does not keep the order of names (`Folder.syncs_once`), the bytes and their name in tmp are on the
disk before the id is taken, and the id and the ready name before the answer.
"""

from __future__ import annotations

from taskpit import fs
from taskpit.decode import convert, read_json
from taskpit.errors import Invalid
from taskpit.ids import name_of
from taskpit.layouts import Spot
from taskpit.model import SPLIT_FROM, Said, State, Task, Text, Value
from taskpit.store import changelog
from taskpit.store.changelog import with_row
from taskpit.store.folder import IDS, LARGEST_RESULT, SEALED, Folder, part_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    #: A task with its bytes, and the line that tells of it.
    Entrant = tuple[Task, bytes, bytes]
    #: What its bytes are called in tmp, what was asked for is (the same file in most layouts), and where it shall go.
    Draft = tuple[str, str, str]

#: A list of parts is ours, but nobody may make us read without end.
LARGEST_LIST = 1 << 28


def admit(folder: Folder, entrants: Sequence[Entrant]) -> list[Said]:
    """For each: CREATED, or EXISTS: the id is known. Many share what they wait for, each step for all of them.

    Where the disk refuses one, those before it are in.
    """
    tmp, ids, place = folder.hold(folder.of_put)
    drafts, trouble = _write(folder, entrants, tmp)
    said: list[Said] = []
    known: list[tuple[Entrant, Draft]] = []
    try:
        for entrant, draft in zip(entrants, drafts, strict=False):  # as many as the disk took
            task_id = entrant[0].id  # of which the draft's name was made: it is one
            if not fs.link_at(tmp, draft[1], ids, task_id) and not (
                clear_torn(folder, task_id) and fs.link_at(tmp, draft[1], ids, task_id)
            ):
                said.append(Said.EXISTS)
                continue
            said.append(Said.CREATED)
            known.append((entrant, draft))
    except OSError as error:
        trouble = error.with_traceback(None)  # which would keep the directory open that refused
    if folder.durable and folder.syncs_once:
        _settle(folder, known)
    if known:
        _bring_in(folder, known, tmp, place)
    if trouble is not None or len(known) < len(drafts) or folder.layout.rewritten:
        _clear_up(folder, drafts, said)
    if trouble is not None:
        raise trouble
    return said


def _clear_up(folder: Folder, drafts: Sequence[Draft], said: Sequence[Said]) -> None:
    """What is no longer needed of these is gone."""
    tmp = folder.dir(folder.layout.tmp)
    for number, (draft, original, _) in enumerate(drafts):
        if number == len(said):
            continue  # its link was refused, and nobody knows whether it was made: left for the keeper
        if number > len(said) or said[number] is not Said.CREATED:
            fs.remove_at(tmp, draft)
        if original != draft:
            fs.remove_at(tmp, original)


class Part(Value, frozen=True, kw_only=True):
    """A child as it is written beside a seal, before it enters."""

    id: Text
    slug: Text
    by: Text
    text: Text


def admit_parts(folder: Folder, path: str, parent: str) -> str:
    """The children that were written to this file when their parent's claim ended are in, each once.

    Where one of them cannot be read none enters: why.
    """
    try:
        children = read_json(fs.read(path, LARGEST_LIST)[0])
        tasks = [_child(folder, convert(child, Part)) for child in children]
    except FileNotFoundError:
        return ""  # another roller has done it and gone on
    except (ValueError, TypeError, Invalid) as error:
        return f"it is no list of parts: {error}"
    for task, by in tasks:
        line = folder.line("added_task", task.id, by or "keeper", f"{SPLIT_FROM}{parent}")
        admit(folder, [(task, task.source, line)])
    return ""


def _child(folder: Folder, part: Part) -> tuple[Task, str]:
    """A child with its bytes, and who asked for it; Invalid if it can be none."""
    named = Task(id=folder.layout.check_id(part.id), title="", slug=part.slug)
    spot = Spot(state=State.READY, id=part.id, slug=part.slug, path=folder.layout.ready_path(named))
    data = part.text.encode("utf-8", "replace")
    return folder.layout.load(spot, data).replace(source=data), part.by


def _write(folder: Folder, entrants: Sequence[Entrant], tmp: fs.Dir) -> tuple[list[Draft], OSError | None]:
    """The bytes of these lie in the temporary directory; of those before the one the disk refuses.

    The name a file will have stands in the temporary one, so that anybody can carry on after the commit, and the
    digest of its bytes, so that nobody does with half of them.
    """
    layout, early = folder.layout, folder.durable and not folder.syncs_once
    together = early and folder.syncs_together(len(entrants))
    sync = early and not together
    drafts: list[Draft] = []
    trouble = None
    try:
        for task, data, _ in entrants:
            ready, nonce = layout.ready_path(task), f"{fs.fresh_name()}.{changelog.digest(data)}"
            draft = original = name_of(task.id, f"~{nonce}~put~{ready.rpartition('/')[2]}")
            if layout.rewritten:  # others write into the ready file: what was asked for gets a file of its own
                original = part_name(task.id, nonce, "id")  # first: without it the other may be cleared up
                folder.write(original, data, sync=sync, tmp=tmp)
            folder.write(draft, data, sync=sync, tmp=tmp)
            drafts.append((draft, original, ready))
    except OSError as error:
        trouble = error.with_traceback(None)  # which would keep the directory open that refused
    if drafts and early:  # an id that is known must not belong to a file that is not there
        folder.settle(layout.tmp, together=together)
    return drafts, trouble


def _settle(folder: Folder, known: Sequence[tuple[Entrant, Draft]]) -> None:
    """Bytes and ids of these are on the disk. What the disk refuses was never there: it is written anew, if at all."""
    tmp = folder.at(folder.layout.tmp)
    try:
        if folder.syncs_together(len(known)):
            fs.sync_all(folder.at(IDS))
            return
        for _, (draft, original, _) in known:
            fs.sync_path(f"{tmp}/{draft}")
            if original != draft:
                fs.sync_path(f"{tmp}/{original}")
    except OSError:
        for (task, _, _), (draft, original, _) in known:
            if fs.remove(f"{tmp}/{draft}"):  # else it was rolled forward
                fs.remove(folder.of(IDS, task.id))
                fs.remove(f"{tmp}/{original}")
        raise


def _bring_in(folder: Folder, known: Sequence[tuple[Entrant, Draft]], tmp: fs.Dir, place: fs.Dir) -> None:
    """The ids of these are known: their files enter, once the log tells of them; nobody comes back for that."""
    lines = []
    for (task, _, line), (draft, _, ready) in known:
        status = fs.status_at(tmp, draft)
        lines.append(with_row(line, task, ready.rpartition("/")[2], status) if status is not None else line)
    folder.log(b"".join(lines))
    for (task, _, _), (draft, _, ready) in known:
        try:
            entered = fs.move_new_at(tmp, draft, place, ready.rpartition("/")[2])
        except FileExistsError:
            entered = False
        if not entered:
            enter(folder, task.id, fs.path_in(tmp, draft), ready)
    if folder.durable and not folder.syncs_once:
        folder.sync(IDS, folder.layout.ready)  # together: one journal settles both at once


def clear_torn(folder: Folder, task_id: str, *, act: bool = True) -> bool:
    """Whether a power loss took bytes of a task whose put was never acknowledged, nor seen by anybody: it is gone."""
    known, tmp, torn = fs.status(folder.of(IDS, task_id)), folder.layout.tmp, False
    for name in fs.names(folder.at(tmp)) if known is not None else ():
        words = name.split("~", 3)
        if words[0] != task_id or words[2:3] != ["put"]:
            continue
        put = folder.at(f"{tmp}/{name}")
        original = folder.tmp(task_id, words[1], "id") if folder.layout.rewritten else put
        here = fs.status(original)
        if known is None or here is None or here.st_ino != known.st_ino:
            continue
        if is_torn(put, words[1]) or is_torn(original, words[1]):
            torn = True
            if act:
                fs.remove(folder.of(IDS, task_id))
                fs.remove(put)
                fs.remove(original)
    return torn


def is_torn(path: str, nonce: str) -> bool:
    """Whether the file has not the bytes that its nonce says it has, if it says so: a power loss took some or all."""
    said = nonce.partition(".")[2]
    try:
        return bool(said) and changelog.digest(fs.read(path, LARGEST_RESULT)[0]) != said
    except OSError:
        return False  # gone, or not to be read: nobody can tell


def enter(folder: Folder, task_id: str, source: str, ready: str) -> bool:
    """The file is ready under this name; what stood there without right is set aside. False if it was gone.

    A rename of a name only this verb knows, never a second link: a stalled putter whose task somebody
    rolled forward and finished must not bring it back to life.
    """
    target = f"{folder.root}/{ready}"
    while True:
        try:
            if fs.move_new(source, target):
                return True
            if not folder.make_place(target):
                return False
        except FileExistsError:
            if not _make_way(folder, task_id, source, ready):
                return False


def _make_way(folder: Folder, task_id: str, source: str, ready: str) -> bool:
    """What stands at the ready name without right is set aside; False if the task has left `source`."""
    from taskpit.store.network_stat import fresh_status, has_twin

    target = f"{folder.root}/{ready}"
    ours = fresh_status(source) if _is_listed(source) else None
    if ours is None:
        return False  # another carried the verb on
    fs.look_anew(target.rpartition("/")[0])
    there = fresh_status(target)
    if there is None:
        return True
    if ours.st_ino == there.st_ino:
        if has_twin(ours, fs.status(folder.of(IDS, task_id))):
            fs.remove(source)  # a power loss left both names
        return False  # else we are still shown where it was: the next sweep takes it further
    since = _attempts_since(folder, source, ready)
    if since > 0:
        folder.set_aside(source[len(folder.root) + 1 :], "its end was carried out; a power loss brought its name back")
        return False
    known = fs.status(folder.of(IDS, task_id))
    before = since < 0 or (known is not None and known.st_ino == there.st_ino)
    folder.set_aside(
        ready,
        "it is the task before its last claim: a power loss left it in two places"
        if before
        else "the task of this id was put back at this place",
        step=lambda path, aside: _moved_rightly(folder, task_id, (source, ours), path, aside),
    )
    return True


def _moved_rightly(folder: Folder, task_id: str, token: tuple[str, fs.Stat], path: str, aside: str) -> bool:
    """Away with it. If the task has left its place meanwhile, it may be the task itself: back with it, and False."""
    source, ours = token
    if not fs.move(path, aside):
        return False
    if _is_listed(source):
        return True
    moved = fs.status(aside)
    if moved is not None and moved.st_ino == ours.st_ino:
        return not enter(folder, task_id, aside, path[len(folder.root) + 1 :])
    try:
        return not fs.move_new(aside, path)
    except FileExistsError:
        return True


def _is_listed(path: str) -> bool:
    """Whether the name is there: a listing also knows on a network what has left."""
    place, _, name = path.rpartition("/")
    return name in fs.names(place)


def _attempts_since(folder: Folder, sealed: str, ready: str) -> int:
    """How many attempts a ready file has seen that a sealed one has not: a power loss brought one of them back."""
    spot = folder.sealed_spot(sealed.rpartition("/")[2]) if f"/{SEALED}/" in sealed else None
    if spot is None or folder.layout.rewritten:  # there the bytes do not tell
        return 0
    try:
        return folder.load(spot, folder.at(ready)).attempts - folder.load(spot, sealed).attempts
    except (OSError, Invalid):
        return 0
