"""Every queue of this user, as `pit status --all` and the boards over all of them show it.

Looks, and changes nothing: a queue that cannot be read, or that leads to a database, is told as such and harms no
other. Whoever opens one of them by name connects as any command does there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import field

from taskpit import errors, trust
from taskpit.board import Slip
from taskpit.model import State, Value
from taskpit.queue import Queue, cards, tally
from taskpit.run.agent_limits import resting
from taskpit.run.budget import DAY, Ledger
from taskpit.status import STATUSES, Status, status_of


def _none() -> dict[str, int]:
    return dict.fromkeys(map(str, STATUSES), 0)


DATABASE = "it leads to a database, which is asked when you open it"


class Glance(Value, frozen=True, kw_only=True):
    """One queue as a row among others."""

    path: str
    name: str
    #: A word for it in addresses.
    key: str
    #: Why nothing is known of it.
    trouble: str = ""
    counts: Mapping[str, int] = field(default_factory=_none)
    needs_you: tuple[Slip, ...] = ()
    running: tuple[Slip, ...] = ()
    #: What a person should know: a pause, backends that rest, trust that has to be given again.
    notices: tuple[str, ...] = ()
    #: What agents have cost in the last 24 hours.
    usd: float = 0.0


class Queues:
    """The queues that this user made or trusted here. They stay open from one look to the next."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._open: dict[str, Queue] = {}

    def look(self) -> list[Glance]:
        """How each of them stands; those that need the user first, then those in which something runs."""
        paths = trust.known()
        for gone in self._open.keys() - set(paths):
            self._open.pop(gone).close()
        found = [self._glance(path) for path in paths]
        return sorted(found, key=lambda one: (-one.counts["needs_you"], -one.counts["running"], one.path))

    def _glance(self, path: str) -> Glance:
        bare = Glance(path=path, name=project_name(path), key=trust.name_for(path)[:12])
        if not os.path.exists(f"{path}/.taskpit/layout"):
            return bare.replace(trouble=DATABASE)
        try:
            if path not in self._open:
                self._open[path] = Queue.open(path, self._env)
            return _look(self._open[path], bare)
        except (errors.TaskpitError, OSError) as error:
            if path in self._open:
                self._open.pop(path).close()
            return bare.replace(trouble=str(error))

    def close(self) -> None:
        """None of them is open any more."""
        while self._open:
            self._open.popitem()[1].close()


def _look(queue: Queue, bare: Glance) -> Glance:
    store, counts = queue.store, tally(queue.store)
    held = cards(store, State.READY, tied=True) if counts["needs_you"] else ()
    needs_you = [Slip.of(card) for card in held if status_of(card) is Status.NEEDS_YOU]
    running = [Slip.of(card) for card in (cards(store, State.CLAIMED) if counts["running"] else ())]
    why = trust.why_not(bare.path)
    notices = (store.paused(), *resting(bare.path, queue.clock), f"not trusted: {why}" if why else "")
    since = queue.clock.now() - DAY
    return bare.replace(
        counts=counts,
        needs_you=tuple(sorted(needs_you, key=lambda slip: slip.place)),
        running=tuple(sorted(running, key=lambda slip: slip.place)),
        notices=tuple(filter(None, notices)),
        usd=round(sum(usd for at, _, usd in Ledger(store.info().papers or bare.path).entries() if at >= since), 4),
    )


def project_name(where: str) -> str:
    """What people call a queue: its folder; of one that is called pit, as most are, the folder it is in."""
    path = os.path.abspath(where)
    name = os.path.basename(path)
    return (os.path.basename(os.path.dirname(path)) if name in ("pit", ".pit", "queue") else name) or "taskpit"
