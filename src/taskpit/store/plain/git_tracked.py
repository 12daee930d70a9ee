"""A queue whose tasks are in git's commits: after a checkout, a merge or a pull, what git put there counts.

Git has the files that people see; the second names belong to this checkout. They are made to agree whenever git's index
has changed: what is nowhere on this branch is no longer known, a result that came with git is the result. A task that
a worker runs is left alone. What is no longer known is kept in `elsewhere`.
"""

from __future__ import annotations

from contextlib import suppress

from taskpit.ids import is_word
from taskpit.layouts import Spot
from taskpit.model import State, Task, Verdict
from taskpit.store.plain import conflicts, paths
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.retention import archived
from taskpit.store.plain.upkeep_files import replace

MARK = f"{paths.WORKERS}/.git"
ELSEWHERE = f"{paths.HIDDEN}/elsewhere"


def agree(folder: Folder, index: bytes) -> None:
    """Make the second names agree with this checkout, unless git's index is as it was."""
    if not index or folder.files.piece(MARK, 0, 200)[0] == index:
        return
    with suppress(OSError), folder.lock.hold("git"):
        if _Checkout(folder).agree():
            replace(folder, MARK, index)


class _Checkout:
    """What this checkout has."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        spots = (folder.ready_spot(change.token.name) for change in folder.pending.listing()[0])
        self._ready = {spot.id for spot in folder.spots(folder.layout.ready, State.READY)}
        self._busy = {spot.id for spot in spots if spot} | {spot.id for spot in folder.claims()}
        self._results = self._visible()
        self._archived = set(archived(folder).values())

    def agree(self) -> bool:
        """Tell whether nothing was too young to be judged."""
        folder = self._folder
        names = {name.partition("~")[0] for place in (paths.OPEN, paths.ENDED) for name in folder.files.names(place)}
        sure = min((self._agree_on(task_id) for task_id in sorted(names) if is_word(task_id)), default=True)
        for (task_id, verdict), path in self._results.items():
            if task_id not in self._busy | self._ready and folder.verdict(task_id) is None:
                sure &= conflicts.learn(folder, Spot(state=verdict.state, id=task_id, verdict=verdict, path=path))
        return sure

    def _agree_on(self, task_id: str) -> bool:
        folder, verdict = self._folder, self._folder.verdict(task_id)
        if task_id in self._busy or (verdict is None and task_id in self._ready):
            return True
        if verdict is None:
            return (task_id, Verdict.DONE) in self._results or self._aside(task_id, paths.open_path(task_id))
        kept = paths.ended_path(task_id, f"~{verdict}")
        path = self._results.get((task_id, verdict))
        if path is not None:
            return self._take(path, kept)
        status = folder.files.stat(kept)
        if status is None or not status.st_size or status.st_ino in self._archived:
            return True  # archived or pruned before git had the queue: no commit can tell of it
        return self._aside(task_id, kept) and self._aside(task_id, paths.ended_path(task_id))

    def _take(self, path: str, kept: str) -> bool:
        """Make what is visible the result, also if git wrote it again."""
        files = self._folder.files
        ours, theirs = files.stat(kept), files.stat(path)
        if ours is None or theirs is None or ours.st_ino == theirs.st_ino:
            return True
        if self._folder.is_young(theirs):
            return False
        files.remove(kept)
        return files.link(path, kept)

    def _aside(self, task_id: str, path: str) -> bool:
        with suppress(FileExistsError):
            self._folder.move(path, f"{ELSEWHERE}/{path.rpartition('/')[2]}~{self._folder.nonce()}")
        self._folder.files.remove(paths.ended_path(task_id, "~put"))
        return True

    def _visible(self) -> dict[tuple[str, Verdict], str]:
        folder, found = self._folder, {}
        for place in folder.layout.results:
            for spot in folder.spots(place):
                if spot.verdict is not None:
                    found[spot.id, spot.verdict] = folder.layout.result_of(spot)
        for verdict in conflicts.FAILURES:
            place, _, like = folder.layout.result_path(Task(id="x", title=""), verdict).rpartition("/")
            for name in folder.files.names(place):
                task_id = folder.layout.ended_id(place, name)
                if name.endswith(like.partition("x")[2]) and is_word(task_id):
                    found[task_id, verdict] = f"{place}/{name}"
        return found
