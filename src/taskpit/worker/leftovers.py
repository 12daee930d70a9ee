"""Commands of a claim that is given to another worker: ended first, so that no two work on one task.

A pool writes down the number of each command's reaper, in the run's directory. Before the task is given back
that reaper is asked to end its command and all of that; the task is left alone while it can't: a process that
hangs in the kernel must not get a twin. Knows processes and the run's directory, nothing of leases.
"""

from __future__ import annotations

import os
import signal
import time

from taskpit import fs
from taskpit.clock import boot_id
from taskpit.worker.process import anybody, born, tell_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.queue import Queue
    from taskpit.task import Claim

__all__ = ["end_commands_of", "note", "strike"]

#: How long a command may take to be gone, and how long of that it is asked before it is killed.
PATIENCE, ASKED = 5.0, 3.0


def note(directory: str, group: int) -> None:
    """This group works in this run from now on."""
    fs.write(f"{directory}/group", f"{group} {born(group)} {boot_id()}\n".encode("ascii"))


def strike(directory: str) -> None:
    """It is over."""
    try:
        fs.remove(f"{directory}/group")
    except OSError:
        return  # the directory goes anyway, or the disk refuses: a number that is not born then is nobody


def end_commands_of(queue: Queue, claim: Claim) -> bool:
    """Whatever still works for this claim on this machine is gone; False if it can't be ended."""
    from taskpit.worker.run_directory import directory_of

    directory = directory_of(queue.store, claim)
    try:
        words = fs.read(f"{directory}/group", 4096)[0].decode("ascii", "replace").split()
    except OSError:
        return True  # nothing of ours runs there
    if len(words) != 3 or not words[0].isdecimal() or words[2] != boot_id():
        return True
    group = int(words[0])
    leader = born(group)
    if group <= 1 or group == os.getpgrp() or (leader and str(leader) != words[1]):
        return True  # the number is somebody else's by now; without a leader it can be nobody else's
    tell_group(group, signal.SIGCONT)
    tell_group(group, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while anybody(group):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if left <= PATIENCE - ASKED:
            tell_group(group, signal.SIGKILL)
        time.sleep(0.01)
    return True
