"""Looking at a folder: cards, pages, counts. Reads names and files, changes nothing.

A listing is not a snapshot while others rename. A task that was seen nowhere is looked for again before
anybody is told that it is not there.
"""

from __future__ import annotations

import errno
import json
from itertools import repeat

from taskpit import fs, rules
from taskpit.decode import convert, read_cursor, read_json
from taskpit.errors import Invalid
from taskpit.ids import is_word
from taskpit.layouts import Spot
from taskpit.model import UNREAD, Card, Page, Result, State, Task, Try, Verdict
from taskpit.rules import held, held_in_circle
from taskpit.store.folder import IDS, LARGEST_RESULT, LATE, NOTES, OUTCOMES, TRIES, Folder, Unreadable, stub
from taskpit.store.ids import waiting
from taskpit.store.in_use import excluded, in_use
from taskpit.store.leases import standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from taskpit.store.files import FileStore
    from taskpit.store.index import Placed, Sign

#: How often a task that is known but was seen nowhere is looked for.
LOOKS = 5
#: So many ready tasks are asked for at a time.
SOME = 1000
#: What the machine refuses says nothing about a file.
OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
#: Where files that are still being written stand among the ready tasks: after all of them.
AT_LAST: list[object] = [1 << 62, 0.0, 0, ""]
#: States in the order a page shows them.
SHOWN = (State.READY, State.CLAIMED, State.FAILED, State.DONE)

#: And what a place among each is: its order and file; its number and id.
PLACES = (tuple[int, float, int, str, str], *(tuple[int, str],) * 3)

Key = tuple[int, list[object]]


class _Listing:
    """What is looked at once for all the tasks that are looked for: directories, and what they need."""

    def __init__(self, store: FileStore) -> None:
        self._folder = store.folder
        self._names: dict[str, list[str]] = {}
        self.ready = _Ready(store)

    def names(self, path: str) -> list[str]:
        """What stands there."""
        if path not in self._names:
            self._names[path] = list(fs.names(self._folder.at(path)))
        return self._names[path]


def cards(store: FileStore, ids: Sequence[str]) -> list[Card | None]:
    """Each task as it stands, with everything known about it."""
    listing = _Listing(store)
    return [_card(store, task_id, listing) for task_id in ids]


def _card(store: FileStore, task_id: str, listing: _Listing) -> Card | None:
    folder, found = store.folder, None
    for _ in range(LOOKS if is_word(task_id) else 0):  # to look for what can be no id might lead anywhere
        found = _find(store, task_id, listing)
        if found is not None or not fs.exists(folder.of(IDS, task_id)):
            break
        listing = _Listing(store)  # it was on its way from one place to another
    if found is None:
        return None
    return found.replace(
        tries=tries(folder, task_id),
        late=_late(listing, task_id),
        notes=_text(folder.of(NOTES, task_id, ".md")),
    )


def _late(listing: _Listing, task_id: str) -> tuple[str, ...]:
    """Results kept aside, without the task's own file that some layouts keep with one."""
    names = (name for name in listing.names(LATE) if name.startswith(f"{task_id}~"))
    return tuple(sorted(f"{LATE}/{name}" for name in names if not name.endswith(".task")))


def _find(store: FileStore, task_id: str, listing: _Listing) -> Card | None:
    folder, layout = store.folder, store.folder.layout
    there = folder.where_put(task_id)
    ready = _ready_card(store, there, listing.ready) if there is not None else None
    if ready is not None:
        return ready
    for spot in folder.claims_of(task_id, listing.names(layout.claimed)):
        claimed = _claimed_card(folder, spot)
        if claimed is not None:
            return claimed
    for spot, nonce, end in folder.sealed():
        if spot.id == task_id:
            # What needs it is given out as soon as its result is published, though its end has steps left.
            published = folder.published(task_id) if end.startswith(Verdict.DONE) else None
            return _ending_card(folder, spot, nonce, end) if published is None else _card_at_end(folder, published)
    for spot in _elsewhere(folder, task_id, listing):
        ready = _ready_card(store, spot, listing.ready)
        if ready is not None:
            return ready
    return _finished_card(folder, task_id)


