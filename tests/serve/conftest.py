"""What these tests share: the user's own state lies in a temporary folder, and a served queue ends with its test."""

from __future__ import annotations

import pytest
from gateways import Served
from pits import CONFIG

from taskpit.clock import Clock
from taskpit.queue import Queue
from taskpit.store.opening import init, open_store


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def served(tmp_path, request):
    """A folder behind a gateway in a thread of this process: a pit, or what the test is given."""
    root = str(tmp_path / "pit")
    init(root, getattr(request, "param", "pit"))
    store = open_store(root, {}, Clock())
    store.folder.config = store.config = CONFIG
    one = Served(Queue(store, CONFIG, store.clock))
    yield one
    one.close()
