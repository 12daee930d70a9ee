"""The run directory: the files of one attempt, one directory per claim. The only module that knows where.

.taskpit/runs/<id>.<attempt>.<nonce>/
    task.md     the task's text
    prompt.md   the same as one would tell it, with what failed before; not for a command that does not name it
    log         what the command printed
    events      what an agent printed to stdout, until it is added to the log
    errors      what it printed to stderr, likewise
    agent       which agent works here, while it does
    result.md   what the command wants to be published, if it writes it
    artifacts/  files that the command wants to be kept with its task
    done        the command has said `pit done`: the pool checks and ends the claim
.taskpit/groups/<worker>   which process ends the command that this worker runs now, and in which run

Agents write here: names have nothing in them that one of them takes for another system's (`~1` is a short name on
Windows, and refused), and what is read back is a plain file of ordinary size, or nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

from taskpit import fs, held_directories, trust, workers
from taskpit.clock import boot_id
from taskpit.errors import TaskpitError
from taskpit.run.process import birth_of, end_marked, is_group_alive, tell_group
from taskpit.run.reaper import born
from taskpit.store.run_files import MOST_ARTIFACTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from taskpit.model import Card, Claim
    from taskpit.queue import Queue
    from taskpit.store.port import Store

#: Larger results are cut in the queue and stay whole where they are.
LARGEST_RESULT = 1024 * 1024
#: What we write there ourselves, beside a result and, where there is no other place for them, programs.
FILES = frozenset(("done", "task.md", "prompt.md", "log", "events", "errors", "agent", "steer", "told"))
#: No log is longer: what writes it keeps it shorter.
LARGEST_LOG = 64 * 1024 * 1024


class RunDirectory:
    """The directory of one attempt, and what lies in it."""

    def __init__(self, path: str, programs: str = "") -> None:
        """`programs`: where `pit` stands for many runs; without it that is in here."""
        self.path = path
        self.task = f"{path}/task.md"
        self.prompt = f"{path}/prompt.md"
        self.log = f"{path}/log"
        self.events = f"{path}/events"
        self.errors = f"{path}/errors"
        self.agent = f"{path}/agent"
        self.result = f"{path}/result.md"
        self.artifacts = f"{path}/artifacts"
        self.done = f"{path}/done"
        self.bin = programs or f"{path}/bin"

    def make(self) -> None:
        """It is there, and so is `pit`."""
        fs.make_dir(self.path)
        if self.bin.startswith(self.path):
            fs.make_dir(self.bin)
            _write_programs(self.bin)

    def write_task(self, text: bytes) -> None:
        """The task's text is this."""
        try:
            fs.create(self.task, text, sync=False)
        except FileExistsError:
            fs.write(self.task, text)  # a directory that serves for one round after another

    def read_log(self) -> bytes:
        """What was printed so far."""
        if not fs.file_size(self.log):
            return b""
        try:
            return fs.tail(self.log, LARGEST_LOG)
        except (fs.NotAFile, fs.NotADirectory):
            return b""  # the command has put something else there: nothing of that is ours to keep

    def last_words(self, size: int = 1024) -> bytes:
        """The end of what was printed so far."""
        try:
            return fs.tail(self.log, size)
        except OSError:
            return b""

    def read_result(self) -> str | None:
        """What the command wrote for us, or None if it wrote nothing."""
        try:
            data = fs.piece(self.result, 0, LARGEST_RESULT + 1)
        except (fs.NotAFile, fs.NotADirectory):
            return f"[{self.result} is not a regular file, so nothing of it was read]"
        except OSError:
            return None
        text = data[:LARGEST_RESULT].decode("utf-8", "replace").strip()
        if len(data) > LARGEST_RESULT:
            text += f"\n\n[cut here; the whole is in {self.result}]"
        return text or None

    def left(self) -> list[tuple[str, str]]:
        """The files that it wants to be kept, by name, and where each is; a few more than are kept."""
        if not fs.exists(self.artifacts):
            return []
        try:
            names = sorted(fs.names(self.artifacts))[: MOST_ARTIFACTS + 1]
        except OSError:
            return []  # something else stands there
        return [(name, f"{self.artifacts}/{name}") for name in names]

    def hand_in(self, output: str) -> None:
        """From inside the run: this is what it brought, and it is finished."""
        if output:
            fs.replace(self.result, output.encode("utf-8", "replace"), sync=False)
        fs.replace(self.done, b"", sync=False)

    def is_handed_in(self) -> bool:
        """Whether the run has said that it is finished."""
        return fs.exists(self.done)

    def clear(self) -> None:
        """Our own files are gone: their content is in the queue. What the command left here stays."""
        try:
            fs.remove(self.task)
            fs.remove(self.log)
            with suppress(OSError):  # mostly there is nothing else
                fs.remove_dir(self.path)
                return
            for name in fs.names(self.path):
                if name in FILES:
                    fs.remove(f"{self.path}/{name}")
                elif name == "result.md":
                    status = fs.status(self.result)
                    if status is not None and status.st_size <= LARGEST_RESULT:
                        fs.remove(self.result)
                elif name == "bin":
                    fs.remove(f"{self.path}/bin/pit")
                    fs.remove(f"{self.path}/bin/path")
                    fs.remove_dir(f"{self.path}/bin")
                elif name == "artifacts":
                    with suppress(OSError):  # what could not be kept stays
                        fs.remove_dir(self.artifacts)
            fs.remove_dir(self.path)
        except OSError:
            return  # not empty, or not ours to remove
        finally:
            held_directories.forget(self.path)  # it would take the place of one that is still used


