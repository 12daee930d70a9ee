"""Names in use, claims whose worker has left, and the grace after a start. In memory only: what is lost with the
gateway costs time, never a claim.

No name is held in the store itself: there, all of them would die with the gateway. A pool tells with every call which
names are its own; a gateway that was started again learns them so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence

from taskpit.errors import Lost
from taskpit.model import Claim
from taskpit.workers import MARK, base

#: A name lasts at least so many seconds after its process was last heard of.
SHORTEST = 30.0

Key = tuple[str, str]


class Members:
    """Who works through this gateway. Used by several threads."""

    def __init__(self, grace: float) -> None:
        #: How long after a start nothing lapses that was not heard of since.
        self.grace = grace
        self._turn = threading.Lock()
        self._owner: dict[str, tuple[str, str]] = {}
        self._until: dict[str, float] = {}
        self._heard: dict[Key, None] = {}
        self._left: dict[Key, str] = {}
        self.begin()

    def begin(self) -> None:
        """The grace begins: at the start, and when this process stood still for long."""
        with self._turn:
            self._began = time.monotonic()
            self._heard.clear()

    # -- names -------------------------------------------------------------------------------------

    def hear(self, who: str, names: Iterable[str], lease: float) -> None:
        """This process lives, and these names are its own."""
        if not who:
            return
        with self._turn:
            self._until[who] = time.monotonic() + max(lease, SHORTEST)
            for name in names:
                if not self._living(name):
                    self._owner[name] = (who, self._owner.get(name, ("", ""))[1])

    def _living(self, name: str) -> str:
        """The process that has the name; empty if none that lives."""
        who = self._owner.get(name, ("", ""))[0]
        return who if self._until.get(who, 0.0) > time.monotonic() else ""

    def join(self, name: str, who: str, place: str, lease: float, claimed: Collection[Key]) -> None:
        """The name is this process's. Lost if another's that lives, or if it has claims and nobody knows whose."""
        with self._turn:
            living, before = self._living(name), self._owner.get(name)
            same = before is not None and before[1] == place  # where a name can be had only once its process is dead
            if living not in ("", who) and not same:
                raise Lost(f"a living process already works here as {name}", worker=name)
            if before is None and claimed:
                raise Lost(f"{name} has claims whose worker may live", worker=name)
            if same and before is not None and before[0] != who:
                for key in self._heard:
                    if MARK in key[1] and base(key[1]) == name:
                        self._left[key] = f"an earlier {name} left it"
            self._owner[name] = (who, place)
            self._until[who] = time.monotonic() + max(lease, SHORTEST)

    def leave(self, name: str, who: str, held: Iterable[Key]) -> None:
        """The name is free; what it held lapses."""
        with self._turn:
            if self._owner.get(name, ("", ""))[0] == who:
                del self._owner[name]
            for key in held:
                if base(key[1]) == name:
                    self._left[key] = f"{name} has left"

    def forget(self) -> None:
        """Names of processes that were not heard of for long."""
        with self._turn:
            now = time.monotonic()
            self._until = {who: until for who, until in self._until.items() if until > now - self.grace}
            self._owner = {name: one for name, one in self._owner.items() if one[0] in self._until}

    # -- claims ------------------------------------------------------------------------------------

    def holds(self, claims: Iterable[Claim]) -> None:
        """These were claimed or renewed just now."""
        with self._turn:
            for claim in claims:
                self._heard[claim.task.id, claim.fence] = None

    def ended(self, claims: Iterable[Claim]) -> None:
        """These are over."""
        with self._turn:
            for claim in claims:
                key = (claim.task.id, claim.fence)
                self._heard.pop(key, None)
                self._left.pop(key, None)

    def left(self) -> dict[Key, str]:
        """Claims of workers that have left, and why they lapse."""
        with self._turn:
            return dict(self._left)

    def found(self, gone: Sequence[Key]) -> None:
        """These were looked for and are over."""
        with self._turn:
            for key in gone:
                self._left.pop(key, None)

    def in_grace(self, claim: Claim) -> bool:
        """Whether its worker may not have had the time to renew since this gateway began."""
        with self._turn:
            young = time.monotonic() - self._began < self.grace
            return young and (claim.task.id, claim.fence) not in self._heard
