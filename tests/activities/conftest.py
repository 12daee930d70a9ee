"""Many small folders: in memory, where there is room for them."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from workitems import make

from taskpit.testing import FakeClock

MEMORY = "/dev/shm"


@pytest.fixture
def tmp_path(tmp_path):
    """A folder for many folders, gone afterwards."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    where = tempfile.mkdtemp(prefix="taskpit-", dir=MEMORY)
    yield type(tmp_path)(where)
    shutil.rmtree(where)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def queue(tmp_path, clock):
    """An empty queue of work items."""
    queue = make(tmp_path / "queue", clock)
    yield queue
    queue.close()
