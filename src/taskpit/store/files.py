"""The queue that is a folder: the Store port by the commit table. One system call decides each verb.

Knows when something has happened; not what should happen next (queue), nor what things are called
(layouts). Ends of claims are in `ending`, lapsed claims in `judge`, repairs in `mend`, looking in `look`.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from taskpit import fs, workers
from taskpit.clock import iso
from taskpit.errors import Conflict, Invalid
from taskpit.layouts import Spot
from taskpit.layouts.layout import check_word
from taskpit.model import Claim, End, Event, Lock, Said, State, Task, Want
from taskpit.nonces import own
from taskpit.store import changelog
from taskpit.store import claim as claims
from taskpit.store.claim import Chooser
from taskpit.store.disk_errors import storage_error, verb
from taskpit.store.folder import CHANGELOG, IDS, LINE, NOTES, STOPS, Unreadable, stub
from taskpit.store.folder_store import House
from taskpit.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from taskpit.clock import Clock
    from taskpit.config import Config
    from taskpit.layouts import Layout
    from taskpit.model import Card, Page
    from taskpit.store import finish as finishing
    from taskpit.store import put as putting
    from taskpit.store.folder_store import FileMember
    from taskpit.store.index import Placed
    from taskpit.store.manifest import Manifest
    from taskpit.store.port import Lapse, Mend
    from taskpit.store.waiters import Line
else:
    putting = finishing = None


def _load_putting() -> None:
    """A command that only claims does without; who stays loads it once."""
    global putting  # noqa: PLW0603
    from taskpit.store import put as putting


def _load_finishing() -> None:
    """As above."""
    global finishing  # noqa: PLW0603
    from taskpit.store import finish as finishing


#: A process that puts one task after the other reserves up to so many ids at a time.
LARGEST_BLOCK = 64
#: That nobody else uses an id that is reserved is believed for so many seconds.
FRESH = 1.0
#: What was spelt is kept from vetting to putting for so many tasks at most.
MANY = 1000


class FileStore(House):
    """A Store over one folder. Safe to share between threads, except that only one of them may `wait`."""

    def __init__(
        self, root: str, layout: Layout, config: Config, clock: Clock | None = None, *, grace: float = 2.0
    ) -> None:
        super().__init__(root, layout, config, clock, grace)
        self._chooser = Chooser(self.folder)
        #: Whoever looks at what is ready takes turns: looking also learns.
        self._turn = allocate_lock()
        #: Tasks that were vetted and not put yet, by their identity; as they will be called, and their bytes.
        self._spelt: dict[int, tuple[Task, Task, bytes]] = {}
        self._orphans: set[tuple[str, str]] = set()
        self._manifest: Manifest | None = None
        #: Ids that are ours to give out, the next one last; and how many to reserve when they are used up.
        self._ids: list[str] = []
        self._ids_of = ""
        self._block = 1
        #: When they were last known to be nobody else's, and those that were given out last.
        self._ids_at = 0.0
        self._allotted: frozenset[str] = frozenset()
        self._turn_of_ids = allocate_lock()
        #: Our place among those who wait here, and whether we were woken and have not claimed since.
        self._line: Line | None = None
        self._woken = False
        #: The process all this belongs to.
        self._of = own.first

    # -- put ---------------------------------------------------------------------------------------

    @verb
    def allot(self, parents: Sequence[str]) -> list[str]:
        """Numbers from a counter under a lock; what it has lost is made up from the registry."""
        if len(parents) != 1 or parents[0]:
            from taskpit.store.ids import allot

            ids = allot(self.folder, len(parents))
            self._allotted = frozenset(ids)
            return ids
        layout, first = self.folder.layout, self.folder.layout.first_number(self.clock.now())
        if self._of != own.first:
            self._part_if_forked()
        with self._turn_of_ids:
            if self._ids_of != own.first:  # also after a fork: what was reserved is the parent's
                self._ids, self._ids_of = [], own.first
            if first > 1:  # numbered by the clock, which has gone past some
                self._ids = [one for one in self._ids if not 0 < layout.number(one) < first]
            if not self._ids or self.clock.monotonic() - self._ids_at > FRESH:
                self._reserve()
            ids = [self._ids.pop()]
            self._allotted = frozenset(ids)
            return ids

    def _reserve(self) -> None:
        """There are ids to give out, and nobody else uses them."""
        from taskpit.store.ids import allot, unused

        now = self.clock.monotonic()
        if self._ids:
            self._ids, self._ids_at = unused(self.folder, self._ids), now
        if not self._ids:
            self._ids, self._ids_at = allot(self.folder, self._block)[::-1], now
            self._block = min(2 * self._block, LARGEST_BLOCK)

    @verb
    def vet(self, tasks: Sequence[Task]) -> None:
        """Names and sizes, and whether other programs have used the ids that we did not choose ourselves."""
        keep, spelt = len(tasks) <= MANY, dict[int, tuple[Task, Task, bytes]]()
        chosen: list[Task] = []
        for task in tasks:
            for need in task.needs:
                check_word(need, "need")
        for task in tasks:
            named, data = self._spell(task)
            if task.id not in self._allotted:
                chosen.append(named)
            if keep:  # to keep very many would take too much room
                spelt[id(task)] = (task, named, data)
        self._spelt = spelt
        if chosen:
            self._make_known(chosen)

    def _make_known(self, tasks: Sequence[Task]) -> None:
        """What other programs have under the very names of these has their ids: ours must not push it aside."""
        from taskpit.store.ids import free
        from taskpit.store.registry import make_known

        nobodys = set(free(self.folder, tasks, [self.folder.layout.claimed]))
        for task in tasks:
            if task.id not in nobodys and not make_known(self.folder, task):
                told = f"{task.id} exists already: another program has a file of this name"
                raise Conflict(told, hint="Choose another id.", id=task.id)

    def _spell(self, task: Task) -> tuple[Task, bytes]:
        """The task as it will be called, and its bytes."""
        task = self.folder.layout.named(task)
        return task, self.folder.spell(task)

    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Row *put*: the id is taken by a link, the file enters by a rename of its own name."""
        if putting is None:
            _load_putting()
        entrants = []
        for task in tasks:
            vetted = self._spelt.pop(id(task), None)  # as it was spelt then, if that was just now
            named, data = self._spell(task) if vetted is None else vetted[1:]
            told = changelog.line(self.clock.now(), "added_task", named.id, named.by or "keeper", named.title)
            entrants.append((named, data, told))
        try:
            said = putting.admit(self.folder, entrants)
            for at, (named, data, _) in enumerate(entrants):
                if said[at] is not Said.CREATED:
                    said[at] = self._compared(named, data)
        except OSError as error:
            raise storage_error(error) from error.with_traceback(None)
        finally:
            if self.folder.layout.manifest:
                self._changed()
        return said

    def _changed(self, *, now: bool = False) -> None:
        """Tell those who read an index instead of the names; it is derived, so its trouble is not ours."""
        if not self.folder.layout.manifest:
            return
        from taskpit.store.manifest import Manifest

        self._manifest = self._manifest or Manifest(self.folder)
        try:
            self._manifest.refresh(now=now)
        except OSError:
            return  # the mark it left is found by the next change or sweep

    def _catch_up(self) -> None:
        """There is time for what was put off."""
        if self._manifest is not None and self._manifest.late:
            self._manifest.refresh_at_last()

    def _compared(self, task: Task, data: bytes) -> Said:
        """What there is of this id, beside what was to be put."""
        if self.folder.durable:  # whoever put it may not have come so far yet, and we shall say that it is there
            fs.sync_path(self.folder.of(IDS, task.id))
            self.folder.sync(IDS)
        known = self.folder.original(task.id)
        mine = self.folder.layout.load(Spot(state=State.READY, id=task.id), data)
        return Said.EXISTS if known and known.wish() == mine.wish() else Said.CONFLICT

    # -- claim -------------------------------------------------------------------------------------

    def claim(self, want: Want) -> list[Claim]:
        """Row *claim*: whoever renames the ready file has it."""
        try:
            if (want.worker, want.lease) not in self._introduced:
                self._introduce(want.worker, want.lease)
            if want.ids:
                taken = self._take_named(want)
            else:
                if self._of != own.first:
                    self._part_if_forked()
                with self._turn:
                    taken = self._chooser.take_best(want)
            if self._line is not None:
                self._leave_line(woken=not taken)
        except OSError as error:
            raise storage_error(error) from error.with_traceback(None)
        if taken and self.folder.layout.manifest:
            self._changed()
        return taken

    def _take_named(self, want: Want) -> list[Claim]:
        """The tasks that were asked for by their ids."""
        if not want.even_held and self.paused():
            return []
        taken = self._chooser.take_named(want)
        if not taken:
            self.folder.need()
        return taken

    def state_of(self, task_id: str, is_waiting: Callable[[str], bool] | None = None) -> State | None:
        """Where a task is; `is_waiting` knows the ready ones, where somebody has listed them."""
        return self._chooser.state_of(task_id, is_waiting)

    def being_written(self) -> list[str]:
        """Names of ready files that others are still writing, as of the last look at what is ready."""
        self._part_if_forked()
        with self._turn:
            return self._chooser.being_written()

    def ready_page(self, after: tuple[Any, ...] | None, limit: int, *, tied: bool) -> list[Placed]:
        """What is ready, in order, after one of them."""
        self._part_if_forked()
        with self._turn:
            return self._chooser.ready_page(after, limit, tied=tied)

    # -- renew and finish --------------------------------------------------------------------------

    @verb
    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """Row *renew*: stamp by path; a name that is gone is a claim that is over."""
        said = [claims.renew(self.folder, claim, lease) for claim in held]
        if Said.LOST in said:
            self.folder.need()
        self._catch_up()
        return said

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """Row *end of a claim*: seal, then carry out."""
        if finishing is None:
            _load_finishing()
        try:
            if len(ends) == 1:
                return [self._patiently(finishing.end, self.folder, ends[0])]
            return finishing.end_all(self.folder, ends, self._patiently) if ends else []
        except OSError as error:
            raise storage_error(error) from error.with_traceback(None)
        finally:
            if self.folder.layout.manifest:
                self._changed()

    def _patiently(self, step: Callable[..., Said], *given: object) -> Said:
        """The step, repeated with what is held back for it where the disk is full.

        A step that was decided before it was refused says ALREADY when it is repeated: it was ours.
        """
        try:
            return step(*given)
        except OSError as error:
            from taskpit.store.disk_reserve import make_room

            if not make_room(self.folder, error):
                raise
        said = step(*given)
        return Said.OK if said is Said.ALREADY else said

    # -- what people do ----------------------------------------------------------------------------

    @verb
    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """A failed outcome becomes the token of a ready task; its result goes to the late ones."""
        from taskpit.store.reopening import reopen

        said = [reopen(self.folder, task) for task in tasks]
        self._changed()
        return said

    @verb
    def note(self, task_id: str, text: str, worker: str) -> None:
        """Append to the task's notes."""
        line = f"- {iso(self.clock.now())} {one_line(worker)}: {text.rstrip()}\n"
        fs.append(self.folder.of(NOTES, self.folder.layout.check_id(task_id), ".md"), line.encode("utf-8", "replace"))
        self.folder.tell("noted", task_id, worker, text)

    # -- workers -----------------------------------------------------------------------------------

    @verb
    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> FileMember:
        """Hold the lock on the worker's record."""
        member = super().join(worker, lease, patience=patience)
        # We hold the lock that the name's last owner held for life: whatever it had claimed is nobody's.
        for spot in self.folder.claims():
            if workers.MARK in spot.worker and workers.base(spot.worker) == worker:
                self._orphans.add((spot.path, spot.worker))
        return member

    @verb
    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """Claims by the rules of `judge`, and those of our own names that an earlier process left."""
        from taskpit.store.leases import lapsed
        from taskpit.store.port import Lapse

        found = []
        for spot, why in lapsed(self.folder, self._orphans):
            reason = why
            try:
                task = self.folder.load(spot, self.folder.at(spot.path))
            except (FileNotFoundError, Unreadable):
                continue
            except Invalid as error:
                if dry_run:
                    task, reason = stub(spot), f"{why}; its file would be set aside: {error.message}"
                else:
                    original = self.folder.spoilt(spot, error.message)
                    if original is None:
                        continue
                    task = original
            claim = Claim(task=task, worker=workers.base(spot.worker), fence=spot.worker, attempt=task.attempts + 1)
            told = changelog.mentions(self.folder.at(CHANGELOG), "claimed_task", task.id, worker=spot.worker)
            if not told and not dry_run:
                self.folder.tell("claimed_task", task.id, spot.worker, "seen by the keeper")
            stop = fs.exists(self.folder.of(STOPS, task.id))
            found.append(Lapse(claim=claim, reason=reason, called_off=stop))
        return found

    @verb
    def mend(self, *, dry_run: bool = False) -> list[Mend]:
        """Everything that `mend` knows how to repair."""
        from taskpit.store.disk_reserve import hold
        from taskpit.store.mend import mend

        self.folder.hold_all()
        if self.folder.config.git == "track" and not dry_run:
            from taskpit.store.git_tracked import agree

            agree(self.folder)
        found = mend(self.folder, dry_run=dry_run)
        if not dry_run:
            hold(self.folder)
            self._changed(now=True)
        return found

    @verb
    def fix(self, *, dry_run: bool = False) -> list[Mend]:
        """Everything that can be put right."""
        from taskpit.store.doctor import fix

        found = fix(self.folder, dry_run=dry_run)
        if not dry_run:
            self._changed(now=True)
        return found

    @verb
    def check(self) -> list[Mend]:
        """Every invariant of the tree, looked at and not touched."""
        from taskpit.store.doctor import examine

        return examine(self.folder)

    # -- look --------------------------------------------------------------------------------------

    @verb
    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Each task as it stands."""
        from taskpit.store.cards import cards

        return cards(self, ids)

    @verb
    def resolve(self, text: str) -> list[str]:
        """Itself, the number it is short for, or what begins with it."""
        from taskpit.store.ids import resolve

        return resolve(self.folder, text)

    @verb
    def page(self, state: State | None = None, after: str = "", limit: int = 1000, *, tied: bool = False) -> Page:
        """Cards, ready ones in the order they will be taken, then claimed, failed and done ones."""
        from taskpit.store.cards import page

        return page(self, state, after, limit, tied=tied)

    @verb
    def counts(self) -> dict[State, int]:
        """By names alone."""
        from taskpit.store.cards import counts

        return counts(self.folder)

    @verb
    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """Lines of the changelog."""
        self.folder.need()
        return changelog.read(self.folder.at(CHANGELOG), after, limit)

    @verb
    def latest(self, limit: int) -> tuple[list[Event], str]:
        """The last lines of the changelog."""
        self.folder.need()
        return changelog.latest(self.folder.at(CHANGELOG), limit)

    @verb
    def record(self, events: Sequence[Event]) -> None:
        """More lines; of results that were written elsewhere, and differently, no digest."""
        changelog.append(self.folder.at(CHANGELOG), [changelog.marked(event, "") for event in events])

    @verb
    def compost(self, *, dry_run: bool = False) -> list[Mend]:
        """Logs into the digest, results by the settings."""
        from taskpit.store.retention import compost

        return compost(self.folder, dry_run=dry_run)

    @verb
    def archive(self, older: float, *, dry_run: bool = False) -> list[Mend]:
        """Results published so many seconds ago are in the folder of their month; everything still finds them."""
        from taskpit.store.retention import archive

        return archive(self.folder, older, dry_run=dry_run)

    @verb
    def locks(self) -> list[Lock]:
        """The files that are there."""
        from taskpit.store.locks import locks

        return locks(self.folder)

    @verb
    def wait(self, timeout: float) -> bool:
        """Sleep in the kernel until something comes that may be for us, in line with others who wait."""
        self._catch_up()
        self._part_if_forked()
        with self._turn:
            watch = self._chooser.watch()
        if watch is None:
            return True  # something may have come before we watched
        line, end = self._stand_in_line(), time.monotonic() + timeout
        while True:
            left = max(end - time.monotonic(), 0.0)
            if not line.first():
                line.sleep(left)
            elif watch.wait(left):
                with self._turn:
                    self._woken = self._chooser.hear()
                if self._woken:
                    return True
            if not left:
                return False

    def _part_if_forked(self) -> None:
        """After a fork, what tells of changes, the place in line and whoever has the turn are the parent's."""
        if self._of != own.first:
            self._of, self._turn, self._woken = own.first, allocate_lock(), False
            self._turn_of_ids = allocate_lock()
            self._chooser.part()
            if self._line is not None:
                self._line.part()
                self._line = None

    def _stand_in_line(self) -> Line:
        """Whoever was woken and comes back without a claim could not use what came: the next one's turn."""
        if self._line is None:
            from taskpit.store.waiters import Line

            self._line = Line(self.folder.at(LINE))
        self._leave_line(woken=True)
        return self._line

    def _leave_line(self, *, woken: bool) -> None:
        """Let others be woken, if we were or have what we wanted."""
        if self._line is not None and (self._woken or not woken):
            self._woken = False
            self._line.leave()

    def close(self) -> None:
        """Let go of what is kept open, and give back what is not used."""
        self._part_if_forked()
        try:
            self._chooser.close()
            if self._manifest is not None:
                self._manifest.refresh_at_last()
            if self._ids and self._ids_of == own.first:
                from taskpit.store.ids import give_back

                give_back(self.folder, self._ids)
                self._ids = []
            if self._line is not None:
                self._line.close()
                self._line = None
        finally:
            self.folder.close()
