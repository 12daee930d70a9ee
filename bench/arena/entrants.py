"""What takes part: the shape of an entrant. Ours, every peer and the bare calls each are one."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from typing import Any

__all__ = ["PAYLOAD", "RESULT", "Entrant", "Session", "needs_command", "needs_module"]

#: What a task carries and what its result says.
PAYLOAD = b"x" * 500
RESULT = b"ok"


class Session:
    """An entrant as one process has it open. Items, tokens: whatever the entrant makes of them."""

    def items(self, first: int, count: int) -> list[Any]:  # noqa: ARG002 - most need no numbers
        """Tasks to put, made before the clock runs."""
        return [PAYLOAD] * count

    def put(self, items: list[Any]) -> None:
        """All of these are in the queue."""
        raise NotImplementedError

    def claim(self, count: int) -> list[Any]:
        """Up to so many tasks are ours, read; empty if there is none."""
        raise NotImplementedError

    def done(self, tokens: list[Any]) -> None:
        """All of these are finished, with a result where the entrant has such a thing."""

    def take(self, timeout: float) -> list[Any]:
        """One task, once there is one; waits as this entrant waits best."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go."""


class Entrant:
    """Something that may be measured."""

    name = ""
    #: What survives: `process` (kill -9), `power` (a power loss), or how much may be lost.
    durability = "process"
    #: What it does not do, and how it is used here.
    note = ""
    #: More processes than this can't share it; 0 is no limit.
    most_workers = 0

    def __init__(self) -> None:
        self.root = ""

    def missing(self) -> str:
        """Why it cannot run here; empty if it can."""
        return ""

    def start(self, root: str) -> None:
        """A fresh, empty queue in this folder."""
        self.root = root
        os.makedirs(root)

    def open(self) -> Session:
        """The queue, for one process."""
        raise NotImplementedError

    def stop(self) -> None:
        """The queue is gone."""
        shutil.rmtree(self.root, ignore_errors=True)

    def end(self) -> None:
        """No process of it is left."""


def needs_module(*names: str) -> str:
    """Why these cannot be imported."""
    try:
        for name in names:
            import_module(name)  # here, so that the processes of a race need not
    except ImportError as error:
        return f"the Python package {error.name or names[0]} is not installed"
    return ""


def needs_command(*names: str) -> str:
    """Why these cannot be run."""
    gone = [name for name in names if shutil.which(name) is None]
    return f"the command {', '.join(gone)} is not installed" if gone else ""
