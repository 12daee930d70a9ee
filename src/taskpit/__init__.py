"""taskpit: a task queue that is a folder.

General layout, each room knowing only what is below it:

    cli, mcp, setup, tui, web surfaces
    aio, library              the queue as programs have it
    demo, crew, worker        runs work
    board, search             what a person looks at, and looks for
    queue, keeper             what should happen next
    store                     did it happen exactly once (files, memory)
    layouts                   names and spellings, pure
    fs, watch, workers        every system call, nothing about tasks
    model, policy, rules, config, clock, errors   values: the standard library and msgspec only
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskpit.errors import TaskpitError
    from taskpit.library import Job, Queue
    from taskpit.model import Ask, Claim, Done, Failed, Release, Result, Retry, Split, State, Task

__version__ = "0.1.0"

__all__ = [
    "Ask",
    "Claim",
    "Done",
    "Failed",
    "Job",
    "Queue",
    "Release",
    "Result",
    "Retry",
    "Split",
    "State",
    "Task",
    "TaskpitError",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Public names are loaded when first used: a command pays only for what it needs."""
    if name not in __all__:
        raise AttributeError(f"module 'taskpit' has no attribute {name!r}")
    import importlib

    room = {"Job": "library", "Queue": "library", "TaskpitError": "errors"}.get(name, "model")
    return getattr(importlib.import_module(f"taskpit.{room}"), name)
