"""Repairs: what a crash, a power loss or a foreign hand left undone. Never deletes content.

Each repair looks at the disk, decides from names, inodes and times, and takes one step that is safe to
repeat. Anybody may run all of them at any time, any number at once.
"""

from __future__ import annotations

import contextlib
import stat

from taskpit import fs
from taskpit.errors import Conflict, Invalid, TaskpitError, Unavailable
from taskpit.ids import is_word, path_of
from taskpit.layouts import Spot
from taskpit.model import State, Task, Verdict
from taskpit.store import changelog
from taskpit.store.finish import Sealed, roll
from taskpit.store.folder import CHANGELOG, IDS, LARGEST_RESULT, LATE, STOPS, Folder, Unreadable, stub
from taskpit.store.ids import allot
from taskpit.store.network_stat import fresh_status, has_twin
from taskpit.store.port import Mend
from taskpit.store.put import clear_torn, enter
from taskpit.store.quick_check import doubtful, unlike_outcomes
from taskpit.store.registry import is_another_task, is_dropped, put_away, refuse_finished, register, take_in
from taskpit.store.reopening import learn
from taskpit.workers import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: What a put's own copy for the registry is called once nobody may link it any more.
GONE = "gone"


def mend(folder: Folder, *, dry_run: bool, prune: bool = True) -> list[Mend]:
    """Run every repair; with `dry_run` only say what each would do. Without `prune` nothing at all is removed."""
    job = _Mender(folder, act=not dry_run)
    repairs = [job.torn, job.ends, job.puts, job.results, job.ghosts, job.ready, job.claimed, job.published]
    if prune and job.act:
        job.drop_marks()
    return [found for repair in (*repairs, *([job.leftovers] if prune else [])) for found in repair()]


def carry_out_ends(folder: Folder) -> None:
    """What is in no visible folder since its worker was killed in the middle of its end, whatever was asked for.

    Where that is not possible (another user's folder, a full disk) a sweep will say so.
    """
    with contextlib.suppress(OSError, TaskpitError):
        for _ in _Mender(folder, act=True).ends():
            pass


