"""Sessions as documents show them: run in one shell, each command's output beside what the page says.

A ```console block is a session: lines after `$ ` are run by sh, lines after `> ` continue them, the lines
below are what they print. `...` stands for anything, also for whole lines. The blocks of one page share a
folder and one shell: a line that is only `cd` or `export` counts for those that follow, any other line
begins where the page stands.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from waits import PATIENCE

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LASTING = re.compile(r"(cd|export) [^&|;]*")
MARK = "~~ said with exit code "


class Said(NamedTuple):
    """A command, what the page shows, and what it printed."""

    command: str
    shown: str
    printed: str

    @property
    def agrees(self) -> bool:
        pattern = ".*".join(re.escape(part) for part in self.shown.split("..."))
        return re.fullmatch(pattern, self.printed, re.DOTALL) is not None

    def __str__(self) -> str:
        return f"$ {self.command}\nshown:\n{self.shown}\nprinted:\n{self.printed}"


def pages() -> list[Path]:
    """Every page that is not a generated one."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(page for page in found if "reference" not in page.parts)


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a page, each with what it should print."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif (line == ">" or line.startswith("> ")) and found and not found[-1][1]:
                found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
            else:
                found[-1][1].append(line)
    return [(command, "\n".join(lines).strip()) for command, lines in found]


def play(text: str, folder: Path, programs: str = "", **more: str) -> list[Said]:
    """Run a page's commands in the folder, with the `pit` of this environment or of that folder of programs.

    `more` is told to the commands by their environment.
    """
    told = commands(text)
    env = {
        "PATH": f"{programs or Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LOGNAME": "ada",
        "TASKPIT_AS": "ada@home",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        **more,
    }
    lines = []
    for command, _ in told:
        lines.append(command if LASTING.fullmatch(command) else f"(\n{command}\n)")
        lines.append(f"printf '\\n{MARK}%s\\n' \"$?\"")
    ran = subprocess.run(
        ["/bin/sh", "-c", "exec 2>&1\n" + "\n".join(lines)],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    parts = re.split(rf"\n{MARK}\d+\n", ran.stdout)
    assert len(parts) == len(told) + 1, ran.stdout
    return [Said(command, shown, printed.strip()) for (command, shown), printed in zip(told, parts, strict=False)]
