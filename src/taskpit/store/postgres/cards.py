"""Looking at a queue in a database: cards, pages, counts. Asks, changes nothing."""

from __future__ import annotations

from taskpit import rules, schema
from taskpit.errors import Invalid
from taskpit.model import Card, Page, State, Task
from taskpit.store.postgres.row_text import read_result, read_task, read_tries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from taskpit.store.postgres.archive import Archive
    from taskpit.store.postgres.connection import Wire

#: The order of states in a listing, and the letter of each in a cursor.
SHOWN = {State.READY: "r", State.CLAIMED: "c", State.FAILED: "f", State.DONE: "d"}
#: More needs than this are not followed to find a circle.
FAR = 10_000
#: More ids than this are not told of a beginning that fits many.
MANY = 1000

CARDS = """
    SELECT t.id, t.state::text, t.doc, t.result, l.fence, l.seen, l.until, m.until,
           (SELECT pg_catalog.array_agg(a.doc ORDER BY a.n) FROM {s}.attempt a WHERE a.id = t.id),
           (SELECT pg_catalog.array_agg(x.n ORDER BY x.n) FROM {s}.late x WHERE x.id = t.id),
           (SELECT string_agg(n.words, '' ORDER BY n.n) FROM {s}.note n WHERE n.id = t.id), t.archived
    FROM {s}.task t LEFT JOIN {s}.lease l ON l.id = t.id LEFT JOIN {s}.member m ON m.id = l.member
    WHERE t.id = ANY (%(ids)s) AND t.state <> 'w'
"""
STATES = """
    SELECT t.id, CASE t.state WHEN 'd' THEN 'done' WHEN 'f' THEN 'failed' WHEN 'w' THEN ''
                 ELSE CASE WHEN l.id IS NULL THEN 'ready' ELSE 'claimed' END END
    FROM {s}.task t LEFT JOIN {s}.lease l ON l.id = t.id WHERE t.id = ANY (%(ids)s)
"""
RUNNING = "SELECT l.id, l.touches, l.limits FROM {s}.lease l WHERE l.touches IS NOT NULL OR l.limits IS NOT NULL"
STARTS = "SELECT x.key, pg_catalog.array_agg(x.at) FROM {s}.start x WHERE x.at > %(after)s GROUP BY 1"
CIRCLE = """
    WITH RECURSIVE way (id, on_id, place) AS (
        SELECT n.id, n.on_id, n.place FROM {s}.need n WHERE n.id = ANY (%(ids)s)
        UNION SELECT n.id, n.on_id, n.place FROM way w JOIN {s}.need n ON n.id = w.on_id)
    SELECT x.id, x.on_id FROM (SELECT * FROM way LIMIT %(far)s) x ORDER BY x.id, x.place
"""
PLACES = "SELECT id, key FROM {s}.places(%(state)s, %(after)s, %(limit)s)"
COUNTS = """
    SELECT (SELECT count(*) FROM {s}.ready) + (SELECT count(*) FROM {s}.waiting), (SELECT count(*) FROM {s}.lease),
           (SELECT count(*) FROM {s}.task t WHERE t.state = 'd'), (SELECT count(*) FROM {s}.task t WHERE t.state = 'f')
"""
RESOLVE = """
    SELECT t.id FROM {s}.task t WHERE t.id >= %(text)s AND t.id < %(end)s AND t.state <> 'w'
    ORDER BY t.id LIMIT %(many)s
"""
EXACT = "SELECT t.id FROM {s}.task t WHERE t.id = ANY (%(ids)s) AND t.state <> 'w'"


