"""Who may start on an agent CLI now: limits it has told us of, how many at once, how far apart.

.taskpit/backends/
    <name>.json     paused_until, reason, strikes: it has had enough until then
    <name>.<n>      locked by whoever has place n of its limit
    <name>.turn     locked by whoever is starting, with the time of the last start

Shared by all pools of a queue on this host. In a queue that is no folder each pool knows only of itself.
"""

from __future__ import annotations

import json
import os

from taskpit import fs
from taskpit.clock import iso
from taskpit.records import Value
from taskpit.text import read_json
from taskpit.worker.quota_reset import LONGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taskpit.clock import Clock
    from taskpit.queue import Queue
    from taskpit.task import Retry

__all__ = ["Backend", "Gate", "Pass", "gate_for", "resting"]

#: Rests that nobody has set the length of are no longer than this.
LONGEST_GUESS = 3600.0
#: How long it rests after trouble that was no limit, at first and at most.
TROUBLE = (10.0, 300.0)


class Backend(Value):
    """What all that run on one agent CLI share."""

    name: str
    #: How many at once on this host; 0 is any number.
    limit: int = 0
    #: Seconds between two starts.
    stagger: float = 0.0
    #: How long it rests after a limit that does not say when it ends.
    pause: float = 300.0


class Pass:
    """The right to start one agent, and the place it takes."""

    def __init__(self, place: fs.Flock | None = None, turn: fs.Flock | None = None) -> None:
        self._place = place
        self._turn = turn

    def started(self, now: float) -> None:
        """It starts now: the next one waits its distance from here."""
        if self._turn is not None:
            fs.overwrite(self._turn.fd, f"{now:.3f}\n".encode(), self._turn.path)
            self._turn.drop()
            self._turn = None

    def leave(self) -> None:
        """Its place is free."""
        for lock in (self._place, self._turn):
            if lock is not None:
                lock.drop()


class Gate:
    """Lets through whoever may start. Without a backend: everybody."""

    def __init__(self, backend: Backend | None, root: str, clock: Clock) -> None:
        self.backend = backend
        self._clock = clock
        self._root = f"{root}/.taskpit" if root and backend else ""
        self._held: dict[str, Any] = {}
        self._told = ""
        if self._root:
            fs.make_dir(f"{self._root}/backends")

    def enter(self) -> Pass | None:
        """A pass; None if it rests, is full, or has just started one."""
        backend = self.backend
        if backend is None:
            return Pass()
        if self.rests():
            return None
        turn = place = None
        if backend.stagger and self._root:
            turn = self._take_turn(backend)
            if turn is None:
                return None
        if backend.limit and self._root:
            place = self._take_place(backend)
            if place is None:
                Pass(turn=turn).leave()
                return None
        return Pass(place, turn)

    def _take_turn(self, backend: Backend) -> fs.Flock | None:
        turn = fs.Flock(self._path("turn"))
        if not turn.take(wait=False):
            return None
        try:
            last = float(os.pread(turn.fd, 64, 0) or 0)
        except ValueError:
            last = 0.0
        if 0 <= self._clock.now() - last < backend.stagger:  # a start in the future is a clock set back
            turn.drop()
            return None
        return turn

    def _take_place(self, backend: Backend) -> fs.Flock | None:
        for number in range(1, backend.limit + 1):
            place = fs.Flock(self._path(str(number)))
            if place.take(wait=False):
                return place
        return None

    # -- resting -----------------------------------------------------------------------------------

    def rests(self) -> str:
        """Until when it rests and why, as a person reads it; empty if it does not."""
        held = self._read()
        left = held.get("paused_until", 0.0) - self._clock.now()
        if not 0 < left <= LONGEST or self.backend is None:
            return ""
        told = f"{self.backend.name} rests until {iso(held['paused_until'])}"
        return f"{told}: {held['reason']}" if held.get("reason") else told

    def news(self) -> str:
        """What has changed since it was last asked, for whoever watches; empty if nothing has."""
        rests = self.rests()
        if rests == self._told:
            return ""
        self._told = rests
        if rests:
            return f"{rests}; nothing is claimed for it until then"
        return f"{self.backend.name} goes on" if self.backend else ""

    def put_off(self, retry: Retry) -> Retry:
        """The backend rests as the outcome says; the task itself may go to another one soon."""
        if self.backend is None or retry.kind not in ("quota", "infra"):
            return retry
        now, held = self._clock.now(), self._read()
        resting = held.get("paused_until", 0.0) > now
        strikes = held.get("strikes", 0) + (0 if resting else 1)
        first, most = (self.backend.pause, LONGEST_GUESS) if retry.kind == "quota" else TROUBLE
        seconds = retry.after or min(first * 2.0 ** min(strikes - 1, 20), most)
        until = max(now + seconds, held.get("paused_until", 0.0) if resting else 0.0)
        reason = " ".join(retry.reason.split())[:200]
        written = self._write({"paused_until": until, "reason": reason, "strikes": strikes})
        return retry.replace(after=0.0) if written else retry.replace(after=seconds)

    def worked(self) -> None:
        """It works: what it suffered before is forgotten."""
        if self._read().get("strikes") and not self.rests():
            self.wake()

    def wake(self) -> None:
        """It rests no longer."""
        self._held = {}
        if self._root:
            fs.remove(self._path("json"))

    def _path(self, kind: str) -> str:
        return f"{self._root}/backends/{self.backend.name if self.backend else ''}.{kind}"

    def _read(self) -> dict[str, Any]:
        if not self._root:
            return self._held
        try:
            fields = read_json(fs.read(self._path("json"), 65536)[0])
            return {
                "paused_until": float(fields.get("paused_until", 0)),
                "reason": str(fields.get("reason", "")),
                "strikes": int(fields.get("strikes", 0)),
            }
        except (OSError, ValueError, TypeError, AttributeError, OverflowError):
            return {}

    def _write(self, fields: dict[str, Any]) -> bool:
        self._held = fields
        if not self._root:
            return True
        try:
            data = (json.dumps(fields, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
            fs.replace(self._path("json"), data, f"{self._root}/backends/.{fs.fresh_name(12)}", sync=False)
        except OSError:
            return False
        return True


def gate_for(queue: Queue, runner: object) -> Gate:
    """The gate before this runner: of its backend, if it has one."""
    info = queue.store.info()
    backend = None
    while runner is not None and not isinstance(backend, Backend):  # a runner may be wrapped in others
        runner, backend = getattr(runner, "runner", None), getattr(runner, "backend", None)
    known = backend if isinstance(backend, Backend) else None
    return Gate(known, info.papers, queue.clock)


def resting(root: str, clock: Clock) -> list[str]:
    """Every backend of the queue in this folder that rests now, in words."""
    files = sorted(name for name in fs.names(f"{root}/.taskpit/backends") if name.endswith(".json"))
    gates = (Gate(Backend(name=name.removesuffix(".json")), root, clock) for name in files)
    return [told for told in (gate.rests() for gate in gates) if told]
