from __future__ import annotations

import pytest

from taskpit import Queue
from taskpit.store.opening import init


@pytest.fixture
def root(tmp_path):
    """A queue whose pauses are short."""
    path = tmp_path / "pit"
    init(str(path), "pit")
    (path / ".taskpit/config.toml").write_text('durability = "process"\nbackoff = "0.05s"\nbackoff_longest = "0.1s"\n')
    return path


@pytest.fixture
def queue(root):
    with Queue.open(root) as queue:
        yield queue
