"""One run: where, how much, until when, and what came of it. Shared by all scenes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from arena.stats import Book

if TYPE_CHECKING:
    from arena.entrants import Entrant

__all__ = ["GROUPS", "Run"]

#: What `--only` may name beside entrants.
GROUPS = ("life", "batch", "power", "wake", "backlog", "oneshot", "crowd", "idle", "looks", "runner", "processor")


@dataclass
class Run:
    """A run of the benchmark."""

    disk: str
    quick: bool
    entrants: dict[str, Entrant]
    #: Groups of scenes and entrants that are wanted; empty is all.
    only: frozenset[str] = frozenset()
    book: Book = field(default_factory=Book)

    def __post_init__(self) -> None:
        self.root = mkdtemp(prefix=".bench-", dir=self.disk)
        os.chmod(self.root, 0o755)  # noqa: S103 - a server that refuses to be root must get to its folder
        #: Rounds of a scene, seconds of a lap, and seconds that one entrant may have of a scene.
        self.rounds, self.limit, self.patience = (2, 1.5, 1.5) if self.quick else (3, 6.0, 4.0)
        self.began = time.monotonic()
        self.deadline = self.began + (110 if self.quick else 1150)
        self._number = 0
        for name, entrant in self.entrants.items():
            reason = entrant.missing() if self.takes_part(name) else ""
            if reason:
                self.book.missing[name] = reason

    def wants(self, group: str) -> bool:
        """Whether this group of scenes is wanted."""
        groups = self.only & frozenset(GROUPS)
        return not groups or group in groups

    def takes_part(self, name: str) -> bool:
        """Whether this entrant is wanted; ours and the bare calls always are."""
        from arena.scenes import ALWAYS

        names = self.only - frozenset(GROUPS)
        return not names or name in names or name in ALWAYS

    def may_run(self, name: str, workers: int = 1) -> bool:
        """Whether it is wanted, is here, and can be shared by so many processes."""
        entrant = self.entrants.get(name)
        if entrant is None or name in self.book.missing or not self.takes_part(name):
            return False
        return not entrant.most_workers or workers <= entrant.most_workers

    def scaled(self, count: int, at_least: int = 1) -> int:
        """So many, or a tenth if it must be quick."""
        return max(count // 10 if self.quick else count, at_least)

    def fresh(self) -> str:
        """A folder nobody has used; not made yet."""
        self._number += 1
        return f"{self.root}/{self._number}"

    def is_over(self, scene: str, needed: float = 0.0) -> bool:
        """Whether the time is over, or would be; what is left out for that is written down."""
        if time.monotonic() + needed < self.deadline:
            return False
        self.book.left_out[scene] = "the time was over"
        return True

    def tell(self, text: str) -> None:
        """What is being done now, on stderr: one line written over on a terminal, lines elsewhere."""
        passed = time.monotonic() - self.began
        begin, end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")
        sys.stderr.write(f"{begin}{passed:5.0f} s  {text}{end}")
        sys.stderr.flush()

    def close(self) -> None:
        """No server runs, nothing is left on the disk but the results."""
        for entrant in self.entrants.values():
            entrant.end()
        self.tell("clearing up")
        shutil.rmtree(self.root, ignore_errors=True)
        self.tell("done")
        if sys.stderr.isatty():
            sys.stderr.write("\n")