class _Mender:
    """One run over one folder."""

    def __init__(self, folder: Folder, *, act: bool) -> None:
        self.folder = folder
        self.act = act

    def _young(self, status: fs.Stat) -> bool:
        """Whether this was touched so lately that its own worker is surely still at it."""
        return 0 <= self.folder.clock.now() - status.st_ctime < self.folder.grace

    def _tmp(self) -> Iterator[tuple[str, list[str], fs.Stat]]:
        """Temporary files of verbs: path, the words of the name, status."""
        for name in fs.names(self.folder.at(self.folder.layout.tmp)):
            path = self.folder.at(f"{self.folder.layout.tmp}/{name}")
            status = fs.status(path)
            if status is not None:
                yield path, name.split("~", 3), status

    def ends(self) -> Iterator[Mend]:
        """Claims that were sealed: carry them out."""
        for spot, nonce, end in list(self.folder.sealed()):
            sealed = Sealed(self.folder, spot, nonce, end)
            status = fs.status(sealed.path)
            if status is None or self._young(status):
                continue
            try:
                if self.act:
                    roll(sealed)
            except Unavailable:
                continue  # another stands still in the middle of it
            yield Mend(kind="carried out", what=spot.id, details=f"its claim had ended: {sealed.kind}")

    def puts(self) -> Iterator[Mend]:
        """Tasks whose id was taken but whose file had not entered: let it in."""
        for path, words, status in self._tmp():
            if len(words) != 4 or words[2] != "put" or not is_word(words[0]) or self._young(status):
                continue
            known = fs.status(self.folder.of(IDS, words[0]))
            original = self.folder.tmp(words[0], words[1], "id") if self.folder.layout.rewritten else path
            put = fs.status(original)
            if put is None:  # unless somebody was clearing it up, and stopped
                original = self.folder.tmp(words[0], words[1], GONE)
                put = fs.status(original)
            if known is None or put is None or known.st_ino != put.st_ino:
                continue
            if self.act:
                if self.folder.syncs_once:
                    fs.sync_path(original)
                self._tell_once("added_task", words[0], "found half way")
                enter(self.folder, words[0], path, f"{self.folder.layout.ready}/{words[3]}")
                if original != path:
                    fs.remove(original)
            yield Mend(kind="carried out", what=words[0], details="it had been added but was not in place yet")

    def torn(self) -> Iterator[Mend]:
        """Tasks whose bytes a power loss took before their put was acknowledged: before ends, which may put them."""
        for task_id in {words[0] for _, words, _ in self._tmp() if words[2:3] == ["put"] and is_word(words[0])}:
            if clear_torn(self.folder, task_id, act=self.act):
                yield Mend(kind="swept", what=task_id, details="it was being added when the power went off")

    def results(self) -> Iterator[Mend]:
        """Results that are published but not yet known as the outcome: the last step of an end."""
        found = list(self._tmp())  # before the seals: one that is linked now and whose seal is gone then has lost it
        ending = {nonce for _, nonce, _ in self.folder.sealed()}
        for path, words, status in found:
            if len(words) != 3 or words[2] != "result" or words[1] in ending or status.st_nlink < 2:
                continue
            if self._young(status) or not is_word(words[0]):
                continue
            try:
                data, _ = fs.read(path, LARGEST_RESULT)
            except OSError:
                continue
            spot = Spot(state=State.DONE, id=words[0])
            try:
                verdict = self.folder.layout.load_result(spot, data)[0].verdict
            except Invalid:
                continue  # nobody's result; once it is old it is swept
            if self.act:
                fs.move(path, self.folder.outcome_path(words[0], verdict))
                fs.remove(path)  # of two names of one file a rename takes none away
            yield Mend(kind="carried out", what=words[0], details="its result was published")

    def ready(self) -> Iterator[Mend]:
        """Ready files: register what people made by hand, set aside what can't be a task or may not run."""
        folder = self.folder
        for names in doubtful(folder):
            found = None
            for file, found in folder.entries(folder.layout.ready, among=sorted(names)):
                if isinstance(found, Invalid):
                    yield self._aside(f"{folder.layout.ready}/{file}", found.message)
                elif found.state is State.READY:
                    yield from self._ready_one(found, names)
            if found is None:
                yield from self._dropped(names[0])

    def _dropped(self, name: str) -> Iterator[Mend]:
        """A file that somebody dropped in under no task's name."""
        folder = self.folder
        if not is_dropped(folder, name):
            return
        path = f"{folder.layout.ready}/{name}"
        where = take_in(folder, name) if self.act else path
        if where is not None:
            now = f", now {where}" if self.act else ""
            yield Mend(kind="registered", what=path, details=f"it was dropped in and is a task{now}")

    def _ready_one(self, spot: Spot, names: Collection[str]) -> Iterator[Mend]:
        """One ready file; `names` are those of its id."""
        folder = self.folder
        known, here = fs.status(folder.of(IDS, spot.id)), fs.status(folder.at(spot.path))
        if here is None:
            return
        twin = self._twin(spot, here, known)
        if twin:
            yield self._aside(spot.path, f"a power loss left it in two places; {twin} is the task", here)
            return
        try:
            if known is not None and known.st_ino == here.st_ino:
                refuse_finished(folder, spot, here)
            elif self._becomes_a_task(spot, here, known, names):
                yield Mend(kind="registered", what=spot.id, details=f"{spot.path} was made by hand")
        except (FileNotFoundError, Unreadable):
            return
        except Conflict as error:
            again = bool(error.details.get("again"))
            where = put_away(folder, spot, error) if self.act else spot.path if again else None
            if where == spot.path:
                yield Mend(kind="tried again", what=spot.id, details=f"it had failed; {spot.path} was put there again")
            else:
                now = f"; now {where}" if where else ""
                yield Mend(kind="set aside", what=spot.path, details=f"{error.message}{now}")
        except Invalid as error:
            if not folder.being_written(folder.at(spot.path), here):
                yield self._aside(spot.path, error.message, here)

    def _becomes_a_task(self, spot: Spot, here: fs.Stat, known: fs.Stat | None, names: Collection[str]) -> bool:
        """Whether a file that is not the registered one is a new task, or would be if we acted."""
        folder = self.folder
        if (here.st_size or known is None) and folder.unfinished(folder.at(spot.path), here):
            return False
        if here.st_size:
            folder.load(spot, folder.at(spot.path))
        if known is None and not self.act:
            return True
        return register(folder, spot, names) is not None and known is None

    def _twin(self, spot: Spot, here: fs.Stat, known: fs.Stat | None) -> str:
        """Where this very file is claimed, too: a rename that a power loss interrupted may leave both names."""
        if not has_twin(here, known):  # one that is just being renamed can be seen twice
            return ""
        for other in self.folder.claims_of(spot.id):
            status = fs.status(self.folder.at(other.path))
            if status is not None and status.st_ino == here.st_ino:
                return other.path
        return ""

    def ghosts(self) -> Iterator[Mend]:
        """Claims whose end is recorded: a power loss brought the name back, and with it the bytes of before."""
        from taskpit.store.cards import tries

        for spot in list(self.folder.spots(self.folder.layout.claimed, State.CLAIMED)):
            here = fs.status(self.folder.at(spot.path))
            if here is None or MARK not in spot.worker:  # a name that is used again may well have ended before
                continue
            if any(one.worker == spot.worker for one in tries(self.folder, spot.id)):
                yield self._aside(spot.path, "this claim has ended; a power loss brought its name back", here)

    def claimed(self) -> Iterator[Mend]:
        """Claimed files of tasks that are finished: nobody needs to run them."""
        for spot in list(self.folder.spots(self.folder.layout.claimed, State.CLAIMED)):
            here = fs.status(self.folder.at(spot.path))  # before the outcome: it may be reopened and claimed anew
            verdict = self.folder.outcome(spot.id)
            if here is None or (verdict is None and not self._is_finished(spot)):
                continue
            task = fs.status(self.folder.of(IDS, spot.id))
            if is_another_task(self.folder, spot) and (task is None or task.st_ino != here.st_ino):
                continue  # others gave it our number; if they leave it, it gets one of its own
            yield self._aside(spot.path, f"{spot.id} is finished ({verdict or 'done'})", here)

    def _is_finished(self, spot: Spot) -> bool:
        """Whether another program's result has been there for a moment: until then it removes its claim itself."""
        there = [fs.status(self.folder.at(path)) for path in self.folder.layout.finished_paths(spot)]
        return any(status is not None and not self._young(status) for status in there)

    def published(self) -> Iterator[Mend]:
        """Results that others wrote become known as outcomes; ours that others replaced are put back."""
        doubtful_ones = unlike_outcomes(self.folder)
        slugs = self._slugs() if doubtful_ones and self.folder.layout.slugged else ({}, {})
        for spot in doubtful_ones:
            result = self.folder.layout.result_of(spot)
            here = fs.status(self.folder.at(result)) or fs.status(self.folder.at(spot.path))
            if here is not None and not stat.S_ISREG(here.st_mode):
                yield self._aside(spot.path, "it is not a regular file", here)
            elif here is not None and not self._young(here):
                another = self._is_anothers(spot, *(of.get(spot.id, set()) for of in slugs))
                yield from [self._renumber(spot)] if another else self._published_one(spot, result, here)

    def _slugs(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """By ids, what the tasks are called that are ready or claimed; and those that have ended."""
        folder, standing, ended = self.folder, dict[str, set[str]](), dict[str, set[str]]()
        for place, state in ((folder.layout.ready, State.READY), (folder.layout.claimed, State.CLAIMED)):
            for spot in folder.spots(place, state):
                standing.setdefault(spot.id, set()).add(spot.slug)
        for spot in folder.finished():
            ended.setdefault(spot.id, set()).add(spot.slug)
        return standing, ended

    def _is_anothers(self, spot: Spot, standing: set[str], ended: set[str]) -> bool:
        """Whether this is the result of another task, whose writer could not know that we had given out its number."""
        if not spot.slug or spot.slug in standing:
            return False
        known = self.folder.outcome(spot.id)
        if known is None:
            return bool(standing - {""})
        kept = self.folder.outcome_path(spot.id, known)
        return bool(ended - {"", spot.slug}) and not _reads_like(self.folder.at(spot.path), kept)

    def _renumber(self, spot: Spot) -> Mend:
        """It is known under the next free number, as a ready file of another name would be."""
        folder, told = self.folder, f"{spot.path} is the result of another task than {spot.id}"
        if not self.act:
            return Mend(kind="registered", what=spot.path, details=told)
        new = allot(folder, 1)[0]
        path = folder.layout.result_path(Task(id=new, title="", slug=spot.slug), spot.verdict or Verdict.DONE)
        if fs.move_new(folder.at(spot.path), folder.at(path)):
            folder.tell("renumbered_task", new, details=f"it was {spot.path}, but {spot.id} is another task")
            learn(folder, spot.replace(id=new, path=path))
        return Mend(kind="registered", what=new, details=f"{told}; it is {path} now")

    def _published_one(self, spot: Spot, result: str, here: fs.Stat) -> Iterator[Mend]:
        folder = self.folder
        known = folder.outcome(spot.id)
        if known is None:
            if folder.unfinished_result(spot.id) is not None:
                return  # ours, with its last step to come
            if any(token.id == spot.id for token, _, _ in folder.sealed()):
                return  # ours, and about to be withdrawn
            if self.act:
                learn(folder, spot)
            yield Mend(kind="registered", what=spot.id, details=f"{spot.path} was written by another program")
            return
        if self._has_two_names(spot, known):
            yield self._aside(spot.path, f"{spot.id} is finished ({known})", fs.status(folder.at(spot.path)))
            return
        ours = fs.status(folder.outcome_path(spot.id, known))
        if ours is not None and ours.st_ino != here.st_ino and fs.exists(folder.at(result)):
            yield from self._other_file(spot, result, known, ours.st_size)

    def _has_two_names(self, spot: Spot, known: Verdict) -> bool:
        """Whether this name says of a task that it ended otherwise than we know, and the right one is there, too."""
        right = self.folder.layout.ended_path(spot, known)
        otherwise = spot.verdict is not None and spot.verdict.state is not known.state
        return otherwise and bool(right) and fs.exists(self.folder.at(right))

    def _other_file(self, spot: Spot, result: str, known: Verdict, size: int) -> Iterator[Mend]:
        """Another file than the outcome we know, which has this size, stands where the result should be."""
        folder, kept = self.folder, self.folder.outcome_path(spot.id, known)
        late = not size and result != spot.path  # it was called finished first, and its result came later
        scratch = folder.tmp(spot.id, fs.fresh_name(), "known")
        if self.act:  # what is compared is what becomes the outcome
            try:
                fs.link(folder.at(result), scratch)
            except FileNotFoundError:
                return
        if late or _reads_like(scratch if self.act else folder.at(result), kept):
            if self.act:
                fs.move(scratch, kept)
            if late:
                yield Mend(kind="registered", what=spot.id, details=f"{result} was written by another program")
        elif size:
            yield self._put_back(spot, result, known)
        fs.remove(scratch)

    def _put_back(self, spot: Spot, result: str, known: Verdict) -> Mend:
        """Ours stands there again; what stood there is kept."""
        folder, told = self.folder, f"{result} had been replaced by another program"
        if self.act:
            kept = path_of(LATE, spot.id, f"~{fs.fresh_name()}")
            told = f"{told}; its version is kept in {kept}"
            fs.move(folder.at(result), folder.at(kept))
            fs.link(folder.outcome_path(spot.id, known), folder.at(folder.layout.result_path(stub(spot), known)))
            folder.tell("late_result", spot.id, details=told)
        return Mend(kind="put back", what=spot.id, details=told)

    def drop_marks(self) -> None:
        """Requests to stop what has ended since: no worker reads them any more, and nothing is out of order."""
        for task_id in fs.names(self.folder.at(STOPS)):
            if is_word(task_id) and self.folder.outcome(task_id) is not None:
                fs.remove(self.folder.of(STOPS, task_id))

    def leftovers(self) -> Iterator[Mend]:
        """Temporary files of verbs that never came to their commit, once they no longer can.

        Only a claim that was there when a part was written can seal it: if the task is not claimed now, and after
        that look its end is not under way, nobody needs the part. The other way round it is sealed in between.
        """
        found = list(self._tmp())
        claimed = {spot.id for spot in self.folder.spots(self.folder.layout.claimed, State.CLAIMED)}
        ending = {nonce for _, nonce, _ in self.folder.sealed()}
        putting = {tuple(words[:2]) for _, words, _ in found if words[2:3] == ["put"]}
        for path, words, status in found:
            if self.folder.clock.now() - status.st_ctime < self.folder.config.keep_tmp:
                continue
            if len(words) == 3 and (words[0] in claimed or words[1] in ending or tuple(words[:2]) in putting):
                continue
            if not stat.S_ISREG(status.st_mode):
                yield self._aside(
                    f"{self.folder.layout.tmp}/{path.rpartition('/')[2]}", "it is not a regular file", status
                )
                continue
            ours = is_word(words[0]) and len(words) > 2
            if self.act and ours and words[2] == "put" and len(words) == 4:
                self._clear_put(path, words)
            elif self.act and ours and words[2] == "id":  # in two steps: it may just have been linked
                fs.move(path, self.folder.tmp(words[0], words[1], GONE))
            elif self.act:
                fs.remove(path)
            yield Mend(kind="swept", what=words[0], details=f"left over: {path.rpartition('/')[2]}")

    def _clear_put(self, path: str, words: list[str]) -> None:
        """Nobody may link it any more; then it was registered and comes in, or never will be.

        Whoever stops half way leaves names by which `puts` carries on.
        """
        folder = self.folder
        if folder.layout.rewritten:
            original = folder.tmp(words[0], words[1], GONE)
            fs.move(folder.tmp(words[0], words[1], "id"), original)
        else:
            original = folder.tmp(words[0], fs.fresh_name(), f"put~{words[3]}")
            fs.move(path, original)
            path = original
        put = fresh_status(original)
        if put is not None and put.st_nlink > 1:  # counted by the file: an id that was not there may still seem so
            enter(folder, words[0], path, f"{folder.layout.ready}/{words[3]}")
        else:
            fs.remove(path)
        fs.remove(original)

    def _tell_once(self, action: str, task_id: str, details: str) -> None:
        if not changelog.mentions(self.folder.at(CHANGELOG), action, task_id):
            self.folder.tell(action, task_id, details=details)

    def _aside(self, path: str, reason: str, judged: fs.Stat | None = None) -> Mend:
        where = self.folder.set_aside(path, reason, judged) if self.act else None
        return Mend(kind="set aside", what=path, details=f"{reason}; now {where}" if where else reason)


def _reads_like(one: str, other: str) -> bool:
    """Whether these are the same in two files: git makes another when a branch comes back."""
    try:
        return fs.read(one, LARGEST_RESULT)[0] == fs.read(other, LARGEST_RESULT)[0]
    except OSError:
        return False
