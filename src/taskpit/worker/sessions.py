"""Which session of which agent worked on a task, so that the next attempt can go on in it.

.taskpit/sessions/<task id>          preset, session, where it worked, and in which attempt it began
.taskpit/sessions/<task id>~review   the same of its reviewer, whose session is never its builder's

Written before the agent is started where the session's name is ours, else as soon as it is told. A session
serves the attempt it began in, however often that is cut short, and the next one; after that a fresh mind
is the better one. In a queue that is no folder nothing is kept.
"""

from __future__ import annotations

import json
import os
import time

from taskpit import fs, schema
from taskpit.agents.reported import session_name
from taskpit.errors import Invalid
from taskpit.records import Value
from taskpit.schema import path_of
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskpit.task import Claim

__all__ = ["Session", "Sessions"]

#: Attempts after its first one that a session serves.
FURTHER = 1
#: After this long agents forget their sessions, and so do we.
KEPT = 30 * 86400.0


class Session(Value):
    """A session of an agent."""

    preset: str
    session: str
    #: Agents look for their sessions by the directory they worked in.
    cwd: str
    attempt: int = 1
    #: What the agent has counted in this session so far, where it counts the whole session.
    counted: Mapping[str, object] = {}


class Sessions:
    """The sessions of one queue."""

    def __init__(self, where: str, role: str = "") -> None:
        self._rest = f"~{role}" if role else ""
        self._root = f"{where}/.taskpit" if os.path.isdir(f"{where}/.taskpit") else ""

    def _path(self, task_id: str) -> str:
        return path_of(f"{self._root}/sessions", task_id, self._rest)

    def find(self, claim: Claim, preset: str, cwd: str) -> Session | None:
        """The session this attempt should go on in, or None."""
        if not self._root:
            return None
        try:
            found = schema.load(Session, read_json(fs.read(self._path(claim.task.id), 65536)[0]))
        except (OSError, ValueError, Invalid):
            return None
        fits = found.preset == preset and found.cwd == cwd and 0 <= claim.attempt - found.attempt <= FURTHER
        return found if fits and session_name(found.session) else None

    def keep(self, claim: Claim, session: Session) -> None:
        """It is written down, whole; a disk that refuses costs a resumption, not the run."""
        if not self._root:
            return
        try:
            fs.make_dir(f"{self._root}/sessions")
            data = json.dumps(session.as_dict()).encode()
            fs.replace(self._path(claim.task.id), data, f"{self._root}/sessions/.{fs.fresh_name(12)}", sync=False)
        except OSError:
            return

    def forget(self, claim: Claim) -> None:
        """There is no such session any more."""
        if self._root:
            fs.remove(self._path(claim.task.id))

    def prune(self) -> None:
        """Those that agents have forgotten are gone."""
        folder = f"{self._root}/sessions"
        for name in fs.names(folder) if self._root else ():
            status = fs.status(f"{folder}/{name}")
            if status is not None and time.time() - status.st_mtime > KEPT:
                fs.remove(f"{folder}/{name}")
