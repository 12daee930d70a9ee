"""The doctor: every invariant of the tree that a sweep does not see to by itself, each with its check and its cure.

A check looks and touches nothing; what it finds is a `Case`, with its cure where there is one. Cures need a person's
word: a sweep runs by itself while people and foreign tools work in the folder, so it leaves alone what somebody may
have meant: a task's file or a result that was taken away, a file with a strange name, rights that were changed. Here
somebody has asked. Each cure looks again before it acts, deletes no content, and is safe while workers live: a task
that is put back by mistake is a copy, which no claim takes while the task itself is anywhere else.
"""

from __future__ import annotations

import os
import stat
from functools import partial

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.held_directories import directory
from taskpit.ids import path_of
from taskpit.layouts import Spot
from taskpit.listing import entries
from taskpit.model import State, Value, Verdict
from taskpit.store import changelog, quick_check
from taskpit.store.folder import (
    BESIDE,
    CHANGELOG,
    ENDS,
    GUARDS,
    HIDDEN,
    IDS,
    LARGEST_RESULT,
    LATE,
    NOTES,
    OURS,
    OUTCOMES,
    QUARANTINE,
    SEALED,
    STOPS,
    TRIES,
    WORKERS,
    Folder,
    stub,
)
from taskpit.store.mend import mend
from taskpit.store.port import Mend
from taskpit.store.retention import archived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from taskpit.model import Task


#: Directories of our own with files in them, and the one that has directories.
OF_FILES = (IDS, SEALED, OUTCOMES, LATE, WORKERS, STOPS, NOTES, BESIDE, GUARDS)
OF_FOLDERS = (TRIES,)
#: Files of our own that no verb goes on without; each is made again when it is missing.
FILES = frozenset(
    ("changelog.log", "config.toml", "layout", "next", "paused", "sightings", "spend.log", "manifest.dirty")
)


#: The shortest retention that another program may have, in seconds.
DAY = 86400.0


class Case(Value, frozen=True, kw_only=True):
    """Something that is out of order, and what puts it right: a function that says what it did, if anything."""

    finding: Mend
    cure: Callable[[], str] | None = None


def examine(folder: Folder) -> list[Mend]:
    """What is out of order, most urgent first."""
    found = [case.finding for case in _places(folder)]
    if not found:
        found += [case.finding for case in _contents(folder)]
        due = mend(folder, dry_run=True)
        found += [Mend(kind="sweep will do", what=m.what, details=f"{m.kind}: {m.details}") for m in due]
        found += [*_quarantined(folder), *_late(folder)]
    return found


