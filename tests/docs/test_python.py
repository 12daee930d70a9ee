"""The Python in the docs runs, page by page as one program, and a strict type checker accepts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from waits import PATIENCE

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: What the reference shows are signatures, written by the program.
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "reference" not in page.parts and BLOCK.search(page.read_text(encoding="utf-8"))
]


def program(page: Path, where: Path) -> Path:
    """All the Python of a page, each line where the page has it: a complaint names the page's own line."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for found in BLOCK.finditer(text):
        first = text[: found.start(1)].count("\n")
        block = found[1].splitlines()
        lines[first : first + len(block)] = block
    path = where / f"{page.stem}_page.py"
    path.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
    return path


def test_there_are_pages():
    assert "python.md" in [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_it_runs(page, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-W", "error", program(page, tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_types_are_strict(tmp_path):
    pages = [program(page, tmp_path) for page in PAGES]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *pages],  # by our own settings, so that it knows what `make check` has read
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
