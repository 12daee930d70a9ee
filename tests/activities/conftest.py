"""Many small folders: in memory, where there is room for them."""

from __future__ import annotations

import pytest
from workitems import make
from world import in_memory as tmp_path

from taskpit.testing import FakeClock

__all__ = ["tmp_path"]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def queue(tmp_path, clock):
    """An empty queue of work items."""
    queue = make(tmp_path / "queue", clock)
    yield queue
    queue.close()
