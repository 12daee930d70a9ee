"""Work items in a folder, and a clock that stands."""

from __future__ import annotations

import pytest
from workitems import make


@pytest.fixture
def queue(tmp_path, clock):
    """An empty queue of work items."""
    queue = make(tmp_path / "queue", clock)
    yield queue
    queue.close()
