"""Telling the outside that something has happened: one command per event, run by another process.

The end of a claim leaves a note in `.taskpit/hooks/` and goes on; a process of its own runs the commands,
so no worker waits for one and no verb fails with one. Notes are files: those that a killed runner left are
found by the next. So a hook runs at least once.

    <time>-<nonce>.json   one event and its command; gone when the command has ended
    runner-<uid>          locked by the process that runs them: one process per user
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from taskpit import fs
from taskpit.clock import iso
from taskpit.config import Hooks
from taskpit.errors import Untrusted
from taskpit.model import Claim, End
from taskpit.policy import REVIEW, REVIEWER
from taskpit.store.port import Store
from taskpit.trust import name_for, state_dir

__all__ = ["lock_of", "spool_of", "tell", "tell_ends"]

#: What the end of a claim is called here, by the changelog's word for it.
ENDS = {"completed_task": "done", "failed_task": "failed", "choked_task": "choked", "asked": "ask"}
#: How much of an output is told; the whole of it is in the queue.
LONGEST_OUTPUT = 64 * 1024


def tell_ends(store: Store, hooks: Hooks, ends: Iterable[End]) -> None:
    """The hooks for it are given that these claims have ended."""
    for end in ends:
        _tell_end(store, hooks, end)


def _tell_end(store: Store, hooks: Hooks, end: End) -> None:
    event = ENDS.get(end.action, "")
    if end.action == "recovered_task" and end.task is not None and end.task.hold:
        event = "choked"  # it has lost its worker too often: a person must look, as after the same failure thrice
    waits = end.task.hold if end.action == "handed_in" and end.task is not None else ""
    if waits.startswith(REVIEW) and not waits.startswith(REVIEWER):
        event = "review"
    if event not in hooks.commands:
        return
    facts: dict[str, Any] = {}
    if end.result is not None:
        text = end.result
        facts["result"] = {
            "verdict": str(text.verdict),
            "reason": text.reason,
            "output": text.output[:LONGEST_OUTPUT],
            "seconds": text.seconds,
            "cost": dict(text.cost),
        }
    tell(store, hooks, event, claim=end.claim, details=end.details, **facts)


def tell(
    store: Store,
    hooks: Hooks,
    event: str,
    *,
    claim: Claim | None = None,
    details: str = "",
    worker: str = "",
    **facts: object,
) -> None:
    """The hooks for this event are given it. Never fails: what cannot be told is no reason to undo anything."""
    argv = hooks.commands.get(event)
    if not argv:
        return
    info = store.info()
    said = {"schema": 1, "event": event, "queue": info.where, "at": iso(time.time())}
    if claim is not None:
        task = claim.task
        said |= {"id": task.id, "title": task.title, "priority": task.priority, "tags": list(task.tags)}
        said |= {"parent": task.parent, "attempt": claim.attempt}
        worker = claim.worker
    said |= {"worker": worker, "details": details, **facts}
    note = {"argv": list(argv), "timeout": hooks.timeout, "parallel": hooks.parallel, "event": said}
    try:
        spool = spool_of(info.where)
        name = f"{time.time_ns():020}-{fs.fresh_name()}.json"
        fs.create(f"{spool}/.{name}", json.dumps(note, ensure_ascii=False).encode("utf-8", "replace"), sync=False)
        fs.move(f"{spool}/.{name}", f"{spool}/{name}")
        _run(spool)
    except (OSError, Untrusted):
        return


def spool_of(where: str) -> str:
    """Where this queue's notes lie: among the user's own state, since whatever lies there is run."""
    return state_dir("hooks", name_for(where))


def lock_of(spool: str) -> fs.Flock:
    """What the one who runs this user's hooks holds."""
    return fs.Flock(f"{spool}/runner-{os.geteuid()}")


def _run(spool: str) -> None:
    """A process runs what lies there. One who is about to end looks once more after letting go of the lock."""
    lock = lock_of(spool)
    if not lock.take(wait=False):
        return
    lock.drop()
    # A shell that ends at once leaves its child to nobody: no worker has to wait for it, none gets its signals.
    command = '"$@" </dev/null >/dev/null 2>&1 &'
    argv = ["sh", "-c", command, "sh", sys.executable, "-P", "-m", "taskpit.hooks.run", spool]
    os.waitpid(os.posix_spawn("/bin/sh", argv, os.environ, setpgroup=0), 0)
