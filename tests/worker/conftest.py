from __future__ import annotations

import pytest
from workshop import Pit


@pytest.fixture
def pit(tmp_path):
    pit = Pit(tmp_path / "pit")
    yield pit
    pit.close()
