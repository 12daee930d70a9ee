"""A queue whose tasks are in git's commits: after a checkout, a merge or a pull, what git put there counts.

Git has the files that people see. What we know of them (registry and outcomes) belongs to this checkout and is made to
agree whenever git's index has changed: what stands nowhere on this branch is no longer known, a result that git brought
is the result. A task that somebody runs or that is on its way is left alone. What is no longer known is kept aside.
"""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.ids import is_word
from taskpit.layouts import Spot
from taskpit.model import State, Task, Verdict
from taskpit.store.flock import BoundedLock
from taskpit.store.folder import DOOR, HIDDEN, IDS, Folder
from taskpit.store.reopening import learn
from taskpit.store.retention import archived

#: How git's index looked when we last agreed, and where what other branches have is kept.
MARK = f"{HIDDEN}/git"
ELSEWHERE = f"{HIDDEN}/elsewhere"
#: What git leaves alone, by the file that says so: who has what just now, logs, and all that belongs to this checkout.
IGNORED = {
    ".gitignore": "/claimed/\n/waste/\n",
    f"{HIDDEN}/.gitignore": "*\n!.gitignore\n!config.toml\n!layout\n",
}
LONGEST = 200


def agree(folder: Folder) -> None:
    """The registry says what this checkout has. Nothing to do unless git's index has changed since."""
    sign = _index(folder.root)
    try:
        if not sign or fs.read(folder.at(MARK), LONGEST)[0] == sign:
            return
    except FileNotFoundError:
        pass
    except OSError:
        return
    try:
        with BoundedLock(folder.at(DOOR)):
            fs.make_dir(folder.at(ELSEWHERE))
            if _agree(folder):
                fs.replace(folder.at(MARK), sign, folder.tmp("git", fs.fresh_name(), "mark"), sync=False)
    except OSError:
        return  # whoever may only look sees what there is


def _index(root: str) -> bytes:
    """How git's index looks: every checkout, merge, pull and commit writes another one. Empty if there is none."""
    folder = fs.above(root, ".git")
    git = f"{folder}/.git"
    try:
        if os.path.isfile(git):
            with open(git, encoding="utf-8") as file:
                git = os.path.join(folder, file.read(4096).removeprefix("gitdir:").strip())
        status = os.stat(f"{git}/index")
    except (OSError, ValueError):
        return b""
    return f"{status.st_ino} {status.st_mtime_ns} {status.st_size}\n".encode()


def _agree(folder: Folder) -> bool:
    """Whether nothing was too new to be judged."""
    known = [name for name in fs.names(folder.at(IDS)) if is_word(name)]
    busy = {name.partition("~")[0] for name in fs.names(folder.at(folder.layout.tmp))}
    busy |= {spot.id for spot, _, _ in folder.sealed()}
    ready = {spot.id for spot in folder.spots(folder.layout.ready, State.READY)}
    busy |= {spot.id for spot in folder.spots(folder.layout.claimed, State.CLAIMED)}
    results, put_away, sure = _results(folder), archived(folder), True
    for task_id in known:
        verdict = folder.outcome(task_id)
        if task_id in busy or (verdict is None and task_id in ready):
            continue
        if verdict is not None and (task_id, verdict) in results:
            sure &= _is_the_result(folder, task_id, verdict, results[task_id, verdict])
        elif verdict is not None and _is_put_away(folder.outcome_path(task_id, verdict), put_away):
            continue
        elif verdict is not None and not _aside(folder, folder.outcome_path(task_id, verdict)):
            sure = False
        else:
            sure &= _aside(folder, folder.of(IDS, task_id))
    for (task_id, verdict), path in results.items():
        if verdict is not Verdict.DONE and task_id not in busy | ready and folder.outcome(task_id) is None:
            learn(folder, Spot(state=State.FAILED, id=task_id, verdict=verdict, path=path))
    return sure


def _results(folder: Folder) -> dict[tuple[str, Verdict], str]:
    """Results that stand where people see them: whose, how it ended, where."""
    found = {(spot.id, spot.verdict or Verdict.DONE): spot.path for spot in folder.finished()}
    for verdict in (Verdict.FAILED, Verdict.CANCELLED):
        place, _, like = folder.layout.result_path(Task(id="x", title=""), verdict).rpartition("/")
        for name in fs.names(folder.at(place)):
            task_id = folder.layout.ended_id(place, name)
            if name.endswith(like.partition("x")[2]) and is_word(task_id):
                found[task_id, verdict] = f"{place}/{name}"
    return found


def _is_the_result(folder: Folder, task_id: str, verdict: Verdict, path: str) -> bool:
    """What stands there is the outcome, also if git wrote it anew. False if it is too new."""
    outcome = folder.outcome_path(task_id, verdict)
    ours, theirs = fs.status(outcome), fs.status(folder.at(path))
    if ours is None or theirs is None or ours.st_ino == theirs.st_ino:
        return True
    if folder.is_young(theirs):
        return False
    scratch = folder.tmp(task_id, fs.fresh_name(), "known")
    fs.link(folder.at(path), scratch)
    return fs.move(scratch, outcome)


def _is_put_away(outcome: str, archive: set[int]) -> bool:
    """Its result was archived or pruned before git had the queue: no commit can tell of it."""
    status = fs.status(outcome)
    return status is not None and (not status.st_size or status.st_ino in archive)


def _aside(folder: Folder, path: str) -> bool:
    """It is known no more; False if it is so new that a verb may be at it."""
    status = fs.status(path)
    if status is None or folder.is_young(status):
        return status is None
    return fs.move(path, f"{folder.at(ELSEWHERE)}/{path.rpartition('/')[2]}~{fs.fresh_name()}")
