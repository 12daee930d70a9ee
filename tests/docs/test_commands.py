"""Every command shown in the README and the docs is run, and what it prints is what they show.

A ```console block is a session in a fresh folder: lines after `$ ` are run by sh, the lines below are
what they print. `...` stands for anything, also for whole lines. Blocks of one page share their folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "```console" in page.read_text(encoding="utf-8") and page.name != "postgres.md"  # tests/postgres has a server
)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a session, each with what it should print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(lines).strip()) for command, lines in found]


def as_pattern(shown: str) -> re.Pattern[str]:
    parts = (re.escape(part) for part in shown.split("..."))
    return re.compile(".*".join(parts), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path, {})


def run(page: Path, tmp_path: Path, more: dict[str, str]) -> None:
    """Run the sessions of a page in a fresh folder."""
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LOGNAME": "ada",
        "TASKPIT_AS": "ada@home",
        "NO_COLOR": "1",
        **more,
    }
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for command, shown in commands(block):
            ran = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            printed = (ran.stdout + ran.stderr).strip()
            assert as_pattern(shown).fullmatch(printed), f"$ {command}\nshown:\n{shown}\nprinted:\n{printed}"
