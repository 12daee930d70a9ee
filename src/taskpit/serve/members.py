"""Names in use, claims whose worker has left, and the grace after a start. In memory: a lost gateway costs time only.

The store holds no names for a gateway: all of them would end with it. A pool says with every call which names are its
own, so a gateway that was started again learns them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable

from taskpit.errors import Lost
from taskpit.model import Claim
from taskpit.workers import MARK, base

#: A name lasts at least so many seconds after the last call of its process.
SHORTEST = 30.0

Key = tuple[str, str]


class Members:
    """The workers at this gateway. Used by several threads."""

    def __init__(self, grace: float) -> None:
        #: Seconds after a start in which no claim lapses that was not seen since.
        self.grace = grace
        self._turn = threading.Lock()
        #: By name: the process that has it, and the place where only one living process can have it.
        self._owners: dict[str, tuple[str, str]] = {}
        self._until: dict[str, float] = {}
        self._seen: dict[Key, None] = {}
        self._left: dict[Key, str] = {}
        self.begin_grace()

    def begin_grace(self) -> None:
        """Begin at the start, and again when this process did not run for long."""
        with self._turn:
            self._began = time.monotonic()
            self._seen.clear()

    # -- names -------------------------------------------------------------------------------------

    def hear(self, process: str, names: Iterable[str], lease: float) -> None:
        """Note that this process lives, and has these names."""
        if not process:
            return
        with self._turn:
            self._until[process] = time.monotonic() + max(lease, SHORTEST)
            for name in names:
                if not self._living_owner(name):
                    self._owners[name] = (process, self._owners.get(name, ("", ""))[1])

    def _living_owner(self, name: str) -> str:
        process = self._owners.get(name, ("", ""))[0]
        return process if self._until.get(process, 0.0) > time.monotonic() else ""

    def join(self, name: str, process: str, place: str, lease: float, claimed: Collection[Key]) -> None:
        """Give the name to this process. Raises Lost if another has it, or if it has claims of an unknown owner."""
        with self._turn:
            before = self._owners.get(name)
            is_same_place = before is not None and before[1] == place
            if self._living_owner(name) not in ("", process) and not is_same_place:
                raise Lost(f"a living process already works here as {name}", worker=name)
            if before is None and claimed:
                raise Lost(f"{name} has claims whose worker may live", worker=name)
            if is_same_place and before is not None and before[0] != process:
                for key in self._seen:
                    if MARK in key[1] and base(key[1]) == name:
                        self._left[key] = f"an earlier {name} left it"
            self._owners[name] = (process, place)
            self._until[process] = time.monotonic() + max(lease, SHORTEST)

    def leave(self, name: str, process: str, held: Iterable[Key]) -> None:
        """Free the name; its claims lapse."""
        with self._turn:
            if self._owners.get(name, ("", ""))[0] == process:
                del self._owners[name]
            self._left.update({key: f"{name} has left" for key in held if base(key[1]) == name})

    def forget(self) -> None:
        """Forget the names of processes that were silent for long."""
        with self._turn:
            oldest = time.monotonic() - self.grace
            self._until = {process: until for process, until in self._until.items() if until > oldest}
            self._owners = {name: owner for name, owner in self._owners.items() if owner[0] in self._until}

    # -- claims ------------------------------------------------------------------------------------

    def saw(self, claims: Iterable[Claim]) -> None:
        """Note claims that were made or renewed now."""
        with self._turn:
            self._seen.update({(claim.task.id, claim.fence): None for claim in claims})

    def ended(self, keys: Iterable[Key]) -> None:
        """Forget claims that have ended."""
        with self._turn:
            for key in keys:
                self._seen.pop(key, None)
                self._left.pop(key, None)

    def left(self) -> dict[Key, str]:
        """Return the claims of workers that have left, and why they lapse."""
        with self._turn:
            return dict(self._left)

    def in_grace(self, claim: Claim) -> bool:
        """Whether its worker may not have had the time to renew since this gateway began."""
        with self._turn:
            is_young = time.monotonic() - self._began < self.grace
            return is_young and (claim.task.id, claim.fence) not in self._seen