def _runs(store: Store) -> str | None:
    """The directory of all of them; None if the store has no folder for files."""
    folder = store.info().papers
    if not folder:
        return None
    fs.wall(folder, keep=True)
    return f"{folder}/{workers.RUNS}"


def programs() -> str:
    """Where `pit` stands for the commands of a pool, for agents whose shells have a path of their own: among this
    user's own state, where nobody else writes. Empty if nothing can be kept there.
    """
    try:
        folder = trust.state_dir(f"bin-{trust.name_for(sys.executable)[:12]}")
        _write_programs(folder)
    except (OSError, TaskpitError):
        return ""
    return folder


def _write_programs(folder: str) -> None:
    script = f'#!/bin/sh\nexec "{sys.executable}" -P -m taskpit "$@"\n'
    fs.replace(f"{folder}/pit", script.encode(), sync=False, mode=0o755)
    fs.replace(f"{folder}/path", f'PATH="{folder}:$PATH"\n'.encode(), sync=False)


class RunPlaces:
    """Where the runs of many claims have their directories."""

    def __init__(self, store: Store, programs: str = "") -> None:
        self._runs = _runs(store)
        self._programs = programs

    def of(self, claim: Claim) -> RunDirectory:
        """The directory for this claim; `make` makes it."""
        if self._runs is None:
            import tempfile

            return RunDirectory(tempfile.mkdtemp(prefix=f"taskpit-{claim.task.id}-"), self._programs)
        return RunDirectory(_directory_in(self._runs, claim), self._programs)


def directory_of(store: Store, claim: Claim) -> str:
    """Where this claim's run has its files, whether or not it has begun."""
    return _directory_in(_runs(store) or "/nowhere", claim)


def _directory_in(runs: str, claim: Claim) -> str:
    fence = claim.fence if workers.MARK in claim.fence else f"{claim.fence}{workers.MARK}{fs.fresh_name()}"
    return workers.run_path(runs, claim.task.id, claim.attempt, fence)


def directory_for(store: Store, card: Card) -> str:
    """Where the run of the worker that holds this task has its files; empty if there is none here."""
    runs, nonce = _runs(store), card.worker.partition(workers.MARK)[2]
    mine = [name for name, words in _left(runs) if words[0] == card.task.id and words[2] == nonce]
    return f"{runs}/{mine[0]}" if mine and nonce else ""


def prune(store: Store, age: float) -> None:
    """Files that a killed pool left behind are cleared once they are that old and nobody holds their claim."""
    runs = _runs(store)
    for name, words in _left(runs):
        status = fs.status(f"{runs}/{name}")
        if status is None or time.time() - status.st_mtime < age:
            continue
        card = store.read([words[0]])[0]
        if card is None or workers.MARK not in card.worker or not card.worker.endswith(workers.MARK + words[2]):
            RunDirectory(f"{runs}/{name}").clear()


