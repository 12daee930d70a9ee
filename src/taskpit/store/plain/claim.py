"""Claims begin: the row *claim* of the protocol (see `pending`)."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from taskpit import rules
from taskpit.errors import Invalid
from taskpit.ids import is_word
from taskpit.layouts import Spot
from taskpit.model import Claim, State, Task, Want
from taskpit.rules import Use
from taskpit.store.plain import conflicts, paths
from taskpit.store.plain.files import Stat
from taskpit.store.plain.folder import Folder, Unreadable
from taskpit.store.plain.paths import Token, part_of
from taskpit.store.plain.ready_cache import ReadyCache, Row, sign_of
from taskpit.store.plain.upkeep_files import note_starts, paused, starts

#: Looks at what is ready within one claim, when what was looked at had changed.
LOOKS = 4


class Taken(NamedTuple):
    """A ready file that is ours, and as it was when it was judged."""

    spot: Spot
    fence: str
    judged: Stat
    #: As it was read before, if all of it is known.
    task: Task


class Claimer:
    """Claims tasks of one queue. Used by one thread at a time."""

    def __init__(self, folder: Folder, cache: ReadyCache) -> None:
        self._folder = folder
        self._cache = cache
        self._use: Use | None = None
        self._needs: dict[str, State | None] = {}

    def claim(self, want: Want) -> list[Claim]:
        """Claim up to `want.count` tasks that fit, exactly by priority and age while nothing else changes."""
        taken = self._attempt(want)
        if not taken and self._left_by_others():
            taken = self._attempt(want)
        claims = [claim for one in taken if (claim := self._read(one, want)) is not None]
        return claims if claims or not taken else self.claim(want)

    def _attempt(self, want: Want) -> list[Taken]:
        folder, cache = self._folder, self._cache
        if not want.ids:
            cache.refresh()
        before = folder.lock.recoveries
        with folder.lock.hold("claim"):
            self._use, self._needs = None, {}
            if not want.even_held and paused(folder):
                return []
            if want.ids:
                taken = self._take_named(want)
            else:
                taken = self._take_best(want, again=folder.lock.recoveries != before)
            if taken and not want.even_held:
                lines = (folder.line("claimed_task", one.spot.id, one.fence) for one in taken)
                folder.log.append(b"".join(lines))
        return taken

    def _left_by_others(self) -> bool:
        """Complete what a process left that died between deciding and showing; True if there was something."""
        folder = self._folder
        if not folder.files.names(paths.PENDING):
            return False
        with folder.lock.hold("claim"):
            return bool(folder.pending.recover())

    def _take_best(self, want: Want, *, again: bool) -> list[Taken]:
        taken: list[Taken] = []
        for _ in range(LOOKS):
            if again:
                self._cache.refresh()
            again = self._settle_odd()
            for row in self._cache.rows():
                if len(taken) == want.count:
                    return taken
                if self._fits(row.task, want):
                    again = self._take_row(row, want, taken) or again
            if taken or not again:
                break
        return taken

    def _settle_odd(self) -> bool:
        """Judge files that are not plainly tasks; whether one may have become one."""
        changed = False
        for name in sorted(self._cache.odd):
            status = self._folder.files.stat(self._folder.ready_path(name))
            if status is None or (status.st_size and not self._folder.is_young(status)):
                self._cache.odd.discard(name)
                changed = conflicts.settle(self._folder, name) is not None or changed
        return changed

    def _take_row(self, row: Row, want: Want, taken: list[Taken]) -> bool:
        """Take one file; True if it was not as it was known, so that what is ready must be looked at again."""
        spot = self._folder.ready_spot(row.name)
        here = self._judge(row.name, spot, row.task)
        if here is None or spot is None or sign_of(here) != row.sign:
            self._cache.forget(row.name)
            self._cache.learn(row.name, self._folder.files.stat(self._folder.ready_path(row.name)))
            return here is not None
        one = self._take(spot, row.task, here, want)
        if one is not None:
            self._cache.forget(row.name)
            taken.append(one)
        return one is None

    def _take_named(self, want: Want) -> list[Taken]:
        taken: list[Taken] = []
        for task_id in want.ids:
            for name in self._names_of(task_id):
                spot = self._folder.ready_spot(name)
                here = self._judge(name, spot)
                if here is None or spot is None or len(taken) == want.count:
                    continue
                with suppress(FileNotFoundError, Unreadable):
                    data, read = self._folder.read(spot.path)
                    task = self._folder.parse(spot, data)
                    if self._folder.is_damaged(spot, data, read):
                        conflicts.settle(self._folder, name)
                        continue
                    one = self._take(spot, task, here, want) if self._fits(task, want) else None
                    taken += [one] if one is not None else []
        return taken

    def _names_of(self, task_id: str) -> list[str]:
        """Find the ready file of an id: where it was put, else by a listing."""
        folder = self._folder
        original = folder.original(task_id) if is_word(task_id) else None
        if original is not None:
            name = folder.ready_name(folder.layout.named(original.replace(id=task_id)))
            if folder.files.stat(folder.ready_path(name)) is not None:
                return [name]
        ready = folder.spots(folder.layout.ready, State.READY)
        return [one.path.rpartition("/")[2] for one in ready if one.id == task_id]

    def _judge(self, name: str, spot: Spot | None, task: Task | None = None) -> Stat | None:
        """Look whether a ready file is its task, settling what is not plain; its status, or None."""
        folder = self._folder
        here = folder.files.stat(folder.ready_path(name))
        opened = folder.files.stat(paths.open_path(spot.id)) if spot is not None else None
        plain = here and opened and here.st_nlink == 2 and here.st_size and opened.st_ino == here.st_ino
        if plain and spot is not None and (folder.in_place or folder.foreign_end(task or spot) is None):
            return here
        return conflicts.settle(folder, name)

    def _take(self, spot: Spot, task: Task, here: Stat, want: Want) -> Taken | None:
        """Stamp the file and rename it: the one call that decides."""
        folder = self._folder
        fence = want.worker if want.verbatim else f"{want.worker}~{want.call or folder.nonce()}"
        until = folder.clock.now() + want.lease - folder.cleaned_after
        if (task.touches or task.limits) and not want.even_held:
            note_starts(folder, task, self._used)
        if folder.layout.guarded:
            moved = self._take_copy(spot, fence, until)
        else:
            folder.stamp(spot.path, until, fence)
            moved = folder.move(spot.path, folder.layout.claimed_path(spot, fence))
        if not moved:
            return None
        if (task.touches or task.limits) and self._use is not None:
            self._use = None
        return Taken(spot, fence, here, task)

    def _take_copy(self, spot: Spot, fence: str, until: float) -> bool:
        """Mailbox: the holder's name is in the file, so the claimed file is a copy that has it."""
        folder = self._folder
        try:
            task = folder.load(spot)
        except (FileNotFoundError, Unreadable):
            return False
        data = folder.layout.claimed_bytes(task, fence, folder.clock.now())
        name = spot.path.rpartition("/")[2]
        held = part_of(name, folder.nonce(), "held", data)
        token = Token(name, held.nonce, "claim")
        folder.files.create(held.path, data, modified=until)
        claimed = folder.layout.claimed_path(spot, fence)
        if not folder.files.move(spot.path, token.path):
            folder.files.remove(held.path)
            return False
        try:
            folder.move(held.path, claimed)
        except FileExistsError:  # another program's claim of the same name
            folder.files.remove(held.path)
            folder.move(token.path, spot.path)
            return False
        folder.files.remove(token.path)
        return True

    def _read(self, taken: Taken, want: Want) -> Claim | None:
        """Read what was claimed. Another file than the one that was judged goes back."""
        folder, spot = self._folder, taken.spot
        claimed = spot.replace(state=State.CLAIMED, worker=taken.fence)
        path = folder.layout.claimed_path(spot, taken.fence)
        try:
            data, read = folder.read(path)
            known = taken.task.source == data and not folder.layout.guarded
            task = taken.task if known else folder.parse(claimed, data)
        except FileNotFoundError:
            return None
        except Invalid as error:
            if not isinstance(error, Unreadable):
                folder.set_aside(path, error.message)
            return None
        same = folder.layout.guarded or read.st_ino == taken.judged.st_ino
        if not same or not (want.even_held or self._still_fits(task)):
            self._give_back(spot, taken.fence)
            return None
        return Claim(
            task=task,
            worker=want.worker,
            fence=taken.fence,
            lease=want.lease,
            attempt=task.attempts + 1,
            since=folder.clock.now(),
        )

    def _still_fits(self, task: Task) -> bool:
        return not task.hold and task.not_before <= self._folder.clock.now()

    def _give_back(self, spot: Spot, fence: str) -> None:
        folder = self._folder
        token = Token(spot.path.rpartition("/")[2], folder.nonce(), "back")
        with folder.lock.hold("release"):
            if folder.files.move(folder.layout.claimed_path(spot, fence), token.path):
                folder.pending.complete(token, "it was changed while it waited")

    # -- what may be taken -------------------------------------------------------------------------------------------

    def _fits(self, task: Task, want: Want) -> bool:
        if not rules.suits(task, want):
            return False
        if want.even_held:
            return True
        if rules.held(task, self._folder.clock.now(), self.state_of):
            return False
        return not ((task.touches or task.limits) and excluded(task, self._used))

    @property
    def _used(self) -> Use:
        if self._use is None:
            self._use = in_use(self._folder)
        return self._use

    def state_of(self, task_id: str) -> State | None:
        """Tell where a task is that another needs, as far as a claim must know: done or not."""
        if task_id not in self._needs:
            self._needs[task_id] = State.DONE if is_done(self._folder, task_id) else State.READY
        return self._needs[task_id]


def is_done(folder: Folder, task_id: str) -> bool:
    """Tell whether a task is done, also by a result that another program has just written."""
    if not is_word(task_id):
        return False
    if folder.files.stat(paths.ended_path(task_id, "~done")) is not None:
        return True
    opened = folder.files.stat(paths.open_path(task_id))
    original = folder.original(task_id) if opened is not None else None
    if original is not None:
        end = folder.foreign_end(folder.layout.named(original))
        return end is not None and end.state is State.DONE
    if folder.is_known(task_id):
        return False
    spots = (spot for place in folder.layout.results for spot in folder.spots(place, State.DONE))
    return any(spot.id == task_id for spot in spots)


def in_use(folder: Folder) -> Use:
    """Return what running tasks use, and when limited keys were last used."""
    running = []
    for spot in folder.claims():
        with suppress(FileNotFoundError, Invalid):
            running.append(folder.load(spot))
    now, settings = folder.clock.now(), folder.config.limits
    return Use(running=tuple(running), starts=starts(folder), settings=settings, now=now)


def excluded(task: Task, use: Use) -> str:
    """Return why a task may not run next to those; empty if it may."""
    return rules.in_the_way(task, use.running) or rules.over_limit(task, use)[0]
