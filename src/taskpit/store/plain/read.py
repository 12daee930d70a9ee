"""Looking at a queue: cards, pages, counts. Takes no lock, needs no right to write, and changes nothing.

A listing is no snapshot while others rename. A task that was seen nowhere while the lock's count moved is looked for
again, up to three times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from taskpit import rules
from taskpit.decode import convert, read_cursor, read_json
from taskpit.errors import Invalid
from taskpit.explain import ENDING
from taskpit.ids import is_word, path_of
from taskpit.layouts import Spot
from taskpit.model import UNREAD, Card, Page, Result, State, Task, Try, Verdict
from taskpit.rules import held, held_in_circle
from taskpit.store.plain import conflicts, paths
from taskpit.store.plain.claim import excluded, in_use
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.ids import waiting
from taskpit.store.plain.leases import Judge
from taskpit.store.plain.paths import LARGEST_RESULT, stub
from taskpit.store.plain.ready_cache import ReadyCache

#: How often a task that is known but was seen nowhere is looked for.
LOOKS = 3
#: States in the order a page shows them, and what a place among each is.
SHOWN = (State.READY, State.CLAIMED, State.FAILED, State.DONE)
PLACES = (tuple[int, float, int, str, str], *(tuple[int, str],) * 3)
Key = tuple[int, list[Any]]


class Reader:
    """Cards of one queue."""

    def __init__(self, folder: Folder, cache: ReadyCache, judge: Judge) -> None:
        self._folder = folder
        self._cache = cache
        self._judge = judge

    def close(self) -> None:
        """Close what the cache holds open."""
        self._cache.close()

    # -- one task ----------------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Return each task with everything that is known of it; None if there is none."""
        look = _Look(self._folder)
        return [self._card(task_id, look) for task_id in ids]

    def _card(self, task_id: str, look: _Look) -> Card | None:
        if not is_word(task_id):
            return None
        folder, found = self._folder, None
        for _ in range(LOOKS):
            count = folder.lock.read_count()
            found = self._find(task_id, look)
            if found is not None or (count == folder.lock.read_count() and not folder.is_known(task_id)):
                break
            look.forget()
        if found is None:
            found = self._missing(task_id)
        if found is None:
            return None
        return found.replace(tries=self.tries(task_id), late=self._late(task_id, look), notes=self._notes(task_id))

    def _find(self, task_id: str, look: _Look) -> Card | None:
        folder = self._folder
        for spot in look.claims():
            if spot.id == task_id and (card := self._claimed_card(spot)) is not None:
                return card
        verdict = folder.verdict(task_id)
        if verdict is not Verdict.DONE:
            for spot in look.ready_of(task_id):
                card = self._ready_card(spot, look)
                if card is not None and (verdict is None or self._asks_again(spot)):
                    return card
        if verdict is None:
            for change in folder.pending.listing()[0]:
                ending = folder.ready_spot(change.token.name)
                if ending is not None and ending.id == task_id:
                    return self._ending_card(ending, change.token.path)
        return self._finished_card(task_id)

    def _asks_again(self, spot: Spot) -> bool:
        """Tell whether a ready file of a task that failed means that it is tried again: an empty one means nothing."""
        status = self._folder.files.stat(spot.path)
        return status is not None and status.st_size > 0

    def _missing(self, task_id: str) -> Card | None:
        """Return the card of a task whose file was removed by hand."""
        if self._folder.files.stat(paths.open_path(task_id)) is None:
            return None
        task = self._folder.original(task_id) or Task(id=task_id, title="")
        return Card(
            task=task, state=State.READY, held="its file is missing; `pit doctor --fix` restores it", barred=UNREAD
        )

    def _ending_card(self, spot: Spot, path: str) -> Card | None:
        task = None
        with suppress(Invalid):
            try:
                task = self._folder.load(spot, path)
            except FileNotFoundError:
                return None
        return Card(task=task or self._folder.original(spot.id) or stub(spot), state=State.CLAIMED, worker=ENDING)

    def _ready_card(self, spot: Spot, look: _Look) -> Card | None:
        folder = self._folder
        try:
            data, status = folder.read(spot.path)
        except FileNotFoundError:
            return None
        except Invalid as error:
            return Card(
                task=stub(spot),
                state=State.READY,
                held=f"{UNREAD}: {error.message}",
                barred=f"{UNREAD}: {error.message}",
            )
        opened = folder.files.stat(paths.open_path(spot.id))
        young = (opened is None or opened.st_ino != status.st_ino) and folder.is_young(status)
        if not data:
            why = "it is empty: its writer has yet to fill it"
            return Card(task=stub(spot), state=State.READY, held=why, barred=f"{UNREAD}: {why}")
        try:
            task, why = folder.parse(spot, data), ""
        except Invalid as error:
            task, why = stub(spot), f"{UNREAD}: {error.message}"
        if young:
            why = "it is still being written"
        if why:
            return Card(
                task=task, state=State.READY, held=why, barred=why if why.startswith(UNREAD) else f"{UNREAD}: {why}"
            )
        if folder.is_damaged(spot, data, status):
            why = f"{UNREAD}: its bytes are damaged"
            return Card(task=task, state=State.READY, held=why, barred=why)
        return Card(task=task, state=State.READY, held=self._held(task, look))

    def _held(self, task: Task, look: _Look) -> str:
        reason = held(task, self._folder.clock.now(), look.state_of)
        if reason and task.needs:
            reason = held_in_circle(task, self._tangled(look)) or reason
        if not reason and (task.touches or task.limits):
            reason = excluded(task, look.used())
        return reason

    def _tangled(self, look: _Look) -> dict[str, Task]:
        if look.tangled is None:
            self._cache.refresh()
            needy = {row.task.id: row.task for row in self._cache.rows() if row.task.needs}
            look.tangled = rules.tangled(needy)
        return look.tangled

    def _claimed_card(self, spot: Spot) -> Card | None:
        status, barred = self._folder.files.stat(spot.path), ""
        if status is None:
            return None
        try:
            task = self._folder.load(spot)
        except FileNotFoundError:
            return None
        except Invalid as error:
            task, barred = stub(spot), f"{UNREAD}: {error.message}"
        alive, until = self._judge.standing(spot, status)
        state, since = State.CLAIMED, status.st_ctime
        return Card(task=task, state=state, worker=spot.worker, since=since, until=until, alive=alive, barred=barred)

    def _finished_card(self, task_id: str) -> Card | None:
        verdict = self._folder.verdict(task_id)
        if verdict is not None:
            spot = Spot(state=verdict.state, id=task_id, verdict=verdict)
            return self._result_card(spot, paths.ended_path(task_id, f"~{verdict}"))
        for place in self._folder.layout.results:  # another program's, which was not learned yet
            for spot in self._folder.spots(place):
                if spot.id == task_id and spot.verdict is not None:
                    return self._result_card(spot, self._folder.layout.result_of(spot))
        return None

    def _result_card(self, spot: Spot, path: str) -> Card:
        folder, verdict = self._folder, spot.verdict or Verdict.DONE
        result, task = Result(id=spot.id, verdict=verdict), None
        try:
            data = folder.files.read(path, LARGEST_RESULT)[0]
            if data:
                result, task = folder.layout.load_result(spot, data)
            else:
                result = self._result_in_place(spot, verdict)
        except FileNotFoundError:
            result = result.replace(reason="it was called finished without a result")
        except (OSError, Invalid) as error:
            result = result.replace(reason=f"{UNREAD}: {error}")
        return Card(
            task=task or self._ended_task(spot) or folder.original(spot.id) or stub(spot),
            state=verdict.state,
            result=result,
        )

    def _result_in_place(self, spot: Spot, verdict: Verdict) -> Result:
        """Return a result that came after the task was called finished, or was pruned."""
        reason = "the result was pruned"
        if self._folder.in_place and self._folder.files.stat(self._folder.layout.ended_path(spot, verdict)) is not None:
            reason = "it was called finished without a result"
        try:
            data = self._folder.files.read(self._folder.layout.result_of(spot), LARGEST_RESULT)[0]
            return self._folder.layout.load_result(spot, data)[0]
        except (OSError, Invalid):
            return Result(id=spot.id, verdict=verdict, reason=reason)

    def _ended_task(self, spot: Spot) -> Task | None:
        try:
            return self._folder.load(spot.replace(path=""), paths.ended_path(spot.id))
        except (OSError, Invalid):
            return None

    def tries(self, task_id: str) -> tuple[Try, ...]:
        """Return the attempts that did not finish it, oldest first."""
        found: list[tuple[float, int, Try]] = []
        for name in self._folder.files.names(paths.TRIES):
            if name.startswith(f"{task_id}~"):
                with suppress(OSError, ValueError, Invalid):
                    data, status = self._folder.files.read(f"{paths.TRIES}/{name}", LARGEST_RESULT)
                    one = convert(read_json(data), Try)
                    found.append((one.at, status.st_mtime_ns, one))
        return tuple(one for _, _, one in sorted(found, key=lambda row: row[:2]))

    def _late(self, task_id: str, look: _Look) -> tuple[str, ...]:
        names = (name for name in look.names(paths.LATE) if name.startswith(f"{task_id}~"))
        return tuple(sorted(f"{paths.LATE}/{name}" for name in names if not name.endswith((".task", ".draft"))))

    def _notes(self, task_id: str) -> str:
        try:
            data = self._folder.files.read(path_of(paths.NOTES, task_id, ".md"), LARGEST_RESULT)[0]
        except OSError:
            return ""
        return data.decode("utf-8", "replace")

    # -- many --------------------------------------------------------------------------------------------------------

    def page(self, state: State | None, after: str, limit: int) -> Page:
        """Return cards after a cursor, which is the last card's place in the order."""
        start = read_cursor(after, *PLACES) if after else None
        cards: list[Card] = []
        last: Key | None = None
        look = _Look(self._folder)
        for key, spot in self._ordered(state, start):
            if len(cards) == limit:
                return Page(cards=tuple(cards), cursor=json.dumps(last, ensure_ascii=False))
            card = self._card_at(spot, look)
            if card is not None:
                cards.append(card)
                last = key
        return Page(cards=tuple(cards))

    def _card_at(self, spot: Spot, look: _Look) -> Card | None:
        if spot.state is State.READY:
            return self._ready_card(spot, look)
        if spot.state is State.CLAIMED:
            return self._claimed_card(spot)
        return self._finished_card(spot.id)

    def _ordered(self, state: State | None, start: Key | None) -> Iterator[tuple[Key, Spot]]:
        for rank, shown in enumerate(SHOWN):
            if state not in (None, shown) or (start is not None and rank < start[0]):
                continue
            after = start[1] if start is not None and rank == start[0] else None
            for key, spot in self._ready() if shown is State.READY else self._others(shown):
                if after is None or key > after:
                    yield (rank, key), spot

    def _ready(self) -> Iterator[tuple[list[Any], Spot]]:
        self._cache.refresh()
        known = [(list(row.rank), row.name) for row in self._cache.rows()]
        odd = [([1 << 62, 0.0, 0, "", name], name) for name in sorted(self._cache.odd)]
        for key, name in (*known, *odd):
            spot = self._folder.ready_spot(name)
            verdict = self._folder.verdict(spot.id) if spot is not None else None
            if spot is not None and (verdict is None or (verdict is not Verdict.DONE and self._asks_again(spot))):
                yield key, spot

    def _others(self, state: State) -> list[tuple[list[Any], Spot]]:
        folder = self._folder
        if state is State.CLAIMED:
            spots = {spot.id: spot for spot in folder.claims()}
        else:
            spots = {task_id: Spot(state=state, id=task_id) for task_id, one in self._ends().items() if one is state}
        return sorted(([folder.layout.number(task_id), task_id], spot) for task_id, spot in spots.items())

    def _ends(self) -> dict[str, State]:
        """Return the state of every task that has ended, by names alone."""
        folder, found, ready = self._folder, {}, waiting(self._folder)
        for name in folder.files.names(paths.ENDED):
            task_id, _, said = name.partition("~")
            again = said in conflicts.FAILURES and task_id in ready and self._is_tried_again(task_id)
            if said in tuple(Verdict) and is_word(task_id) and not again:
                found[task_id] = Verdict(said).state
        for place in folder.layout.results:
            for spot in folder.spots(place):
                if spot.verdict is not None and spot.id not in found and spot.id not in ready:
                    found[spot.id] = spot.state
        return found

    def _is_tried_again(self, task_id: str) -> bool:
        """Tell whether a task that failed was put back by hand."""
        spots = self._folder.spots(self._folder.layout.ready, State.READY)
        return any(spot.id == task_id and self._asks_again(spot) for spot in spots)

    def counts(self) -> dict[State, int]:
        """Count the tasks of each state, by names alone; one whose end is being shown still counts as claimed."""
        folder, layout = self._folder, self._folder.layout
        found = dict.fromkeys(State, 0)
        for place in dict.fromkeys((layout.ready, layout.claimed)):
            for file in folder.files.names(place):
                state = layout.state_in(place, file)
                if state in (State.READY, State.CLAIMED):
                    found[state] += 1
        found[State.CLAIMED] += len(folder.pending.listing()[0])
        for state in self._ends().values():
            found[state] += 1
        return found


