"""Whether an agent itself says that it has our server: its own list is asked. Starts its program, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
from shutil import which

from taskpit.agents.environment import without_secrets
from taskpit.records import Value
from taskpit.setup.agent_files import LISTS, NAME
from taskpit.text import fit, plain

__all__ = ["Listed", "listed"]

#: How long its program may take: some start every server that they list.
PATIENCE = 90.0
#: Words by which a list says that a server is there and not reached.
NOT_YET = re.compile(r"(?i)pending|disabled|disconnected|not connected|fail|error|unauthori|needs|\u2717|\u25cb")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Listed(Value):
    """What an agent says of our server."""

    #: yes, no, or unknown: it cannot be asked here.
    listed: str
    told: str = ""


def listed(agent: str, project: str) -> Listed:
    """What its own list says, in this folder."""
    command = LISTS.get(agent)
    if command is None:
        return Listed(listed="unknown")
    shown = " ".join(command)
    if which(command[0]) is None:
        return Listed(listed="unknown", told=f"{command[0]} is not installed here, so its own list was not asked")
    try:
        ran = subprocess.run(
            command,
            cwd=project,
            env=without_secrets(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Listed(listed="unknown", told=f"`{shown}` gave no answer: {type(error).__name__}")
    said = (ran.stdout + b"\n" + ran.stderr).decode("utf-8", "replace")
    lines = [" ".join(plain(_COLOURS.sub("", line)).split()) for line in said.splitlines()]
    ours = next((line for line in lines if re.search(rf"\b{NAME}\b", line)), "")
    if not ours:
        return Listed(listed="no", told=f"`{shown}` does not list {NAME}")
    told = f"`{shown}` says: {fit(ours, 160)}"
    return Listed(listed="no" if NOT_YET.search(ours) else "yes", told=told)
