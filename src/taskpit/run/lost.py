"""Settle a claim whose pool is gone, before it is given back: end its processes, and enter what its agent cost."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from taskpit import fs
from taskpit.errors import TaskpitError
from taskpit.run.agent_runner import AgentNote, add_to_log, cost_of
from taskpit.run.budget import Ledger
from taskpit.run.preset import find, places
from taskpit.run.process import LONGEST_LOG
from taskpit.run.run_directory import RunDirectory, directory_of, end_commands_of
from taskpit.run.transcript import Transcript

if TYPE_CHECKING:
    from taskpit.model import Claim
    from taskpit.queue import Queue

#: No note about an agent is larger.
LARGEST_NOTE = 65536


def settle(queue: Queue, claim: Claim) -> bool:
    """End every process that works for this claim here, and enter its cost; False if a process cannot be ended."""
    if not end_commands_of(queue, claim):
        return False
    with suppress(OSError, TaskpitError, msgspec.MsgspecError):
        _enter_cost(queue, claim)
    return True


def _enter_cost(queue: Queue, claim: Claim) -> None:
    """Enter the cost of an agent that was killed with its pool, as far as its events tell; once for each run."""
    place, root = RunDirectory(directory_of(queue.store, claim)), queue.store.info().papers
    if not root or not fs.exists(place.agent):
        return
    note = msgspec.json.decode(fs.read(place.agent, LARGEST_NOTE)[0], type=AgentNote)
    cost: dict[str, object] = {"agent": note.preset, **({"model": note.model} if note.model else {})}
    with suppress(TaskpitError):  # the preset is gone: its cost is unknown
        transcript = Transcript(find(note.preset, places(root)))
        transcript.hear(fs.tail(place.events, LONGEST_LOG).splitlines(keepends=True))
        transcript.close()
        cost = cost_of(transcript, note.model, note.session, note.counted, root)
    now = queue.clock.now()
    fs.remove(place.agent)
    add_to_log(place)
    Ledger(root).enter(claim.task.id, claim.worker, cost, max(now - note.began, 0.0), now, done=False)
