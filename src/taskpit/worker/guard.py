"""Outlives a pool that was killed, for a moment: ends the commands it has left behind.

A pool that dies without warning cannot stop its commands, and its tasks are given to others at once: two
agents would work on one task, in one place. So each pool has one of these, which is told every group the
pool starts and ends (`+123`, `-123`, one on a line). When the line breaks, the pool is gone, and whatever
is still on the list is stopped. It is started by its path and imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time

__all__ = ["Guard"]

#: Seconds between asking the left-behind to stop and killing them.
GRACE = 2.0


class Guard:
    """The pool's end of the line. What is in `keep` stays open until all is cleared up: a lock, say."""

    def __init__(self, *keep: int) -> None:
        import subprocess
        import threading

        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            pass_fds=keep,
            start_new_session=True,
        )

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        with self._turn:
            try:
                if pipe is not None:
                    os.write(pipe.fileno(), line.encode())
            except OSError:
                return  # it was killed; the work goes on without it

    def started(self, group: int) -> None:
        """The pool has a new group."""
        self._tell(f"+{group}\n")

    def ended(self, group: int) -> None:
        """The group is gone."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """The pool ends in good order."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def _tell_all(groups: set[int], number: int) -> bool:
    """Everybody still there has been told; False if nobody is."""
    for group in list(groups):
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            groups.discard(group)
    return bool(groups)


def main() -> None:
    """Listen until the line breaks, then clear up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the pool decides, by ending
    groups: set[int] = set()
    with open(0, encoding="ascii") as line:
        for word in line:
            if word.endswith("\n"):
                (groups.add if word[0] == "+" else groups.discard)(int(word[1:]))
    deadline = time.monotonic() + GRACE
    alive = _tell_all(groups, signal.SIGTERM)
    while alive and time.monotonic() < deadline:
        time.sleep(0.02)
        alive = _tell_all(groups, 0)
    _tell_all(groups, signal.SIGKILL)


if __name__ == "__main__":
    main()
