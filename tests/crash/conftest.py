"""Thousands of small folders: in memory, where there is room for them."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

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
