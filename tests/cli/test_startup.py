"""How a command begins and ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waits import PATIENCE

pytestmark = pytest.mark.mechanism


def test_a_closed_pipe_ends_the_listing(pit):
    pit("add", "x")
    run = [sys.executable, "-m", "taskpit", "list"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        listing.stdout.close()
        assert listing.wait(timeout=PATIENCE) in (120, 141)
