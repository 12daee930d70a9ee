"""Whoever is stopped in the middle of an append keeps nobody waiting for long."""

from __future__ import annotations

import pytest

from taskpit import fs
from taskpit.store import flock


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(fs, "TURN", 0.005)
    monkeypatch.setattr(flock, "TURN", 0.005)
