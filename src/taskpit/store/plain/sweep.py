"""The invariants of a queue's folder: what is seen, what it means, what cures it.

A sweep cures what a crash or another program in good faith left; it runs by itself while people work in the folder, so
it leaves alone what a person may have meant. `fix` cures that, too: a person has asked. Each cure looks again under the
lock, deletes no content, and is safe while workers live.

seen                                           meaning                             cure
a token, or a decided put, in pending/         its process died                    completed                      sweep
a part older than an hour without a token      its process died before deciding    removed                        sweep
a ready file that is not plainly its task      see `conflicts`                     settled there                  sweep
an entry that says a task has ended            another program finished it         learned                        sweep
~done where another file is visible            another program replaced it         theirs late, ours back         sweep
a claimed file of a task that has ended        it need not run any more           quarantined                    sweep
a claimed file of an unknown id                made and claimed by hand            registered                     sweep
a result, and open/<id>                        power loss between two names        open/ to ended/                sweep
ended/<id> without a result                    death while a result was learned    back to open/                  sweep
ended/<id>~put without open/<id>, ended/<id>   death while bytes were replaced     the task as it was put         sweep
open/<id>~stop ~beside of a task that ended    there is no worker to ask any more  removed                        sweep
a folder is missing or is something else       removed by hand                     made again                     fix
open/<id> with no other name                   its file was removed by hand        linked to its ready name       fix
a result that is not visible                   removed by hand                     linked to its name again       fix
a torn last line of the changelog              a writer was killed                 ended                          fix
a name among the ready ones that is no task's  put there by hand                   quarantined                    fix
other bytes than the changelog has a sum of    edited in place, or damaged         reported
quarantined files, late results                kept for people                     reported
"""

from __future__ import annotations

import stat as modes
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from taskpit.errors import Invalid
from taskpit.ids import is_word
from taskpit.layouts import Spot
from taskpit.layouts.layout import NEVER
from taskpit.model import State, Task, Verdict
from taskpit.store.plain import conflicts, paths
from taskpit.store.plain.changelog import DIGEST, decode, digest
from taskpit.store.plain.files import Stat
from taskpit.store.plain.folder import Folder, Unreadable
from taskpit.store.plain.ids import allot
from taskpit.store.plain.paths import LARGEST_RESULT, Part
from taskpit.store.port import Mend

#: Bytes that are kept free for ending a task on a full disk.
RESERVE = 64 * 1024
#: Results older than this may be pruned by another program's own retention, in seconds.
DAY = 86400.0

#: What the changelog calls ends with a result.
FINAL = ("completed_task", "failed_task", "cancelled_task", "split_task")

Cure = Callable[[], str | None]


class Case(NamedTuple):
    """One thing out of order. The cure returns what it did, or None if there was nothing to do any more."""

    kind: str
    what: str
    details: str
    cure: Cure | None = None


