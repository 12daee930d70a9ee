"""Work items in a folder behind the Store port. Each verb is in its own module; this is where they meet."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from taskpit import fs, workers
from taskpit.clock import Clock, iso
from taskpit.config import Config
from taskpit.decode import read_cursor, read_json
from taskpit.errors import CursorLost, NotFound, TooLarge
from taskpit.layouts import Layout, yamltext
from taskpit.layouts import activities as names
from taskpit.layouts.layout import check_word
from taskpit.model import Card, Claim, End, Event, Lock, Page, Said, State, Task, Want
from taskpit.rules import natural, order
from taskpit.store import changelog
from taskpit.store.activities import claim as taking
from taskpit.store.activities import finish as ending
from taskpit.store.activities import heads as headers
from taskpit.store.activities.items import Items
from taskpit.store.activities.states import ActivityState, ActivityStates
from taskpit.store.disk_errors import verb
from taskpit.store.folder_store import FileMember, House
from taskpit.store.locks import locks
from taskpit.store.port import Lapse, Mend
from taskpit.store.retention import compost_logs
from taskpit.text import one_line
from taskpit.watch import Watch

P = ParamSpec("P")
R = TypeVar("R")

#: States in the order a page shows them.
SHOWN = (State.READY, State.CLAIMED, State.FAILED, State.DONE)
#: And what a place among each is: its order; its id.
PLACES = (tuple[int, float, int, str], *(tuple[str],) * 3)


#: So often a verb begins again because a work item went while it was looked at.
LOOKS = 3


def steadily(method: Callable[P, R]) -> Callable[P, R]:
    """A verb on all work items: one whose folder goes in the instant in which it is looked at is none of them."""

    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(LOOKS):
            try:
                return method(*args, **kwargs)
            except (NotFound, FileNotFoundError):
                continue
        return method(*args, **kwargs)

    wrapped.__name__, wrapped.__doc__ = method.__name__, method.__doc__
    return wrapped


class ActivityStore(House):
    """A Store whose tasks are the activities of work items."""

    def __init__(
        self, root: str, layout: Layout, config: Config, clock: Clock | None = None, *, grace: float = 2.0
    ) -> None:
        super().__init__(root, layout, config, clock, grace)
        self.items = Items(self.folder)
        self._orphans: set[tuple[str, str]] = set()
        self._watch: Watch | None = None
        self._watched: list[str] = []
        yamltext.load(b"{}")  # say at once if the library is missing

    # -- put, claim, renew, finish -----------------------------------------------------------------

    @verb
    def allot(self, parents: Sequence[str]) -> list[str]:
        """The next number under each parent."""
        return taking.allot(self.items, parents)

    def vet(self, tasks: Sequence[Task]) -> None:
        """Ids and sizes, before anything is written."""
        for task in tasks:
            self.folder.layout.check_id(task.id)
            for need in task.needs:
                check_word(need, "need")
            size = len(self.folder.layout.dump(task))
            if size > self.config.largest_task:
                raise TooLarge(
                    f"the task is {size} bytes; {self.config.largest_task} is the most",
                    hint="Put the long part into a file and name it in the task.",
                    id=task.id,
                )

    @verb
    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Row by row into `progress.yaml`, each in its work item's turn."""
        self.vet(tasks)
        return [taking.put(self.items, task) for task in tasks]

    @verb
    @steadily
    def claim(self, want: Want) -> list[Claim]:
        """Whoever has the lock has it."""
        self._introduce(want.worker, want.lease)
        if not want.even_held and self.paused():
            return []
        return taking.claim(self.items, want)

    @verb
    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """The lock says so."""
        return [ending.renew(self.items, claim.task.id, claim.fence, lease) for claim in held]

    @verb
    def finish(self, ends: Sequence[End]) -> list[Said]:
        """`progress.yaml` says so, then the lock is gone."""
        return [ending.finish(self.items, end) for end in ends]

    @verb
    def is_called_off(self, task_id: str) -> bool:
        """Whether a person has cancelled it; its holder may also be asked to stop for the sake of a new plan."""
        return self.items.is_called_off(task_id)

    @verb
    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Pending again, the result among the late ones."""
        return [ending.reopen(self.items, task) for task in tasks]

    @verb
    def note(self, task_id: str, text: str, worker: str) -> None:
        """A line in the work item's notes."""
        spot = names.place(self.folder.layout.check_id(task_id))
        path = self.items.path(spot.item if spot else "", names.NOTES)
        line = f"- {iso(self.clock.now())} ({task_id}) {one_line(worker)}: {' '.join(text.split())}\n"
        fs.append(self.folder.at(path), line.encode("utf-8", "replace"))
        self.items.tell("noted", task_id, worker, text)

    # -- workers and keeping -----------------------------------------------------------------------

    @verb
    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> FileMember:
        """Hold the lock on the worker's record; what the name's last owner had is nobody's."""
        member = super().join(worker, lease, patience=patience)
        for standing in self._standings():
            holder = standing.seen.lock.holder if standing.seen else ""
            if workers.MARK in holder and workers.base(holder) == worker:
                self._orphans.add((standing.activity.id, holder))
        return member

    @steadily
    def _standings(self) -> list[ActivityState]:
        return list(ActivityStates(self.items).standings().values())

    @verb
    @steadily
    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:  # noqa: ARG002 - looking changes nothing here
        """Locks that no longer count."""
        from taskpit.store.activities.upkeep import lapsed

        return lapsed(self.items, self._orphans)

    @verb
    @steadily
    def mend(self, *, dry_run: bool = False) -> list[Mend]:
        """What a crash left undone."""
        from taskpit.store.activities.upkeep import mend

        return mend(self.items, dry_run=dry_run)

    def fix(self, *, dry_run: bool = False) -> list[Mend]:
        """What a crash left undone; all else in a work item is for its people."""
        return self.mend(dry_run=dry_run)

    @verb
    @steadily
    def check(self) -> list[Mend]:
        """What is out of order."""
        from taskpit.store.activities.upkeep import check

        return check(self.items)

    @verb
    def compost(self, *, dry_run: bool = False) -> list[Mend]:
        """Old working logs into the digest; what is in work items stays."""
        return compost_logs(self.folder, dry_run=dry_run)

    @verb
    @steadily
    def locks(self) -> list[Lock]:
        """Of activities, then of names."""
        found = []
        for activity_id, standing in ActivityStates(self.items).standings().items():
            if standing.seen is not None:
                grip = self.items.grip(activity_id)
                found.append(standing.seen.lock.replace(number=grip.number, expires=grip.until(standing.seen)))
        return found + locks(self.folder)

    # -- looking -----------------------------------------------------------------------------------

    @verb
    @steadily
    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Each as it stands."""
        view = ActivityStates(self.items)
        return [view.card(task_id) for task_id in ids]

    @verb
    @steadily
    def resolve(self, text: str) -> list[str]:
        """Itself, a work item's number, a shorter spelling, or what begins with it."""
        view = ActivityStates(self.items)
        known = {*view.standings(), *self.items.folders()}
        number = self.folder.layout.number(text)
        for exact in (text, text.upper(), self.folder.layout.new_id(number) if number else text):
            if exact in known or view.card(exact) is not None:
                return [exact]
        return sorted((one for one in known if text and one.startswith(text)), key=natural)

    @verb
    @steadily
    def page(
        self,
        state: State | None = None,
        after: str = "",
        limit: int = 1000,
        *,
        tied: bool = False,  # noqa: ARG002 - all of them
    ) -> Page:
        """Ready ones in the order they will be taken, then claimed, failed and done ones."""
        view = ActivityStates(self.items)
        rows = _rows(view, state)
        start = read_cursor(after, *PLACES) if after else None
        rows = [row for row in rows if start is None or (row[0], row[1]) > start]
        cards = tuple(view.brief(standing) for _, _, standing in rows[:limit])
        more = len(rows) > limit
        return Page(cards=cards, cursor=json.dumps([rows[limit - 1][0], rows[limit - 1][1]]) if more else "")

    @verb
    @steadily
    def counts(self) -> dict[State, int]:
        """Activities by state."""
        found = dict.fromkeys(State, 0)
        for standing in ActivityStates(self.items).standings().values():
            found[standing.state] += 1
        return found

    # -- work items between queues -----------------------------------------------------------------

    @verb
    @steadily
    def heads(self) -> dict[str, dict[str, object]]:
        """What each work item with activities has beside them."""
        return headers.heads(self.items)

    @verb
    def put_under(self, task: Task, header: Mapping[str, object]) -> Said:
        """An activity; with it its work item and what that has beside activities, if it is not there yet."""
        self.vet([task])
        return taking.put(self.items, task, header)

    @verb
    @steadily
    def same_heads(self, given: Mapping[str, dict[str, object]]) -> set[str]:
        """Those that are the same here, or not here yet."""
        return headers.same(self.items, given)

    # -- the changelog -----------------------------------------------------------------------------

    @verb
    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """Lines of every changelog, by their times; the cursor is a place in each."""
        self.folder.need()
        try:
            places: dict[str, str] = read_json(after) if after else {}
            known = set(self.items.changelogs())
            if not places.keys() <= known or not all(isinstance(place, str) for place in places.values()):
                raise CursorLost(cursor=after)
        except (ValueError, AttributeError):
            raise CursorLost(cursor=after) from None
        waiting: dict[str, list[Event]] = {}
        for path in sorted(known):
            waiting[path] = changelog.read(self.folder.at(path), places.get(path, ""), limit)[0]
        found: list[Event] = []
        taken = dict.fromkeys(waiting, 0)
        while len(found) < limit and any(waiting.values()):
            path = min((path for path in waiting if waiting[path]), key=lambda path: waiting[path][0].timestamp)
            found.append(waiting[path].pop(0))
            taken[path] += 1
        for path, count in taken.items():
            at, place = self.folder.at(path), places.get(path, "")
            if count:
                places[path] = changelog.read(at, place, count)[1]
            elif fs.exists(at):
                places[path] = place or changelog.read(at, "", 0)[1]
        return found, json.dumps(places, sort_keys=True)

    @verb
    def latest(self, limit: int) -> tuple[list[Event], str]:
        """The last lines of every changelog, by their times."""
        self.folder.need()
        found: list[Event] = []
        places = {}
        for path in sorted(self.items.changelogs()):
            if fs.exists(self.folder.at(path)):
                events, places[path] = changelog.latest(self.folder.at(path), limit)
                found += events
        found.sort(key=lambda event: event.timestamp)  # keeps the order of lines within a changelog
        return found[max(len(found) - limit, 0) :], json.dumps(places, sort_keys=True)

    @verb
    def record(self, events: Sequence[Event]) -> None:
        """More lines, each where it belongs."""
        for event in events:
            spot = names.place(event.about)
            self.items.record([event], spot.item if spot else "")

    # -- waiting -----------------------------------------------------------------------------------

    @verb
    def wait(self, timeout: float) -> bool:
        """Sleep in the kernel until something changes in a work item or its locks."""
        inside = [self.folder.at(name) for name in self.items.folders().values()]
        if self._watch is None or self._watched != inside:
            self._stop_watching()
            self._watch, self._watched = (
                Watch([self.folder.root, *inside, *(f"{one}/{names.LOCKS}" for one in inside)]),
                inside,
            )
            return True  # something may have come before we watched
        woken = self._watch.wait(timeout)
        self._watch.changes()
        return woken

    def close(self) -> None:
        """Let go of what is kept open."""
        self._stop_watching()
        self.folder.close()

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


def _key(standing: ActivityState) -> list[object]:
    task = standing.activity.task
    return list(order(task)) if standing.state is State.READY else [natural(task.id)]


def _rows(view: ActivityStates, state: State | None) -> list[tuple[int, list[object], ActivityState]]:
    """What a page shows, in its order."""
    rows = [
        (SHOWN.index(standing.state), _key(standing), standing)
        for standing in view.standings().values()
        if state in (None, standing.state)
    ]
    return sorted(rows, key=lambda row: (row[0], row[1]))