def fix(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """Put right what can be: what a sweep mends without pruning anything, and what needs a person's word."""
    done = [*_cured(_places(folder), dry_run=dry_run)]
    if done and dry_run:
        return done  # what lies there can be looked at once these are right
    done += mend(folder, dry_run=dry_run, prune=False)
    return [*done, *_cured(_contents(folder), dry_run=dry_run)]


def _cured(cases: Iterable[Case], *, dry_run: bool) -> Iterator[Mend]:
    for case in cases:
        told = "" if case.cure is None else case.finding.details if dry_run else case.cure()
        if told:
            yield case.finding.replace(details=told)


def _places(folder: Folder) -> Iterator[Case]:
    """Nothing else can be looked at while one of these is not as it should be."""
    yield from _own_files(folder)
    mine = os.geteuid()
    for name in (HIDDEN, *folder.layout.folders, folder.layout.tmp, *OURS):
        path = folder.at(name)
        status = fs.status(path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            details = "`pit doctor --fix` or `pit init` makes it again"
            if status is not None:
                details = "a link or a file stands in its place; `pit doctor --fix` sets that aside and makes it again"
            finding = Mend(kind="missing", what=name, details=details)
            yield Case(finding=finding, cure=partial(make_folder, folder, name))
            continue
        try:
            directory(path)
        except fs.Foreign as error:
            yield Case(finding=Mend(kind="foreign", what=name, details=str(error.strerror)))
            continue
        except PermissionError:
            pass  # told below
        if status.st_uid == mine and status.st_mode & 0o700 != 0o700:
            finding = Mend(kind="not writable", what=name, details="it is yours, but its permissions keep you out")
            yield Case(finding=finding, cure=partial(let_owner, folder, name, 0o700))
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            yield Case(finding=Mend(kind="not writable", what=name, details="check its owner and permissions"))


def _own_files(folder: Folder) -> Iterator[Case]:
    """Our own files that are something else: verbs would fail on them, one after the other."""
    for name in sorted(fs.names(folder.at(HIDDEN))):
        status = fs.status(folder.at(f"{HIDDEN}/{name}"))
        if status is None or stat.S_ISREG(status.st_mode):
            continue
        if not stat.S_ISDIR(status.st_mode) or name in FILES or name.endswith(".lock"):
            yield _foreign(folder, f"{HIDDEN}/{name}", "it is not a regular file", status)


def _contents(folder: Folder) -> Iterator[Case]:
    yield from _kept_out(folder)
    yield from _among_ours(folder)
    yield from _torn(folder)
    yield from _twice(folder)
    yield from _vanished(folder)
    yield from _unknown(folder)
    yield from _taken_away(folder)
    yield from _edited(folder)
    yield from _strangers(folder)
    yield from _being_written(folder)


def _foreign(folder: Folder, path: str, why: str, status: fs.Stat) -> Case:
    return Case(
        finding=Mend(kind="foreign", what=ascii(path)[1:-1], details=why),
        cure=partial(aside, folder, path, why, status),
    )


def _kept_out(folder: Folder) -> Iterator[Case]:
    """Files of our own that we may not read."""
    mine = os.geteuid()
    for name in dict.fromkeys((folder.layout.ready, folder.layout.claimed, IDS)):
        for file in sorted(entry.name for entry in entries(folder.at(name)) if _is_shut(entry, mine)):
            path = f"{name}/{file}"
            finding = Mend(kind="not readable", what=path, details="it is yours, but its permissions keep you out")
            yield Case(finding=finding, cure=partial(let_owner, folder, path, 0o600))


def _is_shut(entry: os.DirEntry[str], mine: int) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and not status.st_mode & 0o400 and status.st_uid == mine


def _among_ours(folder: Folder) -> Iterator[Case]:
    """Entries of our own directories that we never made."""
    for name in (*OF_FILES, *OF_FOLDERS):
        for file, why in sorted(_not_ours(folder, name)):
            status = fs.status(folder.at(f"{name}/{file}"))
            if status is not None:
                yield _foreign(folder, f"{name}/{file}", why, status)


def _not_ours(folder: Folder, name: str) -> Iterator[tuple[str, str]]:
    for entry in entries(folder.at(name)):
        is_ours = entry.is_dir(follow_symlinks=False) if name in OF_FOLDERS else entry.is_file(follow_symlinks=False)
        if not is_ours:
            yield entry.name, "nothing of ours is like this"
        elif not _is_called_like_ours(folder, name, entry.name):
            yield entry.name, "nothing of ours is called like this"


def _is_called_like_ours(folder: Folder, name: str, file: str) -> bool:
    try:
        if name == IDS:
            return folder.layout.check_id(file) == file
        if name == OUTCOMES:
            task_id, _, verdict = file.partition("~")
            return folder.layout.check_id(task_id) == task_id and verdict in tuple(Verdict)
        if name == SEALED:
            name, _, end = file.partition("~")
            known = file.count("~") == 2 and end.partition("~")[2].partition(".")[0] in ENDS
            return known and folder.layout.spot(folder.layout.ready, name) is not None
    except Invalid:
        return False
    return True


def _torn(folder: Folder) -> Iterator[Case]:
    if fs.tail(folder.at(CHANGELOG), 1) not in (b"", b"\n"):
        finding = Mend(kind="torn", what=CHANGELOG, details="its last line was cut off; the next one will end it")
        yield Case(finding=finding, cure=partial(end_line, folder))


def _twice(folder: Folder) -> Iterator[Case]:
    """Tasks in two places. Looked at twice: a task that just moved is not in two places."""
    suspects = quick_check.twice(folder)
    first = _standing(folder, suspects)
    again = _standing(folder, suspects)
    for task_id in sorted(suspects):
        places = sorted(again.get(task_id, set()) & first.get(task_id, set()))
        if len(places) > 1:
            finding = Mend(kind="in two places", what=task_id, details=", ".join(places))
            yield Case(finding=finding, cure=_cure_of_twins(folder, places))


def _cure_of_twins(folder: Folder, places: list[str]) -> Callable[[], str] | None:
    """Two names of one file: the ready one goes. Two files are a sweep's business, which knows which is the task."""
    ready = [path for path in places if path.startswith(f"{folder.layout.ready}/")]
    statuses = [fs.status(folder.at(path)) for path in places]
    inodes = {status.st_ino if status else 0 for status in statuses}
    if len(places) != 2 or len(inodes) != 1 or 0 in inodes or not ready:
        return None
    name = ready[-1]
    other = next(path for path in places if path != name)
    return partial(one_name, folder, name, other)


def _standing(folder: Folder, ids: Collection[str]) -> dict[str, set[str]]:
    """Where each of these tasks stands."""
    places: dict[str, set[str]] = {}
    for place, file, task_id in quick_check.standing(folder) if ids else ():
        if task_id in ids:
            for _, spot in folder.entries(place, among=(file,)):
                if isinstance(spot, Spot):
                    places.setdefault(spot.id, set()).add(spot.path)
    return places


def _vanished(folder: Folder) -> Iterator[Case]:
    """Tasks whose id is known and that are nowhere: somebody removed the file by hand, or a disk lost it."""
    missing = {name for name in quick_check.nowhere(folder) if _is_called_like_ours(folder, IDS, name)}
    if not missing:
        return
    missing &= quick_check.nowhere(folder)  # they may have moved while we looked: look once more, at everything
    waiting = {name.split("~", 1)[0] for name in fs.names(folder.at(folder.layout.tmp))}
    for task_id in sorted(missing - waiting):
        if folder.outcome(task_id) is None:
            details = f"its file is gone; what was asked for is in {path_of(IDS, task_id)}"
            finding = Mend(kind="vanished", what=task_id, details=details)
            yield Case(finding=finding, cure=partial(put_back, folder, task_id))


def _unknown(folder: Folder) -> Iterator[Case]:
    """Claimed and finished tasks that the registry does not know; a sweep registers ready ones."""
    known = {entry.name for entry in entries(folder.at(IDS))}
    claimed = ((spot.id, spot.path) for spot in folder.spots(folder.layout.claimed, State.CLAIMED))
    finished = ((task_id, f"{OUTCOMES}/{name}") for task_id, name, _ in quick_check.outcomes(folder))
    for task_id, path in sorted(one for found in (claimed, finished) for one in found if one[0] not in known):
        status = fs.status(folder.at(path))
        if status is None or not stat.S_ISREG(status.st_mode):
            continue  # its lease will end, and then it is set aside
        if _is_called_like_ours(folder, IDS, task_id):
            finding = Mend(kind="unregistered", what=task_id, details=f"{path} is there, but its id is not registered")
            yield Case(finding=finding, cure=partial(register, folder, task_id, path))


def _taken_away(folder: Folder) -> Iterator[Case]:
    """Finished tasks whose result is not in its place although we have it: somebody moved or removed it."""
    unseen = set(quick_check.out_of_sight(folder))
    unseen &= set(quick_check.out_of_sight(folder) if unseen else ())  # one that just ended is in sight by now
    shown = {spot.id: spot for spot in quick_check.unlike_outcomes(folder)} if unseen else {}
    away = archived(folder) if unseen else ()
    for task_id, name in sorted(unseen):
        path, said = f"{OUTCOMES}/{name}", name.partition("~")[2]
        status = fs.status(folder.at(path))
        if said not in tuple(Verdict) or status is None or not status.st_size or status.st_ino in away:
            continue  # an empty outcome: the result was pruned, or there never was one
        if folder.layout.prunes and folder.clock.now() - status.st_mtime >= DAY:
            continue  # another program's retention
        spot, verdict = shown.get(task_id), Verdict(said)
        lost = spot is None or not fs.exists(folder.at(folder.layout.result_of(spot)))
        whose = spot or Spot(state=verdict.state, id=task_id, verdict=verdict)
        if lost and _belongs_in_sight(folder, whose, verdict):
            finding = Mend(kind="result gone", what=task_id, details=f"it is kept in {path}")
            yield Case(finding=finding, cure=partial(show_result, folder, whose, verdict))


def _edited(folder: Folder) -> Iterator[Case]:
    """Published results that are not what was published. Another file in a result's place is put right by a sweep."""
    known = changelog.digests(folder.at(CHANGELOG))
    for task_id, name, _ in sorted(quick_check.outcomes(folder)):
        path, said = f"{OUTCOMES}/{name}", known.get(task_id, set())
        if said and _differs(folder, path, said):
            details = "its result is not what was published, and no other copy is kept"
            finding = Mend(kind="edited result", what=task_id, details=details)
            yield Case(finding=finding, cure=partial(accept_result, folder, task_id, path))


def _differs(folder: Folder, path: str, said: set[str]) -> bool:
    """Whether a file is there and is not what was said of it; an empty one was pruned."""
    status = fs.status(folder.at(path))
    if status is None or not status.st_size or not stat.S_ISREG(status.st_mode):
        return False
    if status.st_size > LARGEST_RESULT or not any(one.startswith(f"{status.st_size}-") for one in said):
        return True
    try:
        return changelog.digest(fs.read(folder.at(path), LARGEST_RESULT)[0]) not in said
    except OSError:
        return False  # told as what cannot be read


def _belongs_in_sight(folder: Folder, spot: Spot, verdict: Verdict) -> bool:
    """Whether such a result has a place that others read; failures may lie where people tidy up as they like."""
    place, best = (folder.layout.result_path(stub(spot), one).rpartition("/")[0] for one in (verdict, Verdict.DONE))
    return place in (best, *folder.layout.results)


def _strangers(folder: Folder) -> Iterator[Case]:
    """Files where tasks should be that are called like none."""
    for name in sorted(quick_check.strangers(folder)):
        path, why = f"{folder.layout.ready}/{name}", "it is not called like a task"
        status = fs.status(folder.at(path))
        if status is None:
            continue
        if folder.layout.is_others(name):
            told = "a name that we do not serve; it is left to the programs that do"
            yield Case(finding=Mend(kind="left alone", what=f"{folder.layout.ready}/{name!r}", details=told))
            continue
        finding = Mend(
            kind="stranger", what=f"{folder.layout.ready}/{name!r}", details=f"{why}, so no worker will take it"
        )
        yield Case(finding=finding, cure=partial(aside, folder, path, why, status))


def _being_written(folder: Folder) -> Iterator[Case]:
    """Ready files that are no tasks yet: their writers are at it, or went without filling them. Not what merely may be
    written, since it is young and another user's.
    """
    for spot in sorted(folder.spots(folder.layout.ready, State.READY), key=lambda spot: spot.path):
        path = folder.at(spot.path)
        here = fs.status(path)
        why = folder.unfinished(path, here) if here is not None else ""
        if here is not None and why and (not here.st_size or folder.writing.has_writer(path)):
            yield Case(finding=Mend(kind="being written", what=spot.path, details=why))


def _quarantined(folder: Folder) -> Iterator[Mend]:
    for name in sorted(fs.names(folder.at(QUARANTINE))):
        if name.endswith(".reason"):
            continue
        try:
            reason = fs.read(folder.at(f"{QUARANTINE}/{name}.reason"), 65536)[0].decode("utf-8", "replace").strip()
        except OSError:
            reason = "no reason was written"
        yield Mend(kind="quarantined", what=f"{QUARANTINE}/{name}", details=reason)


def _late(folder: Folder) -> Iterator[Mend]:
    for name in sorted(fs.names(folder.at(LATE))):
        details = "not published; kept to be read"
        yield Mend(kind="late result", what=f"{LATE}/{name}", details=details)


def make_folder(folder: Folder, name: str) -> str:
    """The directory is there; what stood in its place is set aside."""
    there = fs.status(folder.at(name))
    where = aside(folder, name, "a directory of the queue belongs here", there) if there else ""
    fs.make_dir(folder.at(name))
    return f"made again; {where}" if where else "made again"


def aside(folder: Folder, relative: str, reason: str, judged: fs.Stat) -> str:
    """It lies in quarantine with its reason."""
    there = fs.status(folder.at(QUARANTINE))
    if there is not None and not stat.S_ISDIR(there.st_mode):
        fs.move(folder.at(QUARANTINE), folder.at(f"{QUARANTINE}~{fs.fresh_name()}"))
    fs.make_dir(folder.at(QUARANTINE))
    where = folder.set_aside(relative, reason, judged)
    return f"{reason}; now {where}" if where else ""


def let_owner(folder: Folder, name: str, rights: int) -> str:
    """Its owner, who is us, may do this with it."""
    status = fs.status(folder.at(name))
    if status is None or stat.S_ISLNK(status.st_mode):
        return ""
    fs.set_mode(folder.at(name), stat.S_IMODE(status.st_mode) | rights)
    return "you may use it again"


def end_line(folder: Folder) -> str:
    """What a killed writer left torn is a line of its own; nothing is taken away."""
    fs.append(folder.at(CHANGELOG), b"")
    return "the torn line was ended; readers pass over it"


def put_back(folder: Folder, task_id: str) -> str:
    """A task that is nowhere is ready again, as it was asked for. A copy: see above."""
    entry = path_of(IDS, task_id)
    task, status = folder.original(task_id), fs.status(folder.at(entry))
    if status is None:
        return ""
    if task is None:
        return aside(folder, entry, "what was asked for cannot be read", status)
    copy = folder.tmp(task_id, fs.fresh_name(), "again")
    ready = folder.layout.ready_path(folder.layout.named(task))
    fs.create(copy, task.source, sync=folder.durable)
    try:
        fs.move_new(copy, folder.at(ready))
    except FileExistsError:
        fs.remove(copy)
        return ""
    folder.sync(folder.layout.ready)
    folder.tell("restored_task", task_id, details="its file was gone")
    return f"put back as {ready}, as it was asked for; `pit cancel {task_id}` if it was meant to be removed"


def register(folder: Folder, task_id: str, source: str) -> str:
    """Its id is known again, so that nobody puts another task under it."""
    entry = folder.of(IDS, task_id)
    try:
        if not folder.layout.rewritten:
            return f"registered again by {source}" if fs.link(folder.at(source), entry) else ""
        # Others write into the file itself: what it is now is kept in a file of its own.
        copy = folder.tmp(task_id, fs.fresh_name(), "id")
        fs.create(copy, fs.read(folder.at(source), folder.config.largest_task)[0], sync=folder.durable)
        known = fs.link(copy, entry)
        fs.remove(copy)
    except (FileNotFoundError, fs.NotAFile, fs.TooBig):
        return ""  # it has moved on, or is nothing a task can be known by
    return f"registered again by {source}" if known else ""


def accept_result(folder: Folder, task_id: str, path: str) -> str:
    """A person has looked at a result that was edited: as it stands it is the result."""
    try:
        data = fs.read(folder.at(path), LARGEST_RESULT)[0]
    except OSError:
        return ""
    details = "it was edited after it was published"
    folder.log(folder.line("accepted_result", task_id, details=details, digest=changelog.digest(data)))
    return "accepted as it stands"


def show_result(folder: Folder, spot: Spot, verdict: Verdict) -> str:
    """The result stands in its place again: another name of the outcome we kept."""
    task = folder.original(spot.id) or _task_in_result(folder, spot, verdict) or stub(spot)
    place = folder.layout.result_path(task, verdict)
    try:
        linked = fs.link(folder.outcome_path(spot.id, verdict), folder.at(place))
    except FileNotFoundError:
        return ""  # it was reopened
    ended = folder.layout.ended_path(task, verdict)
    if ended and not fs.exists(folder.at(ended)):
        copy = folder.tmp(spot.id, fs.fresh_name(), "again")
        fs.create(copy, task.source, sync=folder.durable)
        fs.move(copy, folder.at(ended))
    elif not linked:
        return ""
    folder.sync(place.rpartition("/")[0])
    return f"{place} stands there again"


def _task_in_result(folder: Folder, spot: Spot, verdict: Verdict) -> Task | None:
    try:
        data, _ = fs.read(folder.outcome_path(spot.id, verdict), LARGEST_RESULT)
        return folder.layout.load_result(spot, data)[1]
    except (OSError, Invalid):
        return None


def one_name(folder: Folder, name: str, other: str) -> str:
    """Of two names of one file this one goes aside, if the other is still there after that."""
    judged = fs.status(folder.at(name))
    if judged is None or not _is(folder, other, judged):
        return ""
    where = folder.set_aside(name, f"it is the same file as {other}", judged)
    if where and not _is(folder, other, judged):
        fs.move_new(folder.at(where), folder.at(name))  # it was one file on its way after all
        return ""
    return f"the same file as {other}; this name of it is now {where}" if where else ""


def _is(folder: Folder, name: str, judged: fs.Stat) -> bool:
    status = fs.status(folder.at(name))
    return status is not None and status.st_ino == judged.st_ino
