"""For people who write a store: the contract it must keep, a clock that stands still, faults to order."""

from __future__ import annotations

from taskpit.testing.clock import FakeClock
from taskpit.testing.contract import StoreContract

__all__ = ["FakeClock", "StoreContract"]
