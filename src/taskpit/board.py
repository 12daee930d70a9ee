"""The board: what a person looks at. Columns of slips, what waits for a person, how fast things go.

Knows the queue's verbs and no surface: the command line, the terminal, the browser and MCP show this one.
It is read once, then follows the changelog and reads again only what changed; what strangers move without
telling anybody is noticed when the counts differ, and at the latest when everything is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from taskpit.decode import amount
from taskpit.errors import CursorLost
from taskpit.events import new_events
from taskpit.history import author, moment
from taskpit.model import Card, Event, Page, State, Task, Value
from taskpit.policy import REVIEW, question_of
from taskpit.queue import Queue
from taskpit.rules import order
from taskpit.status import STANDS, STATUSES, Status, status_of
from taskpit.text import headline, revealed

#: The columns of every board, from left to right.
COLUMNS: tuple[str, ...] = tuple(map(str, STATUSES))
#: The column that counts what a store has in a state beyond what was read.
BEYOND = {
    State.READY: Status.READY,
    State.CLAIMED: Status.RUNNING,
    State.DONE: Status.DONE,
    State.FAILED: Status.FAILED,
}
#: A column has at most so many slips; what is beyond is only counted.
MOST = 20_000
#: Tasks are read this many at a time; a store may list all of them for each page, so that small ones cost most.
PAGE = 5000
#: So many of the last lines of the changelog are at hand.
RECENT = 500
#: So many are read when a board begins; a task that was claimed before tells itself since when, if less exactly.
LAST = 10_000
#: Counts are compared after so many seconds, claims looked at again, and all is read again.
COMPARE, LOOK, ANEW = 2.0, 5.0, 300.0
#: All is not read again before this many times what reading took.
RARELY = 50
#: Nor are counts compared before so many times what counting took; but after so many seconds they are.
SELDOM, PATIENCE = 250, 30.0


class Slip(Value, frozen=True, kw_only=True):
    """What a board shows of one task: little enough to have ten thousand of them at hand."""

    id: str
    title: str
    column: str
    priority: int = 0
    tags: tuple[str, ...] = ()
    by: str = ""
    created: float = 0.0
    attempts: int = 0
    max_attempts: int = 0
    big: bool = False
    check: str = ""
    parent: str = ""
    needs: tuple[str, ...] = ()
    #: Why it may not be taken, and what a person is asked.
    held: str = ""
    question: str = ""
    not_before: float = 0.0
    #: Who has it, since when, until when, and whether it lives.
    worker: str = ""
    since: float = 0.0
    until: float = 0.0
    alive: str = ""
    #: How it ended.
    verdict: str = ""
    reason: str = ""
    finished: float = 0.0
    seconds: float = 0.0
    usd: float = 0.0
    children: tuple[str, ...] = ()
    #: By which a column is sorted.
    place: tuple[object, ...] = ()

    @property
    def asks(self) -> str:
        """What a person is asked for: `question`, `review` or nothing."""
        return "question" if self.question else "review" if self.held.startswith(REVIEW) else ""

    @classmethod
    def of(cls, card: Card, since: float = 0.0) -> Slip:
        """What is shown of this card; `since`: when it was claimed, if that is known."""
        task, result = card.task, card.result
        finished = result.finished if result else 0.0
        begun = (since or card.since) if card.state is State.CLAIMED else 0.0
        place: tuple[object, ...] = order(task)
        if card.state is State.CLAIMED:
            place = (begun, task.id)
        elif result is not None:
            place = (-finished, task.id)
        elif card.held:
            place = (not question_of(task), *place)
        return cls(
            **{name: getattr(task, name) for name in SAME},
            title=task.title or task.slug or task.id,
            column=str(status_of(card)),
            check=revealed(task.check),
            held=card.held,
            question=question_of(task),
            worker=card.worker or (author(result) if result else ""),
            since=begun,
            until=card.until,
            alive=card.alive if card.state is State.CLAIMED else "",
            verdict=str(result.verdict) if result else "",
            reason=headline(result.reason) if result else "",
            finished=finished,
            seconds=result.seconds if result else 0.0,
            usd=amount(result.cost.get("usd")) if result else 0.0,
            children=result.children if result else (),
            place=place,
        )

    def text(self) -> str:
        """All that can be looked for on it, in small letters."""
        tags = " ".join(f"#{tag}" for tag in self.tags)
        return f"{self.id} {self.title} {tags} {self.worker} {self.held} {self.reason}".casefold()

    def mentions(self, words: Iterable[str]) -> bool:
        """Whether each of these small-letter words is somewhere on it."""
        text = self.text()
        return all(word in text for word in words)


#: Fields that a slip has from its task as they are.
SAME = frozenset(Slip.__struct_fields__) & frozenset(Task.__struct_fields__) - {"title", "check"}


class BoardChange(Value, frozen=True, kw_only=True):
    """What is new on a board: the tasks whose slips came, went or changed, and the lines that told so."""

    ids: frozenset[str] = frozenset()
    events: tuple[Event, ...] = ()
    #: All was read again: ids say nothing.
    anew: bool = False

    def __bool__(self) -> bool:
        return bool(self.ids or self.events or self.anew)


class Board:
    """The slips of a queue, kept true."""

    def __init__(self, queue: Queue, most: int = MOST) -> None:
        self.queue = queue
        self.slips: dict[str, Slip] = {}
        #: Tasks in each column, also those beyond what is shown.
        self.counts: dict[str, int] = dict.fromkeys(COLUMNS, 0)
        self.paused = ""
        #: Grows with every change.
        self.version = 0
        #: The last lines of the changelog, oldest first.
        self.recent: deque[Event] = deque(maxlen=RECENT)
        self._most = most
        self._cursor = ""
        self._claimed_at: dict[str, float] = {}
        self._dependants: dict[str, set[str]] = {}
        self._sorted: dict[str, list[Slip]] = {}
        self._read = self._compared = self._looked = 0.0
        self._cost = self._counting = 0.0
        self._beyond: list[int] = []

    # -- reading -----------------------------------------------------------------------------------

    def load(self, progress: Callable[[int], None] | None = None) -> Board:
        """All is read; `progress` is told how many slips there are so far."""
        began = self.queue.clock.monotonic()
        self._cursor = self._catch_up()
        self.slips, self._dependants = {}, {}
        for state in (State.CLAIMED, State.FAILED, State.READY, State.DONE):
            for page in self._pages(state):
                for card in page.cards:
                    self._lay(Slip.of(card, self._claimed_at.get(card.task.id, 0.0)))
                if progress is not None:
                    progress(len(self.slips))
        self._count()
        self.paused = self.queue.store.paused()
        self._read = self._looked = self.queue.clock.monotonic()
        self._cost = self._read - began
        self._sorted = {}
        self.version += 1
        return self

    def _pages(self, state: State) -> Iterator[Page]:
        cursor, left = "", self._most
        while left > 0:
            page = self.queue.store.page(state, cursor, min(PAGE, left))
            yield page
            cursor, left = page.cursor, left - len(page.cards)
            if not cursor:
                return

    def _catch_up(self) -> str:
        """The changelog's end; on the way there, or in its last lines, it is learnt when each task was claimed."""
        store, cursor, last = self.queue.store, self._cursor, list[Event]()
        if not cursor:
            last, cursor = store.latest(LAST)
        events, cursor = new_events(store, cursor)
        for event in (*last, *events):
            self._note_claim(event)
        return cursor

    def _note_claim(self, event: Event) -> None:
        self.recent.append(event)
        if event.did == "claimed_task":
            self._claimed_at[event.about] = moment(event.timestamp)
        elif event.did not in ("noted", "late_result"):
            self._claimed_at.pop(event.about, None)

    def _count(self) -> None:
        """What lies here, and what was too much to be read; the store's own counts may be a moment ahead of that."""
        there = self._counted()
        self.counts = dict.fromkeys(COLUMNS, 0)
        for slip in self.slips.values():
            self.counts[slip.column] += 1
        for state, read, beyond in zip(STANDS, self._standing(), self._past(there), strict=True):
            self.counts[BEYOND[state]] += max(beyond, 0) if read >= self._most else 0
        self._beyond = self._past(there)

    def _past(self, counts: dict[State, int]) -> list[int]:
        """What a store counts that we don't, in each of the states: files that nobody can read, for instance."""
        return [counts.get(state, 0) - ours for state, ours in zip(STANDS, self._standing(), strict=True)]

    def _counted(self) -> dict[State, int]:
        """How many the store has in each state; it is noted when that was, and how long it took."""
        began = self.queue.clock.monotonic()
        counts = self.queue.store.counts()
        self._compared = self.queue.clock.monotonic()
        self._counting = self._compared - began
        return counts

    def _lay(self, slip: Slip) -> None:
        self.slips[slip.id] = slip
        for need in slip.needs:
            self._dependants.setdefault(need, set()).add(slip.id)

    # -- following ---------------------------------------------------------------------------------

    def follow(self) -> BoardChange:
        """What has changed since the last look; the board shows it from now on."""
        try:
            events = self._new_events()
        except CursorLost:
            self._cursor = ""
            self.load()
            return BoardChange(anew=True)
        now = self.queue.clock.monotonic()
        touched = {event.about for event in events if event.about}
        touched |= {other for one in touched for other in self._dependants.get(one, ())}
        touched |= self._due(now)
        changed = self._read_again(touched) if touched else frozenset()
        paused = self.queue.store.paused() if events or self.paused else ""  # its time passes without a line
        if paused != self.paused:
            self.paused, self.version = paused, self.version + 1
        if not events and self._is_off(now):  # while lines come in, counts can't be compared
            self.load()
            return BoardChange(events=tuple(events), anew=True)
        return BoardChange(ids=changed, events=tuple(events))

    def _new_events(self) -> list[Event]:
        found: list[Event] = []
        while True:
            events, self._cursor = self.queue.store.events(self._cursor)
            for event in events:
                self._note_claim(event)
            found += events
            if not events:
                return found

    def _due(self, now: float) -> set[str]:
        """Tasks that change without a line in the changelog: claims age, and a time that was waited for comes."""
        if now - self._looked < LOOK:
            return set()
        self._looked = now
        clock = self.queue.clock.now()
        return {
            slip.id
            for slip in self.slips.values()
            if slip.column == Status.RUNNING or (slip.column == Status.WAITING and 0 < slip.not_before <= clock)
        }

    def _read_again(self, ids: set[str]) -> frozenset[str]:
        """These as they stand now; those whose slip is another than before."""
        changed = set()
        asked = sorted(ids)
        for task_id, card in zip(asked, self.queue.store.read(asked), strict=True):
            old = self.slips.get(task_id)
            new = Slip.of(card, self._claimed_at.get(task_id, 0.0)) if card else None
            if new == old:
                continue
            changed.add(task_id)
            for column, step in ((old.column if old else "", -1), (new.column if new else "", 1)):
                self._sorted.pop(column, None)
                if column:
                    self.counts[column] = max(self.counts[column] + step, 0)
            if new is None:
                del self.slips[task_id]
            else:
                self._lay(new)
        if changed:
            self.version += 1
        return frozenset(changed)

    def _is_off(self, now: float) -> bool:
        """Whether something was moved without a line in the changelog: the counts differ, or it has been too long."""
        if now - self._read > max(ANEW, RARELY * self._cost):
            return True
        if now - self._compared < max(COMPARE, self._cost, min(SELDOM * self._counting, PATIENCE)):
            return False
        counts = self._counted()
        if self._beyond == self._past(counts):
            return False
        return not self.queue.store.events(self._cursor, 1)[0]  # else it happened just now, and is told

    def _standing(self) -> tuple[int, ...]:
        """How many are in each of the states."""
        return tuple(sum(self.counts[column] for column in columns) for columns in STANDS.values())

    # -- looking -----------------------------------------------------------------------------------

    def column(self, name: str) -> list[Slip]:
        """The slips of a column: what comes next first, what waits for a person first, what ended last first."""
        if name not in self._sorted:
            mine = [slip for slip in self.slips.values() if slip.column == name]
            self._sorted[name] = sorted(mine, key=lambda slip: slip.place)
        return self._sorted[name]
