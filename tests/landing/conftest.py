from __future__ import annotations

import pytest
from ground import Ground, own_state


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    own_state(tmp_path, monkeypatch)


@pytest.fixture
def ground(tmp_path):
    made = Ground(tmp_path)
    yield made
    made.close()
