"""Failures of the contract show their values, although it is not a test module of ours."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("taskpit.testing.chapters")
