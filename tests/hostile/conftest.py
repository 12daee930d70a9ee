"""Where hostile queues are made."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path):
    """Where thousands of queues are made: in memory, if there is such a place."""
    if not os.access("/dev/shm", os.W_OK | os.X_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="taskpit-hostile-"))
    yield folder
    shutil.rmtree(folder)