class Look:
    """Reads one queue."""

    def __init__(self, wire: Wire, limits: Mapping[str, str], archive: Archive) -> None:
        self._wire = wire
        self._archive = archive
        #: What the queue's settings allow of each key.
        self._limits = limits

    def _ask(self, sql: str, **words: object) -> list[tuple[Any, ...]]:
        return self._wire.ask(sql, words)

    def cards(self, ids: Sequence[str], now: float) -> list[Card | None]:
        """Each as it stands, in order."""
        usable = [task_id for task_id in ids if "\0" not in task_id]
        rows = self._ask(CARDS, ids=usable) if usable else []
        found = {row[0]: _card(row, now) for row in rows}
        found |= {row[0]: self._archive.whole(found[row[0]], row[-1]) for row in rows if row[-1] is not None}
        ready = [card.task for card in found.values() if card.state is State.READY]
        for task_id, reason in self._held(ready, now).items():
            found[task_id] = found[task_id].replace(held=reason)
        return [found.get(task_id) for task_id in ids]

    def _held(self, ready: Sequence[Task], now: float) -> dict[str, str]:
        """Why each of these may not be taken, where something is in the way."""
        states = self.states({need for task in ready for need in task.needs})
        alone = any(task.touches or task.limits for task in ready)
        use = self._in_use(now) if alone else rules.Use(now=now)
        held = {
            task.id: rules.held(task, now, states.get)
            or rules.in_the_way(task, use.running)
            or rules.over_limit(task, use)[0]
            for task in ready
        }
        waiting = [task for task in ready if task.needs and held[task.id]]
        return {**held, **self._circles(waiting)}

    def _in_use(self, now: float) -> rules.Use:
        """What running tasks change and use."""
        running = tuple(
            Task(id=name, title="", touches=tuple(touches or ()), limits=tuple(limits or ()))
            for name, touches, limits in self._ask(RUNNING)
        )
        starts = {key: tuple(times) for key, times in self._ask(STARTS, after=now - rules.MINUTE)}
        return rules.Use(running=running, starts=starts, settings=self._limits, now=now)

    def _circles(self, waiting: Sequence[Task]) -> dict[str, str]:
        """Those that wait for themselves, each with the way round."""
        if not waiting:
            return {}
        needs: dict[str, list[str]] = {}
        for task_id, need in self._ask(CIRCLE, ids=[task.id for task in waiting], far=FAR):
            needs.setdefault(task_id, []).append(need)
        tasks = {key: Task(id=key, title="", needs=tuple(on)) for key, on in needs.items()}
        circles = {task.id: rules.held_in_circle(task, tasks) for task in waiting if task.id in tasks}
        return {task_id: told for task_id, told in circles.items() if told}

    def states(self, ids: Iterable[str]) -> dict[str, State]:
        """Where each of these is; unknown ones are left out."""
        wanted = sorted(ids)
        return {row[0]: State(row[1]) for row in self._ask(STATES, ids=wanted) if row[1]} if wanted else {}

    def page(self, state: State | None, after: str, limit: int, now: float) -> Page:
        """Cards after a cursor, which is the last one's place in the order: nothing is skipped for good."""
        first, place = _cursor(after)
        letters = [letter for one, letter in SHOWN.items() if state in (None, one)]
        kinds = {letter: one for one, letter in SHOWN.items()}
        cards: list[Card] = []
        for letter in letters[letters.index(first) if first in letters else 0 :]:
            begin = place if letter == first else b""
            room = limit - len(cards)
            rows = self._ask(PLACES, state=letter, after=begin, limit=room + 1)
            read = self.cards([row[0] for row in rows[:room]], now)
            cards += [card for card in read if card is not None and card.state is kinds[letter]]
            if len(rows) > room:
                last = rows[room - 1][1].hex() if room else begin.hex()
                return Page(cards=tuple(cards), cursor=f"{letter}{last}")
        return Page(cards=tuple(cards))

    def counts(self) -> dict[State, int]:
        """How many are in each state."""
        ready, claimed, done, failed = self._ask(COUNTS)[0]
        return {State.READY: ready, State.CLAIMED: claimed, State.DONE: done, State.FAILED: failed}

    def resolve(self, text: str) -> list[str]:
        """Itself, its number, or what begins with it."""
        if not text or "\0" in text:
            return []
        exact = {row[0] for row in self._ask(EXACT, ids=[text, text.zfill(4)])}
        for one in (text, text.zfill(4)):
            if one in exact:
                return [one]
        return [row[0] for row in self._ask(RESOLVE, text=text, end=f"{text}\U0010ffff", many=MANY)]


def _card(row: tuple[Any, ...], now: float) -> Card:
    task_id, state, doc, result, fence, seen, until, member, tries, late, notes, _ = row
    over = {"d": State.DONE, "f": State.FAILED}
    where = over.get(state) or (State.READY if fence is None else State.CLAIMED)
    return Card(
        task=read_task(doc, task_id),
        state=where,
        worker=fence or "",
        since=schema.amount(seen),
        until=schema.amount(until),
        alive="yes" if member is not None and member > now and until > now else "unknown",
        result=read_result(result, task_id, str(where)) if result and state in over else None,
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
