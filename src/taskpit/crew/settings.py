"""One place in a crew: an agent or a service, as a value that can be written down and read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskpit import schema
from taskpit.landing.values import Terms, spelled
from taskpit.records import Value

#: How long one may be silent unless told otherwise.
STALL = 900.0


class BackendSettings(Value):
    """How agents of one sort are run."""

    name: str
    preset: str = ""
    command: tuple[str, ...] = ()
    #: The program to use instead of the preset's own.
    bin: str = ""
    flags: tuple[str, ...] = ()
    model: str = ""
    #: How the prompt goes in: by `{prompt_file}`, on standard input, or as the last argument; empty: the usual way.
    prompt: str = ""
    #: How many may run at once, 0: any number.
    limit: int = 0
    #: Seconds between two starts.
    stagger: float = 0.0
    #: Hours of the day in which nothing is started on it.
    quiet: str = ""


class Post(Terms):
    """One process of the crew, with all that it needs to know, also how its work lands."""

    name: str
    #: tasks: takes tasks; rounds: sweeps; session: runs its prompt at its own pace; service: a plain command.
    kind: str
    role: str = ""
    #: Where its commands and its tasks' checks run.
    cwd: str = ""
    backend: BackendSettings | None = None
    #: A service's command.
    command: tuple[str, ...] = ()
    model: str = ""
    #: The file that says what it is told to be.
    prompt: str = ""
    tags: tuple[str, ...] = ()
    #: Seconds a claim lasts, 0: as the queue has it; seconds a run may take.
    lease: float = 0.0
    limit: float = 3600.0
    #: Seconds of silence after which it counts as stalled; 0 is the usual.
    stall: float = 0.0
    #: What its work may cost, each as `$5/day` or `30m/task`.
    budget: tuple[str, ...] = ()
    #: How its work lands; empty: as `worktree` and `merge` say, the older spellings of `branch` and `merge`.
    land: str = ""
    red_first: bool = False
    review_limit: int = 0
    worktree: bool = False
    merge: str = "none"
    #: Shut in by bubblewrap, its network on or off; empty: not at all.
    sandbox: str = ""
    watch: str = "heal"
    #: Seconds between rounds, or between sessions that don't say when the next one should be.
    every: float = 60.0

    @property
    def patience(self) -> float:
        """Seconds of silence after which it counts as stalled."""
        return self.stall or STALL

    @property
    def seen_by_checks(self) -> tuple[str, ...]:
        """Patterns of what checks may see: after an agent no more than it was to see, else all that we see."""
        return self.env if self.backend is not None and self.backend.preset else ("*",)

    def terms(self) -> Terms:
        """How its work lands."""
        own = {name: getattr(self, name) for name in Terms._fields}
        land = self.land or spelled(worktree=self.worktree, merge=self.merge)
        return Terms(**{**own, "land": land, "env": self.seen_by_checks})

    def facts(self) -> dict[str, object]:
        """As JSON has it."""
        return {**self.as_dict(), "backend": self.backend and self.backend.as_dict()}

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Post:
        """Read again what `facts` said."""
        backend = facts.get("backend")
        return schema.load(cls, facts, backend=schema.load(BackendSettings, backend) if backend else None)


class Crew(Value):
    """All posts of one file, in its order."""

    path: str
    posts: tuple[Post, ...]