def _ending_card(folder: Folder, spot: Spot, nonce: str, end: str) -> Card | None:
    """A task whose claim has ended, as it was then: what it was put as knows nothing of what has happened since."""
    from taskpit.explain import ENDING
    from taskpit.store.finish import Sealed

    sealed, task = Sealed(folder, spot, nonce, end), None
    try:
        if "o" not in sealed.parts:  # the token of a task that is reopened is its old result
            task = folder.load(spot, sealed.path)
    except FileNotFoundError:
        return None
    except Invalid:
        task = None
    return Card(task=task or folder.original(spot.id) or stub(spot), state=State.CLAIMED, worker=ENDING)


def _elsewhere(folder: Folder, task_id: str, listing: _Listing) -> list[Spot]:
    """Its ready files that are not where it was put: none if it has ended; else they are looked for among all."""
    if fs.exists(folder.of(IDS, task_id)) and folder.outcome(task_id) is not None:
        return []
    return folder.find(folder.layout.ready, State.READY, task_id, listing.names(folder.layout.ready))


class _Ready:
    """What the cards of a page must know of other tasks, looked for once and only if one asks."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._states: dict[str, State | None] = {}
        self._tangled: dict[str, Task] | None = None
        self._waiting: set[str] | None = None

    @property
    def tangled(self) -> dict[str, Task]:
        """The ready tasks that wait for each other. Only what needs something can."""
        if self._tangled is None:
            self._tangled = rules.tangled(
                {task.id: task for _, _, task, _ in ready_tasks(self._store, None, tied=True)}
            )
        return self._tangled

    def state_of(self, task_id: str) -> State | None:
        """Where a task is that another needs."""
        if task_id not in self._states:
            self._states[task_id] = self._store.state_of(task_id, self._is_waiting)
        return self._states[task_id]

    def _is_waiting(self, task_id: str) -> bool:
        if self._waiting is None:
            self._waiting = waiting(self._store.folder)
        return task_id in self._waiting


def ready_tasks(store: FileStore, after: tuple[Any, ...] | None, *, tied: bool) -> Iterator[Placed]:
    """What is ready, in order, after one of them."""
    while True:
        found = store.ready_page(after, SOME, tied=tied)
        yield from found
        if len(found) < SOME:
            return
        after = (*found[-1][0], found[-1][1])


def _ready_card(store: FileStore, spot: Spot, ready: _Ready, known: tuple[Task, Sign] | None = None) -> Card | None:
    """What was read of it before is `known`: if it looks as it did then, it is not read a second time."""
    folder, path = store.folder, store.folder.at(spot.path)
    here = fs.status(path)
    if here is None or (here.st_nlink == 1 and fs.exists(folder.outcome_path(spot.id, Verdict.DONE))):
        return None  # gone, or a copy of what is done: that is listed once, and a sweep sets the copy aside
    unfinished = folder.unfinished(path, here)
    try:
        same = known is not None and known[0].was_read and known[1] == (here.st_ino, here.st_mtime_ns)
        task = known[0] if known is not None and same else folder.load(spot, path)
    except FileNotFoundError:
        return None
    except Invalid as error:
        if not unfinished and not isinstance(error, Unreadable) and folder.being_written(path, here):
            unfinished = "it is still being written"
        reason = unfinished or f"{UNREAD}: {error.message}"
        return Card(task=stub(spot), state=State.READY, held=reason, barred=f"{UNREAD}: {unfinished or error.message}")
    reason = unfinished or held(task, folder.clock.now(), ready.state_of)
    if reason and task.needs:
        reason = held_in_circle(task, ready.tangled) or reason
    if not reason and (task.touches or task.limits):
        reason = excluded(task, in_use(folder))[0]
    return Card(task=task, state=State.READY, held=reason)


def _claimed_card(folder: Folder, spot: Spot) -> Card | None:
    status = fs.status(folder.at(spot.path))
    if status is None:
        return None
    barred = ""
    try:
        task = folder.load(spot, folder.at(spot.path))
    except FileNotFoundError:
        return None
    except Invalid as error:
        task, barred = stub(spot), f"{UNREAD}: {error.message}"
    lives, until = standing(folder, spot, status)
    since = status.st_ctime
    return Card(
        task=task, state=State.CLAIMED, worker=spot.worker, since=since, until=until, alive=lives, barred=barred
    )


def _finished_card(folder: Folder, task_id: str) -> Card | None:
    verdict = folder.outcome(task_id)
    if verdict is not None:
        spot = Spot(state=verdict.state, id=task_id, verdict=verdict)
        return _result_card(folder, spot, folder.outcome_path(task_id, verdict))
    published = folder.published(task_id)
    if published is not None:
        return _card_at_end(folder, published)
    unfinished = folder.unfinished_result(task_id)
    return _unfinished_card(folder, task_id, unfinished) if unfinished else None


def _unfinished_card(folder: Folder, task_id: str, path: str) -> Card | None:
    """A task whose result is published in a place that only its outcome tells, and the outcome is yet to come."""
    try:
        data = fs.read(folder.at(path), LARGEST_RESULT)[0]
        verdict = folder.layout.load_result(Spot(state=State.DONE, id=task_id), data)[0].verdict
    except (FileNotFoundError, Invalid):
        return None
    return _result_card(folder, Spot(state=verdict.state, id=task_id, verdict=verdict), folder.at(path))


def _card_at_end(folder: Folder, spot: Spot) -> Card:
    """The card of a finished task, by the entry that says so."""
    return _result_card(folder, spot, folder.at(folder.layout.result_of(spot)))


def _result_card(folder: Folder, spot: Spot, path: str) -> Card:
    verdict = spot.verdict or Verdict.DONE
    result, task = Result(id=spot.id, verdict=verdict), None
    try:
        data = fs.read(path, LARGEST_RESULT)[0]
        if data:
            result, task = folder.layout.load_result(spot, data)
        else:
            result = _result_in_place(folder, spot, verdict)
    except FileNotFoundError:
        outcome = folder.outcome_path(spot.id, verdict)
        if path != outcome and fs.exists(outcome):
            return _result_card(folder, spot, outcome)  # archived since it was listed
        result = result.replace(reason="it was called finished without a result")
    except (OSError, Invalid) as error:
        if isinstance(error, OSError) and error.errno in OURS:
            raise
        result = result.replace(reason=f"{UNREAD}: {error}")
    task = task or _ended_task(folder, spot, verdict) or folder.original(spot.id) or stub(spot)
    return Card(task=task, state=verdict.state, result=result)


def _result_in_place(folder: Folder, spot: Spot, verdict: Verdict) -> Result:
    """The result of a task whose outcome is known without one: it may have come later, or been pruned."""
    place = folder.layout.result_of(spot)
    ended = folder.layout.ended_path(spot, verdict)
    if not ended or not fs.exists(folder.at(ended)):
        return Result(id=spot.id, verdict=verdict, reason="the result was pruned")
    try:
        return folder.layout.load_result(spot, fs.read(folder.at(place), LARGEST_RESULT)[0])[0]
    except OSError:
        return Result(id=spot.id, verdict=verdict, reason="it was called finished without a result")


def _ended_task(folder: Folder, spot: Spot, verdict: Verdict) -> Task | None:
    """The task's own file, where a layout keeps it when it is finished."""
    path = folder.layout.ended_path(spot, verdict)
    try:
        return folder.load(spot, folder.at(path)) if path else None
    except (OSError, Invalid):
        return None


