"""Row *claim* of the commit table: which ready file to try for, and one rename that decides who has it.

    choose    the best candidate that fits, by priority and age (`Chooser`, from `index`)
    known     stat ids/<id>, its outcomes and the visible result: the registered task, with no name besides these
              two, and it has not ended; anything else is judged first (`registry`)
    decide    utime ready = now + lease, less what a foreign cleaner waits; rename ready to claimed
    look      stat claimed: whether it was that very file, and whose stamp it has
    tell      one line of the log for all that were taken

Keeping a claim is a stamp by its path, which is gone when the claim is over.
"""

from __future__ import annotations

from taskpit import fs, rules, workers
from taskpit.clock import JUMP
from taskpit.errors import Conflict, Invalid, Unavailable
from taskpit.ids import name_of
from taskpit.layouts import Spot
from taskpit.layouts.layout import is_word
from taskpit.model import Claim, End, Said, State, Task, Verdict, Want
from taskpit.store import changelog
from taskpit.store.flock import BoundedLock
from taskpit.store.folder import IDS, OUTCOMES, STOPS, TOUCHES, Folder, Unreadable, freshen, part_name
from taskpit.store.folder_store import PAUSED, paused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from taskpit.clock import Clock
    from taskpit.model import Task, Want
    from taskpit.store.index import Placed, Ready
    from taskpit.watch import Watch


def stamp(folder: Folder, path: str, until: float, record: str) -> bool:
    """The claim lasts until then; False if its name is gone.

    Only its owner may set a file's times. What another user put is claimed all the same: then the worker's own
    record is stamped. If that is another's too, there must at least be a sign of life on the file.
    """
    try:
        return fs.set_times(path, until - folder.cleaned_after)
    except PermissionError:
        if not fs.exists(path):
            return False
    try:
        return fs.set_times(record, until) or fs.set_times(path, None)
    except PermissionError:
        return fs.set_times(path, None)


#: So many names a ready task has, if nothing is odd: its own and the registry's.
ALONE = 2
#: A stamp that differs by so many seconds is not ours.
SHIFTED = 2.0


def take(
    folder: Folder, ready: Spot, want: Want, known: Task | None = None, sign: tuple[int, int] | None = None
) -> Claim | None:
    """Row *claim*: try to take one ready file; None if somebody else was faster or it may not run.

    What was read of it before is `known`: if its bytes are the same, so is the task. It looked like `sign` then (inode
    and mtime): one that was written to since may not be whole.
    """
    fence, read = _fence(want), known if known is not None and known.was_read else None
    if sign is not None and not folder.layout.guarded:
        held = folder.hold(folder.of_claim)
        entry = fs.status_at(held[2], name_of(ready.id))
        if entry is not None and entry.st_ino == sign[0] and entry.st_nlink == ALONE:  # the registered task
            known_so = read is not None or _is_as_told(entry, sign)
            if known_so and not folder.is_over(known or ready, held):
                size = entry.st_size if read is None else len(read.source)
                return _take(folder, ready, fence, want, read, (sign[0], size))
    here = _judge(folder, ready, sign)
    if here is None:
        return None
    sure = sign == (here.st_ino, here.st_mtime_ns)  # nobody has written to it since it was read
    judged = here.st_ino, len(read.source) if read is not None else -1
    try:
        with folder.guard(ready.id):
            return _take(folder, ready, fence, want, read, judged, sure=sure)
    except Unavailable:
        return None  # somebody was stopped while deciding about it; there are others


def _is_as_told(entry: fs.Stat, sign: tuple[int, int]) -> bool:
    """Whether a registered file that only its row tells of has not been written to since."""
    return entry.st_mtime_ns == sign[1] and entry.st_size > 0


def _fence(want: Want) -> str:
    """By which this one claim is known."""
    return want.worker if want.verbatim else f"{want.worker}{workers.MARK}{want.call or fs.fresh_name()}"


