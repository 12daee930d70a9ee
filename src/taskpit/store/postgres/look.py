"""Looking at a queue: cards, pages, counts. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taskpit import rules
from taskpit.decode import amount
from taskpit.errors import Invalid
from taskpit.model import Card, Page, State, Task
from taskpit.store.postgres.archive import Archive
from taskpit.store.postgres.base import Base
from taskpit.store.postgres.database import Row
from taskpit.store.postgres.rows import as_json, read_result, read_task, read_tries

#: The order of states in a listing, and the letter of each in a cursor.
SHOWN = {State.READY: "r", State.CLAIMED: "c", State.FAILED: "f", State.DONE: "d"}
ENDED = {"d": State.DONE, "f": State.FAILED}
#: The most needs that are followed to find a circle, and the most ids that one beginning may mean.
FAR, MANY = 10_000, 1000


class Looking(Base):
    """The part of the store that reads tasks."""

    _archive: Archive

    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Return each task with everything known of it."""
        known = [task_id for task_id in ids if "\0" not in task_id]
        now = self.clock.now()
        cards: dict[str, Card] = {}
        for row in self._ask("read", ids=as_json(known)) if known else []:
            card = _card(row, now)
            cards[row[0]] = card if row[-1] is None else self._archive.restore(card, row[-1])
        ready = [card.task for card in cards.values() if card.state is State.READY]
        for task_id, reason in self._held(ready, now).items():
            cards[task_id] = cards[task_id].replace(held=reason)
        return [cards.get(task_id) for task_id in ids]

    def _held(self, ready: Sequence[Task], now: float) -> dict[str, str]:
        """Return why each of these may not be claimed, where something is in the way."""
        states = self._states({need for task in ready for need in task.needs})
        excluding = any(task.touches or task.limits for task in ready)
        use = self._in_use(now) if excluding else rules.Use(now=now)
        held = {
            task.id: rules.held(task, now, states.get)
            or rules.in_the_way(task, use.running)
            or rules.over_limit(task, use)[0]
            for task in ready
        }
        return {**held, **self._circles([task.id for task in ready if task.needs and held[task.id]])}

    def _states(self, ids: Iterable[str]) -> dict[str, State]:
        wanted = sorted(ids)
        return {row[0]: State(row[1]) for row in self._ask("states", ids=as_json(wanted))} if wanted else {}

    def _in_use(self, now: float) -> rules.Use:
        """Return the paths and limits that running tasks use."""
        running = tuple(
            Task(id=task_id, title="", touches=tuple(touches or ()), limits=tuple(limits or ()))
            for task_id, touches, limits in self._ask("running")
        )
        starts = {key: tuple(times) for key, times in self._ask("starts", after=now - rules.MINUTE)}
        return rules.Use(running=running, starts=starts, settings=self.config.limits, now=now)

    def _circles(self, waiting: Sequence[str]) -> dict[str, str]:
        """Return those that wait for themselves, each with the circle."""
        if not waiting:
            return {}
        needs: dict[str, list[str]] = {}
        for task_id, need in self._ask("circle", ids=as_json(waiting), limit=FAR):
            needs.setdefault(task_id, []).append(need)
        tasks = {key: Task(id=key, title="", needs=tuple(on)) for key, on in needs.items()}
        circles = {task_id: rules.held_in_circle(tasks[task_id], tasks) for task_id in waiting if task_id in tasks}
        return {task_id: reason for task_id, reason in circles.items() if reason}

    def page(self, state: State | None = None, after: str = "", limit: int = 1000, *, tied: bool = False) -> Page:  # noqa: ARG002
        """Return cards after a cursor, which is the place of the last one in the order."""
        first, place = _cursor(after)
        letters = [letter for kind, letter in SHOWN.items() if state in (None, kind)]
        kinds = {letter: kind for kind, letter in SHOWN.items()}
        cards: list[Card] = []
        for letter in letters[letters.index(first) if first in letters else 0 :]:
            begin = place if letter == first else b""
            room = limit - len(cards)
            rows = self._ask("places", state=letter, after=begin, limit=room + 1)
            read = self.read([row[0] for row in rows[:room]])
            cards += [card for card in read if card is not None and card.state is kinds[letter]]
            if len(rows) > room:
                last = rows[room - 1][1].hex() if room else begin.hex()
                return Page(cards=tuple(cards), cursor=f"{letter}{last}")
        return Page(cards=tuple(cards))

    def counts(self) -> dict[State, int]:
        """Return how many tasks are in each state."""
        opened, done, failed, claimed = self._ask("counts")[0]
        return {State.READY: opened - claimed, State.CLAIMED: claimed, State.DONE: done, State.FAILED: failed}

    def resolve(self, text: str) -> list[str]:
        """Return the id itself, its number, or the ids that begin with it."""
        if not text or "\0" in text:
            return []
        exact = {row[0] for row in self._ask("exact", ids=as_json([text, text.zfill(4)]))}
        for task_id in (text, text.zfill(4)):
            if task_id in exact:
                return [task_id]
        return [row[0] for row in self._ask("resolve", text=text, end=f"{text}\U0010ffff", limit=MANY)]


def _card(row: Row, now: float) -> Card:
    task_id, state, doc, result, fence, seen, until, member, tries, late, notes, _ = row
    where = ENDED.get(state) or (State.READY if fence is None else State.CLAIMED)
    return Card(
        task=read_task(doc, task_id),
        state=where,
        worker=fence or "",
        since=amount(seen),
        until=amount(until),
        alive="yes" if member is not None and member > now and until > now else "unknown",
        result=read_result(result, task_id, str(where)) if result and state in ENDED else None,
        tries=read_tries(tries or ()),
        late=tuple(f"the table late, number {number}" for number in late or ()),
        notes=notes or "",
    )


def _cursor(text: str) -> tuple[str, bytes]:
    try:
        if not text or text[0] in SHOWN.values():
            return text[:1], bytes.fromhex(text[1:])
    except ValueError:
        pass
    raise Invalid(f"{text[:40]!r} is not a place in a listing", hint="Begin again without it.")