def tries(folder: Folder, task_id: str) -> tuple[Try, ...]:
    """Attempts that did not finish it, oldest first."""
    found: list[tuple[float, int, Try]] = []
    for name in fs.names(folder.of(TRIES, task_id)):
        try:
            data, status = fs.read(f"{folder.of(TRIES, task_id)}/{name}", LARGEST_RESULT)
            one = convert(read_json(data), Try)
            found.append((one.at, status.st_mtime_ns, one))  # within one tick of the clock, as they were written
        except (FileNotFoundError, fs.NotAFile, fs.TooBig, ValueError, Invalid):
            continue  # not one of ours; but what the disk refuses to tell must not count as never tried
    return tuple(one for _, _, one in sorted(found, key=lambda item: item[:2]))


def _text(path: str) -> str:
    try:
        return fs.read(path, LARGEST_RESULT)[0].decode("utf-8", "replace")
    except OSError:
        return ""


def page(store: FileStore, state: State | None, after: str, limit: int, *, tied: bool) -> Page:
    """Cards after a cursor. The cursor is the last card's place in the order, so nothing is skipped for good."""
    start = read_cursor(after, *PLACES) if after else None
    cards: list[Card] = []
    last: Key | None = None
    ready = _Ready(store)
    for key, spot, known in _ordered(store, state, start, tied=tied):
        if len(cards) == limit:
            return Page(cards=tuple(cards), cursor=json.dumps(last, ensure_ascii=False))
        found = _ready_card(store, spot, ready, known) if spot.state is State.READY else _card_at(store, spot)
        if found is not None:
            cards.append(found)
            last = key
    return Page(cards=tuple(cards))