def _judge(folder: Folder, ready: Spot, sign: tuple[int, int] | None) -> fs.Stat | None:
    """What is not known to be the task is judged before anything touches it; None: it is none, or not whole yet."""
    from taskpit.store.registry import put_away, register  # what we put ourselves is known without

    try:
        here = register(folder, ready)
    except Conflict as error:
        if put_away(folder, ready, error) != ready.path:
            return None
        here = fs.status(folder.at(ready.path))
    if here is None:
        return None
    # That a file without a name in the registry is whole was just found out.
    changed = sign is not None and sign != (here.st_ino, here.st_mtime_ns) and here.st_nlink > 1
    if (changed or not here.st_size) and folder.unfinished(folder.at(ready.path), here):
        return None
    return here


def _take(
    folder: Folder,
    ready: Spot,
    fence: str,
    want: Want,
    read: Task | None,
    judged: tuple[int, int],
    *,
    sure: bool = True,
) -> Claim | None:
    """Stamp and rename. After that one look says whether it was the file that was judged, by inode and size, and whose
    stamp it has. What was for `sure` read a moment ago is not read again.
    """
    layout, clock, target = folder.layout, folder.clock, f"{folder.root}/{folder.layout.claimed_path(ready, fence)}"
    began = clock.now()
    status = _move(folder, f"{folder.root}/{ready.path}", target, began + want.lease, verbatim=want.verbatim)
    if status is None:
        return None
    same = status.st_size == judged[1]
    if status.st_ino != judged[0] or not (same or layout.rewritten or _is_whole(folder, target, status)):
        _give_back(folder, ready, target, half=status.st_ino == judged[0])  # or another file
        return None
    since = clock.now()
    if abs(status.st_mtime + folder.cleaned_after - began - want.lease) >= SHIFTED or since - began > want.lease / 10:
        # Another who tried for it may have stamped it last, with a lease of its own or none at all; and one that stood
        # still before its rename has not much of its lease left.
        stamp(folder, target, since + want.lease, _record(folder, fence))
    if folder.even is None or abs(folder.even - since + clock.monotonic()) >= JUMP:
        _mind_the_clock(folder, fence)
    task = read if sure and same and read is not None else _load(folder, ready, target, read)
    if task is None:
        return None
    if layout.guarded:
        try:
            _write_holder(folder, task, fence, (target, status), since + want.lease)
        except OSError:  # no room: without a holder it would be nobody's
            _give_back(folder, ready, target)
            raise
    return Claim(task=task, worker=want.worker, fence=fence, lease=want.lease, attempt=task.attempts + 1, since=since)


def _move(folder: Folder, source: str, target: str, until: float, *, verbatim: bool) -> fs.Stat | None:
    """The lease is stamped, then one rename decides. A rename leaves the times alone, so whoever judges by the mtime
    never sees a claim that has none. What came to the target, as it looks then; None: nothing.
    """
    here, there, *_ = folder.hold(folder.of_claim)
    old, new = source[len(here.path) + 1 :], target[len(there.path) + 1 :]
    try:
        if not fs.set_times_at(here, old, until - folder.cleaned_after):
            return None
    except PermissionError:  # another user's: it is stamped where it may be, once it is ours
        if not freshen(source):
            return None
    if verbatim and _is_held(target):
        return None
    if fs.move_at(here, old, there, new):
        return fs.status_at(there, new) or fs.status(target)  # the directory may have been made anew
    # Git removes the directory of claims with the last of them.
    return fs.status(target) if folder.make_place(target) and fs.move(source, target) else None


def _is_whole(folder: Folder, target: str, status: fs.Stat) -> bool:
    """Whether no editor has begun to save it in place between our look and our rename, or is done."""
    return bool(status.st_size) and not folder.writing.has_writer(target)


def _is_held(target: str) -> bool:
    """Whether there is a claim of this name already, which must not be replaced: processes that share a name are one
    worker by declaration, so a look will do.
    """
    return fs.exists(target)


def _load(folder: Folder, ready: Spot, target: str, known: Task | None) -> Task | None:
    """The task that was claimed; None if it is none for us."""
    try:
        return folder.load(ready, target, known)
    except FileNotFoundError:
        return None
    except Unreadable:
        _give_back(folder, ready, target)
    except Invalid as error:
        if folder.writing.has_writer(target):
            _give_back(folder, ready, target)
        else:
            folder.set_aside(target[len(folder.root) + 1 :], error.message)
    except OSError:  # too many open files, a disk that fails: nobody would know of the claim until its lease ends
        _give_back(folder, ready, target)
        raise
    return None


