"""A workspace, and a clock that stands."""

from __future__ import annotations

import pytest
from boxes import make


@pytest.fixture
def queue(tmp_path, clock):
    queue = make(tmp_path / "space", "workspace", clock)
    yield queue
    queue.close()


@pytest.fixture
def space(queue):
    return queue.store.folder.root