def _ordered(
    store: FileStore, state: State | None, start: Key | None, *, tied: bool
) -> Iterator[tuple[Key, Spot, tuple[Task, Sign] | None]]:
    """Places, files and what was read of them, after a place, in order; none is looked at before it is its turn."""
    folder = store.folder
    for rank, shown in enumerate(SHOWN):
        if state not in (None, shown) or (start is not None and rank < start[0]):
            continue
        after = start[1] if start is not None and rank == start[0] else None
        if shown is State.READY:
            for order, file, task, sign in ready_tasks(store, tuple(after) if after else None, tied=tied):
                path = f"{folder.layout.ready}/{file}"
                spot = Spot(state=shown, id=task.id, slug=task.slug, path=path)
                yield (rank, [*order, file]), spot, (task, sign)
            for file in store.being_written():
                written = _spot(folder, folder.layout.ready, file)
                if written is not None and (after is None or [*AT_LAST, file] > after):
                    yield (rank, [*AT_LAST, file]), written, None
            continue
        keyed = [([folder.layout.number(spot.id), spot.id], spot) for spot in _spots(folder, shown)]
        for key, spot in sorted(keyed, key=lambda pair: pair[0]):
            if after is None or key > after:
                yield (rank, key), spot, None


def _spots(folder: Folder, state: State) -> Iterator[Spot]:
    if state is State.CLAIMED:
        yield from folder.claims()
        return
    # One that failed and was put there again is listed once: as what it is now.
    seen = waiting(folder) if state is State.FAILED else set()
    for spot in folder.finished():
        if spot.state is state and spot.id not in seen:
            seen.add(spot.id)
            yield spot
    for name in fs.names(folder.at(OUTCOMES)):
        task_id, _, said = name.partition("~")
        verdict = Verdict(said) if said in tuple(Verdict) else None
        if verdict and verdict.state is state and task_id not in seen and is_word(task_id):
            yield Spot(state=state, id=task_id, verdict=verdict, path=f"{OUTCOMES}/{name}")


def _card_at(store: FileStore, spot: Spot) -> Card | None:
    if spot.state is State.CLAIMED:
        return _claimed_card(store.folder, spot)
    if spot.path.startswith(OUTCOMES):
        return _result_card(store.folder, spot, store.folder.at(spot.path))
    return _card_at_end(store.folder, spot)


def counts(folder: Folder) -> dict[State, int]:
    """How many are in each state, by names alone. One whose end is being carried out still counts as claimed."""
    layout = folder.layout
    found = dict.fromkeys(State, 0)
    for place in {layout.ready, layout.claimed}:
        for state in map(layout.state_in, repeat(place), fs.names(folder.at(place))):
            if state in (State.READY, State.CLAIMED):
                found[state] += 1
    found[State.CLAIMED] += sum(1 for _ in folder.sealed())
    ended = [name.rpartition("~") for name in fs.names(folder.at(OUTCOMES))]
    known = {task_id for task_id, _, _ in ended}
    for _, _, said in ended:
        if said in tuple(Verdict):
            found[Verdict(said).state] += 1
    for place in layout.results:  # what others wrote and nobody has swept yet
        for file in fs.names(folder.at(place)):
            task_id = layout.ended_id(place, file)
            if task_id and task_id not in known:
                spot = _spot(folder, place, file)
                if spot is not None and spot.verdict is not None and spot.id not in known:
                    known.add(spot.id)
                    found[spot.state] += 1
    return found


def _spot(folder: Folder, place: str, file: str) -> Spot | None:
    try:
        return folder.layout.spot(place, file)
    except Invalid:
        return None