def _give_back(folder: Folder, ready: Spot, target: str, *, half: bool = False) -> None:
    """What we may not read is nothing for us: where it was it is somebody's to look at.

    One that is `half` written says so by its time, until its writer goes on: it is moved in like one that is whole.
    """
    if half:
        from taskpit.store.registry import mark_half

        mark_half(folder, target)
    try:
        fs.move_new(target, folder.at(ready.path))
    except FileExistsError:
        return  # another file has come there: the lease of this one will end


def _write_holder(folder: Folder, task: Task, fence: str, taken: tuple[str, fs.Stat], until: float) -> None:
    """A fixed name says nothing of its holder: write it inside, unless the file was taken from us already."""
    target, before = taken
    name = part_name(task.id, fs.fresh_name(), "claim")
    # It takes the task's place, so it must not be torn where the task was whole.
    folder.write(name, folder.layout.claimed_bytes(task, fence, folder.clock.now()), sync=folder.durable)
    scratch = f"{folder.root}/{folder.layout.tmp}/{name}"
    fs.set_times(scratch, until - folder.cleaned_after)
    after = fs.status(target)
    if after is not None and before.st_ino == after.st_ino:
        fs.move(scratch, target)
    else:
        fs.remove(scratch)


def renew(folder: Folder, claim: Claim, lease: float) -> Said:
    """Row *renew*: stamp by path; a name that is gone is a claim that is over."""
    path = folder.layout.claimed_path(claim.task, claim.fence)
    with folder.guard(claim.task.id):
        until = folder.clock.now() + lease
        held = folder.holds(claim, path)
        if not held or not stamp(folder, folder.at(path), until, _record(folder, claim.fence)):
            return Said.LOST
    _mind_the_clock(folder, claim.fence)
    return Said.CANCEL if fs.exists(folder.of(STOPS, claim.task.id)) else Said.OK


def _record(folder: Folder, fence: str) -> str:
    """Where its worker's record lies."""
    return folder.worker_path(fence)


def _mind_the_clock(folder: Folder, fence: str) -> None:
    """A stamp made by a clock that was set since the worker's record is told: set back, it would seem old."""
    offset = folder.clock.offset()
    if folder.even is None:
        record = workers.load(_record(folder, fence))
        folder.even = record.offset if record else offset
    if abs(folder.even - offset) >= JUMP:
        from taskpit.store.leases import note_jump

        if note_jump(folder):
            folder.even = offset


#: That nothing fitted and nothing changed is believed for so many seconds, or a hundred times as long as looking took.
PATIENCE = 30.0
#: Of so many sorts of wish it is remembered.
SORTS = 16
#: Later than any task waits.
NEVER_DUE = float("inf")


def tell(folder: Folder, want: Want, taken: list[Claim]) -> None:
    """What was taken is told in one go; a person's change is told when it is made."""
    if taken and not want.even_held:
        try:
            now, lines = folder.clock.now(), b""
            for claim in taken:
                lines += changelog.line(now, "claimed_task", claim.task.id, claim.fence, "")
            folder.log(lines)
        except OSError:
            return  # they are claimed all the same; a keeper tells what it finds claimed


class Idle:
    """That nothing was there for this worker: true until something comes, is edited, becomes due or, if it is needed,
    ends; and not for ever, since a notice may get lost.
    """

    __slots__ = ("_due", "_ends", "_until", "news")

    def __init__(self, ends: tuple[int, ...], due: float, until: float, news: int) -> None:
        self._ends, self._due, self._until = ends, due, until
        #: What was known then: a look may have taken in since what a claim would have been told of.
        self.news = news

    def holds(self, ends: Callable[[], tuple[int, ...]], clock: Clock) -> bool:
        """Whether it is still so, given that nothing came and nothing was edited."""
        lasts = clock.now() < self._due and clock.monotonic() < self._until
        return lasts and (not self._ends or ends() == self._ends)


