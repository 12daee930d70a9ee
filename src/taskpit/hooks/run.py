"""The process that runs hooks: `python -m taskpit.hooks.run DIR`. Runs what lies there, some at a time, and ends.

A command is given the event as JSON on standard input and its plain facts in the environment; nothing a task
says is ever part of a command. One that takes too long is killed with all its children. What goes wrong is a line
in the queue's changelog.
"""

from __future__ import annotations

import json
import os
import queue as queues
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any

from taskpit import fs
from taskpit.clock import iso, say_duration
from taskpit.decode import read_json
from taskpit.errors import TaskpitError
from taskpit.hooks import lock_of
from taskpit.model import Event
from taskpit.store.opening import open_store
from taskpit.text import last_lines

#: How often new notes are looked for while commands run, in seconds.
LOOK_AGAIN = 0.2
#: How much of what a command printed is told when it failed, and the longest text in its environment.
TAIL, LONGEST_TEXT = 2000, 4096
LARGEST_NOTE = 16 * 1024 * 1024
#: What tells a worker's command which claim it acts for: a hook acts for none.
NOT_FOR_HOOKS = ("TASKPIT_AS", "TASKPIT_TASK", "TASKPIT_FILE", "TASKPIT_RUN_DIR", "TASKPIT_ATTEMPT")


def main(argv: list[str]) -> int:
    """Run until nothing is left, unless another process does."""
    spool = argv[0]
    with suppress(OSError):
        os.setsid()
    while _notes(spool):
        lock = lock_of(spool)
        if not lock.take(wait=False):
            return 0
        try:
            _Round(spool).run()
        finally:
            lock.drop()  # who left a note meanwhile saw the lock and went: so look again
    return 0


def _notes(spool: str) -> list[str]:
    """This user's notes, oldest first; another user's are run by theirs."""
    names = [name for name in fs.names(spool) if name.endswith(".json") and not name.startswith(".")]
    return [name for name in sorted(names) if _is_mine(f"{spool}/{name}")]


def _is_mine(path: str) -> bool:
    status = fs.status(path)
    return status is not None and status.st_uid == os.geteuid()


class _Round:
    """Runs every note, as many at once as they say."""

    def __init__(self, spool: str) -> None:
        self.spool = spool
        self._running: set[str] = set()
        self._ended: queues.SimpleQueue[str] = queues.SimpleQueue()

    def run(self) -> None:
        """Until none is left."""
        while True:
            self._start()
            if not self._running:
                return
            with suppress(queues.Empty):
                self._running.discard(self._ended.get(timeout=LOOK_AGAIN))

    def _start(self) -> None:
        for name in _notes(self.spool):
            if name in self._running:
                continue
            note = _read(f"{self.spool}/{name}")
            if len(self._running) >= max(int(note.get("parallel", 1)), 1):
                return
            self._running.add(name)
            threading.Thread(target=self._one, args=(name, note), daemon=True).start()

    def _one(self, name: str, note: dict[str, Any]) -> None:
        try:
            why = _execute(note) if note else "its note cannot be read"
            if why:
                _record(note.get("event", {}), why)
        finally:
            fs.remove(f"{self.spool}/{name}")
            self._ended.put(name)


def _read(path: str) -> dict[str, Any]:
    try:
        note = read_json(fs.read(path, LARGEST_NOTE)[0])
    except (OSError, ValueError):
        return {}
    usable = isinstance(note, dict) and isinstance(note.get("argv"), list) and isinstance(note.get("event"), dict)
    return note if usable else {}


def _execute(note: dict[str, Any]) -> str:
    """The command has run; why that went wrong, or nothing."""
    argv, event, limit = note["argv"], note["event"], float(note.get("timeout", 30.0))
    where = str(event.get("queue", ""))
    with tempfile.TemporaryFile() as text:
        text.write(json.dumps(event).encode() + b"\n")
        text.seek(0)
        try:
            process = subprocess.Popen(
                argv,
                cwd=where if os.path.isdir(where) else "/",
                env=_environment(event),
                stdin=text,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return f"{argv[0]} cannot be run: {getattr(error, 'strerror', None) or error}"
    tail = _listen(process, time.monotonic() + limit)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"it took longer than {say_duration(limit)} and was killed"
    if process.returncode == 0:
        return ""
    words = " ".join(last_lines(tail, 3).split())
    return f"exit code {process.returncode}" + (f": {words}" if words else "")


def _environment(event: dict[str, Any]) -> dict[str, str]:
    known = {key: value for key, value in os.environ.items() if key not in NOT_FOR_HOOKS}
    for key in ("event", "id", "title", "worker", "details"):
        text = str(event.get(key, "")).replace("\0", "")
        known[f"TASKPIT_{key.upper()}"] = text.encode("utf-8", "replace")[:LONGEST_TEXT].decode("utf-8", "ignore")
    return {**known, "TASKPIT_DIR": str(event.get("queue", ""))}


def _listen(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """The end of what it prints, until it ends or its time is over; however much that is, little is kept."""
    tail = b""
    stream = process.stdout
    if stream is None:
        return tail
    with stream:
        while process.poll() is None and (left := deadline - time.monotonic()) > 0:
            if not select.select([stream], [], [], min(left, LOOK_AGAIN))[0]:
                continue
            data = os.read(stream.fileno(), 65536)
            tail = (tail + data)[-TAIL:]
            if not data:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(left)
                return tail
        while select.select([stream], [], [], 0)[0] and (data := os.read(stream.fileno(), 65536)):
            tail = (tail + data)[-TAIL:]
            if time.monotonic() > deadline:
                break
    return tail


def _record(event: dict[str, Any], why: str) -> None:
    """The queue's changelog says that a hook failed."""
    line = Event(
        timestamp=iso(time.time()),
        worker="hooks",
        worker_type="system",
        action="hook_failed",
        task_id=str(event.get("id", "")),
        details=f"the hook for {event.get('event', '?')}: {why}",
    )
    try:
        store = open_store(str(event.get("queue", "")), os.environ)
        store.record([line])
        store.close()
    except (TaskpitError, OSError):
        return  # the queue is gone or full: there is nobody left to tell


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
