"""Failures of the contract show their values, although it is not a test module of ours.

Here, at the root, since it must come before anything imports it. And nothing is judged by how long it takes
on a machine that others use, too. The world of each test is made by support/world.py.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from rotation import examples

pytest_plugins = ["world", "costs", "choice"]
pytest.register_assert_rewrite("taskpit.testing.chapters")
settings.register_profile(
    "patient", max_examples=examples(100, 2), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture
def clock():
    """A clock that stands until the test moves it."""
    from taskpit.testing import FakeClock

    return FakeClock()
