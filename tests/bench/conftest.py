"""The benchmark's own modules can be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def arena(monkeypatch):
    """`import arena` finds it."""
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "arena"]:
        del sys.modules[name]