def _by_id(found: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The slugs of each id."""
    slugs: dict[str, set[str]] = {}
    for task_id, slug in found:
        slugs.setdefault(task_id, set()).add(slug)
    return slugs


class Chooser:
    """Finds candidates and tries for them."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._index: Ready | None = None
        #: Tasks with a published result, and its slugs, as of the time of its directory; and when to list it next.
        self._foreign: tuple[tuple[int, ...], dict[str, set[str]]] = ((), {})
        self._list_at = 0.0
        #: That nothing fitted when we last looked, by the sort of wish, and when the next of what waits for its time is
        #: due.
        self._idle: dict[tuple[object, ...], Idle] = {}
        self._next_due = NEVER_DUE
        self._needs = self._asked = False
        #: What is in use, as of this claim; whoever takes looks again.
        self._use: rules.Use | None = None
        #: Which needs are done, and when results last changed, as of this look: hundreds may wait for the same few.
        self._met: dict[str, State] = {}
        self._seen: tuple[int, ...] | None = None
        #: The slugs of registered tasks that others need, and since when they are known.
        self._slugs: dict[str, tuple[str, str]] = {}
        self._slugs_at = 0.0

    @property
    def _ready(self) -> Ready:
        """What is ready, as this process knows it; a command that names its task does without."""
        if self._index is None:
            from taskpit.store.index import Ready

            self._index = Ready(self.folder)
        return self._index

    def part(self) -> None:
        """We were forked: what the parent knows is its own."""
        if self._index is not None:
            self._index.part()
            self._index = None
        self._idle.clear()

    def close(self) -> None:
        """Stop watching."""
        if self._index is not None:
            self._index.close()

    def watch(self) -> Watch | None:
        """What tells of changes; None if nobody watched until now."""
        return self._ready.watch()

    def hear(self) -> bool:
        """Take in what has changed; whether something came that may be for us."""
        return self._ready.hear()

    def take_best(self, want: Want) -> list[Claim]:
        """The best that fit, by priority and age. That nothing did is remembered until something changes."""
        ready = self._index or self._ready
        sort = want.tags, want.big, want.even_held, want.kind  # what decides whether a task fits, whoever asks
        idle = self._idle.pop(sort, None)
        if idle is not None and self._is_idle(idle):
            self._idle[sort] = idle
            return []
        began, told, knew = self.folder.clock.monotonic(), ready.told, self._needs
        ends = self._ends() if knew else ()  # only if needs were in the way when we last looked
        self._next_due, self._needs = NEVER_DUE, False
        ready.refresh()
        if not want.even_held and ready.may_be_paused() and self.is_paused():
            return []
        taken = self._take_some(want) or (self._take_some(want) if ready.recheck() else [])
        if not taken:
            self.folder.need()
        if not taken and not told and self._asked:
            ready.watch()  # whoever asks again is told of changes from now on
        self._asked = True
        if not taken and told and knew >= self._needs:
            now = self.folder.clock.monotonic()
            until = now + max(PATIENCE, 100 * (now - began))
            while len(self._idle) >= SORTS:
                del self._idle[next(iter(self._idle))]
            self._idle[sort] = Idle(ends if self._needs else (), self._next_due, until, ready.news)
        return taken

    def is_paused(self) -> bool:
        """Whether nothing is given out."""
        if fs.status(f"{self.folder.root}/{PAUSED}") is not None:
            return bool(paused(self.folder))
        self._ready.not_paused()
        return False

    def _is_idle(self, idle: Idle) -> bool:
        """Whether nothing has changed since nothing was there when we last tried."""
        ready = self._ready
        if ready.stirs() or ready.news != idle.news:
            return False
        return idle.holds(self._ends, self.folder.clock)

    def _ends(self) -> tuple[int, ...]:
        """What changes whenever a task ends."""
        return self._times(OUTCOMES, *self.folder.layout.results)

    def _results(self) -> tuple[int, ...]:
        """What changes whenever something is published."""
        return self._times(*self.folder.layout.results)

    def _times(self, *places: str) -> tuple[int, ...]:
        found = (fs.status(self.folder.at(place)) for place in places)
        return tuple(status.st_mtime_ns if status else 0 for status in found)

    def _look_anew(self) -> None:
        """What was seen by an earlier look counts no more."""
        self._use, self._seen = None, None
        self._met.clear()

    def _take_some(self, want: Want) -> list[Claim]:
        taken: list[Claim] = []
        self._look_anew()
        ready = self._index or self._ready
        try:
            for file, task, sign in ready.best(self._fits, want):
                spot = Spot(state=State.READY, id=task.id, slug=task.slug, path=f"{self.folder.layout.ready}/{file}")
                alone = bool(task.touches or task.limits)
                claim = self._take(spot, want, alone=alone, known=task, sign=sign)
                if claim is not None or not alone:  # one that was in a way stays a candidate
                    ready.gone(file, missed=claim is None)
                if claim is not None:
                    taken.append(claim)
                    self._use = None
                    if len(taken) == want.count:
                        break
        except OSError:
            if not taken:
                raise  # else they are given out although the disk refuses the next
        finally:
            tell(self.folder, want, taken)
        return taken

    def being_written(self) -> list[str]:
        """Names of ready files that are no tasks yet, as of the last look."""
        return self._ready.being_written()

    def ready_page(self, after: tuple[Any, ...] | None, limit: int, *, tied: bool) -> list[Placed]:
        """What is ready now, in order, from the first or after an order and name."""
        if after is None:
            self._ready.refresh(closely=True)
        return self._ready.page(after, limit, tied=tied)

    def take_named(self, want: Want) -> list[Claim]:
        """These, in this order, as far as they can be had."""
        taken: list[Claim] = []
        listed: dict[str, Spot] | None = None
        try:
            for task_id in want.ids:
                self._look_anew()
                spot = self.folder.where_put(task_id)
                if spot is None:
                    if listed is None:
                        ready = self.folder.spots(self.folder.layout.ready, State.READY)
                        listed = {one.id: one for one in ready}
                    spot = listed.get(task_id)
                claim = self._take_if_worth(spot, want) if spot is not None else None
                if claim is not None:
                    taken.append(claim)
                if len(taken) == want.count:
                    break
        except OSError:
            if not taken:
                raise
        finally:
            tell(self.folder, want, taken)
        return taken

    def _take_if_worth(self, ready: Spot, want: Want) -> Claim | None:
        """Claimed, if a look tells nothing against it: what is held is not moved just to be moved back."""
        path = self.folder.at(ready.path)
        here = fs.status(path)
        if here is None or self.folder.unfinished(path, here):
            return None
        try:
            known = self.folder.load(ready, path)
        except (FileNotFoundError, Unreadable):
            return None
        except Invalid as error:
            if not self.folder.being_written(path, here):
                self.folder.set_aside(ready.path, error.message, here)
            return None
        if not self._fits(known, want):
            return None
        alone = not want.even_held and bool(known.touches or known.limits)
        return self._take(ready, want, alone=alone, known=known, sign=(here.st_ino, here.st_mtime_ns))

    def _fits(self, task: Task, want: Want) -> bool:
        if (want.tags or want.big is not None) and not rules.suits(task, want):
            return False
        if want.even_held:
            return True
        if (task.hold or task.not_before or task.needs) and self._waits(task):
            return False
        if task.touches or task.limits:
            from taskpit.store.in_use import excluded, in_use  # few tasks say what they use

            self._use = self._use or in_use(self.folder)
            reason, due = excluded(task, self._use)
            if reason:
                self._next_due = min(self._next_due, due)  # 0: whoever is in its way may go at any time
            return not reason
        return True

    def _waits(self, task: Task) -> bool:
        """Whether a person, a time or another task keeps it; what would free it is noted."""
        now = self.folder.clock.now()
        if not rules.held(task, now, self._done_or_not):
            return False
        self._needs = self._needs or bool(task.needs)
        if task.not_before > now:
            self._next_due = min(self._next_due, task.not_before)
        return True

    def _done_or_not(self, task_id: str) -> State:
        """All that a claim needs to know of a need, for the price of one look."""
        state = self._met.get(task_id)
        if state is None:
            if not is_word(task_id):
                return State.READY  # nobody can ever do it; looking for it might lead anywhere
            seen = self._seen = self._seen or self._results()  # of our own: another thread may look anew meanwhile
            done = fs.exists(self.folder.outcome_path(task_id, Verdict.DONE)) or self._is_published(task_id, seen)
            state = self._met[task_id] = State.DONE if done else State.READY
        return state

    def _take_alone(self, spot: Spot, want: Want) -> Claim | None:
        """Tasks that declare what they change or use are claimed one at a time, none beside one in its way."""
        from taskpit.store.in_use import excluded, in_use, note_starts

        with BoundedLock(self.folder.at(TOUCHES)):
            try:
                task = self.folder.load(spot, self.folder.at(spot.path))
            except (FileNotFoundError, Unreadable):
                return None
            except Invalid:
                return take(self.folder, spot, want)  # which sets it aside
            use = in_use(self.folder)
            if excluded(task, use)[0]:
                return None
            note_starts(self.folder, task, use)
            return take(self.folder, spot, want)

    def _take(
        self,
        spot: Spot,
        want: Want,
        *,
        alone: bool,
        known: Task | None = None,
        sign: tuple[int, int] | None = None,
    ) -> Claim | None:
        """Try to claim one ready file, `known` by `sign` if it was read; None if it can't be had or should not."""
        claim = self._take_alone(spot, want) if alone else take(self.folder, spot, want, known, sign)
        if claim is None:
            return None
        if claim.task is not known and not self._fits(claim.task, want):  # it was edited after we had read it
            from taskpit.store import finish

            finish.end(self.folder, End(claim=claim, details="it was changed while it waited"))
            return None
        return claim

    def state_of(self, task_id: str, is_waiting: Callable[[str], bool] | None = None) -> State | None:
        """Where a task is, as cheaply as can be told: finished ones by their outcome, others by their id."""
        verdict = self.folder.outcome(task_id) if is_word(task_id) else None
        if verdict is not None:
            return verdict.state
        if self._is_published(task_id, self._results()):
            return State.DONE
        if self.folder.claims_of(task_id):
            return State.CLAIMED
        if is_word(task_id) and fs.exists(self.folder.of(IDS, task_id)):
            return State.READY
        known = is_waiting or (lambda one: bool(self.folder.find(self.folder.layout.ready, State.READY, one)))
        return State.READY if known(task_id) else None

    def _slugs_of(self, task_id: str) -> tuple[str, str] | None:
        """The slug of a task as it was put, and the one that its files have; None if it is not registered."""
        now = self.folder.clock.monotonic()
        if now - self._slugs_at > PATIENCE:
            self._slugs, self._slugs_at = {}, now
        slugs = self._slugs.get(task_id)
        if slugs is None:
            original = self.folder.original(task_id) if is_word(task_id) else None
            if original is None:
                return None
            slugs = self._slugs[task_id] = original.slug, self.folder.layout.named(original).slug
        return slugs

    def _is_published(self, task_id: str, seen: tuple[int, ...]) -> bool:
        """Whether a result stands in the layout's own place that nobody has taken for its outcome yet.

        Where it would lie is known of a task that is registered; for others the results are listed, when they
        have changed and, if that takes long, not more often than every twentieth part of the time.
        """
        folder, ours = self.folder, self._slugs_of(task_id)
        if ours is not None:
            spot = Spot(state=State.READY, id=task_id, slug=ours[1])
            if folder.ended_as(spot) is Verdict.DONE:
                return True
        began = folder.clock.monotonic()
        if seen != self._foreign[0] and began >= self._list_at:
            done = ((spot.id, spot.slug) for spot in folder.finished() if spot.verdict is Verdict.DONE)
            self._foreign = (seen, _by_id(done))
            self._list_at = began + 20 * (folder.clock.monotonic() - began)
        slugs = self._foreign[1].get(task_id)
        # Another slug: the result of another task, whose writer could not know that we had given out its number.
        return slugs is not None and (ours is None or not ours[0] or not slugs.isdisjoint(("", ours[0])))
