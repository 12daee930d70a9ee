"""One wheel and one sdist, built by this environment's hatchling, for all tests that look at them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waits import PATIENCE
from world import once

ROOT = Path(__file__).parents[2]


def build(target: Path, *, source: Path = ROOT) -> dict[str, Path]:
    """A fresh wheel and sdist in the folder."""
    env = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(target)],
        cwd=source,
        env=env,
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return found(target)


def found(target: Path) -> dict[str, Path]:
    """What was built there."""
    return {"wheel": next(target.glob("*.whl")), "sdist": next(target.glob("*.tar.gz"))}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return found(once(tmp_path_factory, "dist", build))
