"""Failures of the contract show their values, although it is not a test module of ours.

Here, at the root, since it must come before anything imports it.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("taskpit.testing.chapters")
