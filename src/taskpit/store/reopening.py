"""Failed tasks that are to be tried anew, and ends that somebody else brought about: what becomes of an outcome."""

from __future__ import annotations

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.model import Said, State, Task, Verdict
from taskpit.store import changelog
from taskpit.store.finish import Sealed, roll
from taskpit.store.folder import CHANGELOG, IDS, LARGEST_RESULT, SEALED, SLACK, STOPS, Folder, part_name


def reopen(folder: Folder, task: Task) -> Said:
    """A failed task is ready again with these bytes. LOST if it has not failed, or no longer.

    Its outcome is its token: whoever renames it away reopens the task. The result is kept with the late ones.
    """
    parts = "nbo" if folder.layout.rewritten else "no"
    sealed = Sealed(folder, Spot(state=State.READY, id=task.id, slug=task.slug), fs.fresh_name(), f"ready.{parts}")
    folder.write(sealed.named("n"), folder.spell(task, SLACK), sync=folder.durable)
    if "b" in parts:
        folder.write(sealed.named("b"), folder.layout.beside(task), sync=folder.durable)
    folder.sync(folder.layout.tmp, SEALED)  # no earlier end may come back and be carried out beside this one
    _learn_failure(folder, task.id)
    if folder.outcome(task.id) in (Verdict.FAILED, Verdict.CANCELLED):
        fs.remove(folder.of(STOPS, task.id))  # who asked to stop meant what has failed since
    for verdict in (Verdict.FAILED, Verdict.CANCELLED):
        if fs.move(folder.outcome_path(task.id, verdict), sealed.path):
            return roll(sealed, line=folder.line("reopened_task", task.id))
    for letter in parts.removesuffix("o"):
        fs.remove(sealed.part(letter))
    return Said.LOST


def take_again(folder: Folder, spot: Spot, here: fs.Stat) -> bool:
    """A ready file of a task that failed for good, or was cancelled: somebody wants it tried again, and it is.

    Its failure becomes the token, as in `reopen`, and the file that was put there what it is now. What was put there
    may be the failure itself, moved or copied: then it says what the task was. False if nothing of that holds.
    """
    path = folder.at(spot.path)
    _learn_failure(folder, spot.id)
    verdict = folder.outcome(spot.id)
    if verdict not in (Verdict.FAILED, Verdict.CANCELLED):
        return False
    try:
        data, _ = fs.read(path, LARGEST_RESULT)
        failure, _ = fs.read(folder.outcome_path(spot.id, verdict), LARGEST_RESULT)
        if data == failure:
            return _take_failure_again(folder, spot, verdict, failure, here)
        task = folder.layout.load(spot, data)
    except (OSError, Invalid):
        return False
    parts = "nbo" if folder.layout.rewritten else "no"
    sealed = Sealed(folder, Spot(state=State.READY, id=spot.id, slug=spot.slug), fs.fresh_name(), f"ready.{parts}")
    try:
        fs.link(path, sealed.part("n"))  # the same file: what enters in the end is what stands there
        known = fs.status(sealed.part("n"))
        if known is None or known.st_ino != here.st_ino:
            fs.remove(sealed.part("n"))
            return False
    except OSError:
        return False
    if "b" in parts:
        folder.write(sealed.named("b"), folder.layout.beside(task), sync=folder.durable)
    folder.sync(folder.layout.tmp, SEALED)
    fs.remove(folder.of(STOPS, spot.id))
    if fs.move(folder.outcome_path(spot.id, verdict), sealed.path):
        roll(sealed, line=folder.line("reopened_task", spot.id, details=f"{spot.path} was put there again"))
        return True
    for letter in parts.removesuffix("o"):
        fs.remove(sealed.part(letter))
    return False


def _take_failure_again(folder: Folder, spot: Spot, verdict: Verdict, failure: bytes, here: fs.Stat) -> bool:
    """It goes back to where failures lie, and the task in it is tried again with all its attempts."""
    task = folder.layout.load_result(Spot(state=verdict.state, id=spot.id, verdict=verdict), failure)[1]
    task = task or folder.original(spot.id)
    if task is None:
        return False
    task = task.replace(id=spot.id, slug=spot.slug, attempts=0, last_error="", hold="", not_before=0.0)
    place = folder.layout.result_path(task, verdict)
    if not fs.exists(folder.at(place)):
        return folder.move_judged(spot.path, place, here) and reopen(folder, task) is Said.OK
    copy = f"{folder.layout.tmp}/{part_name(spot.id, fs.fresh_name(), 'copy')}"  # of what stands there
    return folder.move_judged(spot.path, copy, here) and fs.remove(folder.at(copy)) and reopen(folder, task) is Said.OK


def _learn_failure(folder: Folder, task_id: str) -> None:
    """A failure that somebody else wrote, and no keeper has seen yet, becomes the task's outcome."""
    if folder.outcome(task_id) is None and folder.unfinished_result(task_id) is None:
        published = folder.published(task_id)
        if published is not None and published.state is State.FAILED:
            learn(folder, published)


def learn(folder: Folder, spot: Spot) -> None:
    """Somebody else finished it: know the id for ever, and the outcome; that last, since it says all is known."""
    verdict, result = spot.verdict or Verdict.DONE, folder.at(folder.layout.result_of(spot))
    there = fs.exists(result)
    try:
        fs.link(result if there else folder.at(spot.path), folder.of(IDS, spot.id))
        action = "completed_task" if verdict is Verdict.DONE else "failed_task"
        if not changelog.mentions(folder.at(CHANGELOG), action, spot.id):
            folder.tell(action, spot.id, details=f"another program wrote {spot.path}")
        if there:
            fs.link(result, folder.outcome_path(spot.id, verdict))
        else:  # a task may be called done without a result; one that comes later is still welcome
            fs.create(folder.outcome_path(spot.id, verdict), b"", sync=folder.durable)
    except (FileNotFoundError, FileExistsError):
        return  # it is gone again, or another has learnt of it
