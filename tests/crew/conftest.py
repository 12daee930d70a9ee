from __future__ import annotations

import pytest
from zoo import Zoo


@pytest.fixture
def zoo(tmp_path):
    zoo = Zoo(tmp_path / "zoo")
    yield zoo
    zoo.close()