def _left(runs: str | None) -> Iterator[tuple[str, list[str]]]:
    for name in fs.names(runs) if runs else ():
        words = name.rsplit(".", 2)
        if len(words) == 3:
            yield name, words


# -- commands of a claim that is given to another worker -------------------------------------------
# They are ended first, so that no two work on one task.
# A pool writes down the number of the reaper of what each of its workers runs. Before the task is given back
# that reaper is asked to end its command and all of that; the task is left alone while it can't: a process that
# hangs in the kernel must not get a twin. Knows processes and the run's directory, nothing of leases.


#: How long a command may take to be gone, and how long of that it is asked before it is killed.
PATIENCE, ASKED = 5.0, 3.0
#: No such note is longer.
LONGEST_NOTE = 4096


class GroupNote:
    """Which group of processes works in which run for one worker: a file that the pool has open while it runs.

    A run may be able to write there too: the line carries a seal of ours, or a command in its sandbox would choose
    what is killed outside.
    """

    def __init__(self, store: Store, worker: str) -> None:
        self._path = _note_of(store, worker)
        self._fd = -1

    def write(self, directory: str, group: int) -> None:
        """This group works in this run from now on."""
        if not self._path:
            return  # nobody could find it
        if self._fd < 0:
            groups = os.path.dirname(self._path)
            fs.make_dir(groups)
            fs.remove(self._path)  # what was left by another, perhaps another user
            self._fd, _ = fs.open_regular(self._path, fs.WRITE)
            self._seal = trust.sealer(groups)
        line = f"{os.path.basename(directory)} {group} {birth_of(group)} {boot_id()}".encode()
        os.pwrite(self._fd, b"%s %s\n" % (line, self._seal(line).encode()), 0)

    def strike(self) -> None:
        """It is over."""
        if self._fd >= 0:
            os.pwrite(self._fd, b"-", 0)  # its seal is broken; cutting the file short would take the disk longer

    def close(self) -> None:
        """The worker runs nothing any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with suppress(OSError):
                fs.remove(self._path)


def end_commands_of(queue: Queue, claim: Claim) -> bool:
    """End every process that works for this claim on this machine; False if one cannot be ended.

    Its reaper is asked first. Processes whose pool, reaper and guard were all killed are found by their environment.
    """
    return _end_group(queue, claim) and end_marked(directory_of(queue.store, claim))


def _end_group(queue: Queue, claim: Claim) -> bool:
    group = reaper_of(queue.store, claim)
    if not group:
        return True
    tell_group(group, signal.SIGCONT)
    tell_group(group, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while is_group_alive(group):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if left <= PATIENCE - ASKED:
            tell_group(group, signal.SIGKILL)
        time.sleep(0.01)
        if not reaper_of(queue.store, claim):
            return True  # its pool has seen the end of it; the reaper may have another command by now
    return True


def _note_of(store: Store, worker: str) -> str:
    """Where the note of this worker is; empty where there is no place for one."""
    runs = _runs(store)
    return f"{os.path.dirname(runs)}/groups/{worker}" if runs and "/" not in worker else ""


def reaper_of(store: Store, claim: Claim) -> int:
    """The reaper of what works for this claim, as its pool has written it: also its group; 0 if there is none."""
    path = _note_of(store, workers.base(claim.worker))
    try:
        data = fs.read(path, LONGEST_NOTE)[0] if path else b""
    except OSError:
        return 0  # nothing of ours runs there
    line, _, seal = data.partition(b"\n")[0].rpartition(b" ")  # below it may be the end of an older, longer one
    words = line.decode("ascii", "replace").split()
    if (
        len(words) != 4
        or words[3] != boot_id()
        or seal.decode("ascii", "replace") != trust.seal(os.path.dirname(path), line)
    ):
        return 0
    if words[0] != os.path.basename(directory_of(store, claim)):
        return 0  # the worker has gone on to another task
    group = int(words[1])
    leader = born(group)
    if group <= 1 or group == os.getpgrp() or (leader and str(leader) != words[2]):
        return 0  # the number is somebody else's by now; without a leader it can be nobody else's
    return group
