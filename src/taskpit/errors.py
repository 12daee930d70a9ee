"""Everything that can go wrong, as one tree. Knows exit codes and words, touches nothing.

TaskpitError                 1   root; carries code, message, hint, details
├── Nothing                  3   there is nothing to claim
│   └── Held                 3   the named task may not be taken yet
├── Lost                     4   another worker holds it, or the claim is over
├── NotFound                 5   no such task, queue or file
├── Invalid                  6   the input cannot be what it says it is
│   ├── Conflict             6   the id exists with other content, or in a state that forbids this
│   └── TooLarge             6   over the stated limit
├── CheckFailed              7   the task's own check is red
├── Storage                  8   the folder is missing, not writable, full, or cannot do hard links
│   ├── Unavailable          8   nothing happened; try again
│   └── Unknown              8   it may have happened; the hint says how to repeat it
├── CursorLost               1   that place in the changelog is gone; start from a listing
├── Untrusted                9   this user has not trusted the queue's folder: it may run and connect to nothing
├── Denied                   9   the token that was shown to a gateway is not for this
└── MissingExtra             1   this verb needs an optional part that is not installed
"""

from __future__ import annotations

import os
import sys

__all__ = [
    "CheckFailed",
    "Conflict",
    "CursorLost",
    "Denied",
    "Held",
    "Invalid",
    "Lost",
    "MissingExtra",
    "NotFound",
    "Nothing",
    "Storage",
    "TaskpitError",
    "TooLarge",
    "Unavailable",
    "Unknown",
    "Untrusted",
]


class TaskpitError(Exception):
    """Something went wrong."""

    #: The machine's word for it, stable across releases.
    code = "error"
    #: What the command line exits with.
    exit_code = 1

    def __init__(self, message: str = "", *, hint: str = "", **details: object) -> None:
        self.message = message or (self.__doc__ or "").strip()
        #: What to do next, as a sentence; never a destructive command.
        self.hint = hint
        #: Facts a program can use: the id, the holder, the path.
        self.details = details
        super().__init__(self.message)


class Nothing(TaskpitError):
    """There is nothing to claim."""

    code = "nothing_to_claim"
    exit_code = 3


class Held(Nothing):
    """This task may not be taken yet."""

    code = "held"


class Lost(TaskpitError):
    """The claim is over: another worker holds this task or has finished it."""

    code = "lost"
    exit_code = 4


class NotFound(TaskpitError):
    """There is no such task."""

    code = "not_found"
    exit_code = 5


class Invalid(TaskpitError):
    """The input is not valid."""

    code = "invalid"
    exit_code = 6


class Conflict(Invalid):
    """This id exists already with other content, or the task stands where this cannot be done to it."""

    code = "conflict"


class TooLarge(Invalid):
    """The input is larger than the queue takes."""

    code = "too_large"


class CheckFailed(TaskpitError):
    """The task's check is red."""

    code = "check_failed"
    exit_code = 7


class Storage(TaskpitError):
    """The queue's folder cannot be used."""

    code = "storage"
    exit_code = 8


class Unavailable(Storage):
    """The store cannot be reached; nothing happened."""

    code = "unavailable"


class Unknown(Storage):
    """It may have happened; the hint says how to repeat it."""

    code = "unknown_outcome"


class CursorLost(TaskpitError):
    """That place in the changelog is gone; start again from a listing."""

    code = "cursor_lost"


class Untrusted(TaskpitError):
    """This user has not trusted the queue's folder: it may run and connect to nothing."""

    code = "untrusted"
    exit_code = 9


class Denied(TaskpitError):
    """The token that was shown is not for this."""

    code = "denied"
    exit_code = 9


def install_hint(extra: str) -> str:
    """Say how to add an extra to the environment that runs this program, with the tool that made that environment."""
    wanted = f"'taskpit[{extra}]'"
    if os.path.exists(f"{sys.prefix}/pipx_metadata.json"):
        command = f"pipx runpip {os.path.basename(sys.prefix)} install {wanted}"
    elif os.path.exists(f"{sys.prefix}/uv-receipt.toml"):
        command = f"uv pip install --python {sys.executable} {wanted}"
    elif sys.prefix in (sys.base_prefix, os.environ.get("VIRTUAL_ENV")):
        command = f"pip install {wanted}"
    else:
        command = f"{sys.executable} -m pip install {wanted}"
    return f"Install it with: {command}"


class MissingExtra(TaskpitError):
    """This needs an optional part that is not installed."""

    code = "missing_extra"