def sweep(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """Cure what a crash or another program left. Refused before anything is done if a folder is a link."""
    for name in (*folder.layout.folders, *paths.FOLDERS):
        folder.files.stat(f"{name}/x")
    found = [mend for case in _Survey(folder).automatic() if (mend := _cured(folder, case, dry_run=dry_run))]
    if not dry_run:
        _drop_marks(folder)
        _keep_reserve(folder)
    return found


def fix(folder: Folder, *, dry_run: bool) -> list[Mend]:
    """Cure everything that can be cured."""
    survey = _Survey(folder)
    found = [mend for case in survey.places() if (mend := _cured(folder, case, dry_run=dry_run))]
    for cases in (survey.automatic(), survey.by_hand()):
        found += [mend for case in cases if case.cure and (mend := _cured(folder, case, dry_run=dry_run))]
    return found


def check(folder: Folder) -> list[Mend]:
    """Report what is out of order."""
    survey = _Survey(folder)
    found = [Mend(kind=case.kind, what=case.what, details=case.details) for case in survey.places()]
    if found:
        return found  # nothing else can be looked at before
    due = (Mend(kind="sweep will do", what=c.what, details=f"{c.kind}: {c.details}") for c in survey.automatic())
    others = (Mend(kind=c.kind, what=c.what, details=c.details) for c in (*survey.by_hand(), *survey.kept()))
    return [*due, *others]


def _cured(folder: Folder, case: Case, *, dry_run: bool) -> Mend | None:
    if dry_run or case.cure is None:
        return Mend(kind=case.kind, what=case.what, details=case.details)
    with folder.lock.hold("sweep"):
        said = case.cure()
    return None if said is None else Mend(kind=case.kind, what=case.what, details=said or case.details)


def _drop_marks(folder: Folder) -> None:
    """Remove what was kept next to an open task that has ended since: nothing reads it any more."""
    marked = [name for name in folder.files.names(paths.OPEN) if "~" in name]
    if not marked:
        return
    with folder.lock.hold("sweep"):
        for name in marked:
            task_id = name.partition("~")[0]
            ended = is_word(task_id) and folder.files.stat(paths.open_path(task_id)) is None
            if ended and folder.verdict(task_id) is not None:
                folder.files.remove(f"{paths.OPEN}/{name}")


def _keep_reserve(folder: Folder) -> None:
    if folder.files.stat(paths.RESERVE) is None:
        with suppress(OSError):
            folder.files.create(paths.RESERVE, bytes(RESERVE))


def spoilt(folder: Folder, spot: Spot, reason: str) -> Task | None:
    """Set a claimed file aside that cannot be read; return the task as it was put where only its copy is spoilt."""
    original = folder.original(spot.id) if folder.layout.guarded else None
    with folder.lock.hold("sweep"):
        if original is None:
            folder.set_aside(spot.path, reason, folder.files.stat(spot.path))
        else:
            folder.copy_aside(spot.path, reason)
    return original


class _Survey:
    """One look at the whole folder, by listings; a cure looks again at its own names."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files = folder.files

    # -- what a sweep cures ------------------------------------------------------------------------------------------

    def automatic(self) -> Iterator[Case]:
        """Yield what a crash or another program left."""
        yield from self._pending()
        yield from self._ended()
        yield from self._results()
        yield from self._claimed()
        yield from self._ready()

    def _pending(self) -> Iterator[Case]:
        folder, pending = self._folder, self._folder.pending
        changes, parts = pending.listing()
        opened = {entry.name: entry.inode for entry in self._files.entries(paths.OPEN)} if parts else {}
        names = [(change.token.name, change.token.kind) for change in changes]
        for part in parts:
            spot, status = folder.ready_spot(part.name), self._files.stat(part.path)
            if spot is not None and status is not None and opened.get(spot.id) == status.st_ino:
                names.append((part.name, "put"))
        for name, kind in names:
            spot = folder.ready_spot(name)
            what = spot.id if spot else name
            yield Case("carried out", what, f"its process had ended: {kind.partition('.')[0]}", self._recover)
        for part in pending.left_over(folder.clock.now()):
            yield Case("swept", part.name, f"left over: {part.kind}", lambda part=part: self._drop_part(part))  # type: ignore[misc]

    def _recover(self) -> str | None:
        return "" if self._folder.pending.recover() else None

    def _drop_part(self, part: Part) -> str | None:
        """Remove a part, unless its change was decided since the look."""
        folder, spot = self._folder, self._folder.ready_spot(part.name)
        if any(change.token.nonce == part.nonce for change in folder.pending.listing()[0]):
            return None
        mine, known = self._files.stat(part.path), self._files.stat(paths.open_path(spot.id)) if spot else None
        if mine is None or (known is not None and known.st_ino == mine.st_ino):
            return None
        return self._remove(part.path)

    def _remove(self, path: str) -> str | None:
        return "" if self._files.remove(path) else None

    def _ended(self) -> Iterator[Case]:
        """Half of an end: power was lost between two names, or a process died while it learned a result."""
        folder = self._folder
        opened, ended = set(self._files.names(paths.OPEN)), set(self._files.names(paths.ENDED))
        if not ended:
            return
        tokens = {spot.id for change in folder.pending.listing()[0] if (spot := folder.ready_spot(change.token.name))}
        verdicts = {name.partition("~")[0] for name in ended if name.partition("~")[2] in tuple(Verdict)}
        plain = {name for name in ended if "~" not in name}
        for task_id in sorted((verdicts & opened) - tokens):
            yield Case("put right", task_id, "it has ended", lambda i=task_id: self._end(i))  # type: ignore[misc]
        for task_id in sorted(plain - verdicts - tokens):
            yield Case("put right", task_id, "its result is gone", lambda i=task_id: self._reopen(i))  # type: ignore[misc]
        for name in sorted(name for name in ended if name.endswith("~put")):
            task_id = name[:-4]
            if task_id not in opened and task_id not in tokens | plain:
                yield Case("put right", task_id, "as it was put", lambda i=task_id: self._restore_put(i))  # type: ignore[misc]

    def _end(self, task_id: str) -> str | None:
        if self._folder.verdict(task_id) is None or self._folder.pending.is_pending(task_id):
            return None
        moved = self._folder.supersede(paths.open_path(task_id), paths.ended_path(task_id))
        return "" if moved else None

    def _reopen(self, task_id: str) -> str | None:
        folder = self._folder
        if folder.verdict(task_id) is not None or folder.pending.is_pending(task_id):
            return None
        try:
            return "" if self._files.move(paths.ended_path(task_id), paths.open_path(task_id)) else None
        except FileExistsError:
            folder.keep_late(paths.ended_path(task_id), task_id, folder.nonce())
            return ""

    def _restore_put(self, task_id: str) -> str | None:
        if self._folder.is_known(task_id) or self._folder.pending.is_pending(task_id):
            return None
        return "" if self._files.move(paths.ended_path(task_id, "~put"), paths.open_path(task_id)) else None

    def _results(self) -> Iterator[Case]:
        """Results of other programs, and ours that they replaced."""
        folder = self._folder
        kept = {entry.name: entry.inode for entry in self._files.entries(paths.ENDED)}
        tokens = {spot.id for change in folder.pending.listing()[0] if (spot := folder.ready_spot(change.token.name))}
        for place in folder.layout.results:
            for entry in self._files.entries(place):
                spot = folder.spot(place, entry.name)
                if spot is None or spot.verdict is None or spot.id in tokens:
                    continue
                known = next((one for one in Verdict if f"{spot.id}~{one}" in kept), None)
                if known is not None and self._is_wrong_name(spot, known):
                    yield Case(
                        "set aside", spot.path, f"{spot.id} is finished ({known})", self._wrong_name(spot, known)
                    )
                    continue
                if known is None or (spot.verdict is Verdict.DONE and known is not Verdict.DONE):
                    yield from self._foreign(spot, known)
                elif folder.in_place or kept[f"{spot.id}~{known}"] != entry.inode:
                    another = not folder.in_place and conflicts.is_another_task(folder, spot)
                    yield from self._foreign(spot, known) if another else self._replaced(spot, known)

    def _is_wrong_name(self, spot: Spot, known: Verdict) -> bool:
        """Tell whether a name says that a task ended otherwise than it did, and the right one is there, too."""
        right = self._folder.layout.ended_path(spot, known)
        otherwise = spot.verdict is not None and spot.verdict.state is not known.state
        return otherwise and bool(right) and self._files.stat(right) is not None

    def _wrong_name(self, spot: Spot, known: Verdict) -> Cure:
        def cure() -> str | None:
            if not self._is_wrong_name(spot, known) or self._folder.verdict(spot.id) is not known:
                return None
            return self._folder.set_aside(spot.path, f"{spot.id} is finished ({known})")

        return cure

    def _foreign(self, spot: Spot, known: Verdict | None) -> Iterator[Case]:
        status = self._files.stat(spot.path)
        if status is None or self._folder.is_young(status):
            return
        if modes.S_ISREG(status.st_mode) and conflicts.is_another_task(self._folder, spot):
            details = f"{spot.path} is the result of another task than {spot.id}"
            yield Case("registered", spot.path, details, lambda: self._renumber(spot, status))
            return
        if not modes.S_ISREG(status.st_mode):
            why = "it is not a regular file"
            yield Case("set aside", spot.path, why, lambda: self._folder.set_aside(spot.path, why, status))
            return

        def cure() -> str | None:
            if known is not None:  # what is done later wins over what had failed
                self._folder.keep_late(paths.ended_path(spot.id, f"~{known}"), spot.id, self._folder.nonce())
            return "" if conflicts.learn(self._folder, spot) else None

        yield Case("registered", spot.id, f"{spot.path} was written by another program", cure)

    def _renumber(self, spot: Spot, status: Stat) -> str | None:
        """Know the result of another task under the next free number, as a ready file of another name would be."""
        folder = self._folder
        new = allot(folder, 1)[0]
        path = folder.layout.result_path(Task(id=new, title="", slug=spot.slug), spot.verdict or Verdict.DONE)
        if not conflicts.move_judged(folder, spot.path, path, status):
            return None
        folder.tell("renumbered_task", new, details=f"it was {spot.path}, but {spot.id} is another task")
        conflicts.learn(folder, spot.replace(id=new, path=path))
        return f"{spot.path} is the result of another task than {spot.id}; it is {path} now"

    def _replaced(self, spot: Spot, known: Verdict) -> Iterator[Case]:
        folder, path = self._folder, self._folder.layout.result_of(spot)
        kept = paths.ended_path(spot.id, f"~{known}")
        there, ours = self._files.stat(path), self._files.stat(kept)
        if there is None or ours is None or there.st_ino == ours.st_ino or folder.is_young(there):
            return
        if folder.in_place and (there.st_size, int(there.st_mtime)) == (ours.st_size, int(ours.st_mtime)):
            return
        if self._reads_like(path, kept):
            return
        late = not ours.st_size
        details = f"{path} was written by another program" if late else f"{path} had been replaced by another program"
        yield Case(
            "registered" if late else "put back", spot.id, details, lambda: self._put_back(spot, path, kept, known)
        )

    def _put_back(self, spot: Spot, path: str, kept: str, known: Verdict) -> str | None:
        """Keep theirs as late and show ours again; an output that came after the task was called finished is taken."""
        folder, ours = self._folder, self._files.stat(kept)
        if ours is None or self._reads_like(path, kept):
            return None
        data = self._files.read(path, LARGEST_RESULT)[0]
        if not ours.st_size or (folder.in_place and known is not Verdict.DONE):
            self._files.remove(kept)
            self._files.create(kept, data, sync=folder.durable)
            action = "completed_task" if known is Verdict.DONE else "failed_task"
            details = f"another program wrote {path}"
            folder.tell(action, spot.id, details=details, **{DIGEST: digest(data)})
            return ""
        where = folder.keep_late(path, spot.id, folder.nonce())
        self._show(path, kept)
        details = f"{path} had been replaced by another program; its version is kept in {where}"
        folder.tell("late_result", spot.id, details=details)
        return details

    def _show(self, path: str, kept: str) -> bool:
        """Give a kept result its visible name again."""
        return self._folder.show_kept(path, kept)

    def _reads_like(self, one: str, other: str) -> bool:
        """Tell whether two files have the same bytes: git makes another file when a branch comes back."""
        with suppress(OSError):
            return self._files.read(one, LARGEST_RESULT)[0] == self._files.read(other, LARGEST_RESULT)[0]
        return False

    def _claimed(self) -> Iterator[Case]:
        folder = self._folder
        ended = set(self._files.names(paths.ENDED))
        opened = set(self._files.names(paths.OPEN))
        for spot in folder.claims():
            status = self._files.stat(spot.path)
            if status is None:
                continue
            if any(f"{spot.id}~{one}" in ended for one in Verdict) and spot.id not in opened:
                if conflicts.is_another_task(folder, spot):
                    continue  # others gave it our number; if they leave it, it gets one of its own
                yield Case("set aside", spot.path, f"{spot.id} is finished", self._aside(spot, status))
            elif spot.id not in opened and spot.id not in ended and not folder.is_young(status) and status.st_size:
                details = f"{spot.path} was made by hand"
                yield Case("registered", spot.id, details, lambda spot=spot: self._register(spot))  # type: ignore[misc]

    def _aside(self, spot: Spot, status: Stat) -> Cure:
        def cure() -> str | None:
            if self._folder.verdict(spot.id) is None or self._files.stat(paths.open_path(spot.id)) is not None:
                return None
            ended = self._files.stat(paths.ended_path(spot.id))
            if ended is not None and ended.st_ino == status.st_ino:  # an old name that a power loss left
                conflicts.drop_name(self._folder, spot.path, status)
                return ""
            where = self._folder.set_aside(spot.path, f"{spot.id} is finished", status)
            return None if where is None else f"{spot.id} is finished; now {where}"

        return cure

    def _register(self, spot: Spot) -> str | None:
        folder = self._folder
        if folder.is_known(spot.id) or folder.layout.guarded:
            return None
        with suppress(FileNotFoundError):
            if self._files.link(spot.path, paths.open_path(spot.id)):
                folder.tell("added_task", spot.id, details="found in the folder")
                return ""
        return None

    def _ready(self) -> Iterator[Case]:
        """Ready files that are not plainly their task, by the inodes of two listings."""
        folder = self._folder
        opened = {entry.name: entry.inode for entry in self._files.entries(paths.OPEN)}
        seen: dict[int, str] = {}
        for entry in self._files.entries(folder.layout.claimed):
            spot = folder.spot(folder.layout.claimed, entry.name)
            if spot is not None and spot.state is State.CLAIMED:
                seen[entry.inode] = entry.name
        for entry in sorted(self._files.entries(folder.layout.ready)):
            spot = folder.ready_spot(entry.name)
            if spot is None and not self._is_dropped(entry.name):
                continue
            twin = entry.inode in seen
            seen[entry.inode] = entry.name
            if spot is not None and opened.get(spot.id) == entry.inode and not twin:
                end = None if folder.in_place else folder.foreign_end(spot)
                if end is None:
                    continue
            yield from self._odd(entry.name, spot)

    def _is_dropped(self, name: str) -> bool:
        suffix = self._folder.layout.takes_in
        return bool(suffix) and name.endswith(suffix) and not name.startswith(NEVER)

    def _odd(self, name: str, spot: Spot | None) -> Iterator[Case]:
        folder, path = self._folder, self._folder.ready_path(name)
        status = self._files.stat(path)
        if status is None or (modes.S_ISREG(status.st_mode) and (not status.st_size or folder.is_young(status))):
            return
        kind, details = self._foresee(spot, path)
        if not kind:
            return

        def cure() -> str | None:
            before = folder.files.piece(paths.CHANGELOG, 0, 0)[1]
            conflicts.settle(folder, name)
            return "" if folder.files.piece(paths.CHANGELOG, 0, 0)[1] != before else None

        yield Case(kind, path if kind == "set aside" or spot is None else spot.id, details, cure)

    def _foresee(self, spot: Spot | None, path: str) -> tuple[str, str]:
        """Say beforehand what `conflicts.settle` will do with a file."""
        folder = self._folder
        if spot is None:
            return "registered", "it was dropped in and is a task"
        try:
            folder.load(spot)
        except FileNotFoundError:
            return "", ""
        except Unreadable:
            return "", ""
        except Invalid as error:
            return "set aside", error.message
        verdict = folder.verdict(spot.id)
        if verdict in conflicts.FAILURES and not conflicts.is_another_task(folder, spot):
            return "tried again", f"it had failed; {path} was put there again"
        if verdict is not None:
            return "set aside", f"{spot.id} is finished ({verdict})"
        claims = folder.claims_of(spot.id)
        if claims:
            return "set aside", f"{spot.id} is claimed by {claims[0].worker}"
        return "registered", f"{path} was made by hand"

    # -- what a person must ask for ----------------------------------------------------------------------------------

    def places(self) -> Iterator[Case]:
        """Yield folders that are missing or not usable: nothing else can be looked at before."""
        for name in (paths.HIDDEN, *self._folder.layout.folders, *paths.FOLDERS):
            status = self._files.stat(name)
            if status is None or not modes.S_ISDIR(status.st_mode):
                details = "`pit doctor --fix` or `pit init` makes it again"
                if status is not None:
                    details = "a link or a file is in its place; `pit doctor --fix` sets that aside"
                yield Case("missing", name, details, lambda name=name: self._make_folder(name))  # type: ignore[misc]
            elif status.st_uid == self._files.user() and status.st_mode & 0o700 != 0o700:
                details = "it is yours, but its permissions keep you out"
                mode = modes.S_IMODE(status.st_mode) | 0o700
                yield Case("not writable", name, details, lambda n=name, m=mode: self._allow(n, m))  # type: ignore[misc]
            elif not self._files.may_write(name):
                yield Case("not writable", name, "check its owner and permissions")

    def _make_folder(self, name: str) -> str:
        where = None
        if self._files.stat(name) is not None:
            where = f"{paths.QUARANTINE}/{name.replace('/', '_')}~{self._folder.nonce()}"
            self._folder.move(name, where)
        self._files.make_dir(name)
        return f"made again; what was there is now {where}" if where else "made again"

    def _allow(self, path: str, mode: int) -> str:
        self._files.set_mode(path, mode)
        return "you may use it again"

    def by_hand(self) -> Iterator[Case]:
        """Yield what a person may have meant."""
        yield from self._shut()
        yield from self._torn()
        yield from self._missing()
        yield from self._unseen()
        yield from self._changed()
        yield from self._strangers()

    def _shut(self) -> Iterator[Case]:
        mine = self._files.user()
        for place in dict.fromkeys((self._folder.layout.ready, self._folder.layout.claimed)):
            for name, status in self._files.scan(place):
                if modes.S_ISREG(status.st_mode) and not status.st_mode & 0o400 and status.st_uid == mine:
                    path, mode = f"{place}/{name}", modes.S_IMODE(status.st_mode) | 0o600
                    details = "it is yours, but its permissions keep you out"
                    yield Case("not readable", path, details, lambda p=path, m=mode: self._allow(p, m))  # type: ignore[misc]

    def _torn(self) -> Iterator[Case]:
        if self._folder.log.is_torn():
            details = "its last line was cut off; the next one will end it"
            yield Case("torn", paths.CHANGELOG, details, self._end_line)

    def _end_line(self) -> str:
        self._files.append(paths.CHANGELOG, b"\n")
        return "the torn line was ended; readers pass over it"

    def _missing(self) -> Iterator[Case]:
        """Open tasks with no other name. Looked at twice: a task that just moved is not missing."""
        missing = self._nowhere()
        missing = missing & self._nowhere() if missing else missing
        for task_id in sorted(missing):
            details = f"its file is gone; what was asked for is in {paths.open_path(task_id)}"
            yield Case("vanished", task_id, details, lambda i=task_id: self._restore(i))  # type: ignore[misc]

    def _nowhere(self) -> set[str]:
        folder = self._folder
        opened = {entry.name: entry.inode for entry in self._files.entries(paths.OPEN) if "~" not in entry.name}
        places = dict.fromkeys((folder.layout.ready, folder.layout.claimed, paths.PENDING))
        inodes = {entry.inode for place in places for entry in self._files.entries(place)}
        lost = {task_id for task_id, inode in opened.items() if inode not in inodes}
        if lost:
            lost -= {spot.id for spot in folder.claims()}
            lost -= {spot.id for spot in folder.spots(folder.layout.ready)}
            lost -= {spot.id for ch in folder.pending.listing()[0] if (spot := folder.ready_spot(ch.token.name))}
        return lost

    def _restore(self, task_id: str) -> str | None:
        folder, path = self._folder, paths.open_path(task_id)
        status = self._files.stat(path)
        if status is None or folder.claims_of(task_id) or folder.pending.is_pending(task_id):
            return None
        try:
            task = folder.layout.load(Spot(state=State.READY, id=task_id), folder.read(path)[0])
        except Invalid as error:
            where = folder.set_aside(path, error.message, status)
            return f"what was asked for cannot be read; now {where}"
        target = folder.layout.ready_path(folder.layout.named(task))
        if not self._files.link(path, target):
            return None
        folder.tell("restored_task", task_id, details=f"it is {target} again")
        return f"it is {target} again"

    def _unseen(self) -> Iterator[Case]:
        """Results that are kept and not visible; not those that were archived, or pruned by another program."""
        folder = self._folder
        for entry in sorted(self._files.entries(paths.ENDED)):
            task_id, _, said = entry.name.partition("~")
            status = self._files.stat(f"{paths.ENDED}/{entry.name}") if said in tuple(Verdict) else None
            if status is None or not status.st_size or (status.st_nlink > 1 and not folder.in_place):
                continue
            if folder.layout.prunes and folder.clock.now() - status.st_mtime >= DAY:
                continue
            spot = Spot(state=Verdict(said).state, id=task_id, verdict=Verdict(said))
            path = self._place_of(spot, entry.name)
            if path.rpartition("/")[0] not in folder.layout.results and not folder.in_place:
                continue  # failures may be where people tidy up as they like
            if self._files.stat(path) is None:
                details = f"it is kept in {paths.ENDED}/{entry.name}"
                kept = f"{paths.ENDED}/{entry.name}"
                yield Case("result gone", task_id, details, lambda p=path, k=kept: self._show_again(p, k))  # type: ignore[misc]

    def _place_of(self, spot: Spot, name: str) -> str:
        folder, task = self._folder, Task(id=spot.id, title="")
        with suppress(OSError, Invalid):
            task = folder.load(spot, paths.ended_path(spot.id))
            result, inside = folder.layout.load_result(
                spot, folder.files.read(f"{paths.ENDED}/{name}", LARGEST_RESULT)[0]
            )
            task = (inside or task).replace(big=task.big or bool(result.children))
        return folder.layout.result_path(task, spot.verdict or Verdict.DONE)

    def _show_again(self, path: str, kept: str) -> str | None:
        return f"it is {path} again" if self._show(path, kept) else None

    def _changed(self) -> Iterator[Case]:
        """Files whose bytes are not those that the changelog has a checksum of."""
        folder, known = self._folder, self._digests()
        for entry in sorted(self._files.entries(paths.ENDED)):
            task_id, _, said = entry.name.partition("~")
            if said in tuple(Verdict) and known.get(task_id):
                with suppress(OSError):
                    data = self._files.read(f"{paths.ENDED}/{entry.name}", LARGEST_RESULT)[0]
                    if data and digest(data) not in known[task_id]:
                        yield Case(
                            "edited result", task_id, "its result is not what was published; no other copy is kept"
                        )
        for spot in folder.spots(folder.layout.ready, State.READY):
            with suppress(OSError, Invalid):
                data, status = folder.read(spot.path)
                if folder.is_damaged(spot, data, status):
                    yield Case("damaged", spot.id, f"the bytes of {spot.path} are not those that were written")

    def _digests(self) -> dict[str, set[str]]:
        known: dict[str, set[str]] = {}
        for _, line in self._folder.log.lines():
            event = decode(line) if DIGEST.encode() in line else None
            if event is not None and event.did in FINAL:
                known.setdefault(event.task_id, set()).add(str(event.extra[DIGEST]))
        return known

    def _strangers(self) -> Iterator[Case]:
        folder = self._folder
        for spot in folder.spots(folder.layout.ready, State.READY):
            status = self._files.stat(spot.path)
            if status is not None and modes.S_ISREG(status.st_mode) and not status.st_size:
                yield Case("being written", spot.path, "it is empty: its writer has yet to fill it")
        for entry in sorted(self._files.entries(folder.layout.ready)):
            name, path = entry.name, folder.ready_path(entry.name)
            if folder.spot(folder.layout.ready, name) is not None or name.startswith(NEVER) or name.endswith("~"):
                continue
            if folder.layout.is_others(name):
                yield Case("left alone", path, "a name that we do not serve; it is left to the programs that do")
            elif not self._is_dropped(name):
                why, status = "it is not called like a task", self._files.stat(path)
                yield Case("stranger", path, f"{why}, so no worker will take it", self._set_aside(path, why, status))

    def _set_aside(self, path: str, why: str, status: Stat | None) -> Cure:
        def cure() -> str | None:
            where = self._folder.set_aside(path, why, status)
            return None if where is None else f"{why}; now {where}"

        return cure

    def kept(self) -> Iterator[Case]:
        """Yield what is kept for people."""
        for name in sorted(self._files.names(paths.QUARANTINE)):
            if not name.endswith(".reason"):
                data = self._files.piece(f"{paths.QUARANTINE}/{name}.reason", 0, 65536)[0]
                reason = data.decode("utf-8", "replace").strip() or "no reason was written"
                yield Case("quarantined", f"{paths.QUARANTINE}/{name}", reason)
        for name in sorted(self._files.names(paths.LATE)):
            yield Case("late result", f"{paths.LATE}/{name}", "not published; kept to be read")
