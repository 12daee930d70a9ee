from __future__ import annotations

import pytest
from ground import Ground
from world import require


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    """Nothing of the user's own is met, and nothing is left there."""
    require("git")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()


@pytest.fixture
def ground(tmp_path):
    made = Ground(tmp_path)
    yield made
    made.close()
