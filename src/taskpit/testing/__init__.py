"""For people who write a store: the contract it must keep, as tests, and a clock that stands still.

    class TestMine(StoreContract):
        def make_store(self, clock):
            return MyStore(clock)

A store is what passes them. Run them with pytest; every test begins with an empty store and a clock that stands still.
What differs from store to store can be overridden: see `taskpit.testing.chapters.steps`.
"""

from __future__ import annotations

from taskpit.testing.chapters.claiming import Claiming
from taskpit.testing.chapters.filing import Filing
from taskpit.testing.chapters.finishing import Finishing
from taskpit.testing.chapters.holding import Holding
from taskpit.testing.chapters.limiting import Limiting
from taskpit.testing.chapters.locking import Locking
from taskpit.testing.chapters.looking import Looking
from taskpit.testing.chapters.putting import Putting
from taskpit.testing.clock import FakeClock

__all__ = ["FakeClock", "StoreContract"]


class StoreContract(Putting, Claiming, Limiting, Holding, Finishing, Filing, Looking, Locking):
    """Everything a store must do. Subclass it, override `make_store`, and run pytest."""