class _Look:
    """What is looked at once for all tasks of one call."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._names: dict[str, list[str]] = {}
        self._claims: list[Spot] | None = None
        self._states: dict[str, State | None] = {}
        self._use: rules.Use | None = None
        self.tangled: dict[str, Task] | None = None

    def forget(self) -> None:
        """Look again."""
        self._names.clear()
        self._claims = None

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        if folder not in self._names:
            self._names[folder] = self._folder.files.names(folder)
        return self._names[folder]

    def claims(self) -> list[Spot]:
        """Return the claimed files."""
        if self._claims is None:
            self._claims = self._folder.claims()
        return self._claims

    def ready_of(self, task_id: str) -> list[Spot]:
        """Return the ready files of an id, the registered one first."""
        folder = self._folder
        found = [
            spot for name in self.names(folder.layout.ready) if task_id in name and (spot := folder.ready_spot(name))
        ]
        mine = [spot for spot in found if spot.id == task_id]
        opened = folder.files.stat(paths.open_path(task_id)) if len(mine) > 1 else None
        return sorted(mine, key=lambda spot: self._is_other(spot, opened))

    def _is_other(self, spot: Spot, opened: Any) -> bool:
        there = self._folder.files.stat(spot.path)
        return opened is None or there is None or there.st_ino != opened.st_ino

    def state_of(self, task_id: str) -> State | None:
        """Return where a task is that another needs."""
        if task_id not in self._states:
            self._states[task_id] = state_of(self._folder, task_id)
        return self._states[task_id]

    def used(self) -> rules.Use:
        """Return what running tasks use."""
        if self._use is None:
            self._use = in_use(self._folder)
        return self._use


def state_of(folder: Folder, task_id: str) -> State | None:
    """Tell where a task is, as cheaply as can be."""
    if not is_word(task_id):
        return None
    verdict = folder.verdict(task_id)
    if verdict is not None:
        return verdict.state
    if folder.claims_of(task_id) or folder.pending.is_pending(task_id):
        return State.CLAIMED
    if folder.files.stat(paths.open_path(task_id)) is not None:
        end = folder.foreign_end(folder.layout.named(folder.original(task_id) or Task(id=task_id, title="")))
        return end.state if end is not None else State.READY
    for place in folder.layout.results:
        for spot in folder.spots(place):
            if spot.id == task_id and spot.verdict is not None:
                return spot.state
    return State.READY if task_id in waiting(folder) else None
