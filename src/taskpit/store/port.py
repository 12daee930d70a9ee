"""The ports: what a store of tasks must do. A store is what passes `taskpit.testing.StoreContract`.

Five small ones, so that whoever uses a store asks only for what it needs, and whoever writes one can do so in turn:

    Tasks     put, claim, renew, finish, reopen, stop, wait
    Looking   read, resolve, page, counts, events
    Locks     lock, relock, unlock, locks
    Upkeep    lapsed, mend, fix, check, compost; lines and notes
    Files     logs as they grow, and files that are kept with a task

    Store     all of them, and join, pause, resume, info, close

One store is one space: no need, parent or lock reaches outside it. Each verb has happened or has not.
Ids are fixed before the call, so a verb whose outcome is unknown can be repeated. Lists go in, one
answer per item comes out. Only the store's clock counts: callers pass and receive durations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.model import (
    Card,
    Claim,
    Count,
    End,
    Event,
    Lock,
    Page,
    Said,
    Seconds,
    State,
    Task,
    Text,
    Texts,
    Value,
    Want,
)

__all__ = [
    "LOOKS",
    "Artifact",
    "Files",
    "Info",
    "Lapse",
    "Locks",
    "Looking",
    "Member",
    "Mend",
    "OpenStore",
    "Store",
    "Tasks",
    "Upkeep",
    "turn",
]


#: Verbs that change nothing. A gateway needs no name for such a call.
LOOKS = (
    *("hello", "paused", "read", "resolve", "page", "counts", "events", "latest", "locks", "check", "unsettled"),
    *("read_log", "artifacts", "read_artifact"),
)


class Lapse(Value, frozen=True, kw_only=True):
    """A claim whose holder is gone, or has not renewed for a lease."""

    claim: Claim
    reason: Text
    #: Whether a person has cancelled the task, and its holder was asked to stop.
    called_off: bool = False
    #: The end of its lease as the card of the task shows it; 0 where the store does not tell.
    until: Seconds = 0.0


class Mend(Value, frozen=True, kw_only=True):
    """One thing that was out of order, and what was done about it."""

    kind: Text
    what: Text
    details: Text = ""


class Artifact(Value, frozen=True, kw_only=True):
    """A file that is kept with a task."""

    name: Text
    size: Count
    sha256: Text


class Info(Value, frozen=True, kw_only=True):
    """What this store is and what it promises here and now."""

    kind: Text
    layout: Text
    where: Text
    durability: Text
    largest_task: Count
    #: A waiting worker learns of a new task after this many seconds at the latest.
    wake_bound: Seconds
    #: The folder in which pools on this machine keep their papers, and by which it is found; empty if there is none.
    papers: Text = ""
    #: Whether a keeper of its own looks after it: then pools need not.
    kept: bool = False
    #: What a person should know of how it is kept here.
    warnings: Texts = ()


class Member(Protocol):
    """A worker that stays: its claims are given back at once when its process dies."""

    worker: str

    def leave(self) -> None:
        """It ends in good order."""


class Tasks(Protocol):
    """What happens to a task: each verb has happened or has not."""

    def allot(self, parents: Sequence[str]) -> list[str]:
        """Ids nobody has, for tasks about to be put: one for each, under this parent where ids tell."""

    def vet(self, tasks: Sequence[Task]) -> None:
        """Invalid or TooLarge if one of these cannot be carried here; nothing is changed."""

    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Each is in the queue for good: CREATED, EXISTS (same wish) or CONFLICT (other content)."""

    def claim(self, want: Want) -> list[Claim]:
        """Up to `want.count` tasks are this worker's. Quiescent: exactly by priority, then age."""

    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """Each lasts another lease: OK, CANCEL (somebody asks us to stop) or LOST."""

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """Each claim has ended, all of it or nothing: OK, ALREADY or LOST."""

    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Each failed task is ready again with these bytes, its result set aside: OK or LOST."""

    def stop(self, ids: Sequence[str]) -> None:
        """Ask the holders of these to stop; they learn it when they renew."""

    def wait(self, timeout: float) -> bool:
        """Sleep until something may have become ready, or that many seconds. May wake for nothing."""


class Looking(Protocol):
    """What there is, and what has happened. Changes nothing."""

    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Each task as it stands, with its result and its tries; None if there is none of that id."""

    def resolve(self, text: str) -> list[str]:
        """The ids this may mean: itself, the number it is short for, or all that begin with it; no text is none."""

    def page(self, state: State | None = None, after: str = "", limit: int = 1000, *, tied: bool = False) -> Page:
        """A page of tasks, ready ones in the order they will be taken. Pages are not a snapshot.

        `tied`: ready tasks that nothing can hold (no need, time, hold, path or planner) may be left out.
        """

    def counts(self) -> dict[State, int]:
        """How many tasks are in each state."""

    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """Lines of the changelog after a cursor, and the next cursor; CursorLost if that place is gone."""

    def latest(self, limit: int) -> tuple[list[Event], str]:
        """The newest lines of the changelog, oldest first, and the cursor after them; without reading those before."""


