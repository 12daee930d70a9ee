"""A race: several racers work on one task, and one result stays.

    start    the claimer of a task with the field `race` ends that claim: its racers enter, and the task is held
    win      a racer that is done claims the held task, publishes its own result as the task's, then ends itself
    stop     the other racers end: those that nobody has at once, the others when they next renew
    fail     all racers are over and none has won: the task fails

The store decides who claims the held task, so there is one result, however many are done at that moment, on every
layout and backend. A racer that dies in between leaves a claim, its own or that of the held task, and the process that
gives that back looks after the race (`look`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.errors import Invalid, Unavailable
from taskpit.model import FOR_RACERS, Card, Claim, Done, End, Failed, Said, State, Task, Want, brought
from taskpit.policy import OVER, RACERS, RACING, settle
from taskpit.store.port import Store

#: The field that asks for a race, and the field of a racer that names the task it races for.
RACE, RACER_OF = "race", "race-of"
#: How many may race.
FEWEST, MOST = 2, 10
#: A task or racer is taken for an instant to be ended; another waits so long for that, longer than for one who died.
LEASE, PATIENCE, LOOK = 5.0, 10.0, 0.05
#: What of each racer's cost is added up.
SUMS = ("usd", "tokens", "turns")
#: Fields of the task that are not its racers'.
_OWN = (RACE, RACERS, "candidate")
#: One racer of a list: an agent, and a model after a colon, either may be left out.
_ENTRANT = re.compile(r"[\w.-]*(:[\w./@-]+)?")


def entrants(task: Task) -> list[dict[str, str]]:
    """What each racer has of its own: an agent, a model, or nothing. Invalid if that cannot be understood."""
    said = task.extra.get(RACE)
    words = [str(one) for one in said] if isinstance(said, list | tuple) else str(said).replace(",", " ").split()
    hint = f"Write a number from {FEWEST} to {MOST}, or agents such as `claude, codex, claude:opus`."
    if len(words) == 1 and words[0].isascii() and words[0].isdecimal():
        count = int(words[0]) if len(words[0]) < 4 else MOST + 1
        words = [""] * min(count, MOST + 1)
    elif not all(_ENTRANT.fullmatch(word) for word in words):
        raise Invalid(f"race: {str(said)[:80]!r} names no racers", hint=hint, id=task.id)
    if not FEWEST <= len(words) <= MOST:
        raise Invalid(f"race: {str(said)[:80]!r} is not from {FEWEST} to {MOST} racers", hint=hint, id=task.id)
    if task.big:
        raise Invalid("a big task is split by a planner and cannot race", hint="Let its parts race.", id=task.id)
    pairs = [word.partition(":") for word in words]
    return [{key: text for key, text in (("agent", one), ("model", model)) if text} for one, _, model in pairs]


def parent_of(task: Task) -> str:
    """The task that this racer races for; empty if it is none."""
    parent = task.extra.get(RACER_OF)
    return parent if isinstance(parent, str) and parent and is_racer(task.id, parent) else ""


def racers_of(task: Task) -> list[str]:
    """The racers of this task, as it was last held."""
    return [word for word in str(task.extra.get(RACERS, "")).replace(",", " ").split() if is_racer(word, task.id)]


def is_racer(task_id: str, parent: str = "") -> bool:
    """Whether an id is that of a racer, of this task if one is named."""
    head, _, number = task_id.rpartition(".r")
    return bool(head) and head == (parent or head) and number.isascii() and number.isdecimal()


def _is_open(card: Card | None) -> bool:
    return card is not None and card.state in (State.READY, State.CLAIMED)


class Race:
    """The races of one queue."""

    def __init__(self, store: Store, config: Config, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock

    # -- start -------------------------------------------------------------------------------------

    def start(self, claim: Claim) -> End:
        """The end of the claim of a task that is to race; one that cannot be understood is held for a person."""
        task = claim.task
        try:
            fields = entrants(task)
        except Invalid as error:
            return End(claim=claim, task=task.replace(hold=error.message), action="blocked", details=error.message)
        running = [name for name, card in self._read(racers_of(task)) if _is_open(card)]
        children = [] if running else self._children(task, fields)
        names = running or [name for name, _ in children]
        held = task.replace(
            hold=f"{RACING}: {', '.join(names)}", attempts=0, extra={**task.extra, RACERS: ", ".join(names)}
        )
        fresh = tuple(child for _, child in children if child is not None)
        return End(
            claim=claim, task=held, children=fresh, action="split_task", details=f"{FOR_RACERS}{', '.join(names)}"
        )

    def _children(self, task: Task, fields: list[dict[str, str]]) -> list[tuple[str, Task | None]]:
        """The racers by name; None for one that a crash left there. The names of those that are over are not reused."""
        found: list[tuple[str, Task | None]] = []
        number = 0
        while len(found) < len(fields):
            number += 1
            name = f"{task.id}.r{number}"
            card = self._store.read([name])[0]
            if card is None:
                found.append((name, _racer(task, name, fields[len(found)])))
            elif parent_of(card.task) == task.id and _is_open(card):
                found.append((name, None))
        return found

    # -- the end of a racer ------------------------------------------------------------------------

    def over(self, task: Task) -> Card | None:
        """The task that this racer raced for, if that has a result; None while the race goes on, or if it has none."""
        parent = parent_of(task)
        card = self._store.read([parent])[0] if parent else None
        if card is None or _is_open(card) or task.id not in racers_of(card.task):
            return None
        return card

    def late(self, claim: Claim) -> End | None:
        """The end of a racer's claim if the race is over; None while it goes on."""
        card = self.over(claim.task)
        return self._late(claim, card) if card is not None else None

    def _late(self, claim: Claim, parent: Card, end: End | None = None) -> End:
        """Also the winner may come too late to end itself: it died after it had sealed."""
        result = end.result if end is not None else None
        text = parent.result.reason if parent.result else str(parent.state)
        if text.startswith(f"{claim.task.id} won"):
            if end is not None and result is not None and result.verdict.state is State.DONE:
                return end
            return settle(claim, Done(reason=text), (), self._config, self._clock.now())
        lost = Failed(error=f"{OVER}: {text}", cancelled=True)
        if result is not None:
            lost = lost.replace(**brought(result))
        return settle(claim, lost, (), self._config, self._clock.now())

    def finish(self, end: End) -> list[tuple[Said, End]]:
        """A racer's claim ends this way, and with it the race if it has won or was the last. The racer's end is first.

        Unavailable if the task cannot be had to be sealed: then nothing has happened, and it can be tried again.
        """
        claim = end.claim
        parent = self._store.read([parent_of(claim.task)])[0]
        listed = parent is not None and claim.task.id in racers_of(parent.task)
        alive = self._store.renew([claim], claim.lease or self._config.lease)[0] is not Said.LOST
        if end.result is None or parent is None or not listed or not alive:
            return self._carry_out(end)
        if not _is_open(parent):
            return self._carry_out(self._late(claim, parent, end))
        if end.result.verdict.state is not State.DONE:
            return self._fail(end, parent)
        sealing = self._take(parent.task.id, claim.worker, PATIENCE)
        if sealing is None:
            return self.finish(end)  # another has sealed it meanwhile
        sealed = self.sealed(sealing, claim.task.id, Done(reason=end.result.reason, **brought(end.result)))
        said = self._carry_out(sealed)
        if said[0][0] is Said.LOST:
            return self.finish(end)
        return [*self._carry_out(end), *said, *self.stop(sealing.task, claim.worker)]

    def sealed(self, parent: Claim, winner: str, done: Done, costs: Iterable[Mapping[str, object]] = ()) -> End:
        """The end of the claim of a task whose racer has won. Its cost is that of all who have told theirs by then.

        `costs` are of racers that wait, and so have no result.
        """
        others = [name for name in racers_of(parent.task) if name != winner]
        known = [card.result.cost for _, card in self._read(others) if card is not None and card.result is not None]
        reason = f"{winner} won: {done.reason}" if done.reason else f"{winner} won"
        whole = done.replace(reason=reason, cost=total(done.cost, [*known, *costs]))
        return settle(parent, whole, (), self._config, self._clock.now())

    def _fail(self, end: End, parent: Card) -> list[tuple[Said, End]]:
        """A racer has failed. The task is taken meanwhile: should we die, that claim lapses, and is looked after."""
        sealing = self._claim(parent.task.id, end.claim.worker)
        said = self._carry_out(end)
        if sealing is not None:
            self._store.finish([End(claim=sealing)])
        return [*said, *self.look(parent.task.id, end.claim.worker)]

    def _carry_out(self, end: End) -> list[tuple[Said, End]]:
        return [(self._store.finish([end])[0], end)]

    def _claim(self, task_id: str, worker: str) -> Claim | None:
        claims = self._store.claim(Want(worker=worker, lease=LEASE, ids=(task_id,), even_held=True))
        return claims[0] if claims else None

    def _take(self, task_id: str, worker: str, patience: float) -> Claim | None:
        """The claim of the held task; None if it has a result. Another racer may have it for an instant."""
        deadline = self._clock.monotonic() + patience
        while True:
            claim = self._claim(task_id, worker)
            if claim is not None:
                return claim
            card = self._store.read([task_id])[0]
            if not _is_open(card):
                return None
            if self._clock.monotonic() >= deadline:
                text = f"{task_id}, which its racer has won, is held by {card.worker if card else 'another worker'}"
                raise Unavailable(text, hint="Try again in a moment.", id=task_id)
            self._store.wait(LOOK)

    # -- afterwards --------------------------------------------------------------------------------

    def look(self, task_id: str, worker: str) -> list[tuple[Said, End]]:
        """What a race needs: racers of one that is over end; a race whose racers are all over ends."""
        card = self._store.read([task_id])[0]
        if card is None or not racers_of(card.task):
            return []
        if not _is_open(card):
            return self.stop(card.task, worker)
        racers = [(name, racer) for name, racer in self._read(racers_of(card.task)) if racer is not None]
        # One that is done although the task has no result was ended by a worker that knows of no race.
        won = next(((name, racer.result) for name, racer in racers if racer.state is State.DONE), None)
        if won is None and any(_is_open(racer) for _, racer in racers):
            return []
        claim = self._claim(task_id, worker) if card.state is State.READY and card.task.hold else None
        if claim is None:
            return []
        if won is not None and (result := won[1]) is not None:
            done = Done(reason=result.reason, **brought(result))
            return [*self._carry_out(self.sealed(claim, won[0], done)), *self.stop(card.task, worker)]
        text = "; ".join(f"{name}: {racer.result.reason if racer.result else racer.state}" for name, racer in racers)
        failed = Failed(error=f"no racer has won: {text}"[:2000], final=True)
        return self._carry_out(settle(claim, failed, (), self._config, self._clock.now()))

    def stop(self, task: Task, worker: str) -> list[tuple[Said, End]]:
        """Racers of a task that has its result have ended, but for those that a worker has: these learn it."""
        said: list[tuple[Said, End]] = []
        for name, card in self._read(racers_of(task)):
            if card is None or card.state is not State.READY or parent_of(card.task) != task.id:
                continue
            claim = self._claim(name, worker)
            end = self.late(claim) if claim is not None else None
            if end is not None:
                said += self._carry_out(end)
            elif claim is not None:
                self._store.finish([End(claim=claim)])
        return said

    def _read(self, names: list[str]) -> list[tuple[str, Card | None]]:
        return list(zip(names, self._store.read(names), strict=True))


def _racer(task: Task, name: str, fields: dict[str, str]) -> Task:
    """The task, as one racer has it. Racers change the same files, so they have no paths to themselves."""
    extra = {key: value for key, value in task.extra.items() if key not in _OWN}
    return task.replace(
        id=name,
        parent=task.parent or task.id,
        touches=(),
        hold="",
        not_before=0.0,
        attempts=0,
        last_error="",
        updated=0.0,
        extra={**extra, **fields, RACER_OF: task.id},
        source=b"",
    )


def total(cost: Mapping[str, object], others: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """The cost of one with that of others added to it."""
    whole = dict(cost)
    for other in others:
        for key in SUMS:
            more, before = other.get(key), whole.get(key, 0)
            if isinstance(more, int | float) and isinstance(before, int | float):
                whole[key] = before + more
    return whole
