"""Looking after activities: locks that lapsed, what a crash left undone, what is out of order."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from taskpit import fs, workers
from taskpit.layouts import activities as names
from taskpit.layouts.activities import load_result
from taskpit.layouts.progress import ENDED, Progress, status_of
from taskpit.model import UNREAD, Claim, Lock, State, Verdict
from taskpit.store import changelog
from taskpit.store.activities.items import BeingWritten, Items
from taskpit.store.activities.states import ActivityStates, whole
from taskpit.store.folder import LATE
from taskpit.store.port import Lapse, Mend

#: Lines this far from a changelog's end are looked at for what a crash swallowed.
TAIL = 256 * 1024
#: What tells that an activity has ended for good.
ENDS = frozenset(("completed_activity", "failed_activity", "cancelled_activity", "split_activity", "transferred"))
#: What may be told of an activity at any time.
ASIDE = frozenset(("noted", "late_result"))


def lapsed(items: Items, orphans: Collection[tuple[str, str]]) -> list[Lapse]:
    """Claims whose lock no longer counts; `orphans` (id and holder) are known to be nobody's."""
    found = []
    for standing in ActivityStates(items).standings().values():
        if standing.state is not State.CLAIMED or standing.seen is None or not standing.seen.lock.holder:
            continue
        holder, task = standing.seen.lock.holder, standing.activity.task
        reason = standing.over
        if (task.id, holder) in orphans:
            reason = f"an earlier {workers.base(holder)} left it"
        if reason:
            claim = Claim(task=task, worker=workers.base(holder), fence=holder, attempt=task.attempts + 1)
            found.append(Lapse(claim=claim, reason=reason, called_off=items.is_called_off(task.id)))
    return found


def mend(items: Items, *, dry_run: bool) -> list[Mend]:
    """What a crash left undone is done."""
    done = []
    for progress in items.readable():
        done += list(_left_locks(items, progress, dry_run=dry_run))
        done += list(_swallowed(items, progress, dry_run=dry_run))
    return [*done, *_leftovers(items, dry_run=dry_run)]


def _left_locks(items: Items, progress: Progress, *, dry_run: bool) -> Iterator[Mend]:
    """A worker that died between finishing and letting go left its lock on something that has ended."""
    for name in fs.names(items.folder.at(items.path(progress.item, names.LOCKS))):
        activity_id = name.removesuffix(".lock")
        fields = progress.entry(activity_id)
        if name == activity_id or fields is None or status_of(fields) not in ENDED:
            continue
        by = load_result(activity_id, fields, Verdict.DONE).worker
        with items.grip(activity_id) as grip:
            mine = grip.mine(Lock(name=activity_id, holder=by))
            if mine is None:
                seen = grip.look()
                if seen is None or not grip.over(seen) or grip.mine(seen.lock) is None:
                    continue  # somebody else's, and it may be live
            if not dry_run:
                grip.leave()
        yield Mend(kind="lock left behind", what=activity_id, details=f"{fields['status']} by {by}")


def _swallowed(items: Items, progress: Progress, *, dry_run: bool) -> Iterator[Mend]:
    """An end that the file tells and the changelog does not: the line is added."""
    path = items.folder.at(items.path(progress.item, names.CHANGELOG))
    status, saved = fs.status(path), fs.status(items.folder.at(items.path(progress.item, names.PROGRESS)))
    if (status is not None and status.st_size > TAIL) or saved is None or items.folder.is_young(saved):
        return  # too long to be sure, or its line may be on its way
    told: dict[str, bool] = {}
    for event in filter(None, map(changelog.decode, fs.tail(path, TAIL).splitlines())):
        if event.activity_id and not event.task_id and event.action not in ASIDE:
            told[event.activity_id] = event.action in ENDS
    for activity_id, fields in progress.entries():
        result = fields.get("result")
        if status_of(fields) in ENDED and isinstance(result, dict) and not told.get(activity_id):
            if not dry_run:
                action = f"{status_of(fields)}_activity"
                items.tell(action, activity_id, str(result.get("worker") or "keeper"), "written by the keeper")
            yield Mend(kind="line swallowed", what=activity_id, details=status_of(fields))


def _leftovers(items: Items, *, dry_run: bool) -> Iterator[Mend]:
    """Temporary files that nobody comes back for."""
    folder = items.folder
    for name in fs.names(folder.at(folder.layout.tmp)):
        path = folder.at(f"{folder.layout.tmp}/{name}")
        status = fs.status(path)
        if status is None or folder.clock.now() - max(status.st_mtime, status.st_ctime) < folder.config.keep_tmp:
            continue
        if not dry_run and folder.set_aside(f"{folder.layout.tmp}/{name}", "left behind") is None:
            continue
        yield Mend(kind="left behind", what=name)


def check(items: Items) -> list[Mend]:
    """What is out of order, for people to read."""
    view = ActivityStates(items)
    standings = view.standings()
    broken = {item: error for item, error in view.broken.items() if not isinstance(error, BeingWritten)}
    found = [Mend(kind="unreadable", what=item, details=error.message) for item, error in broken.items()]
    for item, name in items.folders().items():
        if not fs.exists(items.folder.at(f"{name}/{names.PROGRESS}")):
            found.append(Mend(kind="no progress.yaml", what=item, details=name))
    found += [Mend(kind="folder not used", what=item, details=name) for item, name in items.twins()]
    for standing in standings.values():
        task = standing.activity.task
        if task.hold.startswith(UNREAD) and task.id not in view.broken:
            found.append(Mend(kind="unreadable", what=task.id, details=task.hold))
        if standing.seen is not None and standing.seen.trouble:
            found.append(Mend(kind="unreadable lock", what=task.id, details=standing.seen.trouble))
        found += [
            Mend(kind="needs nothing there", what=task.id, details=need)
            for need in task.needs
            if view.state_of(need) is None
        ]
    late = sorted(fs.names(items.folder.at(LATE)))
    found += [
        Mend(kind="late result", what=f"{LATE}/{name}", details="not published; kept to be read") for name in late
    ]
    for progress in items.readable():
        known = [key for key, _ in progress.entries()]
        reason = whole(progress).hold if known else ""
        if reason.startswith(UNREAD):
            found.append(Mend(kind="unreadable", what=progress.item, details=reason))
        found += [Mend(kind="no activity", what=progress.item, details=told) for told in progress.odd()]
        found += [
            Mend(kind="lock of nothing", what=name, details=progress.item)
            for name in sorted(fs.names(items.folder.at(items.path(progress.item, names.LOCKS))))
            if name.endswith(".lock") and name.removesuffix(".lock") not in known
        ]
    return found