class Locks(Protocol):
    """Names of people's own choosing, each with one holder at a time."""

    def lock(self, name: str, worker: str, seconds: float, kind: str = "") -> Lock:
        """This name is the worker's for so long, with a number larger than any before. Lost: who has it.

        Whoever has it already under this very name keeps it, and its number, for another while.
        """

    def relock(self, lock: Lock, seconds: float) -> Said:
        """It lasts another while: OK, or LOST if it was taken over; nothing is changed then."""

    def unlock(self, lock: Lock) -> Said:
        """The name is free: OK, or LOST if it was not this lock's any more; another's is never freed."""

    def locks(self) -> list[Lock]:
        """Names that are held, also those whose time is over and that nobody has taken yet."""


class Upkeep(Protocol):
    """What keeps a queue in order, and what is kept beside its tasks."""

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """Claims that may be given to somebody else. A worker that renews is never among them."""

    def mend(self, *, dry_run: bool = False) -> list[Mend]:
        """What a crash or a foreign hand left undone is done. Anybody may, at any time, any number at once."""

    def fix(self, *, dry_run: bool = False) -> list[Mend]:
        """The same and what needs a person's word, who has given it; nothing is pruned, content is never deleted."""

    def check(self) -> list[Mend]:
        """What is out of order here, for people to read; nothing is changed."""

    def compost(self, *, dry_run: bool = False) -> list[Mend]:
        """Old working logs are summarised, then pruned; old results pruned as the settings say."""

    def record(self, events: Sequence[Event]) -> None:
        """These lines are in the changelog."""

    def note(self, task_id: str, text: str, worker: str) -> None:
        """A note for people stands beside the task, whatever its state."""


class Files(Protocol):
    """What runs print, and the files they leave. Only who has a task may add to its own: Lost for anybody else."""

    def keep_log(self, worker: str, data: bytes) -> str:
        """A working log is kept until it is composted; where."""

    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """A piece of what a run prints stands at this byte of its log, for all to read; how long the log is now.

        What is there already stays as it is; a piece that would leave a gap is not taken. Nothing, at byte 0, begins
        the log again. TooLarge beyond what a log may have.
        """

    def end_log(self, claim: Claim) -> str:
        """The log that was added to is a working log like any other; where it is kept, empty if there was none."""

    def read_log(self, task_id: str, start: int, size: int) -> tuple[bytes, int]:
        """So many bytes of what the task's run prints, or its last one printed, and how many there are."""

    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """These bytes are kept with the task under this name, in place of any before. Invalid for another digest."""

    def artifacts(self, task_id: str) -> list[Artifact]:
        """The files that are kept with a task, by name."""

    def read_artifact(self, task_id: str, name: str) -> bytes:
        """One of them; NotFound if there is none of that name."""


class Store(Tasks, Looking, Locks, Upkeep, Files, Protocol):
    """A space of tasks: all five, who works here, and whether anything is given out."""

    def pause(self, reason: str, seconds: float, worker: str) -> None:
        """Nobody is given anything for so long, or until `resume` if 0; who works goes on."""

    def resume(self, worker: str) -> bool:
        """Tasks are given out again; False if they were all the time."""

    def paused(self) -> str:
        """Who paused the queue, why and until when; empty if nobody did."""

    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> Member:
        """A worker that stays begins; claims of its name's last owner lapse. Lost if the name is in use.

        A judge looking after the name's last owner may have it for an instant: `patience` is how long to try.
        """

    def info(self) -> Info:
        """What this store is and what it promises."""

    def close(self) -> None:
        """Let go of what it holds open."""


class OpenStore(Store, Protocol):
    """A store as its address gives it: with the queue's settings and its clock."""

    config: Config
    clock: Clock


def turn(store: Tasks, ends: Sequence[End], wants: Sequence[Want]) -> tuple[list[Said], list[list[Claim]]]:
    """Ends, then claims, several workers' at once: one call where the store has one for it, else one by one."""
    fused = getattr(store, "turn", None)
    if fused is not None:
        told: tuple[list[Said], list[list[Claim]]] = fused(ends, wants)
        return told
    return store.finish(ends) if ends else [], [store.claim(want) for want in wants]
